//! Folders of several checkpoints: pipelines of diffusers and models of sentence-transformers, by each job.

use crate::common::folder;

use folder::{Stored, files, read, values};
use onnx_cast::DataType;
use onnx_cast::scaled::BlockFormat;
use onnx_cast_file::{
    BitCastRequest, CandidateFormat, CastRequest, DequantizeRequest, DiffRequest, Difference, FileError,
    InspectRequest, Layout, Loss, Pattern, QuantizeRequest, QuantizedFormat, ReportRequest, Rule, RunOptions,
    Selection, TranscodeRequest, Watch, WeightFormat, WriteOptions, bit_cast_file, cast_file, dequantize_file, diff,
    inspect, quantize_file, report, transcode_file,
};
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use std::collections::HashMap;
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

struct Place(TempDir);

impl Place {
    fn input(&self) -> PathBuf {
        self.0.path().join("in")
    }

    fn output(&self) -> PathBuf {
        self.0.path().join("out")
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let path = self.input().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, bytes).expect("written");
    }

    fn weights(&self, name: &str, tensors: &[Stored]) {
        self.write(name, "");
        let views = tensors.iter().map(|(name, data_type, shape, bytes)| {
            (name.clone(), TensorView::new(*data_type, shape.clone(), bytes).expect("a tensor"))
        });
        safetensors::serialize_to_file(views, None, &self.input().join(name)).expect("written");
    }

    /// Nothing is in the output or beside it.
    #[track_caller]
    fn has_no_output(&self) {
        let there: Vec<_> =
            fs::read_dir(self.0.path()).expect("a folder").map(|e| e.expect("an entry").path()).collect();
        assert_eq!(there, [self.input()]);
    }
}

const INDEX: &str = r#"{"_class_name": "FluxPipeline", "_diffusers_version": "0.42.1",
    "feature_extractor": [null, null], "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"],
    "text_encoder": ["transformers", "CLIPTextModel"], "text_encoder_2": ["transformers", "Qwen2ForCausalLM"],
    "safety_checker": ["stable_diffusion", "StableDiffusionSafetyChecker"],
    "tokenizer": ["transformers", "CLIPTokenizer"], "transformer": ["diffusers", "FluxTransformer2DModel"],
    "vae": ["diffusers", "AutoencoderKL"]}"#;

/// A pipeline with a file for each kind of folder.
fn pipeline() -> Place {
    let place = Place(tempfile::tempdir().expect("a folder"));
    place.write("model_index.json", INDEX);
    place.write("README.md", "A pipeline.");
    place.write("scheduler/scheduler_config.json", "{}");
    place.write("tokenizer/vocab.json", "{}");
    place.write("safety_checker/flax_model.msgpack", "PK");
    place.write("safety_checker/config.json", "{}");
    place.write("flux.safetensors", "the same weights for other programs");
    let layer = "text_model.encoder.layers.0.self_attn.q_proj.weight";
    place.weights("text_encoder/model.safetensors", &[values(layer, &[32, 64]), values("norm.weight", &[64])]);
    place.write("text_encoder/config.json", r#"{"model_type": "clip_text_model", "torch_dtype": "float32"}"#);
    place.weights(
        "text_encoder_2/model-00001-of-00001.safetensors",
        &[values("model.embed_tokens.weight", &[64, 64]), values("model.layers.0.self_attn.q_proj.weight", &[64, 64])],
    );
    let map = r#"{"metadata": {"total_size": 32768}, "weight_map": {
        "model.embed_tokens.weight": "model-00001-of-00001.safetensors",
        "model.layers.0.self_attn.q_proj.weight": "model-00001-of-00001.safetensors"}}"#;
    place.write("text_encoder_2/model.safetensors.index.json", map);
    place.write("text_encoder_2/config.json", r#"{"model_type": "qwen2"}"#);
    place.weights("transformer/diffusion_pytorch_model.safetensors", &[values("blocks.0.attn.to_q.weight", &[64, 64])]);
    place.weights("transformer/diffusion_pytorch_model.fp16.safetensors", &[values("other", &[1])]);
    place.write("transformer/config.json", r#"{"_class_name": "FluxTransformer2DModel"}"#);
    place.weights("vae/diffusion_pytorch_model.safetensors", &[values("decoder.conv_in.weight", &[8, 4, 3, 3])]);
    place.write("vae/config.json", r#"{"_class_name": "AutoencoderKL"}"#);
    place
}

const WRITTEN: [&str; 14] = [
    "README.md",
    "model_index.json",
    "safety_checker/config.json",
    "safety_checker/flax_model.msgpack",
    "scheduler/scheduler_config.json",
    "text_encoder/config.json",
    "text_encoder/model.safetensors",
    "text_encoder_2/config.json",
    "text_encoder_2/model-00001-of-00001.safetensors",
    "text_encoder_2/model.safetensors.index.json",
    "tokenizer/vocab.json",
    "transformer/config.json",
    "transformer/diffusion_pytorch_model.safetensors",
    "vae/config.json",
];

fn written() -> Vec<&'static str> {
    WRITTEN.into_iter().chain(["vae/diffusion_pytorch_model.safetensors"]).collect()
}

fn patterns(texts: &[&str]) -> Vec<Pattern> {
    texts.iter().map(|text| text.parse().expect("a pattern")).collect()
}

fn types(folder: &Path) -> Vec<(String, DataType)> {
    let found = inspect(folder, &InspectRequest::default()).expect("listed").tensors;
    found.into_iter().map(|tensor| (tensor.name, tensor.data_type.expect("a type"))).collect()
}

#[test]
fn a_pipeline_is_cast_whole() {
    let place = pipeline();
    let told = Arc::new(Mutex::new(Vec::new()));
    let watch = Watch::new({
        let told = Arc::clone(&told);
        move |done, total| told.lock().expect("a lock").push((done, total))
    });
    let run = RunOptions::default().watch(Some(watch));
    let request = CastRequest::new(DataType::BFloat16).run(run);
    let done = cast_file(place.input(), place.output(), &request).expect("cast");
    assert_eq!(files(&place.output()), written());
    assert_eq!(done.tensors.len(), 6);
    assert_eq!(done.copied, 10, "configurations too");
    let left_out: Vec<&str> = done.left_out.iter().map(|(name, _)| &**name).collect();
    assert_eq!(left_out, ["transformer/diffusion_pytorch_model.fp16.safetensors", "flux.safetensors"]);
    assert_eq!(done.notes, ["`safety_checker` is copied as it is: no weights that are read"]);
    let told = told.lock().expect("a lock");
    assert!(told.is_sorted() && told.last().is_some_and(|(done, total)| done == total), "{told:?}");
    let mut names: Vec<String> = types(&place.output())
        .into_iter()
        .map(|(name, data_type)| {
            assert_eq!(data_type, DataType::BFloat16, "{name}");
            name
        })
        .collect();
    names.sort();
    assert_eq!(
        names,
        [
            "text_encoder/norm.weight",
            "text_encoder/text_model.encoder.layers.0.self_attn.q_proj.weight",
            "text_encoder_2/model.embed_tokens.weight",
            "text_encoder_2/model.layers.0.self_attn.q_proj.weight",
            "transformer/blocks.0.attn.to_q.weight",
            "vae/decoder.conv_in.weight",
        ]
    );
    let config = fs::read_to_string(place.output().join("text_encoder/config.json")).expect("a configuration");
    assert!(config.contains("bfloat16"), "{config}");
    // The names of all folders are those of the summary.
    let mut told: Vec<&str> = done.tensors.iter().map(|tensor| &*tensor.name).collect();
    told.sort_unstable();
    assert_eq!(told, names);
}

#[test]
fn patterns_match_names_with_and_without_the_folder() {
    let kept = |selection: Selection| {
        let place = pipeline();
        let request = CastRequest::default().selection(selection);
        cast_file(place.input(), place.output(), &request).expect("cast");
        let mut cast: Vec<String> = types(&place.output())
            .into_iter()
            .filter(|(_, data_type)| *data_type == DataType::BFloat16)
            .map(|(name, _)| name)
            .collect();
        cast.sort();
        cast
    };
    let to = || Selection::new(DataType::BFloat16);
    let vae = ["vae/decoder.conv_in.weight"];
    assert_eq!(kept(Selection { include: patterns(&["vae/*"]), ..to() }), vae);
    assert_eq!(kept(Selection { include: patterns(&["decoder.*"]), ..to() }), vae);
    assert_eq!(kept(Selection { include: patterns(&["re:^vae/"]), ..to() }), vae);
    assert_eq!(kept(Selection { exclude: patterns(&["text_encoder*", "transformer/*"]), ..to() }), vae);
    let rules = vec!["vae/*=bfloat16".parse::<Rule>().expect("a rule")];
    assert_eq!(kept(Selection { rules, ..Selection::default() }), vae);
    let place = pipeline();
    let request = CastRequest::default().selection(Selection { include: patterns(&["vea/*"]), ..to() });
    let error = cast_file(place.input(), place.output(), &request).expect_err("no such folder").to_string();
    assert!(error.contains("`include` `vea/*` matches no tensor"), "{error}");
    place.has_no_output();
}

#[test]
fn text_encoders_are_quantized_and_read_back() {
    let place = pipeline();
    let mxfp4 = QuantizedFormat::Block(BlockFormat::MxFp4);
    let request = QuantizeRequest::new(mxfp4);
    let plan = request.clone().run(RunOptions::default().dry_run(true));
    let planned = quantize_file(place.input(), place.output(), &plan).expect("planned");
    place.has_no_output();
    let done = quantize_file(place.input(), place.output(), &request).expect("quantized");
    let shapes = |summary: &onnx_cast_file::Summary| -> Vec<(String, u64)> {
        summary.tensors.iter().map(|tensor| (tensor.name.clone(), tensor.bytes_after)).collect()
    };
    assert_eq!(shapes(&planned), shapes(&done));
    let (checked, notes): (Vec<_>, Vec<_>) = done.notes.iter().cloned().partition(|note| note.contains("`check`"));
    assert!(
        checked.iter().all(|note| note.starts_with("`text_encoder") && note.contains("transformers")),
        "{checked:?}"
    );
    assert_eq!((planned.copied, &planned.notes), (done.copied, &done.notes));
    assert_eq!(
        notes,
        [
            "`safety_checker` is copied as it is: no weights that are read",
            "`transformer` is copied as it is: diffusers does not load the layout compressed-tensors",
            "`vae` is copied as it is: diffusers does not load the layout compressed-tensors",
        ]
    );
    let mut want = written();
    // A folder that is kept is kept whole.
    want.insert(12, "transformer/diffusion_pytorch_model.fp16.safetensors");
    assert_eq!(files(&place.output()), want);
    let quantized = inspect(place.output(), &InspectRequest::default()).expect("listed").quantized.expect("weights");
    assert_eq!((quantized.layout, quantized.warning), (Some(Layout::CompressedTensors), None));
    let names: Vec<&str> = quantized.weights.iter().map(|weight| &*weight.name).collect();
    assert_eq!(
        names,
        [
            "text_encoder/text_model.encoder.layers.0.self_attn.q_proj.weight",
            "text_encoder_2/model.layers.0.self_attn.q_proj.weight",
        ]
    );
    for (folder, has_config) in [("text_encoder", true), ("text_encoder_2", true), ("vae", false)] {
        let path = place.output().join(folder).join("config.json");
        let config = fs::read_to_string(path).expect("a configuration");
        assert_eq!(config.contains("quantization_config"), has_config, "{folder}: {config}");
    }
    // Another layout, and plain weights again.
    let plain = place.0.path().join("plain");
    dequantize_file(place.output(), &plain, &DequantizeRequest::new(DataType::Float)).expect("dequantized");
    let by_value = DiffRequest::default().values(true);
    assert_eq!(diff(place.output(), &plain, &by_value).expect("compared"), []);
    let other = place.0.path().join("other");
    let request = TranscodeRequest::new(Layout::CompressedTensors).to(Some(QuantizedFormat::Block(BlockFormat::NvFp4)));
    let done = transcode_file(place.output(), &other, &request).expect("transcoded");
    assert!(done.notes.contains(&"`vae` is copied as it is: no quantized weights".to_owned()), "{:?}", done.notes);
    assert_eq!(diff(&other, &plain, &by_value).expect("compared"), []);
    // Nothing is quantized there any more.
    let again = place.0.path().join("again");
    let error =
        dequantize_file(&plain, &again, &DequantizeRequest::new(DataType::Float)).expect_err("plain").to_string();
    let want = "nothing to do in its folders: `safety_checker` (no weights that are read), `text_encoder` (no quantized \
                weights), `text_encoder_2` (no quantized weights)";
    assert!(error.contains(want) && !again.exists(), "{error}");
}

#[test]
fn a_pattern_that_names_a_folder_quantizes_it() {
    let place = pipeline();
    let include = patterns(&["transformer/*"]);
    let to = QuantizedFormat::Block(BlockFormat::MxFp4);
    let request = QuantizeRequest::default().selection(Selection { include, ..Selection::new(to.into()) });
    quantize_file(place.input(), place.output(), &request).expect("quantized");
    let quantized = inspect(place.output(), &InspectRequest::default()).expect("listed").quantized.expect("weights");
    let names: Vec<&str> = quantized.weights.iter().map(|weight| &*weight.name).collect();
    assert_eq!(names, ["transformer/blocks.0.attn.to_q.weight"]);
    // The folders that are not meant stay byte for byte.
    for name in ["text_encoder/model.safetensors", "vae/diffusion_pytorch_model.safetensors"] {
        let [before, after] =
            [place.input(), place.output()].map(|folder| fs::read(folder.join(name)).expect("a file"));
        assert!(before == after, "{name}");
    }
    let other = Place(tempfile::tempdir().expect("a folder"));
    other.write("model_index.json", r#"{"vae": ["diffusers", "AutoencoderKL"]}"#);
    other.weights("vae/diffusion_pytorch_model.safetensors", &[values("decoder.layers.0.weight", &[64, 64])]);
    let error = quantize_file(other.input(), other.output(), &QuantizeRequest::new(to)).expect_err("none").to_string();
    let want = "`vae` (diffusers does not load the layout compressed-tensors) (a pattern may name a folder)";
    assert!(error.ends_with(want), "{error}");
    other.has_no_output();
}

/// The root of a model of sentence-transformers, whose second folder has weights.
fn sentences() -> Place {
    let place = Place(tempfile::tempdir().expect("a folder"));
    let modules = r#"[{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
        {"idx": 2, "name": "2", "path": "2_Dense", "type": "sentence_transformers.models.Dense"}]"#;
    place.write("modules.json", modules);
    place.write("config.json", r#"{"model_type": "bert", "torch_dtype": "float32"}"#);
    place.write("1_Pooling/config.json", "{}");
    place.write("2_Dense/config.json", r#"{"in_features": 64, "out_features": 32}"#);
    place.weights("model.safetensors", &[values("encoder.layer.0.attention.self.query.weight", &[64, 64])]);
    place.weights("2_Dense/model.safetensors", &[values("linear.weight", &[32, 64])]);
    place
}

#[test]
fn inner_weights_of_sentence_transformers_are_read_too() {
    let place = sentences();
    let done = cast_file(place.input(), place.output(), &CastRequest::new(DataType::Float16)).expect("cast");
    assert!(done.left_out.is_empty() && done.notes.is_empty(), "{:?} {:?}", done.left_out, done.notes);
    let want = [
        "1_Pooling/config.json",
        "2_Dense/config.json",
        "2_Dense/model.safetensors",
        "config.json",
        "model.safetensors",
        "modules.json",
    ];
    assert_eq!(files(&place.output()), want);
    // The class of the layer takes no other keys than its own.
    let dense = |root: PathBuf| fs::read_to_string(root.join("2_Dense/config.json")).expect("read");
    assert_eq!(dense(place.output()), dense(place.input()));
    assert_eq!(
        types(&place.output()),
        [
            ("encoder.layer.0.attention.self.query.weight".to_owned(), DataType::Float16),
            ("2_Dense/linear.weight".to_owned(), DataType::Float16),
        ]
    );
    fs::remove_dir_all(place.output()).expect("removed");
    let request = QuantizeRequest::new(QuantizedFormat::Elements(DataType::Int8));
    let done = quantize_file(place.input(), place.output(), &request).expect("quantized");
    let note = "`2_Dense` is copied as it is: sentence-transformers does not load the layout compressed-tensors";
    assert_eq!((done.notes.len(), &*done.notes[0]), (2, note));
    assert_eq!(files(&place.output()), want);
    assert_eq!(read(&place.output().join("2_Dense/model.safetensors"))["linear.weight"].0, Dtype::F32);
    fs::remove_dir_all(place.output()).expect("removed");
    // A .gguf file has no place for them, which is said.
    let weights = place.input().join("model.safetensors");
    let root = fs::read(&weights).expect("read");
    let names = HashMap::from([("general.architecture".to_owned(), "bert".to_owned())]);
    let bytes = vec![0; 64 * 64 * 4];
    let view = TensorView::new(Dtype::F32, vec![64, 64], &bytes).expect("a tensor");
    safetensors::serialize_to_file([("blk.0.ffn_up.weight", view)], Some(names), &weights).expect("written");
    let gguf = place.input().with_extension("gguf");
    let q8_0 = QuantizeRequest::new("q8_0".parse::<WeightFormat>().expect("a format")).layout(Some(Layout::Gguf));
    let done = quantize_file(place.input(), &gguf, &q8_0).expect("quantized");
    assert!(done.left_out.contains(&("2_Dense".to_owned(), "a .gguf file holds one checkpoint".to_owned())));
    fs::remove_file(gguf).expect("removed");
    fs::write(&weights, root).expect("written");
    // Without weights of their own in a folder, nothing is different.
    fs::remove_file(place.input().join("2_Dense/model.safetensors")).expect("removed");
    let done = cast_file(place.input(), place.output(), &CastRequest::new(DataType::Float16)).expect("cast");
    assert_eq!(done.tensors[0].name, "encoder.layer.0.attention.self.query.weight");
}

fn refused(place: &Place, output: &Path, request: &CastRequest, want: &str) {
    let error = cast_file(place.input(), output, request).expect_err(want).to_string();
    assert!(error.contains(want), "{error}");
}

#[test]
fn what_fails_is_continued_or_leaves_nothing() {
    let place = pipeline();
    let half = CastRequest::new(DataType::Float16);
    refused(&place, &place.input(), &half, "the folder of the input (name another");
    refused(&place, &place.input().join("new"), &half, "a folder within the input");
    refused(&place, Path::new("-"), &half, "a checkpoint in a folder cannot be streamed");
    // The last folder fails.
    place.weights("vae/diffusion_pytorch_model.safetensors", &[folder::floats("w", &[1], &[1e30])]);
    let failing = half.clone().run(RunOptions::default().fail_on(vec![Loss::Overflow]));
    let error = cast_file(place.input(), place.output().join("deep/er"), &failing).expect_err("it overflows");
    assert!(matches!(error, FileError::Loss { .. }), "{error}");
    place.has_no_output();
    // What is stopped goes on, and is not complete before.
    let stop = Watch::stopping(
        |done, total| if done * 2 > total { ControlFlow::Break(()) } else { ControlFlow::Continue(()) },
    );
    let stopped = half.clone().run(RunOptions::default().watch(Some(stop)));
    let error = cast_file(place.input(), place.output(), &stopped).expect_err("it is stopped");
    assert!(matches!(error, FileError::Stopped { .. }), "{error}");
    assert!(place.output().join("text_encoder/model.safetensors").exists());
    assert!(!place.output().join("model_index.json").exists());
    let ways =
        "already exists and is not empty (name another folder, `force` to replace it, or `resume` to continue it)";
    refused(&place, &place.output(), &half, ways);
    let resume = half.clone().run(RunOptions::default().resume(true));
    let done = cast_file(place.input(), place.output(), &resume).expect("cast");
    assert!(done.already_there >= 1, "{}", done.already_there);
    assert_eq!(files(&place.output()), written());
    refused(&place, &place.output(), &half, ways);
}

#[test]
fn a_folder_of_checkpoints_is_replaced_with_force() {
    let place = pipeline();
    let force = RunOptions::default().write(WriteOptions::default().force(true));
    cast_file(place.input(), place.output(), &CastRequest::new(DataType::Float16)).expect("cast");
    for name in ["pytorch_model.bin", "config.json", "vae/diffusion_pytorch_model.bin", "notes"] {
        fs::write(place.output().join(name), "theirs").expect("written");
    }
    let done =
        cast_file(place.input(), place.output(), &CastRequest::new(DataType::BFloat16).run(force)).expect("cast");
    assert_eq!(done.removed, ["vae/diffusion_pytorch_model.bin", "config.json", "pytorch_model.bin"]);
    fs::remove_file(place.output().join("notes")).expect("kept");
    assert_eq!(files(&place.output()), written());
    let types = done.tensors.iter().filter(|tensor| tensor.cast).all(|tensor| tensor.to == DataType::BFloat16);
    assert!(types, "{:?}", done.tensors);
}

/// The whole result was deleted: it was written beside the output, and could not be renamed over it.
#[test]
fn an_empty_folder_becomes_the_output_wherever_it_is() {
    let place = pipeline();
    let request = CastRequest::new(DataType::BFloat16);
    let real = place.0.path().join("disk");
    fs::create_dir(&real).expect("a folder");
    symlink("disk", place.output()).expect("a link");
    cast_file(place.input(), place.output(), &request).expect("cast");
    assert!(fs::symlink_metadata(place.output()).expect("a link").is_symlink());
    assert_eq!(files(&real), written());
    // A mount point cannot be removed or renamed over, and neither can a folder whose parent is not writable.
    let (parent, inner) = (place.0.path().join("locked"), place.0.path().join("locked/out"));
    fs::create_dir_all(&inner).expect("folders");
    fs::set_permissions(&parent, fs::Permissions::from_mode(0o555)).expect("a mode");
    let done = cast_file(place.input(), &inner, &request);
    fs::set_permissions(&parent, fs::Permissions::from_mode(0o755)).expect("a mode");
    done.expect("cast");
    assert_eq!(files(&inner), written());
}

#[test]
fn folders_are_looked_at_together() {
    let (place, other) = (pipeline(), pipeline());
    other.weights("vae/diffusion_pytorch_model.safetensors", &[values("decoder.conv_in.weight", &[8, 4, 3, 1])]);
    fs::remove_dir_all(other.input().join("transformer")).expect("removed");
    let found = diff(place.input(), other.input(), &DiffRequest::default()).expect("compared");
    assert_eq!(
        found,
        [
            ("transformer/blocks.0.attn.to_q.weight".to_owned(), Difference::OnlyFirst),
            ("vae/decoder.conv_in.weight".to_owned(), Difference::Shape(vec![8, 4, 3, 3], vec![8, 4, 3, 1])),
        ]
    );
    let only = DiffRequest::default().include(patterns(&["text_encoder/*"]));
    assert_eq!(diff(place.input(), other.input(), &only).expect("compared"), []);
    let one = place.input().join("vae");
    let error = diff(place.input(), &one, &DiffRequest::default()).expect_err("one checkpoint").to_string();
    let want = "both a checkpoint and folders of others, `text_encoder`, `text_encoder_2`, `transformer`, `vae` (name \
                one of these folders)";
    assert!(error.ends_with(want), "{error}");
    let to = ReportRequest::default().to(vec![CandidateFormat::Bare(DataType::Float16)]);
    let found = report(place.input(), &to).expect("a report");
    assert!(found.tensors.iter().any(|tensor| tensor.name == "vae/decoder.conv_in.weight"));
    assert_eq!(found.tensors.len(), 6);
    let half = BitCastRequest::new(DataType::Uint32);
    let done = bit_cast_file(place.input(), place.output(), &half).expect("reinterpreted");
    assert!(done.tensors.iter().all(|tensor| tensor.to == DataType::Uint32));
}

/// The root of a pipeline in a cache, whose files are links.
#[test]
fn a_pipeline_in_a_cache_is_read_through_its_links() {
    let place = pipeline();
    let root = place.0.path().join("models--org--name");
    fs::create_dir_all(root.join("blobs")).expect("a folder");
    for (index, name) in files(&place.input()).iter().enumerate() {
        fs::copy(place.input().join(name), root.join(format!("blobs/{index}"))).expect("copied");
        let link = root.join("snapshots/abc").join(name);
        fs::create_dir_all(link.parent().expect("a folder")).expect("a folder");
        let up = "../".repeat(2 + name.matches('/').count());
        symlink(format!("{up}blobs/{index}"), link).expect("a link");
    }
    cast_file(&root, place.output(), &CastRequest::new(DataType::BFloat16)).expect("cast");
    assert_eq!(files(&place.output()), written());
    assert!(files(&place.output()).iter().all(|name| !place.output().join(name).is_symlink()));
}
