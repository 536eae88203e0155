//! Elements, block by block, in the float or double that holds them.

use onnx_cast::ops::OpError;
use onnx_cast::{Cast, CastError, CastOptions, DataType, Plan, TensorView};
use std::ops::Range;

/// Elements that are looked at together: they stay in the nearest cache. A multiple of 8, so that blocks are whole
/// bytes.
pub(crate) const BLOCK: usize = 2048;

/// From a type to one that holds its values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Widening {
    from: DataType,
    pub(crate) to: DataType,
    /// `None` where the two are the same.
    plan: Option<Plan>,
}

/// Float where it holds all values of a type, and else double, which holds all but integers of 64 bits.
pub(crate) fn hub(from: DataType) -> DataType {
    if from.is_lossless_to(DataType::Float) { DataType::Float } else { DataType::Double }
}

impl Widening {
    /// Of numbers.
    pub(crate) fn new(from: DataType, to: DataType) -> Result<Widening, OpError> {
        let options = CastOptions::new().threads(1);
        let plan = if from == to { None } else { Some(Cast::new(to, &options)?.plan(from)?) };
        Ok(Widening { from, to, plan })
    }

    /// The elements of a range that starts at a block, in `out` where they are not as they should be.
    pub(crate) fn block<'b>(
        &self,
        bytes: &'b [u8],
        range: Range<usize>,
        out: &'b mut Vec<u8>,
    ) -> Result<&'b [u8], CastError> {
        let size = |data_type: DataType, len| data_type.byte_len(len).unwrap_or(0);
        let start = size(self.from, range.start);
        let bytes = bytes.get(start..start + size(self.from, range.len())).unwrap_or_default();
        let Some(plan) = &self.plan else { return Ok(bytes) };
        out.resize(size(self.to, range.len()), 0);
        plan.run_into(&TensorView::new(self.from, &[range.len()], bytes)?, out)?;
        Ok(out)
    }
}
