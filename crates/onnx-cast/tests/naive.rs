//! Scaled casts beside a naive implementation (`testkit::naive`) over random shapes: 1 to 130 rows, columns up to
//! 32,768 and around the sizes of every part, block and vector; every granularity, type, backend, and several counts of
//! threads. `tests/scaled.rs` asks whether each element is right; this asks whether each element of a long row has its
//! own scale.
//!
//! `ONNX_CAST_ROUNDS=1000 cargo test --release -p onnx-cast --test naive` draws more cases, of other seeds.

#[path = "naive/draw.rs"]
mod draw;

use draw::{Case, Draw, Source};
use onnx_cast::backend::{self, Backend};
use onnx_cast::scaled::{
    BlockDequantize, BlockFormat, BlockPlan, BlockQuantize, DequantizeLinear, DequantizeOptions, DynamicQuantizeLinear,
    GlobalScale, LinearScale, QuantizeLinear, QuantizeOptions, Recipe, ScaleRule, amax, block_amax,
};
use onnx_cast::{DataType, Tensor, TensorView};
use testkit::Ty;
use testkit::block_scale as oracle;
use testkit::library::data_type;
use testkit::naive::{self, Dequantizer, Floats, Mx, Nvfp4, Quantizer};
use testkit::packing::{pack, unpack};
use testkit::scaled::{DEQUANTIZE_SCALES, FLOATS, QUANTIZED};

/// More threads than most machines have processors, so that tensors are cut in many ways.
const THREADS: usize = 5;

/// Calls `check` for cases that are drawn from the seeds of a test, on a pool of its own.
fn rounds(test: u64, count: u64, check: impl Fn(&mut Draw) + Sync) {
    let more = std::env::var("ONNX_CAST_ROUNDS").ok().and_then(|rounds| rounds.parse().ok());
    let pool = rayon::ThreadPoolBuilder::new().num_threads(THREADS).build().expect("a few threads");
    for round in 0..more.unwrap_or(count) {
        pool.scope(|_| check(&mut Draw::new(test << 32 | round)));
    }
}

/// The backends, each with a count of threads.
fn runs(draw: &mut Draw) -> Vec<(Backend, usize)> {
    backend::available().map(|backend| (backend, draw.one_of(&[1, 1, 2, 3, THREADS]))).collect()
}

/// A tensor of codes.
fn tensor(ty: Ty, shape: &[usize], codes: &[u64]) -> Tensor {
    Tensor::new(data_type(ty), shape.to_vec(), pack(ty, codes)).expect("the bytes of so many elements")
}

/// Compares the bytes of results, and names the first that differs.
#[track_caller]
fn compare(ty: Ty, got: &[u8], want: &[u64], what: impl Fn() -> String) {
    if got == pack(ty, want) {
        return;
    }
    let got = unpack(ty, got, want.len()).expect("the bytes of the results");
    match got.iter().zip(want).position(|(got, want)| got != want) {
        Some(i) => panic!("{}: element {i} is {:#x}, not {:#x}", what(), got[i], want[i]),
        None => panic!("{}: the padding is not zero", what()),
    }
}

/// Compares floats by their bits.
#[track_caller]
fn compare_floats(got: &[f32], want: &[f32], what: impl Fn() -> String) {
    assert_eq!(got.len(), want.len(), "{}", what());
    if let Some(i) = got.iter().zip(want).position(|(got, want)| got.to_bits() != want.to_bits()) {
        panic!("{}: scale {i} is {:e}, not {:e}", what(), got[i], want[i]);
    }
}

#[test]
fn quantize_linear() {
    rounds(1, 120, |draw| {
        let case = Case::of_onnx(draw);
        let x = Source::values(draw, &case);
        let to = draw.one_of(&QUANTIZED);
        let saturate = draw.below(4) > 0;
        let (scale_type, scales) = draw.scales(case.count(), &[Ty::Float, Ty::Float16, Ty::Bfloat16, Ty::Float8E8M0]);
        let zeros = draw.zero_points(case.count(), to);
        let places = case.blocks.places();
        let quantizer = Quantizer::new(to, saturate);
        let adds_zero = to.int_range().is_none() && to.bits() < 8;
        let floats = Floats::new(scale_type);
        let divisors: Vec<f32> = scales.iter().map(|code| floats.of(*code)).collect();
        let zero_of = |place: usize| match &zeros {
            Some(zeros) if to.int_range().is_some() => Some(draw::signed(to, zeros[place])),
            Some(_) if adds_zero => Some(0),
            _ => None,
        };
        let element = |(x, place): (&f32, &u32)| {
            let place = *place as usize;
            quantizer.code(*x, divisors[place], zero_of(place))
        };
        let want: Vec<u64> = x.floats.iter().zip(&places).map(element).collect();
        let (scale, input) = (tensor(scale_type, &case.scale_shape, &scales), x.tensor(&case));
        let zero = zeros.map(|zeros| tensor(to, &case.scale_shape, &zeros));
        let zero = zero.as_ref().map(Tensor::view);
        for (backend, threads) in runs(draw) {
            let options = QuantizeOptions::new().axis(case.axis).block_size(case.block_size).saturate(saturate);
            let options = options.precision(DataType::Float).output_dtype(data_type(to)).backend(backend);
            let operator = QuantizeLinear::new(&options.threads(threads)).expect("attributes of the newest version");
            let what = || format!("{backend:?}, {threads} threads: {:?} by {scale_type:?} to {to:?}, {case:?}", x.ty);
            let got = operator.run(&input.view(), &scale.view(), zero.as_ref()).expect("a case that fits");
            compare(to, got.bytes().expect("numbers"), &want, what);
            // A part of the tensor, from anywhere on.
            let plan = operator.plan(data_type(x.ty), data_type(scale_type), zero.as_ref().map(TensorView::data_type));
            let plan = plan.expect("types that it has");
            let bound = plan.bind(&case.blocks.shape, &scale.view(), zero.as_ref()).expect("a case that fits");
            let (start, len) = draw.part(want.len());
            let bytes = input.view().bytes().expect("numbers").to_vec();
            let width = x.ty.bits() as usize / 8;
            let want = &want[start..start + len];
            let mut out = vec![0xa5; pack(to, want).len()];
            bound.run_part(start, len, &bytes[start * width..(start + len) * width], &mut out).expect("a part");
            compare(to, &out, want, || format!("{} from {start} on", what()));
        }
    });
}

#[test]
fn dequantize_linear() {
    rounds(2, 120, |draw| {
        let case = Case::of_onnx(draw);
        let (from, to) = (draw.one_of(&QUANTIZED), draw.one_of(&FLOATS));
        let codes = draw.codes(from, case.len());
        let (scale_type, scales) = draw.scales(case.count(), &DEQUANTIZE_SCALES);
        let zeros = draw.zero_points(case.count(), from);
        let dequantizer = Dequantizer::new(from, to);
        let floats = Floats::new(scale_type);
        let factors: Vec<f32> = scales.iter().map(|code| floats.of(*code)).collect();
        let zero_of = |place: usize| match &zeros {
            Some(zeros) if from.int_range().is_some() => draw::signed(from, zeros[place]),
            _ => 0,
        };
        let element = |(code, place): (&u64, &u32)| {
            let place = *place as usize;
            dequantizer.code(*code, factors[place], zero_of(place))
        };
        let want: Vec<u64> = codes.iter().zip(&case.blocks.places()).map(element).collect();
        let scale = tensor(scale_type, &case.scale_shape, &scales);
        let input = tensor(from, &case.blocks.shape, &codes);
        let zero = zeros.map(|zeros| tensor(from, &case.scale_shape, &zeros));
        for (backend, threads) in runs(draw) {
            let options = DequantizeOptions::new().axis(case.axis).block_size(case.block_size).threads(threads);
            let options = options.output_dtype(data_type(to)).backend(backend);
            let operator = DequantizeLinear::new(&options).expect("attributes of the newest version");
            let zero = zero.as_ref().map(Tensor::view);
            let got = operator.run(&input.view(), &scale.view(), zero.as_ref()).expect("a case that fits");
            compare(to, got.bytes().expect("numbers"), &want, || {
                format!("{backend:?}, {threads} threads: {from:?} by {scale_type:?} to {to:?}, {case:?}")
            });
        }
    });
}

#[test]
fn dynamic_quantize_linear() {
    rounds(3, 20, |draw| {
        let case = Case::of_onnx(draw);
        let x = Source::floats(draw, &case);
        let input = x.tensor(&case);
        let low = x.floats.iter().fold(0f32, |low, x| low.min(*x));
        let high = x.floats.iter().fold(0f32, |high, x| high.max(*x));
        let (scale, zero) = naive::asymmetric(low + 0.0, high + 0.0, Ty::Uint8);
        let quantizer = Quantizer::new(Ty::Uint8, true);
        let want: Vec<u64> = x.floats.iter().map(|x| quantizer.code(*x, scale, Some(zero))).collect();
        let got = DynamicQuantizeLinear::new(11).expect("an opset that has it").run(&input.view()).expect("floats");
        assert_eq!((got.scale.to_bits(), i64::from(got.zero_point)), (scale.to_bits(), zero), "{case:?}");
        compare(Ty::Uint8, got.y.bytes().expect("numbers"), &want, || format!("{case:?}"));
    });
}

/// The scales that the library finds, and the elements by them.
#[test]
fn linear_scales() {
    rounds(4, 100, |draw| {
        let case = Case::of_onnx(draw);
        let x = Source::values(draw, &case);
        let to = draw.one_of(&QUANTIZED);
        let is_asymmetric = match to.int_range() {
            Some((0, _)) => true,
            Some(_) => draw.below(2) == 0,
            None => false,
        };
        let places = case.blocks.places();
        let (mut scales, mut zeros) = (Vec::new(), None);
        if is_asymmetric {
            let mut ranges = vec![[0f32; 2]; case.count()];
            for (x, place) in x.floats.iter().zip(&places).filter(|(x, _)| x.is_finite()) {
                let [low, high] = &mut ranges[*place as usize];
                (*low, *high) = (low.min(*x), high.max(*x));
            }
            let found: (Vec<f32>, Vec<i64>) =
                ranges.iter().map(|[low, high]| naive::finite_asymmetric(low + 0.0, high + 0.0, to)).unzip();
            (scales, zeros) = (found.0, Some(found.1));
        } else {
            scales.extend(naive::symmetric(&x.floats, &places, case.count(), to));
        }
        let quantizer = Quantizer::new(to, true);
        let element = |(x, place): (&f32, &u32)| {
            let place = *place as usize;
            quantizer.code(*x, scales[place], zeros.as_ref().map(|zeros| zeros[place]))
        };
        let want: Vec<u64> = x.floats.iter().zip(&places).map(element).collect();
        let mut linear = LinearScale::new(data_type(to));
        if !case.scale_shape.is_empty() {
            linear = linear.axis(case.axis).block_size(case.block_size);
        }
        let linear = if is_asymmetric { linear.asymmetric() } else { linear };
        let found = linear.run(&x.tensor(&case).view()).expect("a type of scales");
        let what = || format!("{:?} to {to:?}, {case:?}", x.ty);
        assert_eq!(found.scale.shape(), case.scale_shape, "{}", what());
        compare_floats(&found.scale.to_vec::<f32>().expect("floats"), &scales, what);
        if let Some(zeros) = zeros {
            let zeros: Vec<u64> = zeros.into_iter().map(|zero| zero as u64 & to.mask()).collect();
            compare(to, found.zero_point.expect("zero points").bytes().expect("numbers"), &zeros, what);
        }
        compare(to, found.y.bytes().expect("numbers"), &want, what);
    });
}

/// Greatest magnitudes and scaled casts in blocks of rows and columns, by row, and of whole tensors.
#[test]
fn rows_and_columns() {
    rounds(5, 120, |draw| {
        let case = Case::of_rows_and_columns(draw);
        let x = Source::values(draw, &case);
        let (places, input) = (case.blocks.places(), x.tensor(&case));
        let most = naive::greatest(&x.floats, &places, case.count());
        let [.., rows, columns] = *case.blocks.block else { unreachable!("two axes or three") };
        let what = || format!("{:?}, {case:?}", x.ty);
        let found = block_amax(&input.view(), [rows, columns]).expect("blocks");
        compare_floats(&found, &most, what);
        let whole = most.iter().fold(0f32, |whole, most| whole.max(*most));
        assert_eq!(amax(&input.view()).expect("floats").to_bits(), whole.to_bits(), "{}", what());

        let to = draw.one_of(&QUANTIZED);
        let scales = naive::symmetric(&x.floats, &places, case.count(), to);
        let global = draw.one_of(&[None, Some(GlobalScale::Factor(1.3)), Some(GlobalScale::Divisor(0.7))]);
        let combined = |scale: f32| match global {
            None => scale,
            Some(global) if global.divides() => scale / global.value(),
            Some(global) => scale * global.value(),
        };
        let quantizer = Quantizer::new(to, true);
        let codes =
            x.floats.iter().zip(&places).map(|(x, place)| quantizer.code(*x, combined(scales[*place as usize]), None));
        let codes: Vec<u64> = codes.collect();
        let (from, back) = (data_type(x.ty), draw.one_of(&FLOATS));
        let dequantizer = Dequantizer::new(to, back);
        let values = codes
            .iter()
            .zip(&places)
            .map(|(code, place)| dequantizer.code(*code, combined(scales[*place as usize]), 0));
        let values: Vec<u64> = values.collect();
        let bits = scales.iter().map(|scale| u64::from(scale.to_bits())).collect::<Vec<_>>();
        let scale = tensor(Ty::Float, &case.blocks.grid(), &bits);
        let quantize = BlockPlan::quantize(from, DataType::Float, data_type(to), [rows, columns]).expect("types");
        let dequantize = BlockPlan::dequantize(data_type(to), DataType::Float, data_type(back), [rows, columns]);
        let plans = [quantize, dequantize.expect("types")].map(|plan| plan.global_scale(global));
        for (plan, (from, source), (to, want)) in
            [(plans[0], (x.ty, &x.codes), (to, &codes)), (plans[1], (to, &codes), (back, &values))]
        {
            let bound = plan.bind(&case.blocks.shape, &scale.view(), None).expect("scales that fit");
            for (start, len) in [(0, want.len()), draw.part(want.len())] {
                let range = start..start + len;
                let mut out = vec![0xa5; pack(to, &want[range.clone()]).len()];
                bound.run_part(start, len, &pack(from, &source[range.clone()]), &mut out).expect("a part");
                compare(to, &out, &want[range], || format!("{} to {to:?}, {global:?}, from {start} on", what()));
            }
        }
    });
}

/// MX and NVFP4, there and back.
#[test]
fn block_formats() {
    rounds(6, 140, |draw| {
        let case = Case::of_onnx(draw);
        let mut x = Source::values(draw, &case);
        let columns = *case.blocks.shape.last().expect("an axis");
        let place = draw.below(BlockFormat::ALL.len() as u64) as usize;
        let (format, rule) = (BlockFormat::ALL[place], draw.below(4) as usize);
        let recipe = draw.below(3) as usize;
        let element = [oracle::MX_ELEMENTS.as_slice(), &[Ty::Float4E2M1]].concat()[place];
        assert_eq!(data_type(element), format.element());
        let amax = x.floats.iter().filter(|x| x.is_finite()).fold(0f32, |most, x| most.max(x.abs()));
        let mx = Mx::new(element, oracle::ScaleRule::ALL[rule]);
        let nvfp4 = Nvfp4::new(amax, oracle::Recipe::ALL[recipe], x.ty);
        let is_mx = format != BlockFormat::NvFp4;
        // A block's scale, and what its elements are multiplied with.
        let quantized = |block: &[f32], elements: &mut Vec<u64>| {
            let scale = if is_mx { mx.block(block, elements) } else { nvfp4.block(block, elements) };
            (scale, if is_mx { mx.factor(scale) } else { nvfp4.factor(scale) })
        };
        if x.ty == Ty::Float && draw.below(2) == 0 {
            let values = Floats::new(element);
            for block in x.floats.chunks_mut(columns).flat_map(|row| row.chunks_mut(format.block())) {
                let (_, factor) = quantized(block, &mut Vec::new());
                draw.beside_ties(block, &values, factor);
            }
            x.codes = x.floats.iter().map(|value| value.to_bits().into()).collect();
        }
        let blocks = x.floats.chunks(columns).flat_map(|row| row.chunks(format.block()));
        let (mut elements, mut factors) = (Vec::new(), Vec::new());
        let scales: Vec<u64> = blocks
            .map(|block| {
                let (scale, factor) = quantized(block, &mut elements);
                factors.extend(block.iter().map(|_| factor));
                scale
            })
            .collect();
        let back = draw.one_of(&FLOATS);
        let dequantizer = Dequantizer::new(element, back);
        let values = elements.iter().zip(&factors).map(|(code, factor)| dequantizer.code(*code, *factor, 0));
        let values: Vec<u64> = values.collect();
        let (rule, recipe) = (ScaleRule::ALL[rule], Recipe::ALL[recipe]);
        let input = x.tensor(&case);
        for (backend, threads) in runs(draw) {
            let what = || format!("{backend:?}, {threads} threads: {:?} to {format}, {rule}, {recipe}, {case:?}", x.ty);
            let quantize = BlockQuantize::new(format).rule(rule).recipe(recipe).backend(backend).threads(threads);
            let got = quantize.run(&input.view()).expect("floats");
            let global = got.global_scale.map(f32::to_bits);
            assert_eq!(global, (!is_mx).then_some(nvfp4.global.to_bits()), "{}", what());
            compare(Ty::Uint8, got.scales.bytes().expect("numbers"), &scales, || format!("{}: scales", what()));
            compare(element, got.elements.bytes().expect("numbers"), &elements, what);
            let dequantize = BlockDequantize::new(format, data_type(back)).recipe(recipe).backend(backend);
            let mut out = vec![0xa5; pack(back, &values).len()];
            let scales = got.scales.bytes().expect("numbers");
            let done = dequantize.threads(threads).run_into(&got.elements.view(), scales, got.global_scale, &mut out);
            done.expect("buffers that fit");
            compare(back, &out, &values, || format!("{}, back to {back:?}", what()));
        }
    });
}
