//! The layout of elements in bytes: order, packing and padding; shapes, empty and rank-0 tensors.

use crate::runner::*;
use onnx_cast::DataType::{self, *};
use onnx_cast::tensor::{Data, Strings};
use onnx_cast::{Cast, CastOptions, Tensor, TensorView};

fn cast(from: DataType, to: DataType, bytes: &[u8], len: usize) -> Vec<u8> {
    let shape = [len];
    let input = TensorView::new(from, &shape, bytes).unwrap_or_else(|error| panic!("{from} -> {to}: {error}"));
    let operator = Cast::new(to, &CastOptions::default()).expect("a type of Cast");
    let mut out = vec![0xAA; to.byte_len(len).expect("small")];
    operator.run_into(&input, &mut out).unwrap_or_else(|error| panic!("{from} -> {to}: {error}"));
    out
}

#[test]
fn the_first_element_is_in_the_low_bits() {
    // Elements with the bits 1, 2, 3, ...
    const CASES: &[(DataType, usize, &[u8])] = &[
        (Uint4, 3, &[0x21, 0x03]),
        (Int4, 2, &[0x21]),
        (Float4E2M1, 3, &[0x21, 0x03]),
        (Uint2, 3, &[0b11_10_01]),
        (Int2, 3, &[0b11_10_01]),
        (Uint2, 4, &[0b00_11_10_01]), // 4 is 0 modulo 4
        (Float6E2M3, 3, &[0x81, 0x30, 0x00]),
        (Float6E3M2, 4, &[0x81, 0x30, 0x10]),
        (Float6E2M3, 1, &[0x01]),
        (Float6E2M3, 2, &[0x81, 0x00]),
        (Uint16, 2, &[1, 0, 2, 0]),
        (Float16, 2, &[1, 0, 2, 0]),
        (Uint32, 1, &[1, 0, 0, 0]),
        (Int64, 1, &[1, 0, 0, 0, 0, 0, 0, 0]),
    ];
    for &(data_type, len, bytes) in CASES {
        let elements: Vec<u64> = (1..=len as u64).collect();
        assert_eq!(cast(data_type, data_type, bytes, len), bytes, "{data_type}");
        // Read and write each element through a type with one byte per element.
        if !data_type.is_float() {
            let wide: Vec<u8> = cast(data_type, Int64, bytes, len);
            for (index, (got, &want)) in wide.chunks_exact(8).zip(&elements).enumerate() {
                let width = data_type.bits().expect("not string");
                let low = got[0] & (0xFFu16 >> (8 - width.min(8))) as u8;
                assert_eq!(u64::from(low), want & (0xFF >> (8 - width.min(8))), "{data_type}, element {index}");
            }
            assert_eq!(cast(Int64, data_type, &packed(Int64, &elements), len), bytes, "int64 -> {data_type}");
        }
    }
    // The values of float6 codes 1, 2, 3.
    let floats = cast(Float6E2M3, Float, &[0x81, 0x30, 0x00], 3);
    assert_eq!(floats, packed(Float, &[f(0.125), f(0.25), f(0.375)]), "float6e2m3 -> float");
    assert_eq!(cast(Float, Float6E2M3, &floats, 3), [0x81, 0x30, 0x00], "float -> float6e2m3");
    let floats = cast(Float4E2M1, Float, &[0x21, 0x03], 3);
    assert_eq!(floats, packed(Float, &[f(0.5), f(1.0), f(1.5)]), "float4e2m1 -> float");
    assert_eq!(cast(Float, Float4E2M1, &floats, 3), [0x21, 0x03], "float -> float4e2m1");
}

#[test]
fn padding_is_ignored_when_read_and_zero_when_written() {
    for &from in DataType::NUMERIC {
        for &to in DataType::NUMERIC {
            for len in [1, 2, 3, 5, 7, 9, 67] {
                let elements: Vec<u64> = (0..len as u64).collect();
                let clean = packed(from, &elements);
                let mut dirty = clean.clone();
                let used = len * from.bits().expect("not string") % 8;
                if used != 0 {
                    *dirty.last_mut().expect("not empty") |= 0xFF << used;
                }
                let got = cast(from, to, &dirty, len);
                assert_eq!(got, cast(from, to, &clean, len), "{from} -> {to}, {len} elements: the padding was read");
                let unpadded = packed(to, &unpacked(to, &got, len));
                assert_eq!(got, unpadded, "{from} -> {to}, {len} elements: the padding is not zero");
            }
        }
    }
}

#[test]
fn every_pair_takes_empty_and_rank_zero_tensors() {
    let types = DataType::ALL.iter().filter(|data_type| data_type.info().cast_since.is_some());
    for &from in types.clone() {
        for &to in types.clone() {
            for shape in [&[][..], &[0], &[3, 0, 5], &[0, usize::MAX, usize::MAX], &[1, 1, 1]] {
                let len = if shape.contains(&0) { 0 } else { 1 };
                let input = if from == String {
                    Tensor::strings(shape.to_vec(), std::iter::repeat_n("1", len).collect())
                } else {
                    Tensor::new(from, shape.to_vec(), vec![1; from.byte_len(len).expect("small")])
                };
                let input = input.unwrap_or_else(|error| panic!("{from} of shape {shape:?}: {error}"));
                let got = Cast::new(to, &CastOptions::default()).expect("a type of Cast").run(&input.view());
                let got = got.unwrap_or_else(|error| panic!("{from} -> {to} of shape {shape:?}: {error}"));
                assert_eq!((got.data_type(), got.shape(), got.len()), (to, shape, len), "{from} -> {to}");
            }
        }
    }
}

#[test]
fn strings_are_offsets_and_bytes() {
    let strings: Strings = ["1", "", "\u{221e}", "22"].iter().collect();
    assert_eq!(strings.view().offsets(), [0, 1, 1, 4, 6]);
    assert_eq!(strings.view().bytes(), "1\u{221e}22".as_bytes());
    let tensor = Tensor::strings(vec![2, 2], strings.clone()).expect("four strings");
    let copy = Cast::new(String, &CastOptions::default()).expect("Cast-28").run(&tensor.view()).expect("a copy");
    assert_eq!(copy, tensor, "string -> string keeps every byte");
    let numbers = Tensor::from_slice(vec![3], &[-1i8, 0, 127]).expect("three elements");
    let got = Cast::new(String, &CastOptions::default()).expect("Cast-28").run(&numbers.view()).expect("strings");
    let view = got.view();
    let Data::Strings(texts) = view.data() else { panic!("not strings") };
    assert_eq!((texts.offsets(), texts.bytes()), (&[0, 2, 3, 6][..], &b"-10127"[..]));
}
