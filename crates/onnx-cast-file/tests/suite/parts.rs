//! Does a checkpoint that is cast in parts, in any order and twice over, become the files of a cast at once?

use crate::common::replacing::cast_file;
use onnx_cast::{DataType, Tensor, TensorView};
use onnx_cast_file::parts::{
    FileJob, Part, files as plan, lay_out, name_whole, part_is_there, write_part, write_side_files,
};
use onnx_cast_file::{CastRequest, safetensors};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Two files of tensors whose lengths are no round numbers, and their index.
fn checkpoint(folder: &Path) -> PathBuf {
    fs::create_dir(folder).expect("a folder");
    let mut map = Vec::new();
    for (file, lens) in [("a.safetensors", [70_004, 1, 0]), ("b.safetensors", [4, 1_000, 300_012])] {
        let tensors: Vec<(String, Tensor)> = lens
            .iter()
            .enumerate()
            .map(|(i, &len)| {
                let values: Vec<f32> = (0..len).map(|v| (v as f32 - 500.0) / 7.0).collect();
                (format!("{file}.{i}"), Tensor::from_slice(vec![len], &values).expect("a tensor"))
            })
            .collect();
        let views: Vec<(&str, TensorView<'_>)> = tensors.iter().map(|(name, one)| (&**name, one.view())).collect();
        fs::write(folder.join(file), safetensors::write(None, &views).expect("a file")).expect("written");
        map.extend(tensors.iter().map(|(name, _)| format!("{name:?}: {file:?}")));
    }
    let index = folder.join("model.safetensors.index.json");
    let text = format!("{{\"metadata\": {{\"total_size\": 0}}, \"weight_map\": {{{}}}}}", map.join(", "));
    fs::write(&index, text).expect("written");
    index
}

fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let name = |path: &Path| path.file_name().expect("a name").to_string_lossy().into_owned();
    entries.map(|path| (name(&path), fs::read(&path).expect("read"))).collect()
}

/// Casts a file in parts, the last first, and one of them twice.
fn in_parts(input: &Path, output: &Path, of: usize, request: &CastRequest) {
    let (temporary, job) = (output.with_extension("part"), FileJob::Cast(request));
    lay_out(input, output, 0, &temporary, job).expect("laid out");
    for index in (0..of).rev().chain([of / 2]) {
        write_part(input, output, 0, Part { index, of }, &temporary, job).expect("cast");
    }
    name_whole(&temporary, output).expect("named");
}

/// An index that names no tensor is a mistake, at once and in parts. (Found by fuzzing.)
#[test]
fn a_checkpoint_without_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let index = folder.path().join("model.safetensors.index.json");
    fs::write(&index, r#"{"metadata": {"total_size": 36}, "weight_map": {}}"#).expect("written");
    let request = CastRequest::new(DataType::Float16);
    let output = folder.path().join("out");
    let at_once = cast_file(&index, &output, &request).map(drop).expect_err("no tensor");
    let in_parts = plan(&index, &output, FileJob::Cast(&request)).map(drop).expect_err("no tensor");
    for error in [at_once, in_parts] {
        assert!(error.to_string().ends_with("weight_map names no tensor"), "{error}");
    }
}

#[test]
fn parts_make_the_same_files_in_any_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let input = checkpoint(&folder.path().join("in"));
    for (to, of) in [
        (DataType::BFloat16, 1),
        (DataType::Float4E2M1, 7),
        (DataType::Float6E2M3, 3),
        (DataType::Double, 11),
        (DataType::Float8E4M3FN, 61),
    ] {
        let mut request = CastRequest::new(to);
        request.selection.rules.push("*.1=keep".parse().expect("a rule"));
        let at = |name: &str| folder.path().join(format!("{name}-{to}"));
        let mut summary = cast_file(&input, at("whole"), &request).expect("cast");
        // A plan reads no values.
        summary.tensors.iter_mut().for_each(|row| row.alarms = None);
        let job = FileJob::Cast(&request);
        let planned = plan(&input, &at("parts"), job).expect("planned");
        assert_eq!(planned.iter().flat_map(|shard| shard.tensors.clone()).collect::<Vec<_>>(), summary.tensors);
        for shard in &planned {
            in_parts(&shard.input, &shard.output, of, &request);
        }
        write_side_files(&input, &at("parts"), job).expect("written");
        assert!(files(&at("whole")) == files(&at("parts")), "{to} in {of} parts");
    }
}

#[test]
fn a_part_that_is_there_is_known() {
    let folder = tempfile::tempdir().expect("a folder");
    let input = checkpoint(&folder.path().join("in")).with_file_name("b.safetensors");
    let (output, request) = (folder.path().join("out.safetensors"), CastRequest::new(DataType::Float16));
    let there = |of| -> Vec<bool> {
        let job = FileJob::Cast(&request);
        let there = |index| part_is_there(&input, &output, 0, Part { index, of }, job).expect("compared");
        (0..of).map(there).collect()
    };
    assert_eq!(there(2), [false, false]);
    in_parts(&input, &output, 4, &request);
    assert_eq!(there(3), [true, true, true]);
    let mut bytes = fs::read(&output).expect("read");
    *bytes.last_mut().expect("bytes") ^= 1;
    fs::write(&output, &bytes).expect("written");
    assert_eq!(there(3), [true, true, false]);
    bytes[9] ^= 1;
    fs::write(&output, &bytes[..bytes.len()]).expect("written");
    assert_eq!(there(3), [false, true, false]);
    fs::write(&output, &bytes[1..]).expect("written");
    assert_eq!(there(1), [false]);
}

#[test]
fn what_does_not_fit_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let input = checkpoint(&folder.path().join("in")).with_file_name("a.safetensors");
    let at = |name: &str| folder.path().join(name);
    let request = CastRequest::new(DataType::Float16);
    let (job, output) = (FileJob::Cast(&request), at("out.safetensors"));
    let cast = |to: &str, index, of| write_part(&input, &output, 0, Part { index, of }, &at(to), job);
    let error = cast("none", 0, 2).expect_err("there is no file");
    assert!(error.to_string().contains("none"), "{error}");
    fs::write(at("other"), [7; 100]).expect("written");
    let error = cast("other", 0, 2).expect_err("another file");
    assert!(error.to_string().contains("it has 100 bytes"), "{error}");
    assert_eq!(fs::read(at("other")).expect("read"), [7; 100]);
    assert!(name_whole(&at("none"), &at("out.safetensors")).is_err() && !at("out.safetensors").exists());
    fs::write(at("x.npy"), []).expect("written");
    let error = plan(&at("x.npy"), &at("y.npy"), job).expect_err("another format");
    assert!(error.to_string().contains("a cast in parts does not take .npy files"), "{error}");
    let none = CastRequest::new(DataType::Int4);
    assert!(plan(&input, &output, FileJob::Cast(&none)).is_err());
    // No part is beyond the last, and none is all.
    lay_out(&input, &output, 0, &at("x"), job).expect("laid out");
    let before = fs::read(at("x")).expect("read");
    cast("x", usize::MAX, 3).expect("nothing to do");
    assert!(fs::read(at("x")).expect("read") == before);
    cast("x", 0, 0).expect("all of it");
    name_whole(&at("x"), &at("out.safetensors")).expect("named");
    cast_file(&input, at("whole.safetensors"), &request).expect("cast");
    assert!(fs::read(at("out.safetensors")).expect("read") == fs::read(at("whole.safetensors")).expect("read"));
}
