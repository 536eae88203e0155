//! A weight as a layout holds it: the names, types and shapes of its tensors.

use super::format::{Activations, Granularity, QuantizedFormat, WeightFormat};
use crate::formats::error::{Invalid, InvalidKind};
use crate::text::Wording;
use DataType::Int32;
use onnx_cast::DataType;
use onnx_cast::scaled::Recipe;
use serde_json::Value;

/// How elements lie beside the values that they stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// As the values do.
    Same,
    /// With rows and columns exchanged: experts of gpt-oss.
    Exchanged,
    /// As the values do, but two rows in a byte, and blocks go down the rows: NVFP4 experts of ModelOpt.
    Down,
}

/// What configurations say of integers.
#[derive(Clone, Copy)]
pub(crate) struct Integers {
    pub(crate) bits: u32,
    /// Whether all zero points are 0.
    pub(crate) are_symmetric: bool,
    /// Whether each column tells its group.
    pub(crate) have_groups: bool,
}

/// The types in which the owner of a layout computes scales and quotients.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arithmetic {
    /// Of NVFP4.
    pub(crate) recipe: Recipe,
    /// Whether scales of float8 and integers, and quotients by them, have the type of the weights, not float.
    pub(crate) in_weight_type: bool,
}

impl WrittenWeight {
    /// The format of the weight as requests name it: `nvfp4`, `int4/128`.
    pub(crate) fn format(&self) -> WeightFormat {
        let has_choice = matches!(self.to, QuantizedFormat::Elements(_));
        self.to.by(has_choice.then_some(self.granularity))
    }
}

/// A weight that is written, and the tensors that hold it.
pub(crate) struct WrittenWeight {
    /// The name of the weight without its last part.
    pub(crate) module: String,
    pub(crate) to: QuantizedFormat,
    pub(crate) granularity: Granularity,
    pub(crate) activations: Activations,
    /// The settings of activations, where the checkpoint has them in the same layout already.
    pub(crate) settings: Option<Value>,
    /// How many matrices there are, their rows and their columns.
    pub(crate) matrices: [usize; 3],
    pub(crate) order: Order,
    /// Whether the tensor holds the matrices of all experts of a layer.
    pub(crate) are_experts: bool,
    /// The name of the elements, and the type of what holds them.
    pub(crate) elements: String,
    pub(crate) container: DataType,
    /// The name and the shape of the scales, the type that they are computed in, and the one that the file gives them.
    pub(crate) scales: String,
    pub(crate) scales_shape: Vec<usize>,
    pub(crate) scale_type: DataType,
    pub(crate) scale_container: DataType,
    /// Whether a type of float scales that the weight has already may stay.
    pub(crate) keeps_scale_type: bool,
    /// Whether scales are in tiles of 128x4, and the first of two elements is in the upper half of a byte.
    pub(crate) is_in_tiles: bool,
    /// Whether NVFP4's global scale is a divisor.
    pub(crate) divides: bool,
    /// The name and the shape of NVFP4's global scale.
    pub(crate) global: Option<(String, Vec<usize>)>,
    /// The name of the shape, where elements are packed in words.
    pub(crate) shape: Option<String>,
    pub(crate) arithmetic: Arithmetic,
    pub(crate) integers: Integers,
    /// Rows and columns of a block.
    pub(crate) block: [usize; 2],
}

impl WrittenWeight {
    /// The shape of the elements, of so many bits, in what holds them.
    pub(crate) fn elements_shape(&self, bits: usize) -> Vec<usize> {
        let [count, rows, columns] = self.matrices;
        let width = |len| len * bits / self.container.bits().unwrap_or(8);
        let block = self.block[1];
        match self.order {
            Order::Exchanged => vec![count, rows, columns / block, width(block)],
            Order::Down => vec![count, width(rows), columns],
            Order::Same if self.are_experts => vec![count, rows, width(columns)],
            Order::Same => vec![rows, width(columns)],
        }
    }

    /// Refuses rows that end within a word of integers.
    pub(crate) fn check_words(&self, name: &str) -> Result<(), Invalid> {
        let [_, rows, columns] = self.matrices;
        if self.container != Int32 || (columns * self.integers.bits as usize).is_multiple_of(32) {
            return Ok(());
        }
        let what = format!("{} of shape {rows}x{columns} (want columns that fill words of 32 bits; ", self.scale_type);
        let what = Wording::from(what).field("exclude", " keeps the tensor)");
        Err(Invalid::new(InvalidKind::Size, what).of_tensor(name))
    }

    /// Whether each column of each matrix has a scale.
    pub(crate) fn has_scales_of_columns(&self) -> bool {
        self.are_experts && self.order == Order::Same && self.granularity == Granularity::Row
    }
}
