//! Are the values of GPTQ, AWQ, Quark and ModelOpt those of a naive reader? Real widths, rows that end within words, orders of groups,
//! and several counts of threads. The naive one takes single bits, and knows no parts, vectors or threads.

use crate::common::replacing::dequantize_file;
use onnx_cast::{DataType, Tensor};
use onnx_cast_file::{DequantizeRequest, Format, InputFile, RunOptions, read_tensors_from, safetensors};
use std::fs;

/// Numbers of one sequence.
struct Draw(u64);

impl Draw {
    fn bits(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 32) as u32
    }

    fn words(&mut self, len: usize) -> Vec<i32> {
        (0..len).map(|_| self.bits().cast_signed()).collect()
    }

    /// Scales of which each is exact in float16.
    fn scales(&mut self, len: usize) -> Vec<f32> {
        (0..len).map(|_| (self.bits() % 2047) as f32 / 4096.0 - 0.25).collect()
    }
}

/// An integer of so many bits at a place of a stream of bits in words.
fn code(word: impl Fn(usize) -> i32, index: usize, bits: usize) -> i32 {
    (0..bits).map(|bit| index * bits + bit).enumerate().map(|(bit, at)| (word(at / 32) >> (at % 32) & 1) << bit).sum()
}

/// One weight of a case: rows, columns, columns of a group, bits, whether groups have an order.
type Case = (usize, usize, usize, usize, bool);

fn values(config: &str, tensors: &[(&str, Tensor)], threads: usize) -> Vec<f32> {
    try_values(config, tensors, threads).unwrap_or_else(|error| panic!("{config}: {error}"))
}

fn try_values(config: &str, tensors: &[(&str, Tensor)], threads: usize) -> Result<Vec<f32>, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let [input, output] = ["in", "out"].map(|name| folder.path().join(name));
    fs::create_dir(&input).expect("a folder");
    fs::write(input.join("config.json"), config).expect("a configuration");
    let views: Vec<_> = tensors.iter().map(|(name, tensor)| (*name, tensor.view())).collect();
    fs::write(input.join("model.safetensors"), safetensors::write(None, &views).expect("bytes")).expect("a file");
    let run = RunOptions::new().threads(Some(threads));
    let request = DequantizeRequest::new(DataType::Float).run(run);
    dequantize_file(&input, &output, &request).map_err(|error| error.to_string())?;
    let file = InputFile::open(&output.join("model.safetensors")).expect("a file");
    let made = read_tensors_from(file, Format::Safetensors, None).expect("tensors");
    Ok(made[0].tensor.to_vec().expect("floats"))
}

fn check(what: &str, got: &[f32], want: impl Iterator<Item = f32>) {
    let mut count = 0;
    for (index, (got, want)) in got.iter().zip(want).enumerate() {
        assert_eq!(got.to_bits(), want.to_bits(), "{what}: value {index}: {got}, not {want}");
        count += 1;
    }
    assert_eq!(count, got.len(), "{what}");
}

fn tensor<T: onnx_cast::types::Element>(shape: [usize; 2], values: &[T]) -> Tensor {
    Tensor::from_slice(shape.to_vec(), values).expect("a tensor")
}

#[test]
fn gptq_of_every_width() {
    const CASES: [Case; 9] = [
        (96, 5120, 128, 4, false),
        (64, 5120, 128, 3, true),
        (40, 18432, 64, 4, true),
        (33, 11008, 128, 8, false),
        (37, 14336, 32, 2, false),
        (100, 96, 32, 3, false),
        // Rows that one part does not hold.
        (3, 1_200_000, 4000, 4, false),
        (2, 1_200_000, 4000, 3, true),
        (300, 128, 128, 8, true),
    ];
    for (round, (rows, columns, group, bits, has_order)) in CASES.into_iter().enumerate() {
        let mut draw = Draw(round as u64 * 77 + 1);
        let [down, across] = [columns, rows].map(|count| (count * bits).div_ceil(32));
        let groups = columns.div_ceil(group);
        let (weight, zeros) = (draw.words(down * rows), draw.words(groups * across));
        let scales = draw.scales(groups * rows);
        let order: Vec<i32> = (0..columns)
            .map(|column| if has_order { draw.bits() as usize % groups } else { column / group } as i32)
            .collect();
        let config = format!(
            r#"{{"quantization_config":{{"quant_method":"gptq","bits":{bits},"group_size":{group},
            "checkpoint_format":"gptq_v2","sym":false}}}}"#
        );
        let tensors = [
            ("a.qweight", tensor([down, rows], &weight)),
            ("a.qzeros", tensor([groups, across], &zeros)),
            ("a.scales", tensor([groups, rows], &scales)),
            ("a.g_idx", Tensor::from_slice(vec![columns], &order).expect("a tensor")),
        ];
        let want = |index: usize| {
            let (row, column) = (index / columns, index % columns);
            let group = order[column] as usize;
            let element = code(|word| weight[word * rows + row], column, bits);
            let zero = code(|word| zeros[group * across + word], row, bits);
            scales[group * rows + row] * (element - zero) as f32
        };
        for threads in [1, 3] {
            let what = format!("{rows}x{columns}, {bits} bits, {threads} threads");
            check(&what, &values(&config, &tensors, threads), (0..rows * columns).map(want));
        }
    }
}

#[test]
fn awq_of_both_versions() {
    const ORDER: [usize; 8] = [0, 4, 1, 5, 2, 6, 3, 7];
    for (round, (rows, columns, group)) in
        [(96, 5120, 128), (64, 18432, 64), (8, 300_000, 32), (200, 96, 32)].into_iter().enumerate()
    {
        let mut draw = Draw(round as u64 * 99 + 5);
        let groups: usize = columns / group;
        let config = |version: &str| {
            format!(
                r#"{{"quantization_config":{{"quant_method":"awq","bits":4,"group_size":{group},
                "version":"{version}"}}}}"#
            )
        };
        let (weight, zeros) = (draw.words(columns * rows / 8), draw.words(groups * rows / 8));
        let scales = draw.scales(groups * rows);
        let tensors = [
            ("a.qweight", tensor([columns, rows / 8], &weight)),
            ("a.qzeros", tensor([groups, rows / 8], &zeros)),
            ("a.scales", tensor([groups, rows], &scales)),
        ];
        let nibble =
            |words: &[i32], line: usize, row: usize| words[line * rows / 8 + row / 8] >> (4 * ORDER[row % 8]) & 15;
        let want = |index: usize| {
            let (row, column) = (index / columns, index % columns);
            let group = column / group;
            (nibble(&weight, column, row) - nibble(&zeros, group, row)) as f32 * scales[group * rows + row]
        };
        for threads in [1, 3] {
            let what = format!("gemm, {rows}x{columns}, {threads} threads");
            check(&what, &values(&config("gemm"), &tensors, threads), (0..rows * columns).map(want));
        }
        let padded = groups.div_ceil(8).next_multiple_of((128 / group).max(1)) * 8;
        let (zeros, scales) = (draw.words(rows * padded / 8), draw.scales(rows * padded));
        let tensors = [
            ("a.qweight", tensor([rows, columns / 8], &weight)),
            ("a.qzeros", tensor([rows, padded / 8], &zeros)),
            ("a.scales", tensor([rows, padded], &scales)),
        ];
        let nibble = |words: &[i32], at: usize| words[at / 8] >> (at % 8 * 4) & 15;
        let want = |index: usize| {
            let (row, group) = (index / columns, index % columns / group);
            let zero = nibble(&zeros, row * padded + group);
            (nibble(&weight, index) - zero) as f32 * scales[row * padded + group]
        };
        check(&format!("gemv, {rows}x{columns}"), &values(&config("gemv"), &tensors, 2), (0..rows * columns).map(want));
    }
}

/// An integer of 4 bits with a sign.
fn signed(code: i32) -> i32 {
    if code > 7 { code - 16 } else { code }
}

#[test]
fn quark_of_both_orders() {
    const ORDER: [usize; 8] = [0, 4, 1, 5, 2, 6, 3, 7];
    for (round, (rows, columns, group)) in
        [(24usize, 5120, 128), (12, 18432, 64), (3, 100_000, 32), (201, 96, 96)].into_iter().enumerate()
    {
        let mut draw = Draw(round as u64 * 55 + 7);
        let (groups, across) = (columns / group, rows.div_ceil(8));
        for (data_type, packing) in [("int4", "reorder"), ("int4", "order"), ("uint4", "reorder"), ("uint4", "order")] {
            let config = format!(
                r#"{{"quantization_config":{{"quant_method":"quark","export":{{"pack_method":"{packing}"}},
                "global_quant_config":{{"weight":{{"dtype":"{data_type}","qscheme":"per_group","group_size":{group}}}}}}}}}"#
            );
            let (weight, zeros) = (draw.words(columns * across), draw.words(groups * across));
            let scales = draw.scales(groups * rows);
            let tensors = [
                ("a.weight", tensor([columns, across], &weight)),
                ("a.weight_zero_point", tensor([groups, across], &zeros)),
                ("a.weight_scale", tensor([groups, rows], &scales)),
            ];
            // Without zero points, signed integers have none.
            let count = if data_type == "int4" && round % 2 == 1 { 1 } else { 3 };
            let tensors: Vec<_> = match count {
                1 => tensors.into_iter().filter(|(name, _)| *name != "a.weight_zero_point").collect(),
                _ => tensors.into(),
            };
            let nibble = |words: &[i32], line: usize, row: usize| {
                let place = if packing == "order" { row % 8 } else { ORDER[row % 8] };
                let code = words[line * across + row / 8] >> (4 * place) & 15;
                if data_type == "int4" { signed(code) } else { code }
            };
            let want = |index: usize| {
                let (row, column) = (index / columns, index % columns);
                let zero = if count == 1 { 0 } else { nibble(&zeros, column / group, row) };
                (nibble(&weight, column, row) - zero) as f32 * scales[column / group * rows + row]
            };
            let what = format!("{data_type}, {packing}, {rows}x{columns}");
            check(&what, &values(&config, &tensors, round + 1), (0..rows * columns).map(want));
        }
    }
}

/// Without zero points, integers have none: but not where the configuration says that they are not symmetric.
#[test]
fn quark_without_zero_points_that_it_claims() {
    let mut draw = Draw(3);
    let codes: Vec<i8> = (0..8 * 64).map(|_| draw.bits() as i8).collect();
    let int4 =
        [("a.weight", tensor([64, 1], &draw.words(64))), ("a.weight_scale", tensor([2, 8], &draw.scales(2 * 8)))];
    let scales = Tensor::from_slice(vec![8], &draw.scales(8)).expect("a tensor");
    let int8 = [("a.weight", tensor([8, 64], &codes)), ("a.weight_scale", scales)];
    for (tensors, weight) in [
        (int4, r#""dtype":"int4","qscheme":"per_group","group_size":32"#),
        (int8, r#""dtype":"int8","qscheme":"per_channel","ch_axis":0"#),
    ] {
        let read = |symmetric: &str| {
            let config = format!(
                r#"{{"quantization_config":{{"quant_method":"quark",
                "global_quant_config":{{"weight":{{"symmetric":{symmetric},{weight}}}}}}}}}"#
            );
            try_values(&config, &tensors, 1)
        };
        read("true").expect("a symmetric weight");
        read("null").expect("a weight of which it is not said");
        let error = read("false").expect_err("no zero points");
        assert!(error.contains("`symmetric` is false") && error.contains("`a.weight_zero_point`"), "{error}");
    }
}

#[test]
fn modelopt_of_four_bits() {
    for (rows, columns, group) in [(24, 5120, 128), (4, 300_000, 32), (34, 100, 100), (2, 18432, 64)] {
        let mut draw = Draw(columns as u64 + 3);
        let codes: Vec<u8> = (0..rows / 2 * columns).map(|_| draw.bits() as u8).collect();
        let scales = draw.scales(rows * columns / group);
        let tensors = [
            ("a.weight", tensor([rows / 2, columns], &codes)),
            ("a.weight_scale", tensor([rows, columns / group], &scales)),
        ];
        let config = r#"{"quantization_config":{"quant_method":"modelopt","quant_algo":"W4A16_AWQ"}}"#;
        let want = |index: usize| {
            let (row, column) = (index / columns, index % columns);
            let byte = i32::from(codes[row / 2 * columns + column]);
            signed(byte >> (4 * (row % 2)) & 15) as f32 * scales[(row * columns + column) / group]
        };
        for threads in [1, 3] {
            let what = format!("{rows}x{columns}, {threads} threads");
            check(&what, &values(config, &tensors, threads), (0..rows * columns).map(want));
        }
    }
}
