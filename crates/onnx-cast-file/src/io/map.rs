//! A file's bytes, memory-mapped: the one place of this crate where `unsafe` stands.
#![allow(unsafe_code)]

use crate::io::error::IoError;
use crate::io::positional::InputFile;
#[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
use memmap2::Mmap;
use std::ops::Deref;

/// The bytes of a file. An empty file, which cannot be mapped, is an empty slice; bytes that are no file are in memory.
#[derive(Debug)]
pub enum Mapped {
    /// A map of a file.
    #[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
    Map(Mmap),
    /// The bytes themselves.
    Bytes(Vec<u8>),
}

impl Mapped {
    /// Reads a file: there are no maps without a system.
    ///
    /// # Errors
    /// Where the host refuses, or the memory is not there.
    #[cfg(all(target_family = "wasm", target_os = "unknown"))]
    pub fn of(file: &InputFile) -> Result<Mapped, IoError> {
        Ok(Mapped::Bytes(file.read(0, file.len())?))
    }

    /// Maps a file, or reads it: on Windows, where a mapped file cannot be replaced, and if bytes stand for one.
    ///
    /// # Errors
    /// Where the system refuses.
    #[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
    pub fn of(file: &InputFile) -> Result<Mapped, IoError> {
        let (Some(opened), 1.., false) = (file.file(), file.len(), cfg!(windows)) else {
            return Ok(Mapped::Bytes(file.read(0, file.len())?));
        };
        // SAFETY: the map is private and read-only, and this crate never writes to a file in place: an output replaces
        // its target by a rename, which leaves the old file to this map. What remains is another program that changes
        // the file meanwhile. Its bytes are only ever parsed, with every length checked against the slice, and text is
        // checked in a copy, so other bytes are another input; a file cut short ends the process by a signal, as it does with every mapped file.
        let map = unsafe { Mmap::map(opened) };
        Ok(Mapped::Map(map.map_err(|error| IoError::new(file.path(), "read", error))?))
    }
}

impl Deref for Mapped {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            #[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
            Mapped::Map(map) => map,
            Mapped::Bytes(bytes) => bytes,
        }
    }
}
