//! Does no damage to a file make a reader panic, or allocate what the file merely claims?

use crate::common;

use common::{Format, NPY, PB, REFUSED, SAFETENSORS, cases, checkpoint, files};
use onnx_cast::DataType;

/// Every reader, on bytes that may be anything. What is read must be a valid tensor, which its type guarantees.
fn read(bytes: &[u8]) -> [bool; 3] {
    let npy = |from| common::read(Format::Npy, bytes, from);
    let npy = npy(None).or_else(|_| npy(Some(DataType::Int4)));
    let tensors = checkpoint(bytes);
    // The format's own reader is no stricter. (It takes names that stand twice, and the reader here does not multiply
    // dimensions past a zero.)
    let theirs = ::safetensors::SafeTensors::deserialize(bytes);
    match (&tensors, &theirs) {
        (Err(error), Ok(_)) => assert!(error.to_string().contains("appears twice"), "{error}"),
        (Ok((ours, _)), Err(error)) => {
            let zero = ours.iter().any(|one| one.tensor.shape().contains(&0));
            assert!(zero, "accepted, but {error}");
        }
        _ => {}
    }
    [common::read(Format::TensorProto, bytes, None).is_ok(), npy.is_ok(), tensors.is_ok()]
}

fn all() -> Vec<Vec<u8>> {
    let tensors = [NPY, PB, SAFETENSORS].into_iter().flat_map(cases).map(|case| case.file);
    tensors.chain(files(REFUSED).into_iter().map(|(_, file)| file)).collect()
}

#[test]
fn every_prefix() {
    for table in [NPY, SAFETENSORS] {
        for case in cases(table) {
            for len in 0..case.file.len() {
                assert_eq!(read(&case.file[..len]), [false; 3], "{} cut to {len}", case.name);
            }
        }
    }
    for case in cases(PB) {
        for len in 0..case.file.len() {
            // A message is valid without its last fields: then they were not needed.
            if let Ok(cut) = common::read(Format::TensorProto, &case.file[..len], None) {
                assert_eq!(cut.tensor, case.tensor, "{} cut to {len}", case.name);
            }
        }
    }
    for file in all() {
        (0..file.len()).for_each(|len| {
            read(&file[..len]);
        });
    }
}

#[test]
fn every_bit_flipped() {
    for mut file in all() {
        for bit in 0..file.len() * 8 {
            file[bit / 8] ^= 1 << (bit % 8);
            read(&file);
            file[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

#[test]
fn every_byte_replaced_inserted_and_removed() {
    for file in all() {
        for at in 0..file.len() {
            for byte in [0x00, 0x7f, 0x80, 0xff, b'9'] {
                let mut damaged = file.clone();
                damaged[at] = byte;
                read(&damaged);
                damaged.insert(at, byte);
                read(&damaged);
            }
            let mut damaged = file.clone();
            damaged.remove(at);
            read(&damaged);
        }
    }
}

/// Claims of the largest sizes with next to no bytes behind them. Were any of it allocated, this would not end.
#[test]
fn claims() {
    let fits = |dim: &u64| usize::try_from(*dim).is_ok();
    for dims in [&[u64::MAX >> 1][..], &[1 << 62], &[1 << 40], &[1 << 32, 1 << 32], &[0, u64::MAX >> 1], &[1 << 63]] {
        let last = DataType::ALL[DataType::ALL.len() - 1] as u8;
        for data_type in 0..last + 3 {
            for field in [0, 4, 5, 6, 7, 9, 10, 11] {
                let mut message = Vec::new();
                for &dim in dims {
                    message.push(0x08);
                    put(&mut message, dim);
                }
                message.extend([0x10, data_type]);
                if field != 0 {
                    message.extend([field << 3 | 2, 0]);
                }
                let ok = common::read(Format::TensorProto, &message, None).is_ok();
                // An entry of string_data is a string, be it empty.
                let empty = dims[0] == 0 && dims.iter().all(fits);
                assert_eq!(ok, empty && DataType::from_onnx(data_type.into()).is_some() && field != 6, "{message:?}");
            }
        }
    }
}

fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
