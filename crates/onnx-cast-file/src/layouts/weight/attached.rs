//! Zero points and groups of columns: companions that change the values of a weight.
//!
//! Their fields are private and their constructors check the tensor, so a weight cannot have zero points or groups that
//! do not fit it. Only the code of the layout that owns a companion constructs one.

use super::{Encoding, Grid, Weight};
use crate::checkpoint::{Checkpoint, TensorRef};
use crate::error::FileError;
use crate::io::memory::resize;
use crate::layouts::packed_ints::words;
use crate::text::ShapeText;
use DataType::{BFloat16, Float, Float8E4M3FN, Float8E5M2, Float16, Int8, Int32};
use onnx_cast::DataType;
use std::io;

/// Zero points of a weight, one for each scale.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ZeroPoints(Origin);

#[derive(Clone, Copy, Debug)]
enum Origin {
    /// Stored codes, each less `offset`.
    Stored { tensor: TensorRef, offset: u8 },
    /// The same code for every scale.
    Constant(u8),
}

impl ZeroPoints {
    /// Zero points in a tensor, whose type and shape are checked. Zero points of floats have to be 0, and so have those
    /// of weights that the configuration calls symmetric.
    pub(in crate::layouts) fn stored(
        checkpoint: &Checkpoint,
        weight: &Weight,
        tensor: TensorRef,
        is_symmetric: bool,
    ) -> Result<ZeroPoints, FileError> {
        let stored = checkpoint.stored(tensor);
        let wrong = |want: String| Err(checkpoint.error(Some(tensor), stored.unfit(want)));
        let ([rows, _], [down, across]) = (weight.matrix(), weight.grid());
        let (data_type, shape, want) = match (weight.codes.encoding, weight.scales.order) {
            (Encoding::Plain(data_type @ (Int8 | Float8E4M3FN | Float8E5M2)), _) => {
                let shape = checkpoint.stored(weight.scales.tensor).shape.clone();
                let want = format!("{data_type} of shape {}, one for each scale", ShapeText(&shape));
                (data_type, shape, want)
            }
            (Encoding::Words { bits, straddle }, Grid::Blocks) => {
                let shape = vec![words(rows, bits, straddle), across];
                let want = format!("int32 of shape {}, one for each scale, packed down the rows", ShapeText(&shape));
                (Int32, shape, want)
            }
            (Encoding::Words { bits, .. } | Encoding::Columns { bits, .. }, order) => {
                let shape = match order {
                    Grid::Padded(padded) => vec![down, padded / 8],
                    _ => vec![across, words(down, bits, true)],
                };
                let groups = format!("zero points of {bits} bits for {across} groups of {down} rows");
                let want = format!("{}, {groups}", ShapeText(&shape));
                (Int32, shape, if stored.data_type == Int32 { want } else { format!("int32 of shape {want}") })
            }
            _ => return wrong(format!("none: elements of {} have no zero points", weight.element_type())),
        };
        // A scale for each row may have an axis of 1 behind.
        let rank = shape.len().max(2);
        let fits = stored.shape.len() <= rank && squeeze(&stored.shape, rank) == squeeze(&shape, rank);
        if stored.data_type != data_type || !fits {
            return wrong(want);
        }
        // Either sign of 0 changes nothing.
        let (zero, why) = match data_type {
            Float8E4M3FN | Float8E5M2 => (0x7f, format!("the elements are {data_type}")),
            Int8 if is_symmetric => (0xff, "`symmetric` is true in the configuration".to_owned()),
            _ if is_symmetric => return wrong("none: `symmetric` is true in the configuration".to_owned()),
            _ => return Ok(ZeroPoints(Origin::Stored { tensor, offset: 0 })),
        };
        if let Some(index) = checkpoint.bytes(tensor)?.iter().position(|code| code & zero != 0) {
            let what = format!("zero point {index} is not 0 (want zeros, as {why})");
            return Err(checkpoint.value_error(tensor, what));
        }
        Ok(ZeroPoints(Origin::Stored { tensor, offset: 0 }))
    }

    /// The same zero points, where the tensor holds each less `offset`.
    pub(in crate::layouts) fn with_offset(self, offset: u8) -> ZeroPoints {
        match self.0 {
            Origin::Stored { tensor, .. } => ZeroPoints(Origin::Stored { tensor, offset }),
            Origin::Constant(_) => self,
        }
    }

    /// The middle of the range of unsigned integers, for every scale.
    pub(in crate::layouts) fn middle_of(bits: u32) -> ZeroPoints {
        ZeroPoints(Origin::Constant(1u8 << bits.clamp(1, 8).saturating_sub(1)))
    }

    /// The tensor that holds them; `None` where all are the same code.
    pub(crate) fn tensor(&self) -> Option<TensorRef> {
        match self.0 {
            Origin::Stored { tensor, .. } => Some(tensor),
            Origin::Constant(_) => None,
        }
    }

    /// Offset added to stored zero points (1 in GPTQ v1).
    pub(in crate::layouts) fn offset(&self) -> u8 {
        match self.0 {
            Origin::Stored { offset, .. } => offset,
            Origin::Constant(_) => 0,
        }
    }

    /// The code of every zero point, where no tensor holds them.
    pub(in crate::layouts) fn constant(&self) -> Option<u8> {
        match self.0 {
            Origin::Stored { .. } => None,
            Origin::Constant(code) => Some(code),
        }
    }
}

/// The group of each column, in an order of their own (act-order).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Groups(TensorRef);

impl Groups {
    /// Groups in a tensor of one int32 for each column, each of which is checked.
    pub(in crate::layouts) fn stored(
        checkpoint: &Checkpoint,
        weight: &Weight,
        tensor: TensorRef,
    ) -> Result<Groups, FileError> {
        let stored = checkpoint.stored(tensor);
        let wrong = |want: String| Err(checkpoint.error(Some(tensor), stored.unfit(want)));
        let ([_, columns], [_, across]) = (weight.matrix(), weight.grid());
        let has_groups = match weight.codes.encoding {
            Encoding::Plain(Int8 | Float8E4M3FN | Float8E5M2) => {
                matches!(weight.scales.data_type, Float | Float16 | BFloat16)
            }
            Encoding::Words { .. } | Encoding::Columns { .. } => true,
            _ => false,
        };
        if !has_groups {
            return wrong(format!("none: blocks of {} have no groups of columns", weight.element_type()));
        }
        if stored.data_type != Int32
            || stored.shape != [columns]
            || weight.scales.block[0] != 1
            || weight.codes.shape.len() != 2
        {
            return wrong(format!("int32 of shape {columns}, the group of each column"));
        }
        let groups = Groups(tensor);
        match groups.numbers(checkpoint, weight) {
            Ok(_) => Ok(groups),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                wrong(format!("groups from 0 to {}", across.saturating_sub(1)))
            }
            Err(error) => Err(FileError::io(checkpoint.files[tensor.file].path(), "read", error)),
        }
    }

    /// The tensor that holds them.
    pub(crate) fn tensor(&self) -> TensorRef {
        self.0
    }

    /// Reads the group of each column. A number without a group is an error of the kind `InvalidData`, also where the
    /// file has changed since the weight was described.
    pub(in crate::layouts) fn numbers(&self, checkpoint: &Checkpoint, weight: &Weight) -> io::Result<Vec<u32>> {
        let ([_, columns], [_, across]) = (weight.matrix(), weight.grid());
        let mut bytes = Vec::new();
        let len = columns.checked_mul(4).ok_or(io::ErrorKind::InvalidData)?;
        resize(&mut bytes, len).ok_or(io::ErrorKind::OutOfMemory)?;
        let (file, at) = checkpoint.place(self.0);
        file.read_at(at, &mut bytes)?;
        let numbers: Vec<u32> = bytes.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect();
        let is_inside = |number: &u32| (*number as usize) < across;
        if numbers.iter().all(is_inside) { Ok(numbers) } else { Err(io::ErrorKind::InvalidData.into()) }
    }
}

/// A shape of scales with as many axes as the weight has: ModelOpt writes axes of 1 between, others leave them out.
pub(in crate::layouts) fn squeeze(shape: &[usize], rank: usize) -> Option<Vec<usize>> {
    let mut shape = shape.to_vec();
    while shape.len() > rank {
        let at = shape.iter().rposition(|&size| size == 1)?;
        shape.remove(at);
    }
    while shape.len() < rank {
        shape.push(1);
    }
    Some(shape)
}
