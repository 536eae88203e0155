//! Does a cast from file to file give what the library gives, keep what it must keep, and replace its output at once or
//! not at all?

use crate::common;
use crate::common::replacing::{bit_cast_file, cast_file, write_tensor};

use common::{PB, cases, checkpoint, patterns, text_without};
use onnx_cast::{BitCast, Cast, CastOptions, DataType, RoundMode, Tensor};
use onnx_cast_file::safetensors::type_name;
use onnx_cast_file::{
    AtomicFile, BitCastRequest, CastRequest, Format, FormatError, InvalidKind, RawInput, RunOptions, WriteOptions,
    read_tensor, read_tensor_as, safetensors,
};
use std::collections::HashSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const ONE: [Format; 3] = [Format::TensorProto, Format::Npy, Format::Safetensors];

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder").flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn path(folder: &TempDir, stem: &str, format: Format) -> PathBuf {
    folder.path().join(format!("{stem}.{}", format.extension()))
}

/// Whether a format can hold a tensor of a type with a multiple of four elements but not of eight.
fn holds(format: Format, data_type: DataType) -> bool {
    format != Format::Safetensors || type_name(data_type).is_some()
}

/// Every pair of types, each through a pair of formats that changes with it, against the library's cast. (All pairs of
/// formats for all pairs of types are minutes, which go into flushing files to the disk.)
#[test]
fn every_pair_of_types() {
    let numeric = || DataType::ALL.iter().copied().filter(|data_type| data_type.is_numeric()).enumerate();
    let folder = folder();
    let mut formats = HashSet::new();
    for (i, from) in numeric() {
        let tensor = patterns(from, &[3, 4]);
        for &input in ONE.iter().filter(|&&input| holds(input, from)) {
            let source = path(&folder, "in", input);
            write_tensor(&source, input, "w", tensor.view(), &WriteOptions::default()).expect("written");
        }
        for (j, to) in numeric().chain([(DataType::NUMERIC.len(), DataType::String)]) {
            let (mut input, mut output) = (ONE[(i + j) % 3], ONE[(i + j / 3) % 3]);
            input = if holds(input, from) { input } else { Format::Npy };
            output = if holds(output, to) { output } else { Format::TensorProto };
            formats.insert((input, output));
            let (source, target) = (path(&folder, "in", input), path(&folder, "out", output));
            let place = format!("{from} {input} -> {to} {output}");
            // What is there is of any type.
            let write = WriteOptions::default().force(true);
            let request = CastRequest::new(to)
                .run(RunOptions::new().write(write))
                .raw(RawInput::default().from(vec![from.into()]));
            let summary = cast_file(&source, &target, &request).unwrap_or_else(|error| panic!("{place}: {error}"));
            let kept = input == output && input == Format::Safetensors && to.is_float() && !from.is_float();
            let want = if kept {
                tensor.clone()
            } else {
                Cast::new(to, &CastOptions::default()).expect("a cast").run(&tensor.view()).expect("cast")
            };
            let got =
                read_tensor_as(&target, Some(want.data_type())).unwrap_or_else(|error| panic!("{place}: {error}"));
            assert_eq!(got.tensor, want, "{place}");
            let [row] = &summary.tensors[..] else { panic!("{place}: {summary:?}") };
            assert_eq!((row.from, row.to, row.cast), (from, want.data_type(), !kept), "{place}");
            let name = match (input, output) {
                (_, Format::Npy) | (Format::Npy, Format::TensorProto) => "",
                // The format needs a name, which .npy lacks.
                (Format::Npy, _) => "in",
                _ => "w",
            };
            assert_eq!(got.name, name, "{place}");
        }
    }
    assert_eq!(formats.len(), 9);
}

#[test]
fn strings_are_cast_and_errors_name_the_element() {
    let folder = folder();
    for input in [Format::TensorProto, Format::Npy] {
        let source = path(&folder, "in", input);
        let strings = |list: &[&str]| Tensor::strings(vec![list.len()], list.iter().collect()).expect("a tensor");
        let good = strings(&["1.5", " -2 ", "1e400"]);
        write_tensor(&source, input, "w", good.view(), &WriteOptions::default()).expect("written");
        let target = folder.path().join("out.npy");
        cast_file(&source, &target, &CastRequest::new(DataType::Float)).expect("cast");
        assert_eq!(read_tensor(&target).expect("read").tensor.to_vec::<f32>(), Some(vec![1.5, -2.0, f32::INFINITY]));

        let bad = strings(&["1", "Hello World!"]);
        write_tensor(&source, input, "w", bad.view(), &WriteOptions::default()).expect("written");
        let before = fs::read(&target).expect("read");
        let error = cast_file(&source, &target, &CastRequest::new(DataType::Float)).expect_err("refused").to_string();
        let tensor = if input == Format::Npy { "" } else { "tensor `w`: " };
        assert!(error.ends_with(&format!("{tensor}element 1: \"Hello World!\" is not a number (to float)")), "{error}");
        assert_eq!(fs::read(&target).expect("read"), before);
    }
    assert_eq!(names(folder.path()), ["in.npy", "in.pb", "out.npy"]);
}

/// Tensors longer than a chunk, of lengths that are no multiple of anything.
#[test]
fn long_tensors() {
    let folder = folder();
    let len = 2 * (1 << 17) + 1003;
    for (from, to) in [
        (DataType::Float, DataType::Float16),
        (DataType::Float, DataType::Float4E2M1),
        (DataType::Int4, DataType::Float6E3M2),
        (DataType::Float6E2M3, DataType::Uint2),
        (DataType::Int2, DataType::Double),
    ] {
        let tensor = patterns(from, &[len]);
        let want = Cast::new(to, &CastOptions::default()).expect("a cast").run(&tensor.view()).expect("cast");
        for input in [Format::TensorProto, Format::Npy] {
            let source = path(&folder, "in", input);
            write_tensor(&source, input, "w", tensor.view(), &WriteOptions::default()).expect("written");
            assert_eq!(read_tensor_as(&source, Some(from)).expect("read").tensor, tensor, "{from} {input}");
            for output in [Format::TensorProto, Format::Npy] {
                let target = path(&folder, "out", output);
                cast_file(&source, &target, &CastRequest::new(to).raw(RawInput::default().from(vec![from.into()])))
                    .expect("cast");
                let got = read_tensor_as(&target, Some(to)).expect("read").tensor;
                assert!(got == want, "{from} {input} -> {to} {output}");
            }
        }
    }
}

/// Order, names, metadata and the tensors that are not floating stay; the header is aligned.
#[test]
fn a_checkpoint() {
    let folder = folder();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/weights.safetensors");
    let before = fs::read(&example).expect("the example");
    let (source, metadata) = checkpoint(&before).expect("a checkpoint");
    assert_eq!(source.len(), 7);
    assert!(metadata.is_some());
    for to in
        [DataType::BFloat16, DataType::Float8E4M3FN, DataType::Float4E2M1, DataType::Float8E5M2FNUZ, DataType::Double]
    {
        let target = folder.path().join("out.safetensors");
        let summary = cast_file(&example, &target, &CastRequest::new(to)).expect("cast");
        let bytes = fs::read(&target).expect("read");
        let header = u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes")) as usize;
        assert_eq!((8 + header) % 8, 0);
        let result = checkpoint(&bytes).expect("a checkpoint");
        assert_eq!(result.1, metadata);
        ::safetensors::SafeTensors::deserialize(&bytes).expect("the crate reads it");
        for ((old, new), row) in source.iter().zip(&result.0).zip(&summary.tensors) {
            assert_eq!(old.name, new.name);
            let (from, cast) = (old.tensor.data_type(), old.tensor.data_type().is_float());
            let want = if cast {
                Cast::new(to, &CastOptions::default()).expect("a cast").run(&old.tensor.view()).expect("cast")
            } else {
                old.tensor.clone()
            };
            assert_eq!(new.tensor, want, "{}", new.name);
            assert_eq!((row.name.as_str(), row.from, row.to), (old.name.as_str(), from, want.data_type()));
            let sizes = [old, new].map(|one| one.tensor.bytes().map(|bytes| bytes.len() as u64));
            assert_eq!([row.bytes_before, row.bytes_after].map(Some), sizes);
            assert_eq!(row.cast, cast);
        }
    }
}

#[test]
fn a_checkpoint_with_a_tensor_that_cannot_be_held() {
    let folder = folder();
    let (source, target) = (folder.path().join("in.safetensors"), folder.path().join("out.safetensors"));
    let (a, b) = (patterns(DataType::Float, &[4]), patterns(DataType::Float, &[3]));
    fs::write(&source, safetensors::write(None, &[("a", a.view()), ("b", b.view())]).expect("written")).expect("saved");
    fs::write(&target, b"old").expect("saved");
    let refused = |to, options| {
        let error = cast_file(&source, &target, &CastRequest::new(to).options(options)).expect_err("refused");
        assert_eq!(fs::read(&target).expect("read"), b"old");
        text_without(folder.path(), error)
    };
    assert_eq!(
        refused(DataType::Float4E2M1, CastOptions::default()),
        "out.safetensors: tensor `b`: 3 elements of float4e2m1 (the .safetensors format requires whole bytes)"
    );
    assert_eq!(
        refused(DataType::BFloat16, CastOptions::new().opset(9)),
        "Cast-9 does not take bfloat16 (Cast-13 is the first that does)"
    );
    assert_eq!(
        refused(DataType::Float16, CastOptions::new().opset(13).saturate(false)),
        "Cast-13 has no attribute `saturate` (Cast-19 is the first that has it)"
    );
    assert_eq!(names(folder.path()), ["in.safetensors", "out.safetensors"]);

    let c = patterns(DataType::BFloat16, &[4]);
    fs::write(&source, safetensors::write(None, &[("a", a.view()), ("c", c.view())]).expect("written")).expect("saved");
    assert_eq!(
        refused(DataType::Float16, CastOptions::new().opset(9)),
        "in.safetensors: tensor `c`: Cast-9 does not take bfloat16 (Cast-13 is the first that does)"
    );
    let error =
        cast_file(&source, folder.path().join("o.npy"), &CastRequest::new(DataType::Float16)).expect_err("refused");
    assert!(error.to_string().ends_with("in.safetensors: 2 tensors, where another format takes one"), "{error}");
}

#[test]
fn attributes_arrive() {
    let folder = folder();
    let (source, target) = (folder.path().join("in.npy"), folder.path().join("out.pb"));
    let tensor = Tensor::from_slice(vec![3], &[1.0f32, 1.5, 1000.0]).expect("a tensor");
    write_tensor(&source, Format::Npy, "", tensor.view(), &WriteOptions::default()).expect("written");
    let cast = |to, options| {
        cast_file(&source, &target, &CastRequest::new(to).options(options)).expect("cast");
        read_tensor(&target).expect("read").tensor.bytes().map(<[u8]>::to_vec)
    };
    let options = CastOptions::new().round_mode(RoundMode::Down);
    assert_eq!(cast(DataType::Float8E8M0, options), Some(vec![127, 127, 136]));
    let options = CastOptions::new().saturate(false);
    assert_eq!(cast(DataType::Float8E4M3FN, options), Some(vec![0x38, 0x3c, 0x7f]));
}

#[test]
fn bit_casts() {
    let folder = folder();
    let tensor = patterns(DataType::Float, &[3, 4]);
    for input in ONE {
        let source = path(&folder, "in", input);
        write_tensor(&source, input, "w", tensor.view(), &WriteOptions::default()).expect("written");
        for output in ONE {
            let target = path(&folder, "out", output);
            bit_cast_file(&source, &target, &BitCastRequest::new(DataType::Uint32)).expect("cast");
            let want = BitCast::new(DataType::Uint32, 26).expect("a cast").run(&tensor.view()).expect("cast");
            assert_eq!(read_tensor(&target).expect("read").tensor, want);
            let error =
                bit_cast_file(&source, &target, &BitCastRequest::new(DataType::Int16)).expect_err("another width");
            assert!(
                error.to_string().ends_with("BitCast from float (32 bits) to int16 (16 bits): the widths differ"),
                "{error}"
            );
        }
    }
    let source = path(&folder, "in", Format::TensorProto);
    let strings = patterns(DataType::String, &[2]);
    write_tensor(&source, Format::TensorProto, "s", strings.view(), &WriteOptions::default()).expect("written");
    let error = bit_cast_file(&source, &source, &BitCastRequest::new(DataType::Int32)).expect_err("refused");
    assert!(
        error.to_string().ends_with("tensor `s`: BitCast-26 does not take string (no version of BitCast does)"),
        "{error}"
    );

    // Of several tensors, those of the width.
    let (source, target) = (folder.path().join("in.safetensors"), folder.path().join("out.safetensors"));
    let (a, b) = (patterns(DataType::Int32, &[4]), patterns(DataType::Float16, &[4]));
    fs::write(&source, safetensors::write(None, &[("a", a.view()), ("b", b.view())]).expect("written")).expect("saved");
    let summary = bit_cast_file(&source, &target, &BitCastRequest::new(DataType::Float)).expect("cast");
    let types: Vec<DataType> = summary.tensors.iter().map(|row| row.to).collect();
    assert_eq!(types, [DataType::Float, DataType::Float16]);
    let error =
        bit_cast_file(&source, &target, &BitCastRequest::new(DataType::Int64)).expect_err("refused").to_string();
    assert!(
        error.ends_with("tensor `a`: BitCast from int32 (32 bits) to int64 (64 bits): the widths differ"),
        "{error}"
    );
}

#[test]
fn npy_types_that_the_file_does_not_tell() {
    let folder = folder();
    let source = folder.path().join("in.npy");
    for plain in [false, true] {
        for &data_type in DataType::ALL.iter().filter(|data_type| data_type.is_numeric()) {
            let tensor = patterns(data_type, &[5]);
            write_tensor(&source, Format::Npy, "", tensor.view(), &WriteOptions::default().npy_plain(plain))
                .expect("written");
            assert_eq!(read_tensor_as(&source, Some(data_type)).expect("read").tensor, tensor, "{data_type}");
            let header = fs::read(&source).expect("read");
            let header = String::from_utf8_lossy(&header[..64]).into_owned();
            let void = header.contains("V1") || header.contains("V2");
            assert!(!(plain && void), "{header}");
            match read_tensor(&source) {
                // Plain integers are what they say.
                Ok(read) if plain => {
                    assert!(read.tensor.data_type() == data_type || header.contains("u1") || header.contains("<u2"))
                }
                Ok(read) => assert_eq!(read.tensor, tensor),
                Err(FormatError::Invalid { error, .. }) => {
                    assert!(void && error.kind == InvalidKind::Ambiguous, "{data_type}: {error}");
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
    // A type of another size than the file's, or one that the file contradicts.
    let tensor = patterns(DataType::BFloat16, &[5]);
    write_tensor(&source, Format::Npy, "", tensor.view(), &WriteOptions::default()).expect("written");
    for wrong in [DataType::Float8E4M3FN, DataType::Float16, DataType::Uint16, DataType::Float, DataType::String] {
        assert!(read_tensor_as(&source, Some(wrong)).is_err(), "{wrong}");
    }
    // Another format knows its types.
    let target = folder.path().join("out.pb");
    cast_file(&source, &target, &CastRequest::new(DataType::Float)).expect("cast");
    let request = CastRequest::new(DataType::Float16).raw(RawInput::default().from(vec![DataType::Double.into()]));
    let error = cast_file(&target, &target, &request).expect_err("another type").to_string();
    assert!(error.ends_with("out.pb: float, not double as asked"), "{error}");
}

/// What a TensorProto holds beside its elements: name, doc_string, metadata, and fields that are not known here.
#[test]
fn other_fields_of_a_tensor_proto_are_kept() {
    let folder = folder();
    let source = folder.path().join("in.pb");
    let documented = cases(PB).into_iter().find(|case| case.name == "documented");
    let mut message = documented.expect("the fixture").file;
    // Field 99, a varint; field 1000, bytes; field 2047, a group.
    let unknown =
        [&[0x98, 0x06, 0x2a][..], &[0xc2, 0x3e, 0x02, 0xab, 0xcd], &[0xfb, 0x7f, 0x08, 0x01, 0xfc, 0x7f]].concat();
    message.extend_from_slice(&unknown);
    fs::write(&source, &message).expect("saved");
    for to in [DataType::Float16, DataType::String] {
        let target = folder.path().join("out.pb");
        cast_file(&source, &target, &CastRequest::new(to)).expect("cast");
        let result = fs::read(&target).expect("read");
        assert!(result.ends_with(&unknown), "{to}");
        let back = folder.path().join("back.pb");
        cast_file(&target, &back, &CastRequest::new(DataType::Float)).expect("cast");
        assert_eq!(fs::read(&back).expect("read"), message, "{to}");
    }
    assert_eq!(read_tensor(&source).expect("read").name, "documented");
}

#[test]
fn input_and_output_may_be_the_same() {
    let folder = folder();
    for format in ONE {
        let path = path(&folder, "w", format);
        let tensor = patterns(DataType::Float, &[1000]);
        write_tensor(&path, format, "w", tensor.view(), &WriteOptions::default()).expect("written");
        cast_file(&path, &path, &CastRequest::new(DataType::Float16)).expect("cast");
        let want =
            Cast::new(DataType::Float16, &CastOptions::default()).expect("a cast").run(&tensor.view()).expect("cast");
        assert_eq!(read_tensor(&path).expect("read").tensor, want, "{format}");
    }
    assert_eq!(names(folder.path()), ["w.npy", "w.pb", "w.safetensors"]);
}

#[test]
fn an_unfinished_file_leaves_nothing() {
    let folder = folder();
    let path = folder.path().join("w.npy");
    fs::write(&path, b"old").expect("saved");
    let mut file = AtomicFile::create(&path, true).expect("created");
    file.write_all(&[1; 1 << 20]).expect("written");
    assert_eq!(fs::read(&path).expect("read"), b"old");
    drop(file);
    assert_eq!(names(folder.path()), ["w.npy"]);
    assert_eq!(fs::read(&path).expect("read"), b"old");
    let mut file = AtomicFile::create(&path, true).expect("created");
    file.write_all(b"new").expect("written");
    assert_eq!(file.path(), path);
    file.commit().expect("committed");
    assert_eq!(fs::read(&path).expect("read"), b"new");
    assert_eq!(names(folder.path()), ["w.npy"]);
}

#[cfg(unix)]
#[test]
fn permissions_and_links_stay() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = folder();
    let (path, link) = (folder.path().join("w.npy"), folder.path().join("link.npy"));
    let mode = |path: &Path| fs::metadata(path).expect("a file").permissions().mode() & 0o777;
    let write = |path: &Path, bytes: &[u8]| {
        let mut file = AtomicFile::create(path, true)?;
        file.write_all(bytes).expect("written");
        file.commit()
    };
    // A new file has what every new file has.
    write(&path, b"1").expect("committed");
    let plain = folder.path().join("plain");
    fs::write(&plain, b"").expect("saved");
    assert_eq!(mode(&path), mode(&plain));
    for bits in [0o600, 0o640, 0o666, 0o755] {
        fs::set_permissions(&path, fs::Permissions::from_mode(bits)).expect("set");
        write(&path, b"2").expect("committed");
        assert_eq!(mode(&path), bits);
    }
    symlink(&path, &link).expect("linked");
    write(&link, b"3").expect("committed");
    assert!(fs::symlink_metadata(&link).expect("a link").is_symlink());
    assert_eq!(fs::read(&path).expect("read"), b"3");
    // A device takes the bytes, and nothing replaces it.
    write(Path::new("/dev/null"), b"4").expect("committed");
    assert!(!fs::metadata("/dev/null").expect("a device").is_file());
    let error = AtomicFile::create(folder.path(), true).expect_err("a folder").to_string();
    assert!(
        error.ends_with("cannot write: Is a directory (os error 21)")
            || error.ends_with("cannot write: is a directory"),
        "{error}"
    );
}
