//! What is said of a candidate type: of one tensor in it, and of all together.

use super::measure::Sums;
use super::{Blocks, CandidateFormat, Concern, Forecast, Grade, Report};
use crate::counts::Counts;
use onnx_cast::__private::{DefaultEnvironment, with_default_float_environment};

/// What a tensor would be in a candidate.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Candidate {
    /// The candidate.
    pub to: CandidateFormat,
    /// Bytes that the elements would take, and their scales.
    pub bytes: u64,
    /// What would become of the values. With scales they come back as float, and none is counted as saturated, because
    /// a scale is made for the largest magnitude. Values that become NaN with their block are counted as overflowed.
    pub counts: Counts,
    /// The mean relative error of the values of each power of two, beside
    /// [`TensorReport::magnitudes`](super::TensorReport::magnitudes). Here a value that becomes infinite or NaN has an
    /// error of 1.
    pub error_by_power: Vec<f64>,
    /// The blocks that share a scale, if there are several.
    pub blocks: Option<Blocks>,
    pub(super) sums: Sums,
}

impl Candidate {
    /// The mean distance between a finite value and a finite result, if there are any.
    pub fn mean_error(&self) -> Option<f64> {
        with_default_float_environment(|| self.sums.mean_error())
    }

    /// The mean of such distances divided by the value, over values other than zero.
    pub fn mean_relative_error(&self) -> Option<f64> {
        with_default_float_environment(|| self.sums.mean_relative_error())
    }

    /// The ratio of signal to noise in dB: ten times the decimal logarithm of the sum of the squares of the values,
    /// divided by that of the errors, where both are finite. `None` without an error, and where squares leave the range
    /// of doubles.
    pub fn snr(&self) -> Option<f64> {
        with_default_float_environment(|| self.sums.snr())
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

/// What all tensors would be in a candidate.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Totals {
    /// Tensors.
    pub tensors: usize,
    /// Bytes of their elements; of a candidate with a forecast, those of the whole checkpoint.
    pub bytes_before: u64,
    /// Bytes that these would take.
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
    /// The blocks of all tensors that have several.
    pub blocks: Option<Blocks>,
}

impl Report {
    /// What `quantize` would write for a candidate, if it has scales.
    pub fn forecast(&self, to: impl Into<CandidateFormat>) -> Option<&Forecast> {
        let to = to.into();
        self.forecasts.iter().find(|forecast| forecast.to == to)
    }

    /// The sums over the tensors that have this candidate.
    pub fn totals(&self, to: impl Into<CandidateFormat>) -> Totals {
        let _environment = DefaultEnvironment::enter();
        let to = to.into();
        let mut totals = Totals::default();
        let mut sums = Sums::default();
        for tensor in &self.tensors {
            let Some(candidate) = tensor.candidates.iter().find(|candidate| candidate.to == to) else { continue };
            totals.tensors += 1;
            totals.bytes_before += tensor.bytes;
            totals.bytes_after += candidate.bytes;
            totals.counts.add(&candidate.counts);
            sums.add(&candidate.sums);
            if let Some(blocks) = &candidate.blocks {
                totals.blocks.get_or_insert_default().add(blocks);
            }
            let (grade, concerns) = (candidate.grade(), candidate.concerns());
            let grades = Grade::ALL.iter().zip(&mut totals.grades);
            grades.for_each(|(known, count)| *count += usize::from(*known == grade));
            let all = Concern::ALL.iter().zip(&mut totals.concerns);
            all.for_each(|(known, count)| *count += usize::from(concerns.contains(known)));
        }
        if let Some(forecast) = self.forecast(to).filter(|forecast| forecast.refused.is_none()) {
            (totals.bytes_before, totals.bytes_after) = (forecast.bytes_before, forecast.bytes_after);
        }
        let (mean_error, mean_relative_error) = (sums.mean_error(), sums.mean_relative_error());
        Totals { mean_error, mean_relative_error, snr: sums.snr(), ..totals }
    }
}
