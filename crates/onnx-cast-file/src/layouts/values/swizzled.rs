//! Scales in the order of cuBLAS, as ComfyUI stores those of NVFP4 and MXFP8.
//!
//! `tiles.rs` documents the order. The scales of a few rows are scattered over a whole panel, so the most recently used
//! panel is cached.

use super::TensorBytes;
use crate::io::memory::resize;
use crate::layouts::tiles::{COLUMNS, ROWS, TILE, row_in_tile};
use crate::layouts::weight::Weight;
use crate::pipeline::PipelineError;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// The scales of a matrix, and the panel that was read last.
#[derive(Debug)]
pub(super) struct Swizzled {
    /// Scales of a row, and with those that fill the last tile.
    across: usize,
    padded: usize,
    last: Mutex<Option<Arc<Panel>>>,
}

#[derive(Debug, Default)]
struct Panel {
    index: usize,
    bytes: Vec<u8>,
}

impl Swizzled {
    pub(super) fn new(weight: &Weight) -> Swizzled {
        let [_, across] = weight.grid();
        Swizzled { across, padded: across.next_multiple_of(COLUMNS), last: Mutex::new(None) }
    }

    /// The scales of some rows, in the order of the elements.
    pub(super) fn read(
        &self,
        rows: Range<usize>,
        place: TensorBytes<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), PipelineError> {
        resize(out, rows.len() * self.across).ok_or_else(PipelineError::out_of_memory)?;
        let mut panel: Option<Arc<Panel>> = None;
        for (row, out) in rows.zip(out.chunks_exact_mut(self.across.max(1))) {
            let found = match panel.take().filter(|panel| panel.index == row / ROWS) {
                Some(panel) => panel,
                None => self.panel(row / ROWS, place)?,
            };
            let first = row_in_tile(row);
            for (out, tile) in out.chunks_mut(COLUMNS).zip(found.bytes.chunks_exact(TILE)) {
                out.copy_from_slice(&tile[first..][..out.len()]);
            }
            panel = Some(found);
        }
        Ok(())
    }

    fn panel(&self, index: usize, place: TensorBytes<'_>) -> Result<Arc<Panel>, PipelineError> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(panel) = last.as_ref().filter(|panel| panel.index == index) {
            return Ok(Arc::clone(panel));
        }
        // The memory of the last one is used again, unless another thread still needs it.
        let mut panel = last.take().and_then(Arc::into_inner).unwrap_or_default();
        panel.index = index;
        place.read(index * ROWS * self.padded, ROWS * self.padded, &mut panel.bytes)?;
        let panel = Arc::new(panel);
        *last = Some(Arc::clone(&panel));
        Ok(panel)
    }
}
