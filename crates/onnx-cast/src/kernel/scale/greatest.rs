//! The greatest magnitudes of runs of floats: by lanes where runs fill vectors, and by loops in plain Rust, which the
//! compiler vectorises.
//!
//! Every `unsafe fn` here asks that the processor has the instructions of `L`.
#![allow(unsafe_op_in_unsafe_fn, reason = "each line is a method of `Lanes`, or reads what was counted before")]

use crate::kernel::lanes::Lanes;

/// The greatest magnitudes of runs of floats of a width in bytes, by their bits without the sign: of how many runs.
/// There are vectors for a power of two of elements, as often as results fill one; others are left.
#[inline(always)]
pub(crate) unsafe fn by_lanes<L: Lanes>(x: &[u8], width: usize, run: usize, out: &mut [u32]) -> usize {
    match width {
        2 => of_width::<L, 16>(x, run, out),
        4 => of_width::<L, 32>(x, run, out),
        _ => unreachable!("floats have 2 or 4 bytes"),
    }
}

#[inline(always)]
unsafe fn of_width<L: Lanes, const W: usize>(x: &[u8], run: usize, out: &mut [u32]) -> usize {
    /// The most lanes of any vector.
    const MOST: usize = 32;
    let lanes = 8 * L::BYTES / W;
    if run == 1 || !run.is_power_of_two() {
        return 0;
    }
    // As many vectors as a run has elements hold the elements of as many runs as a vector has lanes.
    let groups = (x.len() / L::BYTES / run).min(out.len() / lanes);
    let vectors_of_run = (run / lanes).max(1);
    let magnitude = L::splat::<W>(u64::MAX >> (65 - W));
    let mut vectors = [magnitude; MOST];
    for (group, out) in out.chunks_exact_mut(lanes).take(groups).enumerate() {
        let mut src = x.as_ptr().add(group * run * L::BYTES);
        let mut count = run / vectors_of_run;
        for vector in &mut vectors[..count] {
            *vector = L::and(L::load(src), magnitude);
            for at in 1..vectors_of_run {
                *vector = L::max_u::<W>(*vector, L::and(L::load(src.add(at * L::BYTES)), magnitude));
            }
            src = src.add(vectors_of_run * L::BYTES);
        }
        // Each round leaves half of the vectors, each with the greater of two neighbours in a lane.
        while count > 1 {
            count /= 2;
            for i in 0..count {
                vectors[i] = greater_of_neighbours::<L, W>([vectors[2 * i], vectors[2 * i + 1]]);
            }
        }
        if W == 32 {
            L::store(out.as_mut_ptr().cast(), vectors[0]);
        } else {
            let mut halves = [0u16; MOST];
            L::store(halves.as_mut_ptr().cast(), vectors[0]);
            out.iter_mut().zip(halves).for_each(|(out, half)| *out = half.into());
        }
    }
    groups * lanes
}

/// The greater of each two neighbouring lanes of 16 or 32 bits.
#[inline(always)]
unsafe fn greater_of_neighbours<L: Lanes, const W: usize>(value: [L::V; 2]) -> L::V {
    match W {
        16 => L::max_u::<16>(L::low_halves::<32>(value), L::high_halves::<32>(value)),
        32 => L::max_u::<32>(L::low_halves::<64>(value), L::high_halves::<64>(value)),
        _ => unreachable!("floats have 16 or 32 bits"),
    }
}

/// [`super::ScaleKernels::greatest`] without lanes.
#[inline(always)]
pub(crate) fn by_loops(x: &[u8], width: usize, run: usize, out: &mut [u32]) {
    match width {
        2 => of_2_bytes::greatest(x, run, out),
        4 => of_4_bytes::greatest(x, run, out),
        _ => unreachable!("floats have 2 or 4 bytes"),
    }
}

/// The greatest magnitudes of floats of a width, by their bits without the sign.
macro_rules! greatest {
    ($name:ident, $bits:ty) => {
        mod $name {
            const WIDTH: usize = size_of::<$bits>();
            /// Maxima beside each other in a long run. Of fewer, the compiler unrolls a step before it looks for
            /// vectors, and finds none.
            const LANES: usize = 128;
            /// The longest run whose elements are halved, two by two, until one is left: for shorter ones the compiler
            /// finds vectors in no other loop, or gathers.
            const SHORT: usize = 128;
            /// Pairs that are halved together: those of whole runs.
            const PAIRS: usize = 512;

            #[inline(always)]
            fn magnitude(bytes: &[u8; WIDTH]) -> $bits {
                <$bits>::from_le_bytes(*bytes) & (<$bits>::MAX >> 1)
            }

            #[inline(always)]
            pub(super) fn greatest(x: &[u8], run: usize, out: &mut [u32]) {
                let x = x.as_chunks().0;
                if run == 1 {
                    return x.iter().zip(out).for_each(|(x, out)| *out = magnitude(x).into());
                }
                if !(run.is_power_of_two() && (2..=SHORT).contains(&run)) {
                    return x.chunks(run).zip(out).for_each(|(run, out)| *out = of_many(run).into());
                }
                let (mut most, mut fewer) = ([0; PAIRS], [0; PAIRS / 2]);
                for (x, out) in x.chunks(2 * PAIRS).zip(out.chunks_mut(2 * PAIRS / run)) {
                    let pairs = x.as_chunks::<2>().0;
                    for (most, [a, b]) in most.iter_mut().zip(pairs) {
                        *most = magnitude(a).max(magnitude(b));
                    }
                    let mut len = pairs.len();
                    while len > out.len() {
                        for (fewer, [a, b]) in fewer.iter_mut().zip(most[..len].as_chunks::<2>().0) {
                            *fewer = *a.max(b);
                        }
                        len /= 2;
                        most[..len].copy_from_slice(&fewer[..len]);
                    }
                    out.iter_mut().zip(most).for_each(|(out, most)| *out = most.into());
                }
            }

            #[inline(always)]
            fn of_many(run: &[[u8; WIDTH]]) -> $bits {
                let mut lanes = [0; LANES];
                let (chunks, rest) = run.as_chunks::<LANES>();
                for chunk in chunks {
                    for (lane, bytes) in lanes.iter_mut().zip(chunk) {
                        *lane = magnitude(bytes).max(*lane);
                    }
                }
                for (lane, bytes) in lanes.iter_mut().zip(rest) {
                    *lane = magnitude(bytes).max(*lane);
                }
                lanes.into_iter().fold(0, |greatest: $bits, lane| greatest.max(lane))
            }
        }
    };
}

greatest!(of_2_bytes, u16);
greatest!(of_4_bytes, u32);
