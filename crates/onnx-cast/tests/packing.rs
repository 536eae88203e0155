//! Do `pack` and `unpack` give the bits of the packing that shares no code with them, at every length, and refuse
//! buffers that do not fit?

use onnx_cast::DataType;
use onnx_cast::packing::{PackError, clear_padding, pack, unpack};
use testkit::{Ty, packing};

const TYPES: [(DataType, Ty); 3] =
    [(DataType::Int2, Ty::Int2), (DataType::Float4E2M1, Ty::Float4E2M1), (DataType::Float6E3M2, Ty::Float6E3M2)];

#[test]
fn every_length_is_packed_and_unpacked_as_element_by_element() {
    for (data_type, ty) in TYPES {
        let mask = (1u64 << ty.bits()) - 1;
        for len in (0..300).chain([4096, 100_003]) {
            // Every byte value: the bits above an element's width are ignored.
            let elements: Vec<u8> = (0..len).map(|i| (i * 167 + i / 256) as u8).collect();
            let codes: Vec<u64> = elements.iter().map(|&byte| u64::from(byte) & mask).collect();
            let want = packing::pack(ty, &codes);
            let mut got = vec![0xa5; want.len()];
            pack(data_type, &elements, &mut got).expect("lengths that fit");
            assert_eq!(got, want, "{data_type} x {len}, packed");

            // Packed bytes whose padding has bits set.
            let bytes: Vec<u8> = elements[..want.len()].iter().map(|byte| byte ^ 0xff).collect();
            let mut clean = bytes.clone();
            clear_padding(data_type, len, &mut clean).expect("lengths that fit");
            let want = packing::unpack(ty, &clean, len).expect("lengths that fit");
            let mut got = vec![0xa5; len];
            unpack(data_type, &bytes, &mut got).expect("lengths that fit");
            let got: Vec<u64> = got.into_iter().map(u64::from).collect();
            assert_eq!(got, want, "{data_type} x {len}, unpacked");
        }
    }
}

#[test]
fn lengths_that_do_not_fit_are_refused() {
    for (data_type, _) in TYPES {
        let want = data_type.byte_len(20).expect("a length in memory");
        for got in [0, want - 1, want + 1] {
            let error = Err(PackError::ByteLen { data_type, elements: 20, got, want: Some(want) });
            assert_eq!(pack(data_type, &[0; 20], &mut vec![0; got]), error, "{data_type}: {got} bytes");
            assert_eq!(unpack(data_type, &vec![0; got], &mut [0; 20]), error, "{data_type}: {got} bytes");
            assert_eq!(clear_padding(data_type, 20, &mut vec![0; got]), error, "{data_type}: {got} bytes");
        }
    }
    let not_packed = |data_type| Err(PackError::NotPacked { data_type });
    assert_eq!(pack(DataType::Uint8, &[0; 8], &mut [0; 8]), not_packed(DataType::Uint8));
    assert_eq!(unpack(DataType::Float, &[0; 8], &mut [0; 2]), not_packed(DataType::Float));
    assert_eq!(clear_padding(DataType::Float, 2, &mut [0; 8]), Ok(()));
    let string = PackError::ByteLen { data_type: DataType::String, elements: 2, got: 8, want: None };
    assert_eq!(clear_padding(DataType::String, 2, &mut [0; 8]), Err(string));
}
