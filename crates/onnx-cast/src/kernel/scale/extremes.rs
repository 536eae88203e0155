//! The lowest and the highest number of runs of floats, by a loop in plain Rust, which the compiler vectorises.
//!
//! Floats are compared as integers: the bits of positive floats are in their order, and those of negative floats are if
//! the sign is inverted. So no comparison depends on the floating-point control register, and the result does not
//! depend on the order of the elements.

/// The bits of a float's magnitude.
const MAGNITUDE: i32 = i32::MAX;

/// [`super::ScaleKernels::extremes`] without lanes.
#[inline(always)]
pub(crate) fn by_loops(x: &[u8], run: usize, limit: i32, lows: &mut [i32], highs: &mut [i32]) {
    let raise = |bytes: &[u8; 4], low: i32, high: i32| {
        let bits = i32::from_le_bytes(*bytes);
        let bits = if bits & MAGNITUDE < limit { bits } else { 0 };
        (low.max(bits ^ i32::MIN), high.max(bits))
    };
    let x = x.as_chunks().0;
    if run == 1 {
        for ((bytes, low), high) in x.iter().zip(lows).zip(highs) {
            (*low, *high) = raise(bytes, *low, *high);
        }
        return;
    }
    for ((run, low), high) in x.chunks(run).zip(lows).zip(highs) {
        (*low, *high) = run.iter().fold((*low, *high), |(low, high), bytes| raise(bytes, low, high));
    }
}
