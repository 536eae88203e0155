//! Are checkpoints divided into files of a given size like transformers does, without changing any tensor?

use onnx_cast::{DataType, Tensor, TensorView};
use onnx_cast_file::parts::{FileJob, Part, files as plan, lay_out, name_whole, write_part, write_side_files};
use onnx_cast_file::{
    CastRequest, DequantizeRequest, FileError, Layout, QuantizeRequest, RunOptions, ShardSize, TranscodeRequest,
    WeightFormat, cast_file, dequantize_file, quantize_file, safetensors, transcode_file,
};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

/// Names and shapes of tensors.
type Tensors = &'static [(&'static str, &'static [usize])];

/// Float tensors of each file, sorted by name. An element has 4 bytes.
const FILES: [(&str, Tensors); 2] = [
    (
        "model-00001-of-00002.safetensors",
        &[
            ("model.embed_tokens.weight", &[40, 32]),
            ("model.layers.0.mlp.down_proj.weight", &[32, 64]),
            ("model.layers.0.mlp.up_proj.weight", &[64, 32]),
        ],
    ),
    (
        "model-00002-of-00002.safetensors",
        &[
            ("model.layers.1.mlp.down_proj.weight", &[32, 64]),
            ("model.layers.1.mlp.up_proj.weight", &[64, 32]),
            ("model.norm.weight", &[32]),
        ],
    ),
];

fn write(path: &Path, tensors: &[(&str, &[usize])]) {
    let tensors: Vec<(&str, Tensor)> = tensors
        .iter()
        .enumerate()
        .map(|(tensor, (name, shape))| {
            let len = shape.iter().product::<usize>();
            let values: Vec<f32> = (0..len).map(|i| ((i * 37 + tensor * 11) % 101) as f32 / 64.0 - 0.7).collect();
            (*name, Tensor::from_slice(shape.to_vec(), &values).expect("a tensor"))
        })
        .collect();
    let views: Vec<(&str, TensorView<'_>)> = tensors.iter().map(|(name, one)| (*name, one.view())).collect();
    let metadata = [("format".to_owned(), "pt".to_owned())];
    fs::write(path, safetensors::write(Some(&metadata), &views).expect("a file")).expect("written");
}

fn checkpoint(folder: &Path) -> PathBuf {
    let input = folder.join("in");
    fs::create_dir(&input).expect("a folder");
    let mut map = Vec::new();
    for (file, tensors) in FILES {
        write(&input.join(file), tensors);
        map.extend(tensors.iter().map(|(name, _)| format!("{name:?}: {file:?}")));
    }
    let text = format!(r#"{{"metadata": {{"total_size": 0}}, "weight_map": {{{}}}}}"#, map.join(", "));
    fs::write(input.join("model.safetensors.index.json"), text).expect("written");
    fs::write(input.join("config.json"), r#"{"model_type": "llama", "torch_dtype": "float32"}"#).expect("written");
    input
}

fn size(text: &str) -> RunOptions {
    RunOptions::new().shard_size(Some(text.parse().expect("a size")))
}

/// Returns the tensors of a folder, each with its file and its bytes. Files are sorted by name.
fn tensors(folder: &Path) -> Vec<(String, String, Vec<u8>)> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("one").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "safetensors"));
    paths.sort();
    let mut all = Vec::new();
    for path in paths {
        let bytes = fs::read(&path).expect("read");
        let (_, metadata) = ::safetensors::SafeTensors::read_metadata(&bytes).expect("a header");
        let file = ::safetensors::SafeTensors::deserialize(&bytes).expect("tensors");
        for name in metadata.offset_keys() {
            let data = file.tensor(&name).expect("a tensor").data().to_vec();
            all.push((path.file_name().expect("a name").to_string_lossy().into_owned(), name, data));
        }
    }
    all
}

/// Compares an output with the output without a size, and returns the number of bytes of each file.
#[track_caller]
fn check(folder: &Path, whole: &Path) -> Vec<usize> {
    let (found, want) = (tensors(folder), tensors(whole));
    let by_name = |all: &[(String, String, Vec<u8>)]| -> BTreeMap<String, Vec<u8>> {
        all.iter().map(|(_, name, data)| (name.clone(), data.clone())).collect()
    };
    assert!(by_name(&found) == by_name(&want), "other tensors");
    assert_eq!(found.len(), want.len());
    let mut sizes = BTreeMap::<&str, usize>::new();
    found.iter().for_each(|(file, _, data)| *sizes.entry(file).or_default() += data.len());
    let names: Vec<String> = match sizes.len() {
        1 => vec!["model.safetensors".to_owned()],
        count => (1..=count).map(|index| format!("model-{index:05}-of-{count:05}.safetensors")).collect(),
    };
    assert_eq!(sizes.keys().copied().collect::<Vec<_>>(), names);
    let index = folder.join("model.safetensors.index.json");
    assert_eq!(index.exists(), sizes.len() > 1);
    if index.exists() {
        let index: Value = serde_json::from_str(&fs::read_to_string(index).expect("read")).expect("JSON");
        assert_eq!(index["metadata"]["total_size"].as_u64(), Some(sizes.values().sum::<usize>() as u64));
        let map: HashMap<String, String> = serde_json::from_value(index["weight_map"].clone()).expect("a map");
        assert_eq!(map, found.iter().map(|(file, name, _)| (name.clone(), file.clone())).collect());
    }
    sizes.into_values().collect()
}

#[test]
fn casts_are_divided_in_the_order_of_their_tensors() {
    let folder = tempfile::tempdir().expect("a folder");
    let (input, path) = (checkpoint(folder.path()), |name: &str| folder.path().join(name));
    let request = CastRequest::new(DataType::Float16);
    cast_file(&input, path("whole"), &request).expect("cast");
    // The float16 tensors have 2560, 4096 (four times) and 64 bytes.
    for (name, text, want) in [
        ("one", "1MB", &[19_008][..]),
        ("two", "10KiB", &[6_656, 8_192, 4_160]),
        ("exact", "6656", &[6_656, 4_096, 4_096, 4_160]),
        ("small", "3kb", &[2_560, 4_096, 4_096, 4_096, 4_096, 64]),
    ] {
        let done = cast_file(&input, path(name), &request.clone().run(size(text))).expect("cast");
        assert_eq!(check(&path(name), &path("whole")), want, "{text}");
        let order: Vec<String> = tensors(&path(name)).into_iter().map(|(_, name, _)| name).collect();
        let names = FILES.iter().flat_map(|(_, tensors)| tensors.iter().map(|(name, _)| (*name).to_owned()));
        assert_eq!(order, names.collect::<Vec<_>>(), "{text}");
        let note = done.notes.iter().find(|note| note.contains("model-00001-of") || note.contains("model.safetensors"));
        let note = note.unwrap_or_else(|| panic!("{:?}", done.notes));
        assert_eq!(note.contains("4 larger, as tensors are not split"), name == "small", "{note}");
        assert_eq!(done.copied, 1, "the configuration");
        let first = tensors(&path(name)).swap_remove(0).0;
        let bytes = fs::read(path(name).join(first)).expect("the first file");
        assert!(String::from_utf8_lossy(&bytes[..200]).contains(r#""format":"pt""#), "{text}");
    }
}

#[test]
fn scales_stay_with_their_weights() {
    let folder = tempfile::tempdir().expect("a folder");
    let (input, path) = (checkpoint(folder.path()), |name: &str| folder.path().join(name));
    let together = |folder: &Path| {
        let mut files = HashMap::<String, String>::new();
        for (file, name, _) in tensors(folder) {
            let (module, _) = name.rsplit_once('.').expect("a module");
            assert_eq!(*files.entry(module.to_owned()).or_insert(file.clone()), file, "{name}");
        }
        files.values().collect::<std::collections::HashSet<_>>().len()
    };
    let to: WeightFormat = "nvfp4".parse().expect("a format");
    let quantize = QuantizeRequest::new(to);
    quantize_file(&input, path("q-whole"), &quantize).expect("quantized");
    quantize_file(&input, path("q"), &quantize.clone().run(size("1200"))).expect("quantized");
    assert_eq!(check(&path("q"), &path("q-whole")).len(), 6);
    assert_eq!(together(&path("q")), 6);
    // Dequantize all but one weight of these files.
    let mut dequantize = DequantizeRequest::new(DataType::Float);
    dequantize.selection.exclude.push("*.1.mlp.up_proj.*".parse().expect("a pattern"));
    dequantize_file(path("q"), path("d-whole"), &dequantize).expect("dequantized");
    dequantize_file(path("q"), path("d"), &dequantize.clone().run(size("10KB"))).expect("dequantized");
    check(&path("d"), &path("d-whole"));
    together(&path("d"));
    let transcode = TranscodeRequest::new(Layout::ModelOpt);
    transcode_file(path("q"), path("t-whole"), &transcode).expect("transcoded");
    transcode_file(path("q"), path("t"), &transcode.clone().run(size("3KiB"))).expect("transcoded");
    assert!(check(&path("t"), &path("t-whole")).iter().all(|&bytes| bytes <= 3072 || bytes == 5120));
    together(&path("t"));
    // Scales in a different file than their elements, or far from them, move next to them.
    let (mut elements, mut scales) = (Vec::new(), Vec::new());
    for (_, name, data) in tensors(&path("q-whole")) {
        let shape = vec![data.len()];
        let tensor = Tensor::new(DataType::Uint8, shape, data).expect("a tensor");
        if name.contains("scale") { scales.push((name, tensor)) } else { elements.push((name, tensor)) }
    }
    let all: Vec<_> = elements.iter().chain(&scales).map(|(name, one)| (name.as_str(), one.view())).collect();
    fs::create_dir(path("apart")).expect("a folder");
    fs::write(path("apart/model.safetensors"), safetensors::write(None, &all).expect("a file")).expect("written");
    let mut keep = CastRequest::new(DataType::Int8);
    keep.selection.include.push("model.norm.weight".parse().expect("a pattern"));
    cast_file(path("apart"), path("joined-whole"), &keep).expect("kept");
    cast_file(path("apart"), path("joined"), &keep.clone().run(size("1300"))).expect("kept");
    assert!(check(&path("joined"), &path("joined-whole")).len() > 3);
    together(&path("joined"));
}

#[test]
fn divided_outputs_are_planned_continued_and_written_in_parts() {
    let folder = tempfile::tempdir().expect("a folder");
    let (input, path) = (checkpoint(folder.path()), |name: &str| folder.path().join(name));
    let request = CastRequest::new(DataType::Float16).run(size("7KB"));
    let dry = request.clone().run(size("7KB").dry_run(true));
    let planned = cast_file(&input, path("out"), &dry).expect("planned");
    assert!(!path("out").exists());
    assert!(planned.notes.iter().any(|note| note.starts_with("4 files of at most 7KB: model-00001-of-00004.")));
    cast_file(&input, path("out"), &request).expect("cast");
    let names = ["model-00002-of-00004.safetensors", "model.safetensors.index.json"].map(|name| path("out").join(name));
    let before = names.clone().map(|name| fs::read(name).expect("read"));
    names.iter().for_each(|name| fs::remove_file(name).expect("removed"));
    let resumed = request.clone().run(size("7KB").resume(true));
    let done = cast_file(&input, path("out"), &resumed).expect("continued");
    assert_eq!(done.already_there, 3);
    assert!(names.clone().map(|name| fs::read(name).expect("read")) == before);
    let other = request.clone().run(size("9KB").resume(true));
    let error = cast_file(&input, path("out"), &other).map(drop).expect_err("another size");
    assert!(error.to_string().contains("which is not part of this output"), "{error}");
    // `force` removes files that the new output does not contain.
    let mut forced = request.clone().run(size("1GB"));
    forced.run.write.force = true;
    let done = cast_file(&input, path("out"), &forced).expect("cast");
    assert_eq!(done.removed.len(), 5, "{:?}", done.removed);
    cast_file(&input, path("whole"), &CastRequest::new(DataType::Float16)).expect("cast");
    assert_eq!(check(&path("out"), &path("whole")).len(), 1);

    let job = FileJob::Cast(&request);
    let planned = plan(&input, &path("parts"), job).expect("planned");
    assert_eq!(planned.len(), 4);
    for (index, shard) in planned.iter().enumerate() {
        let temporary = shard.output.with_extension("part");
        fs::create_dir_all(path("parts")).expect("a folder");
        lay_out(&input, &path("parts"), index, &temporary, job).expect("laid out");
        for part in [1, 0, 2] {
            write_part(&input, &path("parts"), index, Part { index: part, of: 3 }, &temporary, job).expect("written");
        }
        name_whole(&temporary, &shard.output).expect("named");
    }
    write_side_files(&input, &path("parts"), job).expect("written");
    assert_eq!(check(&path("parts"), &path("whole")).len(), 4);
}

#[test]
fn one_file_becomes_a_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let (input, path) = (checkpoint(folder.path()), |name: &str| folder.path().join(name));
    let file = input.join(FILES[0].0);
    let request = CastRequest::new(DataType::Float16);
    fs::create_dir(path("whole")).expect("a folder");
    cast_file(&file, path("whole/all.safetensors"), &request).expect("cast");
    cast_file(&file, path("out"), &request.clone().run(size("5KB"))).expect("cast");
    assert_eq!(check(&path("out"), &path("whole")), [2_560, 4_096, 4_096]);
    // File names of other programs are kept.
    fs::create_dir(path("unet")).expect("a folder");
    fs::copy(&file, path("unet/diffusion_pytorch_model.safetensors")).expect("copied");
    cast_file(path("unet"), path("unet-out"), &request.clone().run(size("5KB"))).expect("cast");
    assert!(path("unet-out/diffusion_pytorch_model-00003-of-00003.safetensors").exists());
    assert!(path("unet-out/diffusion_pytorch_model.safetensors.index.json").exists());
}

#[test]
fn what_is_not_divided() {
    let folder = tempfile::tempdir().expect("a folder");
    let (input, path) = (checkpoint(folder.path()), |name: &str| folder.path().join(name));
    let request = CastRequest::new(DataType::Float16).run(size("5KB"));
    let refused = |input: &Path, output: &Path| -> String {
        let error: FileError = cast_file(input, output, &request).map(drop).expect_err("refused");
        error.to_string()
    };
    let file = input.join(FILES[0].0);
    let is_a_file = "a file (want a folder: `shard_size` divides what is written into files)";
    for output in ["out.safetensors", "out.npz", "out.gguf", "out/model.safetensors.index.json"] {
        for input in [&input, &file] {
            assert!(refused(input, &path(output)).ends_with(is_a_file), "{}", refused(input, &path(output)));
        }
    }
    assert!(refused(&input, &input).contains("the folder of the input (want another: `shard_size` divides"));
    assert!(refused(&file, &input).contains("the folder of the input (want another: `shard_size` divides"));
    let array = path("x.npy");
    let tensor = Tensor::from_slice(vec![2], &[1f32, 2.0]).expect("a tensor");
    onnx_cast_file::write_tensor(&array, onnx_cast_file::Format::Npy, "x", tensor.view(), &Default::default())
        .expect("written");
    let checkpoints = "`shard_size` is for .safetensors checkpoints, which are written to a folder";
    assert!(refused(&array, &path("out")).ends_with(checkpoints), "{}", refused(&array, &path("out")));
    let to: WeightFormat = "q8_0".parse().expect("a format");
    let gguf = QuantizeRequest::new(to).run(size("5KB"));
    let error = quantize_file(&input, path("out.gguf"), &gguf).map(drop).expect_err("refused").to_string();
    assert!(error.ends_with(checkpoints), "{error}");
    // Contradictory metadata of several files is an error.
    let tensor = [("a", tensor.view())];
    for (name, value) in [("a", "1"), ("b", "2")] {
        let metadata = [("step".to_owned(), value.to_owned())];
        let tensor = [(name, tensor[0].1)];
        fs::create_dir_all(path("steps")).expect("a folder");
        let bytes = safetensors::write(Some(&metadata), &tensor).expect("a file");
        fs::write(path("steps").join(format!("{name}.safetensors")), bytes).expect("written");
    }
    let index = r#"{"weight_map": {"a": "a.safetensors", "b": "b.safetensors"}}"#;
    fs::write(path("steps/model.safetensors.index.json"), index).expect("written");
    assert!(refused(&path("steps"), &path("out")).contains("several values of `step`"));
    assert!(!path("out").exists());
    assert_eq!(ShardSize::new(0), None);
}
