//! The kernel table: one function for each pair of numeric types, and the portable loop that composes them.
//!
//! A backend is a table. The portable one is the generic loop of [`staged`] for each of the 625 pairs, monomorphised
//! from the scalar cast, so that there is nothing a faster backend could disagree with but the scalar cast itself.

mod drive;
pub(crate) mod staged;

pub(crate) use drive::{Job, Stream};

use crate::element::{with_numeric_types, *};
use crate::scalar::{Narrow, Rules, Widen};

/// Casts `len` elements from `src` to `dst`, which hold exactly that many, packed. Zeroes the padding of `dst`.
///
/// # Safety
/// The processor has the instructions that the kernel's backend is compiled for, and `src` and `dst` have the byte
/// lengths of `len` elements of their types.
pub(crate) type Kernel = unsafe fn(src: &[u8], dst: &mut [u8], len: usize, rules: &Rules);

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
    unsafe fn run<S: Widen, D: Narrow>(src: &[u8], dst: &mut [u8], len: usize, rules: &Rules);
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
