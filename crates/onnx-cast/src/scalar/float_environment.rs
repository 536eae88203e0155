//! The floating-point control register: a host may have set it to flush subnormals or to round another way, and a cast
//! must not notice. It is read before each cast, and only where it is not at its default is it set there and back.

/// Runs `f` with subnormals kept and rounding to nearest even.
#[inline(always)]
pub(crate) fn with_default<R>(f: impl FnOnce() -> R) -> R {
    let control = register::read();
    if control & !register::FLAGS == register::DEFAULT { f() } else { with_control(register::DEFAULT, control, f) }
}

/// Not inlined, so that the compiler cannot move the arithmetic of `f` out from between the two writes.
#[inline(never)]
#[cold]
fn with_control<R>(inner: register::Control, outer: register::Control, f: impl FnOnce() -> R) -> R {
    struct Restore(register::Control);
    impl Drop for Restore {
        fn drop(&mut self) {
            // SAFETY: a value that was read.
            unsafe { register::write(self.0) };
        }
    }
    let _restore = Restore(outer);
    // SAFETY: the default, which is what Rust's own arithmetic assumes.
    unsafe { register::write(inner) };
    f()
}

/// MXCSR, by which SSE and AVX compute, and with them everything that is compiled for these targets.
#[cfg(all(not(miri), any(target_arch = "x86_64", all(target_arch = "x86", target_feature = "sse2"))))]
mod register {
    pub(super) type Control = u32;

    /// Every exception masked, round to nearest even, no flushing.
    pub(super) const DEFAULT: Control = 0x1f80;

    /// The exception flags, which are results, not settings.
    pub(super) const FLAGS: Control = 0x3f;

    #[inline(always)]
    pub(super) fn read() -> Control {
        let mut control: Control = 0;
        // SAFETY: stmxcsr writes four bytes to the address it is given, which is that of a local u32.
        unsafe { core::arch::asm!("stmxcsr [{}]", in(reg) &mut control, options(nostack, preserves_flags)) };
        control
    }

    /// # Safety
    /// It is the default, or a value that was read.
    #[inline(always)]
    pub(super) unsafe fn write(control: Control) {
        // SAFETY: no reserved bit is set in either, and what runs under a value that was read ran so before.
        unsafe { core::arch::asm!("ldmxcsr [{}]", in(reg) &control, options(nostack, preserves_flags)) };
    }
}

/// FPCR.
#[cfg(all(not(miri), target_arch = "aarch64"))]
mod register {
    pub(super) type Control = u64;

    /// Round to nearest even, no flushing, NaNs as they are.
    pub(super) const DEFAULT: Control = 0;

    /// The exception flags have a register of their own.
    pub(super) const FLAGS: Control = 0;

    #[inline(always)]
    pub(super) fn read() -> Control {
        let control: Control;
        // SAFETY: reads the floating-point control register.
        unsafe { core::arch::asm!("mrs {}, fpcr", out(reg) control, options(nomem, nostack, preserves_flags)) };
        control
    }

    /// # Safety
    /// It is the default, or a value that was read.
    #[inline(always)]
    pub(super) unsafe fn write(control: Control) {
        // SAFETY: no reserved bit is set in either, and what runs under a value that was read ran so before.
        unsafe { core::arch::asm!("msr fpcr, {}", in(reg) control, options(nostack, preserves_flags)) };
    }
}

/// Elsewhere there is no such register that a host could have set, or no way known to read it; and Miri, which has none,
/// runs no assembly.
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
    /// None is needed.
    #[inline(always)]
    pub(super) unsafe fn write(_: Control) {}
}
