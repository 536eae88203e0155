//! Where the engine's output goes.

use crate::io::fs::File;
use crate::io::memory::zeros;
use crate::io::positional::{InputFile, write_at};
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

/// Takes the output chunk by chunk, each at its place.
pub trait Sink: Sync {
    /// Takes the bytes that belong at this place of the output.
    fn put(&self, at: u64, bytes: &[u8]) -> io::Result<()>;

    /// No more chunks will come, so nothing may wait for one.
    fn abort(&self) {}
}

/// A file that is written at any place.
#[derive(Debug)]
pub struct InPlace<'a>(pub &'a File);

impl Sink for InPlace<'_> {
    fn put(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        write_at(self.0, at, bytes)
    }
}

/// Drops its input, for work that only counts.
#[derive(Debug)]
pub struct Nowhere;

impl Sink for Nowhere {
    fn put(&self, _: u64, _: &[u8]) -> io::Result<()> {
        Ok(())
    }
}

/// Compares a file with what would be written to it.
#[derive(Debug)]
pub(crate) struct Same<'a> {
    there: &'a InputFile,
    differs: AtomicBool,
}

impl<'a> Same<'a> {
    pub(crate) fn new(there: &'a InputFile) -> Self {
        Same { there, differs: AtomicBool::new(false) }
    }

    /// Whether other bytes were found.
    pub(crate) fn differs(&self) -> bool {
        self.differs.load(Ordering::Relaxed)
    }
}

impl Sink for Same<'_> {
    fn put(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let mut there = zeros(bytes.len()).ok_or(io::ErrorKind::OutOfMemory)?;
        self.there.read_at(at, &mut there)?;
        if there == bytes {
            return Ok(());
        }
        self.differs.store(true, Ordering::Relaxed);
        Err(io::ErrorKind::InvalidData.into())
    }
}

/// Memory of the length of the output.
#[derive(Debug)]
pub struct InMemory(pub Mutex<Vec<u8>>);

impl Sink for InMemory {
    fn put(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let mut memory = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let start = usize::try_from(at).ok().and_then(|at| memory.get_mut(at..)?.get_mut(..bytes.len()));
        start.ok_or(io::ErrorKind::WriteZero)?.copy_from_slice(bytes);
        Ok(())
    }
}

/// Pieces of memory, each at a place of the output. What belongs elsewhere is refused.
#[derive(Debug, Default)]
pub(crate) struct InStretches<'a> {
    /// In the order of their places.
    stretches: Vec<(u64, Mutex<&'a mut [u8]>)>,
}

impl<'a> InStretches<'a> {
    /// Bytes that are locked at once: fewer than a chunk has, so that workers seldom wait for each other.
    const STRETCH: usize = 1 << 18;

    /// Adds memory at a place behind all others.
    pub(crate) fn add(&mut self, at: u64, memory: &'a mut [u8]) {
        let stretches = memory.chunks_mut(Self::STRETCH).enumerate();
        let place = |index: usize| at + (index * Self::STRETCH) as u64;
        self.stretches.extend(stretches.map(|(index, bytes)| (place(index), Mutex::new(bytes))));
    }
}

impl Sink for InStretches<'_> {
    fn put(&self, mut at: u64, mut bytes: &[u8]) -> io::Result<()> {
        let mut index = self.stretches.partition_point(|(start, _)| *start <= at).wrapping_sub(1);
        while !bytes.is_empty() {
            let (start, memory) = self.stretches.get(index).ok_or(io::ErrorKind::WriteZero)?;
            let mut memory = memory.lock().unwrap_or_else(PoisonError::into_inner);
            let skipped = at.checked_sub(*start).and_then(|skipped| usize::try_from(skipped).ok());
            let room = skipped.and_then(|skipped| memory.get_mut(skipped..));
            let room = room.filter(|room| !room.is_empty()).ok_or(io::ErrorKind::WriteZero)?;
            let (now, later) = bytes.split_at(room.len().min(bytes.len()));
            room[..now.len()].copy_from_slice(now);
            (at, bytes, index) = (at + now.len() as u64, later, index + 1);
        }
        Ok(())
    }
}

/// A sink over a writer that takes bytes in order. Chunks wait for those before them.
#[derive(Debug)]
pub(crate) struct Ordered<W> {
    state: Mutex<OrderedState<W>>,
    changed: Condvar,
}

#[derive(Debug)]
struct OrderedState<W> {
    at: u64,
    aborted: bool,
    out: W,
}

impl<W> Ordered<W> {
    /// Writes to `out`, whose present place is 0.
    pub(crate) fn new(out: W) -> Self {
        Ordered { state: Mutex::new(OrderedState { at: 0, aborted: false, out }), changed: Condvar::new() }
    }
}

impl<W: Write + Send> Sink for Ordered<W> {
    fn put(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while state.at != at && !state.aborted {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.aborted {
            return Err(io::ErrorKind::Interrupted.into());
        }
        state.out.write_all(bytes)?;
        state.at += bytes.len() as u64;
        self.changed.notify_all();
        Ok(())
    }

    fn abort(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).aborted = true;
        self.changed.notify_all();
    }
}
