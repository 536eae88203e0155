//! In a browser folders are not told, so that nothing has several checkpoints.

use super::{Collection, Member};
use crate::error::FileError;
use crate::request::RunOptions;
use crate::summary::Summary;
use std::path::Path;

/// What a job did with a folder.
pub(crate) enum Outcome {
    /// It wrote the folder.
    Written(Summary),
    /// It has nothing to do in it, for this reason.
    Kept(String),
}

impl Collection {
    pub(crate) fn run(
        &self,
        _: &Path,
        _: &RunOptions,
        _: impl Fn(&Member, &Path, RunOptions) -> Result<Outcome, FileError>,
    ) -> Result<Summary, FileError> {
        Ok(Summary::default())
    }
}

impl Outcome {
    pub(crate) fn of(done: Result<Summary, FileError>) -> Result<Outcome, FileError> {
        done.map(Outcome::Written)
    }
}
