//! The lowest and the highest number that each scale is for, found on several threads. Each thread raises numbers of
//! its own, and those of the scale, which all threads share, when it goes on to another scale. A maximum of integers
//! does not depend on the order, so the result does not depend on the number of threads.

use super::scaled::layout::Layout;
use super::scaled::tiles::floats;
use crate::arch::Backend;
use crate::parts::{Elements, in_parts, parts_for};
use crate::scalar::with_default_float_environment;
use crate::tensor::TensorView;
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::{AtomicI32, Ordering};

/// Elements that are looked at together.
const PART: usize = 1024;

/// The numbers that are skipped.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Skip {
    /// NaN.
    Nan,
    /// NaN and infinities.
    NotFinite,
}

/// The lowest number, as the bits of its magnitude, and the highest. Both begin at 0.
type Extremes = [AtomicI32; 2];

/// Finds the lowest and the highest number of the elements of each scale, 0 included.
struct Search<'a> {
    x: &'a TensorView<'a>,
    layout: Layout,
    limit: i32,
    backend: Backend,
    found: &'a [Extremes],
}

/// The lowest and the highest number of all elements, 0 included.
pub(super) fn extremes(x: &TensorView<'_>, skip: Skip, backend: Option<Backend>, threads: Option<usize>) -> [f32; 2] {
    let found = [Extremes::default()];
    Search::new(x, Layout::TENSOR, skip, backend, &found).run(threads);
    let [found] = found;
    numbers(found)
}

/// The lowest and the highest number among the elements of each scale, 0 included. `None` if the results do not fit in
/// memory.
pub(super) fn extremes_of_scales(
    x: &TensorView<'_>,
    layout: Layout,
    scales: usize,
    skip: Skip,
    backend: Option<Backend>,
    threads: Option<usize>,
) -> Option<Vec<[f32; 2]>> {
    let mut found: Vec<Extremes> = Vec::new();
    found.try_reserve_exact(scales).ok()?;
    found.resize_with(scales, Extremes::default);
    Search::new(x, layout, skip, backend, &found).run(threads);
    let mut all = Vec::new();
    all.try_reserve_exact(scales).ok()?;
    all.extend(found.into_iter().map(numbers));
    Some(all)
}

fn numbers([low, high]: Extremes) -> [f32; 2] {
    // Not -0 where no number is negative.
    let low = match low.into_inner() {
        0 => 0,
        low => low as u32 | 1 << 31,
    };
    [f32::from_bits(low), f32::from_bits(high.into_inner() as u32)]
}

impl<'a> Search<'a> {
    fn new(x: &'a TensorView<'a>, layout: Layout, skip: Skip, backend: Option<Backend>, found: &'a [Extremes]) -> Self {
        const INFINITY: i32 = f32::INFINITY.to_bits() as i32;
        let limit = if skip == Skip::Nan { INFINITY + 1 } else { INFINITY };
        Search { x, layout, limit, backend: backend.unwrap_or_else(Backend::best), found }
    }

    fn run(&self, threads: Option<usize>) {
        let parts = parts_for(self.x.bytes().unwrap_or_default().len(), threads);
        let run = |Elements(elements)| with_default_float_environment(|| self.part(elements));
        in_parts(Elements(0..self.x.len()), parts, &run, &|(), ()| ());
    }

    /// Raises what is found to the numbers of some elements.
    fn part(&self, elements: Range<usize>) {
        let width = self.x.data_type().info().bits as usize / 8;
        let bytes = &self.x.bytes().unwrap_or_default()[elements.start * width..elements.end * width];
        let backend = self.backend;
        let mut memory = [0; 4 * PART];
        let (mut lows, mut highs, mut scales) = ([0; PART], [0; PART], 0..0);
        for (bytes, begin) in bytes.chunks(PART * width).zip((elements.start..).step_by(PART)) {
            let len = bytes.len() / width;
            let values = floats(backend, self.x.data_type(), bytes, &mut memory[..4 * len]);
            let mut done = 0;
            while done < len {
                let piece = self.layout.piece(begin + done, len - done);
                let of_piece = piece.scale..piece.scale + piece.scales;
                if of_piece != scales {
                    self.raise(scales, &lows, &highs);
                    scales = of_piece;
                    lows[..scales.len()].fill(0);
                    highs[..scales.len()].fill(0);
                }
                let values = &values[4 * done..4 * (done + piece.len)];
                let (first, others) = values.split_at(4 * piece.first);
                let extremes = backend.table().scale.extremes;
                // SAFETY: a `Backend` exists only if this machine can run it.
                unsafe {
                    extremes(first, piece.first, self.limit, &mut lows[..1], &mut highs[..1]);
                    extremes(others, self.layout.run, self.limit, &mut lows[1..], &mut highs[1..]);
                }
                done += piece.len;
            }
        }
        self.raise(scales, &lows, &highs);
    }

    /// Raises what is found for scales to what a thread has found.
    fn raise(&self, scales: Range<usize>, lows: &[i32], highs: &[i32]) {
        for ((found, low), high) in self.found[scales].iter().zip(lows).zip(highs) {
            for (found, bits) in found.iter().zip([*low, *high]) {
                // Mostly it is not above, and reading a number that others only read takes no time.
                if bits > found.load(Ordering::Relaxed) {
                    found.fetch_max(bits, Ordering::Relaxed);
                }
            }
        }
    }
}
