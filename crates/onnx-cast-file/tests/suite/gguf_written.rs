//! GGUF files that are written, against those that the gguf package writes (`crates/testkit/data/gguf/families`), and
//! checkpoints that cannot become one.

use crate::common::replacing::{dequantize_file, quantize_file, transcode_file};
use onnx_cast::scaled::BlockFormat;
use onnx_cast::{DataType, Tensor};
use onnx_cast_file::{
    CandidateFormat, DequantizeRequest, Format, GgufFormat, Granularity, InputFile, InspectRequest, Layout, Loss,
    QuantizeRequest, QuantizedFormat, ReportRequest, RunOptions, Summary, TranscodeRequest, WeightFormat, inspect,
    read_tensors_from, report,
};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// Writes a `.safetensors` file.
fn save(path: &Path, tensors: &[(String, Tensor)]) {
    let (mut entries, mut data) = (Vec::new(), Vec::new());
    for (name, tensor) in tensors {
        let data_type = if tensor.data_type() == DataType::Bool { "BOOL" } else { "F32" };
        let begin = data.len();
        data.extend_from_slice(tensor.bytes().expect("numbers"));
        let (shape, span) = (tensor.shape(), [begin, data.len()]);
        entries.push(format!(r#""{name}":{{"dtype":"{data_type}","shape":{shape:?},"data_offsets":{span:?}}}"#));
    }
    let header = format!("{{{}}}", entries.join(","));
    fs::write(path, [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat()).expect("written");
}

/// The tensor of a name in a `.safetensors` file.
fn read(path: &Path, name: &str) -> Tensor {
    let read = read_tensors_from(InputFile::open(path).expect("a file"), Format::Safetensors, None).expect("tensors");
    read.into_iter().find(|tensor| tensor.name == name).expect(name).tensor
}

fn families() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../testkit/data/gguf/families")
}

fn request(to: &str) -> QuantizeRequest {
    QuantizeRequest::new(to.parse::<WeightFormat>().expect(to)).layout(Some(Layout::Gguf))
}

fn q8_0() -> QuantizeRequest {
    request("Q8_0")
}

/// Where two files differ, as people look for it.
fn assert_same(got: &Path, want: &Path) {
    let (got, bytes) = (fs::read(got).expect("the output"), fs::read(want).expect("the fixture"));
    let at = got.iter().zip(&bytes).position(|(got, want)| got != want);
    assert_eq!(at, None, "{} bytes in, {}", at.unwrap_or_default(), want.display());
    assert_eq!(got.len(), bytes.len(), "{}", want.display());
}

#[test]
fn every_family_gives_the_file_of_the_gguf_package() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut seen = 0;
    for family in fs::read_dir(families()).expect("the fixtures").map(|entry| entry.expect("an entry").path()) {
        let want = |end: &Path| {
            fs::read_dir(end).ok()?.map(|entry| entry.expect("an entry").path()).find(|path| is_gguf(path))
        };
        let Some(want) = want(&family) else { continue };
        let to = want.file_stem().expect("a type").to_string_lossy().into_owned();
        for input in [family.clone(), family.join("model.safetensors")] {
            let output = folder.path().join("out.gguf");
            let done = quantize_file(&input, &output, &request(&to)).expect("quantized");
            assert_same(&output, &want);
            assert_eq!(done.left_out.last().map(|(name, _)| &**name), Some("tokenizer.ggml"));
            seen += 1;
        }
    }
    assert_eq!(seen, 20);
}

fn is_gguf(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "gguf")
}

#[test]
fn hard_blocks_are_those_of_the_gguf_package() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = folder.path().join("out.gguf");
    for to in ["Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "MXFP4", "F16", "BF16"] {
        quantize_file(families().join("hard.safetensors"), &output, &request(to)).expect("quantized");
        assert_same(&output, &families().join(format!("hard-{to}.gguf")));
    }
}

#[test]
fn names_of_formats_are_ours_and_those_of_ggml() {
    for (text, want) in [
        ("q8_0", QuantizedFormat::Gguf(GgufFormat::Q8_0)),
        ("Q8_0", QuantizedFormat::Gguf(GgufFormat::Q8_0)),
        ("F16", QuantizedFormat::Gguf(GgufFormat::Float16)),
        ("float16", QuantizedFormat::Gguf(GgufFormat::Float16)),
        ("bf16", QuantizedFormat::Gguf(GgufFormat::BFloat16)),
        ("MXFP4", QuantizedFormat::Block(BlockFormat::MxFp4)),
        ("mxfp4", QuantizedFormat::Block(BlockFormat::MxFp4)),
    ] {
        assert_eq!(text.parse(), Ok(want), "{text}");
    }
    for format in QuantizedFormat::all() {
        assert_eq!(format.name().parse(), Ok(format));
    }
}

/// The types of the tensors of a file.
fn types(path: &Path) -> Vec<(String, &'static str)> {
    let info = inspect(path, &InspectRequest::default()).expect("listed");
    assert_eq!(info.format, Format::Gguf);
    let kind = |data_type: Option<DataType>| data_type.map_or("", DataType::name);
    info.tensors.into_iter().map(|one| (one.name, one.block_type.unwrap_or(kind(one.data_type)))).collect()
}

#[test]
fn a_gguf_file_keeps_its_metadata_and_its_other_tensors() {
    let (folder, others) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let (first, second) = (folder.path().join("a.gguf"), folder.path().join("b.gguf"));
    let input = families().join("qwen3_moe/F16.gguf");
    let mut to = q8_0();
    to.selection.exclude = vec!["token_embd.weight".parse().expect("a pattern")];
    to.selection.rules = vec!["blk.0.attn_v.weight=Q4_0".parse().expect("a rule")];
    let done = quantize_file(&input, &first, &to).expect("quantized");
    assert!(done.left_out.is_empty(), "the metadata is that of the input");
    let of = |path: &Path, name: &str| {
        let found = types(path).into_iter().find(|(known, _)| known == name);
        found.map(|(_, kind)| kind).expect(name)
    };
    for (name, kind) in [
        ("token_embd.weight", "float16"),
        ("blk.0.attn_v.weight", "Q4_0"),
        ("blk.0.attn_q.weight", "Q8_0"),
        ("blk.0.ffn_up_exps.weight", "Q8_0"),
        ("blk.0.ffn_gate_inp.weight", "float"),
        ("blk.0.attn_norm.weight", "float"),
    ] {
        assert_eq!(of(&first, name), kind, "{name}");
    }
    // The metadata has the same bytes, but for the number of the file's type, which comes last.
    let (before, after) = (fs::read(&input).expect("the input"), fs::read(&first).expect("the output"));
    let end = before.windows(28).position(|bytes| bytes == b"general.quantization_version").expect("a key") - 8;
    assert_eq!(before[..end], after[..end]);
    assert_eq!(after[end + 8 + 28 + 8 + 8..][..17], *b"general.file_type");
    assert_eq!(after[end + 8 + 28 + 8 + 8 + 17..][..8], [4, 0, 0, 0, 7, 0, 0, 0]);
    // What is quantized is not quantized again, but may stay.
    let error = quantize_file(&first, &second, &q8_0()).expect_err("quantized already");
    let said = "Q8_0 is quantized already (`exclude` keeps the tensor; `dequantize` makes it plain)";
    assert!(error.to_string().ends_with(said), "{error}");
    assert!(!second.exists());
    let mut to = q8_0();
    to.selection.include = vec!["token_embd.weight".parse().expect("a pattern")];
    quantize_file(&first, &second, &to).expect("quantized");
    assert_eq!(of(&second, "token_embd.weight"), "Q8_0");
    let values = |path: &Path| {
        let plain = others.path().join("plain.safetensors");
        dequantize_file(path, &plain, &DequantizeRequest::new(DataType::Float)).expect("dequantized");
        read(&plain, "blk.0.attn_v.weight")
    };
    assert_eq!(values(&first), values(&second), "blocks that are copied");
}

/// A checkpoint of Llama with one layer, of which a test changes something.
#[derive(Clone)]
struct Made {
    config: Value,
    tensors: Vec<(String, Tensor)>,
}

fn floats(shape: &[usize]) -> Tensor {
    let len: usize = shape.iter().product();
    let values: Vec<f32> = (0..len).map(|index| ((index * 37 + 11) % 101) as f32 / 50.0 - 1.0).collect();
    Tensor::from_slice(shape.to_vec(), &values).expect("a tensor")
}

impl Made {
    fn good() -> Made {
        let config = json!({
            "model_type": "llama", "hidden_size": 64, "intermediate_size": 96, "max_position_embeddings": 128,
            "num_attention_heads": 4, "num_hidden_layers": 1, "num_key_value_heads": 2, "rms_norm_eps": 1e-6,
            "vocab_size": 5,
        });
        let tensors = [
            ("model.embed_tokens.weight", vec![5, 64]),
            ("model.layers.0.input_layernorm.weight", vec![64]),
            ("model.layers.0.self_attn.q_proj.weight", vec![64, 64]),
            ("model.layers.0.self_attn.k_proj.weight", vec![32, 64]),
            ("model.layers.0.mlp.down_proj.weight", vec![64, 96]),
            ("model.norm.weight", vec![64]),
        ];
        Made { config, tensors: tensors.map(|(name, shape)| (name.to_owned(), floats(&shape))).to_vec() }
    }

    fn with(name: &str, tensor: Tensor) -> Made {
        let mut made = Made::good();
        made.tensors.retain(|(known, _)| known != name);
        made.tensors.push((name.to_owned(), tensor));
        made
    }

    fn without(name: &str) -> Made {
        let mut made = Made::good();
        made.tensors.retain(|(known, _)| known != name);
        made
    }

    fn config(key: &str, value: Value) -> Made {
        let mut made = Made::good();
        made.config[key] = value;
        made
    }

    fn quantized(&self) -> Summary {
        self.quantized_to(q8_0())
    }

    fn quantized_to(&self, request: QuantizeRequest) -> Summary {
        let folder = tempfile::tempdir().expect("a folder");
        self.write(folder.path());
        quantize_file(folder.path(), folder.path().join("out.gguf"), &request).expect("quantized")
    }

    fn write(&self, folder: &Path) {
        save(&folder.join("model.safetensors"), &self.tensors);
        fs::write(folder.join("config.json"), self.config.to_string()).expect("written");
    }

    /// The error of a request; nothing is written.
    fn refused(&self, request: &QuantizeRequest) -> String {
        self.refused_as("out.gguf", request)
    }

    fn refused_as(&self, output: &str, request: &QuantizeRequest) -> String {
        let folder = tempfile::tempdir().expect("a folder");
        self.write(folder.path());
        let output = folder.path().join(output);
        let error = quantize_file(folder.path(), &output, request).expect_err("an error").to_string();
        assert_eq!(fs::read_dir(folder.path()).expect("the folder").count(), 2, "{error}");
        error.replace(&format!("{}/", folder.path().display()), "")
    }
}

#[test]
fn what_cannot_become_a_gguf_file_is_refused() {
    let expert = "model.layers.0.block_sparse_moe.experts";
    let mut mixtral = Made::config("model_type", json!("mixtral"));
    mixtral.tensors.retain(|(name, _)| !name.contains(".mlp."));
    let mut experts = |number: usize, shape: &[usize]| {
        mixtral.tensors.retain(|(name, _)| !name.contains("experts"));
        for (number, shape) in [(0, &[32, 64][..]), (number, shape)] {
            mixtral.tensors.push((format!("{expert}.{number}.w1.weight"), floats(shape)));
        }
        mixtral.refused(&q8_0())
    };
    let experts = [experts(2, &[32, 64]), experts(1 << 40, &[32, 64]), experts(1, &[64, 32])];
    assert_eq!(
        experts,
        [
            format!("model.safetensors: tensor `{expert}.0.w1.weight`: expert 1 of its layer is missing"),
            format!("model.safetensors: tensor `{expert}.0.w1.weight`: expert 1 of its layer is missing"),
            format!(
                "model.safetensors: tensor `{expert}.1.w1.weight`: another shape or type than `{expert}.0.w1.weight` \
                 has"
            ),
        ]
    );
    let mut wide = q8_0();
    wide.selection.rules = vec!["*q_proj*=q4_0".parse().expect("a rule")];
    let mut norms = q8_0();
    norms.selection.rules = vec!["*ids=q4_0".parse().expect("a rule")];
    let name = "model.layers.0.self_attn.q_proj.weight";
    let strange = "model.layers.0.self_attn.strange.weight";
    let mut missing = Made::good();
    missing.config.as_object_mut().expect("an object").remove("hidden_size");
    for (made, request, said) in [
        (
            Made::config("model_type", json!("gpt2")),
            q8_0(),
            "config.json: names in llama.cpp are unknown for `model_type` `gpt2` (known: llama, mistral, mixtral, \
             qwen2, \
             qwen3, qwen2_moe, qwen3_moe, gemma, gemma2, gemma3_text); llama.cpp's converter writes other models, as \
             .gguf files to quantize"
                .to_owned(),
        ),
        (missing, q8_0(), "config.json: `hidden_size` is missing".to_owned()),
        (
            Made::config("vocab_size", json!(-1)),
            q8_0(),
            "config.json: `vocab_size` is -1 (want a number from 0 to 2^32-1)".to_owned(),
        ),
        (
            Made::config("rms_norm_eps", json!("small")),
            q8_0(),
            "config.json: `rms_norm_eps` is \"small\" (want a number)".to_owned(),
        ),
        (
            Made::config("rope_scaling", json!({"rope_type": "longrope"})),
            q8_0(),
            "config.json: rotations scaled by `longrope` (want linear, yarn or llama3)".to_owned(),
        ),
        (
            Made::config("rope_scaling", json!({"type": "yarn", "factor": 2})),
            q8_0(),
            "config.json: yarn without `original_max_position_embeddings`".to_owned(),
        ),
        (
            Made::config("num_attention_heads", json!(3)),
            q8_0(),
            format!(
                "model.safetensors: tensor `{name}`: 64 rows are not those of 3 heads, each of an even number \
                 (`num_attention_heads`)"
            ),
        ),
        (
            Made::config("num_attention_heads", json!(0)),
            q8_0(),
            format!(
                "model.safetensors: tensor `{name}`: 64 rows are not those of 0 heads, each of an even number \
                 (`num_attention_heads`)"
            ),
        ),
        (
            Made::with(strange, floats(&[2, 32])),
            q8_0(),
            format!(
                "model.safetensors: tensor `{strange}`: its name in llama.cpp is unknown for the family `llama` \
                 (`exclude` \
                 leaves it out)"
            ),
        ),
        (
            Made::with(name, floats(&[64, 40])),
            wide,
            format!(
                "model.safetensors: tensor `{name}`: rows of 40 elements are not whole blocks of Q4_0 (want a multiple \
                 of 32)"
            ),
        ),
        (
            Made::with("lm_head.weight", Tensor::from_slice(vec![1], &[true]).expect("a tensor")),
            q8_0(),
            "model.safetensors: tensor `lm_head.weight`: bool, which llama.cpp has no type for (cast the tensor first)"
                .to_owned(),
        ),
    ] {
        assert_eq!(made.refused(&request), said);
    }
    let mut made = Made::good();
    made.config["model_type"] = json!("llama");
    let format: QuantizedFormat = "q8_0".parse().expect("a format");
    let by_tensor = QuantizeRequest::new(format.by(Some(Granularity::Tensor))).layout(Some(Layout::Gguf));
    assert!(made.refused(&by_tensor).contains("its blocks have 32 elements"), "{}", made.refused(&by_tensor));
    let other = q8_0().layout(Some(Layout::ModelOpt));
    assert!(made.refused_as("out", &other).contains("the layout has no such weights"));
}

#[test]
fn only_quantize_writes_gguf_files_and_only_there() {
    let folder = tempfile::tempdir().expect("a folder");
    Made::good().write(folder.path());
    let output = folder.path().join("out");
    let plain = folder.path().join("out.safetensors");
    for output in [&output, &plain] {
        let error = quantize_file(folder.path(), output, &q8_0()).expect_err("another format").to_string();
        let said = "q8_0: not a format of quantized weights in other files than .gguf (want an output .gguf)";
        assert!(error.ends_with(said), "{error}");
    }
    let error = quantize_file(folder.path(), &plain, &request("mxfp4")).expect_err("another format").to_string();
    assert!(error.ends_with("the layout gguf does not take .safetensors files (want .gguf)"), "{error}");
    // A format that only these files have tells the layout.
    let gguf = folder.path().join("out.gguf");
    let to = QuantizeRequest::new("q4_0".parse::<WeightFormat>().expect("a format"));
    quantize_file(folder.path(), &gguf, &to).expect("quantized");
    let mxfp4 = folder.path().join("mxfp4.safetensors");
    let to = QuantizeRequest::new(QuantizedFormat::Block(BlockFormat::MxFp4));
    quantize_file(folder.path().join("model.safetensors"), &mxfp4, &to).expect("quantized");
    let error = transcode_file(&mxfp4, folder.path().join("t.safetensors"), &TranscodeRequest::new(Layout::Gguf));
    let error = error.expect_err("no transcoding").to_string();
    assert!(error.contains("they are in .gguf files, which `quantize` writes of plain weights in files"), "{error}");
    let to = vec![CandidateFormat::Block(BlockFormat::MxFp4)];
    let error = report(&mxfp4, &ReportRequest::default().to(to).layout(Some(Layout::Gguf)));
    let error = error.expect_err("no prediction").to_string();
    assert!(error.ends_with("a report predicts the layouts of .safetensors files"), "{error}");
}

/// llama.cpp would load none of these, or compute another model.
#[test]
fn settings_and_sizes_that_llama_cpp_does_not_read_are_refused() {
    let yarn = |key: &str, value: Value| {
        let mut rotations = json!({"type": "yarn", "factor": 2, "original_max_position_embeddings": 64});
        rotations[key] = value;
        Made::config("rope_scaling", rotations)
    };
    let of = |model: &str, key: &str, value: Value| {
        let mut made = Made::config(key, value);
        made.config["model_type"] = json!(model);
        made
    };
    let gemma3 = |key: &str, value: Value| of("gemma3_text", key, value);
    let mut layers = Made::good();
    layers.tensors[2].0 = "model.layers.1.self_attn.q_proj.weight".to_owned();
    let mut two = layers.config.clone();
    two["num_hidden_layers"] = json!(2);
    for (made, said) in [
        (Made::config("hidden_act", json!("relu")), "`hidden_act` is \"relu\", which llama.cpp does not read"),
        (yarn("beta_fast", json!(16)), "`beta_fast` is 16, which llama.cpp does not read for this model (want 32)"),
        (yarn("attention_factor", json!(1.0)), "`attention_factor` is 1.0, which"),
        (yarn("mscale", json!(0.7)), "(want none: it is computed from `factor`)"),
        (yarn("truncate", json!(false)), "`truncate` is false, which"),
        (of("qwen2_moe", "norm_topk_prob", json!(true)), "`norm_topk_prob` is true, which"),
        (of("qwen3_moe", "norm_topk_prob", json!(false)), "`norm_topk_prob` is false, which"),
        (of("qwen3_moe", "mlp_only_layers", json!([0])), "`mlp_only_layers` is [0], which"),
        (of("qwen2_moe", "decoder_sparse_step", json!(2)), "(want 1, experts in every layer)"),
        (of("gemma2", "query_pre_attn_scalar", json!(144)), "(want the dimensions of a head)"),
        (gemma3("query_pre_attn_scalar", json!(168)), "(want the dimensions of a head)"),
        (gemma3("use_bidirectional_attention", json!(true)), "`use_bidirectional_attention` is true, which"),
        (gemma3("sliding_window_pattern", json!(2)), "`sliding_window_pattern` is 2, which"),
        (gemma3("layer_types", json!(["full_attention"])), "(want full attention in every sixth layer, and a window"),
        (Made::config("hidden_size", json!(32)), "`hidden_size` asks for 32 of the 64 of `token_embd.weight` (5x64)"),
        (Made::config("vocab_size", json!(6)), "`vocab_size` asks for 6 of the 5 of `token_embd.weight` (5x64)"),
        (Made::config("intermediate_size", json!(64)), "`intermediate_size` asks for 64 of the 96 of"),
        (Made::config("head_dim", json!(8)), "`num_attention_heads` asks for 32 of the 64 of `blk.0.attn_q.weight`"),
        (Made::config("num_hidden_layers", json!(2)), "`num_hidden_layers` is 2, and the tensors have 1 layers"),
        (layers.clone(), "`num_hidden_layers` is 1, and the tensors have 2 layers"),
        (Made::without("model.norm.weight"), "the model has no `output_norm.weight`, as llama.cpp calls it"),
        (
            Made { config: two, ..layers },
            "layer 0 has no `attn_q.weight`, as llama.cpp calls it, which another layer has",
        ),
    ] {
        let error = made.refused(&q8_0());
        assert!(error.starts_with("config.json: ") && error.contains(said), "{error}");
    }
    let mut biased = Made::with("model.layers.0.self_attn.o_proj.bias", floats(&[64]));
    assert!(biased.quantized().notes.is_empty(), "of llama, whose output layers may have one");
    biased.config["model_type"] = json!("qwen3");
    assert!(biased.refused(&q8_0()).contains("its name in llama.cpp is unknown for the family `qwen3`"));
    let windows = of("mistral", "sliding_window", json!(64)).quantized().notes;
    assert_eq!(windows, ["llama.cpp has no sliding window in mistral: beyond 64 tokens it computes another model"]);
    assert!(of("qwen2", "sliding_window", json!(64)).quantized().notes.is_empty(), "which is off");
}

#[test]
fn what_is_not_chosen_keeps_its_type_and_short_rows_become_float16() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut made = Made::with("model.layers.0.mlp.down_proj.weight", floats(&[64, 40]));
    made.config["intermediate_size"] = json!(40);
    made.tensors.push(("model.layers.0.self_attn.rotary_emb.inv_freq".to_owned(), floats(&[8])));
    made.tensors.push(("model.layers.0.strange".to_owned(), floats(&[8])));
    made.write(folder.path());
    let output = folder.path().join("out.gguf");
    let mut to = q8_0();
    to.selection.exclude = ["*embed*", "*strange"].map(|one| one.parse().expect("a pattern")).to_vec();
    let dry = to.clone().run(RunOptions::new().dry_run(true));
    let planned = quantize_file(folder.path(), &output, &dry).expect("a plan");
    assert!(!output.exists());
    let done = quantize_file(folder.path(), &output, &to).expect("quantized");
    assert_eq!(planned.tensors.len(), done.tensors.len());
    assert_eq!(planned.left_out, done.left_out);
    let short = "as float16: 40 columns are not whole blocks of 32";
    assert_eq!(done.passed_over, [("model.layers.0.mlp.down_proj.weight".to_owned(), short.to_owned())]);
    let left_out: Vec<&str> = done.left_out.iter().map(|(name, _)| &**name).collect();
    assert_eq!(left_out, ["model.layers.0.self_attn.rotary_emb.inv_freq", "model.layers.0.strange", "tokenizer.ggml"]);
    let want = [
        ("token_embd.weight", "float"),
        ("output_norm.weight", "float"),
        ("blk.0.attn_norm.weight", "float"),
        ("blk.0.attn_q.weight", "Q8_0"),
        ("blk.0.attn_k.weight", "Q8_0"),
        ("blk.0.ffn_down.weight", "float16"),
    ];
    let mut got = types(&output);
    got.sort();
    let mut want = want.map(|(name, kind)| (name.to_owned(), kind)).to_vec();
    want.sort();
    assert_eq!(got, want);
    let block_types: Vec<_> = done.tensors.iter().filter_map(|row| row.block_type).collect();
    assert_eq!(block_types, ["Q8_0"; 2]);
    // The same file again replaces it, and an interrupted run continues.
    quantize_file(folder.path(), &output, &to).expect("quantized again");
    let resumed = to.run(RunOptions::new().resume(true));
    assert_eq!(quantize_file(folder.path(), &output, &resumed).expect("there").already_there, 1);
}

#[test]
fn what_is_lost_is_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let name = "model.layers.0.mlp.down_proj.weight";
    let mut values = vec![0.5f32; 64 * 96];
    values[..32].fill(1e9);
    values[40] = f32::NAN;
    Made::with(name, Tensor::from_slice(vec![64, 96], &values).expect("a tensor")).write(folder.path());
    let output = folder.path().join("out.gguf");
    let done = quantize_file(folder.path(), &output, &q8_0()).expect("quantized");
    let warning = done.warning().expect("a warning");
    assert!(warning.to_string().contains("overflowed") && warning.to_string().contains("NaN"), "{warning}");
    fs::remove_file(&output).expect("removed");
    for loss in [Loss::Overflow, Loss::Nan] {
        let to = q8_0().run(RunOptions::new().fail_on(vec![loss]));
        let error = quantize_file(folder.path(), &output, &to).expect_err("a loss").to_string();
        assert!(error.contains("blk.0.ffn_down.weight"), "{error}");
        assert!(!output.exists());
    }
    // Scales are float16, which overflow long before floats do.
    let large = [("q8_0", 9e6f32), ("q4_0", 6e5), ("q4_1", 7e4), ("q5_0", 1.1e6), ("q5_1", 7e4)];
    for (to, value) in large {
        let values: Vec<f32> = (0..64 * 96).map(|index| if index % 2 == 0 { value } else { -value }).collect();
        let tensor = Tensor::from_slice(vec![64, 96], &values).expect("a tensor");
        let made = Made::with(name, tensor);
        let warning = made.quantized_to(request(to)).warning().map(|warning| warning.to_string());
        assert!(warning.is_some_and(|warning| warning.contains("values ")), "{to}");
    }
    // A block with NaN is NaN, whatever its type, and the others are themselves.
    let others = tempfile::tempdir().expect("a folder");
    for to in ["q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "mxfp4"] {
        quantize_file(folder.path(), &output, &request(to)).expect("quantized");
        let plain = others.path().join("plain.safetensors");
        let float = DequantizeRequest::new(DataType::Float).allow_nan(true);
        dequantize_file(&output, &plain, &float).expect("dequantized");
        let got = read(&plain, "blk.0.ffn_down.weight").to_vec::<f32>().expect("floats");
        let nan = got.iter().filter(|value| value.is_nan()).count();
        assert!(nan >= 32 && got[32..64].iter().all(|value| value.is_nan()), "{to}: {nan}");
        assert!((got[64] - 0.5).abs() < 0.05, "{to}: {}", got[64]);
    }
}

#[test]
fn rows_by_pairs_are_those_of_a_naive_copy_at_real_widths() {
    let folder = tempfile::tempdir().expect("a folder");
    let (heads, head, columns) = (3, 128, 18_432);
    let mut made = Made::with("model.layers.0.self_attn.q_proj.weight", floats(&[heads * head, columns]));
    made.tensors.retain(|(name, _)| name.contains("q_proj"));
    made.tensors.push(("model.embed_tokens.weight".to_owned(), floats(&[5, columns])));
    made.tensors.push(("model.norm.weight".to_owned(), floats(&[columns])));
    made.config["num_attention_heads"] = json!(heads);
    made.config["head_dim"] = json!(head);
    made.config["hidden_size"] = json!(columns);
    made.write(folder.path());
    let others = tempfile::tempdir().expect("a folder");
    let (output, plain) = (folder.path().join("out.gguf"), others.path().join("plain.safetensors"));
    for to in ["bf16", "q8_0"] {
        quantize_file(folder.path(), &output, &request(to)).expect("quantized");
        dequantize_file(&output, &plain, &DequantizeRequest::new(DataType::Float)).expect("dequantized");
        let got = read(&plain, "blk.0.attn_q.weight");
        let got: Vec<f32> = match got.data_type() {
            DataType::Float => got.to_vec::<f32>().expect("floats"),
            _ => got
                .bytes()
                .expect("bytes")
                .as_chunks::<2>()
                .0
                .iter()
                .map(|one| f32::from_bits(u32::from(u16::from_le_bytes(*one)) << 16))
                .collect(),
        };
        let values = floats(&[heads * head, columns]).to_vec::<f32>().expect("floats");
        for row in 0..heads * head {
            let (which, within) = (row / head, row % head);
            let from = which * head + within % 2 * (head / 2) + within / 2;
            for column in [0, 1, 31, 32, 9_000, columns - 1] {
                let (got, want) = (got[row * columns + column], values[from * columns + column]);
                assert!((got - want).abs() < 0.02, "{to}, row {row}, column {column}: {got}, not {want}");
            }
        }
    }
}
