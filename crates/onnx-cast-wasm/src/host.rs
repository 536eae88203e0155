//! The host's functions. Numbers of files are the host's; lengths and places are 64-bit floats where they may exceed 32
//! bits, because JavaScript reads 64-bit integers as another kind of number.
#![allow(unsafe_code)]

use onnx_cast_file::__private::fs::Host;
use std::io;
use std::ops::ControlFlow;

#[link(wasm_import_module = "host")]
unsafe extern "C" {
    /// The number of a file, -1 if missing.
    fn open(path: *const u8, len: usize) -> i32;
    /// The length of a file.
    safe fn size(file: i32) -> f64;
    /// Reads bytes from a place; returns how many, or -1.
    fn read(file: i32, at: f64, bytes: *mut u8, len: usize) -> i32;
    /// The length of the list of names in a folder, which `listed` then copies; -1 where there is no folder.
    fn list(path: *const u8, len: usize) -> i32;
    /// Copies the list that `list` made.
    fn listed(bytes: *mut u8);
    /// The number of a new output, or -1.
    fn create(path: *const u8, len: usize) -> i32;
    /// Writes bytes at a place; returns 0, or -1.
    fn write(file: i32, at: f64, bytes: *const u8, len: usize) -> i32;
    /// Ends an output, which is kept where `keep` is 1; returns 0, or -1.
    safe fn close(file: i32, keep: i32) -> i32;
    /// Hears how many bytes are done of how many; returns 1 to end the work.
    safe fn tell(done: f64, total: f64) -> i32;
}

/// The host of this module.
pub(crate) struct Lender;

fn failed() -> io::Error {
    io::Error::other("the host could not")
}

impl Host for Lender {
    fn open(&self, path: &str) -> Option<(u32, u64)> {
        // SAFETY: pointer and length are those of one slice, which the host only reads during the call.
        let file = unsafe { open(path.as_ptr(), path.len()) };
        // A file has fewer than 2^53 bytes.
        Some((u32::try_from(file).ok()?, size(file) as u64))
    }

    fn read(&self, file: u32, at: u64, bytes: &mut [u8]) -> io::Result<usize> {
        // SAFETY: pointer and length are those of one slice, which nothing else reads or writes during the call.
        let count = unsafe { read(file as i32, at as f64, bytes.as_mut_ptr(), bytes.len()) };
        usize::try_from(count).map(|count| count.min(bytes.len())).map_err(|_| failed())
    }

    fn list(&self, folder: &str) -> Option<String> {
        // SAFETY: pointer and length are those of one slice, which the host only reads during the call.
        let len = unsafe { list(folder.as_ptr(), folder.len()) };
        let len = usize::try_from(len).ok()?;
        let mut names = vec![0; len];
        // SAFETY: the buffer has the length that the host asked for, and the host writes no more than that.
        unsafe { listed(names.as_mut_ptr()) };
        String::from_utf8(names).ok()
    }

    fn create(&self, path: &str) -> io::Result<u32> {
        // SAFETY: pointer and length are those of one slice, which the host only reads during the call.
        let file = unsafe { create(path.as_ptr(), path.len()) };
        u32::try_from(file).map_err(|_| failed())
    }

    fn write(&self, file: u32, at: u64, bytes: &[u8]) -> io::Result<()> {
        // SAFETY: pointer and length are those of one slice, which the host only reads during the call.
        let status = unsafe { write(file as i32, at as f64, bytes.as_ptr(), bytes.len()) };
        if status == 0 { Ok(()) } else { Err(failed()) }
    }

    fn close(&self, file: u32, keep: bool) -> io::Result<()> {
        if close(file as i32, keep.into()) == 0 { Ok(()) } else { Err(failed()) }
    }
}

/// Tells the host how far the work is.
pub(crate) fn progress(done: u64, total: u64) -> ControlFlow<()> {
    if tell(done as f64, total as f64) == 1 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}
