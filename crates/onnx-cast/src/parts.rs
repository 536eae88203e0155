//! Work on a tensor, split into parts for several threads.

use core::ops::Range;

/// Bytes read and written for which another thread is worth waking. Measured with two threads: a cast of 1 MiB takes
/// about 10 microseconds on one thread, and waking the other costs up to half of that.
#[cfg(threads)]
const THREAD_BYTES: usize = 1 << 20;

/// Number of threads, at most `threads`, for a cast that reads and writes this many bytes.
#[inline]
pub fn parts_for(bytes: usize, threads: Option<usize>) -> usize {
    #[cfg(threads)]
    if bytes >= 2 * THREAD_BYTES && threads != Some(1) {
        let available = crate::pool::current_threads();
        return threads.map_or(available, |max| max.min(available)).min(bytes / THREAD_BYTES);
    }
    let _ = (bytes, threads);
    1
}

/// Work on a number of elements that can be split into parts.
pub trait Divide: Sized + Send {
    /// The number of elements.
    fn elements(&self) -> usize;

    /// Granularity in elements: every part begins at a multiple of it.
    fn grain(&self) -> usize;

    /// Splits the work into that on the first `at` elements and that on the rest.
    fn divide(self, at: usize) -> (Self, Self);
}

/// A range of elements of a tensor. Its parts begin at multiples of 1,024 elements: whole bytes of every type, and
/// cache lines of types of 8 bits and more.
pub(crate) struct Elements(pub(crate) Range<usize>);

impl Divide for Elements {
    fn elements(&self) -> usize {
        self.0.len()
    }

    fn grain(&self) -> usize {
        1024
    }

    fn divide(self, at: usize) -> (Self, Self) {
        let Elements(Range { start, end }) = self;
        (Elements(start..start + at), Elements(start + at..end))
    }
}

/// Runs work in `parts` parts and joins the results in the order of the parts. The first part runs on the caller's
/// thread, which is already awake, and the others run on the threads of the pool. In a forked child, all parts run on
/// the threads of the child's own pool.
pub fn in_parts<W: Divide, R: Send>(
    work: W,
    parts: usize,
    run: &(impl Fn(W) -> R + Sync),
    join: &(impl Fn(R, R) -> R + Sync),
) -> R {
    #[cfg(threads)]
    if parts > 1 && work.elements() > work.grain() {
        let (first, others) = divide(work, parts, 1);
        return crate::pool::with_threads(|| {
            let mut result = None;
            let first = rayon::in_place_scope(|scope| {
                scope.spawn(|_| result = Some(halve(others, parts - 1, run, join)));
                run(first)
            });
            // The scope passes on a panic of the other parts, so here they have a result.
            result.map_or_else(|| unreachable!("the scope waits for its work"), |others| join(first, others))
        });
    }
    let _ = (parts, join);
    run(work)
}

/// Halves work recursively into `parts` parts, each of which runs on any free thread of the pool.
#[cfg(threads)]
fn halve<W: Divide, R: Send>(
    work: W,
    parts: usize,
    run: &(impl Fn(W) -> R + Sync),
    join: &(impl Fn(R, R) -> R + Sync),
) -> R {
    if parts < 2 {
        return run(work);
    }
    let (low, high) = divide(work, parts, parts / 2);
    let (low, high) = rayon::join(|| halve(low, parts / 2, run, join), || halve(high, parts - parts / 2, run, join));
    join(low, high)
}

/// Divides work in two: the first `low` of `parts` parts, and the remaining parts.
#[cfg(threads)]
fn divide<W: Divide>(work: W, parts: usize, low: usize) -> (W, W) {
    let len = work.elements();
    let at = (len / parts * low).next_multiple_of(work.grain()).min(len);
    work.divide(at)
}
