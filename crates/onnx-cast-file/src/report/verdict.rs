//! Verdicts on a candidate type: four grades. All formats have the same limits, so a format never gets a worse grade
//! than one that loses more.

use super::{Candidate, CandidateFormat};
use onnx_cast::__private::with_default_float_environment;
use onnx_cast::types::Nan;
use std::fmt;

/// How much of a tensor a candidate type keeps: the first grade whose rule holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Grade {
    /// Every value is kept.
    Exact,
    /// No value overflows or saturates, at most [`Grade::FINE_ZERO`] of the values become zero, and the signal-to-noise
    /// ratio is at least [`Grade::FINE_SNR`] dB. Normally distributed values are fine in formats of 6 bits and more.
    Fine,
    /// At most [`Grade::CARE_OVERFLOW`] of the values overflow or saturate, at most [`Grade::CARE_ZERO`] become zero,
    /// the signal-to-noise ratio is at least [`Grade::CARE_SNR`] dB, and no NaN is lost. Normally distributed values
    /// are here in formats of 4 bits.
    Care,
    /// Anything else.
    Poor,
}

impl Grade {
    /// Every grade, the best first.
    pub const ALL: &'static [Grade] = &[Grade::Exact, Grade::Fine, Grade::Care, Grade::Poor];
    /// Largest share of values that become zero in a fine tensor.
    pub const FINE_ZERO: f64 = 0.03;
    /// Lowest signal-to-noise ratio of a fine tensor, in dB.
    pub const FINE_SNR: f64 = 24.0;
    /// Largest share of values that overflow or saturate in a tensor that is not poor.
    pub const CARE_OVERFLOW: f64 = 0.001;
    /// Largest share of values that become zero in a tensor that is not poor.
    pub const CARE_ZERO: f64 = 0.3;
    /// Lowest signal-to-noise ratio of a tensor that is not poor, in dB.
    pub const CARE_SNR: f64 = 14.0;

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
    /// More than [`Grade::CARE_OVERFLOW`] of its values overflow or saturate.
    Overflow,
    /// More than [`Grade::CARE_ZERO`] of its values become zero.
    Zero,
    /// The signal-to-noise ratio is below [`Grade::CARE_SNR`] dB.
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

/// Whether a NaN stays a NaN. In block formats the scale of its block becomes NaN.
fn holds_nan(to: CandidateFormat) -> bool {
    let is_nan = to.element().float_format().is_some_and(|format| format.nan != Nan::None);
    matches!(to, CandidateFormat::Block(_)) || is_nan
}

impl Candidate {
    /// The share of the values that a count is.
    pub fn share(&self, count: u64) -> f64 {
        with_default_float_environment(|| if count == 0 { 0.0 } else { count as f64 / self.counts.values as f64 })
    }

    /// Why the tensor is poor in this type; empty if it is not poor.
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

    /// The grade of the tensor in this type.
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
