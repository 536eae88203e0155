//! Work on a tensor, split into parts for several threads.

/// Work on some elements that can be split.
pub trait Divide: Sized + Send {
    /// The number of elements.
    fn elements(&self) -> usize;

    /// Parts begin at multiples of so many elements.
    fn grain(&self) -> usize;

    /// The work on the first `at` elements, and on those after.
    fn divide(self, at: usize) -> (Self, Self);
}

/// Runs work in so many parts, of which the first runs on the caller's thread, which is awake, and the others on those
/// of the pool; in a forked child all run on its pool's. Results are joined in the order of the parts.
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
            // A panic in the other parts is one of the scope's.
            result.map_or_else(|| unreachable!("the scope waits for its work"), |others| join(first, others))
        });
    }
    let _ = (parts, join);
    run(work)
}

/// Halves work recursively into so many parts, each of which runs on any free thread of the pool.
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

/// Divides work after the first `low` of `parts` parts.
#[cfg(threads)]
fn divide<W: Divide>(work: W, parts: usize, low: usize) -> (W, W) {
    let len = work.elements();
    let at = (len / parts * low).next_multiple_of(work.grain()).min(len);
    work.divide(at)
}
