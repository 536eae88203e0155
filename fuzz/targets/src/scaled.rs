//! QuantizeLinear and DequantizeLinear of any shape, axis and block size, on every backend, against the oracle.

use arbitrary::{Result, Unstructured};
use onnx_cast::backend;
use onnx_cast::ops::OpError;
use onnx_cast::ops::{Dim, ValueInfo};
use onnx_cast::scaled::{DequantizeLinear, DequantizeOptions, QuantizeLinear, QuantizeOptions, ScaledPlan};
use onnx_cast::{NEWEST_OPSET, Tensor};
use testkit::library::data_type;
use testkit::naive::Blocks;
use testkit::packing::{pack, packed_len, unpack};
use testkit::scaled::{
    DEQUANTIZE_SCALES, FLOATS, QUANTIZE_SCALES, QUANTIZE_SOURCES, QUANTIZED, default_precision, dequantize_direct,
    quantize_direct, quotient_is_zero,
};
use testkit::{Rules, Ty, cast_bits};

/// More elements slow the oracle more than they show.
const MOST_ELEMENTS: usize = 2048;

/// The shapes of a case, and the attributes that they must fit.
struct Case {
    opset: i64,
    shape: Vec<usize>,
    axis: i64,
    block_size: usize,
    scale_shape: Vec<usize>,
    /// `None` without a zero point.
    zero_shape: Option<Vec<usize>>,
}

/// A few dimensions, mostly short ones.
fn dimensions(data: &mut Unstructured<'_>) -> Result<Vec<usize>> {
    let rank = data.int_in_range(0..=4)?;
    let dimension = |_| match data.int_in_range(0..=7)? {
        7 => data.int_in_range(0..=200),
        short => Ok(short),
    };
    (0..rank).map(dimension).collect()
}

impl Case {
    /// Shapes that mostly fit.
    fn new(data: &mut Unstructured<'_>) -> Result<Case> {
        let opset = if data.ratio(1, 4)? { data.int_in_range(9..=NEWEST_OPSET + 1)? } else { NEWEST_OPSET };
        let shape = dimensions(data)?;
        let rank = shape.len() as i64;
        let axis = match data.int_in_range(0..=7)? {
            0 => *data.choose(&[i64::MIN, -6, -rank - 1, rank, 6, i64::MAX])?,
            _ => data.int_in_range(-rank..=(rank - 1).max(-rank))?,
        };
        let place = usize::try_from(if axis < 0 { axis.saturating_add(rank) } else { axis }).unwrap_or(usize::MAX);
        let mut block_size = 0;
        let scale_shape = match data.int_in_range(0..=9)? {
            0 => vec![],
            1 => vec![1],
            2..=4 => shape.get(place).map_or(vec![], |&size| vec![size]),
            kind => {
                block_size = match data.int_in_range(0..=15)? {
                    15 => *data.choose(&[0, 32, 255, usize::MAX - 1, usize::MAX])?,
                    size => size + 1,
                };
                let mut scales = if kind == 9 { dimensions(data)? } else { shape.clone() };
                if let Some(size) = scales.get_mut(place) {
                    *size = size.div_ceil(block_size.max(1));
                }
                scales
            }
        };
        let zero_shape = match data.int_in_range(0..=7)? {
            0..=2 => None,
            3 => Some(dimensions(data)?),
            _ => Some(scale_shape.clone()),
        };
        Ok(Case { opset, shape, axis, block_size, scale_shape, zero_shape })
    }

    fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// The scale of each element, by its coordinates; `None` where the shapes do not fit.
    fn places(&self) -> Option<Vec<u32>> {
        let Case { opset, shape, axis, block_size, scale_shape, .. } = self;
        if *block_size == 0 && (scale_shape.is_empty() || *scale_shape == [1]) {
            return Some(vec![0; self.len()]);
        }
        let rank = shape.len() as i64;
        // Version 10 has one scale for the tensor.
        if *opset < 13 || !(-rank..rank).contains(axis) {
            return None;
        }
        let axis = axis.rem_euclid(rank) as usize;
        let (mut block, fits) = if *block_size == 0 {
            (shape.iter().map(|&size| size.max(1)).collect(), *scale_shape == [shape[axis]])
        } else {
            let others = |(i, (scale, size)): (usize, (&usize, &usize))| i == axis || scale == size;
            let fits = scale_shape.len() == shape.len()
                && scale_shape.iter().zip(shape).enumerate().all(others)
                && fits_axis(shape[axis], scale_shape[axis], *block_size);
            (vec![1; shape.len()], fits)
        };
        block[axis] = (*block_size).max(1);
        fits.then(|| Blocks { shape: shape.clone(), block }.places())
    }

    /// Whether a zero point of these codes may stand beside the scale.
    fn takes_zero_point(&self, ty: Ty, codes: &[u64]) -> bool {
        let is_single = |shape: &[usize]| shape.is_empty() || shape == [1];
        let fits = self
            .zero_shape
            .as_ref()
            .is_none_or(|shape| *shape == self.scale_shape || is_single(shape) && is_single(&self.scale_shape));
        let is_free = ty.int_range().is_some() && ty.bits() <= 16;
        let is_zero = |&code: &u64| cast_bits(ty, Ty::Bool, code, &Rules::default()) == 0;
        fits && (is_free || codes.iter().all(is_zero))
    }
}

/// ONNX's condition on `size` elements of an axis with so many scales.
fn fits_axis(size: usize, scales: usize, block_size: usize) -> bool {
    match scales {
        0 => size == 0,
        1 => size <= block_size,
        _ => size.div_ceil(scales) <= block_size && block_size < size.div_ceil(scales - 1),
    }
}

/// As many codes as a shape has elements, from bytes that repeat.
fn codes(ty: Ty, shape: &[usize], bytes: &mut impl Iterator<Item = u8>) -> (Tensor, Vec<u64>) {
    let count = shape.iter().product();
    let codes = unpack(ty, &bytes.take(packed_len(ty, count)).collect::<Vec<_>>(), count).expect("as many bytes");
    (Tensor::new(data_type(ty), shape.to_vec(), pack(ty, &codes)).expect("the bytes of the shape"), codes)
}

/// The value of a zero point; 0 of a float, or where there is none.
fn zero_of(ty: Ty, code: Option<u64>) -> i64 {
    let code = code.unwrap_or(0);
    let unused = 64 - ty.bits();
    match ty.int_range() {
        Some((low, _)) if low < 0 => (code << unused) as i64 >> unused,
        Some(_) => code as i64,
        None => 0,
    }
}

/// Runs plans of all backends and compares them with `want`, which gives a code for those of an element, a scale and a
/// zero point. Shapes and zero points that do not fit must be errors.
fn check(
    case: &Case,
    [from, scale, zero, to]: [Ty; 4],
    bytes: &[u8],
    plans: &[ScaledPlan],
    infer: impl Fn(&ValueInfo, &ValueInfo) -> std::result::Result<ValueInfo, OpError>,
    want: impl Fn(u64, u64, Option<u64>) -> u64,
) {
    let mut bytes = bytes.iter().copied().chain([0x3f]).cycle();
    // Small tensors first, so that a few bytes give them other values than the elements.
    let (scale_tensor, scales) = codes(scale, &case.scale_shape, &mut bytes);
    let zero_point = case.zero_shape.as_ref().map(|shape| codes(zero, shape, &mut bytes));
    let (x, elements) = codes(from, &case.shape, &mut bytes);
    let zero_codes = zero_point.as_ref().map_or(&[][..], |(_, codes)| codes);

    let places = case.places();
    let info = |ty, shape: &[usize]| {
        let shape = shape.iter().map(|&size| Dim::Known(size as u64)).collect();
        ValueInfo { data_type: data_type(ty), shape: Some(shape) }
    };
    let inferred = infer(&info(from, &case.shape), &info(scale, &case.scale_shape));
    assert_eq!(inferred.is_ok(), places.is_some(), "{inferred:?}: {:?}, {:?}", case.shape, case.scale_shape);

    let want = places.filter(|_| case.takes_zero_point(zero, zero_codes)).map(|places| {
        let one = |(&x, place): (&u64, u32)| want(x, scales[place as usize], zero_codes.get(place as usize).copied());
        pack(to, &elements.iter().zip(places).map(one).collect::<Vec<_>>())
    });
    let zero_view = zero_point.as_ref().map(|(tensor, _)| tensor.view());
    for plan in plans {
        let got = plan.run(&x.view(), &scale_tensor.view(), zero_view.as_ref());
        let names = [from, scale, to].map(Ty::name);
        let (shape, scales) = (&case.shape, &case.scale_shape);
        match (&got, &want) {
            (Ok(got), Some(want)) => {
                assert_eq!(got.shape(), shape);
                let (axis, block) = (case.axis, case.block_size);
                let got = got.bytes().expect("numbers");
                assert!(got == want, "{names:?} of {shape:?} by {scales:?}, axis {axis}, block {block}: {plan:?}");
            }
            (Err(_), None) => {}
            (got, _) => panic!("{got:?}: {names:?} of {shape:?} by {scales:?}, zero points {zero_point:?}: {plan:?}"),
        }
    }
}

/// Types and shapes of a QuantizeLinear, and bytes of its tensors. Too few bytes for a plan are no case.
pub fn quantize(data: &[u8]) {
    let _ = try_quantize(Unstructured::new(data));
}

fn try_quantize(mut data: Unstructured<'_>) -> Result<()> {
    let (from, scale) = (*data.choose(&QUANTIZE_SOURCES)?, *data.choose(&QUANTIZE_SCALES)?);
    let to = *data.choose(&QUANTIZED)?;
    let precision = *data.choose(&[None, Some(FLOATS[0]), Some(FLOATS[1]), Some(FLOATS[2])])?;
    let saturate: bool = data.arbitrary()?;
    let case = Case::new(&mut data)?;
    if case.len() > MOST_ELEMENTS {
        return Ok(());
    }
    let has_zero = case.zero_shape.is_some();
    let options = QuantizeOptions::new()
        .opset(case.opset)
        .axis((case.axis != 1).then_some(case.axis))
        .block_size(case.block_size)
        .saturate((!saturate).then_some(false))
        .precision(precision.map(data_type))
        .output_dtype((!has_zero).then_some(data_type(to)));
    let zero_type = has_zero.then_some(data_type(to));
    let operator = |backend| QuantizeLinear::new(&options.backend(backend));
    let plan = |backend| operator(Some(backend))?.plan(data_type(from), data_type(scale), zero_type);
    // A version that lacks a type or an attribute.
    let Ok(plans) = backend::available().map(plan).collect::<std::result::Result<Vec<_>, OpError>>() else {
        assert_ne!(case.opset, NEWEST_OPSET);
        return Ok(());
    };
    let zero_info = zero_type.map(|data_type| ValueInfo { data_type, shape: None });
    let infer = |x: &ValueInfo, scale: &ValueInfo| operator(None)?.infer(x, scale, zero_info.as_ref());
    let precision = precision.unwrap_or(default_precision(scale));
    let is_added = to.int_range().is_none() && to.bits() < 8;
    let want = |x, factor, zero| {
        // Where the zero point is 0, the sum with -0 is 0; where that is -0 too, it stays.
        if is_added && zero == Some(0) && quotient_is_zero((from, x), (scale, factor), precision) {
            return 0;
        }
        quantize_direct((from, x), (scale, factor), zero_of(to, zero), to, precision, saturate)
    };
    check(&case, [from, scale, to, to], data.take_rest(), &plans, infer, want);
    Ok(())
}

/// Types and shapes of a DequantizeLinear, and bytes of its tensors. Too few bytes for a plan are no case.
pub fn dequantize(data: &[u8]) {
    let _ = try_dequantize(Unstructured::new(data));
}

fn try_dequantize(mut data: Unstructured<'_>) -> Result<()> {
    let from = if data.ratio(1, 16)? { Ty::Int32 } else { *data.choose(&QUANTIZED)? };
    let (scale, to) = (*data.choose(&DEQUANTIZE_SCALES)?, *data.choose(&FLOATS)?);
    let case = Case::new(&mut data)?;
    if case.len() > MOST_ELEMENTS {
        return Ok(());
    }
    let options = DequantizeOptions::new()
        .opset(case.opset)
        .axis((case.axis != 1).then_some(case.axis))
        .block_size(case.block_size)
        .output_dtype((to != scale).then_some(data_type(to)));
    let zero_type = case.zero_shape.is_some().then_some(data_type(from));
    let operator = |backend| DequantizeLinear::new(&options.backend(backend));
    let plan = |backend| operator(Some(backend))?.plan(data_type(from), data_type(scale), zero_type);
    let Ok(plans) = backend::available().map(plan).collect::<std::result::Result<Vec<_>, OpError>>() else {
        assert_ne!(case.opset, NEWEST_OPSET);
        return Ok(());
    };
    let zero_info = zero_type.map(|data_type| ValueInfo { data_type, shape: None });
    let infer = |x: &ValueInfo, scale: &ValueInfo| operator(None)?.infer(x, scale, zero_info.as_ref());
    let want = |x, factor, zero| dequantize_direct((from, x), (scale, factor), zero_of(from, zero), to);
    check(&case, [from, scale, from, to], data.take_rest(), &plans, infer, want);
    Ok(())
}
