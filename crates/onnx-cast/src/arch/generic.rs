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

use crate::arch::portable::Portable;
use crate::element::{Class, Element, class};
use crate::kernel::{Context, Isa, Task};
use crate::packed::bits;
use small_float::RuleLanes;
use step::{Walk, finish, walk};

pub(crate) use crate::kernel::lanes::Lanes;

/// Casts in registers.
///
/// Every choice that depends only on the types is an `if const`, so that the compiler generates no code for the other
/// algorithms: this function is compiled for more than a hundred pairs.
///
/// # Safety
/// The conditions of [`crate::kernel::Kernel`], for the instructions of `L`.
#[inline(always)]
pub(crate) unsafe fn fused<L: Lanes, S: Element, D: Element>(task: &Task<'_>, context: &Context) {
    let rules = &context.rules;
    // SAFETY: the caller promises that the processor has the instructions and that the task has the bytes of its
    // elements; `walk` passes pointers to the bytes of one step.
    unsafe {
        if small_float::asks_for_scalar::<D>(rules) {
            return Portable::fused::<S, D>(task, context);
        }
        if const { matches!(by_exponent::codes::<L, S, D>(), Some(2)) } {
            by_exponent::cast::<L, S, D, 2>(task);
        } else if const { matches!(by_exponent::codes::<L, S, D>(), Some(4)) } {
            by_exponent::cast::<L, S, D, 4>(task);
        } else if const { by_words::applies::<L, S, D>() } {
            by_words::cast::<L, S, D>(task, rules);
        } else if const { matches!(by_upper_byte::entries::<L, S, D>(), Some(..=16)) } {
            by_upper_byte::cast::<L, S, D, 1>(task, rules);
        } else if const { matches!(by_upper_byte::entries::<L, S, D>(), Some(17..=64)) } {
            by_upper_byte::cast::<L, S, D, 4>(task, rules);
        } else if const { matches!(by_upper_byte::entries::<L, S, D>(), Some(65..)) } {
            by_upper_byte::cast::<L, S, D, 8>(task, rules);
        } else if const { powers::applies::<L, S, D>() } && *rules == Context::plain(S::DATA_TYPE, D::DATA_TYPE).rules {
            powers::cast::<L, S>(task);
        } else if const { bits::<S>() == 8 && matches!(class::<D>(), Class::Bool) } {
            walk::<L>(
                task,
                Walk::of::<S, D>(),
                #[inline(always)]
                |src, dst, _| L::store(dst, wide::to_bool::<L, S>(src)),
            );
        } else {
            let step = one_step::<L, S, D>(context);
            walk::<L>(
                task,
                Walk::of::<S, D>(),
                #[inline(always)]
                |src, dst, _| step(src, dst),
            );
        }
        finish::<L, D>(task);
    }
}

/// Casts to `float`, rounded to odd.
///
/// # Safety
/// The conditions of [`crate::kernel::Kernel`], for the instructions of `L`.
#[inline(always)]
pub(crate) unsafe fn to_odd_float<L: Lanes, S: Element>(task: &Task<'_>, context: &Context) {
    // Only a few rules treat numbers beyond the range of `float` differently from infinity.
    let is_double = const { matches!(class::<S>(), Class::F64) };
    // SAFETY: the caller promises that the processor has the instructions and that the task has the bytes of its
    // elements; `walk` passes pointers to the bytes of one step.
    unsafe {
        if L::F64_OVERFLOWS && is_double && context.rules.infinity != context.rules.overflow {
            return Portable::to_odd_float::<S>(task, context);
        }
        walk::<L>(
            task,
            Walk::of::<S, f32>(),
            #[inline(always)]
            |src, dst, _| {
                for i in 0..4 {
                    wide::store::<L>(dst, i, wide::f32_lanes::<L, S>(src, i));
                }
            },
        );
        finish::<L, f32>(task);
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
    // SAFETY: the processor has the instruction set of `L`. The closure is only called with pointers to the bytes of a
    // step: `src` has the elements, and `dst` has space for the results.
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
        // and, for the types of 32 bits or fewer, every value; and `walk` covers the whole target.
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
            unsafe fn fused<S: Element, D: Element>(task: &crate::kernel::Task<'_>, context: &Context) {
                // SAFETY: the caller promises the features of the lanes, and a task with the bytes of its elements.
                unsafe { generic::fused::<$lanes, S, D>(task, context) }
            }

            $(#[target_feature(enable = $features)])?
            unsafe fn to_odd_float<S: Element>(task: &crate::kernel::Task<'_>, context: &Context) {
                // SAFETY: the caller promises the features of the lanes, and a task with the bytes of its elements.
                unsafe { generic::to_odd_float::<$lanes, S>(task, context) }
            }

            $(#[target_feature(enable = $features)])?
            unsafe fn look_up<S: Element, D: Element>(task: &crate::kernel::Task<'_>, context: &Context) {
                // SAFETY: the caller promises the features of the lanes, and a task with the bytes of its elements.
                unsafe { generic::look_up::cast::<$lanes, S, D>(task, context) }
            }

            $(#[target_feature(enable = $features)])?
            unsafe fn pack<D: Element>(task: &crate::kernel::Task<'_>, _: &Context) {
                // SAFETY: the caller promises the features of the lanes, and a task with the bytes of its elements.
                unsafe { generic::look_up::pack::<$lanes, D>(task) }
            }

            $(#[target_feature(enable = $features)])?
            unsafe fn unpack<S: Element>(task: &crate::kernel::Task<'_>, _: &Context) {
                // SAFETY: the caller promises the features of the lanes, and a task with the bytes of its elements.
                unsafe { generic::look_up::unpack::<$lanes, S>(task) }
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
            // SAFETY: the processor has the instruction set of these lanes (`is_available`). All operands are values,
            // not pointers.
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
            // SAFETY: the processor has the instruction set of these lanes (`is_available`). All operands are values,
            // not pointers.
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
            // SAFETY: the processor has the instruction set of these lanes (`is_available`), and `src` has as many
            // integers of FROM bits as a vector has lanes of W bits. The loads need no alignment.
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
            // SAFETY: the processor has the instruction set of these lanes (`is_available`). All operands are values,
            // not pointers.
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
            // SAFETY: the processor has the instruction set (`is_available`). Pointers are valid for the bytes that the
            // body reads or writes, and aligned to a vector where it streams.
            unsafe { $($body)* }
        }
    )*};
}
pub(crate) use inlined;
