//! The experts of one tensor: matrices of the input, by their numbers.

use crate::checkpoint::TensorRef;

/// The matrices in the order of the input. Memory is bounded by their number, not by the numbers in their names.
#[derive(Debug, Default)]
pub(super) struct Experts(Vec<(usize, TensorRef)>);

/// Experts that are not numbered from 0 on.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Misnumbered {
    /// There is no matrix of this number; the first matrix of the tensor.
    Missing(usize, TensorRef),
    /// Two matrices have this number; the second one.
    Twice(usize, TensorRef),
}

impl Experts {
    pub(super) fn add(&mut self, number: usize, tensor: TensorRef) {
        self.0.push((number, tensor));
    }

    /// The matrices in the order of their numbers.
    pub(super) fn in_order(mut self) -> Result<Vec<TensorRef>, Misnumbered> {
        self.0.sort_by_key(|(number, _)| *number);
        let first = self.0.first().map(|(_, tensor)| *tensor);
        for (place, &(number, tensor)) in self.0.iter().enumerate() {
            match number.cmp(&place) {
                std::cmp::Ordering::Equal => {}
                std::cmp::Ordering::Less => return Err(Misnumbered::Twice(number, tensor)),
                std::cmp::Ordering::Greater => return Err(Misnumbered::Missing(place, first.unwrap_or(tensor))),
            }
        }
        Ok(self.0.into_iter().map(|(_, tensor)| tensor).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(tensor: usize) -> TensorRef {
        TensorRef { file: 0, tensor }
    }

    /// 60,000 matrices in 20,000 tensors, each with a large number: 20,000 lists of 20,000 places take 10 GB.
    #[test]
    fn memory_is_bounded_by_the_matrices_and_not_by_their_numbers() {
        let mut all: Vec<Experts> = (0..20_000).map(|_| Experts::default()).collect();
        for index in 0..60_000 {
            all[index / 3].add(20_000 + index % 3, tensor(index));
        }
        let places: usize = all.iter().map(|experts| experts.0.capacity()).sum();
        assert!(places <= 4 * 60_000, "{places} places for 60000 matrices");
        let first = all.remove(0);
        assert_eq!(first.in_order(), Err(Misnumbered::Missing(0, tensor(0))));
    }

    #[test]
    fn numbers_are_those_from_0_on() {
        let of = |numbers: &[usize]| {
            let mut experts = Experts::default();
            numbers.iter().enumerate().for_each(|(at, number)| experts.add(*number, tensor(at)));
            experts.in_order()
        };
        assert_eq!(of(&[2, 0, 1]), Ok(vec![tensor(1), tensor(2), tensor(0)]));
        assert_eq!(of(&[0, 2]), Err(Misnumbered::Missing(1, tensor(0))));
        assert_eq!(of(&[0, 1, 1]), Err(Misnumbered::Twice(1, tensor(2))));
        assert_eq!(of(&[usize::MAX]), Err(Misnumbered::Missing(0, tensor(0))));
        assert_eq!(of(&[]), Ok(Vec::new()));
    }
}
