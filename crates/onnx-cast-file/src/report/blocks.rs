//! Statistics of the blocks of a scaled candidate: their amax and signal-to-noise ratio.

use super::Magnitudes;
use super::scaled::Scaled;
use onnx_cast::__private::DefaultEnvironment;

/// Statistics of the blocks that share a scale: histograms of their amax and of their signal-to-noise ratio.
///
/// Blocks with NaN or infinity, and those of zeros alone, are in neither histogram.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Blocks {
    /// How many there are.
    pub count: u64,
    /// Those whose elements are all zero.
    pub zeros: u64,
    /// Those with NaN or infinity.
    pub not_finite: u64,
    /// Those of which every other value is kept.
    pub exact: u64,
    /// Histogram of amax, by power of two.
    pub amax: Magnitudes,
    /// How many have each ratio of signal to noise, of those that are not exact.
    pub snr: Ratios,
}

/// A histogram of ratios of signal to noise, in steps of [`Ratios::STEP`] dB.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Ratios {
    /// The step that the first count is for: of ratios from `first * STEP` dB up to one step more.
    pub first: i32,
    /// The counts; neither the first nor the last is zero.
    pub counts: Vec<u64>,
}

impl Ratios {
    /// The width of a step in dB.
    pub const STEP: i32 = 3;
}

impl Blocks {
    /// The ratio of signal to noise, in dB, that this share of the blocks is below, up to the end of a step. Zeros and
    /// exact blocks are above all. `None` where the share ends among them, or there are no blocks.
    pub fn snr_below(&self, share: f64) -> Option<i32> {
        let _environment = DefaultEnvironment::enter();
        let wanted = (share * (self.count - self.not_finite) as f64).ceil().max(1.0);
        let mut sum = 0;
        let steps = (self.snr.first + 1..).zip(&self.snr.counts);
        let mut ends = steps.map(|(end, count)| {
            sum += count;
            (end * Ratios::STEP, sum)
        });
        ends.find(|(_, sum)| *sum as f64 >= wanted).map(|(end, _)| end)
    }

    /// Counts other blocks too.
    pub fn add(&mut self, other: &Blocks) {
        self.count += other.count;
        self.zeros += other.zeros;
        self.not_finite += other.not_finite;
        self.exact += other.exact;
        let Magnitudes { first, counts } = &mut self.amax;
        join((first, counts), (other.amax.first, &other.amax.counts));
        join((&mut self.snr.first, &mut self.snr.counts), (other.snr.first, &other.snr.counts));
    }
}

/// Adds counts from a place on to others.
fn join((first, counts): (&mut i32, &mut Vec<u64>), (start, more): (i32, &[u64])) {
    if more.is_empty() {
        return;
    }
    if counts.is_empty() {
        *first = start;
    }
    let before = usize::try_from(*first - start).unwrap_or(0);
    counts.splice(0..0, std::iter::repeat_n(0, before));
    *first = start.min(*first);
    let at = usize::try_from(start - *first).unwrap_or(0);
    counts.resize(counts.len().max(at + more.len()), 0);
    counts[at..].iter_mut().zip(more).for_each(|(count, more)| *count += more);
}

/// Min and max exponent of a float, including subnormals.
const POWERS: [i32; 2] = [-149, 127];

/// The lowest and the highest step that is counted; the first and the last have all beyond.
const STEPS: [i32; 2] = [-20, 100];

/// Counts of all powers, or of all steps.
#[derive(Clone, Debug)]
struct Table<const N: usize>(Box<[u64; N]>);

impl<const N: usize> Table<N> {
    fn count(&mut self, place: i32, first: i32) {
        let place = usize::try_from(place - first).unwrap_or(0).min(N - 1);
        self.0[place] += 1;
    }

    /// The place of the first that is not zero, and the counts from there to the last.
    fn counts(&self, first: i32) -> (i32, Vec<u64>) {
        let there = |count: &u64| *count > 0;
        let Some((start, end)) = self.0.iter().position(there).zip(self.0.iter().rposition(there)) else {
            return (0, Vec::new());
        };
        (first + start as i32, self.0[start..=end].to_vec())
    }

    fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0.iter()).for_each(|(ours, theirs)| *ours += theirs);
    }
}

/// What is known of one block.
#[derive(Clone, Copy, Debug, Default)]
struct OfBlock {
    amax: f32,
    signal: f64,
    noise: f64,
}

/// The blocks of a part of a tensor, or of several parts in order.
#[derive(Clone, Debug)]
pub(super) struct OfBlocks {
    columns: usize,
    block: [usize; 2],
    /// The index of the first of the blocks that are not complete, and what is known of them.
    first: usize,
    open: Vec<OfBlock>,
    /// Those that are counted.
    done: Blocks,
    amax: Table<{ (POWERS[1] - POWERS[0] + 1) as usize }>,
    snr: Table<{ (STEPS[1] - STEPS[0] + 1) as usize }>,
}

impl OfBlocks {
    pub(super) fn new(scaled: &Scaled) -> OfBlocks {
        OfBlocks {
            columns: scaled.columns(),
            block: scaled.block,
            first: 0,
            open: Vec::new(),
            done: Blocks::default(),
            amax: Table(Box::new([0; _])),
            snr: Table(Box::new([0; _])),
        }
    }

    /// Takes floats, and what they became, from an element of the tensor on.
    pub(super) fn see(&mut self, start: usize, source: &[[u8; 4]], result: &[[u8; 4]]) {
        let [down, across] = self.block;
        let across_all = self.columns.div_ceil(across);
        let mut done = 0;
        while done < source.len() {
            let (row, column) = ((start + done) / self.columns, (start + done) % self.columns);
            let run = (across - column % across).min(self.columns - column).min(source.len() - done);
            let block = row / down * across_all + column / across;
            if self.open.is_empty() {
                self.first = block;
            }
            let index = block - self.first;
            if self.open.len() <= index {
                self.open.resize(index + 1, OfBlock::default());
            }
            self.open[index].see(&source[done..done + run], &result[done..done + run]);
            done += run;
        }
    }

    /// Counts the blocks so far: all of them are complete.
    pub(super) fn close(&mut self) {
        for OfBlock { amax, signal, noise } in self.open.drain(..) {
            self.done.count += 1;
            if !signal.is_finite() || !noise.is_finite() {
                self.done.not_finite += 1;
            } else if amax == 0.0 {
                self.done.zeros += 1;
            } else {
                let power = f64::from(amax).to_bits() >> 52;
                self.amax.count(power as i32 - 1023, POWERS[0]);
                if noise == 0.0 {
                    self.done.exact += 1;
                } else {
                    let ratio = 10.0 * (signal / noise).log10();
                    self.snr.count((ratio / f64::from(Ratios::STEP)).floor() as i32, STEPS[0]);
                }
            }
        }
    }

    /// Adds the next part's.
    pub(super) fn add(&mut self, other: &OfBlocks) {
        if self.open.is_empty() {
            self.first = other.first;
        }
        let start = other.first.saturating_sub(self.first);
        self.open.resize(self.open.len().max(start + other.open.len()), OfBlock::default());
        self.open[start..].iter_mut().zip(&other.open).for_each(|(ours, theirs)| ours.add(theirs));
        self.done.add(&other.done);
        self.amax.add(&other.amax);
        self.snr.add(&other.snr);
    }

    pub(super) fn finish(mut self) -> Blocks {
        self.close();
        let (first, counts) = self.amax.counts(POWERS[0]);
        let amax = Magnitudes { first, counts };
        let (first, counts) = self.snr.counts(STEPS[0]);
        Blocks { amax, snr: Ratios { first, counts }, ..self.done }
    }
}

/// Values of a block that are summed side by side.
const LANES: usize = 8;

impl OfBlock {
    fn see(&mut self, source: &[[u8; 4]], result: &[[u8; 4]]) {
        let mut lanes = [OfBlock::default(); LANES];
        let ((sources, rest), (results, results_rest)) = (source.as_chunks::<LANES>(), result.as_chunks::<LANES>());
        for (source, result) in sources.iter().zip(results) {
            for ((source, result), lane) in source.iter().zip(result).zip(&mut lanes) {
                lane.value(source, result);
            }
        }
        for ((source, result), lane) in rest.iter().zip(results_rest).zip(&mut lanes) {
            lane.value(source, result);
        }
        lanes.iter().for_each(|lane| self.add(lane));
    }

    /// What is infinite or NaN leaves a sum that is, too: squares of floats do not overflow doubles.
    #[inline(always)]
    fn value(&mut self, source: &[u8; 4], result: &[u8; 4]) {
        let (source, result) = (f32::from_le_bytes(*source), f32::from_le_bytes(*result));
        let (value, error) = (f64::from(source), f64::from(source - result));
        self.amax = self.amax.max(source.abs());
        self.signal += value * value;
        self.noise += error * error;
    }

    fn add(&mut self, other: &OfBlock) {
        self.amax = self.amax.max(other.amax);
        self.signal += other.signal;
        self.noise += other.noise;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histograms_join() {
        let of =
            |first, counts: &[u64]| Blocks { amax: Magnitudes { first, counts: counts.to_vec() }, ..Blocks::default() };
        for (a, b, want) in [
            (of(0, &[]), of(3, &[1, 2]), of(3, &[1, 2])),
            (of(3, &[1, 2]), of(0, &[]), of(3, &[1, 2])),
            (of(3, &[1, 2]), of(1, &[5]), of(1, &[5, 0, 1, 2])),
            (of(1, &[5]), of(3, &[1, 2]), of(1, &[5, 0, 1, 2])),
            (of(-2, &[1, 1, 1]), of(-1, &[4]), of(-2, &[1, 5, 1])),
        ] {
            let mut sum = a.clone();
            sum.add(&b);
            assert_eq!(sum, want, "{a:?} and {b:?}");
        }
    }

    #[test]
    fn shares_of_blocks() {
        let snr = Ratios { first: 5, counts: vec![1, 0, 9] };
        let blocks = Blocks { count: 21, not_finite: 1, exact: 10, snr, ..Blocks::default() };
        let below = |share| blocks.snr_below(share);
        assert_eq!(
            [below(0.0), below(0.05), below(0.06), below(0.5), below(0.6)],
            [Some(18), Some(18), Some(24), Some(24), None]
        );
        assert_eq!(Blocks::default().snr_below(0.5), None);
    }
}
