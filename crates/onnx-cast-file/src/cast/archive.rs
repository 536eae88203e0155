//! An archive of arrays as the output of a cast.
//!
//! The zip crate's `ZipWriter` ends its archive when it is dropped, too, whatever happened before, and prints on the
//! standard error where it cannot. So it never learns of a write that fails: [`Silent`], below it, keeps the first
//! error, and takes what comes after for written; [`Watchful`], above it, ends the work where there is such an error.

use super::Job;
use crate::error::FileError;
use crate::formats::format::Format;
use crate::formats::input::Place;
use crate::formats::npz;
use crate::io::atomic::AtomicFile;
use crate::io::progress::Meter;
use crate::pipeline::{Ordered, Sink};
use crate::summary::Summary;
use std::io::{self, Seek, SeekFrom, Write};
use std::sync::OnceLock;
use zip::result::ZipError;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

impl Job<'_> {
    /// Writes an archive of arrays. What was deflated is deflated again.
    pub(super) fn write_archive(
        &self,
        summary: &Summary,
        out: &mut AtomicFile,
        meter: &Meter<'_>,
    ) -> Result<(), FileError> {
        let failure = Failure::default();
        let mut zip = ZipWriter::new(Silent::new(out.writer(), &failure));
        let written = self.write_members(summary, &mut zip, &failure, meter);
        // Where something else than the output failed, the end that dropping the archive would write is not wanted.
        let given_up = written.is_err() && failure.set(io::ErrorKind::Other.into()).is_ok();
        let ended = written.and_then(|()| zip.finish().map(drop).map_err(|error| self.unwritten(error)));
        match failure.into_inner() {
            Some(error) if !given_up => Err(FileError::io(self.sink.path, "write", error)),
            _ => ended,
        }
    }

    fn write_members<W: Write + Seek + Send>(
        &self,
        summary: &Summary,
        zip: &mut ZipWriter<W>,
        failure: &Failure,
        meter: &Meter<'_>,
    ) -> Result<(), FileError> {
        let failed = |error| FileError::io(self.sink.path, "write", error);
        let mut archive = match self.input.format {
            Format::Npz => Some(npz::open(&self.input.file)?),
            _ => None,
        };
        for (index, (row, (stored, plan))) in summary.tensors.iter().zip(self.rows()).enumerate() {
            // Every member is a tensor.
            let deflated = match &mut archive {
                Some(archive) => npz::is_deflated(&self.input.file, archive, index)?,
                None => false,
            };
            let method = if deflated { CompressionMethod::Deflated } else { CompressionMethod::Stored };
            // More than the header and padding of an array can add is left to the limit of the old format.
            let large = row.bytes_after.saturating_mul(8) > u64::from(u32::MAX) / 2;
            let options = SimpleFileOptions::default().compression_method(method).large_file(large);
            npz::room_for_tables().map_err(failed)?;
            zip.start_file(format!("{}.npy", row.name), options).map_err(|error| self.unwritten(error))?;
            let mut member = Watchful { out: &mut *zip, failure };
            if let Place::Strings(strings) = &stored.place {
                self.sink.write_strings(&mut member, &row.name, &row.shape, strings.view())?;
                continue;
            }
            let header = self.sink.npy_header(row.to, &row.shape)?;
            let sink = Ordered::new(member);
            sink.put(0, &header).map_err(failed)?;
            let at = header.len() as u64;
            match &mut archive {
                Some(archive) => self.pass_member(index, archive, at, &sink, meter)?,
                None => self.flow(index, &[self.task(index, stored, plan, at)], &sink, meter)?,
            }
        }
        Ok(())
    }

    fn unwritten(&self, error: ZipError) -> FileError {
        FileError::io(self.sink.path, "write", error.into())
    }
}

/// The first error of an output.
type Failure = OnceLock<io::Error>;

/// An output, empty at first, that seems to take everything. What comes after a failure goes nowhere.
struct Silent<'a, W> {
    out: W,
    at: u64,
    end: u64,
    failure: &'a Failure,
}

impl<'a, W: Write + Seek> Silent<'a, W> {
    fn new(out: W, failure: &'a Failure) -> Self {
        Silent { out, at: 0, end: 0, failure }
    }

    fn attempt(&mut self, work: impl FnOnce(&mut W) -> io::Result<()>) {
        if self.failure.get().is_none()
            && let Err(error) = work(&mut self.out)
        {
            let _ = self.failure.set(error);
        }
    }
}

impl<W: Write + Seek> Write for Silent<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.attempt(|out| out.write_all(bytes));
        self.at += bytes.len() as u64;
        self.end = self.end.max(self.at);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.attempt(W::flush);
        Ok(())
    }
}

impl<W: Write + Seek> Seek for Silent<'_, W> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.end.checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        let to = SeekFrom::Start(self.at);
        self.attempt(|out| out.seek(to).map(drop));
        Ok(self.at)
    }

    /// A buffer would be written for the sake of a place that is known.
    fn stream_position(&mut self) -> io::Result<u64> {
        Ok(self.at)
    }
}

/// What is written through a [`Silent`] output, until it has failed.
struct Watchful<'a, W> {
    out: W,
    failure: &'a Failure,
}

impl<W: Write> Write for Watchful<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        // The error itself is told in the end.
        self.failure.get().map_or(Ok(written), |_| Err(io::ErrorKind::Other.into()))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    /// Memory, of which one call fails.
    struct Fails {
        memory: Cursor<Vec<u8>>,
        calls: usize,
        nth: usize,
    }

    impl Fails {
        fn call(&mut self) -> io::Result<()> {
            self.calls += 1;
            if self.calls == self.nth { Err(io::Error::other(format!("call {}", self.nth))) } else { Ok(()) }
        }
    }

    impl Write for Fails {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.call()?;
            self.memory.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            self.call()
        }
    }

    impl Seek for Fails {
        fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
            self.call()?;
            self.memory.seek(to)
        }
    }

    /// Writes an archive of which a call fails; returns the calls, the archive, whether who writes members was told,
    /// and what was wrong.
    fn written(nth: usize) -> (usize, Vec<u8>, bool, Option<String>) {
        let mut out = Fails { memory: Cursor::default(), calls: 0, nth };
        let failure = Failure::default();
        let mut zip = ZipWriter::new(Silent::new(&mut out, &failure));
        let mut told = false;
        for (name, method) in [("a", CompressionMethod::Stored), ("b", CompressionMethod::Deflated)] {
            zip.start_file(name, SimpleFileOptions::default().compression_method(method)).expect("silence");
            told |= Watchful { out: &mut zip, failure: &failure }.write_all(&[7; 1000]).is_err();
        }
        zip.finish().expect("silence");
        (out.calls, out.memory.into_inner(), told, failure.into_inner().map(|error| error.to_string()))
    }

    #[test]
    fn each_call_fails_unnoticed_by_the_archive() {
        let mut plain = ZipWriter::new(Cursor::new(Vec::new()));
        for (name, method) in [("a", CompressionMethod::Stored), ("b", CompressionMethod::Deflated)] {
            plain.start_file(name, SimpleFileOptions::default().compression_method(method)).expect("a member");
            plain.write_all(&[7; 1000]).expect("its bytes");
        }
        let (calls, archive, told, failure) = written(0);
        assert_eq!((archive, told, failure), (plain.finish().expect("the end").into_inner(), false, None));
        let mut first_told = 0;
        for nth in 1..=calls {
            let (made, _, told, failure) = written(nth);
            assert_eq!((made, failure), (nth, Some(format!("call {nth}"))), "nothing follows");
            first_told += usize::from(told);
        }
        assert!(0 < first_told && first_told < calls, "{first_told} of {calls}");
    }
}
