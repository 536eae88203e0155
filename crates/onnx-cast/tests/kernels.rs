//! Is every backend the scalar cast, bit for bit? Every pair and setting on every backend of this machine: every length
//! about the vector widths, every misalignment, next to memory that must be neither read nor written, under every
//! setting of the floating-point control register, and as tensors larger than the cache.

mod common;
#[path = "common/guarded.rs"]
mod guarded;

use common::{data_type, options};
use guarded::Guarded;
use onnx_cast::scalar::cast_one;
use onnx_cast::*;
use testkit::generators::{Rng, near_ties, random, random_scaled, special};
use testkit::packing::{pack, packed_len, unpack};
use testkit::{Rules, Ty};

/// The lengths tried: no backend takes more than 64 elements a step, or four steps at once.
const LENGTHS: std::ops::RangeInclusive<usize> = 0..=260;

/// The Rust types of the 25 numeric types.
macro_rules! numeric {
    ($callback:ident) => {
        $callback! {
            f32 f64 Float16 BFloat16 Float8E4M3FN Float8E4M3FNUZ Float8E5M2 Float8E5M2FNUZ Float8E8M0 Float6E2M3
            Float6E3M2 Float4E2M1 i8 i16 i32 i64 u8 u16 u32 u64 Int4 Int2 Uint4 Uint2 bool
        }
    };
}

/// The scalar cast of bit patterns, by the Rust types of the pair.
fn scalar_cast(from: Ty, to: Ty, rules: &scalar::Rules, values: &[u64]) -> Vec<u64> {
    fn cast<S: scalar::Widen, D: scalar::Narrow>(values: &[u64], rules: &scalar::Rules) -> Vec<u64> {
        let one = |&bits: &u64| cast_one::<S, D>(S::from_bits(Word::from_u64(bits)), rules).to_bits().to_u64();
        values.iter().map(one).collect()
    }
    fn row<S: scalar::Widen>(to: DataType, values: &[u64], rules: &scalar::Rules) -> Vec<u64> {
        macro_rules! columns {
            ($($target:ty)*) => {
                match to {
                    $(to if to == <$target>::DATA_TYPE => cast::<S, $target>(values, rules),)*
                    other => panic!("{other} is not in the list of Rust types"),
                }
            };
        }
        numeric!(columns)
    }
    let (from, to) = (data_type(from), data_type(to));
    macro_rules! rows {
        ($($source:ty)*) => {
            match from {
                $(from if from == <$source>::DATA_TYPE => row::<$source>(to, values, rules),)*
                other => panic!("{other} is not in the list of Rust types"),
            }
        };
    }
    numeric!(rows)
}

/// One cast with its inputs and what the scalar cast makes of them.
struct Case {
    from: Ty,
    to: Ty,
    rules: Rules,
    /// As many as are a multiple of 8, so that eight and eight of them are whole bytes in either type.
    count: usize,
    source: Vec<u8>,
    expected: Vec<u8>,
}

impl Case {
    fn new(from: Ty, to: Ty, rules: Rules) -> Self {
        let seed = u64::from(data_type(from) as u8) << 8 | u64::from(data_type(to) as u8);
        let mut values = special(from);
        values.extend(near_ties(from, to, 500, seed));
        values.extend(random(from, 300, seed));
        values.extend(random_scaled(from, 300, seed));
        // An odd number of eights: no two places that are a power of two apart hold the same values when it is repeated.
        values.truncate(((values.len() / 8 - 1) | 1) * 8);
        let mut rng = Rng::new(seed);
        for last in (1..values.len()).rev() {
            values.swap(last, rng.below(last as u64 + 1) as usize);
        }
        let cast = Cast::new(data_type(to), &options(&rules, Backend::best())).expect("a version that has the target");
        let expected = scalar_cast(from, to, &cast.rules(), &values);
        Case { from, to, rules, count: values.len(), source: pack(from, &values), expected: pack(to, &expected) }
    }

    fn plan(&self, backend: Backend) -> Plan {
        common::plan(self.from, self.to, &self.rules, backend)
    }

    fn run(&self, plan: &Plan, len: usize, src: &[u8], dst: &mut [u8]) {
        let shape = [len];
        let view = TensorView::new(plan.from(), &shape, src).expect("bytes of the right length");
        plan.run_into(&view, dst).expect("a numeric cast");
    }

    /// Compares the result of casting `len` elements from `first`, a multiple of 8, on.
    fn check(&self, first: usize, len: usize, dst: &[u8], how: impl Fn() -> String) {
        let begin = packed_len(self.to, first);
        let bits = len * self.to.bits() as usize;
        let (whole, rest) = (bits / 8, bits % 8);
        let expected = &self.expected[begin..begin + bits.div_ceil(8)];
        let padded = rest == 0 || dst[whole] == expected[whole] & ((1 << rest) - 1);
        if dst[..whole] == expected[..whole] && padded {
            return;
        }
        let name = format!("{} -> {} {:?}, {}", self.from.name(), self.to.name(), self.rules, how());
        let source = packed_len(self.from, first)..packed_len(self.from, first + len);
        let source = unpack(self.from, &self.source[source], len).expect("the bytes of the source");
        let got = unpack(self.to, dst, len).expect("the bytes of the result");
        let want = unpack(self.to, expected, len).expect("the bytes of the result");
        for (i, ((source, got), want)) in source.into_iter().zip(got).zip(want).enumerate() {
            assert_eq!(got, want, "{name}: element {i} of {len}, {source:#x} -> {got:#x}, want {want:#x}");
        }
        panic!("{name}: the padding is not zero");
    }
}

fn for_every_case(mut run: impl FnMut(&Case)) {
    for from in Ty::NUMERIC {
        for to in Ty::NUMERIC {
            for rules in Rules::distinct(from, to) {
                run(&Case::new(from, to, rules));
            }
        }
    }
}

#[test]
fn the_rust_types_are_all() {
    macro_rules! list {
        ($($ty:ty)*) => { vec![$(<$ty>::DATA_TYPE),*] };
    }
    let mut listed = numeric!(list);
    listed.sort();
    assert_eq!(listed, DataType::NUMERIC);
}

#[test]
fn every_length_at_every_alignment() {
    let (mut src, mut dst) = (Guarded::new(1 << 16), Guarded::new(1 << 16));
    let mut rng = Rng::new(51);
    for_every_case(|case| {
        for backend in available_backends() {
            let plan = case.plan(backend);
            for len in LENGTHS {
                let (src_len, dst_len) = (packed_len(case.from, len), packed_len(case.to, len));
                // At the very end of the memory, at the very start, and somewhere in between.
                let ends = [src.bytes().len() - src_len, dst.bytes().len() - dst_len];
                let middle = [64 + rng.below(64) as usize, 64 + rng.below(64) as usize];
                for [src_at, dst_at] in [ends, [0, 0], middle] {
                    let first = 8 * rng.below((case.count - len) as u64 / 8 + 1) as usize;
                    let begin = packed_len(case.from, first);
                    let src = &mut src.bytes()[src_at..src_at + src_len];
                    src.copy_from_slice(&case.source[begin..begin + src_len]);

                    const CANARY: usize = 64;
                    let dst = dst.bytes();
                    let low = dst_at.saturating_sub(CANARY);
                    let high = (dst_at + dst_len + CANARY).min(dst.len());
                    dst[low..high].fill(0xa5);
                    case.run(&plan, len, src, &mut dst[dst_at..dst_at + dst_len]);
                    let how = || format!("{backend:?}, {len} elements from byte {src_at} to byte {dst_at}");
                    case.check(first, len, &dst[dst_at..dst_at + dst_len], how);
                    let intact = |bytes: &[u8]| bytes.iter().all(|&byte| byte == 0xa5);
                    assert!(
                        intact(&dst[low..dst_at]) && intact(&dst[dst_at + dst_len..high]),
                        "{} -> {} {:?}, {}: bytes beside the result are overwritten",
                        case.from.name(),
                        case.to.name(),
                        case.rules,
                        how()
                    );
                }
            }
        }
    });
}

/// What a host may have made of the floating-point control register.
#[cfg(target_arch = "x86_64")]
mod control {
    use std::arch::asm;

    /// MXCSR: each rounding direction (bits 13 and 14), with subnormals kept or flushed (FTZ, bit 15) and read as zero
    /// (DAZ, bit 6), exceptions masked (bits 7 to 12) or not.
    pub(crate) fn settings() -> impl Iterator<Item = u64> {
        let flush = [0, 1 << 15, 1 << 6, 1 << 15 | 1 << 6];
        let settings = flush.into_iter().flat_map(|flush| (0..4).map(move |round| 0x1f80 | flush | round << 13));
        settings.chain([0x0000, 1 << 15 | 1 << 6 | 3 << 13])
    }

    pub(crate) fn get() -> u64 {
        let mut value = 0u32;
        // SAFETY: stmxcsr writes four bytes to the address it is given, which is that of a local u32.
        unsafe { asm!("stmxcsr [{}]", in(reg) &mut value, options(nostack, preserves_flags)) };
        // The lowest six bits are not settings: they say which exceptions there have been.
        u64::from(value & !0x3f)
    }

    fn set(value: u64) {
        let value = value as u32;
        // SAFETY: loads a value of which no reserved bit is set. The code that runs under it does no arithmetic on
        // floats but the library's, which is what is tested.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &value, options(nostack, preserves_flags)) };
    }

    /// Runs `f` under a setting, and gives what the register is after it.
    #[inline(never)]
    pub(crate) fn with(setting: u64, f: impl FnOnce()) -> u64 {
        let before = get();
        set(setting);
        f();
        let after = get();
        set(before);
        after
    }
}

/// What a host may have made of the floating-point control register.
#[cfg(target_arch = "aarch64")]
mod control {
    use std::arch::asm;

    /// FPCR: each rounding direction (bits 22 and 23), with subnormals kept or flushed (FZ, bit 24, and FZ16, bit 19),
    /// NaNs propagated or replaced (DN, bit 25).
    pub(crate) fn settings() -> impl Iterator<Item = u64> {
        let flush = [0, 1 << 24 | 1 << 19, 1 << 25, 1 << 24 | 1 << 19 | 1 << 25];
        flush.into_iter().flat_map(|flush| (0..4).map(move |round| flush | round << 22))
    }

    pub(crate) fn get() -> u64 {
        let value: u64;
        // SAFETY: reads the floating-point control register.
        unsafe { asm!("mrs {}, fpcr", out(reg) value, options(nomem, nostack, preserves_flags)) };
        value
    }

    fn set(value: u64) {
        // SAFETY: writes a value of which no reserved bit is set. The code that runs under it does no arithmetic on
        // floats but the library's, which is what is tested.
        unsafe { asm!("msr fpcr, {}", in(reg) value, options(nostack, preserves_flags)) };
    }

    /// Runs `f` under a setting, and gives what the register is after it.
    #[inline(never)]
    pub(crate) fn with(setting: u64, f: impl FnOnce()) -> u64 {
        let before = get();
        set(setting);
        f();
        let after = get();
        set(before);
        after
    }
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[test]
fn the_control_register_changes_nothing_and_stays() {
    let mut dst = Vec::new();
    for_every_case(|case| {
        // Whole vectors and a tail.
        let len = case.count - 3;
        let src = &case.source[..packed_len(case.from, len)];
        dst.resize(packed_len(case.to, len), 0);
        for backend in available_backends() {
            let plan = case.plan(backend);
            for setting in control::settings() {
                dst.fill(0xa5);
                let after = control::with(setting, || case.run(&plan, len, src, &mut dst));
                let how = || format!("{backend:?} with the control register {setting:#x}");
                case.check(0, len, &dst, how);
                assert_eq!(after, setting, "{} -> {}, {}", case.from.name(), case.to.name(), how());
            }
        }
    });
}

/// A large tensor may go another way than a small one: several threads, and from more bytes than the caches hold on,
/// stores that pass them by. The way depends on the widths alone, so the largest are tried for one pair of each.
#[test]
fn large_tensors_are_cast_as_small_ones() {
    /// Bytes of source and result together: above where threads begin, and where streaming does.
    const LARGE: usize = 5 << 20;
    const STREAMED: usize = 41 << 20;
    let mut rng = Rng::new(52);
    let mut widths = Vec::new();
    let mut dst = Vec::new();
    for from in Ty::NUMERIC {
        for to in Ty::NUMERIC {
            let case = Case::new(from, to, Rules::distinct(from, to)[0]);
            let new = from != to && !widths.contains(&(from.bits(), to.bits()));
            let (bytes, threads) = if new { (STREAMED, &[1, 2, 3, 5][..]) } else { (LARGE, &[5][..]) };
            if new {
                widths.push((from.bits(), to.bits()));
            }
            let len = bytes * 8 / (from.bits() + to.bits()) as usize / case.count * case.count + case.count / 2 + 3;
            // The case's values over and over; and so are the results.
            let src = case.source.repeat(len.div_ceil(case.count));
            let src = &src[..packed_len(from, len)];
            for backend in available_backends() {
                for &threads in threads {
                    let plan = Cast::new(data_type(to), &options(&case.rules, backend)).expect("a type of Cast");
                    let plan = plan.with_threads(threads).plan(data_type(from)).expect("a type of Cast");
                    let at = rng.below(64) as usize;
                    dst.clear();
                    dst.resize(at + packed_len(to, len) + 64, 0xa5);
                    let (before, rest) = dst.split_at_mut(at);
                    let (result, behind) = rest.split_at_mut(packed_len(to, len));
                    five_threads().install(|| case.run(&plan, len, src, result));
                    let how =
                        |nth| format!("{backend:?}, {threads} threads, {len} elements to byte {at}, repetition {nth}");
                    for (nth, result) in result.chunks(case.expected.len()).enumerate() {
                        case.check(0, case.count.min(len - nth * case.count), result, || how(nth));
                    }
                    let intact = before.iter().chain(&*behind).all(|&byte| byte == 0xa5);
                    assert!(intact, "{} -> {}, {}: bytes beside the result", from.name(), to.name(), how(0));
                }
            }
        }
    }
}

/// A pool of more threads than the machine may have processors.
fn five_threads() -> &'static rayon::ThreadPool {
    static POOL: std::sync::LazyLock<rayon::ThreadPool> =
        std::sync::LazyLock::new(|| rayon::ThreadPoolBuilder::new().num_threads(5).build().expect("five threads"));
    &POOL
}
