//! What weights are quantized to, and what has a scale.

use crate::selection::Target;
use onnx_cast::{BlockFormat, DataType, UnknownType};
use std::fmt;
use std::str::FromStr;

/// The format of quantized weights: a block format, or an element type with scales of float.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QuantizedFormat {
    /// MX or NVFP4.
    Block(BlockFormat),
    /// Elements of float8 or integers, with a scale for the tensor, each row or each block.
    Elements(DataType),
}

impl QuantizedFormat {
    /// The element types with scales of float.
    pub const ELEMENTS: [DataType; 4] = [DataType::Float8E4M3FN, DataType::Float8E5M2, DataType::Int8, DataType::Int4];

    /// The name: `mxfp4`, `nvfp4`, `float8e4m3fn`.
    pub fn name(self) -> &'static str {
        match self {
            QuantizedFormat::Block(format) => format.name(),
            QuantizedFormat::Elements(data_type) => data_type.name(),
        }
    }

    /// All formats.
    pub fn all() -> impl Iterator<Item = QuantizedFormat> {
        let blocks = BlockFormat::ALL.iter().copied().map(QuantizedFormat::Block);
        blocks.chain(QuantizedFormat::ELEMENTS.into_iter().map(QuantizedFormat::Elements))
    }
}

impl Target for QuantizedFormat {
    fn from_name(name: &str) -> Result<Self, Option<UnknownType>> {
        if let Ok(format) = name.parse::<BlockFormat>() {
            return Ok(QuantizedFormat::Block(format));
        }
        let data_type = <DataType as Target>::from_name(name)?;
        if QuantizedFormat::ELEMENTS.contains(&data_type) {
            Ok(QuantizedFormat::Elements(data_type))
        } else {
            Err(None)
        }
    }
}

impl FromStr for QuantizedFormat {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        QuantizedFormat::from_name(name).map_err(|error| match error {
            Some(error) => error.to_string(),
            None => {
                let known: Vec<&str> = QuantizedFormat::all().map(QuantizedFormat::name).collect();
                format!("not a format of quantized weights (want {})", known.join(", "))
            }
        })
    }
}

impl fmt::Display for QuantizedFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What has a scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Granularity {
    /// The tensor.
    Tensor,
    /// Each row: each output of a Linear layer.
    Axis,
    /// Each block of rows and columns.
    Block([usize; 2]),
}

impl FromStr for Granularity {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "want tensor, axis, block=N or block=NxN, as block=32 or block=128x128".to_owned();
        let size = |text: &str| text.parse().ok().filter(|&size: &usize| size > 0).ok_or_else(wrong);
        match text.strip_prefix("block=") {
            None if text == "tensor" => Ok(Granularity::Tensor),
            None if text == "axis" => Ok(Granularity::Axis),
            None => Err(wrong()),
            Some(block) => match block.split_once('x') {
                Some((rows, columns)) => Ok(Granularity::Block([size(rows)?, size(columns)?])),
                None => Ok(Granularity::Block([1, size(block)?])),
            },
        }
    }
}

impl fmt::Display for Granularity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Granularity::Tensor => f.write_str("tensor"),
            Granularity::Axis => f.write_str("axis"),
            Granularity::Block([1, columns]) => write!(f, "block={columns}"),
            Granularity::Block([rows, columns]) => write!(f, "block={rows}x{columns}"),
        }
    }
}

/// What becomes of the inputs of quantized layers, which loaders read in configurations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Activations {
    /// They keep their type.
    Kept,
    /// They are quantized while a model runs, by scales that are found then.
    Dynamic,
    /// They are quantized by scales in the checkpoint, which data has told.
    Static,
}

impl Activations {
    /// The name: `none`, `dynamic`, `static`.
    pub fn name(self) -> &'static str {
        match self {
            Activations::Kept => "none",
            Activations::Dynamic => "dynamic",
            Activations::Static => "static",
        }
    }
}

impl FromStr for Activations {
    type Err = String;

    /// Of those that need no data.
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Activations::Kept),
            "dynamic" => Ok(Activations::Dynamic),
            _ => Err("want dynamic or none".to_owned()),
        }
    }
}

impl fmt::Display for Activations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
