//! The floating-point control register: a host may have set it to flush subnormals or to round another way, and a cast
//! must not notice. It is read before each cast, and only where it is not at its default is it set there and back.

/// Runs `f` with subnormals kept and rounding to nearest even.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn with_default<R>(f: impl FnOnce() -> R) -> R {
    /// Every exception masked, round to nearest even, no flushing.
    const DEFAULT: u32 = 0x1f80;
    /// The exception flags, which are results, not settings.
    const FLAGS: u32 = 0x3f;
    let control = read_control();
    if control & !FLAGS == DEFAULT {
        return f();
    }
    with_control(DEFAULT, control, f)
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn read_control() -> u32 {
    let mut control = 0u32;
    // SAFETY: stmxcsr writes four bytes to the address it is given, which is that of a local u32.
    unsafe { core::arch::asm!("stmxcsr [{}]", in(reg) &mut control, options(nostack, preserves_flags)) };
    control
}

/// Not inlined, so that the compiler cannot move the arithmetic of `f` out from between the two writes.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
#[cold]
fn with_control<R>(inner: u32, outer: u32, f: impl FnOnce() -> R) -> R {
    struct Restore(u32);
    impl Drop for Restore {
        fn drop(&mut self) {
            // SAFETY: loads a value that this register held when it was read.
            unsafe { core::arch::asm!("ldmxcsr [{}]", in(reg) &self.0, options(nostack, preserves_flags)) };
        }
    }
    let _restore = Restore(outer);
    // SAFETY: loads the register's default, the one that Rust's own arithmetic assumes.
    unsafe { core::arch::asm!("ldmxcsr [{}]", in(reg) &inner, options(nostack, preserves_flags)) };
    f()
}

/// Runs `f` with subnormals kept and rounding to nearest even.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub(crate) fn with_default<R>(f: impl FnOnce() -> R) -> R {
    let control: u64;
    // SAFETY: reads the floating-point control register.
    unsafe { core::arch::asm!("mrs {}, fpcr", out(reg) control, options(nomem, nostack, preserves_flags)) };
    if control == 0 {
        return f();
    }
    with_control(0, control, f)
}

/// Not inlined, so that the compiler cannot move the arithmetic of `f` out from between the two writes.
#[cfg(target_arch = "aarch64")]
#[inline(never)]
#[cold]
fn with_control<R>(inner: u64, outer: u64, f: impl FnOnce() -> R) -> R {
    struct Restore(u64);
    impl Drop for Restore {
        fn drop(&mut self) {
            // SAFETY: writes a value that this register held when it was read.
            unsafe { core::arch::asm!("msr fpcr, {}", in(reg) self.0, options(nostack, preserves_flags)) };
        }
    }
    let _restore = Restore(outer);
    // SAFETY: writes the register's default, the one that Rust's own arithmetic assumes.
    unsafe { core::arch::asm!("msr fpcr, {}", in(reg) inner, options(nostack, preserves_flags)) };
    f()
}

/// Runs `f`: elsewhere there is no such register that a host could have set, or no way known to read it.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[inline(always)]
pub(crate) fn with_default<R>(f: impl FnOnce() -> R) -> R {
    f()
}
