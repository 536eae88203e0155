//! The choice of how a pair of types is cast: [`Algorithm::of`], for every backend.

use crate::element::{Class, DataType};
use crate::format::FloatFormat;
use core::fmt;

/// How a backend casts one numeric type to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Algorithm {
    /// The bytes are copied unchanged.
    Copy,
    /// The results are looked up in a table with an entry for each code of the source, which has 8 bits or fewer.
    LookUp,
    /// Elements are widened and narrowed in registers.
    Fused,
    /// One kernel widens elements into a tile in the L1 cache, and a second kernel narrows them from there.
    Staged(Hub),
}

/// Type of the elements in the tile of a staged cast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Hub {
    /// `float`, which represents every source value that the target can represent.
    Float,
    /// `float`, rounded to odd: truncated, with the lowest bit set if any dropped bit was set. Rounding this to the few
    /// bits of the target gives the same result as rounding the source value once.
    OddFloat,
    /// `int8`, which represents every source value after truncation to an integer.
    Int8,
    /// `uint8`, which represents every source value after truncation to an integer, or holds every bit that the target
    /// keeps.
    Uint8,
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Algorithm::Copy => "copy",
            Algorithm::LookUp => "look-up",
            Algorithm::Fused => "fused",
            Algorithm::Staged(Hub::Float) => "staged by float",
            Algorithm::Staged(Hub::OddFloat) => "staged by float, rounded to odd",
            Algorithm::Staged(Hub::Int8) => "staged by int8",
            Algorithm::Staged(Hub::Uint8) => "staged by uint8",
        })
    }
}

/// The properties of a backend that decide an algorithm.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Capabilities {
    /// Whether the backend converts 16-bit floats in registers.
    pub(crate) converts_halves: bool,
    /// Whether the backend looks up 16-bit results for 8-bit sources.
    pub(crate) looks_up_16: bool,
    /// Whether the backend looks up 16-bit results only if [`Fold`](super::lookup_tables::fold::Fold) needs few
    /// entries.
    pub(crate) folds: bool,
}

impl Algorithm {
    /// Returns the algorithm of a pair, or `None` if either type is not numeric.
    ///
    /// Pairs that are often cast in bulk are fused: `float`, `float16` and `bfloat16` to every type, and `double` and
    /// the integers to each other and to these three types. Sources of 8 bits or fewer are looked up if the result is
    /// narrow too. All other pairs are staged.
    pub(crate) const fn of(from: DataType, to: DataType, backend: Capabilities) -> Option<Algorithm> {
        let (Some(source), Some(target)) = (Class::of(from), Class::of(to)) else { return None };
        // A bool whose byte is neither 0 nor 1 becomes 1.
        if from as u8 == to as u8 && !matches!(source, Class::Bool) {
            return Some(Algorithm::Copy);
        }
        // Floats outside the range of 16-bit integers saturate, and no `Fold` represents saturated results.
        let saturates = match (source, target) {
            (Class::SmallFloat(format), Class::Int { bits: 16, .. }) => format.exponent_bits > 4,
            _ => false,
        };
        let looks_up_16 = from.info().bits < 8 || backend.looks_up_16 || backend.folds && !saturates;
        Some(match (source, target) {
            (Class::Int { bits: from, .. }, Class::Int { bits: to, .. }) if from == to => Algorithm::Copy,

            (Class::F32, _) | (Class::F16 | Class::BF16, Class::F32) => Algorithm::Fused,
            (Class::F16 | Class::BF16, _) if !backend.converts_halves => Algorithm::Staged(Hub::Float),
            (Class::F16 | Class::BF16, _) => Algorithm::Fused,
            (Class::F64 | Class::Int { bits: 32 | 64, .. }, Class::F16 | Class::BF16) if !backend.converts_halves => {
                Algorithm::Staged(Hub::OddFloat)
            }
            (Class::Int { bits: 16, .. }, Class::F16 | Class::BF16) if !backend.converts_halves => {
                Algorithm::Staged(Hub::Float)
            }
            (Class::F64, Class::SmallFloat(_) | Class::E8M0) => Algorithm::Staged(Hub::OddFloat),
            (Class::F64, _) => Algorithm::Fused,

            (Class::Int { bits: 32 | 64, .. }, Class::E8M0) => Algorithm::Staged(Hub::OddFloat),
            // `float` rounds only integers of magnitude 2^24 or more, which exceed every small float.
            (Class::Int { bits: 16 | 32 | 64, .. }, Class::SmallFloat(_) | Class::E8M0) => {
                Algorithm::Staged(Hub::Float)
            }
            (Class::Int { bits: 16 | 32 | 64, .. }, Class::Int { bits: 2 | 4, .. }) => Algorithm::Staged(Hub::Uint8),
            (Class::Int { bits: 16 | 32 | 64, .. }, _) => Algorithm::Fused,

            (Class::Int { bits: 8, .. } | Class::Bool, Class::SmallFloat(_) | Class::E8M0) => Algorithm::LookUp,
            // Two look-ups are faster than a conversion through `float`.
            (Class::Int { bits: 8, .. }, Class::F16 | Class::BF16) if backend.looks_up_16 => Algorithm::LookUp,
            (Class::Bool, Class::F16 | Class::BF16) if looks_up_16 => Algorithm::LookUp,
            (Class::Int { bits: 8, .. } | Class::Bool, _) => Algorithm::Fused,

            (Class::SmallFloat(_) | Class::E8M0 | Class::Int { .. }, Class::F32) => Algorithm::Fused,
            (_, Class::F16 | Class::BF16) if !looks_up_16 => Algorithm::Fused,
            // Every code except those of zero becomes true.
            (Class::SmallFloat(format), Class::Bool) if format.bits == 8 => Algorithm::Fused,
            (_, Class::Int { bits: 16, .. }) if looks_up_16 => Algorithm::LookUp,
            // Truncated to integers, these floats fit in 8 bits.
            (Class::SmallFloat(FloatFormat { bits: 4 | 6, .. }), Class::Int { bits: 32 | 64, signed }) => {
                Algorithm::Staged(if signed { Hub::Int8 } else { Hub::Uint8 })
            }
            (Class::SmallFloat(_) | Class::E8M0, Class::F64 | Class::Int { bits: 16 | 32 | 64, .. }) => {
                Algorithm::Staged(Hub::Float)
            }
            (Class::Int { signed, .. }, Class::F64 | Class::Int { bits: 32 | 64, .. }) => {
                Algorithm::Staged(if signed { Hub::Int8 } else { Hub::Uint8 })
            }
            (Class::SmallFloat(_) | Class::E8M0 | Class::Int { .. }, _) => Algorithm::LookUp,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::Kind;

    /// Capabilities of AVX-512 and NEON, of AVX2, of WebAssembly, and of the portable backend.
    const BACKENDS: [Capabilities; 4] = [
        Capabilities { converts_halves: true, looks_up_16: true, folds: false },
        Capabilities { converts_halves: true, looks_up_16: false, folds: true },
        Capabilities { converts_halves: true, looks_up_16: false, folds: false },
        Capabilities { converts_halves: false, looks_up_16: true, folds: false },
    ];

    fn for_every_pair(mut check: impl FnMut(DataType, DataType, Algorithm, Capabilities)) {
        for backend in BACKENDS {
            for &from in DataType::ALL {
                for &to in DataType::ALL {
                    let algorithm = Algorithm::of(from, to, backend);
                    let is_numeric = |data_type: DataType| Class::of(data_type).is_some();
                    assert_eq!(algorithm.is_some(), is_numeric(from) && is_numeric(to), "{from} -> {to}");
                    if let Some(algorithm) = algorithm {
                        check(from, to, algorithm, backend);
                    }
                }
            }
        }
    }

    /// A staged cast calls two kernels, neither of which is staged: the second stage would need the first one's tile.
    #[test]
    fn the_stages_of_a_cast_are_not_staged() {
        for_every_pair(|from, to, algorithm, backend| {
            let Algorithm::Staged(hub) = algorithm else { return };
            let (hub, is_odd) = match hub {
                Hub::Float => (DataType::Float, false),
                Hub::OddFloat => (DataType::Float, true),
                Hub::Int8 => (DataType::Int8, false),
                Hub::Uint8 => (DataType::Uint8, false),
            };
            for (from, to, has_kernel) in [(from, hub, is_odd), (hub, to, false)] {
                let stage = Algorithm::of(from, to, backend);
                assert!(has_kernel || !matches!(stage, None | Some(Algorithm::Staged(_))), "{from} -> {to}: {stage:?}");
            }
        });
    }

    /// Pairs that are often cast in bulk take one pass.
    #[test]
    fn common_pairs_are_fused() {
        let common = [DataType::Float, DataType::Float16, DataType::BFloat16];
        for_every_pair(|from, to, algorithm, backend| {
            if backend.converts_halves && (common.contains(&from) || to == DataType::Float && from.info().bits < 32) {
                assert!(matches!(algorithm, Algorithm::Fused | Algorithm::Copy), "{from} -> {to}: {algorithm}");
            }
        });
    }

    #[test]
    fn only_narrow_sources_are_looked_up_and_only_bits_that_stay_are_copied() {
        for_every_pair(|from, to, algorithm, _| match algorithm {
            Algorithm::LookUp => assert!(from.info().bits <= 8 && to.info().bits <= 16, "{from} -> {to}"),
            Algorithm::Copy => {
                let is_integer = |data_type: DataType| matches!(data_type.info().kind, Kind::Int | Kind::Uint);
                let same_width = from.info().bits == to.info().bits;
                assert!(from == to || is_integer(from) && is_integer(to) && same_width, "{from} -> {to}");
            }
            Algorithm::Fused | Algorithm::Staged(_) => {}
        });
    }
}
