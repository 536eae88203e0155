//! A file's bytes, memory-mapped: the one place of this crate where `unsafe` stands.
#![allow(unsafe_code)]

use crate::error::FileError;
use memmap2::Mmap;
use std::fs::File;
use std::ops::Deref;
use std::path::Path;

/// The bytes of a file. An empty file, which cannot be mapped, is an empty slice.
pub(crate) struct Mapped(Option<Mmap>);

impl Mapped {
    pub(crate) fn open(path: &Path) -> Result<Mapped, FileError> {
        let file = File::open(path).map_err(|error| FileError::io(path, "open", error))?;
        let metadata = file.metadata().map_err(|error| FileError::io(path, "read", error))?;
        if metadata.is_dir() {
            return Err(FileError::io(path, "read", std::io::ErrorKind::IsADirectory.into()));
        }
        if metadata.len() == 0 {
            return Ok(Mapped(None));
        }
        // SAFETY: the map is private and read-only, and this crate never writes to a file in place: an output replaces
        // its target by a rename, which leaves the old file to this map. What remains is another program that changes
        // the file meanwhile. Its bytes are only ever parsed, with every length checked against the slice, so other
        // bytes are another input; a file cut short ends the process by a signal, as it does with every mapped file.
        let map = unsafe { Mmap::map(&file) }.map_err(|error| FileError::io(path, "read", error))?;
        Ok(Mapped(Some(map)))
    }

    /// Where a part of the bytes starts; `None` of bytes of anything else.
    pub(crate) fn offset(&self, part: &[u8]) -> Option<usize> {
        let offset = (part.as_ptr() as usize).wrapping_sub(self.as_ptr() as usize);
        offset.checked_add(part.len()).filter(|&end| end <= self.len()).map(|_| offset)
    }

    /// Takes a part of the bytes out of memory, which it is read into again if need be, so that a large file does not
    /// count as memory of this process. Bytes of anything else are left alone.
    pub(crate) fn release(&self, part: &[u8]) {
        #[cfg(unix)]
        if let Some(map) = &self.0
            && let Some(offset) = self.offset(part)
        {
            // SAFETY: the range is within the map, which nothing has written to: what its pages hold is in the file.
            // Where the system refuses, they stay.
            let _ = unsafe { map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, offset, part.len()) };
        }
        #[cfg(not(unix))]
        let _ = part;
    }
}

impl Deref for Mapped {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.as_deref().unwrap_or_default()
    }
}
