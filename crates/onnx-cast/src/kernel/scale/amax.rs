//! The largest magnitudes of runs of floats, by loops in plain Rust, which the compiler vectorises: for runs that do
//! not fill vectors, and for backends without vectors.

/// [`super::ScaleKernels::amax`] without lanes.
#[inline(always)]
pub(crate) fn by_loops(x: &[u8], width: usize, run: usize, out: &mut [u32]) {
    match width {
        2 => of_2_bytes::amax(x, run, out),
        4 => of_4_bytes::amax(x, run, out),
        _ => unreachable!("floats have 2 or 4 bytes"),
    }
}

/// The largest magnitudes of floats of a width, by their bits without the sign.
macro_rules! amax {
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
            pub(super) fn amax(x: &[u8], run: usize, out: &mut [u32]) {
                let x = x.as_chunks().0;
                if run == 1 {
                    return x.iter().zip(out).for_each(|(x, out)| *out = magnitude(x).into());
                }
                if !(run.is_power_of_two() && (2..=SHORT).contains(&run)) {
                    return x.chunks(run).zip(out).for_each(|(run, out)| *out = of_many(run).into());
                }
                let (mut magnitudes, mut fewer) = ([0; PAIRS], [0; PAIRS / 2]);
                for (x, out) in x.chunks(2 * PAIRS).zip(out.chunks_mut(2 * PAIRS / run)) {
                    let pairs = x.as_chunks::<2>().0;
                    for (magnitudes, [a, b]) in magnitudes.iter_mut().zip(pairs) {
                        *magnitudes = magnitude(a).max(magnitude(b));
                    }
                    let mut len = pairs.len();
                    while len > out.len() {
                        for (fewer, [a, b]) in fewer.iter_mut().zip(magnitudes[..len].as_chunks::<2>().0) {
                            *fewer = *a.max(b);
                        }
                        len /= 2;
                        magnitudes[..len].copy_from_slice(&fewer[..len]);
                    }
                    out.iter_mut().zip(magnitudes).for_each(|(out, magnitudes)| *out = magnitudes.into());
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
                lanes.into_iter().fold(0, |amax: $bits, lane| amax.max(lane))
            }
        }
    };
}

amax!(of_2_bytes, u16);
amax!(of_4_bytes, u32);
