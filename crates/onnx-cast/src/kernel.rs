//! A kernel casts the elements of one tensor; a [`KernelTable`] has one for each pair of numeric types.
//!
//! Sources of 16 bits and more have a kernel for each pair. Those of 8 bits or fewer are looked up, by loops that
//! depend on the widths alone and take the types and rules from a [`Context`].

pub(crate) mod lanes;
pub(crate) mod lookup_tables;
pub(crate) mod scale;
pub(crate) mod staged;

use crate::element::Element;
use crate::element::{with_numeric_types, *};
use crate::packed::{Out, bits, code, set, written};
use crate::scalar::{Rules, Widen, widen_code};
use core::mem::MaybeUninit;
use scale::{Held, ScaleContext, ScaleKernels, ScaledKernel};

/// Where the results of a cast are stored; see [`Plan::store_hint`](crate::Plan::store_hint).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreHint {
    /// In the caches, where they will be read soon.
    Temporal,
    /// Past the caches where the kernel can, because they are more than the caches hold.
    NonTemporal,
}

/// What a kernel is told of a cast.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context {
    pub(crate) from: DataType,
    pub(crate) to: DataType,
    pub(crate) rules: Rules,
    pub(crate) hint: StoreHint,
}

impl Context {
    /// A cast by the newest version's default rules.
    #[inline]
    pub(crate) fn plain(from: DataType, to: DataType) -> Self {
        Context { from, to, rules: Rules::default_of(to), hint: StoreHint::Temporal }
    }
}

/// Source and target of a cast: the bytes of `len` elements of each type, and the store hint.
#[derive(Clone, Copy)]
pub(crate) struct Task<'a> {
    pub(crate) src: &'a [u8],
    /// Writable, and perhaps never written. A pointer and no slice: a line that two tiles share is written with the
    /// second one, so that neither may have its bytes to itself.
    pub(crate) dst: *mut u8,
    pub(crate) len: usize,
    pub(crate) hint: StoreHint,
}

/// Casts `len` elements from `src` to `dst`, which hold exactly that many, packed, and zeroes the padding of `dst`.
/// Every byte of `dst` is written, and none is read before.
///
/// # Safety
/// The processor has the instructions that the kernel's backend is compiled for, `src` and `dst` have the byte
/// lengths of `len` elements of the context's types, and the table has this kernel for them.
pub(crate) type Kernel = unsafe fn(src: &[u8], dst: &mut Out, len: usize, context: &Context);

/// An instruction set, or none in particular: how each kind of kernel is compiled.
///
/// # Safety
/// The kernels cast exactly as [`crate::scalar::cast_one`] does, write all of `dst`, and read none of it before.
pub(crate) unsafe trait Isa {
    /// Whether sources of 8 bits are looked up on the way to targets of 16.
    const LOOKS_UP_16: bool;
    /// Whether sources of 8 bits are looked up in a few entries, where few are needed.
    const FOLDS: bool = false;
    /// Whether there are kernels of scaled casts; else those of Cast are called in stages.
    const SCALES: bool;
    /// What is compiled once for scaled casts.
    const SCALE: ScaleKernels;

    /// From a source that is not looked up.
    unsafe fn cast<S: Element, D: Element>(src: &[u8], dst: &mut Out, len: usize, context: &Context);
    /// From a source of the width of `S` to a target of the width of `D`, by a table.
    unsafe fn look_up<S: Element, D: Element>(src: &[u8], dst: &mut Out, len: usize, context: &Context);
    /// From a source of the class and width of `S`, by a table of narrow entries that are widened to `D`.
    unsafe fn widen<S: Element, D: Element>(src: &[u8], dst: &mut Out, len: usize, context: &Context);
    /// From one element in a byte to elements packed to the width of `D`.
    unsafe fn pack<D: Element>(src: &[u8], dst: &mut Out, len: usize, context: &Context);
    /// From elements packed to the width of `S` to one in a byte.
    unsafe fn unpack<S: Element>(src: &[u8], dst: &mut Out, len: usize, context: &Context);
    /// From values to `D`, an integer by its width alone, by scales.
    unsafe fn quantize<D: Element>(_: Task<'_>, _: &ScaleContext<'_>, _: Option<&mut Held>) {
        unreachable!("scaled in stages");
    }
    /// To values from codes of the class and width of `S`, by scales.
    unsafe fn dequantize<S: Element>(_: Task<'_>, _: &ScaleContext<'_>, _: Option<&mut Held>) {
        unreachable!("scaled in stages");
    }
}

const TYPES: usize = DataType::NUMERIC.len();

/// The kernels of a backend.
pub(crate) struct KernelTable {
    /// By source and target in the order of [`DataType::NUMERIC`].
    casts: [[Kernel; TYPES]; TYPES],
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

    /// Scales elements; the padding of the last byte is arbitrary, and streamed results need [`ScaleKernels::fence`].
    ///
    /// # Safety
    /// As [`ScaledKernel`].
    pub(crate) unsafe fn scale(&self, task: Task<'_>, context: &ScaleContext<'_>, held: Option<&mut Held>) {
        // SAFETY: the caller's; the kernel is that of the types.
        unsafe { self.scale_by(self.scaled(context.from, context.to), task, context, held) };
    }

    /// The same by [`KernelTable::scaled`] of the types.
    ///
    /// # Safety
    /// As [`ScaledKernel`].
    #[inline(always)]
    pub(crate) unsafe fn scale_by(
        &self,
        kernel: Option<ScaledKernel>,
        task: Task<'_>,
        context: &ScaleContext<'_>,
        held: Option<&mut Held>,
    ) {
        // SAFETY: the caller's.
        unsafe {
            match kernel {
                Some(kernel) if context.is_common() => kernel(task, context, held),
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

    /// What copies bytes: the cast from uint8 to itself.
    pub(crate) const fn copy(&self) -> Kernel {
        const UINT8: usize = DataType::Uint8.numeric_index().expect("numeric");
        self.casts[UINT8][UINT8]
    }

    /// The kernels that an instruction set compiles.
    pub(crate) const fn new<I: Isa>() -> Self {
        KernelTable {
            casts: casts::<I>(),
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
    // Floats that end beyond an int16 saturate there, which `Fold` has for 8 bits alone.
    let is_saturated = match class::<S>() {
        Class::SmallFloat(format) => {
            format.exponent_bits > 4
                && matches!(class::<D>(), Class::Int { signed: true, .. } | Class::Int { bits: 16, .. })
        }
        Class::F64 | Class::F32 | Class::F16 | Class::BF16 | Class::E8M0 | Class::Int { .. } | Class::Bool => false,
    };
    let folds = I::FOLDS && !is_saturated;
    // Integers of 8 bits hold floats of 6, and are looked up once.
    let is_extended = I::FOLDS && bits::<S>() == 6 && matches!(class::<D>(), Class::Int { .. });
    let is_looked_up_16 = !is_extended && (I::LOOKS_UP_16 || folds || bits::<S>() < 8);
    let is_wide = bits::<D>() > 16 || bits::<D>() == 16 && !is_looked_up_16;
    let is_bool = matches!(class::<S>(), Class::Bool);
    match class::<S>() {
        Class::F64 | Class::F32 | Class::F16 | Class::BF16 | Class::Int { bits: 16 | 32 | 64, .. } => I::cast::<S, D>,
        Class::Int { bits: 8, .. } | Class::Bool => match class::<D>() {
            // Two look-ups take less than the way through `f32`, but more than an extension.
            Class::F16 | Class::BF16 if I::LOOKS_UP_16 || I::FOLDS && is_bool => look_up::<I, u8, D>(),
            Class::SmallFloat(_) | Class::E8M0 => look_up::<I, u8, D>(),
            Class::F64 | Class::F32 | Class::F16 | Class::BF16 | Class::Int { .. } | Class::Bool => I::cast::<S, D>,
        },
        Class::Int { bits: 4, .. } if is_wide => I::widen::<Int4, D>,
        Class::Int { bits: 2, .. } if is_wide => I::widen::<Int2, D>,
        Class::Int { bits: 4, .. } => look_up::<I, Uint4, D>(),
        Class::Int { bits: 2, .. } => look_up::<I, Uint2, D>(),
        Class::Int { .. } => panic!("no kernel loads integers of this width"),
        Class::E8M0 if is_wide => I::widen::<Float8E8M0, D>,
        Class::SmallFloat(_) if is_wide && matches!(S::DATA_TYPE, DataType::Float8E5M2) => I::widen::<Float8E5M2, D>,
        Class::SmallFloat(format) if is_wide => match format.bits {
            // By arithmetic, where two look-ups among 128 entries take long.
            8 if !I::LOOKS_UP_16 => I::cast::<S, D>,
            // Not all of these are integers of 16 bits.
            8 if format.exponent_bits > 4 && !D::DATA_TYPE.is_float() => I::widen::<Float8E5M2FNUZ, D>,
            8 => I::widen::<Float8E4M3FN, D>,
            6 => I::widen::<Float6E2M3, D>,
            4 => I::widen::<Float4E2M1, D>,
            _ => panic!("no kernel loads floats of this width"),
        },
        Class::E8M0 => look_up::<I, u8, D>(),
        // All codes but zero are true; those of NaN too.
        Class::SmallFloat(format) if format.bits == 8 && matches!(class::<D>(), Class::Bool) => {
            if format.negative_zero { I::cast::<Float8E5M2, D> } else { I::cast::<u8, D> }
        }
        Class::SmallFloat(format) => match format.bits {
            8 => look_up::<I, u8, D>(),
            6 => look_up::<I, Float6E2M3, D>(),
            4 => look_up::<I, Uint4, D>(),
            _ => panic!("no kernel loads floats of this width"),
        },
    }
}

/// What quantizes to a type.
const fn quantize<I: Isa, D: Element>() -> Option<ScaledKernel> {
    Some(match class::<D>() {
        _ if !I::SCALES => return None,
        Class::SmallFloat(_) => I::quantize::<D>,
        // The low bits of an integer have no sign.
        Class::Int { bits: 2, .. } => I::quantize::<Uint2>,
        Class::Int { bits: 4, .. } => I::quantize::<Uint4>,
        Class::Int { bits: 8, .. } => I::quantize::<u8>,
        Class::Int { bits: 16, .. } => I::quantize::<u16>,
        Class::F64 | Class::F32 | Class::F16 | Class::BF16 | Class::E8M0 | Class::Int { .. } | Class::Bool => {
            return None;
        }
    })
}

/// What dequantizes from a type.
const fn dequantize<I: Isa, S: Element>() -> Option<ScaledKernel> {
    Some(match class::<S>() {
        _ if !I::SCALES => return None,
        Class::Int { bits: 2, .. } => I::dequantize::<Int2>,
        Class::Int { bits: 4, .. } => I::dequantize::<Int4>,
        Class::Int { bits: 8 | 16, .. } | Class::Int { bits: 32, signed: true } => I::dequantize::<S>,
        Class::SmallFloat(format) => match format.bits {
            8 if !I::LOOKS_UP_16 || matches!(S::DATA_TYPE, DataType::Float8E5M2) => I::dequantize::<S>,
            8 => I::dequantize::<Float8E4M3FN>,
            6 => I::dequantize::<Float6E2M3>,
            4 => I::dequantize::<Float4E2M1>,
            _ => panic!("no kernel loads floats of this width"),
        },
        Class::F64 | Class::F32 | Class::F16 | Class::BF16 | Class::E8M0 | Class::Int { .. } | Class::Bool => {
            return None;
        }
    })
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
        Some(place) => NARROW[place](hub(from, code), rules),
        None => unreachable!("{to} is not numeric"),
    }
}

/// [`cast_code`] of every element, for tensors of a few.
#[cold]
pub(crate) fn cast_each(src: &[u8], dst: &mut Out, len: usize, context: &Context) {
    let to_bits = context.to.info().bits;
    dst.fill(MaybeUninit::new(0));
    // SAFETY: the line above wrote every byte.
    let dst = unsafe { written(dst) };
    for index in 0..len {
        let result = cast_code(context.from, context.to, code(src, index, context.from), &context.rules);
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
