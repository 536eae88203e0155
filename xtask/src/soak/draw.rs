//! What a round draws: types, settings, lengths, shapes, values.

use testkit::generators::{Rng, near_ties, random, random_scaled, special};
use testkit::{Rules, Ty};

/// Threads of the pool that casts run in.
pub(super) const MOST_THREADS: usize = 8;

pub(super) fn pick<T: Copy>(rng: &mut Rng, of: &[T]) -> T {
    of[rng.below(of.len() as u64) as usize]
}

pub(super) fn numeric(rng: &mut Rng) -> Ty {
    pick(rng, &Ty::NUMERIC)
}

/// A version and attributes of a cast between two numeric types.
pub(super) fn rules(rng: &mut Rng, from: Ty, to: Ty) -> Rules {
    pick(rng, &Rules::every(from, to))
}

pub(super) fn threads(rng: &mut Rng) -> usize {
    1 + rng.below(MOST_THREADS as u64) as usize
}

/// Mostly about the widths of vectors, sometimes many.
pub(super) fn length(rng: &mut Rng) -> usize {
    let length = match rng.below(100) {
        0..50 => rng.below(300),
        50..95 => rng.of_any_length(14),
        _ => rng.below(1 << 18),
    };
    length as usize
}

/// A shape of so many elements, of none to six dimensions, some of which are 1.
pub(super) fn shape(rng: &mut Rng, len: usize) -> Vec<usize> {
    if len == 1 && rng.below(2) == 0 {
        return Vec::new();
    }
    let mut shape = vec![len];
    for _ in 0..rng.below(6) {
        let at = rng.below(shape.len() as u64) as usize;
        let factor = pick(rng, &[1, 2, 3, 5, 7, 16]);
        if shape[at].is_multiple_of(factor) {
            shape[at] /= factor;
            shape.insert(at + rng.below(2) as usize, factor);
        }
    }
    shape
}

/// Values of a type to be cast to another: special ones, at random, or where results change.
pub(super) fn values(rng: &mut Rng, from: Ty, to: Ty, count: usize) -> Vec<u64> {
    let seed = rng.next_u64();
    // Near ties take a microsecond each to find.
    match rng.below(4) {
        0 => random(from, count, seed),
        1 => random_scaled(from, count, seed),
        2 if count < 1 << 13 => {
            let mut values = near_ties(from, to, count, seed);
            values.iter_mut().for_each(|value| {
                if rng.below(8) == 0 {
                    *value = rng.next_u64() & from.mask();
                }
            });
            values
        }
        _ => {
            let special = special(from);
            (0..count).map(|_| pick(rng, &special)).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_have_the_elements() {
        let mut rng = Rng::new(3);
        for len in [0, 1, 2, 48, 210, 1 << 14] {
            for _ in 0..50 {
                let shape = shape(&mut rng, len);
                assert_eq!(shape.iter().product::<usize>(), len, "{shape:?}");
            }
        }
    }

    #[test]
    fn values_are_of_the_type() {
        let mut rng = Rng::new(4);
        for _ in 0..100 {
            let (from, to) = (numeric(&mut rng), numeric(&mut rng));
            let values = values(&mut rng, from, to, 100);
            assert_eq!(values.len(), 100);
            assert!(values.iter().all(|&value| value & !from.mask() == 0), "{}", from.name());
        }
    }
}
