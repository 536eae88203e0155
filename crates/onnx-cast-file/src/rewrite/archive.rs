//! An archive of arrays as the output.
//!
//! The zip crate's `ZipWriter` finishes its archive when it is dropped, too, whatever happened before, prints on the
//! standard error where it cannot, and asserts that no call of its output has failed. So it never learns of a write
//! that fails: [`Silent`], below it, keeps the first error, and discards later writes; [`Watchful`], above it, ends the
//! work where there is such an error.

use super::{Rewrite, Rewritten};
use crate::error::FileError;
use crate::formats::format::Format;
use crate::formats::input::Location;
use crate::formats::npz;
use crate::io::atomic::AtomicFile;
use crate::io::progress::Meter;
use crate::pipeline::{Ordered, Sink, Task};
use std::io::{self, Seek, SeekFrom, Write};
use std::sync::OnceLock;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

impl Rewrite<'_> {
    /// Writes an archive of arrays. What was deflated is deflated again.
    pub(super) fn write_archive(
        &self,
        file: &Rewritten<'_>,
        out: &mut AtomicFile,
        meter: &Meter<'_>,
    ) -> Result<(), FileError> {
        let failed = |error| FileError::io(&file.path, "write", error);
        let failure = Failure::default();
        let mut zip = ZipWriter::new(Silent::new(out.writer(), &failure));
        let written = self.write_members(file, &mut zip, &failure, meter);
        // Where something else than the output failed, the end that dropping the archive would write is not wanted.
        let given_up = written.is_err() && failure.set(io::ErrorKind::Other.into()).is_ok();
        let ended = written.and_then(|()| zip.finish().map(drop).map_err(|error| failed(error.into())));
        match failure.into_inner() {
            Some(error) if !given_up => Err(failed(error)),
            _ => ended,
        }
    }

    fn write_members<W: Write + Seek + Send>(
        &self,
        file: &Rewritten<'_>,
        zip: &mut ZipWriter<W>,
        failure: &Failure,
        meter: &Meter<'_>,
    ) -> Result<(), FileError> {
        let (output, source) = (self.output(file), self.source(file));
        let failed = |error| FileError::io(&file.path, "write", error);
        let mut archive = match source.format {
            Format::Npz => Some(npz::open(&source.file)?),
            _ => None,
        };
        for (index, (row, task)) in file.rows.iter().zip(self.tasks(file, 0)).enumerate() {
            let summary = &row.summary;
            // Every member is a tensor.
            let deflated = match &mut archive {
                Some(archive) => npz::is_deflated(&source.file, archive, row.tensor.tensor)?,
                None => false,
            };
            let method = if deflated { CompressionMethod::Deflated } else { CompressionMethod::Stored };
            // More than the header and padding of an array can add is left to the limit of the old format.
            let large = summary.bytes_after.saturating_mul(8) > u64::from(u32::MAX) / 2;
            let options = SimpleFileOptions::default().compression_method(method).large_file(large);
            npz::room_for_tables().map_err(failed)?;
            zip.start_file(format!("{}.npy", summary.name), options).map_err(|error| failed(error.into()))?;
            let mut member = Watchful { out: &mut *zip, failure };
            if let Location::Strings(strings) = &source.tensors[row.tensor.tensor].place {
                output.write_strings(&mut member, &summary.name, &summary.shape, strings.view())?;
                continue;
            }
            let header = output.npy_header(summary.to, &summary.shape)?;
            let sink = Ordered::new(member);
            sink.put(0, &header).map_err(failed)?;
            let task = Task { to: header.len() as u64, ..task };
            match &mut archive {
                Some(archive) => self.flow_member(file, index, &task, archive, &sink, meter)?,
                None => self.run_tasks(file, index, &[task], &sink, meter)?,
            }
        }
        Ok(())
    }
}

/// The first error of an output.
type Failure = OnceLock<io::Error>;

/// An output, empty at first, that reports no failure. After one it discards what is written.
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

/// Passes writes on to a [`Silent`] output, until it has failed.
struct Watchful<'a, W> {
    out: W,
    failure: &'a Failure,
}

impl<W: Write> Write for Watchful<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        // `write_archive` reports the error itself.
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
