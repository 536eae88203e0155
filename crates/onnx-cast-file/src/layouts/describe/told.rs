//! Weights whose format the files themselves tell: those of ComfyUI, whose block formats have scales in cuBLAS's order.

use crate::error::FileError;
use crate::formats::error::{Invalid, InvalidKind};
use crate::formats::input::StoredTensor;
use crate::layouts::find::Finder;
use crate::layouts::spec::before;
use crate::layouts::table::{COMFY_QUANT, Layout};
use crate::layouts::weight::{Encoding, Weight, WeightFormat};
use crate::text::{ShapeText, Wording};
use DataType::{Float4E2M1, Float8E4M3FN, Float8E8M0, Int8, Uint8};
use onnx_cast::DataType;

impl Finder<'_> {
    /// What types mean together in the format that is told; whether it is a block format.
    pub(super) fn read_told(
        &self,
        weight: &mut Weight,
        stored: &StoredTensor,
        scale: &StoredTensor,
        start: &str,
    ) -> Result<bool, FileError> {
        let told = self.claims.layers.get(start.strip_suffix('.').unwrap_or(start)).copied();
        // The metadata of some files is lost. If the caller names the layout, the types show the format.
        let told = told.or_else(|| self.claims.are_overruled.then(|| shown(stored, scale)).flatten());
        match (told, stored.data_type, scale.data_type) {
            (Some(WeightFormat::NvFp4), Uint8, Uint8 | Float8E4M3FN) => {
                (weight.elements, weight.scale_type, weight.block) = (Encoding::HighFirst, Float8E4M3FN, [1, 16]);
                (weight.are_swizzled, weight.global) = (true, Some(self.global(stored, scale, start)?));
                Ok(true)
            }
            (Some(WeightFormat::MxFp8), Float8E4M3FN, Uint8 | Float8E8M0) => {
                (weight.are_swizzled, weight.scale_type) = (true, Float8E8M0);
                Ok(true)
            }
            (None, Uint8 | Int8 | Float4E2M1, _) => {
                let want = format!("{start}{COMFY_QUANT}");
                let error = Invalid::missing(&stored.name, "the format of the layer", &want);
                Err(self.checkpoint.error(Some(weight.tensor), error))
            }
            (_, Uint8 | Float4E2M1, _) | (_, _, Uint8 | Float8E8M0 | Float8E4M3FN) => {
                let claim = told.map_or_else(|| "scales of float".to_owned(), |told| told.to_string());
                let found = format!("elements of {} with scales of {}", stored.data_type, scale.data_type);
                let what = format!("the configuration claims {claim}, and the tensor holds {found}");
                let error = Invalid::new(InvalidKind::Contradiction, what).of_tensor(&stored.name);
                Err(self.checkpoint.error(Some(weight.tensor), error))
            }
            _ => Ok(false),
        }
    }

    /// Refuses to guess between this layout and ComfyUI's, whose scales are in tiles. Only the names of tensors say which
    /// layout it is, and ComfyUI's have the same names. A weight whose number of scales fits rows alone decides for all.
    pub(in crate::layouts) fn check_order_of_scales(&self, layout: Layout) -> Result<(), FileError> {
        let mut found = None;
        for (_, stored) in self.checkpoint.tensors() {
            let Some(start) = before(&stored.name, "weight") else { continue };
            let beside = |ending: &str| self.checkpoint.find(&format!("{start}{ending}"));
            let (Some(scales), [rows, width]) = (beside("weight_scale"), &stored.shape[..]) else { continue };
            let scale = self.checkpoint.stored(scales);
            let (columns, block) = match (stored.data_type, scale.data_type) {
                (Uint8, Float8E4M3FN) if beside("weight_scale_2").is_some() => (width.saturating_mul(2), 16),
                (Float8E4M3FN, Uint8) => (*width, 32),
                _ => continue,
            };
            let in_rows = [*rows, columns.div_ceil(block)];
            let in_tiles = rows.checked_next_multiple_of(128).zip(in_rows[1].checked_next_multiple_of(4));
            match (scale.shape == in_rows, in_tiles.is_some_and(|(down, across)| scale.shape == [down, across])) {
                (true, false) => return Ok(()),
                (fits_rows, true) => found = found.or(Some((scales, fits_rows))),
                (false, false) => {}
            }
        }
        let Some((scales, fits_rows)) = found else { return Ok(()) };
        let (own, tiled) = (layout.name(), Layout::ComfyUi.name());
        let what = match fits_rows {
            true => {
                let what = format!(
                    "{own} has these scales in rows and {tiled} in tiles of 128x4, which gives other values, and \
                     nothing in the file names the layout (want the "
                );
                let what = Wording::from(what).field("layout", format!(" {own} or the "));
                what.field("layout", format!(" {tiled})"))
            }
            false => {
                let what = format!("its shape fits tiles of 128x4, which {tiled} has, and not rows (want the ");
                Wording::from(what).field("layout", format!(" {tiled})"))
            }
        };
        let error = Invalid::new(InvalidKind::Ambiguous, what).of_tensor(&self.checkpoint.stored(scales).name);
        Err(self.checkpoint.error(Some(scales), error))
    }

    /// ComfyUI fills the last block of rows with zeros, and crops what a layer computes: its bias has the number of
    /// rows.
    pub(super) fn leave_out_padding(&self, weight: &mut Weight, start: &str) {
        let bias = self.checkpoint.find(&format!("{start}bias")).map(|bias| self.checkpoint.stored(bias));
        if let (Some([rows]), [all, _]) = (bias.map(|bias| &bias.shape[..]), &weight.shape[..])
            && rows.checked_next_multiple_of(weight.block[1]) == Some(*all)
        {
            (weight.shape[0], weight.values[0]) = (*rows, *rows);
        }
    }
}

/// The format that elements and scales of these types have in ComfyUI; `None` if their scales are floats.
fn shown(stored: &StoredTensor, scale: &StoredTensor) -> Option<WeightFormat> {
    match (stored.data_type, scale.data_type) {
        (Uint8, Uint8 | Float8E4M3FN) => Some(WeightFormat::NvFp4),
        (Float8E4M3FN, Uint8 | Float8E8M0) => Some(WeightFormat::MxFp8),
        (Int8, _) => Some(WeightFormat::Int(8)),
        _ => None,
    }
}

/// The shape of scales in whole tiles of 128x4, where it is not too large.
pub(super) fn tiles(weight: &Weight) -> Option<[usize; 2]> {
    let ([rows, _], [_, across]) = (weight.matrix(), weight.grid());
    Some([rows.checked_next_multiple_of(128)?, across.checked_next_multiple_of(4)?])
}

/// The same as torchao writes it: 32x16 for each tile.
pub(super) fn tiles_of_torchao(weight: &Weight) -> Option<[usize; 2]> {
    tiles(weight).and_then(|[down, across]| Some([down / 4, across.checked_mul(4)?]))
}

/// Compares the shape of scales in cuBLAS's order with that of whole tiles.
pub(super) fn fit_swizzled(
    weight: &Weight,
    scale: &StoredTensor,
    tiles: fn(&Weight) -> Option<[usize; 2]>,
) -> Result<(), Invalid> {
    let [_, columns] = weight.matrix();
    let tiles = tiles(weight);
    let is_matrix = weight.shape.len() == 2 && columns.is_multiple_of(weight.block[1]);
    if is_matrix && tiles.is_some_and(|shape| scale.shape == shape) {
        return Ok(());
    }
    let want = match tiles {
        Some(shape) if is_matrix => {
            let shape = ShapeText(&shape);
            format!("want one for each {} columns in tiles of 128x4, {shape}", weight.block[1])
        }
        _ => format!("want a matrix of whole blocks of {} columns", weight.block[1]),
    };
    let (scales, shape) = (ShapeText(&scale.shape), ShapeText(&weight.shape));
    let what = format!("scales of shape {scales} for a weight of shape {shape} ({want})");
    Err(Invalid::new(InvalidKind::Size, what).of_tensor(&scale.name))
}
