//! A quantized weight: its tensors, and how they encode the values.

mod attached;

pub(crate) use super::coding::{Coding, Formula, Parts, Table};
pub(crate) use super::encoding::{ColumnOrder, Encoding, Grid};
use crate::checkpoint::TensorRef;
use crate::formats::error::{Invalid, InvalidKind};
use crate::formats::input::StoredTensor;
use crate::text::{ShapeText, Wording};
use onnx_cast::DataType;
use onnx_cast::scaled::GlobalScale;

pub(super) use attached::squeeze;
pub(crate) use attached::{Groups, ZeroPoints};

impl StoredTensor {
    /// A type or a shape that does not fit.
    pub(crate) fn unfit(&self, want: impl Into<Wording>) -> Invalid {
        let what = want.into().after(format_args!("{} of shape {} (want ", self.data_type, ShapeText(&self.shape)));
        Invalid::new(InvalidKind::Size, what.then(")")).of_tensor(&self.name)
    }
}

/// A quantized weight of a checkpoint.
#[derive(Clone, Debug)]
pub(crate) struct Weight {
    /// Name of the dequantized weight.
    pub(crate) name: String,
    /// Shape of the dequantized weight.
    pub(crate) values: Vec<usize>,
    pub(crate) codes: Codes,
    pub(crate) scales: Scales,
    pub(crate) zero_points: Option<ZeroPoints>,
    pub(crate) groups: Option<Groups>,
    /// Type to which the owner's code rounds values before any further cast.
    pub(crate) owner_type: Option<DataType>,
    /// Other companions, which the dequantized weight does not need.
    pub(crate) others: Vec<TensorRef>,
}

/// The elements of a weight.
#[derive(Clone, Debug)]
pub(crate) struct Codes {
    pub(crate) tensor: TensorRef,
    /// Shape: any number of outer axes, then rows and columns.
    pub(crate) shape: Vec<usize>,
    pub(crate) encoding: Encoding,
    /// Whether the last two axes are transposed relative to the dequantized weight, as in gpt-oss.
    pub(crate) transposed: bool,
}

/// The scales of a weight.
#[derive(Clone, Debug)]
pub(crate) struct Scales {
    pub(crate) tensor: TensorRef,
    /// Type as which the bytes are read.
    pub(crate) data_type: DataType,
    /// Rows and columns of a block.
    pub(crate) block: [usize; 2],
    /// Order in which scales and zero points are stored.
    pub(crate) order: Grid,
    /// Scales of the scales, if the scales are codes.
    pub(crate) nested: Option<Nested>,
    /// Tensor of the biases of blocks, which have the type of the scales.
    pub(crate) biases: Option<TensorRef>,
    /// Global scale of each matrix, or one for all matrices; empty if there is none.
    pub(crate) globals: Vec<GlobalScale>,
    pub(crate) global: Option<TensorRef>,
}

/// Scales that are codes: the entry of a table, times a scale of its own, plus an offset.
#[derive(Clone, Debug)]
pub(crate) struct Nested {
    pub(crate) scales: TensorRef,
    /// Scales that share one of these.
    pub(crate) block: usize,
    pub(crate) map: Box<[f32; 256]>,
    pub(crate) offset: f32,
}

impl Weight {
    /// Number of elements.
    pub(crate) fn len(&self) -> usize {
        self.codes.shape.iter().product()
    }

    /// Rows and columns of a matrix.
    pub(crate) fn matrix(&self) -> [usize; 2] {
        match self.codes.shape[..] {
            [.., rows, columns] => [rows, columns],
            _ => [1, self.len()],
        }
    }

    /// How many scales a matrix has down and across.
    pub(crate) fn grid(&self) -> [usize; 2] {
        let [rows, columns] = self.matrix();
        [rows.div_ceil(self.scales.block[0]), columns.div_ceil(self.scales.block[1])]
    }

    /// The type of the elements.
    pub(crate) fn element_type(&self) -> DataType {
        match self.codes.encoding {
            Encoding::Plain(data_type) | Encoding::TwoRows(data_type) => data_type,
            Encoding::HighFirst => DataType::Float4E2M1,
            Encoding::Coded(Coding::Int8) => DataType::Int8,
            Encoding::Coded(Coding::Table(_)) => DataType::Uint4,
            Encoding::Coded(Coding::Int4) => DataType::Int4,
            Encoding::Coded(Coding::Affine { bits: ..=2 }) => DataType::Uint2,
            Encoding::Coded(Coding::Affine { bits: ..=4 }) => DataType::Uint4,
            Encoding::Coded(Coding::Affine { .. }) => DataType::Uint8,
            Encoding::Parts(Parts { bits: ..=2, .. }) => DataType::Uint2,
            Encoding::Parts(Parts { bits: ..=4, .. }) => DataType::Uint4,
            Encoding::Parts(_) => DataType::Uint8,
            Encoding::Words { bits: ..=2, .. } | Encoding::Columns { bits: ..=2, .. } => DataType::Int2,
            Encoding::Words { bits: ..=4, .. } | Encoding::Columns { bits: ..=4, .. } => DataType::Int4,
            Encoding::Words { .. } | Encoding::Columns { .. } => DataType::Int8,
        }
    }

    /// What the weight is, in the words of configurations.
    pub(crate) fn format(&self) -> WeightFormat {
        match (self.codes.encoding, self.scales.data_type) {
            (Encoding::TwoRows(DataType::Int4), _) => WeightFormat::Int(4),
            (Encoding::Plain(DataType::Float4E2M1) | Encoding::TwoRows(_) | Encoding::HighFirst, scales) => {
                match scales {
                    DataType::Float8E4M3FN => WeightFormat::NvFp4,
                    _ => WeightFormat::MxFp4,
                }
            }
            (Encoding::Plain(DataType::Float6E2M3 | DataType::Float6E3M2), _) => WeightFormat::MxFp6,
            (Encoding::Plain(DataType::Float8E4M3FN | DataType::Float8E5M2), DataType::Float8E8M0)
                if self.scales.block == [1, 32] =>
            {
                WeightFormat::MxFp8
            }
            (Encoding::Plain(DataType::Int8), _) => WeightFormat::Int(8),
            (Encoding::Plain(DataType::Uint4), _) => WeightFormat::Int(4),
            (Encoding::Plain(DataType::Uint2), _) => WeightFormat::Int(2),
            (Encoding::Plain(_), _) => WeightFormat::Fp8,
            (Encoding::Words { bits, .. } | Encoding::Columns { bits, .. }, _) => WeightFormat::Int(bits),
            (Encoding::Coded(Coding::Int8), _) => WeightFormat::Int(8),
            (Encoding::Coded(Coding::Int4), _) => WeightFormat::Int(4),
            (Encoding::Coded(Coding::Affine { bits }) | Encoding::Parts(Parts { bits, .. }), _) => {
                WeightFormat::Int(bits)
            }
            (Encoding::Coded(Coding::Table(Table::Nf4)), _) => WeightFormat::Nf4,
            (Encoding::Coded(Coding::Table(Table::Fp4)), _) => WeightFormat::Fp4,
        }
    }

    /// The tensors of its scales that may hold NaN, and the types that they are read as.
    pub(super) fn scale_tensors(&self) -> impl Iterator<Item = (TensorRef, DataType)> {
        let (scales, data_type) = match &self.scales.nested {
            Some(nested) => (nested.scales, DataType::Float),
            None => (self.scales.tensor, self.scales.data_type),
        };
        std::iter::once((scales, data_type)).chain(self.scales.biases.map(|biases| (biases, self.scales.data_type)))
    }

    /// Its tensors.
    pub(crate) fn parts(&self) -> impl Iterator<Item = TensorRef> + '_ {
        let nested = self.scales.nested.as_ref().map(|nested| nested.scales);
        let zero_points = self.zero_points.and_then(|zero_points| zero_points.tensor());
        let groups = self.groups.map(|groups| groups.tensor());
        let first = [
            Some(self.codes.tensor),
            Some(self.scales.tensor),
            nested,
            self.scales.biases,
            self.scales.global,
            zero_points,
            groups,
        ];
        first.into_iter().flatten().chain(self.others.iter().copied())
    }
}

/// The number format of a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WeightFormat {
    Fp8,
    MxFp8,
    MxFp6,
    MxFp4,
    NvFp4,
    Nf4,
    Fp4,
    Int(u32),
}

impl WeightFormat {
    /// Whether its scales are for blocks of the format's own size.
    pub(super) fn is_in_blocks(self) -> bool {
        !matches!(self, WeightFormat::Fp8 | WeightFormat::Int(_))
    }

    /// The bits of an integer.
    pub(crate) fn bits(&self) -> Option<u32> {
        match self {
            WeightFormat::Int(bits) => Some(*bits),
            _ => None,
        }
    }

    /// The name, as model cards have it.
    pub(crate) fn name(self) -> String {
        match self {
            WeightFormat::Int(bits) => format!("INT{bits}"),
            format => format.to_string(),
        }
    }
}

impl std::fmt::Display for WeightFormat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            WeightFormat::Fp8 => f.write_str("FP8"),
            WeightFormat::MxFp8 => f.write_str("MXFP8"),
            WeightFormat::MxFp6 => f.write_str("MXFP6"),
            WeightFormat::MxFp4 => f.write_str("MXFP4"),
            WeightFormat::NvFp4 => f.write_str("NVFP4"),
            WeightFormat::Nf4 => f.write_str("NF4"),
            WeightFormat::Fp4 => f.write_str("FP4"),
            WeightFormat::Int(bits) => write!(f, "integers of {bits} bits"),
        }
    }
}
