//! An archive of arrays as the output.

use super::{OutputFile, OutputPlan, Source};
use crate::error::FileError;
use crate::formats::npz::{self, ArchiveWriter};
use crate::io::atomic::AtomicFile;
use crate::io::progress::Meter;
use crate::pipeline::{Ordered, Sink, Task};
use onnx_cast::DataType;

impl OutputPlan<'_> {
    /// Writes an archive of arrays. What was deflated is deflated again.
    pub(super) fn write_archive(
        &self,
        file: &OutputFile<'_>,
        out: &mut AtomicFile,
        meter: &Meter<'_>,
    ) -> Result<(), FileError> {
        let (output, source) = (self.output(file), self.source(file));
        let failed = |error| FileError::io(&file.path, "write", error);
        let mut written = ArchiveWriter::new(out.writer());
        for (index, (row, task)) in file.rows.iter().zip(self.tasks(file, 0)).enumerate() {
            let summary = &row.summary;
            let made_of = source.members.get(row.tensor.tensor);
            let is_deflated = made_of.is_some_and(|member| member.is_deflated);
            // More than the header and padding of an array can add is left to the limit of the old format.
            let is_large = summary.bytes_after.saturating_mul(8) > u64::from(u32::MAX) / 2;
            npz::room_for_tables().map_err(failed)?;
            let is_array = made_of.is_none_or(|member| member.array_name().is_some());
            let name = format!("{}{}", summary.name, if is_array { ".npy" } else { "" });
            let mut member = written.member(name, is_deflated, is_large).map_err(failed)?;
            if let Source::Array = row.source {
                let task = Task { to: 0, ..task };
                self.flow_one(file, index, &task, &Ordered::new(&mut member), meter)?;
            } else if summary.to == DataType::String {
                let strings = source.strings(row.tensor.tensor)?;
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
