//! A checkpoint's files, and a weight as they hold it.

mod attached;

pub(crate) use super::coding::{Coding, Formula, Parts, Table};
pub(crate) use super::encoding::{ColumnOrder, Encoding, Grid};
use crate::formats::checkpoint::{Index, Located};
use crate::formats::error::{FormatError, Invalid, InvalidKind};
use crate::formats::format::Format;
use crate::formats::input::{Given, Input, Location, StoredTensor};
use crate::io::atomic::folder_of;
use crate::io::positional::{InputFile, is_stream};
use crate::text::{ShapeText, Wording};
use onnx_cast::DataType;
use onnx_cast::scaled::GlobalScale;
use std::collections::HashMap;
use std::path::Path;

pub(super) use attached::squeeze;
pub(crate) use attached::{Groups, ZeroPoints};

/// The files of a checkpoint, opened.
#[derive(Debug)]
pub(crate) struct Checkpoint {
    /// In the order of the index, if there is one.
    pub(crate) files: Vec<Input>,
    places: HashMap<String, TensorRef>,
}

/// A tensor of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct TensorRef {
    pub(crate) file: usize,
    pub(crate) tensor: usize,
}

impl StoredTensor {
    /// A type or a shape that does not fit.
    pub(crate) fn unfit(&self, want: impl Into<Wording>) -> Invalid {
        let what = want.into().after(format_args!("{} of shape {} (want ", self.data_type, ShapeText(&self.shape)));
        Invalid::new(InvalidKind::Size, what.then(")")).of_tensor(&self.name)
    }
}

impl Checkpoint {
    /// Opens the files that a located path stands for, and compares them with the index.
    pub(crate) fn open(path: &Path, located: &Located, index: Option<&Index>) -> Result<Checkpoint, FormatError> {
        let open = |path: &Path| Input::open(path, Some(Format::Safetensors), &Given::default());
        let mut files = Vec::new();
        match (located, index) {
            (Located::Index(_), Some(index)) => {
                for (shard, listed) in &index.shards {
                    let mut input = open(&index.file(shard)?)?;
                    index.leave_out_stale(shard, &mut input);
                    index.check(shard, listed, &input)?;
                    files.push(input);
                }
            }
            (Located::InFolder(file), _) => files.push(open(file)?),
            _ => {
                let check = |format| match format {
                    Format::Safetensors => Ok(()),
                    _ => Err(FormatError::format(path, "a checkpoint", format, "it is for .safetensors")),
                };
                if is_stream(path) {
                    let input = Input::open(path, None, &Given::default())?;
                    check(input.format)?;
                    files.push(input);
                } else {
                    check(Format::of_input(path)?)?;
                    files.push(open(path)?);
                }
            }
        }
        Ok(Checkpoint::of(files))
    }

    /// Opens what a path stands for, with the index where there is one.
    pub(crate) fn located(path: &Path, located: &Located) -> Result<Checkpoint, FormatError> {
        let index = match located {
            Located::Index(path) => Some(Index::read(path)?),
            _ => None,
        };
        Checkpoint::open(path, located, index.as_ref())
    }

    /// Of files that are open.
    pub(crate) fn of(files: Vec<Input>) -> Checkpoint {
        let mut places = HashMap::new();
        for (file, input) in files.iter().enumerate() {
            for (tensor, stored) in input.tensors.iter().enumerate() {
                places.insert(stored.name.clone(), TensorRef { file, tensor });
            }
        }
        Checkpoint { files, places }
    }

    /// The folder of its files, which is where configurations are. The standard input has none: not the current one.
    pub(crate) fn folder<'p>(&'p self, input: &'p Path) -> &'p Path {
        let file = self.files.first().filter(|_| !is_stream(input));
        file.map_or(input, |file| folder_of(file.path()))
    }

    /// The tensor of a name.
    pub(crate) fn find(&self, name: &str) -> Option<TensorRef> {
        self.places.get(name).copied()
    }

    /// A tensor.
    pub(crate) fn stored(&self, tensor: TensorRef) -> &StoredTensor {
        &self.files[tensor.file].tensors[tensor.tensor]
    }

    /// The file of a tensor, and where its elements begin.
    pub(crate) fn place(&self, tensor: TensorRef) -> (&InputFile, u64) {
        let file = &self.files[tensor.file];
        match file.tensors[tensor.tensor].place {
            Location::File(at, _) => (&file.file, at),
            // A .safetensors file has its elements in itself.
            _ => (&file.file, file.file.len()),
        }
    }

    /// Every tensor, in the order of the files.
    pub(crate) fn tensors(&self) -> impl Iterator<Item = (TensorRef, &StoredTensor)> + Clone {
        self.files.iter().enumerate().flat_map(|(file, input)| {
            let stored = move |(tensor, stored)| (TensorRef { file, tensor }, stored);
            input.tensors.iter().enumerate().map(stored)
        })
    }

    /// Bytes of a tensor.
    pub(crate) fn byte_len(&self, tensor: TensorRef) -> u64 {
        let stored = self.stored(tensor);
        stored.data_type.byte_len(stored.len).unwrap_or(0) as u64
    }

    /// All bytes of a small tensor.
    pub(crate) fn bytes(&self, tensor: TensorRef) -> Result<Vec<u8>, FormatError> {
        let (file, at) = self.place(tensor);
        let stored = self.stored(tensor);
        let len = stored.data_type.byte_len(stored.len).unwrap_or(usize::MAX);
        Ok(file.read(at, len as u64)?)
    }
}

/// A weight of a checkpoint: the tensors that hold it, and what they mean together.
#[derive(Clone, Debug)]
pub(crate) struct Weight {
    /// The name of the values.
    pub(crate) name: String,
    /// The shape of the values.
    pub(crate) values: Vec<usize>,
    /// The shape of the elements: matrices, behind any number of outer axes.
    pub(crate) shape: Vec<usize>,
    /// How the elements are stored.
    pub(crate) elements: Encoding,
    /// The tensor of the elements.
    pub(crate) tensor: TensorRef,
    /// The scales, and the type that their bytes are read as.
    pub(crate) scales: TensorRef,
    pub(crate) scale_type: DataType,
    /// The scales of scales, where those are codes.
    pub(crate) nested: Option<Nested>,
    /// What is added to each block, of the type of the scales.
    pub(crate) biases: Option<TensorRef>,
    /// The type that the owner's code rounds values to, before they are cast to another.
    pub(crate) owner_type: Option<DataType>,
    /// Whether the scales are in the order of cuBLAS (`values/swizzled.rs`).
    pub(crate) are_swizzled: bool,
    /// Rows and columns of a block.
    pub(crate) block: [usize; 2],
    /// How scales and zero points are stored.
    pub(crate) grid_order: Grid,
    /// The global scale of each matrix, or one for all; `None` without one.
    pub(crate) globals: Vec<GlobalScale>,
    pub(crate) global: Option<TensorRef>,
    pub(crate) zero_points: Option<ZeroPoints>,
    pub(crate) groups: Option<Groups>,
    /// Whether the values have the last two axes exchanged, as gpt-oss has them.
    pub(crate) transposed: bool,
    /// The other tensors that the weight replaces.
    pub(crate) others: Vec<TensorRef>,
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
        self.shape.iter().product()
    }

    /// Rows and columns of a matrix.
    pub(crate) fn matrix(&self) -> [usize; 2] {
        match self.shape[..] {
            [.., rows, columns] => [rows, columns],
            _ => [1, self.len()],
        }
    }

    /// How many scales a matrix has down and across.
    pub(crate) fn grid(&self) -> [usize; 2] {
        let [rows, columns] = self.matrix();
        [rows.div_ceil(self.block[0]), columns.div_ceil(self.block[1])]
    }

    /// The type of the elements.
    pub(crate) fn element_type(&self) -> DataType {
        match self.elements {
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
        match (self.elements, self.scale_type) {
            (Encoding::TwoRows(DataType::Int4), _) => WeightFormat::Int(4),
            (Encoding::Plain(DataType::Float4E2M1) | Encoding::TwoRows(_) | Encoding::HighFirst, scales) => {
                match scales {
                    DataType::Float8E4M3FN => WeightFormat::NvFp4,
                    _ => WeightFormat::MxFp4,
                }
            }
            (Encoding::Plain(DataType::Float6E2M3 | DataType::Float6E3M2), _) => WeightFormat::MxFp6,
            (Encoding::Plain(DataType::Float8E4M3FN | DataType::Float8E5M2), DataType::Float8E8M0)
                if self.block == [1, 32] =>
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
        let (scales, data_type) = match &self.nested {
            Some(nested) => (nested.scales, DataType::Float),
            None => (self.scales, self.scale_type),
        };
        std::iter::once((scales, data_type)).chain(self.biases.map(|biases| (biases, self.scale_type)))
    }

    /// Its tensors.
    pub(crate) fn parts(&self) -> impl Iterator<Item = TensorRef> + '_ {
        let nested = self.nested.as_ref().map(|nested| nested.scales);
        let zero_points = self.zero_points.and_then(|zero_points| zero_points.tensor());
        let groups = self.groups.map(|groups| groups.tensor());
        let first = [Some(self.tensor), Some(self.scales), nested, self.biases, self.global, zero_points, groups];
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
