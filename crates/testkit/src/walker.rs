//! Expected results for source patterns in rising order, cheap enough to walk through all 2^32 of them.
//!
//! A cast is monotone, so in the order of bit patterns the results of a narrow target come in long runs. The runs'
//! ends are found once, by bisection with the oracle, and the walk is then a copy. Where the runs would be as many as
//! the values (a wide target, or one whose results wrap) each value is cast by [`Direct`].

use crate::oracle::{Direct, Rules, cast_bits};
use crate::packing::{pack_into, packed_len};
use crate::types::{Kind, Ty};

/// Expected results of one cast, for source bit patterns in rising order.
#[derive(Clone, Debug)]
pub struct Walker {
    from: Ty,
    to: Ty,
    way: Way,
}

#[derive(Clone, Debug)]
enum Way {
    /// `(first pattern, result)` in rising order, the first at pattern 0; and the place of the last answer.
    Runs {
        runs: Vec<(u64, u64)>,
        at: usize,
    },
    Direct(Direct),
}

impl Walker {
    /// Finds the runs of a cast, a tenth of a second of work.
    ///
    /// # Panics
    /// If a type is not numeric.
    pub fn new(from: Ty, to: Ty, rules: &Rules) -> Self {
        let wraps = match (from.kind(), to.kind()) {
            (Kind::Int { .. }, Kind::Int { .. }) => true,
            (Kind::Float(_), Kind::Int { .. }) => to.bits() < 8,
            _ => false,
        };
        let way = if from.bits() <= 16 {
            // Every value has its own entry: nothing is taken to be monotone.
            Way::Runs { runs: (0..=from.mask()).map(|b| (b, cast_bits(from, to, b, rules))).collect(), at: 0 }
        } else if to.bits() > 16 || wraps {
            Way::Direct(Direct::new(from, to, rules))
        } else {
            Way::Runs { runs: find_runs(from, |bits| cast_bits(from, to, bits, rules)), at: 0 }
        };
        Self { from, to, way }
    }

    /// The number of runs; none where each value is cast by itself.
    pub fn run_count(&self) -> Option<usize> {
        match &self.way {
            Way::Runs { runs, .. } => Some(runs.len()),
            Way::Direct(_) => None,
        }
    }

    /// The runs, as their first pattern and their result; none where each value is cast by itself.
    pub fn runs(&self) -> Option<&[(u64, u64)]> {
        match &self.way {
            Way::Runs { runs, .. } => Some(runs),
            Way::Direct(_) => None,
        }
    }

    /// The expected result for one pattern: at once for the patterns that follow the last one asked for, with a
    /// search for others.
    pub fn expect(&mut self, bits: u64) -> u64 {
        match &mut self.way {
            Way::Direct(direct) => direct.cast(bits),
            Way::Runs { runs, at } => {
                let bits = bits & self.from.mask();
                seek(runs, at, bits);
                runs[*at].1
            }
        }
    }

    /// The expected results for `first`, `first + 1`, ..., one per entry. The last must not exceed the type's patterns.
    pub fn fill(&mut self, first: u64, out: &mut [u64]) {
        match &mut self.way {
            Way::Direct(direct) => direct.cast_range(first, out),
            Way::Runs { runs, at } => {
                for_runs(runs, at, first, out.len(), |begin, end, code| out[begin..end].fill(code));
            }
        }
    }

    /// The tensor bytes expected for the elements `first`, `first + 1`, ..., in `out` in place of what it held.
    pub fn fill_packed(&mut self, first: u64, count: usize, out: &mut Vec<u8>) {
        out.clear();
        if let Way::Runs { runs, at } = &mut self.way {
            // Zeros, so that a run can add its bits to a byte that it shares with another.
            out.resize(packed_len(self.to, count), 0);
            for_runs(runs, at, first, count, |begin, end, code| fill_run(self.to, begin, end, code, out));
            return;
        }
        // A multiple of four elements, so that the pieces of a sub-byte type end on a byte.
        const PIECE: usize = 4096;
        let mut piece = [0; PIECE];
        for start in (0..count).step_by(PIECE) {
            let piece = &mut piece[..PIECE.min(count - start)];
            self.fill(first + start as u64, piece);
            pack_into(self.to, piece, out);
        }
    }
}

/// Calls `each` with the runs that the patterns from `first` on lie in, as the range of those `count` and the result.
fn for_runs(runs: &[(u64, u64)], at: &mut usize, first: u64, count: usize, mut each: impl FnMut(usize, usize, u64)) {
    let mut done = 0;
    while done < count {
        let bits = first + done as u64;
        seek(runs, at, bits);
        let left = count - done;
        let run = match runs.get(*at + 1) {
            Some(&(next, _)) => left.min(usize::try_from(next - bits).unwrap_or(left)),
            None => left,
        };
        each(done, done + run, runs[*at].1);
        done += run;
    }
}

/// Writes one result over the elements `begin..end` of packed bytes that are zero there.
fn fill_run(to: Ty, begin: usize, end: usize, code: u64, bytes: &mut [u8]) {
    fn repeat<const N: usize>(bytes: &mut [u8], pattern: u64) {
        let le = pattern.to_le_bytes();
        bytes.chunks_exact_mut(N).for_each(|bytes| bytes.copy_from_slice(&le[..N]));
    }
    let width = to.bits() as usize;
    match width {
        8 => return bytes[begin..end].fill(code as u8),
        16 => return repeat::<2>(&mut bytes[2 * begin..2 * end], code),
        32 => return repeat::<4>(&mut bytes[4 * begin..4 * end], code),
        64 => return repeat::<8>(&mut bytes[8 * begin..8 * end], code),
        _ => {}
    }
    let mut one_by_one = |from: usize, to: usize| {
        for bit in (from * width..to * width).step_by(width) {
            let shifted = (code << (bit % 8)).to_le_bytes();
            bytes[bit / 8] |= shifted[0];
            if bit % 8 + width > 8 {
                bytes[bit / 8 + 1] |= shifted[1];
            }
        }
    };
    // Whole groups of four elements, and what is before and behind them.
    let (first, last) = (begin.next_multiple_of(4), end / 4 * 4);
    if first >= last {
        return one_by_one(begin, end);
    }
    one_by_one(begin, first);
    one_by_one(last, end);
    let group = code | code << width | code << (2 * width) | code << (3 * width);
    let bytes = &mut bytes[first / 4 * (width / 2)..last / 4 * (width / 2)];
    match width {
        2 => repeat::<1>(bytes, group),
        4 => repeat::<2>(bytes, group),
        _ => repeat::<3>(bytes, group),
    }
}

fn seek(runs: &[(u64, u64)], at: &mut usize, bits: u64) {
    let begun = |at: usize| runs.get(at).is_some_and(|run| run.0 <= bits);
    if begun(*at) && !begun(*at + 1) {
        return;
    }
    if begun(*at + 1) && !begun(*at + 2) {
        *at += 1;
        return;
    }
    *at = runs.partition_point(|run| run.0 <= bits) - 1;
}

/// Stretches of patterns in which each result occurs in one run, as `(first, last)`.
///
/// Of floats: each sign from 0 to just below 1, from 1 to infinity, the signalling and the quiet NaNs. The cut at 1
/// is there for float8e8m0, which without saturation gives NaN below its range and above it.
fn stretches(from: Ty) -> Vec<(u64, u64)> {
    match from.kind() {
        Kind::Float(layout) => {
            let one = (layout.bias as u64) << layout.significand_bits;
            let infinity = layout.max_code() + 1;
            let quiet = infinity + (1 << (layout.significand_bits - 1));
            let last = layout.sign_bit() - 1;
            let half = [(0, one - 1), (one, infinity), (infinity + 1, quiet - 1), (quiet, last)];
            let negative = half.map(|(first, last)| (first | layout.sign_bit(), last | layout.sign_bit()));
            half.into_iter().chain(negative).collect()
        }
        _ => vec![(0, from.mask() / 2), (from.mask() / 2 + 1, from.mask())],
    }
}

fn find_runs(from: Ty, cast: impl Fn(u64) -> u64) -> Vec<(u64, u64)> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for (first, last) in stretches(from) {
        let mut begin = first;
        let mut code = cast(first);
        let mut length = 1;
        loop {
            if runs.last().is_none_or(|run| run.1 != code) {
                runs.push((begin, code));
            }
            // Neighbouring runs are much alike in length: search from the last one's.
            let (mut inside, mut reach) = (begin, length);
            let mut outside = loop {
                if last - inside <= reach {
                    break (cast(last) != code).then_some(last);
                }
                let probe = inside + reach;
                if cast(probe) != code {
                    break Some(probe);
                }
                inside = probe;
                reach = reach.saturating_mul(2);
            };
            let Some(outside) = &mut outside else { break };
            while *outside - inside > 1 {
                let middle = inside + (*outside - inside) / 2;
                if cast(middle) == code { inside = middle } else { *outside = middle }
            }
            length = *outside - begin;
            begin = *outside;
            code = cast(begin);
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generators::{Rng, near_ties, special};
    use crate::packing::pack;

    #[test]
    fn walks_as_the_oracle_casts() {
        for from in [Ty::Float, Ty::Int32, Ty::Uint32, Ty::Double, Ty::Int64, Ty::Uint64] {
            for to in Ty::NUMERIC {
                if to.bits() == 16 && from.bits() == 64 {
                    // As many runs as float's, found at twice the cost.
                    continue;
                }
                for rules in Rules::distinct(from, to) {
                    let mut walker = Walker::new(from, to, &rules);
                    let mut values = special(from);
                    values.extend(near_ties(from, to, 2000, 11));
                    let mut rng = Rng::new(12);
                    values.extend((0..2000).map(|_| rng.next_u64() & from.mask()));
                    values.sort_unstable();
                    for bits in values {
                        let want = cast_bits(from, to, bits, &rules);
                        let got = walker.expect(bits);
                        assert_eq!(got, want, "{} {bits:#x} to {} {rules:?}", from.name(), to.name());
                    }
                }
            }
        }
    }

    #[test]
    fn fills_what_it_expects() {
        for (from, to) in [
            (Ty::Float, Ty::Float4E2M1),
            (Ty::Float, Ty::Float6E3M2),
            (Ty::Int32, Ty::Float16),
            (Ty::Float, Ty::Double),
            (Ty::Float16, Ty::Int2),
            (Ty::Uint32, Ty::Uint8),
        ] {
            let rules = Rules::default();
            let mut walker = Walker::new(from, to, &rules);
            for first in [0, 0x7fff, from.mask() - 9000] {
                let count = 9001.min(from.mask() - first + 1) as usize;
                let want: Vec<u64> = (0..count as u64).map(|i| cast_bits(from, to, first + i, &rules)).collect();
                let mut got = vec![0; count];
                walker.fill(first, &mut got);
                assert_eq!(got, want, "{} to {} at {first:#x}", from.name(), to.name());
                let mut bytes = vec![1];
                walker.fill_packed(first, count, &mut bytes);
                assert_eq!(bytes.len(), packed_len(to, count));
                assert_eq!(bytes, pack(to, &want));
            }
        }
    }

    #[test]
    fn runs_are_few_and_in_order() {
        let walker = Walker::new(Ty::Float, Ty::Float8E4M3FN, &Rules::default());
        let runs = walker.runs().unwrap();
        assert!(runs.is_sorted_by(|a, b| a.0 < b.0) && runs.len() < 260, "{}", runs.len());
        assert!(Walker::new(Ty::Float, Ty::Double, &Rules::default()).run_count().is_none());
    }
}
