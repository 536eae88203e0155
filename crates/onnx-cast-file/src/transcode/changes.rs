//! Values of a weight that another layout would change: counted by the pipeline before anything is written.

use crate::checkpoint::Checkpoint;
use crate::error::FileError;
use crate::io::memory::resize;
use crate::layouts::{Weight, WeightValues};
use crate::pipeline::{Compute, PipelineError, Scratch};
use onnx_cast::DataType;
use onnx_cast::scaled::GlobalScale;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts the values of a weight that would change, once all its elements have been computed.
pub(super) trait Count: Compute {
    /// The type that is computed, and how many elements.
    fn elements(&self) -> (DataType, usize);

    /// How many values would change.
    fn count(&self) -> u64;
}

/// A global scale of NVFP4 as a layout has it: one multiplies by it, another divides by it.
pub(super) enum Global<'a> {
    /// As it is stored.
    Kept,
    /// The reciprocal, and what counts the values that it changes: it may differ in its last bit.
    Inverted(f32, Arc<dyn Count + 'a>),
}

/// A weight with the reciprocal of its global scale.
pub(super) fn inverted(weight: &Weight) -> Option<Arc<Weight>> {
    let global = *weight.scales.globals.first()?;
    let inverse = 1.0 / global.value();
    let global = if global.divides() { GlobalScale::Factor(inverse) } else { GlobalScale::Divisor(inverse) };
    let mut inverted = weight.clone();
    inverted.scales.globals = vec![global];
    Some(Arc::new(inverted))
}

/// The global scale of a weight for a layout that divides by it, or multiplies.
pub(super) fn global_as<'a>(
    checkpoint: &'a Checkpoint,
    weight: &Arc<Weight>,
    inverted: &Arc<Weight>,
    divides: bool,
) -> Result<Option<Global<'a>>, FileError> {
    let Some(global) = weight.scales.globals.first() else { return Ok(None) };
    if global.divides() == divides {
        return Ok(Some(Global::Kept));
    }
    let values = |weight: &Arc<Weight>| {
        let values = WeightValues::new(checkpoint, weight, DataType::BFloat16);
        values.map_err(|error| in_file(checkpoint, weight, error))
    };
    let (old, new, changes) = (values(weight)?, values(inverted)?, AtomicU64::new(0));
    let value = global.value();
    Ok(Some(Global::Inverted(1.0 / value, Arc::new(Compared { old, new, len: weight.len(), changes }))))
}

/// Compares the bfloat16 values of two weights.
struct Compared<'a> {
    old: WeightValues<'a>,
    new: WeightValues<'a>,
    len: usize,
    changes: AtomicU64,
}

impl Compute for Compared<'_> {
    fn compute(&self, start: usize, len: usize, scratch: &mut Scratch, out: &mut [u8]) -> Result<(), PipelineError> {
        let mut before = Vec::new();
        resize(&mut before, out.len()).ok_or_else(|| PipelineError::Read(io::ErrorKind::OutOfMemory.into()))?;
        self.old.compute(start, len, scratch, &mut before)?;
        self.new.compute(start, len, scratch, out)?;
        let pairs = before.as_chunks::<2>().0.iter().zip(out.as_chunks::<2>().0);
        let changes = pairs.filter(|(before, after)| before != after).count();
        self.changes.fetch_add(changes as u64, Ordering::Relaxed);
        Ok(())
    }

    fn chunk(&self) -> usize {
        self.old.chunk()
    }
}

impl Count for Compared<'_> {
    fn elements(&self) -> (DataType, usize) {
        (DataType::BFloat16, self.len)
    }

    fn count(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }
}

/// What went wrong with a weight as an error of its file.
pub(super) fn in_file(checkpoint: &Checkpoint, weight: &Weight, error: PipelineError) -> FileError {
    let path = checkpoint.files[weight.codes.tensor.file].path();
    FileError::moving(error, path, path, &weight.name)
}
