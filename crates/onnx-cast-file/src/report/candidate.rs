//! What is said of a candidate type: of one tensor in it, and of all together.

use super::measure::Sums;
use super::{Concern, Grade, Report};
use crate::counts::Counts;
use onnx_cast::DataType;

/// What a cast to one type would make of a tensor.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Candidate {
    /// The type.
    pub to: DataType,
    /// Bytes that the elements would take.
    pub bytes: u64,
    /// What would become of the values.
    pub counts: Counts,
    /// The mean relative error of the values of each power of two, beside
    /// [`TensorReport::magnitudes`](super::TensorReport::magnitudes). Here a value that becomes infinite or NaN has an
    /// error of 1.
    pub error_by_power: Vec<f64>,
    pub(super) sums: Sums,
}

impl Candidate {
    /// The mean distance between a finite value and a finite result, if there are any.
    pub fn mean_error(&self) -> Option<f64> {
        self.sums.mean_error()
    }

    /// The mean of such distances divided by the value, over values other than zero.
    pub fn mean_relative_error(&self) -> Option<f64> {
        self.sums.mean_relative_error()
    }

    /// The ratio of signal to noise in dB: ten times the decimal logarithm of the sum of the squares of the values,
    /// divided by that of the errors, where both are finite. `None` without an error, and where squares leave the range
    /// of doubles.
    pub fn snr(&self) -> Option<f64> {
        self.sums.snr()
    }
}

impl Sums {
    fn mean_error(&self) -> Option<f64> {
        (self.compared > 0).then(|| self.error / self.compared as f64).filter(|mean| mean.is_finite())
    }

    fn mean_relative_error(&self) -> Option<f64> {
        (self.nonzero > 0).then(|| self.relative / self.nonzero as f64).filter(|mean| mean.is_finite())
    }

    fn snr(&self) -> Option<f64> {
        Some(10.0 * (self.signal / self.noise).log10()).filter(|snr| snr.is_finite())
    }
}

/// What a cast of all tensors to one type would do.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Totals {
    /// Tensors.
    pub tensors: usize,
    /// Bytes of their elements.
    pub bytes_before: u64,
    /// Bytes that they would take.
    pub bytes_after: u64,
    /// What would become of the values, and the largest errors.
    pub counts: Counts,
    /// As [`Candidate::mean_error`], of all values.
    pub mean_error: Option<f64>,
    /// As [`Candidate::mean_relative_error`], of all values.
    pub mean_relative_error: Option<f64>,
    /// As [`Candidate::snr`], of all values.
    pub snr: Option<f64>,
    /// How many tensors have each grade, in the order of [`Grade::ALL`].
    pub grades: [usize; 4],
    /// How many tensors have each concern, in the order of [`Concern::ALL`].
    pub concerns: [usize; 4],
}

impl Report {
    /// The sums over the tensors that have this candidate.
    pub fn totals(&self, to: DataType) -> Totals {
        let mut totals = Totals::default();
        let mut sums = Sums::default();
        for tensor in &self.tensors {
            let Some(candidate) = tensor.candidates.iter().find(|candidate| candidate.to == to) else { continue };
            totals.tensors += 1;
            totals.bytes_before += tensor.bytes;
            totals.bytes_after += candidate.bytes;
            totals.counts.add(&candidate.counts);
            sums.add(&candidate.sums);
            let (grade, concerns) = (candidate.grade(), candidate.concerns());
            let grades = Grade::ALL.iter().zip(&mut totals.grades);
            grades.for_each(|(known, count)| *count += usize::from(*known == grade));
            let all = Concern::ALL.iter().zip(&mut totals.concerns);
            all.for_each(|(known, count)| *count += usize::from(concerns.contains(known)));
        }
        let (mean_error, mean_relative_error) = (sums.mean_error(), sums.mean_relative_error());
        Totals { mean_error, mean_relative_error, snr: sums.snr(), ..totals }
    }
}
