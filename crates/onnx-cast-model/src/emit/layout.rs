//! Which elements stand in a file of their own, and where there.

use crate::external::ITSELF;
use crate::rope::{CastElements, ElementSource};
use onnx_cast_file::__private::onnx::{entry, tensor};
use onnx_cast_file::__private::pipeline::Task;
use onnx_cast_file::__private::wire;

/// The file of elements beside a model.
#[derive(Debug)]
pub(crate) struct Layout<'a> {
    /// Whether large elements are only referred to, in the model that was read and in other files.
    pub(super) refers: bool,
    /// The file's name.
    location: String,
    /// Tensors of at least this many bytes go into the file.
    threshold: Option<u64>,
    /// So do smaller ones that are in external data already.
    keeps_external: bool,
    /// What the file holds, in order, each at its offset.
    pub(crate) data: Vec<(u64, CastElements<'a>)>,
    end: u64,
}

/// Elements of fewer bytes are copied into a message that refers to the others.
const SMALL: u64 = 1024;

/// Where elements start: onnx.proto recommends a multiple of the page size, for readers that map the file.
const ALIGNMENT: u64 = 4096;

impl<'a> Layout<'a> {
    /// Tensors stay where they are, except that those of at least `threshold` bytes go into the file.
    pub(crate) fn new(location: &str, threshold: Option<u64>) -> Self {
        let (location, keeps_external) = (location.to_owned(), true);
        Layout { refers: false, location, threshold, keeps_external, data: Vec::new(), end: 0 }
    }

    /// Only tensors of at least `threshold` bytes are in the file.
    pub(crate) fn only(location: &str, threshold: u64) -> Self {
        Layout { keeps_external: false, ..Layout::new(location, Some(threshold)) }
    }

    /// No file: a message that refers to the large elements of the model that was read, and of other files.
    pub(crate) fn references() -> Self {
        Layout { refers: true, ..Layout::only(ITSELF, SMALL) }
    }

    /// The tasks that write the file.
    pub(crate) fn tasks(&self) -> Vec<Task<'_>> {
        self.data.iter().map(|(offset, elements)| elements.task(*offset)).collect()
    }

    /// Whether elements belong into the file.
    pub(super) fn takes(&self, len: u64, was_external: bool) -> bool {
        let is_large = self.threshold.is_some_and(|threshold| len >= threshold);
        len > 0 && (is_large || was_external && self.keeps_external)
    }

    /// Gives elements a place; returns the fields that tell it. None where there is no place.
    pub(super) fn put(&mut self, elements: CastElements<'a>, len: u64) -> Option<Vec<u8>> {
        let offset = match (self.refers, &elements.stored) {
            (false, _) => {
                let offset = self.end.checked_next_multiple_of(ALIGNMENT)?;
                self.end = offset.checked_add(len)?;
                self.data.push((offset, elements));
                offset
            }
            (true, ElementSource::Model(_, at)) => *at,
            (true, _) => return None,
        };
        let mut fields = Vec::new();
        let entries = [("location", &*self.location), ("offset", &offset.to_string()), ("length", &len.to_string())];
        for (key, value) in entries {
            let mut message = Vec::new();
            wire::put_bytes(&mut message, entry::KEY, key.as_bytes());
            wire::put_bytes(&mut message, entry::VALUE, value.as_bytes());
            wire::put_bytes(&mut fields, tensor::EXTERNAL_DATA, &message);
        }
        wire::put_int(&mut fields, tensor::DATA_LOCATION, 1);
        Some(fields)
    }
}
