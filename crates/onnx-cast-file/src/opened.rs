//! The tensors of an opened file as tasks of the pipeline.

use crate::error::FileError;
use crate::formats::input::{Input, Place, Stored};
use crate::formats::source::Items;
use crate::io::fs;
use crate::layouts::BlockValues;
use crate::pipeline::{Elements, Task};
use std::sync::Mutex;

/// The task that keeps a tensor of a file, where its elements can be read at any place.
pub(crate) fn of_stored<'a>(input: &'a Input, stored: &'a Stored) -> Option<Task<'a>> {
    let (elements, items) = match &stored.place {
        Place::File(at, items) => (Elements::File(&input.file, *at), *items),
        Place::Other(file, at, items) => (Elements::File(file, *at), *items),
        Place::Memory(bytes) => (Elements::Memory(bytes), Items::PLAIN),
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
        Place::Message(at, len) => {
            let bytes = input.decode(stored, *at, *len)?;
            run(keeping(stored, Elements::Memory(&bytes), Items::PLAIN))
        }
        Place::Blocks(blocks) => {
            // A look at the values shows NaN.
            let values = BlockValues::new(&input.file, blocks, &stored.name, &stored.shape, true)?;
            run(keeping(stored, Elements::Computed(&values, 0), Items::PLAIN))
        }
        Place::Fortran(..) => match input.in_c_order(index, &fs::temp_dir())? {
            Some((file, items)) => run(keeping(stored, Elements::File(&file, 0), items)),
            None => Ok(()),
        },
        Place::Member(member, items) => member.with_elements(&input.file, |reader| {
            let stream = Mutex::new(reader);
            run(keeping(stored, Elements::Stream(&stream), *items))
        }),
        _ => Ok(()),
    }
}

fn keeping<'a>(stored: &Stored, elements: Elements<'a>, items: Items) -> Task<'a> {
    Task::keeping(elements, stored.len, stored.data_type, items)
}
