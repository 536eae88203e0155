//! Greatest magnitudes that have to be known before a tensor is written.

use super::Rewrite;
use crate::error::FileError;
use crate::io::progress::Meter;
use crate::layouts::TensorRef;
use crate::opened::of_stored;
use crate::pipeline::{self, Nowhere, Task, Transform};
use onnx_cast::{CastError, DataType, TensorView, greatest_magnitude};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The greatest finite magnitude of a tensor, once its elements have gone through this.
#[derive(Debug)]
pub(crate) struct Greatest {
    data_type: DataType,
    /// Of floats without a sign the bits have the order of the values.
    bits: AtomicU32,
}

impl Greatest {
    pub(crate) fn new(data_type: DataType) -> Greatest {
        Greatest { data_type, bits: AtomicU32::new(0) }
    }

    pub(crate) fn value(&self) -> f32 {
        f32::from_bits(self.bits.load(Ordering::Relaxed))
    }
}

impl Transform for Greatest {
    fn target_type(&self) -> DataType {
        self.data_type
    }

    fn run(&self, _: usize, len: usize, elements: &[u8], _: &mut [u8]) -> Result<(), CastError> {
        let found = greatest_magnitude(&TensorView::new(self.data_type, &[len], elements)?)?;
        self.bits.fetch_max(found.to_bits(), Ordering::Relaxed);
        Ok(())
    }
}

impl Rewrite<'_> {
    /// Finds the greatest magnitudes of tensors.
    pub(super) fn measure(&self, measured: &[(TensorRef, Arc<Greatest>)], meter: &Meter<'_>) -> Result<(), FileError> {
        let checkpoint = &self.opened.checkpoint;
        let tasks = measured.iter().filter_map(|(tensor, greatest)| {
            let task = of_stored(&checkpoint.files[tensor.file], checkpoint.stored(*tensor));
            task.map(|task| Task { transform: Some(&**greatest as &dyn Transform), ..task })
        });
        let tasks: Vec<Task<'_>> = tasks.collect();
        let progress = |bytes| meter.add(bytes);
        pipeline::run(&tasks, self.options.threads, &Nowhere, &progress).map_err(|(task, trouble)| {
            let tensor = measured.get(task).map(|(tensor, _)| *tensor);
            let path = tensor.map_or(Path::new(""), |tensor| checkpoint.files[tensor.file].path());
            FileError::moving(trouble, path, path, "")
        })
    }
}
