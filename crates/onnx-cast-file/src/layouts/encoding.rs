//! How the tensors of a weight are stored: elements, scales, zero points and the order of columns.

use super::coding::{Coding, Parts};
use onnx_cast::DataType;

/// How the elements of a weight are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// As this library has elements of the type.
    Plain(DataType),
    /// Elements of 4 bits of two rows in each byte, the upper row in the lower half: ModelOpt's experts and integers.
    TwoRows(DataType),
    /// float4e2m1, the even column in the upper half of each byte: ComfyUI.
    HighFirst,
    /// Integers of so many bits plus half their range, in words of 32 bits, low bits first; each row begins a word.
    Words { bits: u32, straddle: bool },
    /// In blocks that follow each other, with arithmetic of their own: the shape is one row.
    Coded(Coding),
    /// Unsigned integers, a word of which has those at the same place of several parts: HQQ and BitNet.
    Parts(Parts),
    /// Integers of so many bits in words of 32 bits, as columns: GPTQ, AWQ and Quark.
    Columns { bits: u32, order: ColumnOrder, is_signed: bool },
}

/// How the scales of a matrix are stored, and its zero points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grid {
    /// As the blocks are; zero points in words are packed down the rows.
    Blocks,
    /// With rows and columns exchanged; zero points in words are packed along the rows: GPTQ and AWQ.
    Exchanged,
    /// As the blocks are, in rows of so many scales, of which the last are not used; zero points in words are packed
    /// along the groups: AWQ's `gemv`.
    Padded(usize),
    /// In tiles of 128x4, which is cuBLAS's order (`values/swizzled.rs`).
    Tiles,
    /// One for each of two or three matrices that were joined, which end before these rows.
    Joined([usize; 3]),
}

/// How words hold the columns of integers whose rows and columns are exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnOrder {
    /// Words follow each other down the columns, and hold a stream of bits there: GPTQ.
    Down,
    /// Each word has eight columns of a row, the even ones first: AWQ, and Quark's `reorder`.
    Interleaved,
    /// Each word has eight columns of a row: Quark's `order`.
    Across,
}

impl ColumnOrder {
    /// The place of a column's zero point in a row of words.
    pub(super) fn place(self, column: usize) -> usize {
        const ORDER: [usize; 8] = [0, 4, 1, 5, 2, 6, 3, 7];
        match self {
            ColumnOrder::Down | ColumnOrder::Across => column,
            ColumnOrder::Interleaved => column / 8 * 8 + ORDER[column % 8],
        }
    }
}
