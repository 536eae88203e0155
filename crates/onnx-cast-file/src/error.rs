//! What can go wrong with a cast of files, or with a look at them. Every text starts with the file's path and names the
//! tensor; texts are complete, so no error here has a `source` that would say the same again.

use crate::counts::Loss;
use crate::formats::error::FormatError;
use crate::io::error::IoError;
use crate::layouts::LayoutError;
use crate::pipeline::PipelineError;
use crate::selection::Unmatched;
use crate::summary::{Summary, TensorSummary};
use crate::text::{PathText, TensorText};
use onnx_cast::{CastError, DataType, OpError};
use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// A file that could not be read, cast or written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FileError {
    /// A file that could not be read or written as its format.
    #[error("{0}")]
    Format(FormatError),
    /// A candidate of a report that is not a type of numbers.
    #[error("{to} is not a type of real numbers: there are no errors to report")]
    Candidate {
        /// The type.
        to: DataType,
    },
    /// A scaled candidate of a report that is none.
    #[error("{to} is not a format of quantized weights")]
    ScaledCandidate {
        /// The candidate.
        to: String,
    },
    /// A cast from or to strings in a file of several tensors.
    #[error("{}: {}strings are cast only in a file of one tensor", PathText(path), TensorText(tensor))]
    Strings {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
    },
    /// A cast that loses what the caller does not want to lose.
    #[error(
        "{}: {}{loss} in {count} value{} cast to {to} (nothing is written)",
        PathText(path),
        TensorText(tensor),
        if *count == 1 { "" } else { "s" }
    )]
    Loss {
        /// The file.
        path: PathBuf,
        /// The first tensor with such a loss.
        tensor: String,
        /// What is lost.
        loss: Loss,
        /// How many of its values.
        count: u64,
        /// The target type.
        to: DataType,
        /// What the cast would have done.
        summary: Box<Summary>,
    },
    /// A quantized checkpoint that contradicts itself, or is in no known layout.
    #[error("{}: {error}", PathText(path))]
    Layout {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: Box<LayoutError>,
    },
    /// A part of a request that a kind of file has no use for.
    #[error("{}: {option} {reason}", PathText(path))]
    Option {
        /// The file.
        path: PathBuf,
        /// The field of the request.
        option: &'static str,
        /// Why it is refused.
        reason: &'static str,
    },
    /// A pattern of a request that matches none of a file's names.
    #[error("{}: {error}", PathText(path))]
    Unmatched {
        /// The file.
        path: PathBuf,
        /// The pattern.
        error: Unmatched,
    },
    /// Options that no operator has, whatever the file.
    #[error("{0}")]
    Operator(OpError),
    /// An output that exists, and seems to be another input.
    #[error(
        "{}: it exists and holds {holds}, as the input does, and not {want}, as an earlier result would (name another \
         output, or give `force` to replace it)",
        PathText(path)
    )]
    Replaces {
        /// The output.
        path: PathBuf,
        /// A type of its tensors.
        holds: DataType,
        /// A type that the result has, and the input does not.
        want: DataType,
    },
    /// The caller's [`Watch`](crate::Watch) has ended the work.
    #[error("{}: stopped before it was complete", PathText(path))]
    Stopped {
        /// The output, which is as it was before.
        path: PathBuf,
    },
}

impl FileError {
    /// The refusal of an action on a file.
    pub fn io(path: &Path, action: &'static str, error: io::Error) -> FileError {
        IoError::new(path, action, error).into()
    }

    /// Fails where a tensor of a cast has lost what none may.
    ///
    /// # Errors
    /// [`FileError::Loss`] with the first such tensor.
    pub fn check_losses(summary: &Summary, path: &Path, fail_on: &[Loss]) -> Result<(), FileError> {
        let lossy = summary.tensors.iter().find_map(|row| FileError::loss(row, fail_on).map(|loss| (row, loss)));
        let Some((row, (loss, count))) = lossy else { return Ok(()) };
        let (path, tensor, summary) = (path.to_owned(), row.name.clone(), Box::new(summary.clone()));
        Err(FileError::Loss { path, tensor, loss, count, to: row.to, summary })
    }

    /// What a tensor has lost that none may, and how many of its values.
    pub(crate) fn loss(row: &TensorSummary, fail_on: &[Loss]) -> Option<(Loss, u64)> {
        let counts = row.counts.as_ref()?;
        fail_on.iter().map(|loss| (*loss, loss.count(counts))).find(|(_, count)| *count > 0)
    }

    /// What went wrong where elements of a tensor were moved from a file to another.
    pub(crate) fn moving(trouble: PipelineError, input: &Path, output: &Path, tensor: &str) -> FileError {
        match trouble {
            PipelineError::Read(error) => FileError::io(input, "read", error),
            PipelineError::Write(error) => FileError::io(output, "write", error),
            PipelineError::Stopped => FileError::Stopped { path: output.to_owned() },
            PipelineError::Cast(error) => FileError::cast(input, tensor, error),
        }
    }

    /// Refuses to replace an output that seems to be another input, as where a shell's pattern matches two files: it
    /// holds a tensor of the name and type that the job changes, or has no name of the job's, only types that the input
    /// has, and one that is changed. `made_of` has for each row the name in the input; if it is empty, they are those
    /// of the rows.
    ///
    /// # Errors
    /// [`FileError::Replaces`].
    pub fn check_replaced<'t>(
        path: &Path,
        there: impl IntoIterator<Item = (&'t str, DataType)>,
        rows: &[TensorSummary],
        made_of: &[&str],
    ) -> Result<(), FileError> {
        let source = |index: usize| made_of.get(index).copied().unwrap_or(&rows[index].name);
        let changed: Vec<usize> = (0..rows.len()).filter(|&i| rows[i].cast && rows[i].from != rows[i].to).collect();
        let before: HashMap<&str, DataType> = changed.iter().map(|&i| (source(i), rows[i].from)).collect();
        let sources: HashSet<DataType> = before.values().copied().collect();
        let results = changed.iter().map(|&i| rows[i].to).filter(|to| !sources.contains(to));
        let results: Vec<DataType> = results.collect();
        let Some(&want) = results.first() else { return Ok(()) };
        let known: HashSet<&str> = (0..rows.len()).flat_map(|i| [source(i), &rows[i].name]).collect();
        let types: HashSet<DataType> = rows.iter().map(|row| row.from).collect();
        let (mut same, mut foreign, mut is_known) = (None, None, false);
        for (name, data_type) in there {
            if results.contains(&data_type) || before.get(name).is_some_and(|&before| before != data_type) {
                return Ok(());
            }
            // Codes and scales of an earlier result have types that the input lacks.
            is_known |= known.contains(name) || !types.contains(&data_type);
            let place = if before.contains_key(name) { &mut same } else { &mut foreign };
            *place = place.or(Some(data_type).filter(|data_type| sources.contains(data_type)));
        }
        match same.or(foreign.filter(|_| !is_known)) {
            Some(holds) => Err(FileError::Replaces { path: path.to_owned(), holds, want }),
            None => Ok(()),
        }
    }

    /// Refuses what a kind of file has no use for: of each field its name, whether it is given, and why it is refused.
    ///
    /// # Errors
    /// [`FileError::Option`] with the first field that is given.
    pub fn refuse(path: &Path, fields: &[(&'static str, bool, &'static str)]) -> Result<(), FileError> {
        match fields.iter().find(|(_, given, _)| *given) {
            Some(&(option, _, reason)) => Err(FileError::Option { path: path.to_owned(), option, reason }),
            None => Ok(()),
        }
    }

    /// A pattern that matches none of a file's names.
    pub(crate) fn unmatched(path: &Path) -> impl Fn(Unmatched) -> FileError {
        move |error| FileError::Unmatched { path: path.to_owned(), error }
    }

    pub(crate) fn layout(path: &Path, error: LayoutError) -> FileError {
        FileError::Layout { path: path.to_owned(), error: Box::new(error) }
    }

    /// A tensor of a file that could not be cast.
    pub fn cast(path: &Path, tensor: &str, error: CastError) -> FileError {
        FormatError::cast(path, tensor, error).into()
    }
}

impl<E: Into<FormatError>> From<E> for FileError {
    fn from(error: E) -> Self {
        FileError::Format(error.into())
    }
}
