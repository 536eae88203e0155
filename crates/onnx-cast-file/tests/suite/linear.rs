//! Which matrices are quantized by default, why others are kept, how configurations list those, and which share a
//! scale. `loaders.rs` has what loaders need of whole models.

use onnx_cast::scaled::BlockFormat;
use onnx_cast::{DataType, Tensor};
use onnx_cast_file::{
    Granularity, Layout, MadeTensors, NamedTensor, Pattern, QuantizeRequest, QuantizedFormat, Rule, Selection,
    TensorsInMemory, TranscodeRequest, WeightFormat, quantize_tensors, transcode_tensors,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const NVFP4: QuantizedFormat = QuantizedFormat::Block(BlockFormat::NvFp4);
const MXFP4: QuantizedFormat = QuantizedFormat::Block(BlockFormat::MxFp4);
const FP8: QuantizedFormat = QuantizedFormat::Elements(DataType::Float8E4M3FN);

/// Tensors of floats that all have one value.
fn filled(tensors: &[(&str, &[usize], f32)], config: &Value) -> TensorsInMemory {
    let tensor = |(name, shape, value): &(&str, &[usize], f32)| {
        let values = vec![*value; shape.iter().product()];
        let tensor = Tensor::from_slice(shape.to_vec(), &values).expect("floats");
        NamedTensor { name: (*name).to_owned(), tensor }.into()
    };
    TensorsInMemory::new(tensors.iter().map(tensor).collect(), Some(&config.to_string())).expect("tensors")
}

fn quantized(tensors: &[(&str, &[usize])], config: &Value, request: &QuantizeRequest) -> Result<MadeTensors, String> {
    let tensors: Vec<_> = tensors.iter().map(|(name, shape)| (*name, *shape, 1.0)).collect();
    quantize_tensors(filled(&tensors, config), request).map_err(|error| error.to_string())
}

/// The names of the weights that were quantized.
fn names(made: &MadeTensors) -> Vec<&str> {
    let rows = made.summary.tensors.iter().zip(&made.sources);
    let mut names: Vec<&str> = rows.filter(|(row, _)| row.cast).map(|(_, source)| &**source).collect();
    names.dedup();
    names
}

/// The reasons for which matrices were kept.
fn reasons(made: &MadeTensors) -> BTreeMap<&str, &str> {
    let rows = made.summary.tensors.iter();
    rows.filter_map(|row| Some((&*row.name, row.reason.as_deref()?))).collect()
}

/// The list of modules that the configuration says are not quantized.
fn kept(made: &MadeTensors, key: &str) -> Vec<String> {
    let config: Value =
        serde_json::from_str(made.quantization_config.as_deref().expect("a configuration")).expect("JSON");
    let list = config[key].as_array().expect("a list").iter();
    list.map(|name| name.as_str().expect("a name").to_owned()).collect()
}

fn rules(rules: &[&str], to: QuantizedFormat) -> QuantizeRequest {
    let rules: Vec<Rule<WeightFormat>> = rules.iter().map(|rule| rule.parse().expect("a rule")).collect();
    QuantizeRequest::default().selection(Selection { rules, ..Selection::new(to.into()) })
}

/// Whether compressed-tensors and vLLM (0.33: `_is_equal_or_regex_match`) find a module in a list.
fn is_in(list: &[String], module: &str) -> bool {
    list.iter().any(|entry| match entry.strip_prefix("re:") {
        // Python's `re.match` begins at the beginning.
        Some(regex) => format!("re:^(?:{regex})").parse::<Pattern>().expect("an expression").matches(module),
        None => entry == module,
    })
}

/// Names that the families of `loaders.rs` do not have.
#[test]
fn what_is_no_linear_layer_is_kept() {
    let layer = |name: &'static str| (name, &[64, 64][..]);
    let tensors = [
        layer("model.layers.0.self_attn.q_proj.weight"),
        layer("model.layers.0.mlp.gate.wg.weight"),
        layer("model.layers.0.mlp.shared_expert_gate.weight"),
        layer("model.layers.0.block_sparse_moe.router.layer.weight"),
        layer("model.layers.0.self_attn.q_proj.lora_A.default.weight"),
        layer("model.layers.0.self_attn.indexer.weights_proj.weight"),
        layer("model.layers.0.linear_attn.in_proj_ba.weight"),
        layer("model.layers.0.adaln_norm.linear.weight"),
        layer("model.layers.0.conv_proj.weight"),
        layer("model.layers.0.self_attn.sinks"),
        layer("model.layers.61.eh_proj.weight"),
        layer("model.layers.61.self_attn.o_proj.weight"),
        layer("mtp.layers.0.self_attn.o_proj.weight"),
        layer("tok_emb.weight"),
        layer("emb.weight"),
        layer("output.weight"),
        layer("output_layer.weight"),
        layer("head.weight"),
        layer("codec_head.0.weight"),
        layer("time_embedding.0.weight"),
        layer("proj_in.weight"),
        layer("model.vision_tower.layers.0.fc1.weight"),
        layer("model.mm_projector.0.weight"),
        ("model.layers.0.self_attn.q_proj.bias", &[64]),
    ];
    let made = quantized(&tensors, &json!({}), &QuantizeRequest::new(NVFP4)).expect("quantized");
    assert_eq!(names(&made), ["model.layers.0.self_attn.q_proj.weight"]);
    let reasons = reasons(&made);
    assert_eq!(reasons.len(), tensors.len() - 2, "{reasons:?}");
    for (name, why) in [
        ("model.layers.0.mlp.gate.wg.weight", "router"),
        ("model.layers.0.self_attn.q_proj.lora_A.default.weight", "factor of LoRA"),
        ("model.layers.61.self_attn.o_proj.weight", "multi-token prediction"),
        ("tok_emb.weight", "embedding"),
        ("codec_head.0.weight", "output head"),
        ("proj_in.weight", "outside the layers"),
        ("model.mm_projector.0.weight", "vision, audio or projector"),
        ("model.layers.0.self_attn.sinks", "not named `weight`"),
        ("model.layers.0.adaln_norm.linear.weight", "norm"),
        ("model.layers.0.conv_proj.weight", "convolution"),
    ] {
        assert_eq!(reasons[name], why, "{name}");
    }
    let all = made.summary.kept_matrices().expect("some are kept");
    assert!(all.starts_with("22 matrices: ") && all.contains("output head (4)"), "{all}");
    // A rule quantizes any of them.
    let request = rules(&["tok_emb.weight=nvfp4"], NVFP4);
    assert_eq!(names(&quantized(&tensors, &json!({}), &request).expect("quantized")).len(), 2);
    // Without numbers in names, nothing is outside the layers; a model of images alone is quantized.
    let plain = [("fc1.weight", &[64, 64][..]), ("norm.weight", &[64, 64])];
    assert_eq!(names(&quantized(&plain, &json!({}), &QuantizeRequest::new(NVFP4)).expect("quantized")), ["fc1.weight"]);
    let images = [("vision_model.layers.0.fc1.weight", &[64, 64][..]), ("vision_model.head.weight", &[64, 64])];
    let made = quantized(&images, &json!({}), &QuantizeRequest::new(NVFP4)).expect("quantized");
    assert_eq!(names(&made), ["vision_model.layers.0.fc1.weight"]);
}

/// Experts under the names of GraniteMoE, Step-3.5, Aria and DBRX. Loaders would build quantized modules for those that
/// no list names.
#[test]
fn no_matrix_is_kept_without_a_reason() {
    let tensors = [
        ("model.layers.0.self_attn.q_proj.weight", &[64, 64][..]),
        ("model.layers.0.conv1d.weight", &[64, 1, 4]),
        ("model.layers.0.block_sparse_moe.input_linear.weight", &[4, 128, 64]),
        ("model.layers.0.block_sparse_moe.output_linear.weight", &[4, 64, 64]),
        ("model.layers.1.moe.gate_proj.weight", &[4, 64, 64]),
        ("model.layers.1.moe.shared.up_proj.weight", &[64, 64]),
        ("model.layers.2.mlp.experts.fc1.weight", &[4, 64, 128]),
        ("model.layers.3.ffn.experts.mlp.w1", &[256, 64]),
        ("model.layers.4.feed_forward.experts.w13", &[4, 64, 64]),
        ("model.layers.5.mlp.experts_proj.weight", &[64, 64]),
        ("model.layers.5.mlp.experts.gate_up_proj", &[4, 64, 64]),
        ("model.vision.pos", &[1, 64, 64]),
    ];
    let kept_modules = [
        ("model.layers.0.block_sparse_moe.input_linear", false),
        ("model.layers.0.block_sparse_moe.experts", true),
        ("model.layers.1.moe.gate_proj", false),
        ("model.layers.1.moe.experts", true),
        ("model.layers.2.mlp.experts", true),
        ("model.layers.3.ffn.experts", true),
        ("model.layers.4.feed_forward.experts", true),
        ("model.layers.5.mlp.experts", true),
    ];
    let layouts = [
        (NVFP4, Layout::CompressedTensors, "ignore"),
        (FP8, Layout::DeepSeek, "modules_to_not_convert"),
        (MXFP4, Layout::Quark, "exclude"),
        (NVFP4, Layout::ModelOpt, "ignore"),
    ];
    for (to, layout, key) in layouts {
        let request = QuantizeRequest::new(to).layout(Some(layout));
        let made = quantized(&tensors, &json!({}), &request).expect("quantized");
        let written: Vec<&str> = names(&made);
        let why = reasons(&made);
        for (name, shape) in &tensors {
            let is_matrix = shape.len() == 2 || shape[1] >= 32;
            assert_eq!(!written.contains(name) && is_matrix, why.contains_key(name), "{name} in {layout:?}");
        }
        assert_eq!(why[tensors[2].0], "matrices in one tensor");
        let named: Vec<&str> = made.summary.passed_over.iter().map(|(name, _)| &**name).collect();
        assert!([2, 3, 4, 6, 8].iter().all(|&at| named.contains(&tensors[at].0)), "{named:?}");
        let list = kept(&made, key);
        for (module, are_experts) in kept_modules.iter().filter(|_| layout != Layout::ModelOpt) {
            let is_listed = list.iter().any(|entry| entry == module);
            let of_one = format!("{module}.0.gate_proj");
            let is_found = if *are_experts { is_in(&list, &of_one) } else { is_in(&list, module) };
            assert!(is_found || is_listed && layout == Layout::DeepSeek, "{module}: {list:?}");
        }
        for module in written.iter().map(|name| name.trim_end_matches(".weight")) {
            assert!(!is_in(&list, module), "{module}: {list:?}");
        }
    }
}

/// GPT-2's layers are transposed in its own models, not in others with their names.
#[test]
fn transposed_layers_are_kept() {
    let tensors = [
        ("h.0.attn.c_attn.weight", &[64, 192][..]),
        ("h.0.attn.c_proj.weight", &[64, 64]),
        ("h.0.mlp.up.weight", &[128, 64]),
    ];
    let bias = [&tensors[..], &[("h.0.attn.c_attn.bias", &[192])]].concat();
    let own = [&tensors[..], &[("h.0.attn.c_attn.bias", &[64])]].concat();
    for (tensors, config, is_kept) in [
        (&tensors[..], json!({ "model_type": "gpt2" }), true),
        (&tensors, json!({ "decoder": { "model_type": "gpt2" } }), true),
        (&bias, json!({}), true),
        (&tensors, json!({ "model_type": "gpt_neo" }), false),
        (&own, json!({}), false),
    ] {
        let made = quantized(tensors, &config, &QuantizeRequest::new(MXFP4)).expect("quantized");
        assert_eq!(names(&made).len(), if is_kept { 1 } else { 3 }, "{config}");
        assert_eq!(reasons(&made).get("h.0.attn.c_proj.weight") == Some(&"stored transposed (Conv1D)"), is_kept);
    }
    let error = quantized(&tensors[..2], &json!({ "model_type": "gpt2" }), &QuantizeRequest::new(MXFP4));
    let error = error.expect_err("nothing to quantize");
    assert!(error.ends_with("experts for gpt-oss); kept: stored transposed (Conv1D) (2)"), "{error}");
}

#[test]
fn columns_that_are_no_whole_blocks_are_kept() {
    let tensors = [
        ("model.layers.0.self_attn.q_proj.weight", &[32, 72][..]),
        ("model.layers.0.self_attn.o_proj.weight", &[72, 32]),
        ("model.layers.0.mlp.down_proj.weight", &[32, 40]),
    ];
    let made = quantized(&tensors, &json!({}), &QuantizeRequest::new(MXFP4)).expect("quantized");
    assert_eq!(names(&made), ["model.layers.0.self_attn.o_proj.weight"]);
    let passed_over: Vec<&str> = made.summary.passed_over.iter().map(|(name, _)| &**name).collect();
    assert_eq!(passed_over, [tensors[0].0, tensors[2].0]);
    assert_eq!(reasons(&made)[tensors[2].0], "want columns in blocks of 32 for mxfp4");
    assert_eq!(made.summary.kept_matrices(), None);
    assert!(is_in(&kept(&made, "ignore"), "model.layers.0.mlp.down_proj"));
    let error = quantized(&tensors, &json!({}), &rules(&["*.down_proj.weight=mxfp4"], MXFP4)).expect_err("a rule");
    assert!(error.contains("down_proj.weight") && error.contains("want columns in blocks of 32"), "{error}");
}

#[test]
fn matrices_of_other_types_and_without_elements_are_kept() {
    let [first, second, third] = ["q", "o", "v"].map(|name| format!("model.layers.0.self_attn.{name}_proj.weight"));
    let tensor = |name: &str, tensor: Tensor| NamedTensor { name: name.to_owned(), tensor }.into();
    let doubles = Tensor::from_slice(vec![32, 32], &vec![1.0f64; 1024]).expect("doubles");
    let floats = Tensor::from_slice(vec![32, 32], &vec![1.0f32; 1024]).expect("floats");
    let empty = Tensor::from_slice::<f32>(vec![0, 32], &[]).expect("nothing");
    let given = || {
        let tensors =
            vec![tensor(&first, doubles.clone()), tensor(&second, floats.clone()), tensor(&third, empty.clone())];
        TensorsInMemory::new(tensors, None).expect("tensors")
    };
    for request in [QuantizeRequest::new(MXFP4), QuantizeRequest::new(FP8.by(Some(Granularity::Tensor)))] {
        let made = quantize_tensors(given(), &request).expect("quantized");
        assert_eq!(names(&made), [&*second]);
        let reasons = reasons(&made);
        assert_eq!(reasons[&*first], "double: want float, float16 or bfloat16");
        assert_eq!(reasons[&*third], "no elements");
    }
    let only = TensorsInMemory::new(vec![tensor(&first, doubles.clone())], None).expect("tensors");
    let error = quantize_tensors(only, &QuantizeRequest::new(MXFP4)).map(|_| ()).expect_err("doubles").to_string();
    assert!(error.ends_with("; kept: double: want float, float16 or bfloat16 (1)"), "{error}");
}

/// Loaders look for Linear layers alone.
#[test]
fn embeddings_and_routers_that_a_rule_quantizes_are_noted() {
    let tensors = [("model.embed_tokens.weight", &[64, 32][..]), ("model.layers.0.self_attn.o_proj.weight", &[32, 32])];
    let request = rules(&["*embed*=mxfp4"], MXFP4);
    let notes = |request: &QuantizeRequest| {
        let notes = quantized(&tensors, &json!({}), request).expect("quantized").summary.notes;
        notes.into_iter().filter(|note| !note.contains("`check`")).collect::<Vec<_>>()
    };
    let want = "`model.embed_tokens.weight` is quantized by a rule: loaders of compressed-tensors read Linear layers \
                alone, and may give it random values";
    assert_eq!(notes(&request), [want]);
    for request in [request.layout(Some(Layout::Plain)), QuantizeRequest::new(MXFP4)] {
        assert_eq!(notes(&request), [""; 0]);
    }
}

#[test]
fn names_of_scales_without_weights_are_refused() {
    let tensors: [(&str, &[usize]); 3] =
        [("a.up_proj.weight", &[32, 64]), ("norm.weight", &[64]), ("norm.weight_scale", &[64])];
    for to in [NVFP4, MXFP4, FP8] {
        let error = quantized(&tensors, &json!({}), &QuantizeRequest::new(to)).expect_err("a scale");
        assert!(
            error.contains("`norm.weight_scale`: in compressed-tensors, this is the name of the scales of"),
            "{error}"
        );
    }
    // `scale` is the name of many an ordinary tensor.
    let tensors = [tensors[0], tensors[1], ("norm.scale", &[64])];
    let made = quantized(&tensors, &json!({}), &QuantizeRequest::new(FP8)).expect("quantized");
    assert_eq!(names(&made), ["a.up_proj.weight"]);
}

/// `dequantize` refuses them, so that nothing that `quantize` writes could be read back.
#[test]
fn parts_of_other_layouts_beside_plain_weights_are_refused() {
    let run = |name: &str| {
        let tensors: [(&str, &[usize]); 2] = [("a.up_proj.weight", &[32, 64]), (name, &[64])];
        quantized(&tensors, &json!({}), &QuantizeRequest::new(FP8))
    };
    for leaf in ["weight_scale_inv", "weight_scale_2", "scale_weight", "pre_quant_scale", "smooth_factor", "scales"] {
        let name = format!("a.up_proj.{leaf}");
        let error = run(&name).expect_err("a part of a quantized weight");
        assert!(error.contains(&format!("`{name}`: it may change a weight that is to be quantized")), "{error}");
    }
    for kept in ["a.up_proj.bias", "a.norm.weight_g", "a.norm.scales", "a.up_proj.lora_A.default.weight"] {
        assert_eq!(names(&run(kept).expect("quantized")), ["a.up_proj.weight"], "{kept}");
    }
}

/// vLLM refuses a joined matrix of which a part is quantized.
#[test]
fn joined_matrices_are_kept_together() {
    let names_of =
        ["q_proj", "k_proj", "v_proj", "o_proj"].map(|name| format!("model.layers.0.self_attn.{name}.weight"));
    let tensors: Vec<(&str, &[usize])> = names_of.iter().map(|name| (&**name, &[64, 64][..])).collect();
    let run = |request: &QuantizeRequest| quantized(&tensors, &json!({}), request);
    let mut request = QuantizeRequest::new(NVFP4);
    request.selection.exclude = vec!["*.k_proj.weight".parse().expect("a pattern")];
    let made = run(&request).expect("quantized");
    assert_eq!(names(&made), [&*names_of[3]]);
    let reasons = reasons(&made);
    let q = reasons[&*names_of[0]];
    assert_eq!((q, reasons[&*names_of[1]]), ("joined with `k_proj`, which is kept", "excluded"));
    assert_eq!(made.summary.passed_over.len(), 2);
    // Layouts whose loaders join nothing quantize the others.
    let plain = request.clone().layout(Some(Layout::Plain));
    assert_eq!(names(&run(&plain).expect("quantized")).len(), 3);
    for (list, want) in [
        (
            &["*.q_proj.weight=nvfp4", "*.k_proj.weight=keep"][..],
            "k_proj.weight`, which loaders join with it, is kept (kept by a rule)",
        ),
        (&["*.q_proj.weight=float8e4m3fn"], "k_proj.weight`, which loaders join with it, becomes nvfp4"),
    ] {
        let error = run(&rules(list, NVFP4)).expect_err("apart");
        assert!(error.contains("q_proj.weight`: a rule quantizes it") && error.contains(want), "{error}");
    }
    let all = rules(&["*.[qkv]_proj.weight=float8e4m3fn"], NVFP4);
    assert_eq!(names(&run(&all).expect("quantized")).len(), 4);
}

/// Matrices that loaders join share the scale of the matrix with the largest amax.
#[test]
fn joined_matrices_share_the_scale_of_a_tensor() {
    let groups: [&[&str]; 6] = [
        &["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
        &["mlp.gate_proj", "mlp.up_proj"],
        &["experts.3.w1", "experts.3.w3"],
        &["mla.q_a_proj", "mla.kv_a_proj_with_mqa"],
        &["linear_attn.in_proj_qkv", "linear_attn.in_proj_z"],
        &["attention.query", "attention.key", "attention.value"],
    ];
    let mut tensors = Vec::new();
    for (index, group) in groups.iter().enumerate() {
        for (place, module) in group.iter().enumerate() {
            tensors.push((format!("model.layers.0.{module}.weight"), (index * 4 + place + 1) as f32));
        }
    }
    tensors.push(("model.layers.0.self_attn.o_proj.weight".to_owned(), 100.0));
    let list: Vec<_> = tensors.iter().map(|(name, value)| (&**name, &[32, 32][..], *value)).collect();
    let tensor = Some(Granularity::Tensor);
    for (to, layout, granularity, ending) in [
        (NVFP4, Layout::CompressedTensors, None, "weight_global_scale"),
        (NVFP4, Layout::ModelOpt, None, "weight_scale_2"),
        (FP8, Layout::CompressedTensors, tensor, "weight_scale"),
        (FP8, Layout::Quark, tensor, "weight_scale"),
        (FP8, Layout::ComfyUi, tensor, "scale_weight"),
    ] {
        let request = QuantizeRequest::new(to.by(granularity)).layout(Some(layout));
        let made = quantize_tensors(filled(&list, &json!({})), &request).expect("quantized");
        let scale = |module: &str| {
            let want = format!("model.layers.0.{module}.{ending}");
            let rows = made.summary.tensors.iter().zip(&made.tensors);
            let found = rows.into_iter().find(|(row, _)| row.name == want).and_then(|(_, tensor)| tensor.as_ref());
            found.and_then(|tensor| tensor.bytes().map(<[u8]>::to_vec)).unwrap_or_else(|| panic!("{want}"))
        };
        for group in groups {
            let scales: Vec<_> = group.iter().map(|module| scale(module)).collect();
            let is_one = scales.iter().all(|one| *one == scales[0]);
            assert_eq!(is_one, layout != Layout::ComfyUi, "{layout:?} {to} {group:?}");
        }
        assert_ne!(scale(groups[0][0]), scale("self_attn.o_proj"), "{layout:?} {to}");
        assert_ne!(scale(groups[0][0]), scale(groups[1][0]), "{layout:?} {to}");
    }
}

/// Loaders give parts of a model other names than the checkpoint has.
#[test]
fn lists_name_what_loaders_rename() {
    let tensors = [
        ("language_model.model.layers.1.self_attn.o_proj.weight", &[64, 64][..]),
        ("language_model.model.layers.1.mlp.gate.weight", &[64, 64]),
        ("language_model.lm_head.weight", &[64, 64]),
        ("visual.blocks.3.attn.qkv.weight", &[64, 64]),
        ("visual.merger.mlp.0.weight", &[64, 64]),
        ("language_model.model.layers.1.feed_forward.experts.gate_up_proj", &[2, 64, 64]),
        ("language_model.model.layers.1.feed_forward.experts.down_proj", &[2, 64, 64]),
    ];
    let list = |layout: Layout, to, key| {
        let request = QuantizeRequest::new(to).layout(Some(layout));
        kept(&quantized(&tensors, &json!({}), &request).expect("quantized"), key)
    };
    let expressions = list(Layout::CompressedTensors, NVFP4, "ignore");
    for module in [
        "visual.blocks.3.attn.qkv",
        "model.visual.blocks.3.attn.qkv",
        "model.visual.merger.mlp.0",
        "lm_head",
        "language_model.lm_head",
        "model.language_model.layers.1.mlp.gate",
        // What vLLM asks of experts.
        "model.language_model.layers.1.feed_forward.experts.0.gate_proj",
    ] {
        assert!(is_in(&expressions, module), "{module} in {expressions:?}");
    }
    for module in
        ["language_model.model.layers.1.self_attn.o_proj", "model.layers.1.mlp.gate_proj", "model.supervisual.x"]
    {
        assert!(!is_in(&expressions, module), "{module} in {expressions:?}");
    }
    let globs = list(Layout::ModelOpt, NVFP4, "ignore");
    let parts = list(Layout::DeepSeek, FP8, "modules_to_not_convert");
    for (list, entry) in [(&globs, "*visual.*"), (&globs, "lm_head"), (&parts, "visual"), (&parts, "lm_head")] {
        assert!(list.iter().any(|one| one == entry), "{entry} in {list:?}");
    }
    assert!(parts.iter().any(|one| one == "visual.blocks.3.attn.qkv"), "{parts:?}");
}

/// Names within others: a part of a path, the beginning or the end of a word. Each loader's rule finds what is kept, and
/// nothing that is quantized. The rules are those of compressed-tensors 0.20 (`re.match` or the name), vLLM 0.33
/// (modelopt.py: a part of the name or fnmatch; fp8.py: the name), and transformers 5.24 (`should_convert_module`).
#[test]
fn lists_match_what_is_kept_and_nothing_else() {
    let quantized_names = [
        "model.layers.0.mlp.experts_proj",
        "model.layers.0.mlp.gate_proj",
        "model.layers.0.mlp.up_proj",
        "model.layers.1.mlp.experts_proj2",
        "model.layers.1.my-visual.proj",
        "model.layers.1.my_visual.proj",
        "model.layers.2.experts.0.up",
        "model.layers.10.mlp.down",
    ];
    let kept_names = [
        "model.layers.0.mlp.gate",
        "model.layers.1.mlp.experts_proj",
        "model.layers.1.mlp.experts-proj",
        "model.layers.1.mlp.down",
        "model.layers.2.experts.0.up_proj",
        "model.layers.2.experts_proj",
        "visual.blocks.0.proj",
    ];
    let all: Vec<String> = quantized_names.iter().chain(&kept_names).map(|name| format!("{name}.weight")).collect();
    let shapes: Vec<(&str, &[usize])> = all.iter().map(|name| (&**name, &[64, 64][..])).collect();
    let expression = |text: &str| text.parse::<Pattern>().expect("an expression");
    let is_glob = |entry: &str, module: &str| {
        let pattern = entry.replace('.', "\\.").replace('*', ".*");
        module.contains(entry) || expression(&format!("re:^(?:{pattern})$")).matches(module)
    };
    let is_word = |entry: &str, module: &str| {
        let starts = expression(&format!(r"re:^(?:{entry})(\..*)?$"));
        starts.matches(module) || module.ends_with(entry)
    };
    for (to, layout, key) in [
        (NVFP4, Layout::CompressedTensors, "ignore"),
        (NVFP4, Layout::ModelOpt, "ignore"),
        (FP8, Layout::DeepSeek, "modules_to_not_convert"),
    ] {
        let mut request = QuantizeRequest::new(to).layout(Some(layout));
        let excluded = kept_names[1..].iter().map(|name| format!("{name}.weight").parse().expect("a pattern"));
        request.selection.exclude = excluded.collect();
        let made = quantized(&shapes, &json!({}), &request).expect("quantized");
        let want: Vec<&str> = all[..quantized_names.len()].iter().map(String::as_str).collect();
        assert_eq!(names(&made), want, "{layout:?}");
        let list = kept(&made, key);
        let is_found = |module: &str| match layout {
            Layout::CompressedTensors => is_in(&list, module),
            Layout::ModelOpt => list.iter().any(|entry| is_glob(entry, module)),
            _ => list.iter().any(|entry| is_word(entry, module)),
        };
        for module in kept_names {
            assert!(is_found(module), "{layout:?}: {module} in {list:?}");
        }
        for module in quantized_names {
            assert!(!is_found(module), "{layout:?}: {module} in {list:?}");
        }
    }
}

/// The names of packed weights tell as much as those of plain ones.
#[test]
fn transcoded_lists_are_those_of_quantized_weights() {
    let tensors = [
        ("language_model.model.layers.1.self_attn.o_proj.weight", &[64, 64][..]),
        ("language_model.lm_head.weight", &[64, 64]),
        ("visual.blocks.3.attn.qkv.weight", &[64, 64]),
    ];
    let made = quantized(&tensors, &json!({}), &rules(&["language_model.lm_head.weight=nvfp4"], NVFP4));
    let MadeTensors { summary, tensors, quantization_config, .. } = made.expect("quantized");
    let held = summary.tensors.into_iter().zip(tensors).map(|(row, tensor)| {
        let kept = || Tensor::from_slice(row.shape.clone(), &vec![1f32; row.shape.iter().product()]).expect("floats");
        NamedTensor { tensor: tensor.unwrap_or_else(kept), name: row.name.clone() }.into()
    });
    let held = TensorsInMemory::new(held.collect(), quantization_config.as_deref()).expect("tensors");
    let made = transcode_tensors(held, &TranscodeRequest::new(Layout::ModelOpt)).expect("transcoded");
    let list = kept(&made, "ignore");
    assert!(list.iter().any(|one| one == "*visual.*") && list.iter().all(|one| !one.contains("lm_head")), "{list:?}");
}

/// A tied output layer has no tensor, and is a layer all the same.
#[test]
fn heads_without_tensors_are_listed() {
    let tensors = [("encoder.layers.0.o_proj.weight", &[64, 64][..]), ("embeddings.word_embeddings.weight", &[64, 64])];
    for (config, want) in [
        (json!({}), "lm_head"),
        (json!({ "model_type": "llama", "tie_word_embeddings": true }), "lm_head"),
        (json!({ "architectures": ["AlbertForMaskedLM"] }), "predictions.decoder"),
        (json!({ "model_type": "bert" }), "cls.predictions.decoder"),
        (json!({ "model_type": "roberta" }), "lm_head.decoder"),
        (json!({ "model_type": "whisper" }), "proj_out"),
        (json!({ "model_type": "modernbert" }), "decoder"),
    ] {
        let made = quantized(&tensors, &config, &QuantizeRequest::new(NVFP4)).expect("quantized");
        let list = kept(&made, "ignore");
        assert!(list.iter().any(|one| one == want) && list.iter().any(|one| one == "lm_head"), "{want}: {list:?}");
    }
    let made = quantized(&tensors, &json!({ "model_type": "llama" }), &QuantizeRequest::new(NVFP4)).expect("quantized");
    assert_eq!(kept(&made, "ignore"), ["embeddings.word_embeddings", "lm_head"]);
    // The weight of no module has no name that a list could have: loaders look for names within others.
    let whole = [&tensors[..], &[("weight", &[64, 64])]].concat();
    for (to, layout, key) in
        [(NVFP4, Layout::CompressedTensors, "ignore"), (FP8, Layout::DeepSeek, "modules_to_not_convert")]
    {
        let made = quantized(&whole, &json!({}), &QuantizeRequest::new(to).layout(Some(layout))).expect("quantized");
        assert_eq!(kept(&made, key), ["embeddings.word_embeddings", "lm_head"]);
    }
    // One that a rule quantizes is not.
    let head = [&tensors[..], &[("lm_head.weight", &[64, 64])]].concat();
    let made = quantized(&head, &json!({}), &rules(&["lm_head.weight=nvfp4"], NVFP4)).expect("quantized");
    assert_eq!(kept(&made, "ignore"), ["embeddings.word_embeddings"]);
}
