//! The shapes that tensors had before ComfyUI-GGUF laid them out in rows of whole blocks, which metadata keeps.

use super::{ARRAY, FileHead, INT32, Reader};
use crate::formats::error::{FormatError, Invalid, InvalidKind};
use crate::text::{ShapeText, Short};
use onnx_cast::tensor::element_count;
use std::collections::HashMap;

/// The beginning of a key, before the name of a tensor.
pub(super) const SHAPE_BEFORE: &str = "comfy.gguf.orig_shape.";
/// The most dimensions of such a shape.
const MAX_DIMS_BEFORE: u64 = 8;

impl FileHead {
    /// Gives tensors the shapes that metadata keeps for them.
    pub(super) fn restore_shapes(&mut self, shapes: &HashMap<String, Vec<usize>>) -> Result<(), Invalid> {
        for entry in &mut self.entries {
            // Scales of several matrices are for those that the blocks are in.
            let Some(shape) = shapes.get(&entry.name).filter(|_| entry.scales.len() < 2) else { continue };
            if element_count(shape) != Some(entry.len) {
                let (before, now) = (ShapeText(shape), ShapeText(&entry.shape));
                let what = format!("`{SHAPE_BEFORE}` says {before}, where the tensor has {now}");
                return Err(Invalid::new(InvalidKind::Size, what).of_tensor(&entry.name));
            }
            entry.shape.clone_from(shape);
        }
        Ok(())
    }
}

impl Reader<'_> {
    /// A shape, outer axes first.
    pub(super) fn shape(&mut self, key: &str, kind: u32) -> Result<Vec<usize>, FormatError> {
        const WANT: &str = "an array of int32";
        if kind != ARRAY {
            return Err(self.wrong_value(key, kind, WANT));
        }
        let kind = u32::from_le_bytes(self.take("a type")?);
        if kind != INT32 {
            return Err(self.wrong_value(key, kind, WANT));
        }
        let count = self.count("dimensions", 4)?;
        if count > MAX_DIMS_BEFORE {
            let what = format!("metadata `{}`: {count} dimensions (want at most {MAX_DIMS_BEFORE})", Short(key));
            return Err(self.wrong(InvalidKind::Size, what));
        }
        let mut shape = Vec::new();
        for _ in 0..count {
            let dim = i32::from_le_bytes(self.take("a dimension")?);
            let wrong = |_| self.wrong(InvalidKind::Value, format!("metadata `{}`: a dimension of {dim}", Short(key)));
            shape.push(usize::try_from(dim).map_err(wrong)?);
        }
        Ok(shape)
    }
}
