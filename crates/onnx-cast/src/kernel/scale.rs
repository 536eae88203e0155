//! Scaled casts: elements are widened to `f32`, scaled there, and narrowed.
//!
//! Each instruction set has kernels that do so in registers (`arch/generic/scale.rs`), for the usual methods: quotients
//! by way of reciprocals, and products, that need no second look. For others, and where there are no vectors,
//! [`staged`] calls the kernels of Cast, and between them loops in plain Rust.

pub(crate) mod amax;
pub(crate) mod extremes;
pub(crate) mod loops;
pub(crate) mod staged;

use super::Task;
use crate::element::DataType;
use crate::scalar::Rules;
use crate::scalar::block_scale::{PowerOfTwo, Recipe};
use crate::scalar::scaled::Precision;
use core::mem::MaybeUninit;

/// Elements that have one scale, or each their own. Longer runs are made up of these.
pub(crate) const CHUNK: usize = 16;

/// Scales of a tile: of as many elements, or of as many chunks.
pub(crate) const ENTRIES: usize = 512;

/// Scales beside the padding of a last step.
pub(crate) const PADDING: usize = 64;

/// How scales are applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// Products with positive factors that no element takes beyond `f32`, or of elements that are no infinities with
    /// finite factors.
    Multiply,
    /// Quotients by way of reciprocals, which are the factors.
    Reciprocal,
    /// Products with any factors.
    MultiplyAny,
    /// Quotients by any divisors.
    Divide,
}

/// What is precomputed for each scale.
#[derive(Clone, Copy)]
pub(crate) enum Quantity {
    /// What elements are multiplied with, or what estimates their quotient.
    Factor,
    /// What they are divided by, negated.
    Divisor,
    /// What is added to quotients: zero points. Negated, what is subtracted from codes.
    Zero,
    /// The smallest input that does not saturate, for integer targets.
    Low,
    /// The largest input that does not saturate; for float targets, the largest magnitude. Products without zero points
    /// have neither limit: they are clamped to the range of the results.
    High,
}

impl Quantity {
    pub(crate) const ALL: [Quantity; 5] =
        [Quantity::Factor, Quantity::Divisor, Quantity::Zero, Quantity::Low, Quantity::High];
}

/// Memory for the quantities of so many scales.
#[repr(align(64))]
pub(crate) struct Quantities<const LEN: usize>([[MaybeUninit<f32>; LEN]; 5]);

/// Those of a tile's scales: two tiles, so that a period can begin anywhere in the first.
pub(crate) type ManyQuantities = Quantities<{ 2 * ENTRIES + PADDING }>;

impl Quantities<1> {
    /// Kernels read all quantities of one scale at once, also those that its method does not need.
    pub(crate) const ZERO: Self = Quantities([[MaybeUninit::new(0.0)]; 5]);
}

/// Numbers to be written.
pub(crate) type Unwritten<'a> = &'a mut [MaybeUninit<f32>];

impl<const LEN: usize> Quantities<LEN> {
    pub(crate) const LEN: usize = LEN;
    pub(crate) const NEW: Self = Quantities([[MaybeUninit::uninit(); LEN]; 5]);

    /// The first numbers of every quantity, in the order of [`Quantity`].
    #[inline(always)]
    pub(crate) fn first(&mut self, count: usize) -> [Unwritten<'_>; 5] {
        self.0.each_mut().map(|numbers| &mut numbers[..count])
    }

    /// The numbers of every quantity.
    #[inline(always)]
    pub(crate) fn all(&self) -> &[MaybeUninit<f32>] {
        self.0.as_flattened()
    }
}

/// How many elements share a scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Granularity {
    /// All have the first.
    Tensor,
    /// As many as 2 to this power, in whole chunks.
    Run(u32),
    /// Each has its own.
    Element,
}

/// The scales of some elements, and their zero points.
#[derive(Clone, Copy)]
pub(crate) struct Scales<'a> {
    /// Those of [`ManyQuantities`], or of [`Quantities`] of one scale where all elements share it.
    pub(crate) quantities: &'a [MaybeUninit<f32>],
    /// Where those of the elements begin.
    pub(crate) begin: usize,
    pub(crate) granularity: Granularity,
    /// Whether a zero point is not 0.
    pub(crate) has_zeros: bool,
}

impl Scales<'_> {
    /// A quantity of the elements, and of those of a step more.
    #[inline(always)]
    pub(crate) fn numbers(&self, quantity: Quantity) -> *const f32 {
        let len = if self.granularity == Granularity::Tensor { 1 } else { ManyQuantities::LEN };
        self.numbers_of(quantity, len)
    }

    /// The same of memory for so many scales.
    #[inline(always)]
    pub(crate) fn numbers_of(&self, quantity: Quantity, len: usize) -> *const f32 {
        self.quantities.as_ptr().cast::<f32>().wrapping_add(quantity as usize * len + self.begin)
    }
}

/// What a kernel is told of a scaled cast.
pub(crate) struct ScaleContext<'a> {
    pub(crate) from: DataType,
    pub(crate) to: DataType,
    pub(crate) rules: Rules,
    pub(crate) scales: Scales<'a>,
    pub(crate) method: Method,
    /// What quotients are rounded to.
    pub(crate) precision: Precision,
    /// The lowest and the highest result, where that is an integer.
    pub(crate) range: [f32; 2],
    /// Whether no value is NaN or infinite, or its code is replaced later.
    pub(crate) is_finite: bool,
}

impl ScaleContext<'_> {
    /// Whether the kernels in registers support it.
    pub(crate) fn is_common(&self) -> bool {
        matches!(self.method, Method::Multiply | Method::Reciprocal)
            && self.precision == Precision::Float
            && !self.adds_zero()
    }

    /// Whether zero points are added to quotients that become floats.
    #[inline(always)]
    pub(crate) fn adds_zero(&self) -> bool {
        self.to.is_float() && self.scales.has_zeros && self.from.is_float()
    }
}

/// Casts elements of a tile; the padding of the last byte is arbitrary, and streamed results need
/// [`ScaleKernels::fence`].
///
/// # Safety
/// The processor has the instructions that the kernel's backend is compiled for, source and target have the bytes of
/// `len` elements of the context's types, and the table has this kernel for them. The target of `pending` is writable.
pub(crate) type ScaledKernel =
    unsafe fn(task: &Task<'_>, context: &ScaleContext<'_>, pending: Option<&mut PendingLine>);

/// Results at the end of a tile that do not fill a cache line. They stay pending until the next tile fills the line, so
/// that the whole line is stored past the caches. If it were stored through the caches, later stores would wait for it.
#[repr(align(64))]
pub(crate) struct PendingLine {
    line: MaybeUninit<[u8; PendingLine::LINE]>,
    /// Output of all tiles.
    target: *mut u8,
    /// Byte offset of the pending results in the output.
    begin: usize,
    len: usize,
}

impl PendingLine {
    const LINE: usize = 64;

    /// Creates a line without pending results, for tiles whose output begins at `target`.
    pub(crate) fn new(target: *mut u8) -> Self {
        PendingLine { line: MaybeUninit::uninit(), target, begin: 0, len: 0 }
    }

    /// The cache line of the target that begins with the pending results, if the results at the given address directly
    /// follow them.
    #[inline(always)]
    pub(crate) fn line_before(&self, address: *const u8) -> Option<*mut u8> {
        let follows = self.target.addr() + self.begin + self.len == address.addr();
        (self.len > 0 && follows).then(|| self.target.wrapping_add(self.begin))
    }

    /// Moves the pending results to the end of `line`, whose other bytes become arbitrary.
    ///
    /// # Safety
    /// The line can be written.
    #[inline(always)]
    pub(crate) unsafe fn restore(&mut self, line: *mut u8) {
        // SAFETY: the caller promises that the line can be written.
        unsafe { line.copy_from_nonoverlapping(self.line.as_ptr().cast(), PendingLine::LINE) };
        self.len = 0;
    }

    /// Keeps the last `len` bytes of `line` pending. They belong at the given address in the target.
    ///
    /// # Safety
    /// The line can be read, and its last `len` bytes are results.
    #[inline(always)]
    pub(crate) unsafe fn keep(&mut self, line: *const u8, len: usize, address: *const u8) {
        // SAFETY: the caller promises that the line can be read.
        unsafe { self.line.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(line, PendingLine::LINE) };
        (self.begin, self.len) = (address.addr() - self.target.addr(), len);
    }

    /// Stores the pending results.
    ///
    /// # Safety
    /// The target can be written.
    pub(crate) unsafe fn flush(&mut self) {
        // SAFETY: the caller promises that the target can be written. The pending results are the last `len` bytes of
        // the line and belong within the target.
        unsafe {
            let results = self.line.as_ptr().cast::<u8>().add(PendingLine::LINE - self.len);
            self.target.add(self.begin).copy_from_nonoverlapping(results, self.len);
        }
        self.len = 0;
    }
}

/// How elements and scales combine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scaling {
    /// Quotients with scales.
    Divide,
    /// Products with them, of codes.
    Dequantize {
        /// Whether one may be an infinity, or a NaN that is not the usual one.
        has_infinity: bool,
    },
    /// Products with them, of values.
    Multiply,
}

/// Finds the codes and the factors of MX blocks from the bits of their largest magnitudes. Returns whether all of the
/// factors can be used as multipliers.
pub(crate) type Powers = unsafe fn(power: &PowerOfTwo, amax: &[u32], codes: &mut [u8], factors: &mut [[u8; 4]]) -> bool;

/// What is compiled once for each instruction set.
#[derive(Clone, Copy)]
pub(crate) struct ScaleKernels {
    /// Whether multiplication and addition are fused, which quotients by way of reciprocals need.
    pub(crate) fuses: bool,
    /// Finds the quantities of scales, from the scales in [`Quantity::Divisor`] and, if there are any, the zero points
    /// in [`Quantity::Zero`], which are written; and how they are applied. The range is that of results.
    pub(crate) prepare:
        unsafe fn(quantities: [Unwritten<'_>; 5], scaling: Scaling, has_zeros: bool, range: [f32; 2]) -> Method,
    /// Finds the bits of the largest magnitude in each run of floats, which are `width` bytes wide (2 or 4). NaN and
    /// infinity are above every number.
    pub(crate) amax: unsafe fn(x: &[u8], width: usize, run: usize, out: &mut [u32]),
    /// Raises the bits of the magnitudes of the lowest negative and of the highest positive float to those of each run
    /// of floats, of which only the last may be shorter. Floats with magnitudes of `limit` and more are skipped.
    pub(crate) extremes: unsafe fn(x: &[u8], run: usize, limit: i32, lows: &mut [i32], highs: &mut [i32]),
    /// The scales of blocks in MX; see [`PowerOfTwo::scales`].
    pub(crate) powers: Powers,
    /// The scales of blocks in NVFP4, before they are narrowed, from what [`Recipe::rounded_first`] gives.
    pub(crate) wide_scales: unsafe fn(recipe: Recipe, global: f32, scales: &mut [[u8; 4]]),
    /// What their elements are divided by, or multiplied with, from the narrowed scales.
    pub(crate) factors: unsafe fn(recipe: Recipe, global: f32, scales: &mut [[u8; 4]]),
    /// Applies scales to floats, whole chunks of them; see [`loops::apply`].
    pub(crate) apply: unsafe fn(x: &mut [[u8; 4]], context: &ScaleContext<'_>, begin: usize),
    /// What a lower precision leaves to be done; see [`loops::finish`].
    pub(crate) finish: unsafe fn(x: &mut [[u8; 4]], context: &ScaleContext<'_>, begin: usize),
    /// Orders what was streamed before what is stored from here on.
    pub(crate) fence: unsafe fn(),
}

/// Defines the kernels of an instruction set: the loops, compiled with its features.
macro_rules! scale_kernels {
    (@) => {};
    (@ $(#[$features:meta])? $lanes:ty, $($algorithms:ident)::*) => {
        $(#[$features])?
        unsafe fn quantize<D: Element>(
            task: &crate::kernel::Task<'_>,
            context: &crate::kernel::scale::ScaleContext<'_>,
            pending: Option<&mut crate::kernel::scale::PendingLine>,
        ) {
            // SAFETY: the caller promises that the processor has the features, which are those of the lanes, and that
            // the task has the bytes of its elements.
            unsafe { $($algorithms)::*::quantize::<$lanes, D>(task, context, pending) }
        }

        $(#[$features])?
        unsafe fn dequantize<S: Element>(
            task: &crate::kernel::Task<'_>,
            context: &crate::kernel::scale::ScaleContext<'_>,
            pending: Option<&mut crate::kernel::scale::PendingLine>,
        ) {
            // SAFETY: as above.
            unsafe { $($algorithms)::*::dequantize::<$lanes, S>(task, context, pending) }
        }
    };
    (
        $(#[$features:meta])?
        fuses: $fuses:expr, fence: $fence:expr $(, over: $lanes:ty, $($algorithms:ident)::*)?
    ) => {
        const SCALE: crate::kernel::scale::ScaleKernels = {
            use crate::kernel::scale::{Method, ScaleContext, ScaleKernels, Scaling, Unwritten, extremes, amax, loops};
            use crate::scalar::block_scale::{PowerOfTwo, Recipe};
            $(#[$features])?
            unsafe fn prepare(
                quantities: [Unwritten<'_>; 5],
                scaling: Scaling,
                has_zeros: bool,
                range: [f32; 2],
            ) -> Method {
                // SAFETY: the caller promises that the scales are written, and zero points if there are any.
                unsafe { loops::prepare($fuses, quantities, scaling, has_zeros, range) }
            }
            $(#[$features])?
            unsafe fn amax(x: &[u8], width: usize, run: usize, out: &mut [u32]) {
                let done = 0;
                $(
                    // SAFETY: the caller promises that the processor has the features, which are those of the lanes.
                    let done = done + unsafe { $($algorithms)::*::amax::by_lanes::<$lanes>(x, width, run, out) };
                )?
                amax::by_loops(&x[done * run * width..], width, run, &mut out[done..]);
            }
            $(#[$features])?
            unsafe fn extremes(x: &[u8], run: usize, limit: i32, lows: &mut [i32], highs: &mut [i32]) {
                extremes::by_loops(x, run, limit, lows, highs);
            }
            $(#[$features])?
            unsafe fn powers(power: &PowerOfTwo, amax: &[u32], codes: &mut [u8], factors: &mut [[u8; 4]]) -> bool {
                power.scales(amax, codes, factors)
            }
            $(#[$features])?
            unsafe fn wide_scales(recipe: Recipe, global: f32, scales: &mut [[u8; 4]]) {
                loops::wide_scales(recipe, global, scales);
            }
            $(#[$features])?
            unsafe fn factors(recipe: Recipe, global: f32, scales: &mut [[u8; 4]]) {
                loops::factors(recipe, global, scales);
            }
            $(#[$features])?
            unsafe fn apply(x: &mut [[u8; 4]], context: &ScaleContext<'_>, begin: usize) {
                loops::apply::<{ $fuses }>(x, context, begin);
            }
            $(#[$features])?
            unsafe fn finish(x: &mut [[u8; 4]], context: &ScaleContext<'_>, begin: usize) {
                loops::finish(x, context, begin);
            }
            $(#[$features])?
            unsafe fn fence() {
                #[allow(unused_unsafe, reason = "some need no promise")]
                // SAFETY: the processor has the instruction set of this table, and the fence has no other condition.
                unsafe { $fence }
            }
            let fuses = $fuses;
            ScaleKernels { fuses, prepare, amax, extremes, powers, wide_scales, factors, apply, finish, fence }
        };
        crate::kernel::scale::scale_kernels! { @ $(#[$features])? $($lanes, $($algorithms)::*)? }
    };
}
pub(crate) use scale_kernels;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::available;
    use crate::kernel::StoreHint;

    /// Tiles whose results pass the caches by give those of one tile that does not: at every place in a cache line, for
    /// tiles that end at any chunk, for each granularity of scales, and where the line at the end of a tile is stored
    /// with the next one. Tensors larger than the caches would try few.
    #[test]
    fn non_temporal_as_temporal() {
        const LEN: usize = if cfg!(miri) { 400 } else { 1000 };
        const LINE: usize = 64;
        /// A tile of whole steps that fill cache lines. Results that do not fill a line are pending until the next
        /// tile.
        const WHOLE: usize = if cfg!(miri) { 128 } else { 256 };
        let source: Vec<u8> = (0..LEN).flat_map(|i| (i as f32 - 300.0).to_le_bytes()).collect();
        let (mut one, mut many) = (Quantities::ZERO, ManyQuantities::NEW);
        let range = [0.0, 7.0];
        let targets = [DataType::Int8, DataType::Int4, DataType::Float8E4M3FN, DataType::Float6E2M3, DataType::Uint16];
        let targets = if cfg!(miri) { &targets[..2] } else { &targets };
        let granularities =
            [(Granularity::Tensor, LEN), (Granularity::Run(CHUNK.ilog2()), CHUNK), (Granularity::Element, 1)];
        for (backend, to, (granularity, shared)) in available().flat_map(|backend| {
            targets.iter().flat_map(move |to| granularities.map(|granularity| (backend, *to, granularity)))
        }) {
            let (table, is_one) = (backend.table(), granularity == Granularity::Tensor);
            let numbers = if is_one { one.first(1) } else { many.first(LEN + PADDING) };
            for (divisor, i) in numbers[Quantity::Divisor as usize].iter_mut().zip(0..) {
                *divisor = MaybeUninit::new(3.0 + (i % 7) as f32);
            }
            // SAFETY: the backend is available, and the scales are written.
            let method = unsafe { (table.scale.prepare)(numbers, Scaling::Divide, false, range) };
            let quantities = if is_one { one.all() } else { many.all() };
            let bytes = |len| to.byte_len(len).expect("few elements");
            let run = |begin: usize, dst: *mut u8, len: usize, hint, pending: Option<&mut PendingLine>| {
                let (from, rules, precision) = (DataType::Float, Rules::default_of(to), Precision::Float);
                let scales = Scales { quantities, begin: begin / shared, granularity, has_zeros: false };
                let context = ScaleContext { from, to, rules, scales, method, precision, range, is_finite: false };
                let src = &source[4 * begin..4 * (begin + len)];
                let dst = core::ptr::slice_from_raw_parts_mut(dst.cast(), bytes(len));
                // SAFETY: the backend is available, and source and target have the bytes of so many elements.
                unsafe { table.scale(table.scaled(from, to), &Task { src, dst, len, hint }, &context, pending) };
            };
            let mut expected = Vec::with_capacity(bytes(LEN));
            run(0, expected.as_mut_ptr(), LEN, StoreHint::Temporal, None);
            // SAFETY: the cast wrote these bytes.
            unsafe { expected.set_len(bytes(LEN)) };
            let mut result = vec![0x5a; bytes(LEN) + 2 * LINE];
            let cuts = (0..LEN - CHUNK).step_by(CHUNK).cycle().skip(3).step_by(11);
            let offsets = (0..LINE).step_by(if cfg!(miri) { 43 } else { 1 });
            for ((at, cut), holds) in offsets.zip(cuts).flat_map(|offset| [(offset, false), (offset, true)]) {
                result.fill(0x5a);
                let target = result.as_mut_ptr();
                let mut pending = PendingLine::new(target);
                let ends = if at % 2 == 0 { [cut, cut + CHUNK, LEN] } else { [WHOLE, 2 * WHOLE, LEN] };
                let mut begin = 0;
                for end in ends {
                    let dst = target.wrapping_add(at + bytes(begin));
                    run(begin, dst, end - begin, StoreHint::NonTemporal, holds.then_some(&mut pending));
                    begin = end;
                }
                // SAFETY: the backend is available, and the target is there.
                unsafe {
                    pending.flush();
                    (table.scale.fence)();
                }
                let (end, what) = (at + bytes(LEN), format!("{backend:?}, {to}, {granularity:?}, {at} bytes in"));
                assert_eq!(result[at..end], expected, "{what}, cut at {cut}");
                let mut outside = result[..at].iter().chain(&result[end..]);
                assert!(outside.all(|byte| *byte == 0x5a), "{what}: bytes outside the result");
            }
        }
    }
}
