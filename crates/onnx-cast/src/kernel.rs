//! A kernel casts the elements of one tensor; a [`KernelTable`] has one for each pair of numeric types.
//!
//! [`Algorithm::of`] chooses how a pair is cast, and [`kernel`] names the function that does it.

pub(crate) mod algorithm;
pub(crate) mod lanes;
pub(crate) mod lookup_tables;
pub(crate) mod scale;
pub(crate) mod staged;

use crate::element::Element;
use crate::element::{with_numeric_types, *};
use crate::packed::{Out, bits, clear_padding, code, set, written};
use crate::scalar::{Rules, Widen, widen_code};
use algorithm::{Algorithm, Capabilities};
use core::mem::MaybeUninit;
use core::ops::Range;
use core::ptr;
use scale::{PendingLine, ScaleContext, ScaleKernels, ScaledKernel};

/// Where the results of a cast are stored; see [`Plan::store_hint`](crate::Plan::store_hint).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreHint {
    /// In the caches, where they will be read soon.
    Temporal,
    /// Past the caches where the kernel can, because they are more than the caches hold.
    NonTemporal,
}

/// Casts that read and write this many bytes use non-temporal stores. Little of their output would stay in the last
/// cache (32 MiB on the machines measured), through which the source passes too, and it would evict everything else. A
/// non-temporal store does not read the line that it overwrites, as an ordinary store must. Between this limit and the
/// size of that cache a cast is an eighth faster, and code that reads the result next is no slower.
const NON_TEMPORAL_BYTES: usize = 24 << 20;

impl StoreHint {
    /// The hint for a cast that reads and writes this many bytes.
    #[inline]
    pub(crate) fn of(bytes: usize) -> StoreHint {
        if bytes < NON_TEMPORAL_BYTES { StoreHint::Temporal } else { StoreHint::NonTemporal }
    }
}

/// Parameters of a cast.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context {
    pub(crate) from: DataType,
    pub(crate) to: DataType,
    pub(crate) rules: Rules,
}

impl Context {
    /// A cast by the newest version's default rules.
    #[inline]
    pub(crate) fn plain(from: DataType, to: DataType) -> Self {
        Context { from, to, rules: Rules::default_of(to) }
    }
}

/// Source and target of a cast: the bytes of `len` elements of each type, and the store hint.
pub(crate) struct Task<'a> {
    pub(crate) src: &'a [u8],
    /// Writable, possibly uninitialised memory. This is a pointer and not a reference because a cache line that two
    /// tiles share is stored with the second tile, so neither tile may borrow its bytes exclusively.
    pub(crate) dst: *mut Out,
    pub(crate) len: usize,
    pub(crate) hint: StoreHint,
}

// SAFETY: a task does not access its target. The unsafe functions that do require that nothing else accesses it.
unsafe impl Sync for Task<'_> {}

impl<'a> Task<'a> {
    /// A task whose store hint follows from its size.
    #[inline(always)]
    pub(crate) fn new(src: &'a [u8], dst: &'a mut Out, len: usize) -> Self {
        let hint = StoreHint::of(src.len().saturating_add(dst.len()));
        Task { src, dst, len, hint }
    }

    /// The part with the given elements of a source and a target type. It begins at a whole byte of both.
    #[inline]
    pub(crate) fn part(&self, elements: Range<usize>, types: [DataType; 2]) -> Self {
        let [src, dst] = types.map(|data_type| {
            let bits = data_type.info().bits as usize;
            byte_len_of(elements.start, bits)..byte_len_of(elements.end, bits)
        });
        assert!(dst.end <= self.dst.len(), "a part of the task");
        let begin = self.dst.cast::<MaybeUninit<u8>>().wrapping_add(dst.start);
        Task { src: &self.src[src], dst: ptr::slice_from_raw_parts_mut(begin, dst.len()), len: elements.len(), ..*self }
    }

    /// Copies elements through the caches between types of the same width, and zeroes the padding.
    ///
    /// # Safety
    /// Source and target have the same number of bytes, and nothing else accesses the target.
    #[inline(always)]
    pub(crate) unsafe fn copy(&self, to: DataType) {
        // SAFETY: the caller promises that the bytes of the source fit in the target, which does not overlap it.
        unsafe {
            self.dst.cast::<u8>().copy_from_nonoverlapping(self.src.as_ptr(), self.src.len());
            clear_padding(to, self.len, written(self.target()));
        }
    }

    /// Borrows the target.
    ///
    /// # Safety
    /// The target is writable, and nothing else accesses it during `'a`.
    #[inline(always)]
    pub(crate) unsafe fn target(&self) -> &'a mut Out {
        // SAFETY: the caller promises that the memory is writable and not shared.
        unsafe { &mut *self.dst }
    }
}

/// Casts the elements of a task and zeroes the padding of the target. Every byte of the target is written, and none is
/// read before.
///
/// # Safety
/// The processor has the instructions that the kernel's backend is compiled for, the table has this kernel for the
/// context's types, source and target have exactly the bytes of the task's elements, and nothing else accesses the
/// target.
pub(crate) type Kernel = unsafe fn(task: &Task<'_>, context: &Context);

/// An instruction set, or none in particular: how each kind of kernel is compiled.
///
/// # Safety
/// The kernels cast exactly as [`crate::scalar::cast_one`] does, write all of `dst`, and read none of it before.
pub(crate) unsafe trait Isa {
    /// The properties that decide the algorithm of a pair.
    const CAPABILITIES: Capabilities;
    /// The kernels of the instruction set.
    const TABLE: &'static KernelTable;
    /// Whether there are kernels of scaled casts; else those of Cast are called in stages.
    const SCALES: bool;
    /// What is compiled once for scaled casts.
    const SCALE: ScaleKernels;

    /// From `S` to `D` in registers. An `S` of 8 bits or fewer, other than 8-bit integers and bool, represents all
    /// types of its class and width. The target is then a float of 16 or 32 bits, or bool.
    unsafe fn fused<S: Element, D: Element>(task: &Task<'_>, context: &Context);
    /// From a source of the width of `S` to a target of the width of `D`, by a table.
    unsafe fn look_up<S: Element, D: Element>(task: &Task<'_>, context: &Context);
    /// From `S` to `float`, rounded to odd. The rules of the context are those of the final target.
    unsafe fn to_odd_float<S: Element>(task: &Task<'_>, context: &Context);
    /// From one element in a byte to elements packed to the width of `D`.
    unsafe fn pack<D: Element>(task: &Task<'_>, context: &Context);
    /// From elements packed to the width of `S` to one in a byte.
    unsafe fn unpack<S: Element>(task: &Task<'_>, context: &Context);
    /// From values to `D`, an integer by its width alone, by scales.
    unsafe fn quantize<D: Element>(_: &Task<'_>, _: &ScaleContext<'_>, _: Option<&mut PendingLine>) {
        unreachable!("scaled in stages");
    }
    /// To values by scales, from codes of the class and width of `S`, or from codes that are already `float`.
    unsafe fn dequantize<S: Element>(_: &Task<'_>, _: &ScaleContext<'_>, _: Option<&mut PendingLine>) {
        unreachable!("scaled in stages");
    }
}

const TYPES: usize = DataType::NUMERIC.len();

/// The kernels of a backend.
pub(crate) struct KernelTable {
    pub(crate) capabilities: Capabilities,
    /// By source and target in the order of [`DataType::NUMERIC`].
    casts: [[Kernel; TYPES]; TYPES],
    copy: Kernel,
    /// Indexed by source.
    to_odd_float: [Option<Kernel>; TYPES],
    pack: [Kernel; 3],
    unpack: [Kernel; 3],
    /// By target, and by source; `None` where there is none.
    quantize: [Option<ScaledKernel>; TYPES],
    dequantize: [Option<ScaledKernel>; TYPES],
    pub(crate) scale: ScaleKernels,
}

impl KernelTable {
    /// The kernel of a pair; `None` for types that are not numeric.
    #[inline]
    pub(crate) const fn cast(&self, from: DataType, to: DataType) -> Option<Kernel> {
        match (from.numeric_index(), to.numeric_index()) {
            (Some(from), Some(to)) => Some(self.casts[from][to]),
            _ => None,
        }
    }

    /// The kernel of scaled casts in registers between two types, if there is one.
    pub(crate) fn scaled(&self, from: DataType, to: DataType) -> Option<ScaledKernel> {
        let is_value = matches!(from, DataType::Float | DataType::Float16 | DataType::BFloat16);
        match (from.numeric_index(), to.numeric_index()) {
            (_, Some(to)) if is_value => self.quantize[to],
            (Some(from), _) => self.dequantize[from],
            _ => None,
        }
    }

    /// Scales elements with `kernel`, which is [`KernelTable::scaled`] of their types, or in stages. The padding of the
    /// last byte is arbitrary, and streamed results need [`ScaleKernels::fence`].
    ///
    /// # Safety
    /// As [`ScaledKernel`].
    #[inline(always)]
    pub(crate) unsafe fn scale(
        &self,
        kernel: Option<ScaledKernel>,
        task: &Task<'_>,
        context: &ScaleContext<'_>,
        pending: Option<&mut PendingLine>,
    ) {
        // SAFETY: the caller promises that `kernel` is this table's kernel for the types, that the processor has its
        // instructions, and that the task has the bytes of its elements.
        unsafe {
            match kernel {
                Some(kernel) if context.is_common() => kernel(task, context, pending),
                _ => scale::staged::cast(self, task, context),
            }
        }
    }

    /// What packs bytes to elements of a type; `None` where it is not packed.
    pub(crate) const fn pack(&self, data_type: DataType) -> Option<Kernel> {
        if data_type.is_packed() { Some(self.pack[data_type.info().bits as usize / 2 - 1]) } else { None }
    }

    /// What unpacks elements of a type to bytes; `None` where it is not packed.
    pub(crate) const fn unpack(&self, data_type: DataType) -> Option<Kernel> {
        if data_type.is_packed() { Some(self.unpack[data_type.info().bits as usize / 2 - 1]) } else { None }
    }

    /// The kernel that copies the bytes of elements between types of the same width.
    pub(crate) const fn copy(&self) -> Kernel {
        self.copy
    }

    /// The kernel that casts a type to `float`, rounded to odd; `None` if `float` represents all values of the type.
    pub(crate) const fn to_odd_float(&self, from: DataType) -> Option<Kernel> {
        match from.numeric_index() {
            Some(from) => self.to_odd_float[from],
            None => None,
        }
    }

    /// The kernels that an instruction set compiles.
    pub(crate) const fn new<I: Isa>() -> Self {
        KernelTable {
            capabilities: I::CAPABILITIES,
            casts: casts::<I>(),
            copy: copy::<I>,
            to_odd_float: all_to_odd_float::<I>(),
            pack: [I::pack::<Uint2>, I::pack::<Uint4>, I::pack::<Float6E2M3>],
            unpack: [I::unpack::<Uint2>, I::unpack::<Uint4>, I::unpack::<Float6E2M3>],
            quantize: all_quantize::<I>(),
            dequantize: all_dequantize::<I>(),
            scale: I::SCALE,
        }
    }
}

/// The kernel of one pair.
const fn kernel<I: Isa, S: Element, D: Element>() -> Kernel {
    match Algorithm::of(S::DATA_TYPE, D::DATA_TYPE, I::CAPABILITIES) {
        Some(Algorithm::Copy) => copy::<I>,
        Some(Algorithm::Fused) => fused::<I, S, D>(),
        Some(Algorithm::Staged(_)) => staged::cast::<I>,
        Some(Algorithm::LookUp) => match bits::<S>() {
            2 => look_up::<I, Uint2, D>(),
            4 => look_up::<I, Uint4, D>(),
            6 => look_up::<I, Float6E2M3, D>(),
            8 => look_up::<I, u8, D>(),
            _ => panic!("sources of more bits are not looked up"),
        },
        None => panic!("no kernel casts other than numbers"),
    }
}

/// The fused kernel of a pair. Pairs that need the same code share a kernel.
const fn fused<I: Isa, S: Element, D: Element>() -> Kernel {
    match (class::<S>(), class::<D>()) {
        (Class::Int { .. }, Class::Int { bits: to, .. }) if to < bits::<S>() as u32 => match bits::<S>() {
            8 => to_int::<I, u8, D>(),
            16 => to_int::<I, u16, D>(),
            32 => to_int::<I, u32, D>(),
            64 => to_int::<I, u64, D>(),
            _ => panic!("integers of other widths are looked up"),
        },
        (Class::Int { .. } | Class::Bool, Class::Int { .. }) | (_, Class::Int { bits: 2 | 4, .. }) => {
            to_int::<I, S, D>()
        }
        (Class::Int { bits: 4, .. }, _) => I::fused::<Int4, D>,
        (Class::Int { bits: 2, .. }, _) => I::fused::<Int2, D>,
        (Class::SmallFloat(format), Class::Bool) if !format.negative_zero => I::fused::<u8, D>,
        (Class::SmallFloat(_), Class::Bool) => I::fused::<Float8E5M2, D>,
        (Class::SmallFloat(format), _) => match format.bits {
            // Widened by arithmetic where two look-ups among 128 entries are slow.
            8 if !I::CAPABILITIES.looks_up_16 || matches!(S::DATA_TYPE, DataType::Float8E5M2) => I::fused::<S, D>,
            8 => I::fused::<Float8E4M3FN, D>,
            6 => I::fused::<Float6E2M3, D>,
            4 => I::fused::<Float4E2M1, D>,
            _ => panic!("no kernel loads floats of this width"),
        },
        (Class::F64 | Class::F32 | Class::F16 | Class::BF16 | Class::E8M0 | Class::Int { .. } | Class::Bool, _) => {
            I::fused::<S, D>
        }
    }
}

/// The fused kernel that keeps the low bits of an integer, which are the same for signed and unsigned targets.
const fn to_int<I: Isa, S: Element, D: Element>() -> Kernel {
    match bits::<D>() {
        2 => I::fused::<S, Uint2>,
        4 => I::fused::<S, Uint4>,
        8 => I::fused::<S, u8>,
        16 => I::fused::<S, u16>,
        32 => I::fused::<S, u32>,
        64 => I::fused::<S, u64>,
        _ => panic!("no integer of this width"),
    }
}

/// Copies the bytes of elements between types of the same width.
///
/// # Safety
/// The conditions of [`Kernel`].
unsafe fn copy<I: Isa>(task: &Task<'_>, context: &Context) {
    // SAFETY: the caller promises that source and target have the same number of bytes. The copy writes them all.
    unsafe {
        if task.hint == StoreHint::Temporal {
            return task.copy(context.to);
        }
        let bytes = Task { len: task.src.len(), ..*task };
        I::fused::<u8, u8>(&bytes, &Context::plain(DataType::Uint8, DataType::Uint8));
        clear_padding(context.to, task.len, written(task.target()));
    }
}

/// The kernel that casts a type to `float`, rounded to odd; `None` if `float` represents all values of the type.
const fn to_odd_float<I: Isa, S: Element>() -> Option<Kernel> {
    let has_more_bits = matches!(class::<S>(), Class::F64 | Class::Int { bits: 32 | 64, .. });
    if has_more_bits { Some(I::to_odd_float::<S>) } else { None }
}

/// The kernel that quantizes to a type in registers. Quantization to other types is staged.
const fn quantize<I: Isa, D: Element>() -> Option<ScaledKernel> {
    match D::DATA_TYPE {
        _ if !I::SCALES => None,
        // The low bits of an integer are the same for signed and unsigned targets.
        DataType::Int4 | DataType::Uint4 => Some(I::quantize::<Uint4>),
        DataType::Int8 | DataType::Uint8 => Some(I::quantize::<u8>),
        DataType::Float8E4M3FN | DataType::Float8E5M2 | DataType::Float4E2M1 => Some(I::quantize::<D>),
        _ => None,
    }
}

/// The kernel that dequantizes from a type: in registers, or in two stages.
const fn dequantize<I: Isa, S: Element>() -> Option<ScaledKernel> {
    match S::DATA_TYPE {
        _ if !I::SCALES => None,
        DataType::Int4 | DataType::Uint4 => Some(I::dequantize::<Int4>),
        DataType::Int8 | DataType::Uint8 | DataType::Float8E4M3FN | DataType::Float8E5M2 | DataType::Float4E2M1 => {
            Some(I::dequantize::<S>)
        }
        _ => Some(scale::staged::dequantize::<I>),
    }
}

/// The loop for a source of the width of `S`, by the width of the target.
const fn look_up<I: Isa, S: Element, D: Element>() -> Kernel {
    match bits::<D>() {
        2 => I::look_up::<S, Uint2>,
        4 => I::look_up::<S, Uint4>,
        6 => I::look_up::<S, Float6E2M3>,
        8 => I::look_up::<S, u8>,
        16 => I::look_up::<S, u16>,
        _ => panic!("targets of more bits are widened to"),
    }
}

/// What a value is on the way from one element to another.
enum Hub {
    Float(f32),
    Int(i32),
}

/// The value of a code of a type of 8 bits or fewer.
fn hub(data_type: DataType, code: u8) -> Hub {
    match Class::of(data_type) {
        Some(Class::SmallFloat(format)) => Hub::Float(widen_code(format, code.into())),
        Some(Class::E8M0) => Hub::Float(Widen::to_f32_round_to_odd(Float8E8M0::from_bits(code))),
        Some(Class::Int { bits, signed }) => {
            let unused = 32 - bits;
            let bits = u32::from(code) << unused;
            Hub::Int(if signed { bits as i32 >> unused } else { (bits >> unused) as i32 })
        }
        Some(Class::Bool) => Hub::Int((code != 0).into()),
        Some(Class::F64 | Class::F32 | Class::F16 | Class::BF16) | None => {
            unreachable!("{data_type} has more than 8 bits")
        }
    }
}

/// The bit pattern of a value as an element of `D`.
fn narrow_bits<D: Element>(value: Hub, rules: &Rules) -> u64 {
    let result = match value {
        Hub::Float(value) => D::from_f32(value, rules),
        Hub::Int(value) if D::INT_WRAPS => D::from_i32(value, rules),
        Hub::Int(value) => D::from_f32(value as f32, rules),
    };
    result.to_bits().to_u64()
}

macro_rules! columns {
    ($($target:ty)*) => {
        /// The kernels from `S` to every target.
        const fn row<I: Isa, S: Element>() -> [Kernel; TYPES] {
            [$(kernel::<I, S, $target>()),*]
        }

        /// The kernels from every source.
        const fn casts<I: Isa>() -> [[Kernel; TYPES]; TYPES] {
            [$(row::<I, $target>()),*]
        }

        /// The kernels from every source to `float`, rounded to odd.
        const fn all_to_odd_float<I: Isa>() -> [Option<Kernel>; TYPES] {
            [$(to_odd_float::<I, $target>()),*]
        }

        /// The kernels of scaled casts to every target.
        const fn all_quantize<I: Isa>() -> [Option<ScaledKernel>; TYPES] {
            [$(quantize::<I, $target>()),*]
        }

        /// The kernels of scaled casts from every source.
        const fn all_dequantize<I: Isa>() -> [Option<ScaledKernel>; TYPES] {
            [$(dequantize::<I, $target>()),*]
        }

        /// How each target narrows a value.
        static NARROW: [fn(Hub, &Rules) -> u64; TYPES] = [$(narrow_bits::<$target>),*];

        // The order of the columns is the type table's.
        const _: () = {
            let order = [$(<$target as Element>::DATA_TYPE),*];
            let mut i = 0;
            while i < order.len() {
                assert!(order[i] as u8 == DataType::NUMERIC[i] as u8);
                i += 1;
            }
        };
    };
}
with_numeric_types!(columns);

/// The scalar cast of one code, of a source of 8 bits or fewer, between types that are known at run time.
pub(crate) fn cast_code(from: DataType, to: DataType, code: u8, rules: &Rules) -> u64 {
    match to.numeric_index() {
        // The same type keeps its bits, but for bool, whose other bytes are read as 1.
        _ if from == to && from != DataType::Bool => code.into(),
        Some(index) => NARROW[index](hub(from, code), rules),
        None => unreachable!("{to} is not numeric"),
    }
}

/// [`cast_code`] of every element, for tensors of a few.
#[cold]
///
/// # Safety
/// The conditions of [`Kernel`].
pub(crate) unsafe fn cast_each(task: &Task<'_>, context: &Context) {
    let to_bits = context.to.info().bits;
    // SAFETY: the caller promises the bytes of the task's elements.
    let dst = unsafe { task.target() };
    dst.fill(MaybeUninit::new(0));
    // SAFETY: the line above wrote every byte.
    let dst = unsafe { written(dst) };
    for index in 0..task.len {
        let result = cast_code(context.from, context.to, code(task.src, index, context.from), &context.rules);
        match to_bits {
            2 => set(dst, index, Uint2::from_bits(result as u8)),
            4 => set(dst, index, Uint4::from_bits(result as u8)),
            6 => set(dst, index, Float6E2M3::from_bits(result as u8)),
            8 => dst[index] = result as u8,
            16 => dst[2 * index..2 * index + 2].copy_from_slice(&(result as u16).to_le_bytes()),
            _ => unreachable!("targets of more bits are widened to"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scalar::RoundMode;

    /// The scalar cast of a code is the scalar cast of the element.
    #[test]
    fn a_code_is_cast_as_its_element() {
        for mode in RoundMode::ALL {
            let rules = Rules::new(DataType::Float8E8M0, 28, false, *mode);
            for code in 0..=u8::MAX {
                let want = crate::scalar::cast_one::<_, Float8E8M0>(Float8E5M2::from_bits(code), &rules).to_bits();
                let got = cast_code(DataType::Float8E5M2, DataType::Float8E8M0, code, &rules);
                assert_eq!(got, u64::from(want), "{code:#04x}, {mode}");
            }
        }
    }
}
