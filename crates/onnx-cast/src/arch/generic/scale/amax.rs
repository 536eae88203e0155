//! The largest magnitudes of runs of floats, where runs and vectors are powers of two.
//!
//! Every `unsafe fn` here asks that the processor has the instructions of `L`, and that what it names can be read.
#![allow(unsafe_op_in_unsafe_fn, reason = "each line is a method of `Lanes`, or reads what was counted before")]

use crate::kernel::lanes::Lanes;

/// Finds the largest magnitude in each run of floats, as bits without the sign. The floats are `width` bytes wide.
/// Returns the number of runs that are done, and leaves the others to the caller.
#[inline(always)]
pub(crate) unsafe fn by_lanes<L: Lanes>(x: &[u8], width: usize, run: usize, out: &mut [u32]) -> usize {
    match width {
        2 => of_width::<L, 16>(x, run, out),
        4 => of_width::<L, 32>(x, run, out),
        _ => unreachable!("floats have 2 or 4 bytes"),
    }
}

/// Runs of one or two vectors, or of two to a vector, as the blocks of formats are, have kernels of their own.
#[inline(always)]
unsafe fn of_width<L: Lanes, const W: usize>(x: &[u8], run: usize, out: &mut [u32]) -> usize {
    let lanes = 8 * L::BYTES / W;
    match run / lanes {
        _ if !run.is_power_of_two() => 0,
        0 if run == lanes / 2 => of_runs::<L, W, 2>(x, 1, out),
        0 => 0,
        1 => of_runs::<L, W, 1>(x, 1, out),
        2 => of_runs::<L, W, 1>(x, 2, out),
        vectors => of_runs::<L, W, 1>(x, vectors, out),
    }
}

/// Those of runs of so many vectors, or of `PARTS` runs to a vector. As many runs as a vector has lanes are a group.
#[inline(always)]
unsafe fn of_runs<L: Lanes, const W: usize, const PARTS: usize>(x: &[u8], vectors: usize, out: &mut [u32]) -> usize {
    let lanes = 8 * L::BYTES / W;
    let group = lanes / PARTS * vectors * L::BYTES;
    let groups = (x.len() / group).min(out.len() / lanes);
    for (group, out) in x.chunks_exact(group).zip(out.chunks_exact_mut(lanes)) {
        let amax = tournament::<L, W, PARTS>(group.as_ptr(), vectors);
        if W == 32 {
            L::store(out.as_mut_ptr().cast(), amax);
        } else {
            let mut halves = [0u16; 32];
            L::store(halves.as_mut_ptr().cast(), amax);
            out.iter_mut().zip(halves).for_each(|(out, half)| *out = half.into());
        }
    }
    groups * lanes
}

/// The largest magnitudes of a group's runs, in order. First the vectors of each run are reduced to one vector of the
/// largest lanes. Then each round takes the larger of two neighbours. The rounds go depth first, so that few vectors
/// are in use at a time.
#[inline(always)]
unsafe fn tournament<L: Lanes, const W: usize, const PARTS: usize>(src: *const u8, vectors: usize) -> L::V {
    match 8 * L::BYTES / W / PARTS {
        2 => of_2::<L, W>(src, vectors, 0),
        4 => of_4::<L, W>(src, vectors, 0),
        8 => of_8::<L, W>(src, vectors, 0),
        16 => of_16::<L, W>(src, vectors, 0),
        32 => of_32::<L, W>(src, vectors, 0),
        _ => unreachable!("a vector has 4 to 32 lanes"),
    }
}

/// The largest magnitude in each lane of one set of `vectors` vectors.
#[inline(always)]
unsafe fn of_1<L: Lanes, const W: usize>(src: *const u8, vectors: usize, index: usize) -> L::V {
    let src = src.add(index * vectors * L::BYTES);
    let magnitude = L::splat::<W>(u64::MAX >> (65 - W));
    let mut magnitudes = L::and(L::load(src), magnitude);
    for i in 1..vectors {
        magnitudes = L::max_u::<W>(magnitudes, L::and(L::load(src.add(i * L::BYTES)), magnitude));
    }
    magnitudes
}

/// Defines a round: the greater of neighbours in twice as many vectors.
macro_rules! round {
    ($name:ident, $half:ident) => {
        #[inline(always)]
        unsafe fn $name<L: Lanes, const W: usize>(src: *const u8, vectors: usize, index: usize) -> L::V {
            let halves = [$half::<L, W>(src, vectors, 2 * index), $half::<L, W>(src, vectors, 2 * index + 1)];
            greater_of_neighbours::<L, W>(halves)
        }
    };
}
round!(of_2, of_1);
round!(of_4, of_2);
round!(of_8, of_4);
round!(of_16, of_8);
round!(of_32, of_16);

/// The greater of each two neighbouring lanes of 16 or 32 bits.
#[inline(always)]
unsafe fn greater_of_neighbours<L: Lanes, const W: usize>(value: [L::V; 2]) -> L::V {
    match W {
        16 => L::max_u::<16>(L::low_halves::<32>(value), L::high_halves::<32>(value)),
        32 => L::max_u::<32>(L::low_halves::<64>(value), L::high_halves::<64>(value)),
        _ => unreachable!("floats have 16 or 32 bits"),
    }
}
