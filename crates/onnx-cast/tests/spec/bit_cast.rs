//! BitCast: the same bits as another type of the same width.

use crate::runner::*;
use onnx_cast::DataType::{self, *};
use onnx_cast::ops::{OpError, OpErrorKind};
use onnx_cast::{BitCast, Tensor, TensorView};
use testkit::Ty;

fn bit_cast(from: DataType, to: DataType, bytes: &[u8], len: usize) -> Vec<u8> {
    let shape = [len];
    let input = TensorView::new(from, &shape, bytes).expect("the bytes of the type");
    let operator = BitCast::new(to, 26).expect("a type of BitCast");
    let name = format!("{from} -> {to}");
    let got = operator.run(&input).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!((got.data_type(), got.shape()), (to, &shape[..]), "{name}");
    let owned = operator.run_owned(input.to_tensor()).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(owned, got, "{name}: owned");
    let mut out = vec![0xAA; bytes.len()];
    operator.run_into(&input, &mut out).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(Some(&out[..]), got.bytes(), "{name}: into a buffer");
    out
}

#[test]
fn the_bits_stay() {
    // From, to, bits. Complex numbers are in `complex_numbers_are_their_bytes`.
    const CASES: &[(DataType, DataType, u64)] = &[
        (Float, Int32, 0x3F80_0000),
        (Float, Int32, 0xC020_0000),
        (Int32, Float, 0x7F80_0001), // a signalling NaN stays signalling
        (Uint32, Int32, 0xFFFF_FFFF),
        (Double, Int64, 0x3FF0 << 48),
        (Int64, Double, 0xFFF0_0000_0000_0001),
        (Uint64, Double, 0x8000 << 48),
        (Float16, BFloat16, 0x7C01),
        (BFloat16, Int16, 0xFF81),
        (Uint16, Float16, 0x8000),
        (Int16, Uint16, 0x8000),
        (Int8, Uint8, 0x80),
        (Float8E4M3FN, Float8E5M2, 0x7F),
        (Float8E5M2, Float8E4M3FNUZ, 0x80),
        (Float8E8M0, Uint8, 0xFF),
        (Uint8, Float8E8M0, 0x00),
        (Bool, Uint8, 0x01),
        (Bool, Uint8, 0x02), // the stored byte
        (Uint8, Bool, 0x02),
        (Int4, Uint4, 0x8),
        (Uint4, Float4E2M1, 0xF),
        (Float4E2M1, Int4, 0x8),
        (Int2, Uint2, 0x2),
        (Uint2, Int2, 0x3),
        (Float, Float, 0xFF80_0001),
    ];
    for &(from, to, bits) in CASES {
        for len in [0, 1, 2, 3, 5, 8, 67] {
            let bytes = packed(from, &vec![bits; len]);
            assert_eq!(bit_cast(from, to, &bytes, len), bytes, "{from} {bits:#x} -> {to}, {len} elements");
        }
    }
}

#[test]
fn complex_numbers_are_their_bytes() {
    let bytes: Vec<u8> = (0..48).collect();
    assert_eq!(bit_cast(Complex64, Int64, &bytes, 6), bytes, "complex64 -> int64");
    assert_eq!(bit_cast(Double, Complex64, &bytes, 6), bytes, "double -> complex64");
    assert_eq!(bit_cast(Complex128, Complex128, &bytes, 3), bytes, "complex128 -> complex128");
}

#[test]
fn every_pair_of_types_goes_by_its_width() {
    for &from in DataType::ALL {
        for &to in DataType::ALL {
            let listed = |data_type: DataType| Ty::from_code(data_type.onnx()).expect("a row").bit_cast();
            let got = BitCast::new(to, 28)
                .and_then(|operator| operator.plan(from).map(|plan| (plan.source_type(), plan.target_type())));
            let name = format!("{from} -> {to}");
            if !listed(from) || !listed(to) {
                let lacks = |error: &OpError| matches!(error.kind(), OpErrorKind::Type { since: None, .. });
                assert!(got.as_ref().is_err_and(lacks), "{name}: got {got:?}, want no version");
            } else if from.bits() != to.bits() {
                assert_eq!(got, Err(OpErrorKind::BitWidth { from, to }.into()), "{name}");
            } else {
                assert_eq!(got, Ok((from, to)), "{name}");
            }
        }
    }
}

#[test]
fn padding_is_zeroed() {
    assert_eq!(bit_cast(Int4, Uint4, &[0xFF, 0xFF], 3), [0xFF, 0x0F]);
    assert_eq!(bit_cast(Uint4, Float4E2M1, &[0xFF], 1), [0x0F]);
    assert_eq!(bit_cast(Int2, Uint2, &[0xFF, 0xFF], 5), [0xFF, 0x03]);
    assert_eq!(bit_cast(Uint2, Uint2, &[0xFF], 3), [0x3F]);
}

#[test]
fn a_rank_zero_tensor_stays_one() {
    let input = Tensor::from_slice(vec![], &[1.0f32]).expect("one element");
    let got = BitCast::new(Int32, 26).and_then(|operator| operator.plan(Float)).expect("32 bits").run(&input.view());
    assert_eq!(got, Tensor::from_slice(vec![], &[0x3F80_0000i32]).map_err(Into::into));
}
