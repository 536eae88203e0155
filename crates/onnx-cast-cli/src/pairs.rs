//! The pairs of types that `bench` measures.

use onnx_cast::DataType;
use onnx_cast::ops::Operator;
use onnx_cast::ops::Role;
use onnx_cast_file::Granularity;
use std::str::FromStr;

/// What `bench` measures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Op {
    #[default]
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

/// A pair of numeric types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) from: DataType,
    pub(crate) to: DataType,
    /// What has a scale, where the pair itself says it: behind the target to quantize, behind the source to dequantize.
    pub(crate) scales: Option<(Op, Granularity)>,
}

impl From<(DataType, DataType)> for Pair {
    fn from((from, to): (DataType, DataType)) -> Pair {
        Pair { from, to, scales: None }
    }
}

impl Pair {
    /// Both types as they are written, with what has a scale behind the one that is quantized.
    pub(crate) fn names(&self) -> [String; 2] {
        let name = |data_type: DataType, op| match self.scales {
            Some((of, granularity)) if of == op => format!("{data_type}/{granularity}"),
            _ => data_type.to_string(),
        };
        [name(self.from, Op::Dequantize), name(self.to, Op::Quantize)]
    }
}

impl FromStr for Pair {
    type Err = String;

    fn from_str(pair: &str) -> Result<Pair, String> {
        let side = |text: &str, op| {
            let (name, granularity) =
                text.split_once('/').map_or((text, None), |(name, granularity)| (name, Some(granularity)));
            let data_type: DataType = name.parse().map_err(|error: onnx_cast::types::UnknownType| error.to_string())?;
            let scales = granularity.map(|text| text.parse().map(|granularity| (op, granularity))).transpose()?;
            if data_type.is_numeric() {
                Ok((data_type, scales))
            } else {
                Err(format!("{data_type} is not a numeric type"))
            }
        };
        let (from, to) = pair.split_once(':').ok_or_else(|| format!("`{pair}` is not a pair (want FROM:TO)"))?;
        let ((from, of_source), (to, of_target)) = (side(from, Op::Dequantize)?, side(to, Op::Quantize)?);
        if of_source.is_some() && of_target.is_some() {
            return Err(format!("`{pair}` has scales on both sides (want one: of the quantized type)"));
        }
        Ok(Pair { from, to, scales: of_source.or(of_target) })
    }
}

/// Pairs of numeric types.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Pairs {
    /// Those that people cast most.
    #[default]
    Usual,
    All,
    Named(Vec<Pair>),
}

impl Pairs {
    /// The pairs of an operator, source after source.
    pub(crate) fn of(&self, op: Op) -> Vec<Pair> {
        let every = |sources: &[DataType], targets: &[DataType]| {
            sources.iter().flat_map(|&from| targets.iter().map(move |&to| (from, to))).collect()
        };
        let role = |operator: Operator, role| -> Vec<DataType> {
            let types = DataType::NUMERIC.iter().copied();
            types.filter(|&data_type| operator.since_as(role, data_type).is_some()).collect()
        };
        let pairs: Vec<(DataType, DataType)> = match (self, op) {
            (Pairs::Named(pairs), _) => return pairs.clone(),
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
        };
        pairs.into_iter().map(Pair::from).collect()
    }
}

impl FromStr for Pairs {
    type Err = String;

    fn from_str(text: &str) -> Result<Pairs, String> {
        if text == "all" {
            return Ok(Pairs::All);
        }
        text.split(',').map(str::parse).collect::<Result<_, _>>().map(Pairs::Named)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named() {
        let pairs: Pairs = "float:float16,f16:F32".parse().expect("two pairs");
        let (float, half) = (DataType::Float, DataType::Float16);
        assert_eq!(pairs.of(Op::Cast), [Pair::from((float, half)), Pair::from((half, float))]);
        for (text, op) in [("float:int8/row", Op::Quantize), ("int4/32:float16", Op::Dequantize)] {
            let pair: Pair = text.parse().expect("a pair");
            assert_eq!((pair.names().join(":"), pair.scales.map(|(op, _)| op)), (text.to_owned(), Some(op)));
        }
        let all: Pairs = "all".parse().expect("all pairs");
        assert_eq!(all.of(Op::Cast).len(), DataType::NUMERIC.len().pow(2));
        // float, float16, bfloat16 and int32 by 15 types, and back from those and int32.
        assert_eq!((all.of(Op::Quantize).len(), all.of(Op::Dequantize).len()), (4 * 15, 16 * 3));
        for wrong in [
            "",
            "float",
            "float:",
            "float:string",
            "complex64:float",
            "float:float16,",
            "floaty:float",
            "int8/row:int8/row",
        ] {
            assert!(wrong.parse::<Pairs>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_usual_pairs_differ() {
        for op in [Op::Cast, Op::Quantize, Op::Dequantize] {
            let (usual, all) = (Pairs::Usual.of(op), Pairs::All.of(op));
            for (i, pair) in usual.iter().enumerate() {
                assert!(all.contains(pair) && pair.from != pair.to, "{pair:?}");
                assert!(!usual[..i].contains(pair), "{pair:?}");
            }
        }
    }
}
