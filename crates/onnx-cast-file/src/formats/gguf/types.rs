//! The types that a GGUF file has for tensors, by the numbers of ggml's `ggml_type`.

use onnx_cast::DataType;

/// A type of tensors.
#[derive(Debug, PartialEq, Eq)]
pub struct GgufType {
    /// Its number in files.
    pub id: u32,
    /// Its name in ggml.
    pub name: &'static str,
    /// Elements of a block; 1 where elements stand alone.
    pub elements: usize,
    /// Bytes of a block.
    pub bytes: usize,
    /// What the bytes are.
    pub held: Held,
}

/// What the bytes of a tensor are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// Elements of a type of ONNX.
    Plain(DataType),
    /// Blocks, whose elements are most like those of a type of ONNX.
    Blocks(BlockCoding, DataType),
    /// Blocks that are listed, but not read here.
    Unread,
}

/// How the elements of a block and their scales are coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockCoding {
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
    /// 16 scales and minima of 4 bits, and 2 bits.
    Q2K,
    /// 16 scales of 6 bits, and 3 bits.
    Q3K,
    /// 8 scales and minima of 6 bits, and 4 bits.
    Q4K,
    /// 8 scales and minima of 6 bits, and 5 bits.
    Q5K,
    /// 16 scales of 8 bits, and 6 bits.
    Q6K,
    /// A scale of float, and 8 bits.
    Q8K,
    /// float4e2m1 with a scale of float8e8m0.
    MxFp4,
    /// float4e2m1 with 4 scales of float8e4m3fn without a sign.
    NvFp4,
    /// 8 scales of 4 bits; rows of a grid with signs, of 2 bits an element.
    Iq2Xxs,
    /// 16 scales of 4 bits; rows of a larger grid with signs.
    Iq2Xs,
    /// 16 scales of 4 bits; rows of the largest grid, and a sign for each element.
    Iq2S,
    /// 8 scales of 4 bits; rows of a grid with signs, of 3 bits an element.
    Iq3Xxs,
    /// 8 scales of 4 bits; rows of a larger grid, and a sign for each element.
    Iq3S,
    /// 8 scales of 3 bits; rows of a grid of -1, 0 and 1, shifted.
    Iq1S,
    /// 16 scales of 3 bits; rows of the same grid.
    Iq1M,
    /// A scale, and 4 bits, each of which stands for one of 16 values.
    Iq4Nl,
    /// 8 scales of 6 bits, and the same 4 bits.
    Iq4Xs,
    /// A scale, and five elements of -1, 0 and 1 in a byte.
    Tq1,
    /// A scale, and four elements of -1, 0 and 1 in a byte.
    Tq2,
}

impl GgufType {
    /// The type of a number.
    pub(crate) fn of_id(id: u32) -> Option<&'static GgufType> {
        TYPES.iter().find(|known| known.id == id)
    }

    /// The type of the elements; of blocks, the one that theirs are most like.
    pub(crate) fn like(&self) -> DataType {
        match self.held {
            Held::Plain(data_type) | Held::Blocks(_, data_type) => data_type,
            Held::Unread => DataType::Float,
        }
    }

    /// The type of a name; of none, the first.
    pub(crate) fn of_name(name: &str) -> &'static GgufType {
        TYPES.iter().find(|known| known.name == name).unwrap_or(&TYPES[0])
    }

    /// The type that holds elements of a type of ONNX as they are.
    pub(crate) fn of_plain(data_type: DataType) -> Option<&'static GgufType> {
        TYPES.iter().find(|known| known.held == Held::Plain(data_type))
    }

    /// Bytes of a number of whole blocks of elements.
    pub(crate) fn byte_len(&self, len: usize) -> Option<u64> {
        let blocks = (len / self.elements) as u64;
        len.is_multiple_of(self.elements).then(|| blocks.checked_mul(self.bytes as u64)).flatten()
    }
}

/// A type that is not in the table: how many bytes its tensors have is not known.
pub(crate) static UNKNOWN: GgufType = unread(u32::MAX, "unknown", 1, 0);

/// Sizes are those of `GGML_QUANT_SIZES` in the gguf package. Numbers that are missing were types once.
static TYPES: &[GgufType] = &[
    plain(0, "F32", 4, DataType::Float),
    plain(1, "F16", 2, DataType::Float16),
    blocks(2, "Q4_0", 32, 18, BlockCoding::Q4_0, DataType::Int4),
    blocks(3, "Q4_1", 32, 20, BlockCoding::Q4_1, DataType::Uint4),
    blocks(6, "Q5_0", 32, 22, BlockCoding::Q5_0, DataType::Int8),
    blocks(7, "Q5_1", 32, 24, BlockCoding::Q5_1, DataType::Uint8),
    blocks(8, "Q8_0", 32, 34, BlockCoding::Q8_0, DataType::Int8),
    unread(9, "Q8_1", 32, 40),
    blocks(10, "Q2_K", 256, 84, BlockCoding::Q2K, DataType::Uint2),
    blocks(11, "Q3_K", 256, 110, BlockCoding::Q3K, DataType::Int4),
    blocks(12, "Q4_K", 256, 144, BlockCoding::Q4K, DataType::Uint4),
    blocks(13, "Q5_K", 256, 176, BlockCoding::Q5K, DataType::Uint8),
    blocks(14, "Q6_K", 256, 210, BlockCoding::Q6K, DataType::Int8),
    blocks(15, "Q8_K", 256, 292, BlockCoding::Q8K, DataType::Int8),
    blocks(16, "IQ2_XXS", 256, 66, BlockCoding::Iq2Xxs, DataType::Int2),
    blocks(17, "IQ2_XS", 256, 74, BlockCoding::Iq2Xs, DataType::Int2),
    blocks(18, "IQ3_XXS", 256, 98, BlockCoding::Iq3Xxs, DataType::Int4),
    blocks(19, "IQ1_S", 256, 50, BlockCoding::Iq1S, DataType::Int2),
    blocks(20, "IQ4_NL", 32, 18, BlockCoding::Iq4Nl, DataType::Int4),
    blocks(21, "IQ3_S", 256, 110, BlockCoding::Iq3S, DataType::Int4),
    blocks(22, "IQ2_S", 256, 82, BlockCoding::Iq2S, DataType::Int2),
    blocks(23, "IQ4_XS", 256, 136, BlockCoding::Iq4Xs, DataType::Int4),
    plain(24, "I8", 1, DataType::Int8),
    plain(25, "I16", 2, DataType::Int16),
    plain(26, "I32", 4, DataType::Int32),
    plain(27, "I64", 8, DataType::Int64),
    plain(28, "F64", 8, DataType::Double),
    blocks(29, "IQ1_M", 256, 56, BlockCoding::Iq1M, DataType::Int2),
    plain(30, "BF16", 2, DataType::BFloat16),
    blocks(34, "TQ1_0", 256, 54, BlockCoding::Tq1, DataType::Int2),
    blocks(35, "TQ2_0", 256, 66, BlockCoding::Tq2, DataType::Int2),
    blocks(39, "MXFP4", 32, 17, BlockCoding::MxFp4, DataType::Float4E2M1),
    blocks(40, "NVFP4", 64, 36, BlockCoding::NvFp4, DataType::Float4E2M1),
    unread(41, "Q1_0", 128, 18),
];

const fn plain(id: u32, name: &'static str, bytes: usize, data_type: DataType) -> GgufType {
    GgufType { id, name, elements: 1, bytes, held: Held::Plain(data_type) }
}

const fn blocks(
    id: u32,
    name: &'static str,
    elements: usize,
    bytes: usize,
    coding: BlockCoding,
    like: DataType,
) -> GgufType {
    GgufType { id, name, elements, bytes, held: Held::Blocks(coding, like) }
}

const fn unread(id: u32, name: &'static str, elements: usize, bytes: usize) -> GgufType {
    GgufType { id, name, elements, bytes, held: Held::Unread }
}
