//! The algorithms, each written once over [`Lanes`].

pub(crate) mod by_magnitude;
pub(crate) mod by_upper_byte;
pub(crate) mod lanes;
pub(crate) mod look_up;
pub(crate) mod small_float;
pub(crate) mod step;
pub(crate) mod wide;

use crate::arch::portable;
use crate::element::{Class, DataType, class};
use crate::kernel::{Context, StoreHint, lookup_tables};
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
    // SAFETY: the caller's.
    unsafe {
        match const { by_upper_byte::entries::<L, S, D>() } {
            Some(..=16) => return by_upper_byte::cast::<L, S, D, 1>(task, &context.rules),
            Some(..=64) => return by_upper_byte::cast::<L, S, D, 4>(task, &context.rules),
            Some(_) => return by_upper_byte::cast::<L, S, D, 8>(task, &context.rules),
            None => {}
        }
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

/// [`crate::kernel::scale::PassOn`].
///
/// # Safety
/// As there, of the instructions of `L`.
#[inline(always)]
pub(crate) unsafe fn pass_on<L: Lanes>(from: &[u8], to: &mut [u8], next: *const u8, ahead: usize) {
    let is_line = L::STREAMS && to.as_ptr().addr().is_multiple_of(step::LINE);
    let (lines, rest) = to.as_chunks_mut::<{ step::LINE }>();
    let (from, from_rest) = from.split_at(lines.len() * step::LINE);
    // Spread evenly: the processor has few buffers for what is under way.
    let each = ahead.div_ceil(step::LINE).div_ceil(lines.len().max(1));
    for (line, (to, from)) in lines.iter_mut().zip(from.as_chunks::<{ step::LINE }>().0).enumerate() {
        for place in line * each..(line + 1) * each {
            // SAFETY: a prefetch is a hint and accepts any address.
            unsafe { L::prefetch(next.wrapping_add(place * step::LINE)) };
        }
        if !is_line {
            to.copy_from_slice(from);
            continue;
        }
        for at in (0..step::LINE).step_by(L::BYTES) {
            // SAFETY: the caller's; a vector lies within both lines, and is aligned in `to`.
            unsafe { L::stream(to.as_mut_ptr().add(at), L::load(from.as_ptr().add(at))) };
        }
    }
    rest.copy_from_slice(from_rest);
}

/// Defines a kernel of an instruction set: an algorithm, compiled with its features.
macro_rules! kernel {
    ($features:literal, $name:ident<$($type:ident: $bound:ident),*>: $($algorithm:tt)*) => {
        #[target_feature(enable = $features)]
        unsafe fn $name<$($type: $bound),*>(src: &[u8], dst: &mut [u8], len: usize, context: &Context) {
            // SAFETY: the caller's; the features are those of the lanes.
            unsafe { $($algorithm)*(src, dst, len, context) }
        }
    };
}
pub(crate) use kernel;

/// Implements [`crate::kernel::Isa`] for an instruction set: each kind of kernel, compiled with its features.
macro_rules! isa {
    ($isa:ident, $lanes:ty, $features:literal, fma: $fma:literal) => {
        pub(crate) struct $isa;

        // SAFETY: the algorithms cast as the scalar cast does, which the tests check for every pair on every length
        // and, for the types of 32 bits or fewer, every value; and `steps` covers all of `dst`.
        unsafe impl crate::kernel::Isa for $isa {
            const LOOKS_UP_16: bool = <$lanes as crate::arch::generic::Lanes>::WIDE_LOOK_UP;
            crate::kernel::scale::scale_kernels! {
                #[target_feature(enable = $features)]
                $fma, generic::pass_on::<$lanes>, <$lanes as crate::arch::generic::Lanes>::fence
            }

            kernel! { $features, cast<S: Widen, D: Narrow>: generic::cast::<$lanes, S, D> }
            kernel! { $features, look_up<S: Element, D: Element>: generic::look_up::cast::<$lanes, S, D> }
            kernel! { $features, widen<S: Element, D: Narrow>: generic::look_up::widen::<$lanes, S, D> }
            kernel! { $features, pack<D: Element>: generic::look_up::pack::<$lanes, D> }
            kernel! { $features, unpack<S: Element>: generic::look_up::unpack::<$lanes, S> }
            kernel! { $features, copy<>: generic::copy::<$lanes> }
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
            // SAFETY: the caller's: the processor has the instructions, and pointers are valid for what is read or
            // written.
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

/// Defines [`Lanes::load_extend`] by the widths of integers and lanes: `from, to: signed, unsigned;`.
macro_rules! extensions {
    ($src:ident: $($from:literal, $to:literal: $signed:expr, $unsigned:expr;)*) => {
        #[inline(always)]
        unsafe fn load_extend<const FROM: usize, const W: usize, const SIGNED: bool>($src: *const u8) -> V {
            // SAFETY: the caller's: the processor has the instructions, and the integers can be read.
            unsafe {
                match (FROM, W) {
                    $(($from, $to) => if SIGNED { $signed } else { $unsigned },)*
                    _ => unreachable!("no such extension"),
                }
            }
        }
    };
}
pub(crate) use extensions;

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
            // SAFETY: the caller's: the processor has the instructions, and pointers are valid for what is read or
            // written.
            unsafe { $($body)* }
        }
    )*};
}
#[cfg(not(target_arch = "wasm32"))]
pub(crate) use helpers;
