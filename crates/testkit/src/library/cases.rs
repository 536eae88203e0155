//! Casts with their inputs and the results of the scalar cast, and the checks of every backend that work in programs
//! with and without threads.

#[cfg(any(target_arch = "x86", target_arch = "x86_64", target_arch = "aarch64"))]
use super::control_register;
use super::guarded::Guarded;
use super::scalar::scalar_cast;
use super::{data_type, options};
use crate::generators::{Rng, near_ties, random, random_scaled, special};
use crate::packing::{pack, packed_len, unpack};
use crate::{Rules, Ty};
use onnx_cast::backend::{self, Backend};
use onnx_cast::{Cast, Plan, TensorView};
use std::sync::LazyLock;

/// The lengths tried: no backend handles more than 64 elements per step, or unrolls more than four steps.
const LENGTHS: std::ops::RangeInclusive<usize> = 0..=260;

/// Pairs that are cast but not compared, such as `int64:float`: an emulator may round twice where a processor rounds
/// once.
static UNCOMPARED: LazyLock<String> = LazyLock::new(|| std::env::var("ONNX_CAST_TEST_UNCOMPARED").unwrap_or_default());

/// One cast with its inputs and the results of the scalar cast.
pub struct Case {
    /// The source type.
    pub from: Ty,
    /// The target type.
    pub to: Ty,
    /// The settings of the cast.
    pub rules: Rules,
    /// The number of elements: a multiple of 8, so that every eighth element starts at a byte in both types.
    pub count: usize,
    /// The packed elements.
    pub source: Vec<u8>,
    /// The packed results of the scalar cast.
    pub expected: Vec<u8>,
}

impl Case {
    /// Special values, values near ties and random ones, in a random order that is the same in every run.
    pub fn new(from: Ty, to: Ty, rules: Rules) -> Self {
        let seed = u64::from(data_type(from) as u8) << 8 | u64::from(data_type(to) as u8);
        let mut values = special(from);
        values.extend(near_ties(from, to, 500, seed));
        values.extend(random(from, 300, seed));
        values.extend(random_scaled(from, 300, seed));
        // Keep an odd number of groups of eight: when the values are repeated, positions that are a power of two apart
        // differ.
        values.truncate(((values.len() / 8 - 1) | 1) * 8);
        let mut rng = Rng::new(seed);
        for last in (1..values.len()).rev() {
            values.swap(last, rng.below(last as u64 + 1) as usize);
        }
        let cast = Cast::new(data_type(to), &options(&rules, Backend::best())).expect("a version that has the target");
        let expected = scalar_cast(data_type(from), data_type(to), &cast.rules(), &values);
        Case { from, to, rules, count: values.len(), source: pack(from, &values), expected: pack(to, &expected) }
    }

    /// The cast, planned on a backend.
    pub fn plan(&self, backend: Backend) -> Plan {
        super::plan(self.from, self.to, &self.rules, backend)
    }

    /// Casts the first `len` of the elements `src` into `dst`.
    pub fn run(&self, plan: &Plan, len: usize, src: &[u8], dst: &mut [u8]) {
        let shape = [len];
        let view = TensorView::new(plan.source_type(), &shape, src).expect("bytes of the right length");
        plan.run_into(&view, dst).expect("a numeric cast");
    }

    /// Compares the result of casting `len` elements, starting at `first`, a multiple of 8.
    pub fn check(&self, first: usize, len: usize, dst: &[u8], how: impl Fn() -> String) {
        let begin = packed_len(self.to, first);
        let bits = len * self.to.bits() as usize;
        let (whole, rest) = (bits / 8, bits % 8);
        let expected = &self.expected[begin..begin + bits.div_ceil(8)];
        let padded = rest == 0 || dst[whole] == expected[whole] & ((1 << rest) - 1);
        if dst[..whole] == expected[..whole] && padded {
            return;
        }
        let pair = format!("{}:{}", self.from.name(), self.to.name());
        if UNCOMPARED.split(',').any(|uncompared| uncompared == pair) {
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

/// Casts every case at every length, at both ends of the memory and in between. Returns the number of casts.
pub fn every_length_at_every_alignment() -> u64 {
    let mut casts = 0;
    // The source is allocated last: where only one can be guarded, it is the last, and canaries surround the other.
    let mut dst = Guarded::new(1 << 16);
    let mut src = Guarded::new(1 << 16);
    let mut rng = Rng::new(51);
    for_every_case(|case| {
        for backend in backend::available() {
            let plan = case.plan(backend);
            for len in LENGTHS {
                let (src_len, dst_len) = (packed_len(case.from, len), packed_len(case.to, len));
                // At the end of the memory, at its start, and at a random place in between.
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
                    casts += 1;
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
    casts
}

/// Casts every case under every setting of the control register. Returns the number of casts.
#[cfg(any(target_arch = "x86", target_arch = "x86_64", target_arch = "aarch64"))]
pub fn every_setting_of_the_control_register() -> u64 {
    let mut casts = 0;
    let mut dst = Vec::new();
    for_every_case(|case| {
        // Full vectors and a tail.
        let len = case.count - 3;
        let src = &case.source[..packed_len(case.from, len)];
        dst.resize(packed_len(case.to, len), 0);
        for backend in backend::available() {
            let plan = case.plan(backend);
            for setting in control_register::settings() {
                dst.fill(0xa5);
                let after = control_register::with(setting, || case.run(&plan, len, src, &mut dst));
                casts += 1;
                let how = || format!("{backend:?} with the control register {setting}");
                case.check(0, len, &dst, how);
                assert_eq!(after, setting, "{} -> {}, {}", case.from.name(), case.to.name(), how());
            }
        }
    });
    casts
}
