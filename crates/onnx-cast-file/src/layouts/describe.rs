//! Describes a weight from the types and shapes of its tensors: its format, the shape of its elements, and the size of
//! its blocks.

mod columns;
mod joined;

use super::packed_ints;
use super::spec::{COMFY_QUANT, Finder, GROUPS, SHAPE, ZERO_POINTS};
use super::weight::{Codes, Encoding, Grid, Groups, Scales, Weight, WeightFormat, ZeroPoints, squeeze};
use super::written::Order;
use crate::checkpoint::{Checkpoint, TensorRef};
use crate::error::FileError;
use crate::formats::error::{Invalid, InvalidKind};
use crate::formats::input::StoredTensor;
use crate::text::ShapeText;
use DataType::{
    BFloat16, Float, Float4E2M1, Float6E2M3, Float6E3M2, Float8E4M3FN, Float8E5M2, Float8E8M0, Float16, Int4, Int8,
    Int32, Uint8,
};
use onnx_cast::scaled::GlobalScale;
use onnx_cast::{DataType, types};
use serde_json::{Map, Value};

/// Value of one unit of an MXINT8 element, without its scale.
const MXINT8_UNIT: f32 = 1.0 / 64.0;

/// Describes a weight whose types and shapes of elements and scales determine everything else.
pub(super) fn scaled(finder: &Finder<'_>, mut weight: Weight, start: &str) -> Result<Option<Weight>, FileError> {
    if !finder.read_types(&mut weight, start)? {
        return Ok(None);
    }
    let (checkpoint, tensor, scales) = (finder.checkpoint, weight.codes.tensor, weight.scales.tensor);
    finder.read_shape(&mut weight, checkpoint.stored(tensor)).map_err(|error| checkpoint.error(Some(tensor), error))?;
    let fits = finder.fit_scales(&mut weight, checkpoint.stored(scales));
    fits.map_err(|error| checkpoint.error(Some(scales), error))?;
    finder.with_companions(weight, start).map(Some)
}

impl Finder<'_> {
    /// Describes the weight that consists of these elements and scales, in the layout with their names.
    pub(super) fn describe(
        &self,
        tensor: TensorRef,
        stored: &StoredTensor,
        scales: TensorRef,
        start: &str,
        name: String,
    ) -> Result<Option<Weight>, FileError> {
        let codes = Codes {
            tensor,
            shape: stored.shape.clone(),
            encoding: Encoding::Plain(stored.data_type),
            transposed: false,
        };
        let scales = Scales {
            tensor: scales,
            data_type: self.checkpoint.stored(scales).data_type,
            block: [1, 32],
            order: Grid::Blocks,
            nested: None,
            biases: None,
            globals: Vec::new(),
            global: None,
        };
        let (values, zero_points, groups, owner_type, others) = (Vec::new(), None, None, None, Vec::new());
        let weight = Weight { name, values, codes, scales, zero_points, groups, owner_type, others };
        (self.spec.describe)(self, weight, start)
    }

    /// Adds the other companions to a weight whose elements and scales are known.
    pub(super) fn with_companions(&self, mut weight: Weight, start: &str) -> Result<Weight, FileError> {
        weight.others = [SHAPE, COMFY_QUANT].iter().filter_map(|ending| self.companion(start, ending)).collect();
        self.read_globals(&mut weight)?;
        self.check_original_shape(&weight, start)?;
        if let Some(tensor) = self.companion(start, ZERO_POINTS) {
            let layer = start.strip_suffix('.').unwrap_or(start);
            let is_symmetric = !self.claims.are_overruled && self.claims.are_symmetric(weight.format(), layer);
            weight.zero_points = Some(ZeroPoints::stored(self.checkpoint, &weight, tensor, is_symmetric)?);
        }
        if let Some(tensor) = self.companion(start, GROUPS) {
            weight.groups = Some(Groups::stored(self.checkpoint, &weight, tensor)?);
        }
        Ok(weight)
    }

    /// Finds a companion of a weight, if the layout has companions with this suffix.
    fn companion(&self, start: &str, ending: &str) -> Option<TensorRef> {
        let is_owned = self.spec.beside.contains(&ending);
        is_owned.then(|| self.checkpoint.find(&format!("{start}{ending}"))).flatten()
    }

    /// Checks the shape of a weight against the tensor that stores it.
    fn check_original_shape(&self, weight: &Weight, start: &str) -> Result<(), FileError> {
        let Some(tensor) = self.companion(start, SHAPE) else { return Ok(()) };
        match self.checkpoint.original_shape(tensor)? {
            shape if weight.values == shape => Ok(()),
            [rows, columns] => {
                let want =
                    format!("the sizes of the weight, {}; it holds {rows} and {columns}", ShapeText(&weight.values));
                Err(self.part(tensor, want))
            }
        }
    }

    /// Determines the format from the types of elements and scales. Returns whether they are a weight.
    fn read_types(&self, weight: &mut Weight, start: &str) -> Result<bool, FileError> {
        let tensor = weight.codes.tensor;
        let (stored, scale) = (self.checkpoint.stored(tensor), self.checkpoint.stored(weight.scales.tensor));
        let wrong = |error| self.checkpoint.error(Some(tensor), error);
        match (stored.data_type, scale.data_type) {
            (Int8, Float8E8M0) if self.spec.has_mxint8 => {
                weight.scales.globals = vec![GlobalScale::Factor(MXINT8_UNIT)];
            }
            (Float6E2M3 | Float6E3M2, Float8E8M0) => {}
            (Uint8 | Int8 | Float4E2M1, Uint8 | Float8E8M0) => {
                // A byte holds two 4-bit codes, or three bytes hold four 6-bit codes; the number of scales decides.
                let width = stored.shape.last().copied().unwrap_or(0);
                let has_six_bits = stored.data_type == Uint8
                    && self.claims.formats.contains(&WeightFormat::MxFp6)
                    && width.is_multiple_of(3)
                    && scale.shape.last() == Some(&(width / 3).saturating_mul(4).div_ceil(32));
                let element = if has_six_bits { Float6E2M3 } else { Float4E2M1 };
                (weight.codes.encoding, weight.scales.data_type) = (Encoding::Plain(element), Float8E8M0);
            }
            (Uint8 | Float4E2M1, Float8E4M3FN) => {
                (weight.codes.encoding, weight.scales.block) = (Encoding::Plain(Float4E2M1), [1, 16]);
                if self.has_two_rows(stored, scale) {
                    (weight.codes.encoding, weight.scales.block) = (Encoding::TwoRows(Float4E2M1), [16, 1]);
                }
                weight.scales.global = Some(self.global(stored, scale, start)?);
            }
            (Float8E4M3FN | Float8E5M2, Uint8 | Float8E8M0) => weight.scales.data_type = Float8E8M0,
            (Float8E4M3FN | Float8E5M2 | Int8, Float | BFloat16 | Float16) => {}
            (Uint8, Float | BFloat16 | Float16) if self.has_rows_of_integers(stored) => {
                weight.codes.encoding = Encoding::TwoRows(Int4);
            }
            (Int32, Float | BFloat16 | Float16) => {
                let shape = self.companion(start, SHAPE);
                let shape = shape.map(|shape| self.checkpoint.original_shape(shape)).transpose()?;
                let bits = self.claims.formats.iter().filter_map(|format| match format {
                    WeightFormat::Int(bits) => Some(*bits),
                    _ => None,
                });
                (weight.codes.encoding, weight.codes.shape) =
                    packed_ints::describe(stored, shape, &bits.collect::<Vec<_>>()).map_err(wrong)?;
            }
            // Bytes that are not a weight.
            (Uint8 | Int8 | Int32, _) if self.spec.has_other_bytes => return Ok(false),
            _ => {
                let (elements, scales) = (stored.data_type, scale.data_type);
                let what = format!("{elements} elements with {scales} scales are in no known layout");
                return Err(wrong(Invalid::new(InvalidKind::Type, what).of_tensor(&stored.name)));
            }
        }
        Ok(true)
    }

    /// Creates an error about the type or the shape of a tensor.
    pub(super) fn part(&self, tensor: TensorRef, want: String) -> FileError {
        self.checkpoint.error(Some(tensor), self.checkpoint.stored(tensor).unfit(want))
    }

    /// Finds NVFP4's global scale.
    pub(super) fn global(
        &self,
        stored: &StoredTensor,
        scale: &StoredTensor,
        start: &str,
    ) -> Result<TensorRef, FileError> {
        let want = self.spec.global.name(start, &scale.name);
        self.checkpoint.find(&want).ok_or_else(|| {
            let error = Invalid::missing(&stored.name, "the global scale of NVFP4", &want);
            self.checkpoint.error(self.checkpoint.find(&stored.name), error)
        })
    }

    /// Determines the shapes of the elements and of the dequantized weight.
    pub(super) fn read_shape(&self, weight: &mut Weight, stored: &StoredTensor) -> Result<(), Invalid> {
        match weight.codes.encoding {
            Encoding::Plain(data_type @ (Float4E2M1 | Float6E2M3)) if stored.data_type != data_type => {
                self.widen_shape(weight, stored, data_type)?;
            }
            Encoding::TwoRows(_) => {
                if let [.., rows, _] = &mut weight.codes.shape[..] {
                    *rows = rows.saturating_mul(2);
                }
            }
            Encoding::HighFirst => self.widen_shape(weight, stored, Float4E2M1)?,
            _ => {}
        }
        // If one size is 0, the file's length does not bound the others.
        if weight.codes.shape.iter().try_fold(1usize, |len, &size| len.checked_mul(size)).is_none() {
            return Err(stored.unfit("fewer elements"));
        }
        if stored.data_type == Float4E2M1 && weight.codes.shape.last().is_some_and(|columns| columns % 2 == 1) {
            return Err(stored.unfit("an even number of columns"));
        }
        weight.values = weight.codes.shape.clone();
        match &mut weight.values[..] {
            [.., rows, columns] if weight.codes.transposed => std::mem::swap(rows, columns),
            [_] => weight.codes.shape.insert(0, 1),
            [] => return Err(stored.unfit("a weight, of one axis or more")),
            _ => {}
        }
        Ok(())
    }

    /// Returns whether these are 4-bit integers that ModelOpt packed along the rows.
    fn has_rows_of_integers(&self, stored: &StoredTensor) -> bool {
        stored.shape.len() == 2 && self.spec.lays_experts(Order::Down)
    }

    /// Returns whether these are experts that ModelOpt packed along the rows, with blocks along the rows too.
    fn has_two_rows(&self, stored: &StoredTensor, scale: &StoredTensor) -> bool {
        match stored.shape[..] {
            [experts, rows, columns] if self.spec.lays_experts(Order::Down) => {
                rows.is_multiple_of(8) && scale.shape == [experts, rows / 8, columns]
            }
            _ => false,
        }
    }

    /// Determines the shape of elements that are packed in bytes.
    fn widen_shape(&self, weight: &mut Weight, stored: &StoredTensor, data_type: DataType) -> Result<(), Invalid> {
        if self.spec.has_axis_of_blocks {
            let [ref outer @ .., blocks, 16] = stored.shape[..] else {
                return Err(stored.unfit("16 bytes for each block, as the last axis"));
            };
            if outer.len() < 2 {
                return Err(stored.unfit("experts, rows, blocks and 16 bytes"));
            }
            weight.codes.transposed = self.spec.lays_experts(Order::Exchanged);
            weight.codes.shape = outer.to_vec();
            weight.codes.shape.push(blocks.checked_mul(32).ok_or_else(|| stored.unfit("fewer blocks"))?);
        } else if let Some(last) = weight.codes.shape.last_mut() {
            let bits = data_type.bits().unwrap_or(8);
            *last = last.checked_mul(8).ok_or_else(|| stored.unfit("fewer columns"))? / bits;
        }
        onnx_cast::tensor::element_count(&weight.codes.shape).map(drop).ok_or_else(|| stored.unfit("fewer elements"))
    }

    /// Derives the block size from the number of scales per row if there is no configuration, or, for ModelOpt's
    /// integers, if the configuration specifies no size.
    fn block_by_number(&self, weight: &Weight, scale: &StoredTensor) -> Option<[usize; 2]> {
        let is_told = self.claims.block.is_some() || !self.claims.formats.is_empty();
        let counts = match weight.codes.encoding {
            Encoding::TwoRows(Int4) => self.claims.groups.is_empty(),
            _ => self.spec.counts_scales && !is_told,
        };
        let [_, columns] = weight.matrix();
        match scale.shape[..] {
            [_, across] if counts && across > 0 => columns.is_multiple_of(across).then(|| [1, columns / across]),
            _ => None,
        }
    }

    /// Determines the block size from the shape of the scales.
    pub(super) fn fit_scales(&self, weight: &mut Weight, scale: &StoredTensor) -> Result<(), Invalid> {
        let [rows, columns] = weight.matrix();
        let outer = weight.codes.shape[..weight.codes.shape.len() - 2].to_vec();
        let is_microscaled = weight.scales.data_type == Float8E4M3FN
            || matches!(
                weight.codes.encoding,
                Encoding::Plain(Float4E2M1 | Float6E2M3) | Encoding::TwoRows(Float4E2M1)
            )
            || weight.scales.data_type == Float8E8M0 && !self.spec.has_large_blocks;
        let claimed = self.claims.block;
        let mut candidates = Vec::new();
        if is_microscaled {
            candidates.push(weight.scales.block);
        } else {
            candidates.extend(claimed);
            candidates.extend(&self.claims.blocks);
            candidates.extend([[rows, columns], [1, columns], [rows, 1]]);
            candidates.extend(self.claims.groups.iter().map(|&size| [1, size]));
            candidates.extend(self.block_by_number(weight, scale));
            candidates.extend((weight.scales.data_type == Float8E8M0).then_some(weight.scales.block));
        }
        let mut squeezed = squeeze(&scale.shape, weight.codes.shape.len());
        if outer.len() == 1 && self.spec.experts.as_ref().is_some_and(|experts| experts.have_scales_of_columns) {
            // Experts have a scale per column, whichever axis the scales are stored along.
            candidates = vec![[rows, 1]];
            if let Some([_, down, across @ 1]) = squeezed.as_deref_mut() {
                std::mem::swap(down, across);
            }
        }
        let fits = |block: [usize; 2]| {
            let grid = [rows.div_ceil(block[0].max(1)), columns.div_ceil(block[1].max(1))];
            squeezed.as_deref() == Some(&[&outer[..], &grid].concat()[..])
                // One scale for all matrices, or a scale of an empty tensor.
                || grid.iter().all(|&count| count <= 1) && scale.len == 1
        };
        match candidates.iter().copied().find(|&block| fits(block)) {
            Some(block) => {
                // The configuration may specify any size. All sizes that are larger than the weight are equivalent.
                const LARGE: usize = 1 << 31;
                weight.scales.block = [0, 1].map(|axis| block[axis].clamp(1, [rows, columns][axis].max(LARGE)));
                // A per-tensor scale: treat all matrices as one.
                if scale.len == 1 && !outer.is_empty() && !is_microscaled && outer.iter().product::<usize>() != 1 {
                    weight.codes.shape = vec![outer.iter().product::<usize>() * rows, columns];
                    weight.scales.block = [weight.codes.shape[0].max(1), columns.max(1)];
                }
                Ok(())
            }
            None if self.fit_joined(weight, scale)? => Ok(()),
            None => {
                let want = match (is_microscaled, claimed) {
                    (true, _) => {
                        let grid = [&outer[..], &[rows, columns.div_ceil(weight.scales.block[1])]].concat();
                        format!("want one for each {} columns, {}", weight.scales.block[1], ShapeText(&grid))
                    }
                    (false, Some([down, across])) => {
                        format!("want one, one for each row, or one for each block of {down}x{across}")
                    }
                    (false, None) => "want one, one for each row, or blocks that the configuration names".to_owned(),
                };
                let (scales, shape) = (ShapeText(&scale.shape), ShapeText(&weight.codes.shape));
                let what = format!("scales of shape {scales} for a weight of shape {shape} ({want})");
                Err(Invalid::new(InvalidKind::Size, what).of_tensor(&scale.name))
            }
        }
    }

    /// Rejects infinite scales in a layout that divides by its scales, because every weight would be 0.
    pub(super) fn check_divisors(&self, scales: TensorRef) -> Result<(), FileError> {
        match has_infinity(self.checkpoint.stored(scales).data_type, &self.checkpoint.bytes(scales)?) {
            true => {
                let what = "an infinite scale: the weights are divided by it and would all be 0 (want a finite scale)";
                Err(self.checkpoint.value_error(scales, what))
            }
            false => Ok(()),
        }
    }

    /// Reads the global scales of NVFP4: one, or one per matrix.
    pub(super) fn read_globals(&self, weight: &mut Weight) -> Result<(), FileError> {
        let Some(global) = weight.scales.global else { return Ok(()) };
        let stored = self.checkpoint.stored(global);
        let matrices = weight.codes.shape[..weight.codes.shape.len() - 2].iter().product::<usize>();
        if stored.data_type != Float || stored.len != 1 && stored.len != matrices {
            let want = format!("float, 1 for the tensor, or 1 for each of {matrices} matrices");
            return Err(self.checkpoint.error(Some(global), stored.unfit(want)));
        }
        if self.spec.global.divides {
            self.check_divisors(global)?;
        }
        let bytes = self.checkpoint.bytes(global)?;
        let floats = bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
        weight.scales.globals = match self.spec.global.divides {
            true => floats.map(GlobalScale::Divisor).collect(),
            false => floats.map(GlobalScale::Factor).collect(),
        };
        Ok(())
    }
}

/// Returns whether any of these floats is infinite.
fn has_infinity(data_type: DataType, bytes: &[u8]) -> bool {
    let mut halves = bytes.as_chunks().0.iter().map(|bytes| u16::from_le_bytes(*bytes));
    match data_type {
        Float16 => halves.any(|bits| types::Float16::from_bits(bits).to_f32().is_infinite()),
        BFloat16 => halves.any(|bits| types::BFloat16::from_bits(bits).to_f32().is_infinite()),
        _ => bytes.as_chunks().0.iter().any(|bytes| f32::from_le_bytes(*bytes).is_infinite()),
    }
}

/// Max number of bytes of the settings of one weight.
const MAX_TEXT: u64 = 1 << 16;

impl Checkpoint {
    /// Reads the settings that a tensor stores as JSON.
    pub(super) fn settings(&self, tensor: TensorRef) -> Result<Map<String, Value>, FileError> {
        let stored = self.stored(tensor);
        let wrong = |what: String| {
            let what = format!("not settings in JSON: {what}");
            self.error(Some(tensor), Invalid::new(InvalidKind::Syntax, what).of_tensor(&stored.name))
        };
        if stored.data_type != Uint8 || self.byte_len(tensor) > MAX_TEXT {
            return Err(wrong(format!("{} of {} (want up to {MAX_TEXT} bytes)", stored.len, stored.data_type)));
        }
        serde_json::from_slice(&self.bytes(tensor)?).map_err(|error| wrong(error.to_string()))
    }

    /// Reads the shape that a tensor `weight_shape` stores.
    fn original_shape(&self, tensor: TensorRef) -> Result<[usize; 2], FileError> {
        let stored = self.stored(tensor);
        let bytes = if stored.len == 2 { self.bytes(tensor)? } else { Vec::new() };
        let sizes: Vec<i64> = match stored.data_type {
            DataType::Int64 => bytes.as_chunks().0.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect(),
            Int32 => bytes.as_chunks().0.iter().map(|bytes| i32::from_le_bytes(*bytes).into()).collect(),
            _ => Vec::new(),
        };
        match sizes.iter().map(|&size| usize::try_from(size).ok()).collect::<Option<Vec<_>>>().as_deref() {
            Some(&[rows, columns]) => Ok([rows, columns]),
            _ => Err(self.error(Some(tensor), stored.unfit("int64, the two sizes of the weight"))),
        }
    }
}
