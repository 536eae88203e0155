//! Checkpoints of ComfyUI, bitsandbytes and MLX: values beside a naive implementation at sizes that the stored
//! checkpoints do not have, and files that contradict themselves, each of which is refused by an error that names what
//! is wrong.

use crate::common::checkpoint;
use crate::common::replacing::{dequantize_file, quantize_file, transcode_file};

use checkpoint::{Checkpoint, Tensor, codes, floats, to};
use onnx_cast::{Cast, CastOptions, DataType, TensorView};
use onnx_cast_file::{
    Format, InputFile, Layout, QuantizeRequest, RunOptions, TranscodeRequest, WeightFormat, read_tensors_from,
};
use std::collections::BTreeMap;
use std::fs;

/// Bytes that look random.
fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..len).map(next).collect()
}

/// Floats from -1 to 1, most of them with many bits.
fn numbers(len: usize, seed: u64) -> Vec<f32> {
    let words = noise(4 * len, seed);
    words
        .as_chunks()
        .0
        .iter()
        .map(|word| (f64::from(i32::from_le_bytes(*word)) / f64::from(1 << 30) / 2.0) as f32)
        .collect()
}

fn tensor(name: &'static str, data_type: &'static str, shape: &[usize], bytes: Vec<u8>) -> Tensor {
    Tensor(name, data_type, shape.to_vec(), bytes)
}

fn text(name: &'static str, text: &str) -> Tensor {
    tensor(name, "U8", &[text.len()], text.as_bytes().to_vec())
}

/// The bytes of floats in a type.
fn cast(values: &[f32], data_type: DataType) -> Vec<u8> {
    let shape = [values.len()];
    let source = TensorView::from_slice(&shape, values).expect("a tensor");
    let cast = Cast::new(data_type, &CastOptions::new()).expect("a cast").run(&source).expect("casts");
    cast.bytes().expect("numbers").to_vec()
}

/// Floats rounded to a type.
fn rounded(values: &[f32], data_type: DataType) -> Vec<f32> {
    let (bytes, shape) = (cast(values, data_type), [values.len()]);
    let source = TensorView::new(data_type, &shape, &bytes).expect("a tensor");
    let back = Cast::new(DataType::Float, &CastOptions::new()).expect("a cast").run(&source).expect("casts");
    back.bytes().expect("numbers").as_chunks().0.iter().map(|word| f32::from_le_bytes(*word)).collect()
}

const TYPES: [(DataType, &str, &str); 3] = [
    (DataType::Float, "F32", "float32"),
    (DataType::Float16, "F16", "float16"),
    (DataType::BFloat16, "BF16", "bfloat16"),
];

/// Asserts that a checkpoint's only weight has these values, in every type.
#[track_caller]
fn assert_values(checkpoint: &Checkpoint, want: &[f32], what: &str) {
    for (data_type, ..) in TYPES {
        let found = checkpoint.gives(&to(data_type));
        let (got, want) = (found[0].tensor.bytes().expect("numbers"), cast(want, data_type));
        let width = data_type.byte_len(1).expect("a width");
        let first = got.chunks(width).zip(want.chunks(width)).position(|(got, want)| got != want);
        assert!(got.len() == want.len() && first.is_none(), "{what} to {data_type}: value {first:?} differs");
        fs::remove_dir_all(checkpoint.output()).expect("removed");
    }
}

const NF4: [f32; 16] = [
    -1.0,
    -0.696_192_8,
    -0.525_073_05,
    -0.394_917_5,
    -0.284_441_38,
    -0.184_773_43,
    -0.091_050_036,
    0.0,
    0.079_580_3,
    0.160_930_2,
    0.246_112_3,
    0.337_915_24,
    0.440_709_83,
    0.562_617,
    0.722_956_84,
    1.0,
];

fn fp4() -> [f32; 16] {
    [0.0, 0.0625, 8.0, 12.0, 4.0, 6.0, 2.0, 3.0, -0.0, -0.0625, -8.0, -12.0, -4.0, -6.0, -2.0, -3.0]
        .map(|x: f32| x / 12.0)
}

/// A weight of bitsandbytes.
fn bnb(kind: &str, data_type: &str, shape: &[usize], block: usize, seed: u64) -> [Tensor; 4] {
    let len: usize = shape.iter().product();
    let table = if kind == "nf4" { NF4 } else { fp4() };
    let name =
        if kind == "nf4" { "a.weight.quant_state.bitsandbytes__nf4" } else { "a.weight.quant_state.bitsandbytes__fp4" };
    let state = format!(r#"{{"quant_type":"{kind}","blocksize":{block},"dtype":"{data_type}","shape":{shape:?}}}"#);
    [
        tensor("a.weight", "U8", &[len.div_ceil(2), 1], noise(len.div_ceil(2), seed)),
        floats("a.weight.absmax", &[len.div_ceil(block)], &numbers(len.div_ceil(block), seed + 1)),
        floats("a.weight.quant_map", &[16], &table),
        text(name, &state),
    ]
}

const BNB: &str = r#"{"quantization_config":{"quant_method":"bitsandbytes"}}"#;

#[test]
fn tables_of_bitsandbytes() {
    for (shape, block) in
        [(&[3, 7][..], 64), (&[1], 32), (&[33, 65], 32), (&[37, 18_433], 128), (&[0, 5], 64), (&[7, 5120], 4096)]
    {
        for (owner, _, named) in TYPES {
            for kind in ["nf4", "fp4"] {
                let tensors = bnb(kind, named, shape, block, 7 * block as u64);
                let table = if kind == "nf4" { NF4 } else { fp4() };
                let scales = numbers(tensors[1].2[0], 7 * block as u64 + 1);
                let len = shape.iter().product();
                let value = |at: usize| {
                    let byte = tensors[0].3[at / 2];
                    table[usize::from(if at.is_multiple_of(2) { byte >> 4 } else { byte & 15 })] * scales[at / block]
                };
                let want = rounded(&(0..len).map(value).collect::<Vec<_>>(), owner);
                assert_values(&Checkpoint::new(BNB, &tensors), &want, &format!("{kind} {shape:?} of {named}"));
            }
        }
    }
}

#[test]
fn nested_scales_of_bitsandbytes() {
    let (len, block, nested) = (5120 * 130, 64, 256);
    let blocks = len / block;
    let (codes, map, outer) = (noise(blocks, 3), numbers(256, 4), numbers(blocks.div_ceil(nested), 5));
    let [weight, _, table, _] = bnb("nf4", "float16", &[130, 5120], block, 9);
    let state = format!(
        r#"{{"blocksize":64,"dtype":"float16","shape":[130,5120],"nested_blocksize":{nested},"nested_dtype":"float32",
        "nested_offset":0.03125}}"#
    );
    let value = |at: usize| {
        let byte = weight.3[at / 2];
        let scale = map[usize::from(codes[at / block])] * outer[at / block / nested] + 0.03125;
        NF4[usize::from(if at.is_multiple_of(2) { byte >> 4 } else { byte & 15 })] * scale
    };
    let want = rounded(&(0..len).map(value).collect::<Vec<_>>(), DataType::Float16);
    let tensors = [
        weight,
        tensor("a.weight.absmax", "U8", &[blocks], codes),
        table,
        text("a.weight.quant_state.bitsandbytes__nf4", &state),
        floats("a.weight.nested_absmax", &[outer.len()], &outer),
        floats("a.weight.nested_quant_map", &[256], &map),
    ];
    assert_values(&Checkpoint::new(BNB, &tensors), &want, "nested");
}

#[test]
fn integers_of_bitsandbytes() {
    for shape in [[3, 7], [1, 1], [41, 11_008], [5, 0]] {
        let len = shape[0] * shape[1];
        let (codes, scales) = (noise(len, 21), numbers(shape[0], 22));
        let value = |at: usize| f32::from(codes[at] as i8) * scales[at / shape[1]] * 7.874_016e-3;
        let want: Vec<f32> = (0..len).map(value).collect();
        let tensors = [
            tensor("a.weight", "I8", &shape, codes.clone()),
            floats("a.SCB", &[shape[0]], &scales),
            tensor("a.weight_format", "U8", &[], vec![0]),
        ];
        assert_values(&Checkpoint::new(BNB, &tensors), &want, &format!("{shape:?}"));
        assert_values(&Checkpoint::new("", &tensors[..2]), &want, &format!("{shape:?} without a configuration"));
    }
}

/// A configuration of MLX.
fn mlx(bits: usize, group: usize, mode: &str) -> String {
    format!(r#"{{"quantization":{{"group_size":{group},"bits":{bits},"mode":"{mode}"}}}}"#)
}

#[test]
fn integers_of_mlx() {
    for (bits, group, shape) in [
        (1, 32, &[2, 64][..]),
        (2, 64, &[3, 5120]),
        (3, 32, &[60, 5120]),
        (4, 64, &[2, 9, 14_336]),
        (5, 128, &[5, 11_008]),
        (6, 32, &[53, 5120]),
        (8, 64, &[4, 18_432]),
    ] {
        for (owner, named, _) in TYPES {
            let len: usize = shape.iter().product();
            let words = noise(len * bits / 8, bits as u64);
            let (scales, biases) = (numbers(len / group, 31), numbers(len / group, 32));
            let (scales, biases) = (rounded(&scales, owner), rounded(&biases, owner));
            let code = |at: usize| {
                let bit = |bit: usize| usize::from(words[bit / 8] >> (bit % 8) & 1);
                (0..bits).map(|place| bit(at * bits + place) << place).sum::<usize>() as f32
            };
            let products: Vec<f32> = (0..len).map(|at| code(at) * scales[at / group]).collect();
            let products = rounded(&products, owner);
            let sums: Vec<f32> =
                products.iter().enumerate().map(|(at, product)| product + biases[at / group]).collect();
            let want = rounded(&sums, owner);
            let (outer, columns) = (&shape[..shape.len() - 1], shape[shape.len() - 1]);
            let grid = [outer, &[columns / group]].concat();
            let tensors = [
                tensor("a.weight", "U32", &[outer, &[columns * bits / 32]].concat(), words),
                tensor("a.scales", named, &grid, cast(&scales, owner)),
                tensor("a.biases", named, &grid, cast(&biases, owner)),
            ];
            assert_values(
                &Checkpoint::new(&mlx(bits, group, "affine"), &tensors),
                &want,
                &format!("{bits} bits of {owner}"),
            );
        }
    }
}

/// The place of a scale in cuBLAS's order.
fn swizzled(row: usize, column: usize, across: usize) -> usize {
    let tile = row / 128 * across.div_ceil(4) + column / 4;
    512 * tile + 16 * (row % 32) + 4 * (row % 128 / 32) + column % 4
}

const TELLS_NVFP4: &str = r#"{"format": "nvfp4"}"#;
const TELLS_MXFP8: &str = r#"{"format": "mxfp8"}"#;

#[test]
fn scales_in_the_order_of_cublas_are_those_in_order() {
    for [rows, columns] in [[300, 5120], [16, 18_432], [129, 80], [1, 16]] {
        let across = columns / 16;
        // No NaN, and no number that looks inverted.
        let scales: Vec<u8> = noise(rows * across, 41).iter().map(|code| code % 0x7f).collect();
        let mut moved = vec![0; rows.next_multiple_of(128) * across.next_multiple_of(4)];
        scales.iter().enumerate().for_each(|(at, scale)| moved[swizzled(at / across, at % across, across)] = *scale);
        let elements = noise(rows * columns / 2, 42);
        let parts = |elements: Vec<u8>, scales: Vec<u8>, grid: [usize; 2]| {
            [
                tensor("a.weight", "U8", &[rows, columns / 2], elements),
                tensor("a.weight_scale", "F8_E4M3", &grid, scales),
                floats("a.weight_scale_2", &[], &[1.2e-4]),
            ]
        };
        let turned = elements.iter().map(|byte| byte.rotate_left(4)).collect();
        let plain = Checkpoint::new("", &parts(turned, scales, [rows, across]));
        let want = plain.gives(&to(DataType::Float).layout(Some(Layout::ModelOpt)));
        let grid = [rows.next_multiple_of(128), across.next_multiple_of(4)];
        let [elements, moved, global] = parts(elements, moved, grid);
        let comfy = Checkpoint::new("", &[elements, moved, global, text("a.comfy_quant", TELLS_NVFP4)]);
        for threads in [1, 3] {
            let mut request = to(DataType::Float);
            request.run.threads = Some(threads);
            let got = comfy.gives(&request);
            assert!(got.len() == 1 && got[0].tensor.bytes() == want[0].tensor.bytes(), "{rows}x{columns}");
            fs::remove_dir_all(comfy.output()).expect("removed");
        }
    }
}

/// A weight of ComfyUI in NVFP4.
fn comfy() -> [Tensor; 4] {
    [
        codes("a.weight", "U8", &[32, 32]),
        codes("a.weight_scale", "F8_E4M3", &[128, 4]),
        floats("a.weight_scale_2", &[], &[1e-4]),
        text("a.comfy_quant", TELLS_NVFP4),
    ]
}

/// A checkpoint with one tensor replaced or removed.
fn changed<const N: usize>(tensors: [Tensor; N], name: &str, other: Option<Tensor>) -> Vec<Tensor> {
    let mut tensors: Vec<Tensor> = tensors.into_iter().filter(|tensor| tensor.0 != name).collect();
    tensors.extend(other);
    tensors
}

#[test]
fn files_of_comfyui_that_contradict_themselves() {
    Checkpoint::new("", &comfy()).gives(&to(DataType::Float));
    let with = |name: &str, other| Checkpoint::new("", &changed(comfy(), name, Some(other)));
    let without = |name: &str| Checkpoint::new("", &changed(comfy(), name, None));
    for grid in [[32, 4], [128, 3], [256, 4]] {
        let grid_text = format!("{}x{}", grid[0], grid[1]);
        with("a.weight_scale", codes("a.weight_scale", "F8_E4M3", &grid)).refuses(&format!(
            "model.safetensors: tensor `a.weight_scale`: scales of shape {grid_text} for a weight of shape 32x64 \
             (want one \
             for each 16 columns in tiles of 128x4, 128x4)"
        ));
    }
    with("a.weight", codes("a.weight", "U8", &[32, 31])).refuses(
        "model.safetensors: tensor `a.weight_scale`: scales of shape 128x4 for a weight of shape 32x62 (want a matrix \
         of \
         whole blocks of 16 columns)",
    );
    with("a.weight", codes("a.weight", "U8", &[2, 32, 32])).refuses(
        "model.safetensors: tensor `a.weight_scale`: scales of shape 128x4 for a weight of shape 2x32x64 (want a \
         matrix of \
         whole blocks of 16 columns)",
    );
    without("a.weight_scale_2").refuses(
        "model.safetensors: tensor `a.weight`: the global scale of NVFP4 is missing (want `a.weight_scale_2`)",
    );
    let tells = |settings: &str| with("a.comfy_quant", text("a.comfy_quant", settings));
    tells("{").refuses(
        "model.safetensors: tensor `a.comfy_quant`: not settings in JSON: EOF while parsing an object at line 1 \
         column 1",
    );
    tells("{}")
        .refuses("model.safetensors: tensor `a.weight`: the format of the layer is missing (want `a.comfy_quant`)");
    for (settings, what) in [
        (r#"{"format":"asym_w4a8_int8"}"#, "the format asym_w4a8_int8"),
        (r#"{"format":"convrot_w4a4"}"#, "the format convrot_w4a4"),
        (r#"{"format":"awq_w4a16"}"#, "the format awq_w4a16"),
    ] {
        tells(settings).refuses(&format!(
            "model.safetensors: tensor `a.comfy_quant`: {what} (want float8_e4m3fn, float8_e5m2, \
             nvfp4, mxfp8 or int8_tensorwise)"
        ));
    }
    tells(TELLS_MXFP8).refuses(
        "model.safetensors: tensor `a.weight`: the configuration claims MXFP8, and the tensor holds elements of \
         uint8 with scales of float8e4m3fn",
    );
    // The two types of float8 are one format, but the same bytes have other values in the other type.
    for (told, stored) in [("float8_e4m3fn", "F8_E5M2"), ("float8_e5m2", "F8_E4M3")] {
        let [named, held] = ["float8e4m3fn", "float8e5m2"];
        let [named, held] = if stored == "F8_E5M2" { [named, held] } else { [held, named] };
        let float8 = |stored| {
            let settings = text("a.comfy_quant", &format!(r#"{{"format":"{told}"}}"#));
            let tensors = [codes("a.weight", stored, &[2, 16]), floats("a.weight_scale", &[], &[0.5]), settings];
            Checkpoint::new("", &tensors)
        };
        float8(stored).refuses(&format!(
            "model.safetensors: tensor `a.weight`: the settings of its layer name {named}, and the tensor holds {held}"
        ));
        float8(if stored == "F8_E5M2" { "F8_E4M3" } else { "F8_E5M2" }).gives(&to(DataType::Float));
        float8(stored).gives(&to(DataType::Float).layout(Some(Layout::ComfyUi)));
    }
    with("a.comfy_quant", codes("a.comfy_quant", "U8", &[70_000])).refuses(
        "model.safetensors: tensor `a.comfy_quant`: not settings in JSON: 70000 of uint8 (want up to 65536 bytes)",
    );
}

#[test]
fn transcode_says_why_no_other_layout_has_a_weight() {
    let fp8 = r#"{"quantization_config":{"quant_method":"modelopt","quant_algo":"FP8"}}"#;
    let bitnet = r#"{"quantization_config":{"quant_method":"bitnet"}}"#;
    let no_other = ", and no other layout has such a weight";
    for (config, tensors, reason, rest) in [
        ("", comfy().to_vec(), "its scales are in tiles of 128x4", no_other),
        (
            fp8,
            vec![codes("a.weight", "F8_E4M3", &[16]), floats("a.weight_scale", &[], &[1.0])],
            "it has one axis",
            no_other,
        ),
        (
            bitnet,
            vec![codes("a.weight", "U8", &[1, 4]), floats("a.weight_scale", &[1], &[1.0])],
            "the layout bitnet can only be read",
            "",
        ),
    ] {
        let checkpoint = Checkpoint::new(config, &tensors);
        let request = TranscodeRequest::new(Layout::CompressedTensors);
        let refused = transcode_file(checkpoint.input(), checkpoint.output(), &request).expect_err(reason);
        assert_eq!(
            testkit::fixtures::text_without(&checkpoint.input(), refused),
            format!(
                "model.safetensors: tensor `a.weight`: {reason}{rest} (dequantize and quantize go from any layout to \
                 any, with a loss)"
            )
        );
    }
}

#[test]
fn nvfp4_of_comfyui_is_read_as_no_other_layout() {
    let config = r#"{"quantization_config":{"quant_method":"modelopt","quant_algo":"NVFP4"}}"#;
    let want = "model.safetensors: its weights are in the layout comfyui, by their files, but the configuration or \
                `layout` has modelopt: the scales would be read in another order (want the layout comfyui)";
    Checkpoint::new(config, &comfy()).refuses(want);
    let request = to(DataType::Float).layout(Some(Layout::ModelOpt));
    Checkpoint::new("", &comfy()).refuses_with(&request, want);
    let request = to(DataType::Float).layout(Some(Layout::ComfyUi));
    Checkpoint::new(config, &comfy()).gives(&request);
}

#[test]
fn nan_scales_of_any_payload_give_nan() {
    for (owner, _, named) in TYPES {
        let mut tensors = bnb("nf4", named, &[1, 32], 32, 5);
        tensors[0].3.fill(0x01);
        tensors[1] = floats("a.weight.absmax", &[1], &[f32::from_bits(0xffff_ffff)]);
        let checkpoint = Checkpoint::new(BNB, &tensors);
        for (data_type, ..) in TYPES {
            let found = checkpoint.gives(&to(data_type).allow_nan(true));
            let want = cast(&[f32::NAN; 32], data_type);
            assert_eq!(found[0].tensor.bytes().expect("numbers"), want, "{owner} to {data_type}");
            fs::remove_dir_all(checkpoint.output()).expect("removed");
        }
    }
}

#[test]
fn states_of_bitsandbytes_that_lie() {
    let whole = || bnb("nf4", "float16", &[64, 40], 64, 51);
    Checkpoint::new(BNB, &whole()).gives(&to(DataType::Float));
    let with = |name: &str, other| Checkpoint::new(BNB, &changed(whole(), name, Some(other)));
    const STATE: &str = "a.weight.quant_state.bitsandbytes__nf4";
    let state = |settings: &str| with(STATE, text(STATE, settings));
    let place = "model.safetensors: tensor `a.weight.quant_state.bitsandbytes__nf4`:";
    let huge = format!("{{\"shape\":[{}]}}", "1,".repeat(40_000) + "1");
    for (settings, want) in [
        ("[1]", format!("{place} not settings in JSON: invalid type: sequence, expected a map at line 1 column 0")),
        ("{}", format!("{place} `shape` is missing (want the sizes of the weight)")),
        (
            r#"{"shape":[18446744073709551615,2]}"#,
            format!("{place} `shape` is [18446744073709551615,2] (want fewer elements)"),
        ),
        (r#"{"shape":[-1,2]}"#, format!("{place} `shape` is [-1,2] (want the sizes of the weight)")),
        (
            r#"{"shape":[64,80],"dtype":"float16","blocksize":64}"#,
            "model.safetensors: tensor `a.weight`: uint8 of shape 1280x1 (want 2560 bytes: 4 bits for each of 64x80)"
                .into(),
        ),
        (
            r#"{"shape":[64,40],"dtype":"int8","blocksize":64}"#,
            format!("{place} `dtype` is \"int8\" (want float32, float16 or bfloat16)"),
        ),
        (
            r#"{"shape":[64,40],"dtype":"float16","blocksize":48}"#,
            format!("{place} `blocksize` is 48 (want a power of two from 32 to 4096)"),
        ),
        (
            r#"{"shape":[64,40],"dtype":"float16","blocksize":0}"#,
            format!("{place} `blocksize` is 0 (want a power of two from 32 to 4096)"),
        ),
        (
            r#"{"shape":[64,40],"dtype":"float16","blocksize":32}"#,
            "model.safetensors: tensor `a.weight.absmax`: float of shape 40 (want float, one for each of 80 blocks of \
             32)"
            .into(),
        ),
        (&*huge, format!("{place} not settings in JSON: {} of uint8 (want up to 65536 bytes)", huge.len())),
    ] {
        state(settings).refuses(&want);
    }
    with("a.weight.quant_map", floats("a.weight.quant_map", &[16], &[0.5])).refuses(
        "model.safetensors: tensor `a.weight.quant_map`: float of shape 16 (want the table of bitsandbytes, which its \
         kernels have built in)",
    );
    with("a.weight.absmax", floats("a.weight.absmax", &[40], &[f32::NAN]))
        .refuses("model.safetensors: tensor `a.weight.absmax`: scale 0 is NaN (`allow_nan` gives NaN for its block)");
    let none = changed(whole(), STATE, None);
    Checkpoint::new(BNB, &none)
        .refuses(&format!("model.safetensors: tensor `a.weight`: the state of NF4 or FP4 is missing (want `{STATE}`)"));
    let nested = floats("a.weight.nested_absmax", &[1], &[1.0]);
    let tensors: Vec<Tensor> = whole().into_iter().chain([nested]).collect();
    Checkpoint::new(BNB, &tensors).refuses(
        "model.safetensors: tensor `a.weight.absmax`: float of shape 40 (want uint8, one for each of 40 blocks of 64)",
    );
    let ints = |format: u8| {
        [
            codes("a.weight", "I8", &[4, 8]),
            floats("a.SCB", &[4], &[1.0]),
            tensor("a.weight_format", "U8", &[], vec![format]),
        ]
    };
    Checkpoint::new(BNB, &ints(1)).refuses(
        "model.safetensors: tensor `a.weight_format`: uint8 of shape scalar (want 0: rows in order, and no tiles of a \
         GPU)",
    );
    let tensors = changed(ints(0), "a.SCB", Some(floats("a.SCB", &[3], &[1.0])));
    Checkpoint::new(BNB, &tensors)
        .refuses("model.safetensors: tensor `a.SCB`: float of shape 3 (want float, one for each of 4 rows)");
}

#[test]
fn weights_of_mlx_that_contradict_the_configuration() {
    let whole = || {
        [
            tensor("a.weight", "U32", &[4, 8], noise(128, 61)),
            floats("a.scales", &[4, 1], &[0.5]),
            floats("a.biases", &[4, 1], &[0.25]),
        ]
    };
    let good = mlx(4, 64, "affine");
    Checkpoint::new(&good, &whole()).gives(&to(DataType::Float));
    let with = |name: &str, other| Checkpoint::new(&good, &changed(whole(), name, other));
    with("a.biases", None)
        .refuses("model.safetensors: tensor `a.weight`: the bias of each group is missing (want `a.biases`)");
    with("a.biases", Some(floats("a.biases", &[1, 4], &[1.0])))
        .refuses("model.safetensors: tensor `a.biases`: float of shape 1x4 (want type and shape of the scales)");
    with("a.scales", Some(floats("a.scales", &[4, 2], &[1.0]))).refuses(
        "model.safetensors: tensor `a.scales`: float of shape 4x2 (want float, float16 or bfloat16 of shape 4x1, one \
         for \
         each group of 64)",
    );
    with("a.weight", Some(tensor("a.weight", "U32", &[4, 7], noise(112, 62)))).refuses(
        "model.safetensors: tensor `a.weight`: uint32 of shape 4x7 (want rows of words that hold groups of \
                  64 of 4 bits)",
    );
    with("a.scales", Some(floats("a.scales", &[4, 1], &[f32::NAN])))
        .refuses("model.safetensors: tensor `a.scales`: scale 0 is NaN (`allow_nan` gives NaN for its block)");
    for (config, what) in [
        (mlx(7, 64, "affine"), "the mode affine with 7 bits and groups of 64"),
        (mlx(4, 48, "affine"), "the mode affine with 4 bits and groups of 48"),
        (mlx(4, 64, "mxfp4"), "the mode mxfp4 with 4 bits and groups of 64"),
        (mlx(0, 0, "other"), "the mode other with 0 bits and groups of 0"),
    ] {
        Checkpoint::new(&config, &whole()).refuses(&format!(
            "model.safetensors: tensor `a.weight`: {what} (want affine with 1 to 6 or 8 bits and \
             groups of 32, 64 or 128, mxfp4, mxfp8 or nvfp4)"
        ));
    }
    // Biases of a mode that has none would be dropped in silence.
    Checkpoint::new(&mlx(4, 32, "mxfp4"), &changed(whole(), "a.scales", Some(codes("a.scales", "U8", &[4, 2]))))
        .refuses(
            "model.safetensors: tensor `a.biases`: float of shape 4x1 (want no biases, which only the mode affine has)",
        );
}

/// Elements and scales of a file of ComfyUI whose metadata is lost, and its values.
fn stripped(format: &str, [rows, columns]: [usize; 2]) -> (Vec<Tensor>, Vec<u32>) {
    let is_nvfp4 = format == "nvfp4";
    let across = columns / if is_nvfp4 { 16 } else { 32 };
    let width = if is_nvfp4 { columns / 2 } else { columns };
    let mut scales = noise(rows.next_multiple_of(128) * across.next_multiple_of(4), 7);
    scales.iter_mut().for_each(|code| *code = 0x30 + *code % 8);
    let elements: Vec<u8> = noise(rows * width, 8).iter().map(|code| code & 0x77).collect();
    let grid = [rows.next_multiple_of(128), across.next_multiple_of(4)];
    let (element, scale) = if is_nvfp4 { ("U8", "F8_E4M3") } else { ("F8_E4M3", "U8") };
    let mut tensors = vec![tensor("a.weight", element, &[rows, width], elements)];
    tensors.push(tensor("a.weight_scale", scale, &grid, scales));
    tensors.extend(is_nvfp4.then(|| floats("a.weight_scale_2", &[], &[1e-4])));
    let told = text("a.comfy_quant", &format!(r#"{{"format":"{format}"}}"#));
    let with: Vec<Tensor> = tensors.iter().map(|Tensor(a, b, c, d)| Tensor(a, b, c.clone(), d.clone())).collect();
    let with: Vec<Tensor> = with.into_iter().chain([told]).collect();
    let want = checkpoint::bits(&Checkpoint::new("", &with).gives(&to(DataType::Float))[0]);
    (tensors, want)
}

/// Checks the names, types and shapes of each format, and its metadata, against the code that reads them in ComfyUI
/// (`comfy/ops.py`, comfy_kitchen 0.2.40). The values must equal those of the plain layout.
#[test]
fn comfyui_files_name_the_format_of_each_layer() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let shapes: [(&str, &[usize]); 4] = [
        ("blocks.0.attn.qkv.weight", &[160, 96]),
        ("blocks.0.mlp.fc1.weight", &[32, 128]),
        ("blocks.0.mlp.fc2.weight", &[50, 64]),
        ("norm.weight", &[96]),
    ];
    let tensors = shapes.map(|(name, shape)| {
        let values = (0..shape.iter().product::<usize>()).map(|at| ((at * 37 % 101) as f32 - 50.0) / 64.0);
        (name, onnx_cast::Tensor::from_slice(shape.to_vec(), &values.collect::<Vec<f32>>()).expect("a tensor"))
    });
    let views = tensors.each_ref().map(|(name, tensor)| (*name, tensor.view()));
    fs::write(path("in.safetensors"), onnx_cast_file::safetensors::write(None, &views).expect("a file"))
        .expect("written");
    let quantize = |to: &str, rules: &[&str], layout: Layout| {
        let mut request = QuantizeRequest::new(to.parse::<WeightFormat>().expect("a format")).layout(Some(layout));
        request.selection.rules = rules.iter().map(|rule| rule.parse().expect("a rule")).collect();
        request.run.write.force = true;
        quantize_file(path("in.safetensors"), path("out.safetensors"), &request).expect("quantized");
        let bytes = fs::read(path("out.safetensors")).expect("read");
        let (_, metadata) = ::safetensors::SafeTensors::read_metadata(&bytes).expect("a header");
        let tensors = metadata.tensors();
        let shapes: BTreeMap<String, (String, Vec<usize>)> = tensors
            .iter()
            .map(|(name, info)| (name.clone(), (format!("{:?}", info.dtype), info.shape.clone())))
            .collect();
        let told = metadata.metadata().as_ref().and_then(|metadata| metadata.get("_quantization_metadata").cloned());
        (shapes, told.map(|told| serde_json::from_str::<serde_json::Value>(&told).expect("JSON")))
    };
    let values = || {
        let mut request = to(DataType::Float);
        request.run.write.force = true;
        dequantize_file(path("out.safetensors"), path("plain.safetensors"), &request).expect("dequantized");
        let file = InputFile::open(&path("plain.safetensors")).expect("a file");
        let read = read_tensors_from(file, Format::Safetensors, None).expect("tensors");
        read.into_iter().map(|one| (one.name.clone(), checkpoint::bits(&one))).collect::<BTreeMap<_, _>>()
    };
    let rules = ["*qkv*=nvfp4", "*fc1*=mxfp8", "*fc2*=int8/row"];
    quantize("nvfp4", &rules, Layout::Plain);
    let want = values();
    let (shapes, told) = quantize("nvfp4", &rules, Layout::ComfyUi);
    assert_eq!(values(), want);
    assert_eq!(
        told,
        Some(serde_json::json!({ "format_version": "1.0", "layers": {
            "blocks.0.attn.qkv": { "format": "nvfp4" },
            "blocks.0.mlp.fc1": { "format": "mxfp8" },
            "blocks.0.mlp.fc2": { "format": "int8_tensorwise" },
        }}))
    );
    let found = |name: &str| shapes.get(name).map(|(to, shape)| (to.as_str(), shape.as_slice()));
    assert_eq!(found("blocks.0.attn.qkv.weight"), Some(("U8", &[160, 48][..])));
    assert_eq!(found("blocks.0.attn.qkv.weight_scale"), Some(("F8_E4M3", &[256, 8][..])));
    assert_eq!(found("blocks.0.attn.qkv.weight_scale_2"), Some(("F32", &[][..])));
    assert_eq!(found("blocks.0.mlp.fc1.weight"), Some(("F8_E4M3", &[32, 128][..])));
    assert_eq!(found("blocks.0.mlp.fc1.weight_scale"), Some(("U8", &[128, 4][..])));
    assert_eq!(found("blocks.0.mlp.fc2.weight"), Some(("I8", &[50, 64][..])));
    assert_eq!(found("blocks.0.mlp.fc2.weight_scale"), Some(("F32", &[50, 1][..])));
    assert_eq!(shapes.len(), 8, "{shapes:?}");
    // Next to other formats, float8 is described in the metadata too. A file with only float8 has the marker that older
    // versions read.
    let (shapes, told) = quantize("float8e4m3fn", &["*fc2*=int8/tensor"], Layout::ComfyUi);
    assert_eq!(shapes["blocks.0.mlp.fc1.weight_scale"], ("F32".to_owned(), vec![]));
    assert_eq!(shapes["blocks.0.mlp.fc2.weight_scale"], ("F32".to_owned(), vec![]));
    assert_eq!(told.expect("metadata")["layers"]["blocks.0.mlp.fc1"]["format"], "float8_e4m3fn");
    assert!(!shapes.contains_key("scaled_fp8"));
    let (shapes, told) = quantize("float8e4m3fn", &[], Layout::ComfyUi);
    assert!(shapes.contains_key("scaled_fp8") && shapes.contains_key("blocks.0.mlp.fc1.scale_weight"));
    assert_eq!(told, None);
    // A matrix that ComfyUI would pad is kept. It is an error if a rule matches it.
    let mut request = QuantizeRequest::new("nvfp4".parse::<WeightFormat>().expect("a format"));
    request = request.layout(Some(Layout::ComfyUi)).run(RunOptions::new().dry_run(true));
    let done = quantize_file(path("in.safetensors"), path("dry.safetensors"), &request).expect("planned");
    let padded = "want rows in blocks of 16, which ComfyUI would pad".to_owned();
    assert_eq!(done.passed_over, [("blocks.0.mlp.fc2.weight".to_owned(), padded.clone())]);
    request.selection.rules.push("*fc2*=nvfp4".parse().expect("a rule"));
    let error = quantize_file(path("in.safetensors"), path("dry.safetensors"), &request).expect_err("refused");
    assert!(error.to_string().contains(&padded), "{error}");
    // `transcode` writes the same bytes.
    let transcoded = |activations| {
        fs::rename(path("out.safetensors"), path("source.safetensors")).expect("renamed");
        let mut request = TranscodeRequest::new(Layout::ComfyUi);
        request.activations = activations;
        request.run.write.force = true;
        transcode_file(path("source.safetensors"), path("out.safetensors"), &request)
    };
    let rules = [&rules[..], &["*fc1*=float8e4m3fn/tensor"]];
    for rules in [rules[0], &rules.concat()[..], &["*fc1*=mxfp8", "*fc2*=int8/tensor"]] {
        quantize("nvfp4", rules, Layout::ComfyUi);
        let (want, want_values) = (fs::read(path("out.safetensors")).expect("read"), values());
        quantize("nvfp4", rules, Layout::Plain);
        transcoded(None).expect("transcoded");
        assert_eq!(values(), want_values, "{rules:?}");
        assert!(fs::read(path("out.safetensors")).expect("read") == want, "{rules:?}");
    }
    quantize("nvfp4", &["*fc2*=keep"], Layout::ModelOpt);
    let want = values();
    transcoded(None).expect("transcoded");
    assert_eq!(values(), want);
    quantize("mxfp4", &["*fc2*=keep"], Layout::CompressedTensors);
    let want = values();
    let mut request = TranscodeRequest::new(Layout::ComfyUi);
    request.to = Some("nvfp4".parse().expect("a format"));
    transcode_file(path("out.safetensors"), path("t.safetensors"), &request).expect("transcoded");
    fs::rename(path("t.safetensors"), path("out.safetensors")).expect("renamed");
    assert_eq!(values(), want);
    quantize("int4", &["*fc2*=keep"], Layout::CompressedTensors);
    let error = transcoded(None).expect_err("refused").to_string();
    assert!(error.contains("comfyui does not support int8"), "{error}");
}

#[test]
fn scales_whose_order_nothing_tells_are_not_guessed() {
    for (format, own) in [("nvfp4", Layout::ModelOpt), ("mxfp8", Layout::CompressedTensors)] {
        let (tensors, want) = stripped(format, [128, 256]);
        let file = Checkpoint::new("", &tensors);
        file.refuses(&format!(
            "model.safetensors: tensor `a.weight_scale`: {0} has these scales in rows and comfyui in tiles of 128x4, \
             which gives other values, and nothing in the file names the layout (want the `layout` {0} or the \
             `layout` comfyui)",
            own.name()
        ));
        let read = |layout| checkpoint::bits(&file.gives(&to(DataType::Float).layout(Some(layout)))[0]);
        assert_eq!(read(Layout::ComfyUi), want, "{format}");
        fs::remove_dir_all(file.output()).expect("removed");
        assert_ne!(read(own), want, "{format}");
        // A number of rows that tiles fill up.
        let (tensors, want) = stripped(format, [96, 256]);
        let file = Checkpoint::new("", &tensors);
        file.refuses(
            "model.safetensors: tensor `a.weight_scale`: its shape fits tiles of 128x4, which comfyui has, and not \
             rows (want the `layout` comfyui)",
        );
        let values = file.gives(&to(DataType::Float).layout(Some(Layout::ComfyUi)));
        assert_eq!(checkpoint::bits(&values[0]), want, "{format}");
    }
    // One weight whose scales fit rows alone decides for the file.
    let (mut tensors, _) = stripped("nvfp4", [128, 256]);
    tensors.push(codes("b.weight", "U8", &[8, 16]));
    tensors.push(codes("b.weight_scale", "F8_E4M3", &[8, 2]));
    tensors.push(floats("b.weight_scale_2", &[], &[1e-4]));
    Checkpoint::new("", &tensors).gives(&to(DataType::Float));
}
