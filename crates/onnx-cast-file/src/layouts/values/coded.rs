//! Weights whose owners have arithmetic of their own: bitsandbytes, MLX and torchao.
//!
//! Blocks follow each other through the whole tensor, whatever its rows, each with a scale, so that a part needs only
//! the scales of its blocks. bitsandbytes multiplies an entry of a table, or an integer, by the scale. MLX and torchao
//! multiply an integer, round to the type of the scales, add a bias and round again.

use super::arithmetic::rounding::{numbers, read_numbers};
use super::arithmetic::{Arithmetic, ENTRIES, Packing};
use super::{TensorBytes, scale_size};
use crate::formats::strided::columns::Columns;
use crate::io::memory::resize;
use crate::layouts::packed_ints::Stream;
use crate::layouts::weight::{Coding, Formula, Grid, Weight};
use crate::pipeline::{PipelineError, Scratch};
use onnx_cast::DataType;
use std::sync::Arc;

/// What codes of 4 bits stand for where they are signed.
const SIGNED: [f32; ENTRIES] = [0., 1., 2., 3., 4., 5., 6., 7., -8., -7., -6., -5., -4., -3., -2., -1.];

/// A weight, and where its scales and biases are.
#[derive(Debug)]
pub(super) struct Coded<'a> {
    coding: Coding,
    weight: Arc<Weight>,
    arithmetic: Arithmetic,
    scales: TensorBytes<'a>,
    biases: Option<TensorBytes<'a>>,
    /// The scales of the scales.
    nested: Option<TensorBytes<'a>>,
    /// Scales and biases whose rows and columns are exchanged.
    exchanged: Option<Box<[Columns; 2]>>,
}

impl<'a> Coded<'a> {
    pub(super) fn new(
        weight: &Arc<Weight>,
        coding: Coding,
        to: DataType,
        scales: TensorBytes<'a>,
        biases: Option<TensorBytes<'a>>,
        nested: Option<TensorBytes<'a>>,
    ) -> Coded<'a> {
        let (formula, packing, entries) = match coding {
            Coding::Table(table) => (Formula::Product, Packing::HighFirst, Some(table.entries())),
            Coding::Int8 => (Formula::Of127, Packing::Bytes, None),
            Coding::Int4 => (Formula::ProductMore, Packing::LowFirst, Some(SIGNED)),
            Coding::Affine { bits } => {
                let packing = match bits {
                    2 => Packing::Quarters,
                    4 => Packing::LowFirst,
                    8 => Packing::Bytes,
                    _ => Packing::Stream(Stream::new(bits)),
                };
                let codes = std::array::from_fn(|code| code as f32);
                (Formula::ProductMore, packing, (bits <= 4).then_some(codes))
            }
        };
        let owner = weight.owner_type.unwrap_or(DataType::Float);
        let arithmetic =
            Arithmetic { formula, packing, entries, offset: 0, owner, to, block: weight.scales.block[1].max(1) };
        let exchanged = (weight.scales.order == Grid::Exchanged).then(|| {
            let [rows, groups] = weight.grid();
            Box::new([(); 2].map(|()| Columns::new([groups, rows], scale_size(weight))))
        });
        Coded { coding, weight: Arc::clone(weight), arithmetic, scales, biases, nested, exchanged }
    }

    /// Frees what was read: nothing of it is needed again.
    pub(super) fn forget(&self) {
        self.exchanged.iter().flat_map(|both| both.iter()).for_each(Columns::forget);
    }

    /// Computes values, from one on.
    pub(super) fn compute(
        &self,
        elements: TensorBytes<'_>,
        start: usize,
        scratch: &mut Scratch,
        out: &mut [u8],
    ) -> Result<(), PipelineError> {
        let (size, block) = (self.arithmetic.to.byte_len(1).unwrap_or(1), self.arithmetic.block);
        let (bits, step) = (self.coding.bits(), self.coding.step());
        let end = start + out.len() / size;
        let (first, stop) = (start / step * step, end.next_multiple_of(step));
        elements.read(first / 8 * bits + first % 8 * bits / 8, (stop - first) * bits / 8, &mut scratch.elements)?;
        let blocks = first / block..stop.div_ceil(block);
        let scales = self.numbers(blocks.start, blocks.len(), scratch)?;
        let biases = match self.biases {
            Some(place) => self.read(1, place, blocks.start, blocks.len(), scratch)?,
            None => vec![0.0; scales.len()],
        };
        let is_whole = (first, stop) == (start, end);
        if !is_whole {
            resize(&mut scratch.results, (stop - first) * size).ok_or_else(PipelineError::out_of_memory)?;
        }
        let values = if is_whole { &mut *out } else { &mut scratch.results[..] };
        self.arithmetic.run(first % block, &scratch.elements, [&scales, &biases], values);
        if !is_whole {
            out.copy_from_slice(&scratch.results[(start - first) * size..][..out.len()]);
        }
        Ok(())
    }

    /// Scales (0) or biases (1) of some blocks.
    fn read(
        &self,
        which: usize,
        place: TensorBytes<'_>,
        first: usize,
        count: usize,
        scratch: &mut Scratch,
    ) -> Result<Vec<f32>, PipelineError> {
        let data_type = self.weight.scales.data_type;
        let Some(exchanged) = &self.exchanged else { return read_numbers(data_type, place, first, count, scratch) };
        let bytes = &mut scratch.scales;
        resize(bytes, count * scale_size(&self.weight)).ok_or_else(PipelineError::out_of_memory)?;
        exchanged[which].read(first, bytes, |at, bytes| place.read_into(at, bytes))?;
        Ok(numbers(data_type, bytes))
    }

    /// The scales of some blocks.
    fn numbers(&self, first: usize, count: usize, scratch: &mut Scratch) -> Result<Vec<f32>, PipelineError> {
        let (Some(nested), Some(place)) = (&self.weight.scales.nested, self.nested) else {
            return self.read(0, self.scales, first, count, scratch);
        };
        self.scales.read(first, count, &mut scratch.scales)?;
        let begin = first / nested.block;
        place.read(4 * begin, 4 * ((first + count).div_ceil(nested.block) - begin), &mut scratch.zero_points)?;
        let outer = numbers(DataType::Float, &scratch.zero_points);
        let scales =
            scratch.scales.iter().zip(first..).map(|(code, index)| {
                nested.map[usize::from(*code)] * outer[index / nested.block - begin] + nested.offset
            });
        Ok(scales.collect())
    }
}
