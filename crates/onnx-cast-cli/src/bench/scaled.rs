//! Scaled casts to be measured: their shapes, their scales and their plans.

use crate::pairs::Op;
use anyhow::{Result, bail};
use onnx_cast::backend::Backend;
use onnx_cast::scaled::{DequantizeLinear, DequantizeOptions, QuantizeLinear, QuantizeOptions, ScaledPlan};
use onnx_cast::{DataType, Tensor};
use onnx_cast_file::Granularity;

/// Columns of the matrix that the elements make up, at most.
const COLUMNS: usize = 4096;

/// The largest magnitude that is quantized.
const LARGEST: f32 = 8.0;

pub(super) struct Scaled {
    op: Op,
    block_size: usize,
    pub(super) shape: Vec<usize>,
    /// Floats; no powers of two, which are the easy ones.
    pub(super) scale: Tensor,
}

impl Scaled {
    pub(super) fn new(
        op: Op,
        granularity: Granularity,
        from: DataType,
        to: DataType,
        elements: usize,
    ) -> Result<Scaled> {
        let columns = (1..=COLUMNS.min(elements)).rev().find(|columns| elements.is_multiple_of(*columns)).unwrap_or(1);
        let rows = elements / columns;
        let (block_size, scales) = match granularity {
            Granularity::Tensor => (0, vec![]),
            Granularity::Row => (0, vec![rows]),
            Granularity::Block([1, block]) => (block, vec![rows, columns.div_ceil(block)]),
            other => bail!("QuantizeLinear has no scales by {other} (want tensor, row, or a block of a row, as 32)"),
        };
        let least = if op == Op::Quantize { LARGEST / highest(from, to)? } else { 0.05 };
        let count: usize = scales.iter().product();
        let numbers: Vec<f32> = (0..count).map(|index| least * (1.01 + (index % 61) as f32 / 256.0)).collect();
        let scale = Tensor::from_slice(scales, &numbers)?;
        Ok(Scaled { op, block_size, shape: vec![rows, columns], scale })
    }

    /// Scales are those of the rows, or of blocks along them.
    pub(super) fn plan(&self, from: DataType, to: DataType, backend: Backend, threads: usize) -> Result<ScaledPlan> {
        let axis = i64::from(self.block_size > 0);
        Ok(if self.op == Op::Quantize {
            let options = QuantizeOptions::new().axis(axis).block_size(self.block_size).output_dtype(to);
            QuantizeLinear::new(&options.backend(backend).threads(threads))?.plan(from, DataType::Float, None)?
        } else {
            let options = DequantizeOptions::new().axis(axis).block_size(self.block_size).output_dtype(to);
            DequantizeLinear::new(&options.backend(backend).threads(threads))?.plan(from, DataType::Float, None)?
        })
    }
}

/// The highest value of a quantized type, to which everything too large saturates.
fn highest(from: DataType, to: DataType) -> Result<f32> {
    let quantize = QuantizeLinear::new(&QuantizeOptions::new().output_dtype(to))?;
    // That the types fit is known before anything is computed.
    quantize.plan(from, DataType::Float, None)?;
    let one = Tensor::from_slice(vec![], &[1.0f32])?;
    let top = quantize.run(&Tensor::from_slice(vec![], &[f32::MAX])?.view(), &one.view(), None)?;
    let top = DequantizeLinear::new(&DequantizeOptions::new())?.run(&top.view(), &one.view(), None)?;
    Ok(top.to_vec::<f32>().and_then(|values| values.first().copied()).unwrap_or(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_granularity_fits_every_count() -> Result<()> {
        for elements in [1, 31, 32, 100, 4096, 4097, 8192, 12_000] {
            let source = vec![0x3c; 4 * elements];
            for (granularity, scales) in [
                (Granularity::Tensor, 1),
                (Granularity::Row, elements.div_ceil(COLUMNS)),
                (Granularity::Block([1, 32]), elements.div_ceil(32)),
            ] {
                let scaled = Scaled::new(Op::Quantize, granularity, DataType::Float, DataType::Int8, elements)?;
                assert_eq!(scaled.shape.iter().product::<usize>(), elements);
                assert!(scaled.scale.len() >= scales, "{elements} {granularity:?} {:?}", scaled.scale.shape());
                let view = onnx_cast::TensorView::new(DataType::Float, &scaled.shape, &source)?;
                let plan = scaled.plan(DataType::Float, DataType::Int8, Backend::best(), 1)?;
                plan.run(&view, &scaled.scale.view(), None)?;
            }
        }
        Ok(())
    }

    #[test]
    fn the_largest_number_saturates() -> Result<()> {
        for (to, want) in [
            (DataType::Int4, 7.0),
            (DataType::Uint16, 65535.0),
            (DataType::Float4E2M1, 6.0),
            (DataType::Float8E5M2, 57344.0),
        ] {
            assert_eq!(highest(DataType::BFloat16, to)?.to_bits(), f32::to_bits(want), "{to}");
        }
        assert!(highest(DataType::Float, DataType::Int64).is_err());
        Ok(())
    }
}
