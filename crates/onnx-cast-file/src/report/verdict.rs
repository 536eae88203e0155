//! What is said of a candidate type: four grades, by rules that are written down.

use super::{Candidate, CandidateFormat};
use onnx_cast::Nan;
use std::fmt;

/// How a tensor fares in a candidate type: the first of these whose rule it meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Grade {
    /// Every value is kept.
    Exact,
    /// Nothing overflows or is saturated, no more than [`Grade::FINE_ZERO`] of the values become zero, and the signal
    /// is [`Grade::FINE_SNR`] dB or more above the noise.
    Fine,
    /// No more than [`Grade::CARE_OVERFLOW`] of the values overflow or are saturated, no more than [`Grade::CARE_ZERO`]
    /// become zero, the signal is [`Grade::CARE_SNR`] dB or more above the noise, and there is no NaN that the type
    /// cannot hold.
    Care,
    /// None of these.
    Poor,
}

impl Grade {
    /// Every grade, the best first.
    pub const ALL: &'static [Grade] = &[Grade::Exact, Grade::Fine, Grade::Care, Grade::Poor];
    /// The largest share of values that may become zero in what is fine.
    pub const FINE_ZERO: f64 = 0.001;
    /// The least ratio of signal to noise of what is fine, in dB.
    pub const FINE_SNR: f64 = 30.0;
    /// The largest share of values that may overflow or be saturated in what needs care.
    pub const CARE_OVERFLOW: f64 = 0.001;
    /// The largest share of values that may become zero in what needs care.
    pub const CARE_ZERO: f64 = 0.01;
    /// The least ratio of signal to noise of what needs care, in dB.
    pub const CARE_SNR: f64 = 20.0;

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
    /// More than [`Grade::CARE_ZERO`] of its values become zero.
    Zero,
    /// The signal is less than [`Grade::CARE_SNR`] dB above the noise.
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

    /// What makes the tensor poor in this type; empty where it is not.
    pub fn concerns(&self) -> Vec<Concern> {
        let counts = &self.counts;
        let met = |concern: &Concern| match concern {
            Concern::Overflow => self.share(counts.overflowed + counts.saturated) > Grade::CARE_OVERFLOW,
            Concern::Zero => self.share(counts.zero) > Grade::CARE_ZERO,
            Concern::Noise => self.snr().is_some_and(|snr| snr < Grade::CARE_SNR),
            Concern::Nan => counts.nan > 0 && !holds_nan(self.to),
        };
        Concern::ALL.iter().copied().filter(met).collect()
    }

    /// How the tensor fares.
    pub fn grade(&self) -> Grade {
        let counts = &self.counts;
        let beyond = counts.overflowed + counts.saturated;
        if !self.concerns().is_empty() {
            Grade::Poor
        } else if beyond == 0 && counts.zero == 0 && counts.max_error.to_bits() == 0 {
            Grade::Exact
        } else if beyond == 0
            && self.share(counts.zero) <= Grade::FINE_ZERO
            && self.snr().is_none_or(|snr| snr >= Grade::FINE_SNR)
        {
            Grade::Fine
        } else {
            Grade::Care
        }
    }
}
