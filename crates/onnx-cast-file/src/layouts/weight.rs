//! A checkpoint's files, and a weight as they hold it.

use crate::formats::checkpoint::{Index, Located};
use crate::formats::error::FormatError;
use crate::formats::format::Format;
use crate::formats::input::{Given, Input, Location, StoredTensor};
use crate::io::atomic::folder_of;
use crate::io::positional::InputFile;
use onnx_cast::{DataType, GlobalScale};
use std::collections::HashMap;
use std::path::Path;

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

impl Checkpoint {
    /// Opens the files that a located path stands for, and compares them with the index.
    pub(crate) fn open(path: &Path, located: &Located, index: Option<&Index>) -> Result<Checkpoint, FormatError> {
        let open = |path: &Path| Input::open(path, Some(Format::Safetensors), &Given::default());
        let mut files = Vec::new();
        match (located, index) {
            (Located::Index(_), Some(index)) => {
                for (shard, listed) in &index.shards {
                    let input = open(&index.file(shard)?)?;
                    index.check(shard, listed, &input)?;
                    files.push(input);
                }
            }
            (Located::InFolder(file), _) => files.push(open(file)?),
            _ => {
                let format = Format::of_input(path)?;
                if format != Format::Safetensors {
                    let (path, what, hint) = (path.to_owned(), "a quantized checkpoint", "it is for .safetensors");
                    return Err(FormatError::Format { path, what, format, hint });
                }
                files.push(open(path)?);
            }
        }
        Ok(Checkpoint::of(files))
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

    /// The folder of its files, which is where configurations are.
    pub(crate) fn folder<'p>(&'p self, input: &'p Path) -> &'p Path {
        self.files.first().map_or(input, |file| folder_of(file.path()))
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
    /// Rows and columns of a block.
    pub(crate) block: [usize; 2],
    /// The global scale of each matrix, or one for all; none where there is none.
    pub(crate) globals: Vec<GlobalScale>,
    pub(crate) global: Option<TensorRef>,
    /// Zero points, of the scales' shape or packed.
    pub(crate) zero_points: Option<TensorRef>,
    /// The group of each column.
    pub(crate) groups: Option<TensorRef>,
    /// Whether the values have the last two axes exchanged, as gpt-oss has them.
    pub(crate) transposed: bool,
    /// The other tensors that the weight replaces.
    pub(crate) others: Vec<TensorRef>,
}

/// How the elements of a weight are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// As this library has elements of the type.
    Plain(DataType),
    /// float4e2m1 of two rows in each byte, the upper row in the lower half: experts of ModelOpt.
    TwoRows,
    /// Integers of so many bits plus half their range, in words of 32 bits, low bits first; each row begins a word.
    Words { bits: u32, straddle: bool },
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
            Encoding::Plain(data_type) => data_type,
            Encoding::TwoRows => DataType::Float4E2M1,
            Encoding::Words { bits: ..=2, .. } => DataType::Int2,
            Encoding::Words { bits: ..=4, .. } => DataType::Int4,
            Encoding::Words { .. } => DataType::Int8,
        }
    }

    /// What the weight is, in the words of configurations.
    pub(crate) fn format(&self) -> WeightFormat {
        match (self.elements, self.scale_type) {
            (Encoding::Plain(DataType::Float4E2M1) | Encoding::TwoRows, DataType::Float8E4M3FN) => WeightFormat::NvFp4,
            (Encoding::TwoRows, _) => WeightFormat::MxFp4,
            (Encoding::Plain(DataType::Float4E2M1), _) => WeightFormat::MxFp4,
            (Encoding::Plain(DataType::Float6E2M3 | DataType::Float6E3M2), _) => WeightFormat::MxFp6,
            (Encoding::Plain(DataType::Float8E4M3FN | DataType::Float8E5M2), DataType::Float8E8M0)
                if self.block == [1, 32] =>
            {
                WeightFormat::MxFp8
            }
            (Encoding::Plain(DataType::Int8), _) => WeightFormat::Int(8),
            (Encoding::Plain(_), _) => WeightFormat::Fp8,
            (Encoding::Words { bits, .. }, _) => WeightFormat::Int(bits),
        }
    }

    /// Its tensors.
    pub(crate) fn parts(&self) -> impl Iterator<Item = TensorRef> + '_ {
        let first = [Some(self.tensor), Some(self.scales), self.global, self.zero_points, self.groups];
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
    Int(u32),
}

impl WeightFormat {
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
            WeightFormat::Int(bits) => write!(f, "integers of {bits} bits"),
        }
    }
}
