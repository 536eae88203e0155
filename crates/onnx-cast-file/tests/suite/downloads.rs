//! What failed and partial downloads leave: pointers, pages and empty files in place of weights, and overlays of newer
//! weights beside stale copies.

use crate::common::checkpoint;

use checkpoint::{Checkpoint, Tensor, bits, codes, file, floats, is_empty, to};
use onnx_cast::DataType;
use onnx_cast_file::{
    CandidateFormat, CastRequest, DiffRequest, Difference, Format, InputFile, InspectRequest, Layout, NamedTensor,
    QuantizeRequest, QuantizedFormat, RawInput, ReportRequest, Summary, TranscodeRequest, cast_file, dequantize_file,
    diff, inspect, quantize_file, read_tensors_from, report, transcode_file,
};
use std::fs;
use std::path::Path;

const LFS: &str = "version https://git-lfs.github.com/spec/v1\n\
                   oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n";

/// Contents, with what errors say of them.
const KINDS: [(&[u8], &str); 9] = [
    (LFS.as_bytes(), "a Git LFS pointer, not the file itself (run `git lfs pull`)"),
    (b"\n<!DOCTYPE html>\n<html lang=\"en\">", "an HTML page, not the file itself (download it again)"),
    (b"<HTML><HEAD>", "an HTML page, not the file itself (download it again)"),
    (
        b"\xef\xbb\xbf<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code></Error>",
        "an XML document, such as the error of a server (download it again)",
    ),
    (b"<Error><Code>NoSuchKey", "an XML document, such as the error of a server (download it again)"),
    (b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03", "a gzip archive (decompress it first)"),
    (b"", "an empty file (download it again)"),
    (b"{\"error\":\"Repository not found\"}", "a JSON document, such as the error of a server (download it again)"),
    (b"[ {\"error\": 404}]", "a JSON document, such as the error of a server (download it again)"),
];

#[test]
fn downloads_that_failed_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = folder.path().join("out.safetensors");
    for (bytes, want) in KINDS {
        for name in ["w.safetensors", "w.npz", "w.npy", "w.gguf", "w.pb", "w.onnx"] {
            let input = folder.path().join(name);
            fs::write(&input, bytes).expect("written");
            let want = format!("{name}: {want}");
            // The reader of messages says what is missing from an empty one.
            let is_named = !(name.ends_with(".pb") || name.ends_with(".onnx")) || !bytes.is_empty();
            let cast = cast_file(&input, &output, &CastRequest::new(DataType::Float)).expect_err(name);
            let look = inspect(&input, &InspectRequest::default()).expect_err(name).to_string();
            for error in [cast.to_string(), look] {
                let error = testkit::fixtures::text_without(folder.path(), error);
                // A job may not take files of the format at all.
                let is_refused = error.contains("does not take") || error.contains("a model becomes a model");
                assert!(error == want || !is_named || is_refused, "{error}, not {want}");
            }
            assert!(!output.exists(), "{want}");
        }
    }
    fs::write(folder.path().join("w.safetensors"), b"Entry not found").expect("written");
    let error = inspect(folder.path().join("w.safetensors"), &InspectRequest::default()).expect_err("no file");
    assert_eq!(
        testkit::fixtures::text_without(folder.path(), error),
        "w.safetensors: a text that begins with `Entry not found`, not the file itself (download it again)"
    );
}

/// Raw bytes that a failed download left, padded to whole floats. An archive or a list may be the bytes of a tensor.
#[test]
fn raw_bytes_are_not_pages() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = folder.path().join("out.npy");
    for (bytes, want) in KINDS {
        let bytes = [bytes, &b" ".repeat(bytes.len().next_multiple_of(4) - bytes.len())].concat();
        let request = CastRequest::new(DataType::Float16).raw(RawInput::default().from(vec!["float".parse().unwrap()]));
        for name in ["w.bin", "w.raw"] {
            let (input, _) = (folder.path().join(name), fs::remove_file(&output));
            fs::write(&input, &bytes).expect("written");
            let is_read = name == "w.raw" || bytes.first().is_none_or(|first| matches!(first, 0x1f | b'['));
            match cast_file(&input, &output, &request) {
                Ok(_) => assert!(is_read, "{want}"),
                Err(error) => {
                    let error = testkit::fixtures::text_without(folder.path(), error);
                    let want = want.replace(')', ", or name raw bytes .raw)");
                    assert!(!is_read && error == format!("{name}: {want}"), "{error}, not {want}");
                }
            }
        }
    }
}

/// Every job refuses a configuration that a failed download left, and a listing warns of it.
#[test]
fn jobs_refuse_configurations_that_are_not_configurations() {
    let names = ["config.json", "quantize_config.json", "hf_quant_config.json"];
    for ((bytes, want), name) in
        KINDS.into_iter().filter(|(bytes, _)| bytes.first() != Some(&b'[')).zip(names.into_iter().cycle())
    {
        let checkpoint = Checkpoint::new("", &[floats("a.weight", &[64, 64], &[1.0])]);
        checkpoint.write(name, bytes);
        let (input, output) = (checkpoint.input(), checkpoint.output());
        let to: QuantizedFormat = "int8".parse().expect("a format");
        let mut errors = vec![
            cast_file(&input, &output, &CastRequest::new(DataType::Float16)).expect_err(want),
            quantize_file(&input, &output, &QuantizeRequest::new(to)).expect_err(want),
        ];
        if name == "config.json" {
            let request = ReportRequest::default().to(vec![CandidateFormat::Bare(DataType::Float16)]);
            errors.push(report(&input, &request).expect_err(want));
        }
        let warning =
            inspect(&input, &InspectRequest::default()).expect("listed").quantized.and_then(|one| one.warning);
        let said = errors.into_iter().map(|error| error.to_string()).chain([warning.expect(want).to_string()]);
        for text in said {
            assert_eq!(testkit::fixtures::text_without(&input, text), format!("{name}: {want}"));
        }
        assert!(is_empty(&output), "{want}");
    }
}

#[test]
fn indices_that_are_not_objects() {
    for (index, want) in [
        ("[]", "the index is not valid: not an object (want one with `weight_map`)"),
        ("{\"error\":\"no\"}", "a JSON document, such as the error of a server (download it again)"),
    ] {
        let checkpoint = Checkpoint::sharded("", "{}", &[]);
        checkpoint.write("model.safetensors.index.json", index.as_bytes());
        checkpoint.refuses(&format!("model.safetensors.index.json: {want}"));
    }
}

#[test]
fn indices_and_configurations_that_are_pointers() {
    for (bytes, want) in KINDS.into_iter().filter(|(bytes, _)| bytes.first() != Some(&b'[')) {
        let index = r#"{"a.weight":"1.safetensors","a.weight_scale_inv":"1.safetensors"}"#;
        let all = || [codes("a.weight", "F8_E4M3", &[2, 2]), floats("a.weight_scale_inv", &[], &[1.0])];
        for name in ["model.safetensors.index.json", "config.json", "1.safetensors"] {
            let checkpoint = Checkpoint::sharded("", index, &[("1.safetensors", &all())]);
            checkpoint.write(name, bytes);
            checkpoint.refuses(&format!("{name}: {want}"));
        }
    }
}

/// A checkpoint whose index has the second file for `b.weight`, of which the first has a stale copy.
fn overlay(config: &str, first: Vec<Tensor>, second: &[Tensor]) -> Checkpoint {
    let mut places: Vec<String> = Vec::new();
    for (file, tensors) in [("1.safetensors", &first[..]), ("2.safetensors", second)] {
        let is_stale = |name: &str| file == "1.safetensors" && name.ends_with("b.weight");
        let own = tensors.iter().filter(|tensor| !is_stale(tensor.0));
        places.extend(own.map(|tensor| format!(r#""{}":"{file}""#, tensor.0)));
    }
    let index = format!("{{{}}}", places.join(","));
    Checkpoint::sharded(config, &index, &[("1.safetensors", &first), ("2.safetensors", second)])
}

fn tensors(folder: &Path, file: &str) -> Vec<NamedTensor> {
    let file = InputFile::open(&folder.join(file)).expect("a file");
    read_tensors_from(file, Format::Safetensors, None).expect("tensors")
}

const SAID: &str = "a stale copy in 1.safetensors, for the index has it in 2.safetensors";

#[track_caller]
fn check_summary(done: &Summary, tensors: usize) {
    let [(name, reason)] = &done.left_out[..] else { panic!("{:?}", done.left_out) };
    assert!(name.ends_with("b.weight") && reason == SAID, "{name}: {reason}");
    assert_eq!(done.tensors.len(), tensors);
}

#[test]
fn overlays_of_plain_weights() {
    let first = || vec![floats("m.0.a.weight", &[2, 64], &[1.0]), floats("m.0.b.weight", &[2, 64], &[7.0])];
    let second = [floats("m.0.b.weight", &[2, 64], &[2.0])];
    let checkpoint = overlay("{}", first(), &second);
    let (input, output) = (checkpoint.input(), checkpoint.output());
    let info = inspect(&input, &InspectRequest::default()).expect("listed");
    let names: Vec<&str> = info.tensors.iter().map(|tensor| &*tensor.name).collect();
    assert_eq!(
        (names, info.left_out),
        (vec!["m.0.a.weight", "m.0.b.weight"], vec![("m.0.b.weight".to_owned(), SAID.to_owned())])
    );

    let done = cast_file(&input, &output, &CastRequest::new(DataType::BFloat16)).expect("cast");
    check_summary(&done, 2);
    let [a, b] = ["1.safetensors", "2.safetensors"].map(|file| tensors(&output, file));
    assert_eq!((a.len(), b.len(), &*a[0].name, &*b[0].name), (1, 1, "m.0.a.weight", "m.0.b.weight"));
    assert_eq!(b[0].tensor.bytes(), Some(&[0x00, 0x40].repeat(128)[..]), "the copy that the index names");
    let mut by_value = DiffRequest::default();
    by_value.values = true;
    assert_eq!(diff(&input, &output, &by_value).expect("compared"), []);
    let types = [("m.0.a.weight", DataType::Float), ("m.0.b.weight", DataType::Float)];
    let types = types.map(|(name, of)| (name.to_owned(), Difference::Type(of, DataType::BFloat16)));
    assert_eq!(diff(&input, &output, &DiffRequest::default()).expect("compared"), types);

    fs::remove_dir_all(&output).expect("removed");
    let to: QuantizedFormat = "float8e4m3fn".parse().expect("a format");
    let request = QuantizeRequest::new(to).layout(Some(Layout::Plain));
    check_summary(&quantize_file(&input, &output, &request).expect("quantized"), 4);
    let found =
        report(&input, &ReportRequest::default().to(vec![CandidateFormat::Bare(DataType::Float16)])).expect("measured");
    assert_eq!(found.tensors.len(), 2);
}

#[test]
fn overlays_of_quantized_weights() {
    let config = r#"{"quantization_config":{"quant_method":"fp8","weight_block_size":[128,128]}}"#;
    let mut stale = codes("b.weight", "F8_E4M3", &[2, 2]);
    stale.3.fill(0x40);
    let first = vec![
        codes("a.weight", "F8_E4M3", &[2, 2]),
        floats("a.weight_scale_inv", &[1, 1], &[1.0]),
        stale,
        floats("b.weight_scale_inv", &[1, 1], &[4.0]),
    ];
    let checkpoint = overlay(config, first, &[codes("b.weight", "F8_E4M3", &[2, 2])]);
    let (input, output) = (checkpoint.input(), checkpoint.output());
    check_summary(&dequantize_file(&input, &output, &to(DataType::Float)).expect("dequantized"), 2);
    assert_eq!(bits(&tensors(&output, "2.safetensors")[0]), [4f32.to_bits(); 4]);
    assert_eq!(tensors(&output, "1.safetensors").len(), 1);
    fs::remove_dir_all(&output).expect("removed");
    let request = TranscodeRequest::new(Layout::CompressedTensors);
    check_summary(&transcode_file(&input, &output, &request).expect("transcoded"), 4);
    let info = inspect(&input, &InspectRequest::default()).expect("listed");
    assert_eq!((info.tensors.len(), info.quantized.map(|found| found.weights.len())), (4, Some(2)));
    // A tensor that the index does not name at all is still an error.
    checkpoint
        .write("2.safetensors", &file(&[codes("b.weight", "F8_E4M3", &[2, 2]), floats("c.weight", &[1], &[1.0])]));
    fs::remove_dir_all(&output).expect("removed");
    checkpoint.refuses("model.safetensors.index.json: tensor `c.weight` of 2.safetensors is missing from weight_map");
    assert!(is_empty(&output));
}
