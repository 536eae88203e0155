//! What is said of a candidate type: four grades, by rules that are written down. Their limits are relative to what
//! the format makes of normally distributed values, so that a tensor of MXFP4 is not poor because it is MXFP4.

use super::{Candidate, CandidateFormat};
use onnx_cast::DataType;
use onnx_cast::scaled::BlockFormat;
use onnx_cast::types::Nan;
use std::f64::consts::PI;
use std::fmt;

/// How a tensor fares in a candidate type: the first of these whose rule it meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Grade {
    /// Every value is kept.
    Exact,
    /// Nothing overflows or is saturated, no more than [`Limits::fine_zero`] of the values become zero, and the signal
    /// is [`Limits::fine_snr`] dB or more above the noise.
    Fine,
    /// No more than [`Grade::CARE_OVERFLOW`] of the values overflow or are saturated, no more than
    /// [`Limits::care_zero`] become zero, the signal is [`Limits::care_snr`] dB or more above the noise, and there is
    /// no NaN that the type cannot hold.
    Care,
    /// None of these.
    Poor,
}

impl Grade {
    /// Every grade, the best first.
    pub const ALL: &'static [Grade] = &[Grade::Exact, Grade::Fine, Grade::Care, Grade::Poor];
    /// The largest share of values that may overflow or be saturated in what needs care.
    pub const CARE_OVERFLOW: f64 = 0.001;

    /// `exact`, and so on.
    pub const fn name(self) -> &'static str {
        match self {
            Grade::Exact => "exact",
            Grade::Fine => "fine",
            Grade::Care => "care",
            Grade::Poor => "poor",
        }
    }
}

impl fmt::Display for Grade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a tensor is poor in a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Concern {
    /// More than [`Grade::CARE_OVERFLOW`] of its values overflow or are saturated.
    Overflow,
    /// More than [`Limits::care_zero`] of its values become zero.
    Zero,
    /// The signal is less than [`Limits::care_snr`] dB above the noise.
    Noise,
    /// It has NaN, and the type does not.
    Nan,
}

impl Concern {
    /// Every concern.
    pub const ALL: &'static [Concern] = &[Concern::Overflow, Concern::Zero, Concern::Noise, Concern::Nan];

    /// `overflow`, and so on.
    pub const fn name(self) -> &'static str {
        match self {
            Concern::Overflow => "overflow",
            Concern::Zero => "zero",
            Concern::Noise => "noise",
            Concern::Nan => "nan",
        }
    }
}

/// What a tensor may lose in a candidate. Ratios of signal to noise are in dB.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Limits {
    /// The least ratio of what is fine: 30 dB, or 3 dB below that of normally distributed values.
    pub fine_snr: f64,
    /// The least ratio of what needs care: 20 dB, or 6 dB below that of normally distributed values.
    pub care_snr: f64,
    /// The largest share of values that may become zero in what is fine: without scales 0.1%; with scales 5%, or twice
    /// that of normally distributed values.
    pub fine_zero: f64,
    /// The same of what needs care: without scales 1%; with scales 10%, or three times that of normally distributed
    /// values.
    pub care_zero: f64,
}

impl CandidateFormat {
    /// The limits where so many values share a scale. Block formats have their own number.
    pub fn limits(self, block: u64) -> Limits {
        let (snr, zero) = self.of_normal_values(block);
        let (fine_snr, care_snr) = ((snr - 3.0).min(30.0), (snr - 6.0).min(20.0));
        let (fine_zero, care_zero) = match self {
            CandidateFormat::Bare(_) => (0.001, 0.01),
            _ => ((2.0 * zero).max(0.05), (3.0 * zero).max(0.1)),
        };
        Limits { fine_snr, care_snr, fine_zero, care_zero }
    }

    /// The ratio of signal to noise that normally distributed values have, and the share of them that becomes zero.
    /// Integers without scales have no such ratio: it depends on the values' size.
    fn of_normal_values(self, block: u64) -> (f64, f64) {
        match self {
            // Measured, with scales by the rule floor: `limits_are_those_of_normal_values`.
            CandidateFormat::Block(format) => match format {
                BlockFormat::MxFp4 => (18.8, 0.088),
                BlockFormat::MxFp6E2M3 => (30.9, 0.022),
                BlockFormat::MxFp6E3M2 | BlockFormat::MxFp8E5M2 => (25.4, 0.003),
                BlockFormat::MxFp8 => (30.6, 0.0),
                BlockFormat::MxInt8 => (41.7, 0.011),
                BlockFormat::NvFp4 => (20.4, 0.068),
                _ => (f64::INFINITY, 0.0),
            },
            CandidateFormat::Bare(element) | CandidateFormat::Elements(element, _) => match element.float_format() {
                // Each bit of the significand halves the errors: float8e5m2 has 25.5 dB, bfloat16 55.6.
                Some(format) => (13.4 + 6.02 * f64::from(format.significand_bits), 0.0),
                None => match (self, element) {
                    (CandidateFormat::Elements(..), DataType::Int4) => of_integers(7.0, block),
                    (CandidateFormat::Elements(..), DataType::Int8) => of_integers(127.0, block),
                    _ => (f64::INFINITY, 0.0),
                },
            },
        }
    }
}

/// The same of integers up to `most`, which the greatest of `block` values gets. Errors are uniform over a step, whose
/// variance is a twelfth of its square; values within half a step of zero become zero.
fn of_integers(most: f64, block: u64) -> (f64, f64) {
    // The mean of the greatest of so many normal magnitudes, in standard deviations (the limit law of Gumbel).
    let log = (2.0 * block.max(2) as f64).ln();
    let scale = (2.0 * log).sqrt();
    let greatest = scale - ((log.ln() + (4.0 * PI).ln()) / 2.0 - 0.5772) / scale;
    let step = greatest / most;
    let density = (2.0 / PI).sqrt();
    (-10.0 * (step * step / 12.0).log10(), density * step / 2.0)
}

/// Whether a NaN stays one: of block formats its block's scale is NaN.
fn holds_nan(to: CandidateFormat) -> bool {
    let is_nan = to.element().float_format().is_some_and(|format| format.nan != Nan::None);
    matches!(to, CandidateFormat::Block(_)) || is_nan
}

impl Candidate {
    /// The share of the values that a count is.
    pub fn share(&self, count: u64) -> f64 {
        if count == 0 { 0.0 } else { count as f64 / self.counts.values as f64 }
    }

    /// What the tensor may lose: by the format, and by how many values share a scale.
    pub fn limits(&self) -> Limits {
        self.to.limits(self.counts.values / self.blocks.as_ref().map_or(1, |blocks| blocks.count.max(1)))
    }

    /// What makes the tensor poor in this type; empty where it is not.
    pub fn concerns(&self) -> Vec<Concern> {
        let (counts, limits) = (&self.counts, self.limits());
        let met = |concern: &Concern| match concern {
            Concern::Overflow => self.share(counts.overflowed + counts.saturated) > Grade::CARE_OVERFLOW,
            Concern::Zero => self.share(counts.zero) > limits.care_zero,
            Concern::Noise => self.snr().is_some_and(|snr| snr < limits.care_snr),
            Concern::Nan => counts.nan > 0 && !holds_nan(self.to),
        };
        Concern::ALL.iter().copied().filter(met).collect()
    }

    /// How the tensor fares.
    pub fn grade(&self) -> Grade {
        let (counts, limits) = (&self.counts, self.limits());
        let beyond = counts.overflowed + counts.saturated;
        if !self.concerns().is_empty() {
            Grade::Poor
        } else if beyond == 0 && counts.zero == 0 && counts.max_error.to_bits() == 0 {
            Grade::Exact
        } else if beyond == 0
            && self.share(counts.zero) <= limits.fine_zero
            && self.snr().is_none_or(|snr| snr >= limits.fine_snr)
        {
            Grade::Fine
        } else {
            Grade::Care
        }
    }
}
