//! The tensors of an opened file as tasks of the pipeline.

use crate::error::FileError;
use crate::formats::input::{Input, Location, StoredTensor};
use crate::formats::source::Items;
use crate::io::fs;
use crate::layouts::BlockValues;
use crate::pipeline::{Task, TaskInput};
use std::sync::Mutex;

/// The task that keeps a tensor of a file, where its elements can be read at any place.
pub(crate) fn of_stored<'a>(input: &'a Input, stored: &'a StoredTensor) -> Option<Task<'a>> {
    let (elements, items) = match &stored.place {
        Location::File(at, items) => (TaskInput::File(&input.file, *at), *items),
        Location::Other(file, at, items) => (TaskInput::File(file, *at), *items),
        Location::Memory(bytes) => (TaskInput::Memory(bytes), Items::PLAIN),
        _ => return None,
    };
    Some(keeping(stored, elements, items))
}

/// Hands a tensor of a file to a function as a task that keeps it.
pub(crate) fn with_task(
    input: &Input,
    index: usize,
    run: impl FnOnce(Task<'_>) -> Result<(), FileError>,
) -> Result<(), FileError> {
    let Some(stored) = input.tensors.get(index) else { return Ok(()) };
    if let Some(task) = of_stored(input, stored) {
        return run(task);
    }
    match &stored.place {
        Location::Message(at, len) => {
            let bytes = input.decode(stored, *at, *len)?;
            run(keeping(stored, TaskInput::Memory(&bytes), Items::PLAIN))
        }
        Location::Blocks(blocks) => {
            // A look at the values shows NaN.
            let values = BlockValues::new(&input.file, blocks, &stored.name, &stored.shape, true)?;
            run(keeping(stored, TaskInput::Computed(&values, 0), Items::PLAIN))
        }
        Location::Fortran(..) => match input.in_c_order(index, &fs::temp_dir())? {
            Some((file, items)) => run(keeping(stored, TaskInput::File(&file, 0), items)),
            None => Ok(()),
        },
        Location::Member(member, items) => member.with_elements(&input.file, |reader| {
            let stream = Mutex::new(reader);
            run(keeping(stored, TaskInput::Stream(&stream), *items))
        }),
        _ => Ok(()),
    }
}

fn keeping<'a>(stored: &StoredTensor, elements: TaskInput<'a>, items: Items) -> Task<'a> {
    Task::keeping(elements, stored.len, stored.data_type, items)
}
