//! The floating-point control register: the settings that a host may have left there when it calls the library.
#![allow(unsafe_code)]

use std::fmt;

/// A value of the register, without its exception flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting(u64);

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// All settings that are tested.
pub fn settings() -> impl Iterator<Item = Setting> {
    platform::settings().map(Setting)
}

#[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
mod platform {
    use std::arch::asm;

    /// MXCSR: each rounding direction (bits 13 and 14), with subnormals kept or flushed (FTZ, bit 15) and read as zero
    /// (DAZ, bit 6), exceptions masked (bits 7 to 12) or not.
    pub(super) fn settings() -> impl Iterator<Item = u64> {
        let flush = [0, 1 << 15, 1 << 6, 1 << 15 | 1 << 6];
        let settings = flush.into_iter().flat_map(|flush| (0..4).map(move |round| 0x1f80 | flush | round << 13));
        settings.chain([0x0000, 1 << 15 | 1 << 6 | 3 << 13])
    }

    pub(super) fn get() -> u64 {
        let mut value = 0u32;
        // SAFETY: `stmxcsr` writes four bytes to the given address, which is that of a local u32.
        unsafe { asm!("stmxcsr [{}]", in(reg) &mut value, options(nostack, preserves_flags)) };
        // The lowest six bits are exception flags, not settings.
        u64::from(value & !0x3f)
    }

    pub(super) fn set(value: u64) {
        let value = value as u32;
        // SAFETY: the value is one of `settings` or what the register held, so no reserved bit is set. The only float
        // arithmetic that runs under it is the library's, which is under test.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &value, options(nostack, preserves_flags)) };
    }
}

#[cfg(target_arch = "aarch64")]
mod platform {
    use std::arch::asm;

    /// FPCR: each rounding direction (bits 22 and 23), with subnormals kept or flushed (FZ, bit 24, and FZ16, bit 19),
    /// NaNs propagated or replaced (DN, bit 25).
    pub(super) fn settings() -> impl Iterator<Item = u64> {
        let flush = [0, 1 << 24 | 1 << 19, 1 << 25, 1 << 24 | 1 << 19 | 1 << 25];
        flush.into_iter().flat_map(|flush| (0..4).map(move |round| flush | round << 22))
    }

    pub(super) fn get() -> u64 {
        let value: u64;
        // SAFETY: the instruction only reads the floating-point control register.
        unsafe { asm!("mrs {}, fpcr", out(reg) value, options(nomem, nostack, preserves_flags)) };
        value
    }

    pub(super) fn set(value: u64) {
        // SAFETY: the value is one of `settings` or what the register held, so no reserved bit is set. The only float
        // arithmetic that runs under it is the library's, which is under test.
        unsafe { asm!("msr fpcr, {}", in(reg) value, options(nostack, preserves_flags)) };
    }
}

/// Runs `f` under a setting of the control register. Returns the register's value afterwards.
#[inline(never)]
pub fn with(setting: Setting, f: impl FnOnce()) -> Setting {
    let before = platform::get();
    platform::set(setting.0);
    f();
    let after = platform::get();
    platform::set(before);
    Setting(after)
}
