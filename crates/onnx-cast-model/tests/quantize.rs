//! Are the weights of models quantized along the axes by which operators read them, and by blocks of any size?

use onnx_cast::scaled::{BlockFormat, BlockQuantize, LinearScale};
use onnx_cast::{DataType, Tensor, TensorView};
use onnx_cast_file::__private::wire::{FieldValue, all_bytes, last};
use onnx_cast_file::{CastRequest, DequantizeRequest, ModelForm, QuantizeRequest, RunOptions, Summary, WeightFormat};
use onnx_cast_model::{cast, dequantize, quantize};
use std::collections::HashMap;
use std::fs;
use std::path::Path;
use testkit::proto::{Message, node, tensor};

const OUTPUT: &str = "out.onnx";

/// A model of these nodes with weights of floats.
fn written(folder: &Path, nodes: Vec<Message>, weights: &[(&str, &[usize], &[f32])]) {
    let declared = |name: &str| {
        let of_type = Message::new().message(1, Message::new().int(1, 1));
        Message::new().bytes(1, name).message(2, of_type)
    };
    let graph = nodes.into_iter().fold(Message::new().bytes(2, "g"), |graph, node| graph.message(1, node));
    let graph = weights.iter().fold(graph, |graph, (name, shape, values)| {
        let dims: Vec<i64> = shape.iter().map(|&size| size as i64).collect();
        let raw: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        graph.message(5, tensor(&dims, 1, &raw).bytes(8, *name))
    });
    let graph = graph.message(11, declared("x")).message(12, declared("y"));
    let bytes = Message::new().int(1, 10).message(7, graph).message(8, Message::new().int(2, 25)).into_bytes();
    fs::write(folder.join("in.onnx"), bytes).expect("a file");
}

fn quantized(folder: &Path, to: &str, change: impl Fn(QuantizeRequest) -> QuantizeRequest) -> Summary {
    let mut request = change(QuantizeRequest::new(to.parse::<WeightFormat>().expect(to)));
    request.run.write.force = true;
    quantize(folder.join("in.onnx"), folder.join(OUTPUT), &request).unwrap_or_else(|error| panic!("{to}: {error}"))
}

/// The initializers of a model by name: their dims, and their bytes.
fn initializers(path: &Path) -> HashMap<String, Vec<u8>> {
    let model = fs::read(path).expect("a model");
    let graph = last(&model, 7, FieldValue::bytes).expect("a message").expect("a graph");
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
    let tensor = |message: &[u8]| {
        let field = |number| last(message, number, FieldValue::bytes).expect("a message").unwrap_or_default();
        (text(field(8)), field(9).to_vec())
    };
    all_bytes(graph, 5).map(|message| tensor(message.expect("a message"))).collect()
}

/// The weight `w` of the quantized model, dequantized to float.
fn dequantized(folder: &Path) -> Vec<f32> {
    let back = folder.join("back.onnx");
    let mut float = DequantizeRequest::new(DataType::Float);
    float.run.write.force = true;
    dequantize(folder.join(OUTPUT), &back, &float).expect("a quantized model");
    initializers(&back)["w"].as_chunks().0.iter().map(|value| f32::from_le_bytes(*value)).collect()
}

/// Values whose magnitudes differ between rows and columns.
fn values(len: usize) -> Vec<f32> {
    let mut state = 11u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / 2f32.powi(23) - 1.0
    };
    (0..len).map(|_| next() * 2f32.powi((next() * 12.0) as i32)).collect()
}

/// The library's own results for a tensor: elements and scales.
fn found(to: DataType, shape: &[usize], x: &[f32], axis: i64, block: usize) -> [Vec<u8>; 2] {
    let scale = LinearScale::new(to).axis(axis).block_size(block);
    let scaled = scale.run(&TensorView::from_slice(shape, x).expect("a tensor")).expect("quantized");
    [scaled.y, scaled.scale].map(|tensor: Tensor| tensor.bytes().expect("numbers").to_vec())
}

/// Blocks down the rows, of matrices that are read at once, of those of which some rows are, and of those of which some
/// columns of some rows are; with short blocks at the ends; and of packed rows that end within a byte.
#[test]
fn blocks_of_any_shape_are_those_of_the_library() {
    let folder = tempfile::tempdir().expect("a folder");
    for (shape, to, block) in [
        ([64, 48], "int4", 32),
        ([70, 33], "int4", 32),
        ([70, 33], "int8", 16),
        ([1000, 640], "int4", 32),
        ([45, 8_256], "int4", 32),
        ([45, 8_257], "int4", 32),
        ([45, 8_257], "int8", 32),
        ([300, 1_100], "int8", 128),
        ([3, 100], "int4", 32),
    ] {
        let x = values(shape[0] * shape[1]);
        written(folder.path(), vec![node("MatMul", &["x", "w"], "y", vec![])], &[("w", &shape, &x)]);
        for threads in [1, 3] {
            let format = format!("{to}/{block}");
            quantized(folder.path(), &format, |request| request.run(RunOptions::new().threads(Some(threads))));
            let got = initializers(&folder.path().join(OUTPUT));
            let data_type = if to == "int4" { DataType::Int4 } else { DataType::Int8 };
            let [elements, scales] = found(data_type, &shape, &x, 0, block);
            let what = format!("{shape:?} to {to} in {block}, {threads} threads");
            assert!(got[&format!("w_{to}")] == elements, "{what}: elements");
            assert!(got["w_scale"] == scales, "{what}: scales");
        }
    }
}

/// A request that names the weight, as it must be where Gather reads it.
fn named(mut request: QuantizeRequest) -> QuantizeRequest {
    request.selection.include = vec!["w".parse().expect("a pattern")];
    request
}

/// A scale for each output, whichever axis that is.
#[test]
fn scales_are_those_of_the_outputs() {
    let folder = tempfile::tempdir().expect("a folder");
    let perm = || vec![Message::new().bytes(1, "perm").int(8, 1).int(8, 2).int(8, 0).int(20, 7)];
    let read = |operator: &str, inputs: &[&str]| vec![node(operator, inputs, "y", vec![])];
    let turned = vec![node("Transpose", &["w"], "t", perm()), node("MatMul", &["x", "t"], "y", vec![])];
    let axis_1 = attribute("axis", 1);
    let cases: Vec<(&str, Vec<Message>, Vec<usize>, i64)> = vec![
        ("right", read("MatMul", &["x", "w"]), vec![40, 24], 1),
        ("left", read("MatMul", &["w", "x"]), vec![24, 40], 0),
        ("matrices", read("MatMul", &["x", "w"]), vec![3, 40, 24], 2),
        ("behind a Transpose", turned, vec![24, 2, 40], 0),
        ("Gemm", read("Gemm", &["x", "w"]), vec![40, 24], 1),
        ("Conv", read("Conv", &["x", "w"]), vec![12, 40, 3, 3], 0),
        ("ConvTranspose", read("ConvTranspose", &["x", "w"]), vec![40, 12, 3, 3], 1),
        ("LSTM", read("LSTM", &["x", "w"]), vec![1, 24, 40], 1),
        ("Gather", read("Gather", &["w", "x"]), vec![24, 40], 0),
        ("Gather of columns", vec![node("Gather", &["w", "x"], "y", axis_1)], vec![40, 24], 1),
    ];
    for (what, nodes, shape, axis) in cases {
        let x = values(shape.iter().product());
        written(folder.path(), nodes, &[("w", &shape, &x)]);
        for to in ["int8", "float8e4m3fn"] {
            quantized(folder.path(), to, named);
            let data_type = if to == "int8" { DataType::Int8 } else { DataType::Float8E4M3FN };
            let got = initializers(&folder.path().join(OUTPUT));
            let [elements, scales] = found(data_type, &shape, &x, axis, 0);
            assert!(got["w_scale"] == scales, "{what}, {to}: scales");
            assert!(got[&format!("w_{to}")] == elements, "{what}, {to}: elements");
        }
        // MX and NVFP4 in blocks along the other axis: what is read back is within the formats' steps.
        for (to, limit) in [("mxfp8", 1.0 / 8.0), ("nvfp4", 0.2), ("mxfp4", 0.3)] {
            let done = quantized(folder.path(), to, named);
            assert_eq!(done.notes.len(), 1, "{to}: {:?}", done.notes);
            let most = x.iter().fold(0f32, |most, x| most.max(x.abs()));
            for (got, want) in dequantized(folder.path()).iter().zip(&x) {
                assert!((got - want).abs() <= limit * most, "{what}, {to}: {got}, not {want}");
            }
        }
    }
}

/// The scale of such values underflows to 0, and 0 / 0 would be NaN.
#[test]
fn values_too_small_for_a_scale_become_zeros() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut x = values(64 * 8);
    x.iter_mut().step_by(8).zip([1e-44, 0.0].into_iter().cycle()).for_each(|(x, tiny)| *x = tiny);
    written(folder.path(), vec![node("MatMul", &["x", "w"], "y", vec![])], &[("w", &[64, 8], &x)]);
    for to in ["float8e4m3fn", "float8e5m2", "float8e4m3fn/16"] {
        quantized(folder.path(), to, |request| request);
        for (place, got) in dequantized(folder.path()).into_iter().enumerate() {
            assert!(!got.is_nan(), "{to}: element {place}");
            assert!(place % 8 != 0 || got.to_bits() == 0, "{to}: element {place} is {got}");
        }
    }
}

/// If a block of MX or NVFP4 holds NaN or an infinity, its scale is NaN and its elements are 0, as in checkpoints.
#[test]
fn blocks_that_are_not_finite_have_nan_scales() {
    let folder = tempfile::tempdir().expect("a folder");
    for shape in [[64, 32], [70, 33], [70, 40]] {
        let [rows, columns] = shape;
        let mut x = values(rows * columns);
        let places = [(0, 0, f32::NAN), (rows - 1, 1, f32::INFINITY), (33, columns - 1, f32::NEG_INFINITY)];
        places.iter().for_each(|&(row, column, value)| x[row * columns + column] = value);
        written(folder.path(), vec![node("MatMul", &["x", "w"], "y", vec![])], &[("w", &shape, &x)]);
        let turned: Vec<f32> = (0..rows * columns).map(|at| x[at % rows * columns + at / rows]).collect();
        let turned = Tensor::from_slice(vec![columns, rows], &turned).expect("a tensor");
        for to in ["mxfp4", "mxfp8", "mxint8", "nvfp4"] {
            let done = quantized(folder.path(), to, |request| request);
            assert!(done.tensors[0].alarms.is_some_and(|alarms| alarms.became_nan > 0), "{shape:?}, {to}");
            let format: BlockFormat = to.parse().expect(to);
            let scaled = BlockQuantize::new(format).run(&turned.view()).expect("blocks");
            let want = scaled.dequantize(DataType::Float).expect("values").to_vec::<f32>().expect("floats");
            let got = dequantized(folder.path());
            for (at, got) in got.into_iter().enumerate() {
                let want = want[at % columns * rows + at / columns];
                // QuantizeLinear uses -128, and MXINT8 does not.
                let is_last = to == "mxint8" && got == want * 128.0 / 127.0;
                let is_equal = got == want || got.is_nan() && want.is_nan() || is_last;
                assert!(is_equal, "{shape:?}, {to}: {at} is {got}, not {want}");
            }
            let elements = &initializers(&folder.path().join(OUTPUT))[&format!("w_{to}")];
            assert_eq!(elements[0] & 0x0f, 0, "{shape:?}, {to}");
        }
    }
}

/// Where the summed axis is shorter than a block, as in depthwise convolutions, each output has one scale.
#[test]
fn axes_shorter_than_a_block_have_a_scale_per_row() {
    let folder = tempfile::tempdir().expect("a folder");
    for (operator, groups, shape, axis) in [
        ("Conv", 32, &[32, 1, 3, 3][..], 0),
        ("Conv", 32, &[32, 1, 4, 4], 0),
        ("Conv", 64, &[64, 1, 7, 7], 0),
        ("Conv", 64, &[64, 1, 9], 0),
        ("Conv", 1, &[17, 3, 3, 3, 3], 0),
        ("Conv", 4, &[64, 15, 3, 3], 0),
        ("ConvTranspose", 32, &[32, 1, 3, 3], 0),
        ("ConvTranspose", 8, &[32, 3, 3, 3], 0),
        ("ConvTranspose", 1, &[12, 9, 3, 3], 1),
        ("MatMul", 1, &[15, 33], 1),
    ] {
        let x = values(shape.iter().product());
        let attributes = if operator == "MatMul" { vec![] } else { attribute("group", groups) };
        written(folder.path(), vec![node(operator, &["x", "w"], "y", attributes)], &[("w", shape, &x)]);
        for (to, data_type) in [
            ("int4", DataType::Int4),
            ("int4/16", DataType::Int4),
            ("int8/32", DataType::Int8),
            ("float8e4m3fn/64", DataType::Float8E4M3FN),
        ] {
            let done = quantized(folder.path(), to, |request| request);
            let what = format!("{operator} of {groups} groups, {shape:?} to {to}");
            assert!(done.tensors[0].bytes_after < done.tensors[0].bytes_before, "{what}: {:?}", done.tensors);
            let got = initializers(&folder.path().join(OUTPUT));
            let [elements, scales] = found(data_type, shape, &x, axis, 0);
            assert_eq!(got["w_scale"], scales, "{what}: scales");
            assert_eq!(got[&format!("w_{data_type}")], elements, "{what}: elements");
        }
    }
}

/// Weights are kept, with a reason, if they would not become smaller, or are shorter than a block of MX or NVFP4. A dry
/// run plans the same, and fails where the run fails.
#[test]
fn weights_that_a_format_does_not_fit_are_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let (short, large) = (values(333), values(64 * 48));
    let weights = [("short", &[1usize, 333][..], &short[..]), ("large", &[64, 48], &large)];
    let nodes = || vec![node("MatMul", &["x", "short"], "a", vec![]), node("MatMul", &["a", "large"], "y", vec![])];
    let (qdq, nbits) = (ModelForm::DequantizeLinear, ModelForm::MatMulNBits);
    for (to, form, zero_points, reason) in [
        ("int8", qdq, false, "int8 would take 1665 bytes with its scales, not less than 1332"),
        ("int4", qdq, false, "int4 would take 1499 bytes with its scales, not less than 1332"),
        ("int4/16", nbits, false, "int4/16 would take 3996 bytes with its scales, not less than 1332"),
        ("int8/32", nbits, true, "int8/32 would take 12321 bytes with its scales, not less than 1332"),
        ("mxfp4", qdq, false, "axis 0 has size 1, less than a block of mxfp4 (32)"),
        ("nvfp4", qdq, false, "axis 0 has size 1, less than a block of nvfp4 (16)"),
    ] {
        let change = |dry_run| {
            move |request: QuantizeRequest| {
                let request = request.form(form).zero_points(zero_points);
                request.run(RunOptions::new().dry_run(dry_run))
            }
        };
        written(folder.path(), nodes(), &weights);
        let [planned, done] = [true, false].map(|dry_run| quantized(folder.path(), to, change(dry_run)));
        assert_eq!(done.passed_over, [("short".to_owned(), reason.to_owned())], "{to}");
        assert_eq!(planned.passed_over, done.passed_over, "{to}");
        for (planned, done) in planned.tensors.iter().zip(&done.tensors) {
            let plan = |row: &onnx_cast_file::TensorSummary| (row.name.clone(), row.to, row.bytes_after, row.cast);
            assert_eq!(plan(planned), plan(done), "{to}");
        }
        assert_eq!(initializers(&folder.path().join(OUTPUT))["short"].len(), 4 * 333, "{to}");
        written(folder.path(), vec![node("MatMul", &["x", "short"], "y", vec![])], &weights[..1]);
        let said = [true, false].map(|dry_run| {
            let request = change(dry_run)(QuantizeRequest::new(to.parse::<WeightFormat>().expect(to)));
            quantize(folder.path().join("in.onnx"), folder.path().join("no.onnx"), &request).expect_err(to).to_string()
        });
        assert!(said[0].contains(&format!("every one is kept: `short` ({reason})")), "{}", said[0]);
        assert_eq!(said[0], said[1], "{to}");
    }
}

/// Whether each initializer of a model is in external data.
fn external(path: &Path) -> Vec<(String, bool)> {
    let model = fs::read(path).expect("a model");
    let graph = last(&model, 7, FieldValue::bytes).expect("a message").expect("a graph");
    let tensor = |message: &[u8]| {
        let name = last(message, 8, FieldValue::bytes).expect("a message").unwrap_or_default();
        let location = last(message, 14, FieldValue::varint).expect("a message");
        (String::from_utf8(name.to_vec()).expect("text"), location == Some(1))
    };
    let mut all: Vec<_> = all_bytes(graph, 5).map(|message| tensor(message.expect("a message"))).collect();
    all.sort();
    all
}

/// Elements stay in external data, or in the model, whatever the form. Scales are where their weight is, unless they
/// are small, and small tensors stay where they are even if the caller names the file.
#[test]
fn elements_keep_their_storage() {
    let folder = tempfile::tempdir().expect("a folder");
    let (w, b) = (values(64 * 320), values(320));
    let nodes = || vec![node("MatMul", &["x", "w"], "a", vec![]), node("Add", &["a", "b"], "y", vec![])];
    let weights = [("w", &[64usize, 320][..], &w[..]), ("b", &[320], &b)];
    let [inside, outside] = ["inside.onnx", "outside.onnx"].map(|name| folder.path().join(name));
    written(folder.path(), nodes(), &weights);
    fs::rename(folder.path().join("in.onnx"), &inside).expect("renamed");
    let keep: QuantizeRequest = QuantizeRequest::new("int8".parse::<WeightFormat>().expect("a format"));
    let storage = |file: Option<&str>, threshold| {
        let storage = onnx_cast_file::Storage::default().external_data(file.map(str::to_owned));
        keep.model.clone().storage(storage.external_threshold(threshold))
    };
    // A fold of nothing, which only moves elements.
    let request = onnx_cast_model::FoldRequest::default().storage(storage(Some("outside.onnx.data"), Some(1)).storage);
    onnx_cast_model::fold(&inside, &outside, &request).expect("folded");
    assert_eq!(external(&outside), [("b".to_owned(), true), ("w".to_owned(), true)]);
    let nbits = ModelForm::MatMulNBits;
    for (to, form, names) in [
        ("int8", ModelForm::DequantizeLinear, &[("b", true), ("w_int8", true), ("w_scale", true)][..]),
        ("int8/tensor", ModelForm::DequantizeLinear, &[("b", true), ("w_int8", true), ("w_scale", false)]),
        ("int4", nbits, &[("b", true), ("w_Q4", true), ("w_scales", true), ("w_zero_points", false)]),
        ("int8/row", ModelForm::Dynamic, &[("b", true), ("w_int8", true), ("w_scale", true)]),
        (
            "nvfp4",
            ModelForm::DequantizeLinear,
            &[("b", true), ("w_global_scale", false), ("w_nvfp4", true), ("w_scale_float8", true)],
        ),
    ] {
        let request = QuantizeRequest::new(to.parse::<WeightFormat>().expect(to)).form(form).zero_points(form == nbits);
        let out = folder.path().join(format!("{}.onnx", to.replace('/', "_")));
        quantize(&outside, &out, &request).unwrap_or_else(|error| panic!("{to}: {error}"));
        let want: Vec<_> = names.iter().map(|&(name, is_external)| (name.to_owned(), is_external)).collect();
        assert_eq!(external(&out), want, "{to}");
        let again = folder.path().join(format!("again_{}.onnx", to.replace('/', "_")));
        quantize(&inside, &again, &request).unwrap_or_else(|error| panic!("{to}: {error}"));
        assert!(external(&again).iter().all(|(_, is_external)| !is_external), "{to}");
        assert_eq!(initializers(&again).len(), want.len(), "{to}");
    }
    // A scale of 1280 bytes, and a global scale of 4, beside a file that the caller names.
    let request = keep.clone().model(storage(Some("named.data"), None));
    let out = folder.path().join("named.onnx");
    quantize(&outside, &out, &request).expect("quantized");
    assert!(external(&out).iter().all(|(_, is_external)| *is_external));
    let request = keep.clone().model(storage(Some("large.data"), Some(2000)));
    let out = folder.path().join("large.onnx");
    quantize(&outside, &out, &request).expect("quantized");
    let want = [("b", false), ("w_int8", true), ("w_scale", false)];
    assert_eq!(external(&out), want.map(|(name, is_external)| (name.to_owned(), is_external)));
}

/// The tensors of MatMulNBits, as onnxruntime 1.31.1's `quantize_matmul_4bits` and `quantize_matmul_8bits` make them.
#[test]
fn products_are_those_of_onnxruntimes_quantizer() {
    let folder = tempfile::tempdir().expect("a folder");
    // 18 rows and 2 columns, in blocks of 16.
    let x: Vec<f32> = (0..36).map(|i| ((i * 37 + 11) % 101) as f32 / 8.0 - 6.0).collect();
    written(folder.path(), vec![node("MatMul", &["x", "w"], "y", vec![])], &[("w", &[18, 2], &x)]);
    for (to, zero_points, elements, scales, zeros) in EXPECTED {
        quantized(folder.path(), &format!("{to}/16"), |request| {
            let selection = onnx_cast_file::Selection { min_elements: Some(1), ..request.selection.clone() };
            let request = request.selection(selection);
            request.form(ModelForm::MatMulNBits).zero_points(*zero_points)
        });
        let got = initializers(&folder.path().join(OUTPUT));
        let what = format!("{to}, zero points: {zero_points}");
        assert_eq!(got[&format!("w_Q{}", &to[3..])], *elements, "{what}");
        let bits: Vec<u32> = got["w_scales"].as_chunks::<4>().0.iter().map(|bits| u32::from_le_bytes(*bits)).collect();
        assert_eq!(bits, *scales, "{what}");
        assert_eq!(got.get("w_zero_points").map(Vec::as_slice), *zeros, "{what}");
    }
}

/// A format, whether there are zero points, the elements, the bits of the scales, and the zero points.
type Expected = (&'static str, bool, &'static [u8], &'static [u32], Option<&'static [u8]>);

const EXPECTED: &[Expected] = &[
    (
        "int4",
        false,
        &[
            0x2e, 0xb6, 0x3f, 0xc8, 0x40, 0xd9, 0x51, 0xea, 0x60, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x48, 0xbf,
            0x27, 0xaf, 0x16, 0x9e, 0x05, 0x8c, 0x0d, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        ],
        &[0xbf480000, 0xbf100000, 0x3f400000, 0xbf380000],
        None,
    ),
    (
        "int4",
        true,
        &[
            0xd1, 0x49, 0xc0, 0x37, 0xbf, 0x26, 0xae, 0x15, 0x4f, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x48, 0xbf,
            0x37, 0xae, 0x26, 0x9d, 0x05, 0x8c, 0xf0, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        ],
        &[0x3f488889, 0x3e99999a, 0x3f4aaaab, 0x3f1dddde],
        Some(&[0x07, 0x68]),
    ),
    (
        "int8",
        false,
        &[
            0xdf, 0x21, 0x66, 0xac, 0xf1, 0x33, 0x78, 0xbd, 0x00, 0x45, 0x8a, 0xcf, 0x12, 0x57, 0x9c, 0xe1, 0x00, 0x60,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x80, 0x38, 0xfd, 0xb5,
            0x6d, 0x25, 0xeb, 0xa3, 0x5b, 0x13, 0xd8, 0x90, 0x48, 0x00, 0xc5, 0x7d, 0xce, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        ],
        &[0xbd480000, 0xbd100000, 0x3d400000, 0xbd380000],
        None,
    ),
    (
        "int8",
        true,
        &[
            0x13, 0xdb, 0x92, 0x49, 0x00, 0xc8, 0x7f, 0x36, 0xff, 0xb5, 0x6c, 0x23, 0xec, 0xa2, 0x59, 0x10, 0xff, 0x40,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x81, 0x39, 0xff, 0xb7,
            0x6e, 0x26, 0xec, 0xa4, 0x5b, 0x13, 0xda, 0x91, 0x49, 0x00, 0xc7, 0x7e, 0x00, 0xff, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        ],
        &[0x3d3cbcbd, 0x3c909091, 0x3d3ebebf, 0x3d149495],
        Some(&[0x77, 0x00, 0x81, 0x60]),
    ),
];

/// Weights whose readers have no counterpart are kept, with the reason; bad requests are refused.
#[test]
fn what_is_no_product_is_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let x = values(32 * 32);
    let nodes = vec![
        node("MatMul", &["x", "w"], "a", vec![]),
        node("Gemm", &["a", "g"], "b", vec![]),
        node("MatMul", &["b", "shared"], "c", vec![]),
        node("Add", &["c", "shared"], "y", vec![]),
    ];
    written(folder.path(), nodes, &["w", "g", "shared"].map(|name| (name, &[32usize, 32][..], &x[..])));
    let nbits = |request: QuantizeRequest| request.form(ModelForm::MatMulNBits);
    let done = quantized(folder.path(), "int4", nbits);
    assert_eq!(done.passed_over, [("shared".to_owned(), "Add reads it".to_owned())]);
    let refused = |change: &dyn Fn(QuantizeRequest) -> QuantizeRequest, to: &str| {
        let mut request = change(QuantizeRequest::new(to.parse::<WeightFormat>().expect(to)));
        request.run.write.force = true;
        quantize(folder.path().join("in.onnx"), folder.path().join("no.onnx"), &request).expect_err(to).to_string()
    };
    for (to, want) in [
        ("mxfp4", "MatMulNBits has no mxfp4 (want int4 or int8)"),
        ("int4/row", "MatMulNBits has no int4/row (want int4/16, 32, 64, 128 or 256)"),
        ("int4/48", "MatMulNBits has no int4/48"),
    ] {
        let said = refused(&nbits, to);
        assert!(said.contains(want), "{said}");
    }
    let said = refused(&|request| request.zero_points(true), "int4");
    assert!(said.contains("zero_points"), "{said}");
    let said = refused(&|request| request, "int8/8x8");
    assert!(said.contains("DequantizeLinear has no int8/8x8 (want int8/tensor, int8/row or"), "{said}");
    assert!(!folder.path().join("no.onnx").exists());
}

/// The operators of a model in their order, each with the names that it reads.
fn operators(path: &Path) -> Vec<(String, Vec<String>)> {
    let model = fs::read(path).expect("a model");
    let graph = last(&model, 7, FieldValue::bytes).expect("a message").expect("a graph");
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
    let node = |message: &[u8]| {
        let op_type = last(message, 4, FieldValue::bytes).expect("a message").unwrap_or_default();
        (text(op_type), all_bytes(message, 1).map(|input| text(input.expect("a name"))).collect())
    };
    all_bytes(graph, 1).map(|message| node(message.expect("a message"))).collect()
}

/// Integer weights have the values and the scales of int8 with DequantizeLinear, and inputs are quantized once for all
/// nodes that read them.
#[test]
fn dynamic_weights_are_those_of_int8() {
    let folder = tempfile::tempdir().expect("a folder");
    let (w, v, c) = (values(48 * 40), values(40 * 48), values(12 * 40 * 9));
    let weights = [("w", &[48usize, 40][..], &w[..]), ("v", &[40, 48], &v), ("c", &[12, 40, 3, 3], &c)];
    let nodes = vec![
        node("MatMul", &["x", "w"], "a", vec![]),
        node("Transpose", &["v"], "t", vec![]),
        node("MatMul", &["x", "t"], "b", vec![]),
        node("Conv", &["z", "c"], "y", vec![]),
    ];
    written(folder.path(), nodes, &weights);
    let output = folder.path().join(OUTPUT);
    for to in ["int8", "int8/tensor"] {
        quantized(folder.path(), to, |request| request);
        let want = initializers(&output);
        let done = quantized(folder.path(), to, |request| request.form(ModelForm::Dynamic));
        assert!(done.passed_over.is_empty() && done.notes.len() == 2, "{to}: {done:?}");
        let got = initializers(&output);
        for name in ["w", "v", "c"] {
            assert_eq!(got[&format!("{name}_scale")], want[&format!("{name}_scale")], "{to}: {name}");
            assert_eq!(got[&format!("{name}_int8")], want[&format!("{name}_int8")], "{to}: {name}");
        }
        let found = operators(&output);
        let names: Vec<&str> = found.iter().map(|(op_type, _)| &**op_type).collect();
        let product = ["Mul", "Cast", "Mul"];
        let [first, then, conv] = [
            &["Transpose", "DynamicQuantizeLinear", "MatMulInteger"][..],
            &["MatMulInteger"],
            &["DynamicQuantizeLinear", "ConvInteger"],
        ];
        assert_eq!(names, [first, &product, then, &product, conv, &product].concat(), "{to}");
        assert_eq!(found[6].1, ["x_uint8", "v_int8_transposed", "x_zero_point"], "{to}");
        // With 7 bits the largest element is 64, and saturation is not mentioned.
        let done = quantized(folder.path(), to, |request| request.form(ModelForm::Dynamic).reduce_range(true));
        assert!(done.notes.len() == 1 && done.notes[0].contains("ConvInteger"), "{to}: {done:?}");
        let elements = &initializers(&output)["w_int8"];
        assert_eq!(elements.iter().map(|code| (*code as i8).unsigned_abs()).max(), Some(64), "{to}");
    }
}

/// Every reader of a weight must have a counterpart, and both matrices of LSTM must be quantized.
#[test]
fn dynamic_weights_without_a_counterpart_are_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let x = values(96 * 24);
    let square = &[24usize, 24][..];
    let small = &x[..24 * 24];
    let cases: [(Vec<Message>, &[usize], &str); 7] = [
        (vec![node("MatMul", &["w", "x"], "y", vec![])], square, "it is the left operand of MatMul"),
        (
            vec![node("Gemm", &["x", "w"], "y", attribute("transA", 1))],
            square,
            "Gemm reads it with alpha, beta or transA",
        ),
        (vec![node("ConvTranspose", &["x", "w"], "y", vec![])], &[24, 24, 3], "ConvTranspose reads it"),
        (vec![node("Gather", &["w", "x"], "y", attribute("axis", 1))], square, "Gather reads it along axis 1"),
        (vec![node("LSTM", &["x", "w", "r"], "y", vec![])], &[1, 96, 24], "LSTM reads it with a matrix that is kept"),
        (
            vec![node("MatMul", &["x", "w"], "a", vec![]), node("Gather", &["w", "i"], "y", vec![])],
            square,
            "its outputs are on different axes (int8/tensor fits)",
        ),
        (
            vec![node("MatMul", &["x", "w"], "a", vec![]), node("Identity", &["w"], "y", vec![])],
            square,
            "it is an output",
        ),
    ];
    for (nodes, shape, reason) in cases {
        let (len, nodes) = (shape.iter().product(), [nodes, vec![node("MatMul", &["x", "v"], "z", vec![])]].concat());
        let x = values(len);
        // The recurrent weights of LSTM have too few elements.
        let weights = [("w", shape, &x[..]), ("v", square, small), ("r", &[1, 8, 2], &small[..16])];
        written(folder.path(), nodes, &weights);
        let done = quantized(folder.path(), "int8", |request| request.form(ModelForm::Dynamic));
        assert_eq!(done.passed_over.first(), Some(&("w".to_owned(), reason.to_owned())), "{reason}");
        assert!(initializers(&folder.path().join(OUTPUT)).contains_key("w"), "{reason}");
    }
    for (to, want) in [("int4", "has no int4 (want int8"), ("int8/32", "has no int8/32"), ("mxfp4", "has no mxfp4")] {
        let mut request = QuantizeRequest::new(to.parse::<WeightFormat>().expect(to)).form(ModelForm::Dynamic);
        request.run.write.force = true;
        let said = quantize(folder.path().join("in.onnx"), folder.path().join("no.onnx"), &request).expect_err(to);
        assert!(said.to_string().contains(want), "{said}");
    }
}

/// Tables of Gather stay float before a DequantizeLinear, which onnxruntime computes whole at each run, unless the
/// request names them; operators that read packed or integer rows take them.
#[test]
fn tables_are_quantized_where_rows_are_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let (e, w) = (values(96 * 32), values(32 * 48));
    let weights = [("e", &[96usize, 32][..], &e[..]), ("w", &[32, 48], &w)];
    written(
        folder.path(),
        vec![node("Gather", &["e", "x"], "a", vec![]), node("MatMul", &["a", "w"], "y", vec![])],
        &weights,
    );
    let output = folder.path().join(OUTPUT);
    let done = quantized(folder.path(), "int8", |request| request);
    assert_eq!(done.passed_over.len(), 1, "{done:?}");
    assert!(done.passed_over[0].0 == "e" && done.passed_over[0].1.starts_with("Gather reads it"), "{done:?}");
    assert!(done.notes.is_empty(), "{done:?}");
    let named = |mut request: QuantizeRequest| {
        request.selection.include = vec!["*".parse().expect("a pattern")];
        request
    };
    let done = quantized(folder.path(), "int8", named);
    assert!(done.passed_over.is_empty(), "{done:?}");
    assert!(done.notes[0].contains("1 of 2 products") && done.notes[0].contains("Gather (1)"), "{done:?}");
    for (to, form, operator) in
        [("int4", ModelForm::MatMulNBits, "GatherBlockQuantized"), ("int8", ModelForm::Dynamic, "Gather")]
    {
        let done = quantized(folder.path(), to, |request| request.form(form));
        assert!(done.passed_over.is_empty(), "{done:?}");
        assert_eq!(operators(&output)[0].0, operator);
    }
}

/// `cast` keeps the scales of MatMulNBits, which onnxruntime needs as constants, unless the request names them.
#[test]
fn scales_of_packed_weights_stay_constant() {
    let folder = tempfile::tempdir().expect("a folder");
    let w = values(256 * 48);
    written(folder.path(), vec![node("MatMul", &["x", "w"], "y", vec![])], &[("w", &[256, 48], &w)]);
    quantized(folder.path(), "int4", |request| request.form(ModelForm::MatMulNBits));
    let mut request = CastRequest::new(DataType::Float16);
    request.run.write.force = true;
    let out = folder.path().join("cast.onnx");
    let done = cast(folder.path().join(OUTPUT), &out, &request).expect("a model");
    assert!(done.tensors.iter().all(|row| !row.cast), "{done:?}");
    request.selection.include = vec!["w_scales".parse().expect("a pattern")];
    cast(folder.path().join(OUTPUT), &out, &request).expect("a model");
    assert!(initializers(&out).contains_key("w_scales_float16"));
}

fn attribute(name: &str, value: i64) -> Vec<Message> {
    vec![Message::new().bytes(1, name).int(3, value).int(20, 2)]
}
