//! The tensors of a weight in another layout, and what has to be compared before they are written.

use super::changes::{Count, Global, global_as, in_file};
use super::experts::Transposed;
use super::integers::{Integers, RepackedIntegers};
use super::mxfp4::{Bytes, Float8Changes, Float8Scales, MxFp4, NvFp4Global, NvFp4Scales, ScaleCounts, ToFloat8};
use super::scales::Scales;
use super::tiled::{Swapped, Tiled};
use crate::checkpoint::{Checkpoint, TensorRef};
use crate::engine::{Computed, OutputTensor, Source};
use crate::error::FileError;
use crate::layouts::{
    Encoding, GROUPS, Grid, Order, QuantizedFormat, Weight, WeightValues, WrittenWeight, ZERO_POINTS,
};
use crate::pipeline::Compute;
use crate::summary::TensorSummary;
use DataType::{BFloat16, Float, Float8E4M3FN, Int8, Int32, Int64};
use onnx_cast::DataType;
use onnx_cast::tensor::element_count;
use std::sync::Arc;

/// The tensors of a weight, and what counts the values that would change, where any could.
#[derive(Default)]
pub(super) struct Made<'a> {
    pub(super) rows: Vec<OutputTensor<'a>>,
    pub(super) count: Option<Arc<dyn Count + 'a>>,
}

/// Makes the tensors of one weight.
pub(super) struct Maker<'a, 'c> {
    pub(super) checkpoint: &'a Checkpoint,
    pub(super) weight: &'c Arc<Weight>,
    /// The weight with the reciprocal of its global scale, where it has one.
    pub(super) inverted: Option<&'c Arc<Weight>>,
    pub(super) written: &'c WrittenWeight,
}

impl<'a> Maker<'a, '_> {
    /// The tensors of the weight, whose format is known.
    pub(super) fn make(&self, from: QuantizedFormat) -> Result<Made<'a>, FileError> {
        match (from == self.written.to, self.written.to) {
            (true, QuantizedFormat::Elements(Int8 | DataType::Int4)) => self.integers(),
            (true, _) => self.kept(),
            (false, QuantizedFormat::Block(_)) => Ok(self.nvfp4()),
            (false, QuantizedFormat::Elements(Int8)) => self.integers(),
            (false, QuantizedFormat::Elements(_) | QuantizedFormat::Gguf(_)) => Ok(self.float8()),
        }
    }

    /// A tensor that is made of another.
    fn row(
        &self,
        name: &str,
        shape: Vec<usize>,
        to: DataType,
        tensor: TensorRef,
        source: Source<'a>,
    ) -> OutputTensor<'a> {
        let bytes_after = element_count(&shape).and_then(|len| to.byte_len(len)).unwrap_or(0) as u64;
        let from = self.checkpoint.stored(tensor).data_type;
        let kept = TensorSummary::kept(name, shape, from, self.checkpoint.byte_len(tensor));
        OutputTensor { summary: TensorSummary { to, bytes_after, cast: true, ..kept }, tensor, source }
    }

    /// A tensor that no bytes of the input become: these are those of another tensor of the weight.
    fn added(
        &self,
        name: &str,
        shape: Vec<usize>,
        to: DataType,
        tensor: TensorRef,
        source: Source<'a>,
    ) -> OutputTensor<'a> {
        let row = self.row(name, shape, to, tensor, source);
        OutputTensor { summary: TensorSummary { from: to, bytes_before: 0, ..row.summary }, ..row }
    }

    /// A tensor as it is, under another name, with another shape and type.
    fn as_it_is(&self, name: &str, shape: Vec<usize>, to: DataType, tensor: TensorRef) -> OutputTensor<'a> {
        self.row(name, shape, to, tensor, Source::Kept)
    }

    fn elements(&self, source: Source<'a>) -> OutputTensor<'a> {
        let shape = self.written.elements_shape(self.written.to.element().bits().unwrap_or(8));
        self.row(&self.written.elements, shape, self.written.container, self.weight.codes.tensor, source)
    }

    fn scales(&self, source: Source<'a>, container: DataType) -> OutputTensor<'a> {
        self.row(&self.written.scales, self.written.scales_shape.clone(), container, self.weight.scales.tensor, source)
    }

    /// Whether scales move to tiles.
    fn moves_to_tiles(&self) -> bool {
        self.written.is_in_tiles && self.weight.scales.order != Grid::Tiles
    }

    /// The same elements, in the order of the layout.
    fn same_elements(&self) -> OutputTensor<'a> {
        let is_swapped = self.moves_to_tiles() && self.written.container == DataType::Uint8;
        self.elements(match is_swapped {
            true => computed(Swapped::new(self.checkpoint, self.weight), DataType::Uint8),
            false => Source::Kept,
        })
    }

    /// Scales that are computed in rows, in the order of the layout.
    fn computed_scales(&self, source: impl Compute + 'a, container: DataType) -> OutputTensor<'a> {
        let source = match self.moves_to_tiles() {
            true => computed(Tiled::new(source, self.written.matrices, self.written.block), container),
            false => computed(source, container),
        };
        self.scales(source, container)
    }

    /// The scales in the type of the layout, and for its blocks.
    fn same_scales(&self) -> OutputTensor<'a> {
        let stored = self.checkpoint.stored(self.weight.scales.tensor).data_type;
        let keeps = stored == BFloat16 && self.written.keeps_scale_type;
        let container = if keeps { stored } else { self.written.scale_container };
        let spread = Scales::new(self.checkpoint, self.weight, self.written, container);
        let bits = |data_type: DataType| data_type.bits().unwrap_or(8);
        if spread.is_same_grid() && bits(stored) == bits(container) && !self.moves_to_tiles() {
            return self.scales(Source::Kept, container);
        }
        self.computed_scales(spread, container)
    }

    /// The same elements.
    fn kept(&self) -> Result<Made<'a>, FileError> {
        let mut made = Made { rows: vec![self.same_elements(), self.same_scales()], count: None };
        if let (Some(tensor), Some((name, shape)), Some(inverted)) =
            (self.weight.scales.global, &self.written.global, self.inverted)
            && let Some(global) = global_as(self.checkpoint, self.weight, inverted, self.written.divides)?
        {
            let stored = self.checkpoint.stored(tensor);
            match global {
                Global::Kept => {
                    let shape = if stored.len == 1 { shape.clone() } else { stored.shape.clone() };
                    made.rows.push(self.as_it_is(name, shape, Float, tensor));
                }
                Global::Inverted(value, count) => {
                    let bytes = Source::Bytes(value.to_le_bytes().to_vec());
                    made.rows.push(self.row(name, shape.clone(), Float, tensor, bytes));
                    made.count = Some(count);
                }
            }
        }
        Ok(made)
    }

    /// MXFP4 as NVFP4.
    fn nvfp4(&self) -> Made<'a> {
        let weight = Arc::new(MxFp4::new(self.checkpoint, self.weight));
        let scales = NvFp4Scales(Arc::clone(&weight));
        let mut rows = if self.written.order == Order::Down {
            // Stored are the rows of the values that are columns here.
            let [_, columns, rows] = self.written.matrices;
            let elements = Transposed::new(Bytes(Arc::clone(&weight)), [rows, columns / 2]);
            let scales = Transposed::new(scales, [rows, columns / self.written.block[0]]);
            let elements = self.elements(computed(elements, self.written.container));
            vec![elements, self.scales(computed(scales, Float8E4M3FN), Float8E4M3FN)]
        } else {
            vec![self.same_elements(), self.computed_scales(scales, Float8E4M3FN)]
        };
        if let Some((name, shape)) = &self.written.global {
            let global = NvFp4Global { weight: Arc::clone(&weight), divides: self.written.divides };
            rows.push(self.added(name, shape.clone(), Float, self.weight.scales.tensor, computed(global, Float)));
        }
        Made { rows, count: Some(Arc::new(ScaleCounts(weight))) }
    }

    /// MXFP4 as float8 in blocks of rows and columns.
    fn float8(&self) -> Made<'a> {
        let weight = Arc::new(MxFp4::new(self.checkpoint, self.weight));
        let scales = computed(Float8Scales(Arc::clone(&weight)), Float);
        let elements = computed(ToFloat8(Arc::clone(&weight)), Float8E4M3FN);
        let rows = vec![self.elements(elements), self.scales(scales, Float)];
        Made { rows, count: Some(Arc::new(Float8Changes::new(weight))) }
    }

    /// Integers, in words or as int8.
    fn integers(&self) -> Result<Made<'a>, FileError> {
        let (weight, written) = (self.weight, self.written);
        let repacked = |how| {
            let values = WeightValues::new(self.checkpoint, weight, Float);
            let values = values.map_err(|error| in_file(self.checkpoint, weight, error))?;
            Ok::<_, FileError>(RepackedIntegers { values, how })
        };
        let stored = |tensor: TensorRef| self.checkpoint.stored(tensor);
        let (to_words, are_words) =
            (written.container == Int32, matches!(weight.codes.encoding, Encoding::Words { .. }));
        let mut rows = Vec::new();
        rows.push(match (are_words, to_words) {
            // However many bits they have.
            (true, true) => {
                let shape = stored(weight.codes.tensor).shape.clone();
                self.as_it_is(&written.elements, shape, Int32, weight.codes.tensor)
            }
            (false, false) => self.elements(Source::Kept),
            (true, false) => self.elements(computed(repacked(Integers::ToBytes)?, Int8)),
            (false, true) => self.elements(computed(repacked(Integers::ToWords)?, Int32)),
        });
        rows.push(self.same_scales());
        let start = written.scales.strip_suffix("weight_scale").unwrap_or_default();
        if let Some(tensor) = weight.zero_points.and_then(|zero_points| zero_points.tensor()) {
            let name = format!("{start}{ZERO_POINTS}");
            let [down, across] = weight.grid();
            rows.push(match (are_words, to_words) {
                (true, true) => self.as_it_is(&name, stored(tensor).shape.clone(), Int32, tensor),
                (false, false) => self.as_it_is(&name, stored(tensor).shape.clone(), Int8, tensor),
                (true, false) => {
                    let source = computed(repacked(Integers::ZeroPointsToBytes)?, Int8);
                    self.row(&name, written.scales_shape.clone(), Int8, tensor, source)
                }
                (false, true) => {
                    let source = computed(repacked(Integers::ZeroPointsToWords)?, Int32);
                    self.row(&name, vec![down.div_ceil(4), across], Int32, tensor, source)
                }
            });
        }
        if let Some(tensor) = weight.groups.map(|groups| groups.tensor()) {
            let shape = stored(tensor).shape.clone();
            rows.push(self.as_it_is(&format!("{start}{GROUPS}"), shape, Int32, tensor));
        }
        if let Some(name) = &written.shape {
            let bytes = Source::Bytes(weight.matrix().map(|size| (size as u64).to_le_bytes()).concat());
            rows.push(match weight.others.first() {
                Some(&shape) => self.row(name, vec![2], Int64, shape, bytes),
                None => self.added(name, vec![2], Int64, weight.codes.tensor, bytes),
            });
        }
        Ok(Made { rows, count: None })
    }
}

fn computed<'a>(source: impl Compute + 'a, data_type: DataType) -> Source<'a> {
    Source::Computed(Box::new(Computed { source: Box::new(source), data_type, cast: None, counter: None }))
}
