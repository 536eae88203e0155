//! A kernel over a whole tensor: split over threads, and told whether its results are more than the caches hold.

use super::{Context, Kernel, StoreHint};
use crate::arch::{Backend, with_default_float_environment};
use crate::element::{DataType, byte_len_of};
use crate::scalar::{RoundMode, Rules};

/// Casts that touch this much are streamed: little of the output would stay in the last cache (32 MiB on the machines
/// measured), which the source passes through as well and others share, and it would push everything else out. A
/// non-temporal store does not read the line that it overwrites, which an ordinary one must. Between this and the size of that cache a cast
/// is faster by an eighth, and no slower where its result is read next.
const STREAM_BYTES: usize = 24 << 20;

/// Elements at whose multiples a tensor may be cut: whole bytes of every type, and whole cache lines of those of a byte
/// or more.
#[cfg(feature = "threads")]
const GRAIN: usize = 256;

/// Bytes read and written for which another thread is worth waking: measured with two threads, a cast of 1 MiB takes
/// about 10 microseconds alone, of which waking the other costs up to half.
#[cfg(feature = "threads")]
const THREAD_BYTES: usize = 1 << 20;

/// Threads of the pool that this thread is in, or of the global one; 1 where the system has none to give for that.
#[cfg(feature = "threads")]
fn pool_threads() -> usize {
    use std::error::Error;
    use std::sync::LazyLock;
    /// Whether there is a global pool. rayon makes one when it is first asked, and panics where it cannot.
    static GLOBAL: LazyLock<bool> = LazyLock::new(|| match rayon::ThreadPoolBuilder::new().build_global() {
        Ok(()) => true,
        // That it is there already is an error that no other caused.
        Err(error) => error.source().is_none(),
    });
    if rayon::current_thread_index().is_none() && !*GLOBAL { 1 } else { rayon::current_num_threads() }
}

/// So many elements, and their bytes in the source and the target.
struct Part<'a> {
    src: &'a [u8],
    dst: &'a mut [u8],
    len: usize,
}

/// A cast between two types of whole or packed bytes, resolved: what to call, on how many threads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    kernel: Kernel,
    copies: bool,
    context: Context,
    from_bits: usize,
    to_bits: usize,
    #[cfg_attr(not(feature = "threads"), expect(dead_code, reason = "there is only the caller's thread"))]
    threads: Option<usize>,
}

impl Job {
    /// The cast between two types other than string. The same type (but for bool, whose bytes other than 0 and 1 have
    /// to be read), and types that no kernel takes, are copied.
    pub(crate) fn cast(from: DataType, to: DataType, rules: Rules, backend: Backend, threads: Option<usize>) -> Job {
        let same = from == to && from != DataType::Bool;
        let cast = if same { None } else { backend.table().cast(from, to) };
        let (from_bits, to_bits) = (from.info().bits as usize, to.info().bits as usize);
        let context = Context { from, to, rules, hint: StoreHint::Temporal };
        let kernel = cast.unwrap_or(backend.table().copy());
        Job { kernel, copies: cast.is_none(), context, from_bits, to_bits, threads }
    }

    /// The bytes as they are.
    pub(crate) fn copy(data_type: DataType, backend: Backend) -> Job {
        let rules = Rules::new(data_type, 1, true, RoundMode::Up);
        let bits = data_type.info().bits as usize;
        let context = Context { from: data_type, to: data_type, rules, hint: StoreHint::Temporal };
        Job { kernel: backend.table().copy(), copies: true, context, from_bits: bits, to_bits: bits, threads: None }
    }

    /// Whether the bytes stay as they are.
    pub(crate) fn copies(&self) -> bool {
        self.copies
    }

    /// Casts `len` elements, whose bytes are all of `src` and `dst`.
    pub(crate) fn run(&self, src: &[u8], dst: &mut [u8], len: usize) {
        debug_assert_eq!(src.len(), byte_len_of(len, self.from_bits));
        debug_assert_eq!(dst.len(), byte_len_of(len, self.to_bits));
        let touched = src.len().saturating_add(dst.len());
        let store = if touched < STREAM_BYTES { StoreHint::Temporal } else { StoreHint::NonTemporal };
        let whole = Part { src, dst, len };
        #[cfg(feature = "threads")]
        if touched >= 2 * THREAD_BYTES && self.threads != Some(1) {
            let threads = pool_threads();
            let parts = self.threads.map_or(threads, |most| most.min(threads)).min(touched / THREAD_BYTES);
            return self.share(store, whole, parts);
        }
        self.run_part(store, whole);
    }

    /// Casts the first of so many parts on the caller's thread, which is awake, and the others on the pool's.
    #[cfg(feature = "threads")]
    fn share(&self, store: StoreHint, part: Part<'_>, parts: usize) {
        if parts < 2 {
            return self.run_part(store, part);
        }
        let (first, others) = self.cut(part, parts, 1);
        rayon::in_place_scope(|scope| {
            scope.spawn(|_| self.split(store, others, parts - 1));
            self.run_part(store, first);
        });
    }

    /// Halves a part until there are as many as wanted, each on whichever thread of the pool is free.
    #[cfg(feature = "threads")]
    fn split(&self, store: StoreHint, part: Part<'_>, parts: usize) {
        if parts < 2 {
            return self.run_part(store, part);
        }
        let (low, high) = self.cut(part, parts, parts / 2);
        rayon::join(|| self.split(store, low, parts / 2), || self.split(store, high, parts - parts / 2));
    }

    /// Cuts a part behind the first `low` of `parts`.
    #[cfg(feature = "threads")]
    fn cut<'a>(&self, Part { src, dst, len }: Part<'a>, parts: usize, low: usize) -> (Part<'a>, Part<'a>) {
        let at = (len / parts * low).next_multiple_of(GRAIN).min(len);
        let (src_low, src_high) = src.split_at(byte_len_of(at, self.from_bits));
        let (dst_low, dst_high) = dst.split_at_mut(byte_len_of(at, self.to_bits));
        (Part { src: src_low, dst: dst_low, len: at }, Part { src: src_high, dst: dst_high, len: len - at })
    }

    fn run_part(&self, store: StoreHint, Part { src, dst, len }: Part<'_>) {
        let context = Context { hint: store, ..self.context };
        let len = if self.copies { dst.len() } else { len };
        // SAFETY: the kernel is from the table of a backend, and `Backend` values are only made of rows that are available
        // here; the lengths are those of `len` elements, or bytes.
        with_default_float_environment(|| unsafe { (self.kernel)(src, dst, len, &context) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where sizes have 32 bits, half a gigabyte has more bits than they count.
    #[test]
    fn the_bits_of_a_tensor_need_not_fit_in_a_size() {
        assert_eq!(byte_len_of(usize::MAX / 8, 64), usize::MAX / 8 * 8);
        assert_eq!(byte_len_of(usize::MAX, 8), usize::MAX);
        assert_eq!(byte_len_of(usize::MAX, 4), usize::MAX / 2 + 1);
        assert_eq!(byte_len_of(usize::MAX - 1, 6), usize::MAX / 4 * 3 + 2);
        assert_eq!(byte_len_of(5, 6), 4);
    }
}
