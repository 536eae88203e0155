//! Scaled casts beside the exact oracle: every type, version and granularity, on every backend.

use onnx_cast::backend::{self, Backend};
use onnx_cast::ops::{CastErrorKind, OpErrorKind};
use onnx_cast::ops::{Dim, ValueInfo};
use onnx_cast::scaled::{
    DequantizeLinear, DequantizeOptions, DynamicQuantizeLinear, QuantizeLinear, QuantizeOptions, ScaledPlan,
};
use onnx_cast::{CastError, DataType, Tensor, TensorView};
use testkit::Ty;
use testkit::generators::{Rng, every, near_ties, random, random_scaled, special};
use testkit::library::data_type;
use testkit::packing::{pack, unpack};
use testkit::scaled::{
    DEQUANTIZE_SCALES, FLOATS, QUANTIZE_SCALES, QUANTIZE_SOURCES, QUANTIZED, default_precision, dequantize_direct,
    quantize_direct, quotient_is_zero,
};

/// A tensor of codes.
fn tensor(ty: Ty, shape: &[usize], codes: &[u64]) -> Tensor {
    assert_eq!(shape.iter().product::<usize>(), codes.len());
    Tensor::new(data_type(ty), shape.to_vec(), pack(ty, codes)).expect("the bytes of so many elements")
}

/// How scales lie over a tensor of `rows` by `columns`: shape, axis, block size, and the scale's place by row and
/// column.
struct Granularity {
    shape: [usize; 2],
    scale: Vec<usize>,
    axis: i64,
    block_size: usize,
    place: fn(usize, usize, &[usize], usize) -> usize,
}

impl Granularity {
    /// One of each kind, for a tensor of as many elements.
    fn all(rows: usize, columns: usize) -> Vec<Granularity> {
        let shape = [rows, columns];
        let granularity = |scale: &[usize], axis, block_size, place| Granularity {
            shape,
            scale: scale.to_vec(),
            axis,
            block_size,
            place,
        };
        let mut all = vec![
            granularity(&[], 1, 0, |_, _, _, _| 0),
            granularity(&[rows], 0, 0, |row, _, _, _| row),
            granularity(&[columns], -1, 0, |_, column, _, _| column),
        ];
        for block in [1, 3, 16, 32, 33] {
            all.push(granularity(&[rows, columns.div_ceil(block)], 1, block, |row, column, scale, block| {
                row * scale[1] + column / block
            }));
            all.push(granularity(&[rows.div_ceil(block), columns], -2, block, |row, column, scale, block| {
                row / block * scale[1] + column
            }));
        }
        all
    }

    fn scales(&self) -> usize {
        self.scale.iter().product()
    }

    fn place_of(&self, element: usize) -> usize {
        (self.place)(element / self.shape[1], element % self.shape[1], &self.scale, self.block_size)
    }
}

/// Values and scales of a test, and what each element must become.
struct Case<'a> {
    granularity: &'a Granularity,
    x: (Ty, Vec<u64>),
    scale: (Ty, Vec<u64>),
    zero_point: Option<(Ty, Vec<u64>)>,
    to: Ty,
}

impl Case<'_> {
    fn zero(&self, place: usize) -> i64 {
        let Some((ty, codes)) = &self.zero_point else { return 0 };
        let Some((low, _)) = ty.int_range() else { return 0 };
        let unused = 64 - ty.bits();
        let code = codes[place] << unused;
        if low < 0 { (code as i64) >> unused } else { (code >> unused) as i64 }
    }

    /// Runs the plan and compares each element with what `want` gives for an element, a scale and a zero point.
    #[track_caller]
    fn check(&self, backend: Backend, plan: &ScaledPlan, want: impl Fn(u64, u64, i64) -> u64) -> usize {
        let granularity = self.granularity;
        let x = tensor(self.x.0, &granularity.shape, &self.x.1);
        let scale = tensor(self.scale.0, &granularity.scale, &self.scale.1);
        let zero = self.zero_point.as_ref().map(|(ty, codes)| tensor(*ty, &granularity.scale, codes));
        let got =
            plan.run(&x.view(), &scale.view(), zero.as_ref().map(Tensor::view).as_ref()).expect("a case that fits");
        assert_eq!((got.data_type(), got.shape()), (data_type(self.to), &granularity.shape[..]));
        let codes = unpack(self.to, got.bytes().expect("numbers"), self.x.1.len()).expect("the bytes of the elements");
        for (element, (&code, &x)) in codes.iter().zip(&self.x.1).enumerate() {
            let place = granularity.place_of(element);
            let (scale, zero) = (self.scale.1[place], self.zero(place));
            let want = want(x, scale, zero);
            assert!(
                code == want,
                "{backend:?}: {} {x:#x} by {} {scale:#x}, zero point {zero}, to {}: {code:#x}, not {want:#x} (element \
                 {element} of {:?}, scale {:?}, axis {}, block {})",
                self.x.0.name(),
                self.scale.0.name(),
                self.to.name(),
                granularity.shape,
                granularity.scale,
                granularity.axis,
                granularity.block_size
            );
        }
        codes.len()
    }
}

/// `count` scales: of every kind, and mostly ordinary ones.
fn scales(ty: Ty, count: usize, seed: u64) -> Vec<u64> {
    let mut rng = Rng::new(seed);
    let (special, ordinary) = (special(ty), random_scaled(ty, count, seed ^ 1));
    let pick = |ordinary| if rng.below(3) == 0 { special[rng.below(special.len() as u64) as usize] } else { ordinary };
    ordinary.into_iter().map(pick).collect()
}

/// Values to be quantized: every one of 16 bits, else special ones, random ones, and those whose quotients by a scale
/// are near ties.
fn values(ty: Ty, to: Ty, count: usize, seed: u64) -> Vec<u64> {
    let mut values = if ty.bits() == 16 { every(ty) } else { special(ty) };
    values.extend(near_ties(ty, to, count / 4, seed));
    values.extend(random_scaled(ty, count / 4, seed));
    let mut rng = Rng::new(seed);
    // Any part of them, in any order.
    for i in (1..values.len()).rev() {
        values.swap(i, rng.below(i as u64 + 1) as usize);
    }
    values.into_iter().cycle().take(count).collect()
}

fn zero_points(ty: Ty, count: usize, seed: u64) -> Option<(Ty, Vec<u64>)> {
    match (seed % 3, ty.int_range()) {
        (0, _) => None,
        (_, Some(_)) if ty.bits() <= 16 => Some((ty, random(ty, count, seed))),
        _ => Some((ty, vec![0; count])),
    }
}

/// The seed of a case of these types: what is drawn for one does not change when a type is added.
fn seed_of(types: [Ty; 3], case: usize) -> u64 {
    let number = types.iter().fold(case as u64, |seed, ty| seed << 8 | ty.code() as u64);
    Rng::new(number).next_u64() >> 40
}

#[test]
fn quantize_is_the_oracles() {
    let mut elements = 0;
    for x in QUANTIZE_SOURCES {
        for scale in QUANTIZE_SCALES {
            for to in QUANTIZED {
                for (case, (precision, saturate)) in [None, Some(FLOATS[0]), Some(FLOATS[1]), Some(FLOATS[2])]
                    .into_iter()
                    .zip([true, false, true, false])
                    .enumerate()
                {
                    let seed = seed_of([x, scale, to], case);
                    let all = Granularity::all(37, 67);
                    let granularity = &all[seed as usize % all.len()];
                    let case = Case {
                        granularity,
                        x: (x, values(x, to, 37 * 67, seed)),
                        scale: (scale, scales(scale, granularity.scales(), seed)),
                        zero_point: zero_points(to, granularity.scales(), seed),
                        to,
                    };
                    for backend in backend::available() {
                        let options = QuantizeOptions::new()
                            .axis(granularity.axis)
                            .block_size(granularity.block_size)
                            .saturate(saturate)
                            .precision(precision.map(data_type))
                            .output_dtype(data_type(to))
                            .backend(backend);
                        let zero_type = case.zero_point.as_ref().map(|(ty, _)| data_type(*ty));
                        let operator = QuantizeLinear::new(&options).expect("attributes of the newest version");
                        let plan = operator.plan(data_type(x), data_type(scale), zero_type).expect("types that it has");
                        let precision = precision.unwrap_or(default_precision(scale));
                        let adds_zero = case.zero_point.is_some() && to.int_range().is_none() && to.bits() < 8;
                        elements += case.check(backend, &plan, |value, factor, zero| {
                            if adds_zero && quotient_is_zero((x, value), (scale, factor), precision) {
                                return 0;
                            }
                            quantize_direct((x, value), (scale, factor), zero, to, precision, saturate)
                        });
                    }
                }
            }
        }
    }
    println!("{elements} elements compared");
}

/// Quotients by ordinary scales that lie at, or beside, the ties of the target, where a quotient that was rounded twice
/// or came from an approximate reciprocal would show.
#[test]
fn quantize_near_ties() {
    for to in QUANTIZED {
        let ties = near_ties(Ty::Float, to, 3000, 5).into_iter().map(|bits| f32::from_bits(bits as u32));
        let ties: Vec<f32> = ties.collect();
        for (i, scale) in random_scaled(Ty::Float, 40, 6).into_iter().enumerate() {
            let factor = f32::from_bits(scale as u32);
            let near = ties.iter().flat_map(|tie| {
                let x = tie * factor;
                [x, x.next_up(), x.next_down()]
            });
            let x: Vec<u64> = near.map(|x| x.to_bits().into()).collect();
            let granularity = &Granularity::all(1, x.len())[0];
            let case = Case { granularity, x: (Ty::Float, x), scale: (Ty::Float, vec![scale]), zero_point: None, to };
            for backend in backend::available() {
                let options = QuantizeOptions::new().saturate(i % 2 == 0).output_dtype(data_type(to)).backend(backend);
                let operator = QuantizeLinear::new(&options).expect("attributes of the newest version");
                let plan = operator.plan(DataType::Float, DataType::Float, None).expect("types that it has");
                case.check(backend, &plan, |value, factor, zero| {
                    quantize_direct((Ty::Float, value), (Ty::Float, factor), zero, to, Ty::Float, i % 2 == 0)
                });
            }
        }
    }
}

#[test]
fn dequantize_is_the_oracles() {
    let mut elements = 0;
    for x in QUANTIZED.into_iter().chain([Ty::Int32]) {
        for scale in DEQUANTIZE_SCALES {
            for to in FLOATS {
                for (case, (rows, columns)) in [(37, 67), (3, 1500)].into_iter().enumerate() {
                    let seed = seed_of([x, scale, to], case);
                    let all = Granularity::all(rows, columns);
                    let granularity = &all[seed as usize % all.len()];
                    let count = rows * columns;
                    let mut codes = if x.bits() <= 16 { every(x) } else { special(x) };
                    codes.extend(random(x, count, seed));
                    let skip = if codes.len() > 2 * count { seed as usize * 977 % (codes.len() - count) } else { 0 };
                    let case = Case {
                        granularity,
                        x: (x, codes.into_iter().skip(skip).take(count).collect()),
                        scale: (scale, scales(scale, granularity.scales(), seed)),
                        zero_point: zero_points(x, granularity.scales(), seed),
                        to,
                    };
                    for backend in backend::available() {
                        let options = DequantizeOptions::new()
                            .axis(granularity.axis)
                            .block_size(granularity.block_size)
                            .output_dtype(data_type(to))
                            .backend(backend);
                        let zero_type = case.zero_point.as_ref().map(|(ty, _)| data_type(*ty));
                        let operator = DequantizeLinear::new(&options).expect("attributes of the newest version");
                        let plan = operator.plan(data_type(x), data_type(scale), zero_type).expect("types that it has");
                        elements += case.check(backend, &plan, |value, factor, zero| {
                            dequantize_direct((x, value), (scale, factor), zero, to)
                        });
                    }
                }
            }
        }
    }
    println!("{elements} elements compared");
}

/// Every code of every type of 8 bits or fewer by every scale of float8e8m0.
#[test]
fn dequantize_every_code_by_every_power_of_two() {
    for x in QUANTIZED.into_iter().filter(|x| x.bits() <= 8) {
        let codes = every(x);
        let granularity = Granularity {
            shape: [256, codes.len()],
            scale: vec![256],
            axis: 0,
            block_size: 0,
            place: |row, _, _, _| row,
        };
        for to in FLOATS {
            let case = Case {
                granularity: &granularity,
                x: (x, codes.repeat(256)),
                scale: (Ty::Float8E8M0, every(Ty::Float8E8M0)),
                zero_point: None,
                to,
            };
            for backend in backend::available() {
                let options = DequantizeOptions::new().axis(0).output_dtype(data_type(to)).backend(backend);
                let operator = DequantizeLinear::new(&options).expect("attributes of the newest version");
                let plan = operator.plan(data_type(x), DataType::Float8E8M0, None).expect("types that it has");
                case.check(backend, &plan, |value, factor, zero| {
                    dequantize_direct((x, value), (Ty::Float8E8M0, factor), zero, to)
                });
            }
        }
    }
}

/// Large tensors run in parts, on threads and past the caches; the results are those of their rows.
#[test]
fn large_tensors_are_their_parts() {
    let (rows, columns): (usize, usize) = (1001, 7003);
    let x: Vec<f32> = (0..rows * columns).map(|i| (i % 1013) as f32 * 0.37 - 180.0).collect();
    let scale: Vec<f32> = (0..rows * columns.div_ceil(32)).map(|i| 0.01 + (i % 97) as f32).collect();
    let (x_shape, scale_shape) = ([rows, columns], [rows, columns.div_ceil(32)]);
    for to in [DataType::Int8, DataType::Uint4, DataType::Float8E4M3FN, DataType::Float6E2M3, DataType::Int16] {
        let options = QuantizeOptions::new().block_size(32).output_dtype(to);
        let plan =
            |options: &QuantizeOptions| QuantizeLinear::new(options)?.plan(DataType::Float, DataType::Float, None);
        let back = DequantizeOptions::new().block_size(32);
        let scales = TensorView::from_slice(&scale_shape, &scale).expect("a slice of the shape");
        let x_view = TensorView::from_slice(&x_shape, &x).expect("a slice of the shape");
        let whole = plan(&options.threads(3)).expect("types that it has").run(&x_view, &scales, None).expect("fits");
        let one = plan(&options.threads(1)).expect("types that it has").run(&x_view, &scales, None).expect("fits");
        assert_eq!(whole, one, "{to}");
        let operator = DequantizeLinear::new(&back).expect("attributes of the newest version");
        let values = operator.run(&whole.view(), &scales, None).expect("fits").to_vec::<f32>().expect("floats");
        for row in [0, 1, 500, 1000] {
            let shape = [1, columns];
            let part = TensorView::from_slice(&shape, &x[row * columns..][..columns]).expect("a row");
            let scale = &scale[row * scale_shape[1]..][..scale_shape[1]];
            let scale_shape = [1, scale_shape[1]];
            let scale = TensorView::from_slice(&scale_shape, scale).expect("a row of scales");
            let part = plan(&options).expect("types that it has").run(&part, &scale, None).expect("fits");
            let part = operator.run(&part.view(), &scale, None).expect("fits").to_vec::<f32>().expect("floats");
            assert_eq!(values[row * columns..][..columns], part, "{to}, row {row}");
        }
    }
}

#[test]
fn what_does_not_fit_is_an_error() {
    let bytes = [0u8; 4096];
    let view = |ty: DataType, shape: &'static [usize]| {
        let len = ty.byte_len(shape.iter().product()).expect("few elements");
        TensorView::new(ty, shape, &bytes[..len]).expect("bytes of the shape")
    };
    let quantize = |options: QuantizeOptions,
                    x: &'static [usize],
                    scale: &'static [usize],
                    zero: Option<(DataType, &'static [usize])>| {
        let zero = zero.map(|(ty, shape)| view(ty, shape));
        let result = QuantizeLinear::new(&options)
            .map_err(CastError::from)
            .and_then(|op| op.run(&view(DataType::Float, x), &view(DataType::Float, scale), zero.as_ref()));
        result.map(|_| ()).map_err(|error| error.to_string())
    };
    let new = QuantizeOptions::new;
    assert_eq!(quantize(new(), &[2, 3], &[3], None), Ok(()));
    assert_eq!(
        quantize(new(), &[2, 3], &[2], None).unwrap_err(),
        "a scale of shape [2] for an input of shape [2, 3] (want one element, or one for each of axis 1)"
    );
    assert_eq!(
        quantize(new(), &[3], &[3], None).unwrap_err(),
        "`axis` is 1 for an input of 1 dimension (want -1 or 0)"
    );
    assert_eq!(
        quantize(new(), &[], &[3], None).unwrap_err(),
        "`axis` is 1 for an input without dimensions (want a scale of one element)"
    );
    assert_eq!(quantize(new().axis(0), &[3], &[3], None), Ok(()));
    let blocked = "a scale of shape [] for an input of shape [2, 3] in blocks of 2 on axis 1 (want the input's shape \
                   with an element for each block)";
    assert_eq!(quantize(new().block_size(2), &[2, 3], &[], None).unwrap_err(), blocked);
    assert_eq!(quantize(new().block_size(2), &[2, 3], &[2, 2], None), Ok(()));
    assert!(quantize(new().block_size(3), &[2, 3], &[2, 2], None).is_err());
    // A block that is longer than its axis is one block.
    assert_eq!(quantize(new().block_size(9), &[2, 3], &[2, 1], None), Ok(()));
    assert_eq!(quantize(new().block_size(2), &[2, 0], &[2, 0], None), Ok(()));
    assert_eq!(
        quantize(new(), &[2, 3], &[3], Some((DataType::Int8, &[2]))).unwrap_err(),
        "a zero point of shape [2] beside a scale of shape [3] (want the same)"
    );
    assert_eq!(
        quantize(new().output_dtype(DataType::Uint8), &[2, 3], &[3], Some((DataType::Int8, &[3]))).unwrap_err(),
        "QuantizeLinear-28: `y_zero_point` is int8, where uint8 is needed"
    );
    assert_eq!(
        quantize(new().opset(20).axis(0), &[2, 3], &[2], Some((DataType::Int16, &[2]))).unwrap_err(),
        "QuantizeLinear-19 does not take int16 as quantized elements (QuantizeLinear-21 is the first that does)"
    );
    assert_eq!(
        quantize(new().opset(20).block_size(2), &[2, 3], &[2, 2], None).unwrap_err(),
        "QuantizeLinear-19 has no attribute `block_size` (QuantizeLinear-21 is the first that has it)"
    );
    assert!(quantize(new().precision(DataType::Double), &[2], &[], None).is_err());
    let ones = [0x38u8; 1];
    let one = TensorView::new(DataType::Float8E4M3FN, &[], &ones).expect("a byte");
    let result = QuantizeLinear::new(&new()).expect("no attributes").run(
        &view(DataType::Float, &[2]),
        &view(DataType::Float, &[]),
        Some(&one),
    );
    assert_eq!(result, Err(CastErrorKind::ZeroPoint { data_type: DataType::Float8E4M3FN, index: 0 }.into()));
    let scale = [127u8];
    let scale = TensorView::new(DataType::Float8E8M0, &[], &scale).expect("a byte");
    let operator = DequantizeLinear::new(&DequantizeOptions::new()).expect("no attributes");
    assert_eq!(
        operator.run(&view(DataType::Int8, &[2]), &scale, None),
        Err(CastErrorKind::Op(OpErrorKind::MissingOutputType { version: 28 }).into())
    );
}

/// ONNX adds the zero point of a float of 6 bits or fewer, which can change the sign of a zero.
#[test]
fn a_zero_point_of_a_small_float_is_added() {
    let (x, scale) = ([-0.0f32, -1.0], [1.0f32]);
    let (x, scale) = (TensorView::from_slice(&[2], &x), TensorView::from_slice(&[], &scale));
    let (x, scale) = (x.expect("a slice"), scale.expect("a slice"));
    let codes = |code: Option<u8>| {
        let bytes = [code.unwrap_or(0)];
        let zero = TensorView::new(DataType::Float4E2M1, &[], &bytes).expect("a byte");
        let operator = QuantizeLinear::new(&QuantizeOptions::new().output_dtype(DataType::Float4E2M1));
        let y = operator.expect("attributes").run(&x, &scale, code.map(|_| zero).as_ref()).expect("a case that fits");
        y.bytes().expect("numbers")[0]
    };
    assert_eq!([None, Some(8), Some(0)].map(codes), [0xa8, 0xa8, 0xa0]);
}

/// Quotients of the least numbers by scales that are no powers of two: a zero point that is added tells -0 from them.
#[test]
fn a_zero_point_is_added_to_the_nearest_quotient() {
    let scales: Vec<u64> = random_scaled(Ty::Bfloat16, 200, 8).into_iter().map(|code| code & 0x7fff).collect();
    let mut elements = 0;
    for to in [Ty::Float4E2M1, Ty::Float6E2M3, Ty::Float6E3M2] {
        for (x, scale) in [(Ty::Float, Ty::Float), (Ty::Bfloat16, Ty::Bfloat16), (Ty::Float, Ty::Bfloat16)] {
            let mut values: Vec<u64> = (0..40).chain((5..120).map(|e| (e << (x.bits() - 9)) + 3)).collect();
            values.extend(values.clone().into_iter().map(|code| code | 1 << (x.bits() - 1)));
            let granularity = &Granularity::all(1, values.len())[0];
            for factor in scales.iter().map(|code| if scale == Ty::Float { code << 16 | 0x1234 } else { *code }) {
                for zero in [0, 1 << (to.bits() - 1)] {
                    let (x, scale) = ((x, values.clone()), (scale, vec![factor]));
                    let case = Case { granularity, x, scale, zero_point: Some((to, vec![zero])), to };
                    for backend in backend::available() {
                        let options = QuantizeOptions::new().output_dtype(data_type(to)).backend(backend);
                        let operator = QuantizeLinear::new(&options).expect("attributes of the newest version");
                        let types = [case.x.0, case.scale.0, to].map(data_type);
                        let plan = operator.plan(types[0], types[1], Some(types[2])).expect("types that it has");
                        let precision = default_precision(case.scale.0);
                        elements += case.check(backend, &plan, |value, factor, _| {
                            let (x, scale) = ((case.x.0, value), (case.scale.0, factor));
                            if zero == 0 && quotient_is_zero(x, scale, precision) {
                                return 0;
                            }
                            quantize_direct(x, scale, 0, to, precision, true)
                        });
                    }
                }
            }
        }
    }
    println!("{elements} elements compared");
}

/// Errors name what is wrong and, where there is one, the operator that was asked for.
#[test]
fn errors_name_the_parameter_and_the_operator() {
    use onnx_cast::scaled::{BlockDequantize, BlockFormat, BlockPlan, BlockQuantize, LinearScale};
    let (x, codes) = ([1f64; 6], [1u8; 6]);
    let x = TensorView::from_slice(&[2, 3], &x).expect("a slice");
    let values = "values of double (want float, float16 or bfloat16)";
    let block = BlockQuantize::new(BlockFormat::MxFp4);
    let codes = TensorView::new(DataType::Int8, &[2, 3], &codes).expect("bytes");
    let (mut out, types) = ([0; 48], (DataType::Double, DataType::Float, DataType::Int8));
    let dequantize = BlockDequantize::new(BlockFormat::MxInt8, DataType::Double);
    for error in [
        block.run(&x).expect_err("doubles").to_string(),
        dequantize.run_into(&codes, &[127, 127], None, &mut out).expect_err("doubles").to_string(),
        LinearScale::new(DataType::Int8).run(&x).expect_err("doubles").to_string(),
        onnx_cast::scaled::amax(&x).expect_err("doubles").to_string(),
        onnx_cast::scaled::block_amax(&x, [1, 1]).expect_err("doubles").to_string(),
        BlockPlan::quantize(types.0, types.1, types.2, [1, 2]).expect_err("doubles").to_string(),
        BlockPlan::dequantize(types.2, types.1, types.0, [1, 2]).expect_err("doubles").to_string(),
    ] {
        assert_eq!(error, values);
    }
    let dequantize = BlockDequantize::new(BlockFormat::MxInt8, DataType::Float);
    let error = dequantize.run_into(&codes, &[127], None, &mut out[..24]).expect_err("a scale is missing").to_string();
    assert_eq!(error, "1 byte for 2x1 float8e8m0 (want 2)");
    let quantize = QuantizeLinear::new(&QuantizeOptions::new()).expect("no attributes");
    let dequantize = DequantizeLinear::new(&DequantizeOptions::new()).expect("no attributes");
    let [int8, float, double] = [DataType::Int8, DataType::Float, DataType::Double];
    for (error, want) in [
        (quantize.plan(float, double, None), "QuantizeLinear-28 does not take double as a scale"),
        (dequantize.plan(int8, double, None), "DequantizeLinear-28 does not take double as a scale"),
        (quantize.plan(double, float, None), "QuantizeLinear-28 does not take double as values"),
        (dequantize.plan(double, float, None), "DequantizeLinear-28 does not take double as quantized elements"),
    ] {
        let error = error.expect_err("a type that it does not have").to_string();
        assert!(error.starts_with(want), "{error}");
    }
}

/// Version 10 has one scale for the tensor, by its text.
#[test]
fn the_scale_of_version_10_is_a_scalar() {
    let (x, scale, codes) = ([1f32; 6], [2f32; 3], [1u8; 6]);
    let x = TensorView::from_slice(&[2, 3], &x).expect("a slice");
    let codes = TensorView::new(DataType::Uint8, &[2, 3], &codes).expect("bytes");
    let [one, three] =
        [&[1usize][..], &[3]].map(|shape| TensorView::from_slice(shape, &scale[..shape[0]]).expect("a slice"));
    for opset in [10, 11, 12] {
        let quantize = QuantizeLinear::new(&QuantizeOptions::new().opset(opset)).expect("an opset that has it");
        let dequantize = DequantizeLinear::new(&DequantizeOptions::new().opset(opset)).expect("an opset that has it");
        assert!(quantize.run(&x, &one, None).is_ok() && dequantize.run(&codes, &one, None).is_ok());
        assert_eq!(
            quantize.run(&x, &three, None).expect_err("three scales").to_string(),
            "QuantizeLinear-10: a scale of shape [3] (want one element; QuantizeLinear-13 is the first that has a \
             scale for each element of an axis)"
        );
        let error = dequantize.run(&codes, &three, None).expect_err("three scales").to_string();
        assert!(error.starts_with("DequantizeLinear-10: a scale of shape [3] (want one element;"), "{error}");
        let plan = dequantize.plan(DataType::Uint8, DataType::Float, None).expect("types that it has");
        assert!(plan.bind(&[2, 3], &three, None).is_err() && plan.bind(&[2, 3], &one, None).is_ok());
        let info = |data_type, sizes: &[u64]| ValueInfo {
            data_type,
            shape: Some(sizes.iter().map(|size| Dim::Known(*size)).collect()),
        };
        let infer = |scale| quantize.infer(&info(DataType::Float, &[2, 3]), &info(DataType::Float, scale), None);
        assert!(infer(&[3]).is_err() && infer(&[]).is_ok());
    }
    let quantize = QuantizeLinear::new(&QuantizeOptions::new().opset(13)).expect("an opset that has it");
    assert!(quantize.run(&x, &three, None).is_ok());
}

#[test]
fn dynamic_quantize() {
    let run = |x: &[f32]| {
        let shape = [x.len()];
        let found = DynamicQuantizeLinear::new(11).expect("an opset that has it");
        let found = found.run(&TensorView::from_slice(&shape, x).expect("a slice")).expect("floats");
        (found.y.to_vec::<u8>().expect("uint8"), found.scale, found.zero_point)
    };
    assert_eq!(run(&[]), (vec![], 1.0, 0));
    assert_eq!(run(&[0.0, -0.0]), (vec![0, 0], 1.0, 0));
    assert_eq!(run(&[f32::NAN, 1.0]), (vec![0, 255], 1.0 / 255.0, 0));
    assert_eq!(run(&[f32::INFINITY, 1.0]).1, f32::INFINITY);
    assert_eq!(run(&[f32::NEG_INFINITY, 1.0]).2, 255);
}

/// The formats with their rules and recipes, in rows with and without a short last block.
#[test]
fn block_formats_are_the_oracles() {
    use onnx_cast::scaled::{BlockFormat, BlockQuantize, Recipe, ScaleRule};
    use testkit::block_scale as oracle;
    let ty = |data_type: DataType| {
        Ty::NUMERIC.into_iter().find(|ty| self::data_type(*ty) == data_type).expect("a numeric type")
    };
    let mut rng = Rng::new(11);
    for format in BlockFormat::ALL.iter().copied() {
        let rules = ScaleRule::ALL.iter().zip(oracle::ScaleRule::ALL).map(|(rule, theirs)| {
            assert_eq!(rule.name(), theirs.name());
            (*rule, theirs)
        });
        let recipes = Recipe::ALL.iter().zip(oracle::Recipe::ALL).map(|(recipe, theirs)| {
            assert_eq!(recipe.name(), theirs.name());
            (*recipe, theirs)
        });
        let settings: Vec<_> = if format == BlockFormat::NvFp4 {
            recipes.map(|recipe| ((ScaleRule::Floor, oracle::ScaleRule::Floor), recipe)).collect()
        } else {
            let recipe = (Recipe::ModelOpt, oracle::Recipe::ModelOpt);
            rules.map(|rule| (rule, recipe)).collect()
        };
        for ((rule, their_rule), (recipe, their_recipe)) in settings {
            // The longest fill groups of vectors, by which the largest magnitudes are found.
            let lengths = [(Ty::Float, 2048), (Ty::Float16, 512), (Ty::Bfloat16, 512)];
            for (source, columns) in lengths.into_iter().chain([(Ty::Float, 77), (Ty::Bfloat16, 250), (Ty::Float, 5)]) {
                let rows = 5;
                let mut codes = random_scaled(source, rows * columns, rng.next_u64());
                // Ordinary rows, rows of zeros, rows of tiny numbers, and rows with infinities and NaN.
                for (row, codes) in codes.chunks_mut(columns).enumerate() {
                    let tiny = special(source);
                    for code in codes.iter_mut() {
                        match row {
                            0 => *code &= 1 << (source.bits() - 1),
                            1 => *code &= (1 << (source.bits() - 1)) | 0xff,
                            2 if rng.below(40) == 0 => *code = tiny[rng.below(tiny.len() as u64) as usize],
                            _ => {}
                        }
                    }
                }
                let x = tensor(source, &[rows, columns], &codes);
                let floats = onnx_cast::Cast::new(DataType::Float, &onnx_cast::CastOptions::new());
                let floats = floats.expect("a type of Cast").run(&x.view()).expect("floats");
                let values = floats.to_vec::<f32>().expect("floats");
                let element = ty(format.element());
                let block = format.block();
                let blocks = values.chunks(columns).flat_map(|row| row.chunks(block));
                let (scales, elements, global) = if format == BlockFormat::NvFp4 {
                    let want = oracle::nvfp4_quantize(&values, columns, their_recipe, source);
                    (want.scales, want.elements, Some(want.global))
                } else {
                    let (scales, elements): (Vec<_>, Vec<_>) =
                        blocks.map(|block| oracle::mx_quantize(block, element, their_rule)).unzip();
                    (scales, elements.concat(), None)
                };
                for backend in backend::available() {
                    let quantize = BlockQuantize::new(format).rule(rule).recipe(recipe).backend(backend);
                    let got = quantize.run(&x.view()).expect("floats");
                    let what = || format!("{backend:?}: {source:?} [{rows}, {columns}] to {format}, {rule}, {recipe}");
                    assert_eq!(got.global_scale.map(f32::to_bits), global.map(f32::to_bits), "{}", what());
                    let got_scales = got.scales.bytes().expect("numbers");
                    assert!(
                        got_scales.iter().map(|&code| u64::from(code)).eq(scales.iter().copied()),
                        "{}: scales",
                        what()
                    );
                    let codes = unpack(element, got.elements.bytes().expect("numbers"), elements.len()).expect("bytes");
                    if let Some(i) = codes.iter().zip(&elements).position(|(got, want)| got != want) {
                        panic!("{}: element {i} is {:#x}, not {:#x}", what(), codes[i], elements[i]);
                    }
                    for to in FLOATS {
                        let back = got.dequantize(data_type(to)).expect("a float type");
                        let back = unpack(to, back.bytes().expect("numbers"), elements.len()).expect("bytes");
                        let want: Vec<u64> = if let Some(global) = global {
                            let (scales, elements) = (scales.clone(), elements.clone());
                            oracle::nvfp4_dequantize(
                                &oracle::Nvfp4 { global, scales, elements },
                                columns,
                                their_recipe,
                                to,
                            )
                        } else {
                            let rows = elements.chunks(columns).flat_map(|row| row.chunks(block));
                            rows.zip(&scales)
                                .flat_map(|(codes, &scale)| oracle::mx_dequantize(scale, element, codes, to))
                                .collect()
                        };
                        assert_eq!(back, want, "{}, back to {to:?}", what());
                    }
                }
            }
        }
    }
}

/// The scales are those of the values' ranges, by the formulas.
#[test]
fn linear_scales_are_those_of_the_ranges() {
    use onnx_cast::scaled::LinearScale;
    let (rows, columns) = (7, 45);
    let x: Vec<f32> =
        random_scaled(Ty::Float, rows * columns, 3).into_iter().map(|bits| f32::from_bits(bits as u32)).collect();
    let shape = [rows, columns];
    let view = TensorView::from_slice(&shape, &x).expect("a slice");
    for granularity in Granularity::all(rows, columns) {
        for (to, most) in [
            (DataType::Int8, 127.0),
            (DataType::Int4, 7.0),
            (DataType::Float8E4M3FN, 448.0),
            (DataType::Float8E5M2FNUZ, 57344.0),
            (DataType::Float6E2M3, 7.5),
            (DataType::Float4E2M1, 6.0),
        ] {
            let mut linear = LinearScale::new(to);
            if !granularity.scale.is_empty() {
                linear = linear.axis(granularity.axis).block_size(granularity.block_size);
            }
            let found = linear.run(&view).expect("a type with a sign");
            let mut want = vec![0f32; granularity.scales()];
            for (element, value) in x.iter().enumerate().filter(|(_, value)| value.is_finite()) {
                let most = &mut want[granularity.place_of(element)];
                *most = most.max(value.abs());
            }
            let want: Vec<f32> = want.into_iter().map(|amax| if amax == 0.0 { 1.0 } else { amax / most }).collect();
            assert_eq!(found.scale.to_vec::<f32>(), Some(want), "{to}, {:?}", granularity.scale);
            assert_eq!((found.scale.shape(), found.zero_point), (&granularity.scale[..], None));
        }
    }
    let x = [-1.0f32, 0.0, 3.0, f32::NAN, 10.0, 10.0, 10.0, 30.0];
    let view = TensorView::from_slice(&[2, 4], &x).expect("a slice");
    let found = LinearScale::new(DataType::Uint4).axis(0).asymmetric().run(&view).expect("an integer type");
    assert_eq!(found.scale.to_vec::<f32>(), Some(vec![4.0 / 15.0, 2.0]));
    assert_eq!(
        unpack(Ty::Uint4, found.zero_point.expect("zero points").bytes().expect("numbers"), 2),
        Some(vec![4, 0])
    );
    assert_eq!(unpack(Ty::Uint4, found.y.bytes().expect("numbers"), 8), Some(vec![0, 4, 15, 0, 5, 5, 5, 15]));
    // A range that is wider than the largest float.
    let wide = [-3e38f32, 3e38, 0.0, 5e37];
    let wide = TensorView::from_slice(&[4], &wide).expect("a slice");
    let found = LinearScale::new(DataType::Uint8).asymmetric().run(&wide).expect("an integer type");
    assert_eq!(found.scale.to_vec::<f32>(), Some(vec![3e38 / 255.0 + 3e38 / 255.0]));
    assert_eq!(found.zero_point.expect("a zero point").to_vec::<u8>(), Some(vec![128]));
    assert_eq!(found.y.to_vec::<u8>(), Some(vec![0, 255, 128, 149]));
    // ONNX's text says how DynamicQuantizeLinear subtracts.
    assert_eq!(DynamicQuantizeLinear::new(11).expect("the first").scale(&wide), Ok((f32::INFINITY, 0)));
    // The scale of these values underflows to 0, and 0 / 0 would be NaN.
    let tiny = TensorView::from_slice(&[2], &[1e-44f32, 0.0]).expect("a slice");
    for linear in [
        LinearScale::new(DataType::Float8E4M3FN),
        LinearScale::new(DataType::Int8),
        LinearScale::new(DataType::Uint8).asymmetric(),
    ] {
        let found = linear.run(&tiny).expect("a type of elements");
        assert_eq!(found.scale.to_vec::<f32>(), Some(vec![1.0]), "{linear:?}");
        let zero_point = found.zero_point.as_ref().and_then(Tensor::bytes);
        assert_eq!(zero_point.unwrap_or(&[0]), [0], "{linear:?}");
        assert!(found.y.bytes().expect("numbers").iter().all(|&byte| byte == 0), "{linear:?}: {:?}", found.y);
    }
    // More elements than one thread takes.
    let many: Vec<f32> = (0..1u32 << 20).map(|i| (i.wrapping_mul(2_654_435_761) as i32) as f32).collect();
    let many = TensorView::from_slice(&[16, 1 << 16], &many).expect("a slice");
    for linear in [LinearScale::new(DataType::Int4).axis(0), LinearScale::new(DataType::Uint8).asymmetric()] {
        let want = linear.run(&many).expect("a type of elements");
        let dynamic = DynamicQuantizeLinear::new(11).expect("the first");
        let quantized = dynamic.run(&many);
        for backend in onnx_cast::backend::available() {
            for threads in [1, 3] {
                let got = linear.backend(backend).threads(threads).run(&many);
                assert!(got.as_ref() == Ok(&want), "{linear:?}, {backend:?}, {threads} threads");
                let got = dynamic.backend(backend).threads(threads).run(&many);
                assert!(got == quantized, "{backend:?}, {threads} threads");
            }
        }
    }
    let error = |linear: LinearScale| linear.run(&view).expect_err("no such scales").to_string();
    assert_eq!(
        error(LinearScale::new(DataType::Uint8)),
        "symmetric scales for uint8, which has no negative numbers (want asymmetric ones)"
    );
    assert!(error(LinearScale::new(DataType::Float8E5M2).asymmetric()).starts_with("asymmetric scales for float8e5m2"));
    assert_eq!(
        error(LinearScale::new(DataType::Int8).axis(2)),
        "`axis` is 2 for an input of 2 dimensions (want -2 to 1)"
    );
}

/// Blocks of rows and columns, against the same by elements.
#[test]
fn blocks_of_rows_and_columns() {
    let mut state = 7u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f32::from_bits(state & 0x8fff_ffff | 0x3000_0000)
    };
    let cases: [([usize; 3], [usize; 2]); 10] = [
        ([3, 40, 24], [16, 1]),
        ([1, 16, 24], [1, 32]),
        ([1, 5, 72], [1, 16]),
        ([2, 7, 100], [1, 32]),
        ([2, 40, 70], [16, 32]),
        ([1, 3, 5000], [2, 4096]),
        ([4, 1, 9], [1, 9]),
        ([1, 3, 5000], [1, 64]),
        ([1, 2, 4096], [2, 128]),
        ([1, 130, 140], [128, 128]),
    ];
    for (shape @ [matrices, rows, columns], block) in cases {
        let x: Vec<f32> = (0..matrices * rows * columns).map(|_| next()).collect();
        let grid = [rows.div_ceil(block[0]), columns.div_ceil(block[1])];
        let place = |element: usize| {
            let (row, column) = (element / columns % rows, element % columns);
            (element / columns / rows * grid[0] + row / block[0]) * grid[1] + column / block[1]
        };
        let mut want = vec![0f32; matrices * grid[0] * grid[1]];
        for (element, value) in x.iter().enumerate().filter(|(_, value)| value.is_finite()) {
            want[place(element)] = want[place(element)].max(value.abs());
        }
        let view = TensorView::from_slice(&shape, &x).expect("a slice");
        let found = onnx_cast::scaled::block_amax(&view, block).expect("blocks");
        assert_eq!(found, want, "{shape:?} in blocks of {block:?}");

        let codes: Vec<i8> = (0..x.len()).map(|i| (i * 37 % 255) as i8).collect();
        let scale_shape = [matrices, grid[0], grid[1]];
        let scale = TensorView::from_slice(&scale_shape, &want).expect("a slice");
        let plan = onnx_cast::scaled::BlockPlan::dequantize(DataType::Int8, DataType::Float, DataType::Float, block);
        let plan = plan.expect("types");
        let x = TensorView::from_slice(&shape, &codes).expect("a slice");
        let products = codes.iter().enumerate().map(|(i, code)| f32::from(*code) * want[place(i)]);
        let products = Tensor::from_slice(shape.to_vec(), &products.collect::<Vec<_>>()).expect("as many");
        for backend in onnx_cast::backend::available() {
            for threads in [1, 3] {
                let got = plan.backend(backend).threads(threads).run(&x, &scale, None).expect("scales that fit");
                assert!(got == products, "{shape:?} in blocks of {block:?}, {backend:?}, {threads} threads");
            }
        }
        assert!(plan.run(&scale, &scale, None).is_err(), "floats");
        let bound = plan.bind(&shape, &scale, None).expect("scales that fit");
        let bytes: Vec<u8> = codes.iter().map(|code| *code as u8).collect();
        for start in [0, 1, columns - 1, codes.len() / 3] {
            let len = codes.len() - start;
            let mut out = vec![0; 4 * len];
            bound.run_part(start, len, &bytes[start..], &mut out).expect("a part");
            for (i, got) in out.as_chunks::<4>().0.iter().enumerate() {
                let product = f32::from(codes[start + i]) * want[place(start + i)];
                assert_eq!(f32::from_le_bytes(*got).to_bits(), product.to_bits(), "{shape:?} {block:?} {i}");
            }
        }
    }
    let x = [1f32; 4];
    let view = TensorView::from_slice(&[4], &x).expect("a slice");
    assert!(onnx_cast::scaled::block_amax(&view, [1, 2]).is_err());
    assert!(
        onnx_cast::scaled::BlockPlan::dequantize(DataType::Int8, DataType::Double, DataType::Float, [1, 2]).is_err()
    );
}
