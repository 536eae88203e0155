//! The pairs of types that `bench` measures.

use onnx_cast::ops::Role;
use onnx_cast::{DataType, Operator};
use std::str::FromStr;

/// What `bench` measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Op {
    Cast,
    Quantize,
    Dequantize,
}

impl Op {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Op::Cast => "cast",
            Op::Quantize => "quantize",
            Op::Dequantize => "dequantize",
        }
    }
}

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

/// What people quantize: weights and activations, to 8 bits and fewer. Backwards it is what they dequantize.
#[rustfmt::skip]
const USUAL_QUANTIZED: &[(DataType, DataType)] = {
    use DataType::*;
    &[
        (Float, Int8), (Float, Uint8), (Float16, Int8), (BFloat16, Int8),
        (Float, Int4), (Float16, Uint4),
        (Float, Float8E4M3FN), (BFloat16, Float8E4M3FN), (Float, Float8E5M2),
        (Float, Float4E2M1), (BFloat16, Float4E2M1),
    ]
};

/// Pairs of numeric types.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Pairs {
    /// Those that people cast most.
    #[default]
    Usual,
    All,
    Named(Vec<(DataType, DataType)>),
}

impl Pairs {
    /// The pairs of an operator, source after source.
    pub(crate) fn of(&self, op: Op) -> Vec<(DataType, DataType)> {
        let every = |sources: &[DataType], targets: &[DataType]| {
            sources.iter().flat_map(|&from| targets.iter().map(move |&to| (from, to))).collect()
        };
        let role = |operator: Operator, role| -> Vec<DataType> {
            let types = DataType::NUMERIC.iter().copied();
            types.filter(|&data_type| operator.since_as(role, data_type).is_some()).collect()
        };
        match (self, op) {
            (Pairs::Named(pairs), _) => pairs.clone(),
            (Pairs::Usual, Op::Cast) => USUAL.to_vec(),
            (Pairs::Usual, Op::Quantize) => USUAL_QUANTIZED.to_vec(),
            (Pairs::Usual, Op::Dequantize) => USUAL_QUANTIZED.iter().map(|&(from, to)| (to, from)).collect(),
            (Pairs::All, Op::Cast) => every(DataType::NUMERIC, DataType::NUMERIC),
            (Pairs::All, Op::Quantize) => {
                let operator = Operator::QuantizeLinear;
                every(&role(operator, Role::Values), &role(operator, Role::Quantized))
            }
            (Pairs::All, Op::Dequantize) => {
                let operator = Operator::DequantizeLinear;
                every(&role(operator, Role::Quantized), &role(operator, Role::Values))
            }
        }
    }
}

impl FromStr for Pairs {
    type Err = String;

    fn from_str(text: &str) -> Result<Pairs, String> {
        if text == "all" {
            return Ok(Pairs::All);
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
        text.split(',').map(pair).collect::<Result<Vec<_>, String>>().map(Pairs::Named)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named() {
        let pairs: Pairs = "float:float16,f16:F32".parse().expect("two pairs");
        let (float, half) = (DataType::Float, DataType::Float16);
        assert_eq!(pairs.of(Op::Cast), [(float, half), (half, float)]);
        let all: Pairs = "all".parse().expect("all pairs");
        assert_eq!(all.of(Op::Cast).len(), DataType::NUMERIC.len().pow(2));
        // float, float16, bfloat16 and int32 by 15 types, and back from those and int32.
        assert_eq!((all.of(Op::Quantize).len(), all.of(Op::Dequantize).len()), (4 * 15, 16 * 3));
        for wrong in ["", "float", "float:", "float:string", "complex64:float", "float:float16,", "floaty:float"] {
            assert!(wrong.parse::<Pairs>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_usual_pairs_differ() {
        for op in [Op::Cast, Op::Quantize, Op::Dequantize] {
            let (usual, all) = (Pairs::Usual.of(op), Pairs::All.of(op));
            for (i, pair) in usual.iter().enumerate() {
                assert!(all.contains(pair) && pair.0 != pair.1, "{pair:?}");
                assert!(!usual[..i].contains(pair), "{pair:?}");
            }
        }
    }
}
