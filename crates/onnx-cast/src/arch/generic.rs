//! The algorithms, each written once over [`Lanes`].

mod by_exponent;
pub(crate) mod by_upper_byte;
mod by_words;
pub(crate) mod folded;
pub(crate) mod look_up;
mod powers;
pub(crate) mod scale;
pub(crate) mod small_float;
pub(crate) mod step;
pub(crate) mod wide;

use crate::arch::portable;
use crate::element::{Class, Element, class};
use crate::kernel::Context;
use crate::packed::{Out, bits};
use small_float::RuleLanes;

pub(crate) use crate::kernel::lanes::Lanes;

/// Casts in registers.
///
/// Every choice that depends only on the types is an `if const`, so that the compiler generates no code for the other
/// algorithms: this function is compiled for more than a hundred pairs.
///
/// # Safety
/// The conditions of [`crate::kernel::Kernel`], for the instructions of `L`.
#[inline(always)]
pub(crate) unsafe fn fused<L: Lanes, S: Element, D: Element>(src: &[u8], dst: &mut Out, len: usize, context: &Context) {
    if small_float::asks_for_scalar::<D>(&context.rules) {
        return portable::fused::<S, D>(src, dst, len, context);
    }
    let task = step::Task { src, dst: dst.as_mut_ptr().cast(), len, hint: context.hint };
    // SAFETY: the caller promises that the processor has the instructions and that the slices have the bytes of `len`
    // elements; `steps` passes pointers to the bytes of one step.
    unsafe {
        if const { matches!(by_exponent::codes::<L, S, D>(), Some(2)) } {
            return by_exponent::cast::<L, S, D, 2>(task);
        }
        if const { matches!(by_exponent::codes::<L, S, D>(), Some(4)) } {
            return by_exponent::cast::<L, S, D, 4>(task);
        }
        if const { by_words::applies::<L, S, D>() } {
            return by_words::cast::<L, S, D>(task, &context.rules);
        }
        if const { matches!(by_upper_byte::entries::<L, S, D>(), Some(..=16)) } {
            return by_upper_byte::cast::<L, S, D, 1>(task, &context.rules);
        }
        if const { matches!(by_upper_byte::entries::<L, S, D>(), Some(17..=64)) } {
            return by_upper_byte::cast::<L, S, D, 4>(task, &context.rules);
        }
        if const { matches!(by_upper_byte::entries::<L, S, D>(), Some(65..)) } {
            return by_upper_byte::cast::<L, S, D, 8>(task, &context.rules);
        }
        if const { powers::applies::<L, S, D>() } && context.rules == Context::plain(S::DATA_TYPE, D::DATA_TYPE).rules {
            return step::steps::<L, S, D>(
                task,
                #[inline(always)]
                |src, dst| L::store(dst, powers::codes::<L, S>(src)),
            );
        }
        if const { bits::<S>() == 8 && matches!(class::<D>(), Class::Bool) } {
            return step::steps::<L, S, D>(
                task,
                #[inline(always)]
                |src, dst| L::store(dst, wide::to_bool::<L, S>(src)),
            );
        }
        step::steps::<L, S, D>(task, one_step::<L, S, D>(context));
    }
}

/// Casts to `float`, rounded to odd.
///
/// # Safety
/// The conditions of [`crate::kernel::Kernel`], for the instructions of `L`.
#[inline(always)]
pub(crate) unsafe fn to_odd_float<L: Lanes, S: Element>(src: &[u8], dst: &mut Out, len: usize, context: &Context) {
    // Only a few rules treat numbers beyond the range of `float` differently from infinity.
    let is_double = const { matches!(class::<S>(), Class::F64) };
    if L::F64_OVERFLOWS && is_double && context.rules.infinity != context.rules.overflow {
        return portable::to_odd_float::<S>(src, dst);
    }
    let task = step::Task { src, dst: dst.as_mut_ptr().cast(), len, hint: context.hint };
    // SAFETY: the caller promises that the processor has the instructions and that the slices have the bytes of `len`
    // elements; `steps` passes pointers to the bytes of one step.
    unsafe {
        step::steps::<L, S, f32>(
            task,
            #[inline(always)]
            |src, dst| {
                for i in 0..4 {
                    wide::store::<L>(dst, i, wide::f32_lanes::<L, S>(src, i));
                }
            },
        );
    }
}

/// Returns a function that casts the elements of one step from one pointer to the other. Sources of 8 bits or fewer are
/// widened by [`look_up::widen`] or [`folded::widen`] where these apply.
///
/// # Safety
/// The processor has the instructions of `L`; the function is called with pointers to a step's bytes.
#[inline(always)]
pub(crate) unsafe fn one_step<L: Lanes, S: Element, D: Element>(
    context: &Context,
) -> impl Fn(*const u8, *mut u8) + use<L, S, D> {
    // SAFETY: the caller's, who calls the function with pointers to a step's bytes.
    unsafe {
        let widen = if const { look_up::has_hub::<L, S>() } { Some(look_up::widen::<L, S, D>(context)) } else { None };
        let folded = if const { folded::widens::<L, S, D>() } { Some(folded::widen::<L>(context.from)) } else { None };
        let rules = RuleLanes::<L>::new::<S, D>(&context.rules);
        #[inline(always)]
        move |src, dst| {
            if const { look_up::has_hub::<L, S>() } {
                if let Some(widen) = &widen {
                    widen(src, dst);
                }
            } else if const { folded::widens::<L, S, D>() } {
                if let Some(widen) = &folded {
                    widen(src, dst);
                }
            } else {
                wide::step::<L, S, D>(src, dst, &rules);
            }
        }
    }
}

/// Implements [`crate::kernel::Isa`] for an instruction set: each kind of kernel, compiled with its features, if any.
macro_rules! isa {
    ($isa:ident, $table:ident, $lanes:ty $(, $features:literal)?) => {
        pub(crate) struct $isa;

        // SAFETY: the algorithms cast as the scalar cast does, which the tests check for every pair on every length
        // and, for the types of 32 bits or fewer, every value; and `steps` covers all of `dst`.
        unsafe impl crate::kernel::Isa for $isa {
            const CAPABILITIES: crate::kernel::algorithm::Capabilities = crate::kernel::algorithm::Capabilities {
                converts_halves: true,
                looks_up_16: <$lanes as crate::arch::generic::Lanes>::WIDE_LOOK_UP,
                folds: crate::kernel::lanes::folds::<$lanes>(),
            };
            const TABLE: &'static KernelTable = &$table;
            const SCALES: bool = !<$lanes as crate::arch::generic::Lanes>::IS_SMALL;
            crate::kernel::scale::scale_kernels! {
                $(#[target_feature(enable = $features)])?
                fuses: <$lanes as Lanes>::FUSES, fence: <$lanes>::fence(), over: $lanes, generic::scale
            }

            $(#[target_feature(enable = $features)])?
            unsafe fn fused<S: Element, D: Element>(
                src: &[u8],
                dst: &mut crate::packed::Out,
                len: usize,
                context: &Context,
            ) {
                // SAFETY: the caller promises the features of the lanes, and slices with the bytes of `len` elements.
                unsafe { generic::fused::<$lanes, S, D>(src, dst, len, context) }
            }

            $(#[target_feature(enable = $features)])?
            unsafe fn to_odd_float<S: Element>(
                src: &[u8],
                dst: &mut crate::packed::Out,
                len: usize,
                context: &Context,
            ) {
                // SAFETY: the caller promises the features of the lanes, and slices with the bytes of `len` elements.
                unsafe { generic::to_odd_float::<$lanes, S>(src, dst, len, context) }
            }

            $(#[target_feature(enable = $features)])?
            unsafe fn look_up<S: Element, D: Element>(
                src: &[u8],
                dst: &mut crate::packed::Out,
                len: usize,
                context: &Context,
            ) {
                // SAFETY: the caller promises the features of the lanes, and slices with the bytes of `len` elements.
                unsafe { generic::look_up::cast::<$lanes, S, D>(src, dst, len, context) }
            }

            $(#[target_feature(enable = $features)])?
            unsafe fn pack<D: Element>(src: &[u8], dst: &mut crate::packed::Out, len: usize, context: &Context) {
                // SAFETY: the caller promises the features of the lanes, and slices with the bytes of `len` elements.
                unsafe { generic::look_up::pack::<$lanes, D>(src, dst, len, context) }
            }

            $(#[target_feature(enable = $features)])?
            unsafe fn unpack<S: Element>(src: &[u8], dst: &mut crate::packed::Out, len: usize, context: &Context) {
                // SAFETY: the caller promises the features of the lanes, and slices with the bytes of `len` elements.
                unsafe { generic::look_up::unpack::<$lanes, S>(src, dst, len, context) }
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

/// Defines functions of an instruction set, or methods of [`Lanes`], that are always inlined.
macro_rules! inlined {
    ($($(#[$attribute:meta])* unsafe fn $name:ident $(<const $constant:ident: $kind:ty>)?
        ($($argument:ident: $type:ty),*) $(-> $result:ty)? { $($body:tt)* })*) => {$(
        $(#[$attribute])*
        #[inline(always)]
        unsafe fn $name $(<const $constant: $kind>)? ($($argument: $type),*) $(-> $result)? {
            #[allow(unused_unsafe, reason = "where the target has the instructions, some need no caller's promise")]
            // SAFETY: the caller's: the processor has the instructions, and pointers are valid for what is read or
            // written.
            unsafe { $($body)* }
        }
    )*};
}
pub(crate) use inlined;
