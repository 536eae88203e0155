//! Counts of a tensor whose result is not kept, and the mean errors, which those that cast files do without: sums of
//! floats take longer than all that is counted besides.

use super::{Counter, Counts, Sides, count_strings};
use crate::io::memory::resize;
use onnx_cast::__private::{DefaultEnvironment, with_default_float_environment};
use onnx_cast::tensor::TensorErrorKind;
use onnx_cast::{CastError, DataType, Plan, TensorView};

/// The mean errors of a cast, as sums to which others can be added.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Means {
    /// Values that are finite, as their results are: those that have an error.
    values: u64,
    error: Sum,
    relative: Sum,
}

/// Elements that are cast to be counted at a time: a multiple of 8, and little enough for the caches.
const PIECE: usize = 1 << 15;

/// Sums that are made side by side, for the compiler to make vectors of.
const LANES: usize = 8;

impl Counts {
    /// What a cast does to the values of a tensor, in one pass over it. Texts count as the exact numbers that they are;
    /// to string nothing is lost.
    ///
    /// # Errors
    /// Where the plan is for another type, a text is not a number, or there is no memory.
    pub fn of(plan: &Plan, tensor: &TensorView<'_>) -> Result<(Counts, Means), CastError> {
        let _environment = DefaultEnvironment::enter();
        let (from, to) = (plan.source_type(), plan.target_type());
        let (mut sides, mut means) = (Sides::default(), Means::default());
        let Some(bytes) = tensor.bytes() else {
            return count_strings(tensor, &plan.run(tensor)?.view());
        };
        // What is printed reads as the same value again.
        let prints = to == DataType::String;
        let to = if prints { from } else { to };
        let counter = Counter::new(from, to)?;
        let (mut result, mut at) = (Vec::new(), 0);
        while at < tensor.len() {
            let len = PIECE.min(tensor.len() - at);
            let too_large = || TensorErrorKind::TooLarge { data_type: to, shape: vec![len] };
            let (start, size) = from.byte_len(at).zip(from.byte_len(len)).ok_or_else(too_large)?;
            let source = bytes.get(start..start + size).unwrap_or_default();
            if prints {
                counter.add_with_means(source, source, len, &mut sides, &mut means)?;
            } else {
                to.byte_len(len).and_then(|len| resize(&mut result, len)).ok_or_else(too_large)?;
                plan.run_into(&TensorView::new(from, &[len], source)?, &mut result)?;
                counter.add_with_means(source, &result, len, &mut sides, &mut means)?;
            }
            at += len;
        }
        Ok((counter.total(), means))
    }
}

impl Means {
    /// The mean distance between finite values and finite results; 0 without any.
    pub fn error(&self) -> f64 {
        with_default_float_environment(|| self.mean(self.error))
    }

    /// The mean of such distances, each divided by the value; that of zero is zero.
    pub fn relative_error(&self) -> f64 {
        with_default_float_environment(|| self.mean(self.relative))
    }

    fn mean(&self, sum: Sum) -> f64 {
        (sum.high + sum.low) / self.values.max(1) as f64
    }

    /// Adds those of other values.
    pub fn add(&mut self, other: &Means) {
        self.values += other.values;
        self.error.add(other.error);
        self.relative.add(other.relative);
    }

    /// Adds the error of a value, if both it and its result are finite.
    pub(super) fn see_error(&mut self, error: f64, relative: f64) {
        let both = error.is_finite();
        self.values += u64::from(both);
        self.error.add(Sum { high: if both { error } else { 0.0 }, low: 0.0 });
        self.relative.add(Sum { high: if both && relative.is_finite() { relative } else { 0.0 }, low: 0.0 });
    }

    /// Adds values beside what became of them.
    pub(super) fn see(&mut self, pairs: impl Iterator<Item = (f64, f64)>) {
        let (mut errors, mut relatives) = ([0.0; LANES], [0.0; LANES]);
        for (index, (source, result)) in pairs.enumerate() {
            let both = source.is_finite() & result.is_finite();
            let error = if both { (source - result).abs() } else { 0.0 };
            errors[index % LANES] += error;
            relatives[index % LANES] += if error > 0.0 && source != 0.0 { error / source.abs() } else { 0.0 };
            self.values += u64::from(both);
        }
        errors.iter().for_each(|&high| self.error.add(Sum { high, low: 0.0 }));
        relatives.iter().for_each(|&high| self.relative.add(Sum { high, low: 0.0 }));
    }
}

/// A sum, with what its roundings lost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sum {
    high: f64,
    low: f64,
}

impl Sum {
    fn add(&mut self, other: Sum) {
        let sum = self.high + other.high;
        let added = sum - self.high;
        // What was lost, exactly; of an infinite sum there is nothing to tell.
        let lost = (self.high - (sum - added)) + (other.high - added);
        self.low = if lost.is_finite() { self.low + lost + other.low } else { 0.0 };
        self.high = sum;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnx_cast::{Cast, CastOptions, Tensor};

    fn of(tensor: &TensorView<'_>, to: DataType) -> (Counts, Means) {
        let cast = Cast::new(to, &CastOptions::default()).and_then(|cast| cast.plan(tensor.data_type()));
        Counts::of(&cast.expect("a cast"), tensor).expect("counted")
    }

    #[test]
    fn results_that_are_not_kept_count_as_those_that_are() {
        let values: Vec<f32> = (0..2 * PIECE + 13).map(|i| (i as f32 - 9000.0) * 0.37).collect();
        let tensor = Tensor::from_slice(vec![values.len()], &values).expect("a tensor");
        for to in [DataType::Float8E4M3FN, DataType::Int4, DataType::Double] {
            let cast = Cast::new(to, &CastOptions::default()).expect("a cast").run(&tensor.view()).expect("cast");
            let counter = Counter::new(DataType::Float, to).expect("numbers");
            let bytes = (tensor.bytes().expect("numbers"), cast.bytes().expect("numbers"));
            counter.add(bytes.0, bytes.1, values.len(), &mut Sides::default()).expect("counted");
            assert_eq!(of(&tensor.view(), to).0, counter.total(), "{to}");
        }
    }

    #[test]
    fn means_are_of_what_is_finite() {
        let values = [1.0009765f32, f32::NAN, 3e9, f32::INFINITY, 0.0, -2.0];
        let tensor = Tensor::from_slice(vec![6], &values).expect("a tensor");
        let (counts, mut means) = of(&tensor.view(), DataType::BFloat16);
        let (small, large) = (f64::from(values[0]) - 1.0, 3_121_664.0);
        assert_eq!((counts.values, counts.infinite, counts.nan), (6, 1, 1));
        assert_eq!(means.error().to_bits(), ((small + large) / 4.0).to_bits());
        assert_eq!(means.relative_error().to_bits(), ((small / f64::from(values[0]) + large / 3e9) / 4.0).to_bits());
        means.add(&means.clone());
        assert_eq!(means.error().to_bits(), ((small + large) / 4.0).to_bits());
    }

    #[test]
    fn what_is_printed_is_the_same() {
        let numbers = Tensor::from_slice(vec![2], &[1.5f32, f32::NAN]).expect("a tensor");
        let (found, _) = of(&numbers.view(), DataType::String);
        assert_eq!((found.values, found.nan, found.max_error.to_bits()), (2, 1, 0));
    }
}
