//! What weights are quantized to, and what has a scale.

use crate::error::FileError;
use crate::formats::gguf::GgufType;
use crate::text::{Short, Wording};
use onnx_cast::DataType;
use onnx_cast::scaled::{BlockFormat, ScaleRule};
use std::fmt;
use std::path::Path;
use std::str::FromStr;

/// The format of quantized weights: a block format, or an element type with scales of float.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QuantizedFormat {
    /// MX or NVFP4.
    Block(BlockFormat),
    /// Elements of float8 or integers, with a scale for the tensor, each row or each block.
    Elements(DataType),
    /// A type of `.gguf` files.
    Gguf(GgufFormat),
}

/// What `.gguf` files have.
pub(super) const OF_GGUF: [QuantizedFormat; 8] = [
    QuantizedFormat::Gguf(GgufFormat::Q8_0),
    QuantizedFormat::Gguf(GgufFormat::Q4_0),
    QuantizedFormat::Gguf(GgufFormat::Q4_1),
    QuantizedFormat::Gguf(GgufFormat::Q5_0),
    QuantizedFormat::Gguf(GgufFormat::Q5_1),
    QuantizedFormat::Block(BlockFormat::MxFp4),
    QuantizedFormat::Gguf(GgufFormat::Float16),
    QuantizedFormat::Gguf(GgufFormat::BFloat16),
];

/// A type of `.gguf` files that no other layout has. The types with scales have one for 32 values of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GgufFormat {
    /// A scale and 4 bits.
    Q4_0,
    /// A scale, a minimum and 4 bits.
    Q4_1,
    /// A scale and 5 bits.
    Q5_0,
    /// A scale, a minimum and 5 bits.
    Q5_1,
    /// A scale and 8 bits.
    Q8_0,
    /// float16.
    Float16,
    /// bfloat16.
    BFloat16,
}

/// The names of the types that `.gguf` files are written in.
pub(crate) fn gguf_names() -> String {
    let names: Vec<&str> = OF_GGUF.iter().map(|format| format.name()).collect();
    names.join(", ")
}

impl GgufFormat {
    /// All, each with its name, and ggml's.
    const ALL: [(GgufFormat, &'static str, &'static str); 7] = [
        (GgufFormat::Q4_0, "q4_0", "Q4_0"),
        (GgufFormat::Q4_1, "q4_1", "Q4_1"),
        (GgufFormat::Q5_0, "q5_0", "Q5_0"),
        (GgufFormat::Q5_1, "q5_1", "Q5_1"),
        (GgufFormat::Q8_0, "q8_0", "Q8_0"),
        (GgufFormat::Float16, "float16", "F16"),
        (GgufFormat::BFloat16, "bfloat16", "BF16"),
    ];

    fn row(self) -> &'static (GgufFormat, &'static str, &'static str) {
        const { assert!(GgufFormat::BFloat16 as usize + 1 == GgufFormat::ALL.len()) };
        &GgufFormat::ALL[self as usize]
    }

    /// The name: `q8_0`.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// What files have it as.
    pub(crate) fn gguf_type(self) -> &'static GgufType {
        GgufType::of_name(self.row().2)
    }
}

impl QuantizedFormat {
    /// The element types with scales of float.
    pub const ELEMENTS: [DataType; 4] = [DataType::Float8E4M3FN, DataType::Float8E5M2, DataType::Int8, DataType::Int4];

    /// The name: `mxfp4`, `nvfp4`, `float8e4m3fn`.
    pub fn name(self) -> &'static str {
        match self {
            QuantizedFormat::Block(format) => format.name(),
            QuantizedFormat::Elements(data_type) => data_type.name(),
            QuantizedFormat::Gguf(format) => format.name(),
        }
    }

    /// The type of the elements; of blocks of GGUF, the one that theirs are most like.
    pub(crate) fn element(self) -> DataType {
        match self {
            QuantizedFormat::Block(format) => format.element(),
            QuantizedFormat::Elements(data_type) => data_type,
            QuantizedFormat::Gguf(format) => format.gguf_type().like(),
        }
    }

    /// All formats.
    pub fn all() -> impl Iterator<Item = QuantizedFormat> {
        let blocks = BlockFormat::ALL.iter().copied().map(QuantizedFormat::Block);
        let elements = QuantizedFormat::ELEMENTS.into_iter().map(QuantizedFormat::Elements);
        blocks.chain(elements).chain(GgufFormat::ALL.into_iter().map(|(format, ..)| QuantizedFormat::Gguf(format)))
    }
}

/// Formats that people name in other ways, or that only other tools write. The first row with a prefix of the name
/// applies.
const HINTS: &[(&[&str], &str)] = &[
    (&["nvfp4a16"], "want nvfp4 with activations none"),
    (&["mxfp4a16"], "want mxfp4 with activations none"),
    (&["4bit", "loadin4bit"], "want int4/128, nvfp4 or mxfp4"),
    (&["8bit", "loadin8bit"], "want int8 or float8e4m3fn"),
    (&["fp8", "float8", "f8", "w8a8fp8", "w8a16fp8"], "want float8e4m3fn, as vLLM's fp8, or float8e5m2"),
    (&["fp4", "float4", "w4a4"], "want nvfp4 or mxfp4"),
    (&["fp6", "float6"], "want mxfp6e2m3 or mxfp6e3m2"),
    (&["w8a8"], "want int8 with dynamic activations, or float8e4m3fn"),
    (&["w8a16"], "want int8"),
    (&["w4a16"], "want int4/128"),
    (&["int", "uint"], "want int8 or int4"),
    (
        &["q2k", "q3k", "q4k", "q5k", "q6k", "q8k", "iq", "tq"],
        "it is read, not written: want q4_0, q5_0 or q8_0, or run llama.cpp's llama-quantize on a float16 .gguf file",
    ),
    (&["nf4", "bnb", "gptq", "awq", "hqq"], "it is read, not written: want int4/128 or nvfp4"),
];

/// The hint for the name of an unknown format.
fn hint(name: &str) -> Option<&'static str> {
    let name: String = name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    HINTS.iter().find(|(starts, _)| starts.iter().any(|start| name.starts_with(start))).map(|(_, hint)| *hint)
}

impl FromStr for QuantizedFormat {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        // ggml's names are in capitals.
        let of_gguf = |(_, own, theirs): &&(GgufFormat, &str, &str)| *own == name || name.eq_ignore_ascii_case(theirs);
        if let Some((format, ..)) = GgufFormat::ALL.iter().find(of_gguf) {
            return Ok(QuantizedFormat::Gguf(*format));
        }
        let small = if name == "MXFP4" { "mxfp4" } else { name };
        if let Ok(format) = small.parse::<BlockFormat>() {
            return Ok(QuantizedFormat::Block(format));
        }
        match name.parse::<DataType>() {
            Ok(data_type) if QuantizedFormat::ELEMENTS.contains(&data_type) => Ok(QuantizedFormat::Elements(data_type)),
            Err(error) if error.meanings().is_some() => Err(error.to_string()),
            _ => {
                let known = || QuantizedFormat::all().map(QuantizedFormat::name).collect::<Vec<_>>().join(", ");
                let want = hint(name).map_or_else(|| format!("want {}", known()), ToOwned::to_owned);
                Err(format!("`{}` is not a format of quantized weights ({want})", Short(name)))
            }
        }
    }
}

impl fmt::Display for QuantizedFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Refuses a rule for scales of MX where no format has such scales.
///
/// # Errors
/// [`InvalidKind::Request`](crate::InvalidKind::Request), with the formats.
pub fn check_scale_rule(
    path: &Path,
    rule: Option<ScaleRule>,
    formats: impl Iterator<Item = WeightFormat>,
) -> Result<(), FileError> {
    let has_rule =
        |to: &QuantizedFormat| matches!(to, QuantizedFormat::Block(format) if format.scale() == DataType::Float8E8M0);
    let formats: Vec<QuantizedFormat> = formats.map(|to| to.format).collect();
    if rule.is_none_or(|rule| rule == ScaleRule::default()) || formats.iter().any(has_rule) {
        return Ok(());
    }
    let mut names: Vec<&str> = formats.iter().map(|to| to.name()).collect();
    names.dedup();
    let rest = match &names[..] {
        [] => " is for formats of MX, as mxfp4".to_owned(),
        _ => format!(" is for formats of MX, as mxfp4: it changes no scale of {}", names.join(", ")),
    };
    Err(FileError::request(path, Wording::default().field("scale_rule", rest)))
}

/// The format that weights are quantized to, and what has a scale: `nvfp4`, `int4/32`, `float8e4m3fn/128x128`.
///
/// ```
/// use onnx_cast::DataType;
/// use onnx_cast_file::{Granularity, QuantizedFormat, WeightFormat};
///
/// let to: WeightFormat = "int4/32".parse()?;
/// assert_eq!(to.format, QuantizedFormat::Elements(DataType::Int4));
/// assert_eq!(to.granularity, Some(Granularity::Block([1, 32])));
/// assert_eq!(to.to_string(), "int4/32");
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WeightFormat {
    /// The format.
    pub format: QuantizedFormat,
    /// What has a scale, of float8 and integers; the layout decides if it is not given.
    pub granularity: Option<Granularity>,
}

impl QuantizedFormat {
    /// This format with a granularity of its scales.
    pub fn by(self, granularity: Option<Granularity>) -> WeightFormat {
        WeightFormat { format: self, granularity }
    }
}

impl From<QuantizedFormat> for WeightFormat {
    fn from(format: QuantizedFormat) -> Self {
        format.by(None)
    }
}

impl FromStr for WeightFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((name, granularity)) = text.split_once('/') else { return text.parse().map(QuantizedFormat::into) };
        let format = name.parse()?;
        let granularity = granularity.parse()?;
        match format {
            QuantizedFormat::Elements(_) => Ok(format.by(Some(granularity))),
            QuantizedFormat::Block(block) if granularity == Granularity::Block([1, block.block()]) => Ok(format.into()),
            QuantizedFormat::Block(block) => Err(format!("blocks of {format} have {} elements", block.block())),
            QuantizedFormat::Gguf(_) => {
                let known = QuantizedFormat::ELEMENTS.map(DataType::name).join(", ");
                Err(format!("{format} has no choice of scales (want one of {known} before the `/`)"))
            }
        }
    }
}

impl fmt::Display for WeightFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.granularity {
            None => self.format.fmt(f),
            Some(granularity) => f.pad(&format!("{}/{granularity}", self.format)),
        }
    }
}

/// What has a scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Granularity {
    /// The tensor.
    Tensor,
    /// Each row: each output of a Linear layer.
    Row,
    /// Each block of rows and columns.
    Block([usize; 2]),
}

impl FromStr for Granularity {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{}` has no scales (want tensor, row, a block as 32 or 128x128)", Short(text));
        let size = |text: &str| text.parse().ok().filter(|&size: &usize| size > 0).ok_or_else(wrong);
        match (text, text.split_once('x')) {
            ("tensor", _) => Ok(Granularity::Tensor),
            ("row", _) => Ok(Granularity::Row),
            (_, Some((rows, columns))) => Ok(Granularity::Block([size(rows)?, size(columns)?])),
            (_, None) => Ok(Granularity::Block([1, size(text)?])),
        }
    }
}

impl fmt::Display for Granularity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Granularity::Tensor => f.write_str("tensor"),
            Granularity::Row => f.write_str("row"),
            Granularity::Block([1, columns]) => write!(f, "{columns}"),
            Granularity::Block([rows, columns]) => write!(f, "{rows}x{columns}"),
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
