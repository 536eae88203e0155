//! Measures the amax of tensors before they are written.

use super::OutputPlan;
use crate::checkpoint::TensorRef;
use crate::error::FileError;
use crate::io::progress::Meter;
use crate::opened::of_stored;
use crate::pipeline::{self, Amax, Nowhere, Task, Transform};
use std::path::Path;
use std::sync::Arc;

impl OutputPlan<'_> {
    /// Measures the amax of each of these tensors.
    pub(super) fn measure(&self, measured: &[(TensorRef, Arc<Amax>)], meter: &Meter<'_>) -> Result<(), FileError> {
        let checkpoint = &self.opened.checkpoint;
        let tasks = measured.iter().filter_map(|(tensor, amax)| {
            let task = of_stored(&checkpoint.files[tensor.file], checkpoint.stored(*tensor));
            task.map(|task| Task { transform: Some(&**amax as &dyn Transform), ..task })
        });
        let tasks: Vec<Task<'_>> = tasks.collect();
        let progress = |bytes| meter.add(bytes);
        pipeline::run(&tasks, self.options.threads, &Nowhere, &progress).map_err(|(task, error)| {
            let tensor = measured.get(task).map(|(tensor, _)| *tensor);
            let path = tensor.map_or(Path::new(""), |tensor| checkpoint.files[tensor.file].path());
            FileError::moving(error, path, path, "")
        })
    }
}
