//! A scaled cast resolved for its types: QuantizeLinear or DequantizeLinear as one plan.

mod blocks;
pub(super) mod layout;
mod settings;
mod single;
pub(super) mod tiles;

pub use blocks::{BlockPlan, GlobalScale};
pub(super) use settings::{ScaledSettings, scaled_operator};

use super::buffers::{check_len, check_type, new_tensor};
use super::plan::execute;
use super::{CastError, CastErrorKind, OpError, OpErrorKind, Operator};
use crate::arch::Backend;
use crate::element::{Class, DataType, elements_before};
use crate::kernel::scale::{Method, ScaleContext, ScaledKernel, Scales, Scaling};
use crate::kernel::{StoreHint, Task};
use crate::packed::{Out, as_uninit, clear_padding, code, written};
use crate::scalar::scaled::Precision;
use crate::scalar::{Rules, with_default_float_environment};
use crate::tensor::{Tensor, TensorView};
use core::mem::MaybeUninit;
use layout::Layout;
use tiles::{Adjust, BoundCast, Operand};

/// Which way a scaled cast goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Quantize,
    Dequantize,
}

/// A resolved QuantizeLinear or DequantizeLinear. It is small and `Copy`.
///
/// ```
/// use onnx_cast::{DataType, TensorView};
/// use onnx_cast::scaled::{QuantizeLinear, QuantizeOptions};
///
/// let options = QuantizeOptions::new().output_dtype(DataType::Int8);
/// let plan = QuantizeLinear::new(&options)?.plan(DataType::Float, DataType::Float, None)?;
/// let mut out = [0; 3];
/// let scale = [0.5f32];
/// let scale = TensorView::from_slice(&[], &scale)?;
/// plan.run_into(&TensorView::from_slice(&[3], &[1.0f32, -0.75, 100.0])?, &scale, None, &mut out)?;
/// assert_eq!(out.map(|byte| byte as i8), [2, -2, 127]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ScaledPlan {
    direction: Direction,
    from: DataType,
    scale: DataType,
    zero_point: Option<DataType>,
    to: DataType,
    scaling: Scaling,
    precision: Precision,
    rules: Rules,
    /// The lowest and the highest result.
    range: [f32; 2],
    /// Whether codes of NaN and infinity do not matter.
    is_finite: bool,
    axis: i64,
    block_size: usize,
    /// The operator's version where that has one scale for the tensor.
    scalar_version: Option<i64>,
    backend: Backend,
    kernel: Option<ScaledKernel>,
    threads: Option<usize>,
}

/// Checks the type of values where no operator of ONNX is asked for: block formats, scales that are found, and blocks
/// of rows and columns.
pub(super) fn check_value_type(data_type: DataType) -> Result<(), OpError> {
    match Precision::of(data_type) {
        Some(_) => Ok(()),
        None => Err(OpErrorKind::ValueType { data_type }.into()),
    }
}

/// Refuses a zero point whose shape is not the scale's. Shapes of one element are equal.
#[inline(always)]
fn check_zero_point_shape(zero_point: &[usize], scale: &[usize]) -> Result<(), OpError> {
    // First, because comparing empty slices may read nothing at an address that is not there: 110 ns on a Xeon.
    let are_single = [zero_point, scale].iter().all(|shape| matches!(shape, [] | [1]));
    if !are_single && zero_point != scale {
        let (zero_point, scale) = (zero_point.to_vec(), scale.to_vec());
        return Err(OpErrorKind::ZeroPointShape { zero_point, scale }.into());
    }
    Ok(())
}

impl ScaledPlan {
    /// A plan by scales of a block format: float quotients, or products, that saturate.
    pub(super) fn of_blocks(
        direction: Direction,
        from: DataType,
        to: DataType,
        range: Option<[f32; 2]>,
        backend: Option<Backend>,
        threads: Option<usize>,
    ) -> ScaledPlan {
        let backend = backend.unwrap_or_else(Backend::best);
        ScaledPlan {
            direction,
            from,
            scale: DataType::Float,
            zero_point: None,
            to,
            scaling: ScaledPlan::scaling(direction, from),
            precision: Precision::Float,
            rules: Rules::newest(to),
            range: range.unwrap_or_else(|| ScaledPlan::range(to, &Rules::newest(to))),
            is_finite: false,
            axis: -1,
            block_size: 0,
            scalar_version: None,
            backend,
            kernel: backend.table().scaled(from, to),
            threads,
        }
    }

    /// What kernels are told of a cast by scales.
    #[inline(always)]
    fn context<'a>(&self, scales: Scales<'a>, method: Method) -> ScaleContext<'a> {
        // Products have no precision but that of float.
        let precision = if self.direction == Direction::Quantize { self.precision } else { Precision::Float };
        let (from, to, rules, range, is_finite) = (self.from, self.to, self.rules, self.range, self.is_finite);
        ScaleContext { from, to, rules, scales, method, precision, range, is_finite }
    }

    /// The same plan where scales are what elements are multiplied with.
    pub(super) fn by_factors(self) -> Self {
        ScaledPlan { scaling: Scaling::Multiply, ..self }
    }

    /// The same plan where codes of NaN and infinity do not matter.
    pub(super) fn of_finite(self) -> Self {
        ScaledPlan { is_finite: true, ..self }
    }

    /// The same plan on at most so many threads; see [`CastOptions::threads`](crate::CastOptions::threads).
    #[must_use]
    pub fn threads(mut self, threads: impl Into<Option<usize>>) -> Self {
        self.threads = threads.into();
        self
    }

    /// The type of the input.
    #[inline]
    pub fn source_type(&self) -> DataType {
        self.from
    }

    /// The type of the scale.
    #[inline]
    pub fn scale_type(&self) -> DataType {
        self.scale
    }

    /// The type of the zero point; `None` if the plan was made without one.
    pub fn zero_point_type(&self) -> Option<DataType> {
        self.zero_point
    }

    /// The type of the quantized elements, which is that of a zero point.
    #[inline]
    pub fn quantized_type(&self) -> DataType {
        match self.direction {
            Direction::Quantize => self.to,
            Direction::Dequantize => self.from,
        }
    }

    /// The type of the result.
    #[inline]
    pub fn target_type(&self) -> DataType {
        self.to
    }

    /// How elements and scales combine.
    pub(super) fn scaling(direction: Direction, from: DataType) -> Scaling {
        match (direction, Class::of(from)) {
            (Direction::Quantize, _) => Scaling::Divide,
            (_, Some(Class::F32 | Class::F16 | Class::BF16)) => Scaling::Multiply,
            (_, Some(Class::SmallFloat(format))) => Scaling::Dequantize { has_infinity: format.infinity },
            _ => Scaling::Dequantize { has_infinity: false },
        }
    }

    /// Whether quotients go by `f64`: a value or a scale has more bits than `f32`, or the quotient of `f32` would be
    /// rounded to the precision a second time. (Of significands of 11 bits or fewer, it tells every quotient from the
    /// middle of two results.)
    #[inline]
    fn is_wide(&self) -> bool {
        let is_short = |data_type: DataType| data_type.info().bits <= 16;
        let has_int = self.from == DataType::Int32 || self.scale == DataType::Int32;
        self.direction == Direction::Quantize
            && (has_int || self.precision != Precision::Float && !(is_short(self.from) && is_short(self.scale)))
    }

    /// As [`ScaledPlan::run_into_uninit`], of checked operands.
    pub(super) fn execute<'o>(&self, bound: &BoundCast<'_>, src: &[u8], len: usize, out: &'o mut Out) -> &'o mut [u8] {
        let task = Task::new(src, out, len);
        execute(&task, [self.from, self.to], self.threads, |start, task| {
            // SAFETY: the tasks are disjoint parts of `out`, which is borrowed exclusively.
            with_default_float_environment(|| unsafe { bound.run(start, task) });
        });
        // SAFETY: the cast writes every byte of each task, and the tasks make up `out`.
        let out = unsafe { written(out) };
        clear_padding(self.to, len, out);
        out
    }

    /// How the scales lie over a tensor.
    fn layout(&self, shape: &[usize], scale: &[usize]) -> Result<Layout, OpError> {
        match self.scalar_version {
            Some(version) if !Layout::is_of_tensor(scale, 0) => {
                let operator = match self.direction {
                    Direction::Quantize => Operator::QuantizeLinear,
                    Direction::Dequantize => Operator::DequantizeLinear,
                };
                Err(OpErrorKind::ScalarScale { operator, version, scale: scale.to_vec() }.into())
            }
            _ => Layout::new(shape, scale, self.axis, self.block_size),
        }
    }

    /// The lowest and the highest number of an integer type, or the number of a small float for what is larger.
    pub(super) fn range(data_type: DataType, rules: &Rules) -> [f32; 2] {
        match Class::of(data_type) {
            Some(Class::Int { bits, signed: true }) => {
                [-((1u64 << (bits - 1)) as f32), ((1u64 << (bits - 1)) - 1) as f32]
            }
            Some(Class::Int { bits, signed: false }) if bits <= 16 => [0.0, ((1u32 << bits) - 1) as f32],
            Some(Class::SmallFloat(format)) => {
                let high = rules.highest(format);
                [-high, high]
            }
            _ => [0.0, 0.0],
        }
    }

    /// Casts a tensor into `out`, which must have exactly the bytes of the result. `scale` and `zero_point` have the
    /// same shape: none or `[1]` for the tensor, the size of the axis, or that of the input with an element for each
    /// block on the axis. Only errors allocate, for their text.
    ///
    /// # Errors
    /// Fails if a type is not the plan's, if the shapes do not fit, if the zero point of a float or of int32 is not 0,
    /// or if `out` has another size.
    #[inline(always)]
    pub fn run_into(
        &self,
        x: &TensorView<'_>,
        scale: &TensorView<'_>,
        zero_point: Option<&TensorView<'_>>,
        out: &mut [u8],
    ) -> Result<(), CastError> {
        // SAFETY: a cast writes only initialised bytes.
        self.run_into_uninit(x, scale, zero_point, unsafe { as_uninit(out) }).map(drop)
    }

    /// As [`ScaledPlan::run_into`], into memory that need not be initialised. Returns `out`, every byte of which is
    /// written.
    ///
    /// # Errors
    /// As [`ScaledPlan::run_into`].
    #[inline(always)]
    pub fn run_into_uninit<'o>(
        &self,
        x: &TensorView<'_>,
        scale: &TensorView<'_>,
        zero_point: Option<&TensorView<'_>>,
        out: &'o mut [MaybeUninit<u8>],
    ) -> Result<&'o mut [u8], CastError> {
        if Layout::is_of_tensor(scale.shape(), self.block_size) && !self.is_wide() {
            return self.run_single(x, scale, zero_point, out);
        }
        self.run_many(x, scale, zero_point, out)
    }

    /// As [`ScaledPlan::run_into_uninit`], with scales that lie in any way.
    #[inline(never)]
    fn run_many<'o>(
        &self,
        x: &TensorView<'_>,
        scale: &TensorView<'_>,
        zero_point: Option<&TensorView<'_>>,
        out: &'o mut [MaybeUninit<u8>],
    ) -> Result<&'o mut [u8], CastError> {
        let layout = self.layout(x.shape(), scale.shape())?;
        check_type(x, self.from)?;
        let has_zeros = self.check_operands(scale, zero_point)?;
        let (src, len) = (x.bytes().unwrap_or_default(), x.len());
        check_len(self.to, Some(len), out.len(), x.shape())?;
        let bound = self.bound(layout, scale, zero_point.filter(|_| has_zeros), Adjust::None);
        Ok(self.execute(&bound, src, len, out))
    }

    /// The plan with its scale and zero point, for tensors of a shape; it can cast such a tensor part by part.
    ///
    /// # Errors
    /// As [`ScaledPlan::run_into`], but for the input and the output.
    pub fn bind<'a>(
        &'a self,
        shape: &[usize],
        scale: &TensorView<'a>,
        zero_point: Option<&TensorView<'a>>,
    ) -> Result<BoundScaledPlan<'a>, CastError> {
        let layout = self.layout(shape, scale.shape())?;
        self.bind_layout(shape, layout, scale, zero_point, Adjust::None)
    }

    /// As [`ScaledPlan::bind`], with scales that lie in any way.
    fn bind_layout<'a>(
        &'a self,
        shape: &[usize],
        layout: Layout,
        scale: &TensorView<'a>,
        zero_point: Option<&TensorView<'a>>,
        adjust: Adjust,
    ) -> Result<BoundScaledPlan<'a>, CastError> {
        let has_zeros = self.check_operands(scale, zero_point)?;
        let elements = shape.iter().fold(1, |len: usize, &dim| len.saturating_mul(dim));
        Ok(BoundScaledPlan { bound: self.bound(layout, scale, zero_point.filter(|_| has_zeros), adjust), elements })
    }

    #[inline(always)]
    fn bound<'a>(
        &'a self,
        layout: Layout,
        scale: &TensorView<'a>,
        zero_point: Option<&TensorView<'a>>,
        adjust: Adjust,
    ) -> BoundCast<'a> {
        let bytes = |view: &TensorView<'a>| view.bytes().unwrap_or_default();
        let zero_point = zero_point.map(|view| Operand::new(view.data_type(), bytes(view)));
        BoundCast {
            plan: self,
            layout,
            scale: Operand { data_type: self.scale, bytes: bytes(scale), adjust },
            zero_point,
        }
    }

    /// Whether there are zero points to subtract or add: not where all must be 0, and are, and change nothing.
    #[inline(always)]
    fn check_operands(&self, scale: &TensorView<'_>, zero_point: Option<&TensorView<'_>>) -> Result<bool, CastError> {
        check_type(scale, self.scale)?;
        let Some(view) = zero_point else { return Ok(false) };
        // Of an operator that was planned without a zero point, it has the type of the quantized elements.
        check_type(view, self.zero_point.unwrap_or(self.quantized_type()))?;
        self.check_zero_point(view, scale)
    }

    /// Casts a tensor to a new one of the same shape.
    ///
    /// # Errors
    /// As [`ScaledPlan::run_into`], and if the result does not fit in memory.
    pub fn run(
        &self,
        x: &TensorView<'_>,
        scale: &TensorView<'_>,
        zero_point: Option<&TensorView<'_>>,
    ) -> Result<Tensor, CastError> {
        new_tensor(self.to, x.shape(), |out| self.run_into_uninit(x, scale, zero_point, out).map(drop))
    }

    /// [`ScaledPlan::check_operands`], of zero points of the right type.
    fn check_zero_point(&self, zero_point: &TensorView<'_>, scale: &TensorView<'_>) -> Result<bool, CastError> {
        check_zero_point_shape(zero_point.shape(), scale.shape())?;
        let (data_type, bytes) = (zero_point.data_type(), zero_point.bytes().unwrap_or_default());
        let first_other = match Class::of(data_type) {
            Some(Class::Int { bits: ..=16, .. }) => return Ok(true),
            Some(Class::SmallFloat(format)) => {
                let is_zero = |code: u64| code & !format.sign_bit() == 0 && !format.is_nan(code);
                (0..zero_point.len()).find(|&i| !is_zero(code(bytes, i, data_type).into()))
            }
            _ => {
                let bits = data_type.info().bits as usize;
                bytes.iter().position(|&byte| byte != 0).map(|byte| elements_before(byte, bits))
            }
        };
        match first_other {
            Some(index) => Err(CastErrorKind::ZeroPoint { data_type, index }.into()),
            // ONNX's cases add it to quotients, so that -0 becomes 0. For floats of 8 bits neither ONNX's evaluator nor
            // onnxruntime does.
            None => Ok(data_type.is_packed() && self.direction == Direction::Quantize),
        }
    }
}

/// A [`ScaledPlan`] with its scale and zero point.
pub struct BoundScaledPlan<'a> {
    bound: BoundCast<'a>,
    /// Elements of the tensor.
    elements: usize,
}

impl BoundScaledPlan<'_> {
    /// Casts `len` elements of a tensor, the first of which is the tensor's element `start`, on this thread. Where
    /// elements are packed, the part begins at a whole byte.
    ///
    /// ```
    /// use onnx_cast::{DataType, TensorView};
    /// use onnx_cast::scaled::{DequantizeLinear, DequantizeOptions};
    ///
    /// let plan = DequantizeLinear::new(&DequantizeOptions::new())?.plan(DataType::Int8, DataType::Float, None)?;
    /// let scale = [1.0f32, 10.0, 100.0];
    /// let bound = plan.bind(&[2, 3], &TensorView::from_slice(&[3], &scale)?, None)?;
    /// let mut out = [0; 8];
    /// bound.run_part(2, 2, &[3, 4], &mut out)?;
    /// assert_eq!(out[..4], 300f32.to_le_bytes());
    /// assert_eq!(out[4..], 4f32.to_le_bytes());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Fails if the tensor does not have these elements, or if the bytes are not theirs.
    pub fn run_part(&self, start: usize, len: usize, elements: &[u8], out: &mut [u8]) -> Result<(), CastError> {
        // SAFETY: a cast writes only initialised bytes.
        self.run_part_uninit(start, len, elements, unsafe { as_uninit(out) }).map(drop)
    }

    /// As [`BoundScaledPlan::run_part`], into memory that need not be initialised. Returns `out`, every byte of which
    /// is written.
    ///
    /// # Errors
    /// As [`BoundScaledPlan::run_part`].
    pub fn run_part_uninit<'o>(
        &self,
        start: usize,
        len: usize,
        elements: &[u8],
        out: &'o mut [MaybeUninit<u8>],
    ) -> Result<&'o mut [u8], CastError> {
        let plan = self.bound.plan;
        if start.checked_add(len).is_none_or(|end| end > self.elements) {
            return Err(CastErrorKind::Part { start, len, elements: self.elements }.into());
        }
        for (data_type, got) in [(plan.from, elements.len()), (plan.to, out.len())] {
            check_len(data_type, Some(len), got, &[len])?;
        }
        let task = Task { hint: StoreHint::Temporal, ..Task::new(elements, out, len) };
        // SAFETY: `out` is borrowed exclusively.
        with_default_float_environment(|| unsafe { self.bound.run(start, &task) });
        // SAFETY: the cast writes every byte.
        let out = unsafe { written(out) };
        clear_padding(plan.to, len, out);
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::available;
    use crate::ops::Role;
    use crate::scaled::{DequantizeLinear, DequantizeOptions, QuantizeLinear, QuantizeOptions};
    use crate::{Cast, CastOptions};

    /// The types of a role in a scaled cast.
    fn types(operator: Operator, role: Role) -> impl Iterator<Item = DataType> {
        let has = move |data_type: &DataType| operator.since_as(role, *data_type).is_some();
        DataType::NUMERIC.iter().copied().filter(has)
    }

    /// Floats as a tensor of another type.
    fn tensor(data_type: DataType, shape: &[usize], floats: &[f32]) -> Tensor {
        let floats = TensorView::from_slice(shape, floats).expect("a slice of the shape");
        Cast::new(data_type, &CastOptions::new())
            .and_then(|cast| cast.plan(DataType::Float))
            .expect("numbers")
            .run(&floats)
            .expect("a few numbers")
    }

    /// The shapes of scales, with `axis` and `block_size`: one for each way in which they spread over elements.
    fn spreads([rows, columns]: [usize; 2]) -> [(Vec<usize>, i64, usize); 4] {
        [(vec![], 1, 0), (vec![rows], 0, 0), (vec![columns], 1, 0), (vec![rows, columns.div_ceil(16)], 1, 16)]
    }

    /// Values of all magnitudes, some of them special.
    fn floats(len: usize, seed: u32) -> Vec<f32> {
        let mut state = seed;
        let mut next = |index: usize| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            match index % 41 {
                7 => f32::NAN,
                8 => f32::NEG_INFINITY,
                9 => -0.0,
                10 => f32::from_bits(state >> 12),
                _ => f32::from_bits(state & 0x807f_ffff | (118 + (state >> 24) % 16) << 23),
            }
        };
        (0..len).map(&mut next).collect()
    }

    /// Every algorithm of scaled casts, over lanes in plain Rust too: each type, method and spread of scales gives what
    /// the portable backend gives, which has none of them.
    #[test]
    fn every_scaled_cast_is_that_of_the_portable_backend() {
        let shape = if cfg!(miri) { [1, 70] } else { [3, 301] };
        let len = shape[0] * shape[1];
        let portable = Backend::by_name("portable").expect("everywhere");
        let quotients = types(Operator::QuantizeLinear, Role::Values).filter(|data_type| data_type.is_float());
        let quotients: Vec<DataType> = quotients.collect();
        for (round, (scale, axis, block_size)) in (0u32..).zip(spreads(shape)) {
            let count: usize = scale.iter().product();
            // Powers of two, others, and any; a product or a quotient by each goes another way.
            for kind in 0..3 {
                let scales = floats(count, round).into_iter().enumerate().map(|(index, value)| match kind {
                    0 => f32::from_bits((110 + index as u32 % 30) << 23),
                    1 => 0.01 + (index % 37) as f32 * 0.3,
                    _ => value,
                });
                let scale = Tensor::from_slice(scale.clone(), &scales.collect::<Vec<_>>()).expect("the scales");
                for quantized in types(Operator::QuantizeLinear, Role::Quantized) {
                    let is_int = !quantized.is_float();
                    let zeros: Vec<f32> =
                        (0..count).map(|index| if is_int { (index % 3) as f32 } else { 0.0 }).collect();
                    let zeros = tensor(quantized, scale.shape(), &zeros);
                    let zeros = (round % 2 == 0).then(|| zeros.view());
                    let zero_type = zeros.as_ref().map(TensorView::data_type);
                    for from in &quotients {
                        let x = tensor(*from, &shape, &floats(len, round + kind));
                        let run = |backend| {
                            let options = QuantizeOptions::new().axis(axis).block_size(block_size).backend(backend);
                            let operator = QuantizeLinear::new(&options.output_dtype(quantized)).expect("attributes");
                            let plan = operator.plan(*from, DataType::Float, zero_type).expect("types that it has");
                            plan.run(&x.view(), &scale.view(), zeros.as_ref()).expect("scales that fit")
                        };
                        let want = run(portable);
                        for backend in available() {
                            let got = run(backend);
                            assert!(got == want, "{backend:?}: {from} to {quantized}, {:?}, {kind}", scale.shape());
                        }
                    }
                    let codes = tensor(quantized, &shape, &floats(len, round + 7));
                    for to in &quotients {
                        let run = |backend| {
                            let options = DequantizeOptions::new().axis(axis).block_size(block_size).backend(backend);
                            let operator = DequantizeLinear::new(&options.output_dtype(*to)).expect("attributes");
                            let plan = operator.plan(quantized, DataType::Float, zero_type).expect("types that it has");
                            plan.run(&codes.view(), &scale.view(), zeros.as_ref()).expect("scales that fit")
                        };
                        let want = run(portable);
                        for backend in available() {
                            let got = run(backend);
                            assert!(got == want, "{backend:?}: {quantized} to {to}, {:?}, {kind}", scale.shape());
                        }
                    }
                }
            }
        }
    }
}
