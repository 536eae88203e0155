//! What quantizing loses: the weight is read back as its owner does, in float, and compared with what it was. Unless
//! everything is to be counted, only parts with NaN, infinity or values near the limit of float are read back: no other
//! value becomes NaN or overflows.

use crate::counts::{Counter, Sides};
use onnx_cast::ops::OpError;
use onnx_cast::scaled::{BlockDequantize, BlockFormat, BoundScaledPlan, Recipe};
use onnx_cast::{CastError, DataType, TensorView};
use std::sync::Arc;

/// Values that are read back and compared at a time: a multiple of every block of MX and NVFP4.
const STEP: usize = 2048;

/// Counts what becomes of the values of a weight.
#[derive(Debug)]
pub(super) struct Losses {
    counter: Arc<Counter>,
    /// How block formats are read.
    back: Option<(BlockDequantize, [usize; 2], DataType)>,
    /// In a block format: the code of a NaN scale, and the first code of scales near the limit of float.
    nan: u8,
    large: u8,
}

impl Losses {
    /// Of everything, or of alarms alone.
    pub(super) fn new(from: DataType, blocks: Option<(BlockFormat, Recipe)>, counts: bool) -> Result<Losses, OpError> {
        let (back, [nan, large]) = match blocks {
            Some((format, recipe)) => {
                let back = BlockDequantize::new(format, DataType::Float).recipe(recipe).threads(1);
                let codes = if format.scale() == DataType::Float8E8M0 { [0xFF, 0xF0] } else { [0x7F; 2] };
                (Some((back, [STEP / format.block(), format.block()], format.element())), codes)
            }
            None => (None, [0; 2]),
        };
        Ok(Losses { counter: Arc::new(Counter::of_quantized(from, counts)?), back, nan, large })
    }

    pub(super) fn counter(&self) -> Arc<Counter> {
        Arc::clone(&self.counter)
    }

    /// Whether values of a part may have to be counted.
    pub(super) fn are_in(&self, from: DataType, src: &[u8]) -> bool {
        let width = from.byte_len(1).unwrap_or(1).max(1);
        self.counter.is_interested(src, src.len() / width)
    }

    /// As [`Losses::are_in`], of blocks with these scales: a value that is not finite makes its block's scale NaN.
    pub(super) fn are_in_blocks(&self, scales: &[u8], amax: Option<f32>) -> bool {
        const LARGE: f32 = (1u128 << 126) as f32;
        self.counter.counts_everything()
            || amax.is_some_and(|amax| amax >= LARGE)
            || scales.iter().fold(0, |most, code| most.max(*code)) >= self.large
    }

    /// Takes whole blocks of a block format.
    pub(super) fn of_blocks(
        &self,
        from: DataType,
        src: &[u8],
        codes: &[u8],
        scales: &[u8],
        global: Option<f32>,
    ) -> Result<(), CastError> {
        let Some((back, [blocks, block], element)) = &self.back else { return Ok(()) };
        let bytes = |data_type: DataType, len: usize| data_type.byte_len(len).unwrap_or(0).max(1);
        let (mut values, mut sides) = (vec![0; 4 * STEP], Sides::default());
        let parts = src.chunks(bytes(from, STEP)).zip(codes.chunks(bytes(*element, STEP))).zip(scales.chunks(*blocks));
        for ((src, codes), scales) in parts {
            let len = scales.len() * block;
            let values = &mut values[..4 * len];
            let shape = [scales.len(), *block];
            back.run_into(&TensorView::new(*element, &shape, codes)?, scales, global, values)?;
            self.counter.add(src, values, len, &mut sides)?;
        }
        self.counter.add_nan_scales(scales.iter().filter(|&&code| code == self.nan).count() as u64);
        Ok(())
    }

    /// Takes elements from one on, whose scales are bound, of these types before and after.
    pub(super) fn of_elements(
        &self,
        back: &BoundScaledPlan<'_>,
        start: usize,
        [from, to]: [DataType; 2],
        src: &[u8],
        codes: &[u8],
    ) -> Result<(), CastError> {
        let bytes = |data_type: DataType, len: usize| data_type.byte_len(len).unwrap_or(0).max(1);
        let (mut values, mut sides) = (vec![0; 4 * STEP], Sides::default());
        let parts = src.chunks(bytes(from, STEP)).zip(codes.chunks(bytes(to, STEP)));
        for ((src, codes), start) in parts.zip((start..).step_by(STEP)) {
            let len = src.len() / bytes(from, 1);
            let values = &mut values[..4 * len];
            back.run_part(start, len, codes, values)?;
            self.counter.add(src, values, len, &mut sides)?;
        }
        Ok(())
    }
}
