//! What a candidate makes of tensors, and its notation: `float16`, `mxfp4`, `float8e4m3fn/128x128`.

use crate::layouts::{Granularity, QuantizedFormat};
use onnx_cast::{BlockFormat, DataType, UnknownType};
use std::fmt;
use std::str::FromStr;

/// What a candidate of a report makes of tensors: elements of a type, with scales or without.
///
/// ```
/// use onnx_cast::{BlockFormat, DataType};
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
        let Some((name, scale)) = text.split_once('/') else {
            return match text.parse() {
                Ok(format) => Ok(CandidateFormat::Block(format)),
                Err(_) => text.parse().map(CandidateFormat::Bare).map_err(|error: UnknownType| error.to_string()),
            };
        };
        let block = scale.starts_with(|first: char| first.is_ascii_digit()).then(|| format!("block={scale}"));
        let granularity = block.as_deref().unwrap_or(scale).parse();
        let granularity = granularity.map_err(|_: String| format!("`{scale}` has no scales (want {SCALES})"))?;
        match name.parse()? {
            QuantizedFormat::Elements(data_type) => Ok(CandidateFormat::Elements(data_type, granularity)),
            QuantizedFormat::Block(format) if granularity == Granularity::Block([1, format.block()]) => {
                Ok(CandidateFormat::Block(format))
            }
            QuantizedFormat::Block(format) => Err(format!("blocks of {format} have {} elements", format.block())),
            QuantizedFormat::Gguf(format) => {
                let known = QuantizedFormat::ELEMENTS.map(DataType::name).join(", ");
                Err(format!("{} has no scales of its own in a report (want {known})", format.name()))
            }
        }
    }
}

/// What may stand behind the type.
const SCALES: &str = "tensor, axis, a block as 32 or 128x128";

impl fmt::Display for CandidateFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CandidateFormat::Bare(data_type) => data_type.fmt(f),
            CandidateFormat::Block(format) => format.fmt(f),
            CandidateFormat::Elements(data_type, granularity) => {
                let text = granularity.to_string();
                f.pad(&format!("{data_type}/{}", text.strip_prefix("block=").unwrap_or(&text)))
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
            [Granularity::Tensor, Granularity::Axis, Granularity::Block([1, 32]), Granularity::Block([64, 48])]
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
            ("int8/", "`` has no scales (want tensor, axis, a block as 32 or 128x128)"),
            ("int8/0", "`0` has no scales"),
            ("int8/32x", "`32x` has no scales"),
            ("mxfp4/16", "blocks of mxfp4 have 32 elements"),
            (
                "float16/axis",
                "float16 has no scales of its own in a report (want float8e4m3fn, float8e5m2, int8, int4)",
            ),
            ("text/axis", "not a format of quantized weights (want "),
        ] {
            let found = text.parse::<CandidateFormat>().expect_err(text);
            assert!(found.starts_with(error), "{text}: {found}");
        }
    }
}
