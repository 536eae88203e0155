//! GGUF files, against the values that the gguf package reads (`crates/testkit/data/gguf`), and files that lie.

use crate::common::replacing::{cast_file, dequantize_file};
use onnx_cast::{Cast, CastOptions, DataType, TensorView};
use onnx_cast_file::{
    CastRequest, DequantizeRequest, DiffRequest, Difference, Format, InputFile, InspectRequest, Layout, NamedTensor,
    RawInput, ReportRequest, RunOptions, diff, inspect, read_tensors_from, report,
};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

fn stored(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../testkit/data/gguf").join(name)
}

fn tensors(path: &Path) -> BTreeMap<String, NamedTensor> {
    let read = read_tensors_from(InputFile::open(path).expect("a file"), Format::Safetensors, None).expect("tensors");
    read.into_iter().map(|tensor| (tensor.name.clone(), tensor)).collect()
}

fn words(tensor: &NamedTensor) -> Vec<u32> {
    let bytes = tensor.tensor.bytes().expect("numbers");
    bytes.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect()
}

#[test]
fn every_type_gives_the_values_of_the_gguf_package() {
    let folder = tempfile::tempdir().expect("a folder");
    let want = tensors(&stored("expected.safetensors"));
    // Both versions have the same form.
    let mut second = fs::read(stored("tensors.gguf")).expect("the file");
    second[4] = 2;
    let path = folder.path().join("second");
    fs::write(&path, second).expect("written");
    for input in [stored("tensors.gguf"), path] {
        let output = folder.path().join("float.safetensors");
        dequantize_file(&input, &output, &DequantizeRequest::new(DataType::Float)).expect("dequantized");
        let got = tensors(&output);
        let (mut minus_zeros, mut seen) = (0, 0);
        for (name, want) in &want {
            let got = &got[name];
            assert_eq!((got.tensor.data_type(), got.tensor.shape()), (DataType::Float, want.tensor.shape()), "{name}");
            for (index, (got, want)) in words(got).into_iter().zip(words(want)).enumerate() {
                // The package reads -0 of float4e2m1 as 0.
                let is_e2m1 = name.starts_with("MXFP4") || name.starts_with("NVFP4") || name.ends_with(".weight");
                let minus_zero = is_e2m1 && (got ^ want) == 1 << 31 && want << 1 == 0;
                minus_zeros += usize::from(minus_zero);
                assert!(got == want || minus_zero, "{name}, element {index}: {got:#010x}, not {want:#010x}");
                seen += 1;
            }
        }
        assert!(minus_zeros > 100 && seen > 20_000, "{minus_zeros} of {seen}");
    }
}

#[test]
fn every_row_of_every_grid_gives_the_values_of_the_gguf_package() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = folder.path().join("float.safetensors");
    dequantize_file(stored("grids.gguf"), &output, &DequantizeRequest::new(DataType::Float)).expect("dequantized");
    let (want, got) = (tensors(&stored("grids_expected.safetensors")), tensors(&output));
    assert_eq!(got.keys().collect::<Vec<_>>(), want.keys().collect::<Vec<_>>());
    assert_eq!(want["conv.weight"].tensor.shape(), [4, 8, 3, 2, 2], "the shape that metadata keeps");
    assert_eq!(want["IQ1_S.grid"].tensor.shape(), [64, 256], "2048 rows of 8");
    for (name, want) in &want {
        let got = &got[name];
        assert_eq!(got.tensor.shape(), want.tensor.shape(), "{name}");
        for (index, (got, want)) in words(got).into_iter().zip(words(want)).enumerate() {
            assert_eq!(got, want, "{name}, element {index}: {got:#010x}, not {want:#010x}");
        }
    }
}

#[test]
fn other_targets_are_the_float_rounded_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = |to: DataType| {
        let output = folder.path().join(format!("{to}.safetensors"));
        dequantize_file(stored("tensors.gguf"), &output, &DequantizeRequest::new(to)).expect("dequantized");
        tensors(&output)
    };
    let floats = output(DataType::Float);
    for to in [DataType::BFloat16, DataType::Float16, DataType::Float8E4M3FN] {
        let got = output(to);
        assert_eq!(got.keys().collect::<Vec<_>>(), floats.keys().collect::<Vec<_>>());
        let plan = Cast::new(to, &CastOptions::new()).and_then(|cast| cast.plan(DataType::Float)).expect("a cast");
        for (name, float) in floats.iter().filter(|(name, _)| !name.starts_with("plain.")) {
            let want = plan.run(&float.tensor.view()).expect("cast");
            assert_eq!(got[name].tensor.bytes(), want.bytes(), "{name} to {to}");
            assert_eq!(got[name].tensor.data_type(), to, "{name}");
        }
        for (name, plain) in floats.iter().filter(|(name, _)| name.starts_with("plain.")) {
            assert_eq!(&got[name], plain, "{name} stays");
        }
    }
    let kept: Vec<String> = floats.keys().filter(|name| name.starts_with("plain.")).cloned().collect();
    let names = ["bfloat16", "float16", "float32", "float64", "int16", "int32", "int64", "int8"];
    assert_eq!(kept, names.map(|name| format!("plain.{name}")));
    assert!(
        !floats.contains_key("layer.scale") && !floats.contains_key("layer.input_scale"),
        "they are in the weights"
    );
}

#[test]
fn rules_and_names_select() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = folder.path().join("out.safetensors");
    let mut request = DequantizeRequest::new(DataType::BFloat16);
    request.selection.rules = vec!["Q4_*=float16".parse().expect("a rule")];
    let done = dequantize_file(stored("tensors.gguf"), &output, &request).expect("dequantized");
    let to = |name: &str| done.tensors.iter().find(|row| row.name == name).map(|row| (row.from, row.to));
    assert_eq!(to("Q4_0.random"), Some((DataType::Int4, DataType::Float16)));
    assert_eq!(to("Q5_0.random"), Some((DataType::Int8, DataType::BFloat16)));
    assert_eq!(to("plain.float64"), Some((DataType::Double, DataType::Double)));
    let got = tensors(&output);
    assert_eq!(got["Q4_K.edges"].tensor.data_type(), DataType::Float16);
    fs::remove_file(&output).expect("removed");
    request.selection.exclude = vec!["Q5_1.random".parse().expect("a pattern")];
    let error = dequantize_file(stored("tensors.gguf"), &output, &request).expect_err("excluded");
    let said = "tensor `Q5_1.random`: a .safetensors file cannot hold Q5_1, so that the tensor needs a type";
    assert_eq!(error.to_string(), format!("{}: {said}", stored("tensors.gguf").display()));
    assert!(!output.exists());
}

#[test]
fn files_are_listed_and_compared() {
    let folder = tempfile::tempdir().expect("a folder");
    let input = stored("tensors.gguf");
    let info = inspect(&input, &InspectRequest::default().stats(true)).expect("listed");
    assert_eq!(info.format, Format::Gguf);
    assert_eq!(info.metadata, [("general.architecture".to_owned(), "llama".to_owned())]);
    let of = |name: &str| info.tensors.iter().find(|tensor| tensor.name == name).expect(name);
    let q6 = of("Q6_K.random");
    assert_eq!(
        (q6.block_type, q6.data_type, &*q6.shape, q6.bytes),
        (Some("Q6_K"), Some(DataType::Float), &[3, 256][..], 630)
    );
    assert!(q6.values.expect("values").max.is_some_and(|max| max.to_f64() > 0.0));
    let plain = of("plain.int16");
    assert_eq!((plain.block_type, plain.data_type, plain.bytes), (None, Some(DataType::Int16), 30));
    let output = folder.path().join("out.safetensors");
    dequantize_file(&input, &output, &DequantizeRequest::new(DataType::Float)).expect("dequantized");
    let differences = diff(&input, &output, &DiffRequest::default()).expect("compared");
    let missing = ["layer.scale", "layer.input_scale", "experts.scale"];
    assert_eq!(differences, missing.map(|name| (name.to_owned(), Difference::OnlyFirst)));
}

/// A header, and data behind it.
#[derive(Clone)]
struct Made {
    version: u32,
    metadata: Vec<Vec<u8>>,
    tensors: Vec<Vec<u8>>,
    data: Vec<u8>,
    counts: [Option<u64>; 2],
}

fn string(text: &[u8]) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes(), text].concat()
}

fn entry(key: &str, kind: u32, value: &[u8]) -> Vec<u8> {
    [&*string(key.as_bytes()), &kind.to_le_bytes(), value].concat()
}

fn tensor(name: &str, dims: &[u64], kind: u32, offset: u64) -> Vec<u8> {
    let dims: Vec<u8> = dims.iter().flat_map(|dim| dim.to_le_bytes()).collect();
    let rank = (dims.len() as u32 / 8).to_le_bytes();
    [&*string(name.as_bytes()), &rank, &dims, &kind.to_le_bytes(), &offset.to_le_bytes()].concat()
}

impl Made {
    /// One tensor of Q8_0, all of whose values are 1.
    fn good() -> Made {
        let block = [&[0x00, 0x3c][..], &[1; 32]].concat();
        let tensors = vec![tensor("w", &[32, 2], 8, 0)];
        Made { version: 3, metadata: Vec::new(), tensors, data: block.repeat(2), counts: [None; 2] }
    }

    fn with(tensors: Vec<Vec<u8>>) -> Made {
        Made { tensors, ..Made::good() }
    }

    fn entry(key: &str, kind: u32, value: &[u8]) -> Made {
        Made { metadata: vec![entry(key, kind, value)], ..Made::good() }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = [&b"GGUF"[..], &self.version.to_le_bytes()].concat();
        for (count, list) in self.counts.into_iter().zip([&self.tensors, &self.metadata]) {
            bytes.extend(count.unwrap_or(list.len() as u64).to_le_bytes());
        }
        self.metadata.iter().chain(&self.tensors).for_each(|part| bytes.extend(part));
        bytes.resize(bytes.len().next_multiple_of(32), 0);
        bytes.extend(&self.data);
        bytes
    }
}

/// A file with a shape that metadata keeps for its tensor: the type of the value, and its words.
fn shape_before(kind: u32, words: &[i32]) -> Vec<u8> {
    let words: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    Made::entry("comfy.gguf.orig_shape.w", kind, &words).bytes()
}

/// The error of a file, which is the same from every job; nothing is written.
fn refused(bytes: &[u8]) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let (input, output) = (folder.path().join("x.gguf"), folder.path().join("y.safetensors"));
    fs::write(&input, bytes).expect("written");
    let error = dequantize_file(&input, &output, &DequantizeRequest::new(DataType::BFloat16)).expect_err("an error");
    assert!(!output.exists());
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
    let error = error.to_string();
    error.strip_prefix(&format!("{}: ", input.display())).expect("the path").to_owned()
}

#[test]
fn what_lies_is_refused() {
    let good = Made::good();
    let bytes = good.bytes();
    let mut wrong = Vec::new();
    for (file, said) in [
        (b"GGU".to_vec(), "it does not begin with `GGUF`"),
        (b"GGML\x03\0\0\0".to_vec(), "it does not begin with `GGUF`"),
        (b"GGUF\x03".to_vec(), "a version of 4 bytes at byte 4 of a file of 5"),
        (bytes[..14].to_vec(), "a number of 8 bytes at byte 8 of a file of 14"),
        (bytes[..30].to_vec(), "the number of tensors is 1, in a file of 30 bytes"),
        (bytes[..60].to_vec(), "an offset of 8 bytes at byte 57 of a file of 60"),
        (bytes[..bytes.len() - 1].to_vec(), "tensor `w`: 68 bytes at offset 0 of 67 bytes of data"),
        (bytes[..80].to_vec(), "tensor `w`: 68 bytes at offset 0 of 0 bytes of data"),
        (
            Made { version: 3u32.swap_bytes(), ..good.clone() }.bytes(),
            "a big-endian file (only little-endian ones are read)",
        ),
        (Made { version: 1, ..good.clone() }.bytes(), "version 1 (want 2 or 3)"),
        (Made { version: 4, ..good.clone() }.bytes(), "version 4 (want 2 or 3)"),
        (
            Made { counts: [Some(1 << 60), None], ..good.clone() }.bytes(),
            "the number of tensors is 1152921504606846976, in a file of 164 bytes",
        ),
        (
            Made { counts: [None, Some(1 << 60)], ..good.clone() }.bytes(),
            "the number of entries of metadata is 1152921504606846976, in a file of 164 bytes",
        ),
        (
            Made { tensors: vec![(1u64 << 63).to_le_bytes().to_vec()], ..good.clone() }.bytes(),
            "a tensor's name of 9223372036854775808 bytes at byte 32 (want at most 65535)",
        ),
        (
            Made { metadata: vec![(1u64 << 63).to_le_bytes().to_vec()], ..good.clone() }.bytes(),
            "a key of 9223372036854775808 bytes at byte 32 (want at most 65535)",
        ),
        (
            Made::entry("k", 8, &(1u64 << 63).to_le_bytes()).bytes(),
            "a string of 9223372036854775808 bytes at byte 45 of a file of 164",
        ),
        (
            Made::entry("k", 9, &[&4u32.to_le_bytes()[..], &(1u64 << 62).to_le_bytes()].concat()).bytes(),
            "the number of values is 4611686018427387904, in a file of 164 bytes",
        ),
        (
            Made::entry("k", 9, &[&8u32.to_le_bytes()[..], &(1u64 << 60).to_le_bytes()].concat()).bytes(),
            "the number of strings is 1152921504606846976, in a file of 164 bytes",
        ),
        (
            Made::entry("k", 9, &9u32.to_le_bytes()).bytes(),
            "metadata `k`: a value of type 9 (want an array of numbers or strings)",
        ),
        (Made::entry("k", 13, &[]).bytes(), "metadata `k`: a value of type 13 (want 0 to 12)"),
        (Made { metadata: vec![entry("k", 0, &[1]); 2], ..good.clone() }.bytes(), "metadata `k` appears twice"),
        (
            Made { metadata: vec![[&string(b"\xff")[..], &[0; 5]].concat()], ..good.clone() }.bytes(),
            "a key at byte 32 is not UTF-8",
        ),
        (Made::entry("general.alignment", 4, &0u32.to_le_bytes()).bytes(), "an alignment of 0 (want a power of two)"),
        (Made::entry("general.alignment", 4, &24u32.to_le_bytes()).bytes(), "an alignment of 24 (want a power of two)"),
        (
            Made::entry("general.alignment", 5, &32u32.to_le_bytes()).bytes(),
            "metadata `general.alignment`: a value of type 5 (want uint32)",
        ),
        (
            Made::entry("general.alignment", 4, &(1u32 << 31).to_le_bytes()).bytes(),
            "tensor `w`: 68 bytes at offset 0 of 0 bytes of data",
        ),
        (Made::with(vec![tensor("", &[32], 8, 0)]).bytes(), "tensor 0 has no name"),
        (Made::with(vec![tensor("w", &[32], 8, 0), tensor("w", &[32], 8, 32)]).bytes(), "tensor `w` appears twice"),
        (Made::with(vec![tensor("w", &[32, 1, 1, 1, 1], 8, 0)]).bytes(), "tensor `w`: 5 dimensions (want at most 4)"),
        (
            Made::with(vec![tensor("w", &[32], 99, 0)]).bytes(),
            "tensor `w`: type 99 is unsupported (`exclude` leaves the tensor out)",
        ),
        (
            Made::with(vec![tensor("w", &[32], 4, 0)]).bytes(),
            "tensor `w`: type 4 is unsupported (`exclude` leaves the tensor out)",
        ),
        (
            Made::with(vec![tensor("w", &[32], 99, 1 << 40)]).bytes(),
            "tensor `w`: 0 bytes at offset 1099511627776 of 68 bytes of data",
        ),
        (
            Made::with(vec![tensor("w", &[32, 1], 23, 0)]).bytes(),
            "tensor `w`: rows of 32 elements are not whole blocks of IQ4_XS (want a multiple of 256)",
        ),
        (
            Made::with(vec![tensor("w", &[31, 32], 8, 0)]).bytes(),
            "tensor `w`: rows of 31 elements are not whole blocks of Q8_0 (want a multiple of 32)",
        ),
        (
            Made::with(vec![tensor("w", &[], 8, 0)]).bytes(),
            "tensor `w`: rows of 1 element are not whole blocks of Q8_0 (want a multiple of 32)",
        ),
        (
            Made::with(vec![tensor("w", &[1 << 40, 1 << 40], 8, 0)]).bytes(),
            "tensor `w`: 1099511627776x1099511627776 Q8_0 is too large",
        ),
        (
            Made::with(vec![tensor("w", &[1 << 40, 2], 8, 0)]).bytes(),
            "tensor `w`: 2336462209024 bytes at offset 0 of 68 bytes of data",
        ),
        (
            Made::with(vec![tensor("w", &[32], 8, 33)]).bytes(),
            "tensor `w`: offset 33 is not a multiple of the alignment 32",
        ),
        (
            Made::with(vec![tensor("w", &[32], 8, u64::MAX - 31)]).bytes(),
            "tensor `w`: 34 bytes at offset 18446744073709551584 of 68 bytes of data",
        ),
        (
            Made::with(vec![tensor("w", &[32], 8, 32), tensor("v", &[32], 8, 0)]).bytes(),
            "tensor `w` begins at offset 32, within `v`, which ends at 34",
        ),
        (
            Made::with(vec![tensor("w", &[32], 9, 0)]).bytes(),
            "tensor `w`: Q8_1 is unsupported (`exclude` leaves the tensor out)",
        ),
        (shape_before(5, &[2]), "metadata `comfy.gguf.orig_shape.w`: a value of type 5 (want an array of int32)"),
        (shape_before(9, &[8]), "metadata `comfy.gguf.orig_shape.w`: a value of type 8 (want an array of int32)"),
        (
            shape_before(9, &[5, 9, 0, 1, 1, 1, 1, 1, 1, 1, 1, 64]),
            "metadata `comfy.gguf.orig_shape.w`: 9 dimensions (want at most 8)",
        ),
        (shape_before(9, &[5, 2, 0, 64, -1]), "metadata `comfy.gguf.orig_shape.w`: a dimension of -1"),
        (shape_before(9, &[5, 1 << 28, 0]), "the number of dimensions is 268435456, in a file of 196 bytes"),
        (
            shape_before(9, &[5, 2, 0, 64, 2]),
            "tensor `w`: `comfy.gguf.orig_shape.` says 64x2, where the tensor has 2x32",
        ),
        (
            shape_before(9, &[5, 3, 0, i32::MAX, i32::MAX, i32::MAX]),
            "tensor `w`: `comfy.gguf.orig_shape.` says 2147483647x2147483647x2147483647, where the tensor has 2x32",
        ),
        (
            Made {
                data: vec![0; 72],
                ..Made::with(vec![tensor("a.weight", &[64], 40, 0), tensor("a.scale", &[2], 0, 64)])
            }
            .bytes(),
            "tensor `a.scale`: 2 float as the scale of `a.weight` (want float, one element or one for each matrix)",
        ),
        (
            Made::with(vec![tensor("a.weight", &[64], 40, 0), tensor("a.scale", &[1], 1, 64)]).bytes(),
            "tensor `a.scale`: 1 float16 as the scale of `a.weight` (want float, one element or one for each matrix)",
        ),
    ] {
        let got = refused(&file);
        if got != said {
            wrong.push(format!("{got}\n  not {said}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn any_prefix_is_an_error_and_a_longer_file_is_none() {
    let bytes = fs::read(stored("tensors.gguf")).expect("the file");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.gguf");
    // The padding behind the last tensor may be missing.
    for len in (0..bytes.len() - 28).step_by(61) {
        fs::write(&path, &bytes[..len]).expect("written");
        assert!(inspect(&path, &InspectRequest::default()).is_err(), "{len} bytes");
    }
    fs::write(&path, [&bytes[..], &[0; 100]].concat()).expect("written");
    assert!(inspect(&path, &InspectRequest::default()).is_ok());
}

#[test]
fn a_type_that_is_not_read_leaves_the_others_readable() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, output) = (folder.path().join("x.gguf"), folder.path().join("y.safetensors"));
    // Nobody knows how many bytes a tensor of type 99 has.
    let entries = vec![tensor("old", &[64], 9, 96), tensor("w", &[32, 2], 8, 0), tensor("new", &[64], 99, 192)];
    let file = Made { data: [Made::good().data, vec![0; 200]].concat(), ..Made::with(entries) };
    fs::write(&path, file.bytes()).expect("written");
    let info = inspect(&path, &InspectRequest::default()).expect("listed");
    let types: Vec<_> = info.tensors.iter().map(|tensor| (tensor.block_type, tensor.bytes)).collect();
    assert_eq!(types, [(Some("Q8_1"), 80), (Some("Q8_0"), 68), (Some("unknown"), 0)]);
    let values = |exclude: &[&str]| {
        let exclude = exclude.iter().map(|name| name.parse().expect("a pattern")).collect();
        InspectRequest::default().stats(true).exclude(exclude)
    };
    let error = inspect(&path, &values(&["old"])).expect_err("not read");
    let said = "tensor `new`: type 99 is unsupported (`exclude` leaves the tensor out)";
    assert_eq!(error.to_string(), format!("{}: {said}", path.display()));
    assert!(inspect(&path, &values(&["old", "new"])).is_ok());
    let mut request = DequantizeRequest::new(DataType::Float);
    let said = "tensor `old`: Q8_1 is unsupported (`exclude` leaves the tensor out)";
    let error = dequantize_file(&path, &output, &request).expect_err("not read");
    assert_eq!(error.to_string(), format!("{}: {said}", path.display()));
    request.selection.exclude = vec!["old".parse().expect("a pattern"), "new".parse().expect("a pattern")];
    let done = dequantize_file(&path, &output, &request).expect("dequantized");
    let left_out = [("old", "Q8_1 is unsupported"), ("new", "type 99 is unsupported")];
    assert_eq!(done.left_out, left_out.map(|(name, reason)| (name.to_owned(), reason.to_owned())));
    assert_eq!(tensors(&output).keys().collect::<Vec<_>>(), ["w"]);
}

#[test]
fn scales_that_are_nan() {
    let nvfp4 = |scale: u8| [&[0x38, scale, 0x38, 0x38][..], &[0x22; 32]].concat();
    let mxfp4 = |scale: u8| [&[scale][..], &[0x22; 16]].concat();
    let q8_k = |scale: f32| [&scale.to_le_bytes()[..], &[1; 288]].concat();
    let [half_nan, half_infinite] = [[0x01, 0xfe], [0x00, 0xfc]];
    // The type, its block, and how many elements are NaN, or infinite.
    for (kind, columns, data, nan, infinite) in [
        (8, 32, [&half_nan[..], &[1; 32]].concat(), 32, 0),
        (8, 32, [&half_infinite[..], &[0; 8], &[1; 24]].concat(), 8, 24),
        (3, 32, [&[0x00, 0x3c][..], &half_nan, &[7; 16]].concat(), 32, 0),
        (10, 256, [&[0x11; 80][..], &[0x00, 0x3c], &half_nan].concat(), 256, 0),
        (39, 32, mxfp4(0xff), 32, 0),
        (39, 32, mxfp4(0xfe), 0, 0),
        (40, 64, nvfp4(0x7f), 16, 0),
        (40, 64, nvfp4(0xff), 0, 0),
        (15, 256, q8_k(f32::NAN), 256, 0),
        (15, 256, q8_k(f32::NEG_INFINITY), 0, 256),
    ] {
        // The second of three blocks.
        let mut one = data.clone();
        one.fill(0);
        let data = [&one[..], &data, &one].concat();
        let file = Made { data, ..Made::with(vec![tensor("w", &[columns, 3], kind, 0)]) }.bytes();
        let folder = tempfile::tempdir().expect("a folder");
        let (input, output) = (folder.path().join("x.gguf"), folder.path().join("y.safetensors"));
        fs::write(&input, &file).expect("written");
        let info = inspect(&input, &InspectRequest::default().stats(true)).expect("listed");
        let values = info.tensors[0].values.expect("numbers");
        assert_eq!((values.nan, values.infinities), (nan, infinite), "type {kind}");
        if nan > 0 {
            let said = "tensor `w`: a scale of block 1 is NaN (`allow_nan` gives NaN for its elements)";
            // An infinity times 0 is NaN, but the scale is not.
            if infinite == 0 {
                assert_eq!(refused(&file), said, "type {kind}");
            }
        }
        let request = DequantizeRequest::new(DataType::Float).allow_nan(true);
        dequantize_file(&input, &output, &request).expect("dequantized");
        let got = words(&tensors(&output)["w"]);
        let found: Vec<u32> = got.into_iter().filter(|word| f32::from_bits(*word).is_nan()).collect();
        assert_eq!(found, vec![0x7fc0_0000; nan as usize], "type {kind}");
    }
}

#[test]
fn parts_are_the_whole() {
    // Two chunks and a part of one, each with its own scale and codes.
    let (rows, columns) = (600, 1024);
    let mut data = Vec::new();
    let mut want = Vec::new();
    for block in 0..rows * columns / 32 {
        data.extend([(block % 256) as u8, 0x2c + (block % 7) as u8]);
        let scale =
            onnx_cast::types::Float16::from_bits(u16::from_le_bytes([data[data.len() - 2], data[data.len() - 1]]));
        for index in 0..32 {
            let code = (block * 31 + index * 7) as u8 as i8;
            data.push(code as u8);
            want.extend((f32::from(code) * scale.to_f32()).to_le_bytes());
        }
    }
    let shape = [columns as u64, rows as u64];
    let file = Made { data, ..Made::with(vec![tensor("w", &shape, 8, 0)]) }.bytes();
    let folder = tempfile::tempdir().expect("a folder");
    let (input, output) = (folder.path().join("x.gguf"), folder.path().join("y.safetensors"));
    fs::write(&input, &file).expect("written");
    let done = dequantize_file(&input, &output, &DequantizeRequest::new(DataType::Float)).expect("dequantized");
    assert_eq!((done.tensors[0].bytes_before, done.tensors[0].bytes_after), (652_800, 2_457_600));
    assert!(tensors(&output)["w"].tensor.bytes() == Some(&want), "the values");
    let shape = [rows, columns];
    let want = TensorView::new(DataType::Float, &shape, &want).expect("a tensor");
    let plan = Cast::new(DataType::BFloat16, &CastOptions::new()).and_then(|cast| cast.plan(DataType::Float));
    let want = plan.expect("a cast").run(&want).expect("cast");
    let request = DequantizeRequest::new(DataType::BFloat16).run(RunOptions::new().threads(Some(1)).resume(true));
    let done = dequantize_file(&input, &output, &request).expect("dequantized");
    assert_eq!(done.already_there, 0);
    assert!(tensors(&output)["w"].tensor.bytes() == want.bytes(), "the values");
    let done = dequantize_file(&input, &output, &request).expect("dequantized");
    assert_eq!(done.already_there, 1);
}

#[test]
fn what_gguf_files_are_not_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let (input, output) = (folder.path().join("x.gguf"), folder.path().join("y.gguf"));
    fs::write(&input, Made::good().bytes()).expect("written");
    let plain = folder.path().join("y.safetensors");
    let said = |path: &Path, text: &str| format!("{}: {text}", path.display());
    let request = DequantizeRequest::new(DataType::BFloat16);
    let error = dequantize_file(&input, &output, &request).expect_err("an output");
    assert_eq!(
        error.to_string(),
        said(&output, "writing does not take .gguf files (`quantize` writes it, in the layout gguf)")
    );
    let npy = folder.path().join("y.npy");
    let error = dequantize_file(&input, &npy, &request).expect_err("an output");
    assert_eq!(error.to_string(), said(&npy, "dequantizing does not take .npy files (the output is .safetensors)"));
    let by_layout = request.clone().layout(Some(Layout::GptOss));
    let error = dequantize_file(&input, &plain, &by_layout).expect_err("a layout");
    let text = "choosing a layout does not take .gguf files (each tensor tells its type)";
    assert_eq!(error.to_string(), said(&input, text));
    let cast = CastRequest::new(DataType::BFloat16);
    let error = cast_file(&input, &plain, &cast).expect_err("an input");
    assert_eq!(error.to_string(), said(&input, "cast does not take .gguf files (`dequantize` reads it)"));
    dequantize_file(&input, &plain, &request).expect("dequantized");
    let error = cast_file(&plain, &output, &cast).expect_err("an output");
    assert_eq!(
        error.to_string(),
        said(&output, "cast does not take .gguf files (`quantize` writes it, in the layout gguf)")
    );
    let raw = folder.path().join("x.bin");
    fs::copy(&input, &raw).expect("copied");
    let error = cast_file(&raw, &npy, &cast.raw(RawInput::default().from(vec![DataType::Float.into()])))
        .expect_err("raw bytes");
    assert_eq!(error.to_string(), said(&raw, "a GGUF file, not raw bytes (name it .gguf, or raw bytes .raw)"));
    assert!(!output.exists() && !npy.exists());
}

/// A weight of NVFP4 whose values are 1, with other tensors of one float each behind it.
fn nvfp4_with(others: &[(&str, f32)]) -> Vec<u8> {
    let mut made = Made {
        tensors: vec![tensor("a.weight", &[64], 40, 0)],
        data: [&[0x38; 4][..], &[0x22; 32]].concat(),
        ..Made::good()
    };
    for (name, value) in others {
        made.data.resize(made.data.len().next_multiple_of(32), 0);
        made.tensors.push(tensor(name, &[1], 0, made.data.len() as u64));
        made.data.extend(value.to_le_bytes());
    }
    made.bytes()
}

#[test]
fn both_names_of_a_scale_are_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let input = folder.path().join("x.gguf");
    for names in [["a.scale", "a.input_scale"], ["a.weight.scale", "a.weight.input_scale"]] {
        fs::write(&input, nvfp4_with(&[(names[0], 0.5), (names[1], 3.0)])).expect("written");
        let output = folder.path().join(format!("{}.safetensors", names[0]));
        dequantize_file(&input, &output, &DequantizeRequest::new(DataType::Float)).expect("dequantized");
        let got = tensors(&output);
        assert_eq!(got.keys().collect::<Vec<_>>(), ["a.weight"], "{names:?}");
        assert_eq!(words(&got["a.weight"]), vec![0.5f32.to_bits(); 64], "{names:?}");
        // A report covers the same tensors and values.
        let request = ReportRequest::default().to(vec!["bfloat16".parse().expect("a type")]);
        let found = report(&input, &request).expect("a report");
        assert_eq!(found.dequantized, [(Layout::Gguf, 1)], "{names:?}");
        let scaled = request.to(["bfloat16", "int8/row"].map(|to| to.parse().expect("a candidate")).to_vec());
        let forecasts = report(&input, &scaled).expect("a report").forecasts;
        let refused = [Some("it does not read .gguf files (dequantize the file first)")];
        assert_eq!(forecasts.iter().map(|one| one.refused.as_deref()).collect::<Vec<_>>(), refused);
        let reported = found.tensors.iter().map(|tensor| (&*tensor.name, tensor.largest)).collect::<Vec<_>>();
        assert_eq!(reported, [("a.weight", Some(0.5))], "{names:?}");
    }
}

#[test]
fn a_scale_that_fits_no_weight() {
    let lost = "the scale of a weight that the file lacks, or that is not NVFP4 (want the weight beside it)";
    for name in ["b.scale", "b.weight.scale", "a.weight.weight.scale"] {
        assert_eq!(refused(&nvfp4_with(&[(name, 0.5)])), format!("tensor `{name}`: {lost}"));
    }
    assert_eq!(
        refused(&nvfp4_with(&[("a.scale", 0.5), ("a.weight.scale", 0.5)])),
        "tensor `a.weight.scale`: a second scale of `a.weight`, beside `a.scale` (want one of them)"
    );
    let plain = |name: &str| {
        let mut made = Made::with(vec![tensor("w.weight", &[32, 2], 8, 0), tensor(name, &[1], 0, 96)]);
        made.data.resize(100, 0);
        made.bytes()
    };
    assert_eq!(refused(&plain("w.weight.scale")), format!("tensor `w.weight.scale`: {lost}"));
    // llama.cpp multiplies outputs by such scales, and diffusion models have norms of that name.
    let folder = tempfile::tempdir().expect("a folder");
    let (input, output) = (folder.path().join("x.gguf"), folder.path().join("y.safetensors"));
    for name in ["w.scale", "norm.scale"] {
        fs::write(&input, plain(name)).expect("written");
        dequantize_file(&input, &output, &DequantizeRequest::new(DataType::Float)).expect("dequantized");
        assert!(tensors(&output).contains_key(name), "{name} stays");
        fs::remove_file(&output).expect("removed");
    }
}
