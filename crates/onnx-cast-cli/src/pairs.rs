//! The pairs of types that `bench` measures.

use onnx_cast::DataType;
use std::str::FromStr;

/// What people cast: weights and activations between the floats, to and from 8 bits and fewer, and indices.
#[rustfmt::skip]
const USUAL: &[(DataType, DataType)] = {
    use DataType::*;
    &[
        (Float, Float16), (Float16, Float),
        (Float, BFloat16), (BFloat16, Float),
        (Float16, BFloat16), (BFloat16, Float16),
        (Float, Double), (Double, Float), (Double, Float16),
        (Float, Float8E4M3FN), (Float8E4M3FN, Float),
        (Float, Float8E5M2),
        (Float16, Float8E4M3FN), (BFloat16, Float8E4M3FN), (Float8E4M3FN, BFloat16),
        (Float, Float4E2M1), (Float4E2M1, Float),
        (Float, Float8E8M0),
        (Float, Int8), (Int8, Float), (Uint8, Float),
        (Int4, Float16), (Int64, Int32), (Int32, Float),
    ]
};

/// Pairs of numeric types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pairs(Vec<(DataType, DataType)>);

impl Pairs {
    /// The pairs, source after source.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (DataType, DataType)> {
        self.0.iter().copied()
    }
}

impl Default for Pairs {
    fn default() -> Self {
        Pairs(USUAL.to_vec())
    }
}

impl FromStr for Pairs {
    type Err = String;

    fn from_str(text: &str) -> Result<Pairs, String> {
        let types = DataType::NUMERIC;
        if text == "all" {
            return Ok(Pairs(types.iter().flat_map(|&from| types.iter().map(move |&to| (from, to))).collect()));
        }
        let numeric = |name: &str| match name.parse::<DataType>() {
            Ok(data_type) if data_type.is_numeric() => Ok(data_type),
            Ok(data_type) => Err(format!("{data_type} is not a numeric type")),
            Err(error) => Err(error.to_string()),
        };
        let pair = |pair: &str| match pair.split_once(':') {
            Some((from, to)) => Ok((numeric(from)?, numeric(to)?)),
            None => Err(format!("`{pair}` is not a pair (want FROM:TO)")),
        };
        text.split(',').map(pair).collect::<Result<Vec<_>, String>>().map(Pairs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named() {
        let pairs: Pairs = "float:float16,f16:F32".parse().expect("two pairs");
        let (float, half) = (DataType::Float, DataType::Float16);
        assert_eq!(pairs.iter().collect::<Vec<_>>(), [(float, half), (half, float)]);
        let all: Pairs = "all".parse().expect("all pairs");
        assert_eq!(all.iter().count(), DataType::NUMERIC.len().pow(2));
        for wrong in ["", "float", "float:", "float:string", "complex64:float", "float:float16,", "floaty:float"] {
            assert!(wrong.parse::<Pairs>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_usual_pairs_differ() {
        for (i, pair) in USUAL.iter().enumerate() {
            assert!(pair.0.is_numeric() && pair.1.is_numeric() && pair.0 != pair.1, "{pair:?}");
            assert!(!USUAL[..i].contains(pair), "{pair:?}");
        }
    }
}
