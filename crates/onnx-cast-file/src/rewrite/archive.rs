//! An archive of arrays as the output.

use super::{Rewrite, Rewritten};
use crate::error::FileError;
use crate::formats::format::Format;
use crate::formats::input::Location;
use crate::formats::npz::{self, ArchiveWriter};
use crate::io::atomic::AtomicFile;
use crate::io::progress::Meter;
use crate::pipeline::{Ordered, Sink, Task};

impl Rewrite<'_> {
    /// Writes an archive of arrays. What was deflated is deflated again.
    pub(super) fn write_archive(
        &self,
        file: &Rewritten<'_>,
        out: &mut AtomicFile,
        meter: &Meter<'_>,
    ) -> Result<(), FileError> {
        let (output, source) = (self.output(file), self.source(file));
        let failed = |error| FileError::io(&file.path, "write", error);
        let members = if source.format == Format::Npz { npz::members(&source.file)? } else { Vec::new() };
        let mut written = ArchiveWriter::new(out.writer());
        for (index, (row, task)) in file.rows.iter().zip(self.tasks(file, 0)).enumerate() {
            let summary = &row.summary;
            // Every member is a tensor.
            let is_deflated = members.get(row.tensor.tensor).is_some_and(|member| member.is_deflated);
            // More than the header and padding of an array can add is left to the limit of the old format.
            let is_large = summary.bytes_after.saturating_mul(8) > u64::from(u32::MAX) / 2;
            npz::room_for_tables().map_err(failed)?;
            let name = format!("{}.npy", summary.name);
            let mut member = written.member(name, is_deflated, is_large).map_err(failed)?;
            if let Location::Strings(strings) = &source.tensors[row.tensor.tensor].place {
                output.write_strings(&mut member, &summary.name, &summary.shape, strings.view())?;
            } else {
                let header = output.npy_header(summary.to, &summary.shape)?;
                let sink = Ordered::new(&mut member);
                sink.put(0, &header).map_err(failed)?;
                let task = Task { to: header.len() as u64, ..task };
                self.flow_one(file, index, &task, &sink, meter)?;
            }
            member.finish().map_err(failed)?;
        }
        written.finish().map_err(failed)
    }
}
