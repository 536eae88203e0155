//! Do tensors in memory become what the same tensors become in files? On every checkpoint of
//! `crates/testkit/data/checkpoints`.

use crate::common::replacing::{dequantize_file, quantize_file, transcode_file};
use onnx_cast::scaled::BlockFormat;
use onnx_cast::{DataType, Tensor};
use onnx_cast_file::parts::{FileJob, Part, files, lay_out, name_whole, part_is_there, write_part, write_side_files};
use onnx_cast_file::{
    DequantizeRequest, Format, Granularity, HeldTensor, InputFile, Layout, Loss, MadeTensors, NamedTensor,
    QuantizeRequest, QuantizedFormat, RunOptions, TensorsInMemory, TranscodeRequest, dequantize_tensors, inspect,
    quantize_tensors, quantized_tensors, read_tensors_from, transcode_tensors,
};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

type Tensors = BTreeMap<String, Tensor>;

fn checkpoints() -> Vec<PathBuf> {
    let mut all = testkit::checkpoints::all(env!("CARGO_TARGET_TMPDIR"));
    // Tensors in memory have no metadata, which alone tells the format there.
    all.retain(|folder| !folder.ends_with("comfy-nvfp4-metadata"));
    all
}

/// A copy of a checkpoint without what it is expected to be.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name");
        if name != "expected.safetensors" && name != "original.safetensors" {
            fs::copy(&path, to.join(name)).expect("copied");
        }
    }
}

/// The tensors of all files of a folder.
fn tensors(folder: &Path) -> Tensors {
    let mut all = Tensors::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "safetensors") {
            let file = InputFile::open(&path).expect("a file");
            for NamedTensor { name, tensor } in read_tensors_from(file, Format::Safetensors, None).expect("tensors") {
                all.insert(name, tensor);
            }
        }
    }
    all
}

/// The configuration of a folder.
fn config(folder: &Path) -> Option<String> {
    let read = |name: &str| fs::read_to_string(folder.join(name)).ok();
    let own = ["hf_quant_config.json", "quantize_config.json", "quant_config.json"];
    let main = read("config.json").filter(|text| text.contains("quantization_config"));
    // What describes the model alone may tell the shape of its weights.
    main.or_else(|| own.into_iter().find_map(read)).or_else(|| read("config.json"))
}

fn held(tensors: &Tensors, config: Option<&str>) -> TensorsInMemory {
    in_order(tensors.keys(), tensors, config)
}

fn in_order<'a>(names: impl Iterator<Item = &'a String>, tensors: &Tensors, config: Option<&str>) -> TensorsInMemory {
    let held =
        |name: &String| -> HeldTensor { NamedTensor { name: name.clone(), tensor: tensors[name].clone() }.into() };
    TensorsInMemory::new(names.map(held).collect(), config).expect("tensors")
}

/// All tensors of a result, those that are kept among them.
fn all(made: MadeTensors, input: &Tensors) -> Tensors {
    let MadeTensors { summary, sources, tensors, .. } = made;
    assert_eq!((summary.tensors.len(), sources.len()), (tensors.len(), tensors.len()));
    let rows = summary.tensors.into_iter().zip(sources).zip(tensors);
    let tensor = |((row, source), tensor): ((onnx_cast_file::TensorSummary, String), Option<Tensor>)| {
        assert_eq!(row.cast, tensor.is_some(), "{}", row.name);
        assert!(input.contains_key(&source), "{source}");
        (row.name.clone(), tensor.unwrap_or_else(|| input[&row.name].clone()))
    };
    rows.map(tensor).collect()
}

/// The text of an error behind the path that it begins with.
fn text(error: &impl ToString) -> String {
    error.to_string().split_once(": ").map(|(_, text)| text.to_owned()).unwrap_or_default()
}

#[test]
fn dequantized_tensors_are_those_of_files() {
    let folder = tempfile::tempdir().expect("a folder");
    for checkpoint in checkpoints() {
        let name = checkpoint.file_name().expect("a name").to_string_lossy().into_owned();
        let (input, output) = (folder.path().join(&name), folder.path().join(format!("{name}-plain")));
        copy(&checkpoint, &input);
        for to in [DataType::BFloat16, DataType::Float, DataType::Float8E5M2] {
            let request = DequantizeRequest::new(to);
            let stored = tensors(&input);
            let in_files = dequantize_file(&input, output.with_extension(to.name()), &request);
            let made = dequantize_tensors(held(&stored, config(&input).as_deref()), &request);
            match (in_files, made) {
                (Ok(_), Ok(made)) => {
                    assert_eq!(made.quantization_config, None);
                    assert!(all(made, &stored) == tensors(&output.with_extension(to.name())), "{name} to {to}");
                }
                (Err(want), Err(got)) => assert_eq!(text(&got), text(&want), "{name}"),
                (want, got) => panic!("{name} to {to}: {:?} in files, {:?} in memory", want.err(), got.err()),
            }
        }
        let found = quantized_tensors(&held(&tensors(&input), config(&input).as_deref()), None).ok();
        let listed = inspect(&input, &Default::default()).expect("a checkpoint").quantized.expect("it is quantized");
        let mut want = listed.weights.clone();
        want.sort_by(|a, b| a.name.cmp(&b.name));
        let mut got = found.map(|found| found.weights).unwrap_or_default();
        got.sort_by(|a, b| a.name.cmp(&b.name));
        assert_eq!(got, want, "{name}");
    }
}

/// The checkpoints that have the weights before they were quantized, copied to a folder.
fn originals(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for checkpoint in checkpoints() {
        let original = checkpoint.join("original.safetensors");
        if original.exists() {
            let copied = folder.join(checkpoint.file_name().expect("a name"));
            fs::create_dir_all(&copied).expect("a folder");
            fs::copy(original, copied.join("model.safetensors")).expect("copied");
            fs::write(copied.join("config.json"), "{}").expect("written");
            found.push(copied);
        }
    }
    assert!(found.len() > 3);
    found
}

fn quantizations() -> Vec<QuantizeRequest> {
    let mut requests = Vec::new();
    // `.gguf` files are not tensors in memory.
    for (layout, _) in Layout::ALL.iter().filter(|(layout, _)| *layout != Layout::Gguf) {
        for to in QuantizedFormat::all() {
            for granularity in [None, Some(Granularity::Tensor), Some(Granularity::Block([16, 16]))] {
                requests.push(QuantizeRequest::new(to.by(granularity)).layout(Some(*layout)));
            }
        }
    }
    requests
}

#[test]
fn quantized_tensors_are_those_of_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut done, mut refused) = (0, 0);
    for input in originals(folder.path()) {
        let stored = tensors(&input);
        for request in quantizations() {
            let (output, again) = (input.with_extension("quantized"), input.with_extension("again"));
            let in_files = quantize_file(&input, &output, &request);
            let made = quantize_tensors(held(&stored, None), &request);
            let case = format!("{} to {request:?}", input.display());
            match (in_files, made) {
                (Ok(summary), Ok(made)) => {
                    assert_eq!(made.summary.tensors, summary.tensors, "{case}");
                    let config = made.quantization_config.clone();
                    let quantized = all(made, &stored);
                    assert!(quantized == tensors(&output), "{case}");
                    let file = fs::read_to_string(output.join("config.json")).expect("a configuration");
                    let file: serde_json::Value = serde_json::from_str(&file).expect("JSON");
                    let parsed = config.as_ref().map(|text| serde_json::from_str(text).expect("JSON"));
                    assert_eq!(file.get("quantization_config").cloned(), parsed, "{case}");
                    // And back, with the configuration that it gave.
                    let layout = config.is_none().then_some(request.layout).flatten();
                    let request = DequantizeRequest::new(DataType::Float).layout(layout);
                    dequantize_file(&output, &again, &request).expect("plain weights");
                    let plain = dequantize_tensors(held(&quantized, config.as_deref()), &request).expect("plain");
                    assert!(all(plain, &quantized) == tensors(&again), "{case}, back");
                    done += 1;
                }
                (Err(want), Err(got)) => {
                    assert_eq!(text(&got), text(&want), "{case}");
                    refused += 1;
                }
                (want, got) => panic!("{case}: {:?} in files, {:?} in memory", want.err(), got.err()),
            }
            for folder in [output, again] {
                let _ = fs::remove_dir_all(folder);
            }
        }
    }
    assert!(done > 50 && refused > 50, "{done} done, {refused} refused");
}

#[test]
fn transcoded_tensors_are_those_of_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut done = 0;
    for checkpoint in checkpoints() {
        let name = checkpoint.file_name().expect("a name").to_string_lossy().into_owned();
        let input = folder.path().join(&name);
        copy(&checkpoint, &input);
        let stored = tensors(&input);
        // The first tensor that is refused is that of the files.
        let listed = inspect(&input, &Default::default()).expect("a checkpoint").tensors;
        let order: Vec<String> = listed.into_iter().map(|tensor| tensor.name).collect();
        for (layout, _) in Layout::ALL {
            for to in [None, Some(QuantizedFormat::Block(BlockFormat::NvFp4))] {
                let output = folder.path().join(format!("{name}-{}-{}", layout.name(), to.is_some()));
                let request = TranscodeRequest::new(*layout).to(to);
                let in_files = transcode_file(&input, &output, &request);
                let made = transcode_tensors(in_order(order.iter(), &stored, config(&input).as_deref()), &request);
                let case = format!("{name} as {}", layout.name());
                match (in_files, made) {
                    (Ok(_), Ok(made)) => {
                        assert!(all(made, &stored) == tensors(&output), "{case}");
                        done += 1;
                    }
                    (Err(want), Err(got)) => assert_eq!(text(&got), text(&want), "{case}"),
                    (want, got) => panic!("{case}: {:?} in files, {:?} in memory", want.err(), got.err()),
                }
            }
        }
    }
    assert!(done > 20, "{done}");
}

fn float8(name: &str, values: usize) -> NamedTensor {
    let bytes = vec![0x38; values];
    let tensor = Tensor::new(DataType::Float8E4M3FN, vec![1, values], bytes).expect("a tensor");
    NamedTensor { name: name.to_owned(), tensor }
}

fn scale(name: &str, value: f32) -> NamedTensor {
    NamedTensor { name: name.to_owned(), tensor: Tensor::from_slice(vec![1], &[value]).expect("a tensor") }
}

#[test]
fn large_tensors_of_a_module() {
    // Longer than a stretch of memory and a chunk, and no multiple of either.
    let values = (3 << 18) + 13;
    let module = || vec![float8("weight", values).into(), scale("weight_scale", 2.0).into()];
    let tensors = TensorsInMemory::new(module(), None).expect("tensors");
    let made = dequantize_tensors(tensors, &DequantizeRequest::new(DataType::Float)).expect("plain");
    let [Some(weight)] = &made.tensors[..] else { panic!("one tensor") };
    assert_eq!(weight.to_vec::<f32>().expect("floats"), vec![2.0; values]);
    let loss = DequantizeRequest::new(DataType::Float16).run(RunOptions::new().fail_on(vec![Loss::Overflow]));
    let tensors = || vec![float8("weight", 9).into(), scale("weight_scale", 1e5).into()];
    let error = dequantize_tensors(TensorsInMemory::new(tensors(), None).expect("tensors"), &loss).expect_err("a loss");
    assert!(error.to_string().starts_with("tensors: tensor `weight`: overflow in 9 values"), "{error}");
}

#[test]
fn tensors_that_are_wrong_are_refused() {
    let short =
        HeldTensor { name: "w".to_owned(), data_type: DataType::Float, shape: vec![2], bytes: Box::new(vec![0; 7]) };
    let error = TensorsInMemory::new(vec![short], None).expect_err("too short");
    assert_eq!(error.to_string(), "tensors: tensor `w`: 7 bytes for 2 float (want 8)");
    let huge = HeldTensor {
        name: "w".to_owned(),
        data_type: DataType::Float,
        shape: vec![usize::MAX; 2],
        bytes: Box::new(Vec::new()),
    };
    assert!(TensorsInMemory::new(vec![huge], None).is_err());
    let twice = vec![scale("w", 1.0).into(), scale("w", 2.0).into()];
    let error = TensorsInMemory::new(twice, None).expect_err("one name");
    assert_eq!(error.to_string(), "tensors: two tensors would be named `w`");
    let request = DequantizeRequest::new(DataType::Float);
    let tensors = |config| TensorsInMemory::new(vec![scale("w", 1.0).into()], config).expect("tensors");
    let error = dequantize_tensors(tensors(Some("[")), &request).expect_err("no JSON");
    assert!(error.to_string().starts_with("config: "), "{error}");
    assert_eq!(quantized_tensors(&tensors(None), None).expect("none").weights, []);
    let error = dequantize_tensors(tensors(None), &request).expect_err("nothing there");
    assert!(error.to_string().starts_with("tensors: "), "{error}");
}

/// The files of a folder and their bytes.
fn bytes(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let name = |path: &Path| path.file_name().expect("a name").to_string_lossy().into_owned();
    entries.map(|path| (name(&path), fs::read(&path).expect("read"))).collect()
}

/// Writes a checkpoint file by file, the last first, and one of them twice.
fn file_by_file(input: &Path, output: &Path, job: FileJob<'_>) {
    let shards = files(input, output, job).expect("planned");
    assert!(!output.exists());
    for index in (0..shards.len()).rev().chain([0]) {
        let temporary = output.join("x.part");
        let there = || part_is_there(input, output, index, Part::WHOLE, job).expect("compared");
        let write = |part| write_part(input, output, index, part, &temporary, job);
        assert_eq!(there(), shards[index].output.exists());
        assert!(write(Part::WHOLE).is_err());
        fs::create_dir_all(output).expect("a folder");
        fs::write(&temporary, vec![7; 1 << (16 * index)]).expect("written");
        write(Part::WHOLE).expect("written");
        let whole = fs::read(&temporary).expect("read");
        lay_out(input, output, index, &temporary, job).expect("laid out");
        (0..3).rev().try_for_each(|index| write(Part { index, of: 3 })).expect("written in parts");
        assert!(fs::read(&temporary).expect("read") == whole);
        name_whole(&temporary, &shards[index].output).expect("named");
        assert!(there());
    }
    write_side_files(input, output, job).expect("written");
    let error = lay_out(input, output, shards.len(), &output.join("x.part"), job).expect_err("no such file");
    assert!(error.to_string().contains("the checkpoint has no file"), "{error}");
}

#[test]
fn files_that_are_written_one_by_one_are_those_of_the_job() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    for checkpoint in checkpoints().into_iter().filter(|path| path.join("expected.safetensors").exists()) {
        let name = checkpoint.file_name().expect("a name").to_string_lossy().into_owned();
        copy(&checkpoint, &at(&name));
        let (whole, parts) = (at(&format!("{name}-whole")), at(&format!("{name}-parts")));
        let request = DequantizeRequest::new(DataType::BFloat16);
        dequantize_file(at(&name), &whole, &request).expect("plain weights");
        file_by_file(&at(&name), &parts, FileJob::Dequantize(&request));
        assert!(bytes(&whole) == bytes(&parts), "{name}");
    }
    // In two files, with matrices that share a scale in both.
    let input = at("two");
    fs::create_dir(&input).expect("a folder");
    let mut map = Vec::new();
    for (file, names) in [("a.safetensors", ["q_proj", "up_proj"]), ("b.safetensors", ["k_proj", "o_proj"])] {
        let values: Vec<f32> =
            (0..64).map(|v| (v as f32 - 20.0) * if file == "a.safetensors" { 0.5 } else { 3.0 }).collect();
        let tensor = Tensor::from_slice(vec![2, 32], &values).expect("a tensor");
        let names = names.map(|name| format!("layers.0.{name}.weight"));
        let views: Vec<_> = names.iter().map(|name| (&**name, tensor.view())).collect();
        fs::write(input.join(file), onnx_cast_file::safetensors::write(None, &views).expect("a file"))
            .expect("written");
        map.extend(names.iter().map(|name| format!("{name:?}: {file:?}")));
    }
    let index = format!("{{\"weight_map\": {{{}}}}}", map.join(", "));
    fs::write(input.join("model.safetensors.index.json"), index).expect("written");
    fs::write(input.join("config.json"), "{\"model_type\": \"x\"}").expect("written");
    for to in ["nvfp4", "mxfp4", "float8e4m3fn"] {
        for granularity in [None, Some(Granularity::Tensor)] {
            let to: QuantizedFormat = to.parse().expect("a format");
            let request = QuantizeRequest::new(to.by(granularity));
            let (whole, parts) = (at("whole"), at("parts"));
            if quantize_file(&input, &whole, &request).is_ok() {
                file_by_file(&input, &parts, FileJob::Quantize(&request));
                assert!(bytes(&whole) == bytes(&parts), "{to}");
                fs::remove_dir_all(parts).expect("removed");
                fs::remove_dir_all(whole).expect("removed");
            }
        }
    }
}
