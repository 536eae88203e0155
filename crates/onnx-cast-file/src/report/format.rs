//! A candidate of a report, and its notation: `float16`, `mxfp4`, `float8e4m3fn/128x128`.

use crate::layouts::{Granularity, QuantizedFormat, WeightFormat};
use onnx_cast::DataType;
use onnx_cast::scaled::BlockFormat;
use onnx_cast::types::UnknownType;
use std::fmt;
use std::str::FromStr;

/// A candidate of a report: elements of a type, with scales or without.
///
/// ```
/// use onnx_cast::DataType;
/// use onnx_cast::scaled::BlockFormat;
/// use onnx_cast_file::{CandidateFormat, Granularity};
///
/// assert_eq!("float16".parse(), Ok(CandidateFormat::Bare(DataType::Float16)));
/// assert_eq!("mxfp4".parse(), Ok(CandidateFormat::Block(BlockFormat::MxFp4)));
/// let tiles = CandidateFormat::Elements(DataType::Float8E4M3FN, Granularity::Block([128, 128]));
/// assert_eq!("float8e4m3fn/128x128".parse(), Ok(tiles));
/// assert_eq!(tiles.to_string(), "float8e4m3fn/128x128");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CandidateFormat {
    /// A cast, without scales.
    Bare(DataType),
    /// A block format.
    Block(BlockFormat),
    /// One of [`QuantizedFormat::ELEMENTS`], with scales of float.
    Elements(DataType, Granularity),
}

impl CandidateFormat {
    /// The type of an element.
    pub fn element(self) -> DataType {
        match self {
            CandidateFormat::Bare(data_type) | CandidateFormat::Elements(data_type, _) => data_type,
            CandidateFormat::Block(format) => format.element(),
        }
    }

    /// Whether elements have scales.
    pub fn is_scaled(self) -> bool {
        !matches!(self, CandidateFormat::Bare(_))
    }

    /// The same of weights that have scales.
    pub(super) fn weights(self) -> Option<WeightFormat> {
        match self {
            CandidateFormat::Bare(_) => None,
            CandidateFormat::Block(format) => Some(QuantizedFormat::Block(format).into()),
            CandidateFormat::Elements(data_type, granularity) => {
                Some(WeightFormat { format: QuantizedFormat::Elements(data_type), granularity: Some(granularity) })
            }
        }
    }

    /// Whether there is such a format; the parser gives no others.
    pub(super) fn is_known(self) -> bool {
        match self {
            CandidateFormat::Elements(data_type, granularity) => {
                let is_size = |granularity| !matches!(granularity, Granularity::Block([0, _] | [_, 0]));
                QuantizedFormat::ELEMENTS.contains(&data_type) && is_size(granularity)
            }
            _ => true,
        }
    }
}

impl From<DataType> for CandidateFormat {
    fn from(data_type: DataType) -> Self {
        CandidateFormat::Bare(data_type)
    }
}

impl FromStr for CandidateFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if !text.contains('/') {
            return match text.parse() {
                Ok(format) => Ok(CandidateFormat::Block(format)),
                Err(_) => text.parse().map(CandidateFormat::Bare).map_err(|error: UnknownType| error.to_string()),
            };
        }
        match text.parse()? {
            WeightFormat { format: QuantizedFormat::Elements(data_type), granularity: Some(granularity) } => {
                Ok(CandidateFormat::Elements(data_type, granularity))
            }
            WeightFormat { format: QuantizedFormat::Block(format), .. } => Ok(CandidateFormat::Block(format)),
            other => {
                let known = QuantizedFormat::ELEMENTS.map(DataType::name).join(", ");
                Err(format!("a report has no scales of {other} (want those of {known})"))
            }
        }
    }
}

impl fmt::Display for CandidateFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CandidateFormat::Bare(data_type) => data_type.fmt(f),
            CandidateFormat::Block(format) => format.fmt(f),
            CandidateFormat::Elements(data_type, granularity) => {
                QuantizedFormat::Elements(*data_type).by(Some(*granularity)).fmt(f)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_candidate_is_read_as_it_is_written() {
        let blocks = BlockFormat::ALL.iter().copied().map(CandidateFormat::Block);
        let scaled = QuantizedFormat::ELEMENTS.into_iter().flat_map(|data_type| {
            [Granularity::Tensor, Granularity::Row, Granularity::Block([1, 32]), Granularity::Block([64, 48])]
                .map(|granularity| CandidateFormat::Elements(data_type, granularity))
        });
        let bare = DataType::ALL.iter().copied().map(CandidateFormat::Bare);
        for one in bare.chain(blocks).chain(scaled) {
            assert_eq!(one.to_string().parse(), Ok(one));
            assert!(one.is_known());
        }
        let block = "nvfp4/16".parse::<CandidateFormat>();
        assert_eq!(block, Ok(CandidateFormat::Block(BlockFormat::NvFp4)));
    }

    #[test]
    fn what_is_no_candidate_is_refused() {
        for (text, error) in [
            ("floaty", "`floaty` is not an element type"),
            ("i4", "`i4` may mean int4"),
            ("int8/", "`` has no scales (want tensor, row, a block as 32 or 128x128)"),
            ("int8/0", "`0` has no scales"),
            ("int8/32x", "`32x` has no scales"),
            ("mxfp4/16", "blocks of mxfp4 have 32 elements"),
            ("float16/row", "float16 has no choice of scales (want one of float8e4m3fn, float8e5m2, int8, int4 before"),
            ("text/row", "`text` is not a format of quantized weights (want "),
        ] {
            let found = text.parse::<CandidateFormat>().expect_err(text);
            assert!(found.starts_with(error), "{text}: {found}");
        }
    }
}
