//! Every value of every source type of 16 bits or fewer, to each of the 25 numeric types, in every version and with
//! every setting of the attributes, on every backend of this machine, against the exact oracle; and for the wider
//! sources the values where rounding is decided. (`cargo xtask prove` walks all values of the 32-bit ones.)

mod common;

use onnx_cast::available_backends;
use testkit::generators::{every, near_ties, random, random_scaled, special};
use testkit::oracle::Direct;
use testkit::{Rules, Ty};

#[test]
fn every_value_of_16_bits_or_fewer() {
    let mut compared = 0u64;
    for from in Ty::NUMERIC.into_iter().filter(|ty| ty.bits() <= 16) {
        let values = every(from);
        let mut want = vec![0; values.len()];
        for to in Ty::NUMERIC {
            for rules in Rules::every(from, to) {
                Direct::new(from, to, &rules).cast_all(&values, &mut want);
                for backend in available_backends() {
                    common::check(from, to, &rules, backend, &values, &want);
                    compared += values.len() as u64;
                }
            }
        }
    }
    println!("{compared} values compared");
}

#[test]
fn ties_specials_and_random_values_of_wider_sources() {
    for from in Ty::NUMERIC.into_iter().filter(|ty| ty.bits() > 16) {
        for to in Ty::NUMERIC {
            let mut values = special(from);
            values.extend(near_ties(from, to, 20_000, 1));
            values.extend(random(from, 10_000, 2));
            values.extend(random_scaled(from, 10_000, 3));
            let mut want = vec![0; values.len()];
            for rules in Rules::distinct(from, to) {
                Direct::new(from, to, &rules).cast_all(&values, &mut want);
                for backend in available_backends() {
                    common::check(from, to, &rules, backend, &values, &want);
                }
            }
        }
    }
}
