//! Are quantized weights those of a naive implementation (`testkit::naive`)? Random shapes: 1 to 130 rows, columns up
//! to 32,768 and around the sizes of every part, block and vector; every layout, format, granularity, and several
//! counts of threads. The naive one knows no parts, vectors or threads.
//!
//! `ONNX_CAST_ROUNDS=1000 cargo test --release -p onnx-cast-file --test suite quantized_naive` draws more cases.

use crate::common::replacing::quantize_file;
use onnx_cast::{DataType, Tensor};
use onnx_cast_file::{
    Format, Granularity, InputFile, Layout, QuantizeRequest, QuantizedFormat, RunOptions, read_tensors_from,
    safetensors,
};
use std::collections::HashMap;
use std::fs;
use testkit::Ty;
use testkit::block_scale::{Recipe, ScaleRule};
use testkit::naive::{Blocks, Mx, Nvfp4, Quantizer, greatest};
use testkit::packing::pack;

/// Numbers of one sequence.
struct Draw(u64);

impl Draw {
    fn bits(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 32) as u32
    }

    fn below(&mut self, end: usize) -> usize {
        self.bits() as usize % end
    }

    fn one_of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }

    /// Columns, in steps of a block.
    fn columns(&mut self, step: usize) -> usize {
        const AROUND: &[usize] = &[1, 16, 64, 256, 1024, 2048, 4096, 5120, 8192, 11008, 14336, 16384, 18432, 32768];
        let near = match self.below(3) {
            0 => 1 + self.below(32768),
            _ => (self.one_of(AROUND) + self.below(5) * step).saturating_sub(2 * step),
        };
        (near / step).clamp(1, 32768 / step) * step
    }

    /// Rows of different magnitudes, some of zeros; now and then NaN and infinity.
    fn weights(&mut self, rows: usize, columns: usize) -> Vec<f32> {
        let is_special = self.below(4) == 0;
        let mut values = Vec::with_capacity(rows * columns);
        for _ in 0..rows {
            let power = 2f32.powi(self.below(24) as i32 - 16);
            let is_zero = self.below(16) == 0;
            values.extend((0..columns).map(|_| {
                let value = (self.bits() as f32 / 2f32.powi(31) - 1.0) * power;
                if is_zero { value * 0.0 } else { value }
            }));
        }
        if is_special {
            for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e30] {
                let place = self.below(values.len());
                values[place] = value;
            }
        }
        values
    }
}

const BLOCK_128: Granularity = Granularity::Block([1, 128]);
const TILE: Granularity = Granularity::Block([128, 128]);

/// Layouts with their formats and what has a scale, and the sizes that columns are multiples of.
const CASES: &[(Layout, &str, Option<Granularity>, usize)] = &[
    (Layout::Plain, "mxfp8", None, 32),
    (Layout::Plain, "mxfp8e5m2", None, 32),
    (Layout::Plain, "mxfp4", None, 32),
    (Layout::Plain, "mxint8", None, 32),
    (Layout::Plain, "nvfp4", None, 16),
    (Layout::Plain, "int8", Some(Granularity::Row), 1),
    (Layout::Plain, "int8", Some(Granularity::Tensor), 1),
    (Layout::Plain, "int8", Some(Granularity::Block([1, 48])), 48),
    (Layout::Plain, "float8e4m3fn", Some(Granularity::Row), 1),
    (Layout::Plain, "float8e5m2", Some(BLOCK_128), 128),
    (Layout::CompressedTensors, "nvfp4", None, 16),
    (Layout::CompressedTensors, "mxfp4", None, 32),
    (Layout::CompressedTensors, "float8e4m3fn", Some(Granularity::Row), 1),
    (Layout::CompressedTensors, "float8e4m3fn", Some(Granularity::Tensor), 1),
    (Layout::CompressedTensors, "float8e4m3fn", Some(TILE), 1),
    (Layout::CompressedTensors, "int8", Some(Granularity::Row), 4),
    (Layout::CompressedTensors, "int8", Some(BLOCK_128), 128),
    (Layout::CompressedTensors, "int4", Some(Granularity::Row), 8),
    (Layout::CompressedTensors, "int4", Some(Granularity::Tensor), 8),
    (Layout::CompressedTensors, "int4", Some(Granularity::Block([1, 32])), 32),
    (Layout::DeepSeek, "float8e4m3fn", Some(TILE), 1),
    (Layout::DeepSeek, "float8e4m3fn", Some(Granularity::Block([48, 80])), 1),
    (Layout::ModelOpt, "nvfp4", None, 16),
    (Layout::ModelOpt, "mxfp8", None, 32),
    (Layout::Quark, "float8e4m3fn", Some(Granularity::Tensor), 1),
    (Layout::ModelOpt, "float8e4m3fn", Some(Granularity::Row), 1),
    (Layout::Fbgemm, "float8e4m3fn", None, 1),
    (Layout::Quark, "mxfp4", None, 32),
    (Layout::ComfyUi, "float8e4m3fn", None, 1),
    (Layout::ComfyUi, "int8", Some(Granularity::Row), 1),
    (Layout::ComfyUi, "int8", Some(Granularity::Tensor), 1),
    (Layout::ComfyUi, "nvfp4", None, 16),
    (Layout::ComfyUi, "mxfp8", None, 32),
];

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// The tensors of a weight of floats by their names, one element after another.
fn naively(
    layout: Layout,
    to: QuantizedFormat,
    granularity: Granularity,
    x: &[f32],
    [rows, columns]: [usize; 2],
) -> Vec<(&'static str, Vec<u8>)> {
    let is_ct = layout == Layout::CompressedTensors;
    let element = match to {
        QuantizedFormat::Block(format) => format.element(),
        QuantizedFormat::Elements(element) => element,
        other => panic!("{other}"),
    };
    let ty = Ty::from_code(element.onnx()).expect("a type of both");
    let packed = |elements: &[u64]| pack(ty, elements);
    if let QuantizedFormat::Block(format) = to {
        let (mut elements, mut scales) = (Vec::new(), Vec::new());
        let name = if is_ct && element.is_packed() { "m.weight_packed" } else { "m.weight" };
        if format.block() == 32 {
            let mx = Mx::new(ty, ScaleRule::Floor);
            scales.extend(x.chunks(32).map(|block| mx.block(block, &mut elements) as u8));
            if layout == Layout::ComfyUi {
                scales = in_tiles(&scales, [rows, columns / 32]);
            }
            return vec![(name, packed(&elements)), ("m.weight_scale", scales)];
        }
        let amax = x.iter().filter(|x| x.is_finite()).fold(0f32, |amax, x| amax.max(x.abs()));
        let recipe = if is_ct { Recipe::CompressedTensors } else { Recipe::ModelOpt };
        let nv = Nvfp4::new(amax, recipe, Ty::Float);
        scales.extend(x.chunks(16).map(|block| nv.block(block, &mut elements) as u8));
        if layout == Layout::ComfyUi {
            scales = in_tiles(&scales, [rows, columns / 16]);
            // The upper half of a byte holds the first of two elements.
            elements.chunks_mut(2).for_each(<[u64]>::reverse);
        }
        let global = if is_ct { "m.weight_global_scale" } else { "m.weight_scale_2" };
        return vec![(name, packed(&elements)), ("m.weight_scale", scales), (global, floats(&[nv.global]))];
    }
    let block = match granularity {
        Granularity::Tensor => [rows, columns],
        Granularity::Row => [1, columns],
        Granularity::Block(block) => block,
        other => panic!("{other}"),
    };
    let blocks = Blocks { shape: vec![rows, columns], block: block.to_vec() };
    let (places, is_int) = (blocks.places(), matches!(element, DataType::Int8 | DataType::Int4));
    let most = match element {
        DataType::Float8E4M3FN => 448.0,
        DataType::Float8E5M2 => 57344.0,
        DataType::Int8 => 127.0,
        _ => 7.0,
    };
    let most = if is_ct && is_int { most + 0.5 } else { most };
    let zero = if is_ct { f32::EPSILON } else { 1.0 };
    let scale = |amax: f32| if amax / most == 0.0 { zero } else { amax / most };
    let scales: Vec<f32> = greatest(x, &places, blocks.count()).into_iter().map(scale).collect();
    let quantizer = Quantizer::new(ty, true);
    let code = |(x, place): (&f32, &u32)| quantizer.code(*x, scales[*place as usize], None);
    let mut elements: Vec<u64> = x.iter().zip(&places).map(code).collect();
    let mut name = "m.weight";
    if is_ct && is_int {
        // In words, with half the range added.
        elements.iter_mut().for_each(|code| *code ^= if element == DataType::Int4 { 8 } else { 0x80 });
        name = "m.weight_packed";
    }
    let scale_name = match layout {
        Layout::DeepSeek => "m.weight_scale_inv",
        Layout::ComfyUi if element == DataType::Float8E4M3FN => "m.scale_weight",
        _ => "m.weight_scale",
    };
    vec![(name, packed(&elements)), (scale_name, floats(&scales))]
}

/// Reorders scales into cuBLAS's order: tiles of 128x4, padded with zeros.
fn in_tiles(scales: &[u8], [rows, columns]: [usize; 2]) -> Vec<u8> {
    let across = columns.div_ceil(4);
    let mut tiles = vec![0; 512 * rows.div_ceil(128) * across];
    for (at, scale) in scales.iter().enumerate() {
        let (row, column) = (at / columns, at % columns);
        let tile = row / 128 * across + column / 4;
        tiles[512 * tile + 16 * (row % 32) + 4 * (row % 128 / 32) + column % 4] = *scale;
    }
    tiles
}

#[test]
fn quantized_weights_are_those_of_a_naive_implementation() {
    let more = std::env::var("ONNX_CAST_ROUNDS").ok().and_then(|rounds| rounds.parse().ok());
    let folder = tempfile::tempdir().expect("a folder");
    let [input, output] = ["in.safetensors", "out.safetensors"].map(|name| folder.path().join(name));
    for round in 0..more.unwrap_or(2 * CASES.len()) {
        let (layout, name, granularity, step) = CASES[round % CASES.len()];
        let to: QuantizedFormat = name.parse().expect("a format");
        let mut draw = Draw((round as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let mut shape = [1 + draw.below(130), draw.columns(step)];
        if layout == Layout::ComfyUi {
            // Use whole blocks of rows, because ComfyUI would pad other matrices.
            shape[0] = shape[0].next_multiple_of(step);
        }
        let threads = draw.one_of(&[1, 2, 3, 8]);
        let what = format!("round {round}: {shape:?} to {name} in {layout:?} by {granularity:?}, {threads} threads");
        let x = draw.weights(shape[0], shape[1]);
        let tensor = Tensor::from_slice(shape.to_vec(), &x).expect("a tensor");
        // A tensor before it, so that its elements begin at an odd place.
        let other = Tensor::from_slice(vec![3], &[1u8, 2, 3]).expect("a tensor");
        let bytes = safetensors::write(None, &[("a.steps", other.view()), ("m.weight", tensor.view())]);
        fs::write(&input, bytes.expect("bytes")).expect("a file");
        let how =
            QuantizeRequest::new(to.by(granularity)).layout(Some(layout)).run(RunOptions::new().threads(Some(threads)));
        quantize_file(&input, &output, &how).unwrap_or_else(|error| panic!("{what}: {error}"));
        let file = InputFile::open(&output).expect("a file");
        let made = read_tensors_from(file, Format::Safetensors, None).expect("tensors");
        let made: HashMap<String, Tensor> = made.into_iter().map(|one| (one.name, one.tensor)).collect();
        let known = granularity.unwrap_or(match layout {
            Layout::ComfyUi => Granularity::Tensor,
            _ => Granularity::Row,
        });
        for (name, want) in naively(layout, to, known, &x, shape) {
            let got = made.get(name).and_then(Tensor::bytes).unwrap_or_else(|| panic!("{what}: no {name}"));
            assert_eq!(got.len(), want.len(), "{what}: {name}");
            let differ = got.iter().zip(&want).position(|(got, want)| got != want);
            assert_eq!(differ, None, "{what}: {name}, the first byte that differs");
        }
        assert_eq!(made["a.steps"].bytes(), other.bytes(), "{what}");
    }
}
