//! The values of a weight, which are read at any place.

use crate::io::positional::{InputFile, ReadAt};
use std::io;
use std::sync::Arc;

/// Where the values of a weight are.
#[derive(Clone, Debug)]
pub enum StoredValues<'a> {
    /// In a file, from a place on.
    File(&'a InputFile, u64),
    /// In memory.
    Memory(&'a [u8]),
    /// Behind something that can be read at any place.
    Other(Arc<dyn ReadAt + 'a>),
}

impl StoredValues<'_> {
    /// Fills `bytes` from a place on.
    ///
    /// # Errors
    /// Where there are not so many, or they cannot be read.
    pub fn read(&self, at: u64, mut bytes: &mut [u8]) -> io::Result<()> {
        match self {
            StoredValues::File(file, begin) => file.read_at(begin + at, bytes),
            StoredValues::Memory(values) => {
                let start = usize::try_from(at).map_err(|_| io::ErrorKind::UnexpectedEof)?;
                let values = values.get(start..).and_then(|values| values.get(..bytes.len()));
                bytes.copy_from_slice(values.ok_or(io::ErrorKind::UnexpectedEof)?);
                Ok(())
            }
            StoredValues::Other(source) => {
                let mut at = at;
                while !bytes.is_empty() {
                    let len = source.read_at(at, bytes)?;
                    if len == 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    (at, bytes) = (at + len as u64, &mut bytes[len..]);
                }
                Ok(())
            }
        }
    }
}
