//! Comparisons of every backend with the exact oracle, value by value, for programs with and without threads.

use super::check;
use crate::generators::{every, near_ties, random, random_scaled, special};
use crate::oracle::Direct;
use crate::{Rules, Ty};
use onnx_cast::backend;

/// Casts every value of the narrow sources in every version and with every setting of the attributes. Returns the
/// number of compared results.
pub fn every_value_of_16_bits_or_fewer() -> u64 {
    let mut compared = 0;
    for from in Ty::NUMERIC.into_iter().filter(|ty| ty.bits() <= 16) {
        let values = every(from);
        for to in Ty::NUMERIC {
            compared += compare(from, to, &values, Rules::every(from, to));
        }
    }
    compared
}

/// Casts values of the wide sources at and near ties. Returns the number of compared results.
pub fn ties_specials_and_random_values_of_wider_sources() -> u64 {
    let mut compared = 0;
    for from in Ty::NUMERIC.into_iter().filter(|ty| ty.bits() > 16) {
        for to in Ty::NUMERIC {
            let mut values = special(from);
            values.extend(near_ties(from, to, 20_000, 1));
            values.extend(random(from, 10_000, 2));
            values.extend(random_scaled(from, 10_000, 3));
            compared += compare(from, to, &values, Rules::distinct(from, to));
        }
    }
    compared
}

fn compare(from: Ty, to: Ty, values: &[u64], rules: Vec<Rules>) -> u64 {
    let mut compared = 0;
    let mut want = vec![0; values.len()];
    for rules in rules {
        Direct::new(from, to, &rules).cast_all(values, &mut want);
        for backend in backend::available() {
            check(from, to, &rules, backend, values, &want);
            compared += values.len() as u64;
        }
    }
    compared
}
