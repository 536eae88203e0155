//! The backend for every machine: the scalar cast in blocks, vectorised as far as the compiler does it.

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use crate::element::Element;
use crate::kernel::{Compose, Store, Table, staged};
use crate::scalar::{Narrow, Rules, Widen};

pub(crate) static TABLE: Table = Table::composed::<Portable>();

struct Portable;

// SAFETY: `staged::run` is the scalar cast in a loop, and writes every byte.
unsafe impl Compose for Portable {
    unsafe fn run<S: Widen, D: Narrow>(src: &[u8], dst: &mut [u8], len: usize, rules: &Rules, _: Store) {
        staged::run::<S, D>(src, dst, len, rules);
    }
}

/// Casts with the portable kernel of the pair, for a backend to which it is the best one.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) fn cast<S: Element, D: Element>(src: &[u8], dst: &mut [u8], len: usize, rules: &Rules) {
    let Some(kernel) = TABLE.get(S::DATA_TYPE, D::DATA_TYPE) else { return };
    // SAFETY: the kernel needs nothing of the processor, and checks lengths itself.
    unsafe { kernel(src, dst, len, rules, Store::Cached) };
}
