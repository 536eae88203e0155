//! Numbers clamped by their magnitude before they are cast: what is nearer to zero is raised, what is larger is
//! lowered, and signs stay.

use crate::pipeline::Transform;
use onnx_cast::{CastError, DataType};
use std::sync::atomic::{AtomicU32, Ordering};

/// Clamps floats to magnitudes between two numbers. Zeros, infinities and NaN stay. It remembers what it changed most.
#[derive(Debug)]
pub struct Clamp {
    least: f32,
    amax: f32,
    /// Bits of the largest and of the smallest magnitude that was changed, for positive and for negative numbers.
    /// Magnitudes are ordered like their bits.
    seen: [[AtomicU32; 2]; 2],
}

impl Clamp {
    /// Clamps to magnitudes from `least` to `amax`.
    pub fn new(least: f32, amax: f32) -> Self {
        let none = || [AtomicU32::new(0), AtomicU32::new(u32::MAX)];
        Clamp { least, amax, seen: [none(), none()] }
    }

    /// A number, clamped.
    pub fn clamp(&self, value: f32) -> f32 {
        let magnitude = value.abs();
        if value == 0.0 || !magnitude.is_finite() {
            return value;
        }
        // `f32::clamp` panics where the bounds are in the wrong order.
        magnitude.max(self.least).min(self.amax).copysign(value)
    }

    /// Returns the numbers of largest and of smallest magnitude that were changed, for each sign, each with its clamped
    /// value.
    pub fn changed(&self) -> Vec<(f32, f32)> {
        let mut changed = Vec::new();
        for (sign, seen) in [1.0, -1.0].into_iter().zip(&self.seen) {
            let [amax, least] = seen.each_ref().map(|bits| bits.load(Ordering::Relaxed));
            if least <= amax {
                let values = [amax, least].map(|bits| f32::from_bits(bits) * sign);
                let pairs = values.map(|value| (value, self.clamp(value)));
                changed.extend_from_slice(if amax == least { &pairs[..1] } else { &pairs });
            }
        }
        changed
    }
}

impl Transform for Clamp {
    fn target_type(&self) -> DataType {
        DataType::Float
    }

    fn run(&self, _: usize, _: usize, elements: &[u8], result: &mut [u8]) -> Result<(), CastError> {
        let (from, to) = (elements.as_chunks::<4>().0, result.as_chunks_mut::<4>().0);
        let mut seen = [[0, u32::MAX]; 2];
        for (from, to) in from.iter().zip(to) {
            let value = f32::from_le_bytes(*from);
            let clamped = self.clamp(value);
            if clamped.to_bits() != value.to_bits() {
                let bits = value.abs().to_bits();
                let [amax, least] = &mut seen[usize::from(value.is_sign_negative())];
                (*amax, *least) = (bits.max(*amax), bits.min(*least));
            }
            *to = clamped.to_le_bytes();
        }
        for ([amax, least], all) in seen.into_iter().zip(&self.seen) {
            all[0].fetch_max(amax, Ordering::Relaxed);
            all[1].fetch_min(least, Ordering::Relaxed);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn magnitudes_are_clamped_and_the_most_extreme_ones_remembered() {
        let clamp = Clamp::new(0.5, 100.0);
        let given = [0.25f32, 1.0, -1e6, 1e-9, 0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, -101.0];
        let want = [0.5f32, 1.0, -100.0, 0.5, 0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, -100.0];
        let bytes = |values: [f32; 10]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>();
        let mut result = vec![0; 40];
        clamp.run(0, 10, &bytes(given), &mut result).expect("it cannot fail");
        assert_eq!(result, bytes(want));
        let changed = [(0.25, 0.5), (1e-9, 0.5), (-1e6, -100.0), (-101.0, -100.0)];
        assert_eq!(clamp.changed(), changed);
        assert_eq!(Clamp::new(0.5, 100.0).changed(), []);
    }
}
