//! The algorithms, each written once over [`Lanes`].

pub(crate) mod by_magnitude;
pub(crate) mod lanes;
pub(crate) mod look_up;
pub(crate) mod small_float;
pub(crate) mod step;
pub(crate) mod wide;

use crate::arch::portable;
use crate::element::{Class, DataType, class};
use crate::kernel::{Context, StoreHint, lookup_tables};
use crate::packed::bits;
use crate::scalar::{Narrow, Widen};
use small_float::RuleLanes;

pub(crate) use lanes::Lanes;

/// Casts a source that is not looked up.
///
/// # Safety
/// As [`crate::kernel::Kernel`], of the instructions of `L`.
#[inline(always)]
pub(crate) unsafe fn cast<L: Lanes, S: Widen, D: Narrow>(src: &[u8], dst: &mut [u8], len: usize, context: &Context) {
    if small_float::asks_for_scalar::<L, S, D>(&context.rules) {
        return portable::cast::<S, D>(src, dst, len, context);
    }
    let task = step::Task { src, dst, len, hint: context.hint };
    if let (Class::Int { .. }, Class::SmallFloat(format)) = const { (class::<S>(), class::<D>()) } {
        // The table of uint8 is kept for the default rules; under others it takes as long as hundreds of elements.
        let to_target = Context { from: DataType::Uint8, ..*context };
        if let (Some(last), Some(table)) = (by_magnitude::last_magnitude(format), lookup_tables::kept(&to_target)) {
            // SAFETY: the caller's.
            unsafe {
                if last == 63 {
                    return by_magnitude::cast_integers::<L, S, D, 4>(task, table);
                }
                if L::WIDE_LOOK_UP {
                    return by_magnitude::cast_integers::<L, S, D, 16>(task, table);
                }
            }
        }
    }
    if const { by_magnitude::is_by_float_magnitude::<S, D>() && (L::WIDE_LOOK_UP || bits::<D>() == 4) } {
        // SAFETY: the caller's.
        return unsafe { by_magnitude::cast_floats::<L, S, D>(task, &context.rules) };
    }
    // SAFETY: the caller's; `steps` hands out pointers to a step's bytes.
    unsafe {
        let rules = RuleLanes::<L>::new::<S, D>(&context.rules);
        step::steps::<L, S, D>(
            task,
            #[inline(always)]
            |src, dst| {
                wide::step::<L, S, D>(src, dst, &rules);
            },
        );
    }
}

/// Copies bytes.
///
/// # Safety
/// As [`crate::kernel::Kernel`], of the instructions of `L`; source and target have `len` bytes.
#[inline(always)]
pub(crate) unsafe fn copy<L: Lanes>(src: &[u8], dst: &mut [u8], len: usize, context: &Context) {
    if context.hint == StoreHint::Temporal {
        return dst.copy_from_slice(src);
    }
    // SAFETY: the caller's; `steps` hands out pointers to a vector's bytes.
    unsafe {
        step::steps::<L, u8, u8>(
            step::Task { src, dst, len, hint: context.hint },
            #[inline(always)]
            |src, dst| L::store(dst, L::load(src)),
        );
    }
}

/// Implements [`crate::kernel::Isa`] for an instruction set: each kind of kernel, compiled with its features.
macro_rules! isa {
    ($isa:ident, $lanes:ty, $features:literal) => {
        pub(crate) struct $isa;

        // SAFETY: the algorithms cast as the scalar cast does, which the tests check for every pair on every length and,
        // for the types of 32 bits or fewer, every value; and `steps` covers all of `dst`.
        unsafe impl crate::kernel::Isa for $isa {
            const LOOKS_UP_16: bool = <$lanes as crate::arch::generic::Lanes>::WIDE_LOOK_UP;

            #[target_feature(enable = $features)]
            unsafe fn cast<S: Widen, D: Narrow>(src: &[u8], dst: &mut [u8], len: usize, context: &Context) {
                // SAFETY: the caller's; the features are those of the lanes.
                unsafe { generic::cast::<$lanes, S, D>(src, dst, len, context) }
            }

            #[target_feature(enable = $features)]
            unsafe fn look_up<S: Element, D: Element>(src: &[u8], dst: &mut [u8], len: usize, context: &Context) {
                // SAFETY: as above.
                unsafe { generic::look_up::cast::<$lanes, S, D>(src, dst, len, context) }
            }

            #[target_feature(enable = $features)]
            unsafe fn widen<S: Element, D: Narrow>(src: &[u8], dst: &mut [u8], len: usize, context: &Context) {
                // SAFETY: as above.
                unsafe { generic::look_up::widen::<$lanes, S, D>(src, dst, len, context) }
            }

            #[target_feature(enable = $features)]
            unsafe fn pack<D: Element>(src: &[u8], dst: &mut [u8], len: usize, context: &Context) {
                // SAFETY: as above.
                unsafe { generic::look_up::pack::<$lanes, D>(src, dst, len, context) }
            }

            #[target_feature(enable = $features)]
            unsafe fn unpack<S: Element>(src: &[u8], dst: &mut [u8], len: usize, context: &Context) {
                // SAFETY: as above.
                unsafe { generic::look_up::unpack::<$lanes, S>(src, dst, len, context) }
            }

            #[target_feature(enable = $features)]
            unsafe fn copy(src: &[u8], dst: &mut [u8], len: usize, context: &Context) {
                // SAFETY: as above.
                unsafe { generic::copy::<$lanes>(src, dst, len, context) }
            }
        }
    };
}
pub(crate) use isa;

/// Defines methods of [`Lanes`] by the width of a lane: `name(arguments) -> result: width => expression, ...;`.
macro_rules! by_width {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty: $($width:literal => $value:expr),*;)*) => {$(
        #[inline(always)]
        unsafe fn $name<const W: usize>($($argument: $type),*) -> $result {
            #[allow(unused_unsafe, reason = "where the target has the instructions, some need no caller's promise")]
            // SAFETY: the caller's: the processor has the instructions.
            unsafe {
                match W {
                    $($width => $value,)*
                    _ => unreachable!("no lanes of this width"),
                }
            }
        }
    )*};
}
pub(crate) use by_width;

/// Defines methods of [`Lanes`] of a line each.
macro_rules! one_line {
    ($($(#[$attribute:meta])* $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?: $value:expr;)*) => {$(
        $(#[$attribute])*
        #[inline(always)]
        unsafe fn $name($($argument: $type),*) $(-> $result)? {
            #[allow(unused_unsafe, reason = "where the target has the instructions, some need no caller's promise")]
            // SAFETY: the caller's: the processor has the instructions, and pointers are valid for what is read or written.
            unsafe { $value }
        }
    )*};
}
pub(crate) use one_line;

/// Defines methods of [`Lanes`] by whether the integers are signed: `name(arguments) -> result: signed, unsigned;`.
macro_rules! by_sign {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty: $signed:expr, $unsigned:expr;)*) => {$(
        #[inline(always)]
        unsafe fn $name<const SIGNED: bool>($($argument: $type),*) -> $result {
            #[allow(unused_unsafe, reason = "where the target has the instructions, some need no caller's promise")]
            // SAFETY: the caller's: the processor has the instructions.
            unsafe { if SIGNED { $signed } else { $unsigned } }
        }
    )*};
}
pub(crate) use by_sign;

/// Defines shifts of [`Lanes`] by `N`, of lanes of 16 and of 32 bits.
macro_rules! shifts {
    ($($name:ident($value:ident): $by_16:expr, $by_32:expr;)*) => {$(
        #[inline(always)]
        unsafe fn $name<const W: usize, const N: u32>($value: V) -> V {
            #[allow(unused_unsafe, reason = "where the target has the instructions, some need no caller's promise")]
            // SAFETY: the caller's: the processor has the instructions.
            unsafe { if W == 16 { $by_16 } else { $by_32 } }
        }
    )*};
}
pub(crate) use shifts;

/// Defines helpers of a line or a few, for vectors. (Those of WebAssembly are safe functions.)
#[cfg(not(target_arch = "wasm32"))]
macro_rules! helpers {
    ($($(#[$doc:meta])* fn $name:ident $(<const $constant:ident: $kind:ty>)? ($($argument:ident: $type:ty),*) -> $result:ty
        { $($body:tt)* })*) => {$(
        $(#[$doc])*
        #[inline(always)]
        unsafe fn $name $(<const $constant: $kind>)? ($($argument: $type),*) -> $result {
            // SAFETY: the caller's: the processor has the instructions, and pointers are valid for what is read or written.
            unsafe { $($body)* }
        }
    )*};
}
#[cfg(not(target_arch = "wasm32"))]
pub(crate) use helpers;
