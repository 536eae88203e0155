//! The kernel table: one function for each pair of numeric types, and the portable loop that composes them.
//!
//! A backend is a table. The portable one is the generic loop of [`staged`] for each of the 625 pairs, monomorphised
//! from the scalar cast, so that there is nothing a faster backend could disagree with but the scalar cast itself.

pub(crate) mod staged;

use crate::element::{with_numeric_types, *};
use crate::scalar::{Narrow, Rules, Widen};

/// How a kernel writes its results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Store {
    /// Into the caches, where they will be read soon.
    Cached,
    /// Past the caches where the kernel can, because they are more than the caches hold.
    Streamed,
}

/// Casts `len` elements from `src` to `dst`, which hold exactly that many, packed. Zeroes the padding of `dst`.
///
/// # Safety
/// The processor has the instructions that the kernel's backend is compiled for, and `src` and `dst` have the byte
/// lengths of `len` elements of their types.
pub(crate) type Kernel = unsafe fn(src: &[u8], dst: &mut [u8], len: usize, rules: &Rules, store: Store);

/// Copies `src` over `dst`, which is as long, with non-temporal stores.
///
/// # Safety
/// The processor has the instructions that the backend is compiled for, and the lengths are equal.
pub(crate) type CopyFn = unsafe fn(src: &[u8], dst: &mut [u8]);

/// The kernels of a backend, by source and target in the order of [`DataType::NUMERIC`].
pub(crate) struct Table(pub(crate) [[Kernel; 25]; 25]);

impl Table {
    /// The kernel of a pair; `None` for types that are not numeric.
    pub(crate) const fn get(&self, from: DataType, to: DataType) -> Option<Kernel> {
        match (from.numeric_index(), to.numeric_index()) {
            (Some(from), Some(to)) => Some(self.0[from][to]),
            _ => None,
        }
    }
}

/// A way to run the generic loop: compiled for one set of instructions, with that set's own loads and roundings where
/// it has them.
///
/// # Safety
/// `run` casts exactly as [`crate::scalar::cast_one`] does and writes all of `dst`.
pub(crate) unsafe trait Compose {
    /// The kernel of the pair.
    ///
    /// # Safety
    /// As [`Kernel`].
    unsafe fn run<S: Widen, D: Narrow>(src: &[u8], dst: &mut [u8], len: usize, rules: &Rules, store: Store);
}

macro_rules! columns {
    ($($target:ty)*) => {
        /// The kernels from `S` to every target.
        const fn row<C: Compose, S: Widen>() -> [Kernel; 25] {
            [$(C::run::<S, $target>),*]
        }

        impl Table {
            /// The table of the generic loop for every pair.
            pub(crate) const fn composed<C: Compose>() -> Table {
                Table([$(row::<C, $target>()),*])
            }
        }

        // The order of the columns is the type table's.
        const _: () = {
            let order = [$(<$target as Element>::DATA_TYPE),*];
            let mut i = 0;
            while i < order.len() {
                assert!(order[i] as u8 == DataType::NUMERIC[i] as u8);
                i += 1;
            }
        };
    };
}
with_numeric_types!(columns);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scalar::RoundMode;

    /// Bytes that repeat after long, and bear no relation to any type.
    fn noise(len: usize) -> Vec<u8> {
        let mut state = 1u32;
        let bytes = std::iter::repeat_with(|| {
            state = state.wrapping_mul(0x9e37_79b1).wrapping_add(0x7f4a_7c15);
            (state >> 24) as u8
        });
        bytes.take(len).collect()
    }

    /// Every pair of every backend, with the rules of the newest version.
    fn for_every_kernel(check: impl Fn(crate::arch::Backend, DataType, DataType, Kernel, &Rules)) {
        for backend in crate::arch::available() {
            let numeric = DataType::NUMERIC.iter().copied();
            for (from, to) in numeric.clone().flat_map(|from| numeric.clone().map(move |to| (from, to))) {
                let rules = Rules::new(to, 28, true, RoundMode::Up);
                let Some(kernel) = backend.table().get(from, to) else { continue };
                check(backend, from, to, kernel, &rules);
            }
        }
    }

    /// What is done once for a long tensor, as making a table, gives what its parts give.
    #[test]
    fn whole_as_in_parts() {
        const LEN: usize = 4096 + 77;
        const PART: usize = 64;
        let noise = noise(LEN * 8);
        for_every_kernel(|backend, from, to, kernel, rules| {
            let bytes = |data_type: DataType, len| data_type.byte_len(len).expect("few elements");
            let src = &noise[..bytes(from, LEN)];
            let (mut whole, mut parts) = (vec![0; bytes(to, LEN)], vec![0; bytes(to, LEN)]);
            // SAFETY: the backend is available, and these are the bytes of so many elements.
            unsafe { kernel(src, &mut whole, LEN, rules, Store::Cached) };
            let cut = src.chunks(bytes(from, PART)).zip(parts.chunks_mut(bytes(to, PART)));
            for ((src, dst), begin) in cut.zip((0..).step_by(PART)) {
                let len = PART.min(LEN - begin);
                // SAFETY: as above; 64 elements of any type are whole bytes.
                unsafe { kernel(src, dst, len, rules, Store::Cached) };
            }
            assert_eq!(whole, parts, "{backend:?}, {from} -> {to}");
        });
    }

    /// Casts stream only what is larger than the caches, so what the tests of whole tensors can try of it is little:
    /// here every pair streams every length, to every place in a line.
    #[test]
    fn streamed_as_cached() {
        const LEN: usize = 200;
        let noise = noise(LEN * 8);
        for_every_kernel(|backend, from, to, kernel, rules| {
            let run = |len: usize, dst: &mut [u8], store| {
                let src = &noise[..from.byte_len(len).expect("few elements")];
                // SAFETY: the backend is available, and these are the bytes of `len` elements.
                unsafe { kernel(src, dst, len, rules, store) };
            };
            for len in (0..LEN).step_by(7).chain([64, 128, 192]) {
                let bytes = to.byte_len(len).expect("few elements");
                let mut expected = vec![0; bytes];
                run(len, &mut expected, Store::Cached);
                let mut result = vec![0x5a; bytes + 2 * 64];
                for at in 0..64 {
                    result.fill(0x5a);
                    run(len, &mut result[at..at + bytes], Store::Streamed);
                    let what = || format!("{backend:?}, {from} -> {to}, {len} elements, {at} bytes in");
                    assert_eq!(result[at..at + bytes], expected, "{}", what());
                    let beside = result[..at].iter().chain(&result[at + bytes..]);
                    assert!(beside.copied().all(|byte| byte == 0x5a), "{}: bytes beside the result", what());
                }
            }
        });
    }
}
