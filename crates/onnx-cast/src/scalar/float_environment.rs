//! The floating-point control register. A host may have set it to flush subnormals or to another rounding direction,
//! which must not change a result. [`DefaultEnvironment`] sets the default for as long as it lives, and restores the
//! host's setting. Reading the register is cheap; it is written only if it differs.

use core::hint::black_box;
use core::marker::PhantomData;

/// Keeps subnormals, and rounding to nearest, ties to even, on this thread until it is dropped. Jobs that read files
/// and computations on data in memory hold one from their first line on. A computation on numbers in registers uses
/// [`with_default`], because the compiler may move arithmetic across the write of the register.
#[must_use = "the host's setting returns when this is dropped"]
pub struct DefaultEnvironment {
    /// The host's setting, if it is not the default.
    outer: Option<register::Control>,
    /// The register belongs to the thread.
    not_send: PhantomData<*const ()>,
}

impl DefaultEnvironment {
    /// Sets the default environment.
    #[inline]
    pub fn enter() -> Self {
        let control = register::read();
        let outer = (control & !register::FLAGS != register::DEFAULT).then_some(control);
        if outer.is_some() {
            // SAFETY: this is the default, which Rust's own arithmetic assumes.
            unsafe { register::write(register::DEFAULT) };
        }
        DefaultEnvironment { outer, not_send: PhantomData }
    }
}

impl Drop for DefaultEnvironment {
    #[inline]
    fn drop(&mut self) {
        if let Some(outer) = self.outer {
            // SAFETY: `read` returned this value.
            unsafe { register::write(outer) };
        }
    }
}

/// Runs `f` in the default environment.
#[inline(always)]
pub fn with_default<R>(f: impl FnOnce() -> R) -> R {
    let is_default = register::read() & !register::FLAGS == register::DEFAULT;
    if is_default { f() } else { in_foreign_environment(f) }
}

/// What `f` captures and returns goes through [`black_box`], so that the compiler cannot move arithmetic of `f` before
/// the first write of the register or after the second.
#[inline(never)]
#[cold]
fn in_foreign_environment<R>(f: impl FnOnce() -> R) -> R {
    let _environment = DefaultEnvironment::enter();
    let f = black_box(f);
    black_box(f())
}

/// MXCSR, the control register of SSE and AVX. All float arithmetic compiled for these targets obeys it.
#[cfg(all(not(miri), any(target_arch = "x86_64", all(target_arch = "x86", target_feature = "sse2"))))]
mod register {
    pub(super) type Control = u32;

    /// Every exception masked, round to nearest even, no flushing.
    pub(super) const DEFAULT: Control = 0x1f80;

    /// The exception flags: results, not settings.
    pub(super) const FLAGS: Control = 0x3f;

    #[inline(always)]
    pub(super) fn read() -> Control {
        let mut control: Control = 0;
        // SAFETY: `stmxcsr` writes four bytes to the given address, which is that of a local u32.
        unsafe { core::arch::asm!("stmxcsr [{}]", in(reg) &mut control, options(nostack, preserves_flags)) };
        control
    }

    /// # Safety
    /// `control` is the default, or a value that `read` returned.
    #[inline(always)]
    pub(super) unsafe fn write(control: Control) {
        // SAFETY: neither value has a reserved bit set, and a value that `read` returned was already in force on this
        // thread.
        unsafe { core::arch::asm!("ldmxcsr [{}]", in(reg) &control, options(nostack, preserves_flags)) };
    }
}

/// FPCR.
#[cfg(all(not(miri), target_arch = "aarch64"))]
mod register {
    pub(super) type Control = u64;

    /// Round to nearest even, no flushing, NaN payloads kept.
    pub(super) const DEFAULT: Control = 0;

    /// The exception flags are in another register, FPSR.
    pub(super) const FLAGS: Control = 0;

    #[inline(always)]
    pub(super) fn read() -> Control {
        let control: Control;
        // SAFETY: the instruction only reads the floating-point control register.
        unsafe { core::arch::asm!("mrs {}, fpcr", out(reg) control, options(nomem, nostack, preserves_flags)) };
        control
    }

    /// # Safety
    /// `control` is the default, or a value that `read` returned.
    #[inline(always)]
    pub(super) unsafe fn write(control: Control) {
        // SAFETY: neither value has a reserved bit set, and a value that `read` returned was already in force on this
        // thread.
        unsafe { core::arch::asm!("msr fpcr, {}", in(reg) control, options(nostack, preserves_flags)) };
    }
}

/// On other targets a host cannot set such a register, or there is no known way to read it. Miri has no such register
/// and does not run assembly.
#[cfg(any(
    miri,
    not(any(target_arch = "x86_64", all(target_arch = "x86", target_feature = "sse2"), target_arch = "aarch64"))
))]
mod register {
    pub(super) type Control = u32;
    pub(super) const DEFAULT: Control = 0;
    pub(super) const FLAGS: Control = 0;

    #[inline(always)]
    pub(super) fn read() -> Control {
        DEFAULT
    }

    /// # Safety
    /// No preconditions.
    #[inline(always)]
    pub(super) unsafe fn write(_: Control) {}
}
