//! Whether there is memory for allocations that abort or panic if they fail: allocated and freed before them.

use std::hint::black_box;
use std::io;

/// Whether there is room for so many bytes.
pub fn room_for(bytes: usize) -> io::Result<()> {
    let mut room = Vec::<u8>::new();
    let there = room.try_reserve_exact(bytes);
    // The optimiser may remove an allocation that is not read.
    drop(black_box(room));
    there.map_err(|_| io::ErrorKind::OutOfMemory.into())
}

/// Whether there is room for another thread: for its stack, and for the one on which it takes signals. Without the
/// second the standard library ends the process as the thread begins.
///
/// # Errors
/// [`OutOfMemory`](io::ErrorKind::OutOfMemory) where there is not.
pub fn room_for_a_thread() -> io::Result<()> {
    /// Twice the stack that a thread has.
    const THREAD: usize = 4 << 20;
    room_for(THREAD)
}

/// A buffer of zeros; `None` where the memory is not there.
pub fn zeros(len: usize) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    resize(&mut bytes, len)?;
    Some(bytes)
}

/// Gives a buffer a length, whatever it then holds; `None` where the memory is not there.
pub fn resize(bytes: &mut Vec<u8>, len: usize) -> Option<()> {
    bytes.try_reserve_exact(len.saturating_sub(bytes.len())).ok()?;
    bytes.resize(len, 0);
    Some(())
}
