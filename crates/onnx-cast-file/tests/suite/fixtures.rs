//! Is what numpy, ml_dtypes, onnx and safetensors write read right, and written the same?

use crate::common;

use common::Format::{Npy, TensorProto};
use common::{NPY, PB, SAFETENSORS, cases, checkpoint, describe, patterns, read, written};
use onnx_cast::{DataType, Tensor};
use onnx_cast_file::safetensors::{self, type_name};

/// Whether a `.npy` file tells the type by itself.
fn told(data_type: DataType) -> bool {
    let bits = data_type.bits().unwrap_or(64);
    bits > 8 || matches!(data_type, DataType::Int8 | DataType::Uint8 | DataType::Bool | DataType::Float8E5M2)
}

#[test]
fn npy_files_are_read() {
    let cases = cases(NPY);
    assert_eq!(cases.len(), 63);
    for case in &cases {
        let data_type = case.tensor.data_type();
        let as_type = Some(data_type).filter(|&data_type| !told(data_type));
        for as_type in [as_type, Some(data_type)] {
            let read = read(Npy, &case.file, as_type).unwrap_or_else(|error| panic!("{}: {error}", case.name));
            assert_eq!(read.name, "");
            assert_eq!(describe(&read.tensor.view()), describe(&case.tensor.view()), "{}", case.name);
        }
    }
}

#[test]
fn npy_files_are_written_as_numpy_does() {
    let mut same = 0;
    for case in cases(NPY) {
        let plain_form =
            !case.name.contains("version") && !case.name.contains("fortran") && !case.name.ends_with("_big");
        // numpy cannot load what it writes for float8_e5m2; S becomes U.
        if plain_form && case.name != "float8e5m2" && case.name != "bytes" {
            let written =
                written(Npy, "", &case.tensor, false).unwrap_or_else(|error| panic!("{}: {error}", case.name));
            assert_eq!(String::from_utf8_lossy(&written), String::from_utf8_lossy(&case.file), "{}", case.name);
            assert_eq!(written, case.file, "{}", case.name);
            same += 1;
        }
    }
    assert_eq!(same, 43);
    let e5m2 = written(Npy, "", &patterns(DataType::Float8E5M2, &[3]), false).expect("written");
    assert!(e5m2[10..].starts_with(b"{'descr': '<V1', "), "{}", String::from_utf8_lossy(&e5m2));
}

#[test]
fn pb_files_are_read() {
    let cases = cases(PB);
    assert_eq!(cases.len(), 62);
    for case in &cases {
        let read = read(TensorProto, &case.file, None).unwrap_or_else(|error| panic!("{}: {error}", case.name));
        assert_eq!(describe(&read.tensor.view()), describe(&case.tensor.view()), "{}", case.name);
    }
}

#[test]
fn pb_files_are_written_as_onnx_does() {
    let mut same = 0;
    for case in cases(PB) {
        if case.name.ends_with("_raw") || ["strings", "no_strings", "rank_0"].contains(&case.name) {
            let name = read(TensorProto, &case.file, None).expect("read").name;
            let written = written(TensorProto, &name, &case.tensor, false)
                .unwrap_or_else(|error| panic!("{}: {error}", case.name));
            assert_eq!(written, case.file, "{}", case.name);
            same += 1;
        }
    }
    assert_eq!(same, 30);
}

#[test]
fn safetensors_files_are_read_and_written_the_same() {
    let cases = cases(SAFETENSORS);
    assert_eq!(cases.len(), 22);
    for case in &cases {
        let (tensors, metadata) = checkpoint(&case.file).unwrap_or_else(|error| panic!("{}: {error}", case.name));
        let [read] = &tensors[..] else { panic!("{}: several tensors", case.name) };
        assert_eq!(describe(&read.tensor.view()), describe(&case.tensor.view()), "{}", case.name);
        let written = safetensors::write(metadata.as_deref(), &[(&read.name, case.tensor.view())]).expect("written");
        assert_eq!(String::from_utf8_lossy(&written), String::from_utf8_lossy(&case.file), "{}", case.name);
        assert_eq!(written, case.file, "{}", case.name);
    }
}

/// The safetensors crate knows exactly the types that are named here, and takes what is written here.
#[test]
fn safetensors_types_are_the_formats() {
    let named: Vec<&str> = DataType::ALL.iter().filter_map(|&data_type| type_name(data_type)).collect();
    assert_eq!(named.len(), 22);
    for &data_type in DataType::ALL {
        let tensor = patterns(data_type, &[2, 4]);
        let Some(name) = type_name(data_type) else {
            let error = safetensors::write(None, &[("w", tensor.view())]).expect_err("no name");
            assert_eq!(error.to_string(), format!("tensor `w`: the .safetensors format has no name for {data_type}"));
            continue;
        };
        let metadata = [("a".to_owned(), "\"quoted\" \u{1}".to_owned()), ("0".to_owned(), String::new())];
        let written = safetensors::write(Some(&metadata), &[("w", tensor.view())]).expect("written");
        let theirs =
            ::safetensors::SafeTensors::deserialize(&written).unwrap_or_else(|error| panic!("{name}: {error}"));
        let theirs = theirs.tensor("w").expect("the tensor");
        assert_eq!(format!("{:?}", theirs.dtype()), name);
        assert_eq!((theirs.shape(), Some(theirs.data())), (&[2, 4][..], tensor.bytes()));
        let (_, header) = ::safetensors::SafeTensors::read_metadata(&written).expect("a header");
        assert_eq!(header.metadata().as_ref().map(|pairs| pairs["a"].as_str()), Some("\"quoted\" \u{1}"));
        assert_eq!(checkpoint(&written).expect("read").1.as_deref(), Some(&metadata[..]));
    }
    // Every variant of the crate's enum has one of these names: as many as it has rows.
    for name in named {
        let header = format!(r#"{{"w":{{"dtype":"{name}","shape":[0],"data_offsets":[0,0]}}}}"#);
        let file = [&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat();
        assert!(::safetensors::SafeTensors::deserialize(&file).is_ok(), "{name}");
    }
}

#[test]
fn every_type_goes_round_in_memory() {
    for &data_type in DataType::ALL {
        for shape in [&[][..], &[0], &[1], &[7], &[3, 5], &[2, 0, 4], &[1, 2, 3, 4]] {
            let tensor = patterns(data_type, shape);
            let place = format!("{data_type} {shape:?}");
            let message = written(TensorProto, "w", &tensor, false).expect("written");
            let one = read(TensorProto, &message, None).expect("read");
            assert_eq!((one.name.as_str(), &one.tensor), ("w", &tensor), "{place}");
            for plain in [false, true] {
                let array = written(Npy, "", &tensor, plain).expect("written");
                assert_eq!(read(Npy, &array, Some(data_type)).expect("read").tensor, tensor, "{place} {plain}");
            }
            let elements = tensor.len();
            match safetensors::write(None, &[("w", tensor.view())]) {
                Ok(written) => {
                    assert_eq!(checkpoint(&written).expect("read").0[0].tensor, tensor, "{place}");
                }
                Err(error) => {
                    let partial =
                        data_type.is_packed() && !(elements * data_type.bits().unwrap_or(0)).is_multiple_of(8);
                    assert!(partial || type_name(data_type).is_none(), "{place}: {error}");
                }
            }
        }
    }
}

#[test]
fn a_long_npy_header_has_version_2() {
    let shape = [1; 64];
    let tensor = patterns(DataType::Float, &shape);
    let array = written(Npy, "", &tensor, false).expect("written");
    assert_eq!(read(Npy, &array, None).expect("read").tensor, tensor);
    assert_eq!(array.len() % 64, 4);
}

#[test]
fn strings_that_numpy_would_change_are_refused() {
    let tensor = |string: &[u8]| Tensor::strings(vec![1], [string].iter().collect()).expect("a tensor");
    let error = |string: &[u8]| written(Npy, "", &tensor(string), false).expect_err("refused").to_string();
    assert_eq!(error(b"a\0"), "memory: element 0: ends in a NUL, which numpy would drop");
    assert_eq!(error(b"\xff"), "memory: element 0: not UTF-8, which numpy's strings need");
    assert!(written(Npy, "", &tensor(b"\0a"), false).is_ok());
}
