//! Do the figures of scaled candidates agree with the exact oracle, value by value, and with what quantizing a
//! checkpoint and dequantizing it gives?

use crate::common::replacing::{dequantize_file, quantize_file, write_tensor};
use onnx_cast::scaled::{BlockFormat, ScaleRule};
use onnx_cast::{Cast, CastOptions, DataType, Tensor, TensorView};
use onnx_cast_file::{
    Candidate, CandidateFormat, DequantizeRequest, DiffRequest, Difference, FileError, Format, Grade, Granularity,
    InspectRequest, Layout, QuantizeRequest, QuantizedFormat, Report, ReportRequest, WriteOptions, diff, inspect,
    read_tensor, report, report_of,
};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use testkit::block_scale::{
    self, MX_BLOCK, NVFP4_BLOCK, Recipe, mx_dequantize, mx_quantize, nvfp4_dequantize, nvfp4_quantize,
};
use testkit::scaled::{dequantize_direct, quantize_direct};
use testkit::types::Ty;

fn candidates(names: &[&str]) -> Vec<CandidateFormat> {
    names.iter().map(|name| name.parse().expect("a candidate")).collect()
}

fn request(names: &[&str]) -> ReportRequest {
    ReportRequest::default().to(candidates(names)).layout(Some(Layout::Plain))
}

/// Weights: small numbers whose magnitudes differ by row and by place, some zeros.
fn weights(len: usize, columns: usize) -> Vec<f32> {
    let mut state = 11u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f32 / 2f32.powi(31) - 0.5
    };
    let value = |index: usize| {
        let power = (index / columns % 7) as i32 - (index / 32 % 11) as i32;
        if index.is_multiple_of(97) { 0.0 } else { random() * random() * 2f32.powi(power) }
    };
    (0..len).map(value).collect()
}

fn ty(data_type: DataType) -> Ty {
    Ty::from_code(data_type.onnx()).expect("a type of both")
}

fn bits(value: f32) -> (Ty, u64) {
    (Ty::Float, value.to_bits().into())
}

/// The blocks of a tensor of `columns` columns: the indices of the elements of each.
fn blocks(len: usize, columns: usize, [down, across]: [usize; 2]) -> Vec<Vec<usize>> {
    let mut blocks = BTreeMap::<_, Vec<usize>>::new();
    for index in 0..len {
        let (row, column) = (index / columns, index % columns);
        blocks.entry((row / down, column / across)).or_default().push(index);
    }
    blocks.into_values().collect()
}

/// What comes back of floats, by the oracle, and the blocks.
fn oracle(values: &[f32], columns: usize, to: CandidateFormat) -> (Vec<f32>, Vec<Vec<usize>>) {
    let floats = |bits: Vec<u64>| bits.into_iter().map(|bits| f32::from_bits(bits as u32)).collect::<Vec<f32>>();
    match to {
        CandidateFormat::Block(BlockFormat::NvFp4) => {
            let quantized = nvfp4_quantize(values, columns, Recipe::ModelOpt, Ty::Float);
            let back = nvfp4_dequantize(&quantized, columns, Recipe::ModelOpt, Ty::Float);
            (floats(back), blocks(values.len(), columns, [1, NVFP4_BLOCK]))
        }
        CandidateFormat::Block(format) => {
            let element = ty(format.element());
            let block = |block: &[f32]| {
                let (scale, codes) = mx_quantize(block, element, block_scale::ScaleRule::Floor);
                mx_dequantize(scale, element, &codes, Ty::Float)
            };
            let back = values.chunks(columns).flat_map(|row| row.chunks(MX_BLOCK)).flat_map(block).collect();
            (floats(back), blocks(values.len(), columns, [1, MX_BLOCK]))
        }
        CandidateFormat::Elements(element, granularity) => {
            let block = match granularity {
                Granularity::Tensor => [values.len(), columns],
                Granularity::Row => [1, columns],
                Granularity::Block(block) => block,
                other => panic!("{other}"),
            };
            let most: f32 = match element {
                DataType::Float8E4M3FN => 448.0,
                DataType::Float8E5M2 => 57344.0,
                DataType::Int8 => 127.0,
                _ => 7.0,
            };
            let all = blocks(values.len(), columns, block);
            let mut back = vec![0.0; values.len()];
            for block in &all {
                let finite = block.iter().map(|&index| values[index].abs()).filter(|value| value.is_finite());
                let scale = finite.fold(0f32, f32::max) / most;
                let scale = bits(if scale == 0.0 { 1.0 } else { scale });
                for &index in block {
                    let code = quantize_direct(bits(values[index]), scale, 0, ty(element), Ty::Float, true);
                    let value = dequantize_direct((ty(element), code), scale, 0, Ty::Float);
                    back[index] = f32::from_bits(value as u32);
                }
            }
            (back, all)
        }
        other => panic!("{other}"),
    }
}

fn near(got: Option<f64>, want: f64, what: &str) {
    if want.is_nan() {
        assert_eq!(got, None, "{what}");
        return;
    }
    let got = got.unwrap_or_else(|| panic!("{what}: nothing, want {want}"));
    assert!((got - want).abs() <= want.abs() * 1e-6, "{what}: {got}, want {want}");
}

/// The figures of values and of what they became.
fn check(found: &Candidate, source: &[f32], result: &[f32], what: &str) {
    let what = format!("{what} in {}", found.to);
    let doubles = source.iter().map(|&x| f64::from(x)).zip(result.iter().map(|&y| f64::from(y)));
    let pairs: Vec<(f64, f64)> = doubles.clone().filter(|(x, y)| x.is_finite() && y.is_finite()).collect();
    let sum = |of: &dyn Fn(f64, f64) -> f64| pairs.iter().map(|&(x, y)| of(x, y)).sum::<f64>();
    near(found.mean_error(), sum(&|x, y| (x - y).abs()) / pairs.len() as f64, &what);
    near(found.snr(), 10.0 * (sum(&|x, _| x * x) / sum(&|x, y| (x - y) * (x - y))).log10(), &what);
    near(Some(found.counts.max_error), pairs.iter().map(|(x, y)| (x - y).abs()).fold(0.0, f64::max), &what);
    let count = |is: &dyn Fn(f64, f64) -> bool| doubles.clone().filter(|&(x, y)| is(x, y)).count() as u64;
    assert_eq!(found.counts.zero, count(&|x, y| x != 0.0 && y == 0.0), "{what}");
    assert_eq!(found.counts.nan, count(&|x, _| x.is_nan()), "{what}");
    let lost = count(&|x, y| x.is_finite() && y.is_nan() || x.is_infinite() && !(y.is_infinite()));
    assert_eq!((found.counts.overflowed, found.counts.saturated), (lost, 0), "{what}");
}

/// The histograms of blocks, from their definitions.
fn check_blocks(found: &Candidate, source: &[f32], result: &[f32], blocks: &[Vec<usize>]) {
    let (mut powers, mut ratios) = (BTreeMap::new(), BTreeMap::new());
    let (mut zeros, mut not_finite, mut exact) = (0, 0, 0);
    for block in blocks {
        let of = |values: &[f32]| block.iter().map(|&index| f64::from(values[index])).collect::<Vec<f64>>();
        let (x, y) = (of(source), of(result));
        let amax = x.iter().map(|x| x.abs()).fold(0.0, f64::max);
        if x.iter().any(|x| !x.is_finite()) {
            not_finite += 1;
            continue;
        }
        if amax == 0.0 {
            zeros += 1;
            continue;
        }
        *powers.entry((amax.to_bits() >> 52) as i32 - 1023).or_insert(0u64) += 1;
        let noise: f64 = x.iter().zip(&y).map(|(x, y)| (x - y) * (x - y)).sum();
        if noise == 0.0 {
            exact += 1;
            continue;
        }
        let ratio = 10.0 * (x.iter().map(|x| x * x).sum::<f64>() / noise).log10();
        *ratios.entry((ratio / 3.0).floor() as i32).or_insert(0u64) += 1;
    }
    let what = found.to.to_string();
    let got = found.blocks.as_ref().unwrap_or_else(|| panic!("{what} has blocks"));
    assert_eq!(
        (got.count, got.zeros, got.not_finite, got.exact),
        (blocks.len() as u64, zeros, not_finite, exact),
        "{what}"
    );
    let histogram = |first: i32, counts: &[u64]| {
        (first..).zip(counts.to_vec()).filter(|(_, count)| *count > 0).collect::<BTreeMap<i32, u64>>()
    };
    assert_eq!(histogram(got.amax.first, &got.amax.counts), powers, "{what}");
    assert_eq!(histogram(got.snr.first, &got.snr.counts), ratios, "{what}");
}

const ALL: &[&str] = &[
    "mxfp4",
    "mxfp6e2m3",
    "mxfp6e3m2",
    "mxfp8",
    "mxfp8e5m2",
    "mxint8",
    "nvfp4",
    "int4/32",
    "int8/row",
    "int8/tensor",
    "float8e4m3fn/tensor",
    "float8e4m3fn/row",
    "float8e4m3fn/16x24",
    "float8e5m2/128x128",
    "int8/7",
];

#[test]
fn figures_are_those_of_the_oracle() {
    for (shape, is_special) in [(&[37, 96][..], false), (&[3, 5, 45], true), (&[77], true), (&[24, 64], true)] {
        let columns = shape[shape.len() - 1];
        let mut values = weights(shape.iter().product(), columns);
        values[32..64].fill(-0.0);
        if is_special {
            (values[3], values[70], values[71]) = (f32::NAN, f32::INFINITY, f32::from_bits(1));
        }
        let view = TensorView::from_slice(shape, &values).expect("a tensor");
        let found = report_of(&[("w", view)], &request(ALL)).expect("a report");
        assert_eq!(found.tensors[0].candidates.len(), ALL.len());
        for candidate in &found.tensors[0].candidates {
            let (back, blocks) = oracle(&values, columns, candidate.to);
            check(candidate, &values, &back, &format!("{shape:?}"));
            let width = if matches!(candidate.to, CandidateFormat::Block(_)) { 1 } else { 4 };
            let global = if candidate.to.to_string() == "nvfp4" { 4 } else { 0 };
            let elements = (values.len() * candidate.to.element().bits().expect("bits")).div_ceil(8);
            assert_eq!(candidate.bytes, (elements + blocks.len() * width + global) as u64, "{}", candidate.to);
            if blocks.len() > 1 {
                check_blocks(candidate, &values, &back, &blocks);
            } else {
                assert_eq!(candidate.blocks, None);
            }
        }
    }
}

#[test]
fn rules_change_the_scales_of_mx_alone() {
    let values = weights(64 * 96, 96);
    let view = TensorView::from_slice(&[64, 96], &values).expect("a tensor");
    let names = ["mxfp4", "nvfp4", "int4/32"];
    let by = |rule| report_of(&[("w", view)], &request(&names).scale_rule(Some(rule))).expect("a report");
    let (floor, even) = (by(ScaleRule::Floor), by(ScaleRule::Even));
    let snr =
        |report: &onnx_cast_file::Report| report.tensors[0].candidates.iter().map(Candidate::snr).collect::<Vec<_>>();
    let (floor, even) = (snr(&floor), snr(&even));
    assert!(even[0] > floor[0], "{even:?} {floor:?}");
    assert_eq!(even[1..], floor[1..]);
}

/// A tensor larger than a part, so that scales of the tensor and wide blocks are known ahead.
#[test]
fn figures_are_those_of_quantizing_and_dequantizing() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let (rows, columns) = (48, 1 << 15);
    let floats = Tensor::from_slice(vec![rows, columns], &weights(rows * columns, columns)).expect("a tensor");
    let cases = [
        ("mxfp4", None, Layout::Plain),
        ("nvfp4", None, Layout::ModelOpt),
        ("float8e4m3fn/row", Some(Granularity::Row), Layout::Plain),
        ("float8e4m3fn/tensor", Some(Granularity::Tensor), Layout::ComfyUi),
        ("int8/tensor", Some(Granularity::Tensor), Layout::Plain),
        ("float8e4m3fn/128x128", Some(Granularity::Block([128, 128])), Layout::DeepSeek),
    ];
    let names: Vec<&str> = cases.iter().map(|(name, ..)| *name).chain(["int4/row", "mxint8"]).collect();
    for from in [DataType::Float, DataType::BFloat16] {
        let cast = |tensor: &Tensor, to| {
            let plan = Cast::new(to, &CastOptions::default()).and_then(|cast| cast.plan(tensor.data_type()));
            plan.expect("a cast").run(&tensor.view()).expect("cast")
        };
        let tensor = cast(&floats, from);
        let (input, quantized, plain) = (path("in"), path("quantized"), path("plain"));
        fs::create_dir_all(&input).expect("a folder");
        fs::write(input.join("config.json"), "{}").expect("a configuration");
        let write = |path: &Path, tensor: &Tensor| {
            write_tensor(path, Format::Safetensors, "w.weight", tensor.view(), &WriteOptions::default())
        };
        write(&input.join("model.safetensors"), &tensor).expect("a file");
        let found = report(&input, &request(&names)).expect("a report");
        let tensors = [("w.weight", tensor.view())];
        assert_eq!(report_of(&tensors, &request(&names)).expect("a report").tensors, found.tensors);
        let wide = path("wide.safetensors");
        let source = cast(&tensor, DataType::Float);
        write(&wide, &source).expect("a file");
        let source = source.to_vec::<f32>().expect("floats");
        for (candidate, (name, granularity, layout)) in found.tensors[0].candidates.iter().zip(cases) {
            let format: QuantizedFormat = name.split('/').next().unwrap_or(name).parse().expect("a format");
            let how = QuantizeRequest::new(format.by(granularity)).layout(Some(layout));
            for made in [&quantized, &plain] {
                drop(fs::remove_dir_all(made));
            }
            quantize_file(&input, &quantized, &how).expect("quantized");
            dequantize_file(&quantized, &plain, &DequantizeRequest::new(DataType::Float)).expect("dequantized");
            let plain = plain.join("model.safetensors");
            let result = read_tensor(&plain).expect("a tensor").tensor.to_vec::<f32>().expect("floats");
            check(candidate, &source, &result, from.name());
            let differences = diff(&wide, &plain, &DiffRequest::default().tolerance(Some(0.0)));
            match &differences.expect("compared")[..] {
                [(_, Difference::Values { largest, .. })] => {
                    near(Some(largest.to_f64()), candidate.counts.max_error, name)
                }
                other => panic!("{name}: {other:?}"),
            }
        }
    }
}

/// The sizes of a report are those of the tensors that `quantize` writes, to the byte: kept ones, scales and all.
#[test]
fn sizes_are_those_that_quantize_writes() {
    let tensors: &[(&str, &[usize])] = &[
        ("model.embed_tokens.weight", &[100, 128]),
        ("model.layers.0.self_attn.q_proj.weight", &[128, 128]),
        ("model.layers.0.self_attn.k_proj.weight", &[64, 128]),
        ("model.layers.0.mlp.down_proj.weight", &[128, 72]),
        ("model.layers.0.mlp.experts.gate_up_proj", &[2, 128, 128]),
        ("model.layers.0.mlp.experts.down_proj", &[2, 64, 128]),
        ("model.layers.0.block_sparse_moe.input_linear.weight", &[2, 64, 128]),
        ("model.layers.0.norm.weight", &[128]),
        ("lm_head.weight", &[100, 128]),
    ];
    let formats =
        ["mxfp4", "nvfp4", "mxfp8", "mxint8", "int4/32", "int8/row", "float8e4m3fn/row", "float8e4m3fn/128x128"];
    let layouts = [None, Some(Layout::GptOss), Some(Layout::DeepSeek), Some(Layout::ModelOpt), Some(Layout::Plain)];
    let layouts = layouts.into_iter().chain([Some(Layout::ComfyUi), Some(Layout::Quark)]);
    let folder = tempfile::tempdir().expect("a folder");
    let input = folder.path().join("model.safetensors");
    let held = tensors.iter().map(|(name, shape)| {
        let floats = weights(shape.iter().product(), shape[shape.len() - 1]);
        let plan = Cast::new(DataType::BFloat16, &CastOptions::default()).and_then(|cast| cast.plan(DataType::Float));
        let floats = Tensor::from_slice(shape.to_vec(), &floats).expect("a tensor");
        ((*name).to_owned(), plan.expect("a cast").run(&floats.view()).expect("cast"))
    });
    let held: Vec<(String, Tensor)> = held.collect();
    let views = held.iter().map(|(name, tensor)| {
        let bytes = tensor.bytes().expect("numbers");
        let view = safetensors::tensor::TensorView::new(safetensors::Dtype::BF16, tensor.shape().to_vec(), bytes);
        (name.clone(), view.expect("a tensor"))
    });
    safetensors::serialize_to_file(views, None, &input).expect("written");
    let mut compared = 0;
    for (layout, format) in layouts.flat_map(|layout| formats.map(|format| (layout, format))) {
        let to: CandidateFormat = format.parse().expect("a candidate");
        let mut asked = ReportRequest::default().to(vec![to]).layout(layout);
        asked.exclude = vec!["*k_proj*".parse().expect("a pattern")];
        let Ok(found) = report(&input, &asked) else { continue };
        let forecast = found.forecast(to).expect("a scaled candidate");
        let mut how = QuantizeRequest::new(format.parse::<onnx_cast_file::WeightFormat>().expect("a format"));
        how.selection.exclude.clone_from(&asked.exclude);
        let output = folder.path().join("out.safetensors");
        drop(fs::remove_file(&output));
        let made = quantize_file(&input, &output, &how.layout(Some(forecast.layout)));
        assert_eq!(made.is_err(), forecast.refused.is_some(), "{format} in {layout:?}: {made:?}");
        let Ok(made) = made else { continue };
        let file = fs::read(&output).expect("a file");
        let written = safetensors::SafeTensors::deserialize(&file).expect("tensors");
        let bytes: usize = written.tensors().iter().map(|(_, tensor)| tensor.data().len()).sum();
        let totals = found.totals(to);
        assert_eq!(totals.bytes_after, bytes as u64, "{format} in {layout:?}");
        let before: usize = held.iter().map(|(_, tensor)| tensor.bytes().expect("numbers").len()).sum();
        assert_eq!(totals.bytes_before, before as u64, "{format} in {layout:?}");
        let kept = made.tensors.iter().filter_map(|row| Some((row.name.clone(), row.reason.clone()?)));
        assert_eq!(forecast.kept, kept.collect::<Vec<_>>(), "{format} in {layout:?}");
        let quantized: std::collections::BTreeSet<&str> = found.tensors.iter().map(|tensor| &*tensor.name).collect();
        assert!(forecast.kept.iter().all(|(name, _)| !quantized.contains(&**name)), "{format} in {layout:?}");
        // Tensors in memory have the same sizes.
        let views: Vec<_> = held.iter().map(|(name, tensor)| (&**name, tensor.view())).collect();
        assert_eq!(report_of(&views, &asked).expect("a report").totals(to).bytes_after, bytes as u64);
        compared += 1;
    }
    assert!(compared > 14, "{compared}");
}

/// The report of a quantized checkpoint equals the report of the output of `dequantize`.
#[test]
fn quantized_weights_are_measured_by_their_values() {
    let experts: &[(&str, &[usize])] =
        &[("model.layers.0.mlp.experts.gate_up_proj", &[2, 96, 1024]), ("model.layers.0.norm.weight", &[96])];
    let linears: &[(&str, &[usize])] = &[
        ("model.layers.0.self_attn.q_proj.weight", &[320, 1024]),
        ("model.layers.0.norm.weight", &[1024]),
        ("lm_head.weight", &[64, 1024]),
    ];
    let cases = [
        (linears, "nvfp4", Layout::CompressedTensors),
        (linears, "float8e4m3fn/128x128", Layout::DeepSeek),
        (linears, "mxfp8", Layout::ModelOpt),
        (experts, "mxfp4", Layout::GptOss),
    ];
    let to = candidates(&["mxfp4", "int8/row", "float8e4m3fn/tensor", "bfloat16"]);
    for (tensors, format, layout) in cases {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        let bytes = |shape: &[usize]| {
            let floats = weights(shape.iter().product(), shape[shape.len() - 1]);
            floats.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>()
        };
        let held: Vec<_> = tensors.iter().map(|(name, shape)| (*name, *shape, bytes(shape))).collect();
        let views = held.iter().map(|(name, shape, bytes)| {
            let view = safetensors::tensor::TensorView::new(safetensors::Dtype::F32, shape.to_vec(), bytes);
            (*name, view.expect("a tensor"))
        });
        safetensors::serialize_to_file(views, None, &path("model.safetensors")).expect("written");
        let how = QuantizeRequest::new(format.parse::<onnx_cast_file::WeightFormat>().expect("a format"));
        let quantized = path("quantized.safetensors");
        quantize_file(path("model.safetensors"), &quantized, &how.layout(Some(layout))).expect("quantized");
        let plain = path("plain.safetensors");
        dequantize_file(&quantized, &plain, &DequantizeRequest::new(DataType::Float)).expect("dequantized");
        let asked = ReportRequest::default().to(to.clone());
        let (found, want) = (report(&quantized, &asked).expect("found"), report(&plain, &asked).expect("found"));
        let by_name = |report: &Report| {
            let named = report.tensors.iter().map(|tensor| (tensor.name.clone(), tensor.clone()));
            named.collect::<BTreeMap<_, _>>()
        };
        assert_eq!(by_name(&found), by_name(&want), "{format}");
        let info = inspect(&quantized, &InspectRequest::default()).expect("information");
        let count = info.quantized.expect("quantized weights").weights.len();
        assert_eq!(found.dequantized, [(layout, count)], "{format}");
        assert_eq!(want.dequantized, [], "{format}");
        assert_eq!(found.forecasts, want.forecasts, "{format}");
        let mut reasons = found.forecasts.iter().flat_map(|forecast| forecast.refused.clone());
        assert!(reasons.all(|reason| reason.starts_with("no weight of a Linear layer")), "{format}");
        // Patterns match dequantized names.
        let excluded = asked.clone().exclude(vec!["*_proj*".parse().expect("a pattern")]);
        assert!(!by_name(&report(&quantized, &excluded).expect("found")).contains_key(tensors[0].0));
    }
}

#[test]
fn tensors_without_scales_and_empty_ones() {
    let names = ["mxfp4", "nvfp4", "float8e4m3fn/tensor", "int4/row", "float8e4m3fn/128x128", "float16"];
    let integers = TensorView::from_slice(&[2], &[1i64, 2]).expect("a tensor");
    let doubles = TensorView::from_slice(&[2], &[1.5f64, 2.5]).expect("a tensor");
    let scalar = TensorView::from_slice(&[], &[1.25f32]).expect("a tensor");
    let empty = TensorView::from_slice::<f32>(&[0, 1 << 40, 1 << 40], &[]).expect("a tensor");
    let tensors = [("i", integers), ("d", doubles), ("s", scalar), ("e", empty)];
    let found = report_of(&tensors, &request(&names)).expect("a report");
    let counts: Vec<(&str, usize)> =
        found.tensors.iter().map(|tensor| (&*tensor.name, tensor.candidates.len())).collect();
    assert_eq!(counts, [("d", 1), ("s", 6), ("e", 6)]);
    assert!(found.tensors[2].candidates.iter().all(|one| one.grade() == Grade::Exact && one.blocks.is_none()));
    // The only value is the largest one.
    let tensor = &found.tensors[1].candidates[2];
    assert_eq!((tensor.bytes, tensor.grade()), (5, Grade::Exact), "{tensor:?}");
    for to in [
        CandidateFormat::Elements(DataType::Float16, Granularity::Tensor),
        CandidateFormat::Elements(DataType::Int8, Granularity::Block([0, 4])),
    ] {
        let refused = report_of(&[], &ReportRequest::default().to(vec![to]));
        assert!(matches!(refused, Err(FileError::Candidate(_))), "{refused:?}");
    }
}
