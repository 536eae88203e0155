//! Are bad files refused, and does the text say what is wrong?

use crate::common;

use common::{Format, REFUSED, files, text_without};
use onnx_cast::{DataType, Tensor};
use onnx_cast_file::{CastRequest, WriteOptions, cast_file, read_tensor, read_tensor_as, write_tensor};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

/// The text without the folder's path.
fn text(error: impl ToString, folder: &TempDir) -> String {
    text_without(folder.path(), error)
}

fn refusal(name: &str, bytes: &[u8]) -> String {
    let folder = folder();
    let path = folder.path().join(name);
    fs::write(&path, bytes).expect("written");
    text(read_tensor(&path).expect_err(name), &folder)
}

#[test]
fn files_of_other_packages() {
    let large = "tensor `w`: dimension 0 is 1099511627776, too large for this machine";
    let (overflow, beyond) = match usize::BITS {
        32 => (large, large),
        _ => (
            "tensor `w`: 1099511627776x1099511627776 float is too large",
            "tensor `w`: 4 bytes of raw_data for 1099511627776 float (want 4398046511104)",
        ),
    };
    let number =
        format!("tensor `w`: data_type is 99, which is not an element type (want {})", DataType::onnx_numbers());
    let want = [
        ("structure.npy", "elements of `[('a', '<i4'), ('b', '<f8')]` are structures, which are not read"),
        ("object.npy", "elements of `|O` are Python objects, which are unsupported"),
        ("date.npy", "elements of `<M8[D]` are dates, which ONNX has no type for"),
        ("long_double.npy", "elements of `<f16` are floats of a width that ONNX lacks"),
        ("void_3.npy", "elements of `|V3` are bytes of a type that ONNX lacks"),
        ("external.pb", "tensor `w`: the elements are in another file (external data), which is not supported"),
        ("segment.pb", "tensor `w`: a segment of a tensor, which is not supported"),
        ("two_fields.pb", "tensor `w`: elements in both float_data and raw_data"),
        ("wrong_field.pb", "tensor `w`: int32_data for elements of float (want raw_data or float_data)"),
        ("raw_strings.pb", "tensor `w`: raw_data for elements of string (want string_data)"),
        ("few_entries.pb", "tensor `w`: 2 entries of int32_data for 3 int32 (want 3)"),
        ("raw_length.pb", "tensor `w1`: 7 bytes of raw_data for 2x2 float16 (want 8)"),
        ("negative.pb", "tensor `w`: dimension 1 is -3"),
        ("overflow.pb", overflow),
        ("beyond.pb", beyond),
        ("undefined.pb", "tensor `w`: data_type is UNDEFINED"),
        ("type_number.pb", &number),
    ];
    let refused = files(REFUSED);
    assert_eq!(refused.len(), want.len());
    for ((name, bytes), (want_name, want)) in refused.iter().zip(want) {
        assert_eq!(*name, want_name);
        assert_eq!(refusal(name, bytes), format!("{name}: {want}"));
    }
}

#[test]
fn empty_and_foreign_bytes() {
    let text = b"Hello, this is not a tensor at all.\n";
    for (name, bytes, want) in [
        ("w.pb", &b""[..], "empty (want a TensorProto)"),
        ("w.npy", b"", "an empty file (download it again)"),
        ("w.safetensors", b"", "an empty file (download it again)"),
        ("w.pb", text, "not a valid TensorProto: groups do not balance"),
        ("w.npy", text, "not a .npy file"),
        ("w.npy", b"\x93NUMPY\x04\x00", "version 4.0 of the .npy format is unknown (want 1.0, 2.0 or 3.0)"),
        ("w.npy", b"\x93NUMPY\x01", "the file ends inside the header"),
        ("w.npy", b"\x93NUMPY\x02\x00\xff\xff\xff\xff{", "the file ends inside the header"),
        (
            "w.safetensors",
            text,
            "a text that begins with `Hello, this is not a tensor at all.`, not the file itself (download it again)",
        ),
        ("w.safetensors", b"\0\0\0\0\0\0\0\x80", "a header of 9223372036854775808 bytes (want at most 100000000)"),
        ("w.safetensors", b"\x09\0\0\0\0\0\0\0{}", "a header of 9 bytes in a file of 10"),
    ] {
        assert_eq!(refusal(name, bytes), format!("{name}: {want}"));
    }
}

#[test]
fn npy_headers() {
    let file = |header: &str, body: &[u8]| {
        [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), body].concat()
    };
    let good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
    let wide = format!("<U{}", isize::MAX);
    let wide_header = format!("{{'descr': '{wide}', 'fortran_order': False, 'shape': (2,)}}");
    for (header, body, want) in [
        (good, &[0; 7][..], "7 bytes after the header for 2 `<f4` (want 8)"),
        (good, &[0; 9], "9 bytes after the header for 2 `<f4` (want 8)"),
        ("", &[], "the header is not valid: no dictionary"),
        ("{'descr': '<f4'", &[], "the header is not valid: the dictionary does not end"),
        ("{'descr': '<f4', 'descr': '<f4'}", &[], "the header is not valid: a key twice"),
        ("{'descr': '<f4', 'fortran_order': False}", &[], "the header is not valid: no shape"),
        ("{'descr': '<f4', 'fortran_order': 0}", &[], "the header is not valid: fortran_order is not True or False"),
        ("{'shape': (-2,)}", &[], "the header is not valid: a dimension is not a number of this machine's size"),
        (
            "{'shape': (99999999999999999999,)}",
            &[],
            "the header is not valid: a dimension is not a number of this machine's size",
        ),
        ("{'other': 1}", &[], "the header is not valid: a key other than descr, fortran_order and shape"),
        (
            "{'descr': '<f4', 'fortran_order': False, 'shape': (2147483648, 2147483648, 16)}",
            &[],
            "2147483648x2147483648x16 <f4 is too large",
        ),
        ("{'descr': '<U0', 'fortran_order': False, 'shape': (4294967295,)}", &[], "elements of `<U0` have no bytes"),
        (&wide_header, &[], &format!("elements of `{wide}` are too large")),
        (
            "{'descr': '<U1', 'fortran_order': False, 'shape': (1,)}",
            &[0, 0xd8, 0, 0],
            "element 0: 0xd800 is not a Unicode character",
        ),
        ("{'descr': 'Zß', 'fortran_order': False, 'shape': (1,)}", &[], "elements of `Zß` have a type that ONNX lacks"),
        ("{'descr': 'é', 'fortran_order': False, 'shape': (1,)}", &[], "elements of `é` have a type that ONNX lacks"),
        ("{'descr': '', 'fortran_order': False, 'shape': (1,)}", &[], "elements of `` have no type"),
        (
            "{'descr': '|V1', 'fortran_order': False, 'shape': (1,)}",
            &[0],
            "elements of `|V1` may be any type of 8 bits or fewer (`from` gives the type, such as float8e4m3fn)",
        ),
    ] {
        assert_eq!(refusal("w.npy", &file(header, body)), format!("w.npy: {want}"));
    }
    // What is left out by other writers, or written by older ones.
    for header in [
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2L,)}",
        "{\"shape\":(2),\"fortran_order\":False,\"descr\":\"f4\"}",
        "  {'descr': '=f4' , 'fortran_order' : True , 'shape' : ( 2 , ) , } \n",
    ] {
        assert!(common::read(Format::Npy, &file(header, &[0; 8]), None).is_ok(), "{header}");
    }
}

#[test]
fn safetensors_headers() {
    let file = |header: &str, data: usize| {
        let mut file = [&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat();
        file.resize(file.len() + data, 0);
        file
    };
    let tensor = |offsets: &str| format!(r#"{{"w":{{"dtype":"F32","shape":[2],"data_offsets":{offsets}}}}}"#);
    let offsets = |start: &str, end: &str, data: &str| {
        format!(
            "tensor `w`: data_offsets {start} to {end} (want to start at 0, and to end within the {data} bytes of data)"
        )
    };
    for (header, data, want) in [
        (tensor("[0,7]"), 8, "tensor `w`: 7 bytes for 2 float (want 8)".to_owned()),
        (tensor("[0,8]"), 7, offsets("0", "8", "7")),
        (tensor("[8,0]"), 8, offsets("8", "0", "8")),
        (tensor("[4,12]"), 12, offsets("4", "12", "12")),
        (tensor("[0,18446744073709551615]"), 8, offsets("0", "18446744073709551615", "8")),
        (tensor("[0,8]"), 9, "9 bytes of data, but the tensors take 8".to_owned()),
        ("{}".to_owned(), 1, "1 byte of data, but the tensors take 0".to_owned()),
        (
            r#"{"w":{"dtype":"F32","shape":[2147483648,2147483648,16],"data_offsets":[0,0]}}"#.to_owned(),
            0,
            "tensor `w`: 2147483648x2147483648x16 float is too large".to_owned(),
        ),
        (
            r#"{"w":{"dtype":"F4","shape":[3],"data_offsets":[0,2]}}"#.to_owned(),
            2,
            "tensor `w`: 3 elements of float4e2m1 (the .safetensors format requires whole bytes)"
                .to_owned(),
        ),
        (
            r#"{"w":{"dtype":"F7","shape":[0],"data_offsets":[0,0]}}"#.to_owned(),
            0,
            "tensor `w`: ONNX has no type `F7`".to_owned(),
        ),
        (
            r#"{"w":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"w":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}"#.to_owned(),
            0,
            "the header is not valid: `w` appears twice at line 1 column 57".to_owned(),
        ),
        (
            r#"{"__metadata__":{"a":1}}"#.to_owned(),
            0,
            "the header is not valid: invalid type: integer `1`, expected a string at line 1 column 22".to_owned(),
        ),
    ] {
        assert_eq!(refusal("w.safetensors", &file(&header, data)), format!("w.safetensors: {want}"));
    }
    let nested = format!("{}{}", r#"{"w":"#, "[".repeat(100_000));
    assert!(refusal("w.safetensors", &file(&nested, 0)).starts_with("w.safetensors: the header is not valid: "));
    let two = r#"{"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"b":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}"#;
    assert_eq!(refusal("w.safetensors", &file(two, 0)), "w.safetensors: 2 tensors, where reading one tensor takes one");
    assert_eq!(
        refusal("w.safetensors", &file("{}", 0)),
        "w.safetensors: 0 tensors, where reading one tensor takes one"
    );
}

#[test]
fn paths() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    let read = |name: &str| text(read_tensor(at(name)).expect_err(name), &folder);
    assert_eq!(read("none.pb"), "none.pb: cannot open: No such file or directory (os error 2)");
    for name in ["w.txt", "w", ".pb"] {
        assert_eq!(read(name), format!("{name}: cannot open: No such file or directory (os error 2)"));
        fs::write(at(name), "of no format").expect("written");
        assert_eq!(
            read(name),
            format!(
                "{name}: unknown file extension (want .pb, .npy, .npz, .safetensors, .gguf, .pt, .onnx, .bin, .raw)"
            )
        );
    }
    fs::create_dir(at("folder.npy")).expect("made");
    assert_eq!(read("folder.npy"), "folder.npy: cannot read: is a directory");
    fs::write(at("model.onnx"), b"").expect("written");
    assert_eq!(read("model.onnx"), "model.onnx: reading one tensor does not take .onnx files (it is a model)");
    assert_eq!(Format::from_path("A.NPY").expect("known"), Format::Npy);

    let tensor = Tensor::from_slice(vec![2], &[1.0f32, 2.0]).expect("a tensor");
    let write = |name: &str, format| {
        let error = write_tensor(at(name), format, "w", tensor.view(), &WriteOptions::default()).expect_err(name);
        text(error, &folder)
    };
    assert_eq!(write("none/w.npy", Format::Npy), "none/w.npy: cannot write: No such file or directory (os error 2)");
    assert_eq!(write("folder.npy", Format::Npy), "folder.npy: cannot write: is a directory");
    assert_eq!(
        write("w.onnx", Format::Onnx),
        "w.onnx: writing one tensor does not take .onnx files (it is for models)"
    );
    let names: Vec<_> = fs::read_dir(folder.path()).expect("read").flatten().map(|entry| entry.file_name()).collect();
    // Those that were made above, and nothing else.
    assert_eq!(names.len(), 5, "{names:?}");

    write_tensor(at("w.npy"), Format::Npy, "", tensor.view(), &WriteOptions::default()).expect("written");
    let unnamed = write_tensor(at("w.safetensors"), Format::Safetensors, "", tensor.view(), &WriteOptions::default());
    assert_eq!(
        text(unnamed.expect_err("no name"), &folder),
        "w.safetensors: a tensor in a .safetensors file needs a name"
    );
    let float16 = read_tensor_as(at("w.npy"), Some(DataType::Float16)).expect_err("another type");
    assert_eq!(text(float16, &folder), "w.npy: elements of `<f4` are not float16");
    let cast = |input: &str, output: &str, to| {
        text(cast_file(at(input), at(output), &CastRequest::new(to)).expect_err("refused"), &folder)
    };
    assert_eq!(
        cast("model.onnx", "o.onnx", DataType::Float16),
        "model.onnx: cast does not take .onnx files (`run` evaluates a model)"
    );
    assert_eq!(
        cast("w.npy", "o.onnx", DataType::Float16),
        "o.onnx: tensors do not become a model (want .pb, .npy, .npz, .safetensors, .bin or .raw)"
    );
    assert_eq!(
        cast("w.npy", "o.safetensors", DataType::Int4),
        "o.safetensors: the .safetensors format has no name for int4"
    );
    assert_eq!(
        cast("w.npy", "o.npy", DataType::Complex64),
        "Cast-28 does not take complex64 (no version of Cast does)"
    );
    assert!(!Path::new(&at("o.npy")).exists());
}

/// Every reader of the format's has to agree on what is a file of it, keys that mean nothing included.
#[test]
fn a_safetensors_header_that_is_no_utf_8() {
    let header = b"{\"w\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4],\"other\":\"\xef2\"}}";
    let file = [&(header.len() as u64).to_le_bytes()[..], header, &[0; 4]].concat();
    let want = "w.safetensors: the header is not valid: invalid utf-8 sequence of 1 bytes from index 61";
    assert_eq!(refusal("w.safetensors", &file), want);
}

/// An empty tensor has room for any dimension, and must not be read as one of another shape.
#[cfg(target_pointer_width = "32")]
#[test]
fn a_dimension_that_does_not_fit_in_a_size() {
    let header = br#"{"w":{"dtype":"F32","shape":[0,4294967296],"data_offsets":[0,0]}}"#;
    let file = [&(header.len() as u64).to_le_bytes()[..], header].concat();
    let want = "w.safetensors: the header is not valid: invalid value: integer `4294967296`, expected usize at line 1 \
                column 41";
    assert_eq!(refusal("w.safetensors", &file), want);
    let message = [0x08, 0, 0x08, 0x80, 0x80, 0x80, 0x80, 0x10, 0x10, 1];
    let want = "w.pb: dimension 1 is 4294967296, too large for this machine";
    assert_eq!(refusal("w.pb", &message), want);
}

/// A field of more bytes than sizes of 32 bits count is not taken for a short one.
#[cfg(target_pointer_width = "32")]
#[test]
fn a_field_that_does_not_fit_in_memory() {
    let folder = folder();
    let path = folder.path().join("long.pb");
    // doc_string, of 2^32 + 10 bytes, of which the file has all.
    let head = [0x62, 0x8a, 0x80, 0x80, 0x80, 0x10];
    fs::write(&path, head).expect("written");
    let file = fs::OpenOptions::new().write(true).open(&path).expect("opened");
    file.set_len(head.len() as u64 + (1 << 32) + 10).expect("a file with a hole");
    let error = read_tensor(&path).expect_err("more than there is room for");
    assert_eq!(text(error, &folder), "long.pb: cannot read: out of memory");
}

/// numpy has no array of more dimensions, so that it could not read the file.
#[test]
fn more_dimensions_than_numpy_has() {
    let folder = folder();
    let tensor = |rank| Tensor::from_slice(vec![1; rank], &[1.0f32]).expect("a tensor");
    for name in ["x.npy", "x.npz"] {
        let (path, pb) = (folder.path().join(name), folder.path().join("x.pb"));
        let force = WriteOptions::default().force(true);
        write_tensor(&pb, Format::TensorProto, "x", tensor(65).view(), &force).expect("written");
        let checkpoint = folder.path().join(format!("{name}.safetensors"));
        cast_file(&pb, &checkpoint, &CastRequest::new(DataType::Float)).expect("cast");
        let from = if name == "x.npy" { &pb } else { &checkpoint };
        let error = cast_file(from, &path, &CastRequest::new(DataType::Float16)).expect_err("too many");
        let want = "65 dimensions, where numpy has at most 64 (reshape it, or write another format)";
        assert_eq!(text(error, &folder), format!("{name}: {want}"));
        assert!(!path.exists());
    }
    let path = folder.path().join("most.npy");
    write_tensor(&path, Format::Npy, "", tensor(64).view(), &WriteOptions::default()).expect("written");
    assert_eq!(read_tensor(&path).expect("read").tensor, tensor(64));
}

/// To open it would be to wait for somebody to write to it.
#[cfg(unix)]
#[test]
fn a_fifo() {
    let folder = folder();
    let path = folder.path().join("x.pb");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().expect("mkfifo").success());
    let want = "x.pb: cannot read: not a regular file (want one that can be read at any offset)";
    assert_eq!(text(read_tensor(&path).expect_err("a FIFO"), &folder), want);
}
