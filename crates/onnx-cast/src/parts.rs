//! Work on a tensor, split into parts for several threads.

/// Work on a number of elements that can be split into parts.
pub trait Divide: Sized + Send {
    /// The number of elements.
    fn elements(&self) -> usize;

    /// Granularity in elements: every part begins at a multiple of it.
    fn grain(&self) -> usize;

    /// Splits the work into that on the first `at` elements and that on the rest.
    fn divide(self, at: usize) -> (Self, Self);
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
