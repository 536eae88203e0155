//! The rule for outputs that exist, the same for every job: an output must not exist, or be an empty folder. `force`
//! replaces it, `resume` continues it: alone it replaces nothing.

use crate::formats::error::{FormatError, Invalid, InvalidKind};
use crate::io::atomic::{Occupant, occupant};
use crate::io::fs;
use crate::text::Wording;
use std::io;
use std::path::Path;

/// The rule for an existing output: refuse, replace or resume it.
///
/// Without `force` and `resume`, that is an error ([`InvalidKind::Exists`]), unless it is an empty folder, a pipe or a
/// device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Existing {
    force: bool,
    /// `None` of jobs that cannot continue an output.
    resume: Option<bool>,
}

impl Existing {
    /// For a job that cannot continue an output.
    pub fn new(force: bool) -> Existing {
        Existing { force, resume: None }
    }

    /// For a job that can continue an output.
    pub(crate) fn or_resume(force: bool, resume: bool) -> Existing {
        Existing { force, resume: Some(resume) }
    }

    /// For a job in place, which has nothing to continue: its output is its input.
    pub(crate) fn in_place(self) -> Existing {
        Existing { resume: None, ..self }
    }

    /// Whether a file of the output may replace another.
    pub fn replaces(self) -> bool {
        fs::HAS_OUTPUTS && self.force
    }

    /// Whether the job adds what is missing to an output, and replaces nothing.
    pub(crate) fn only_adds(self) -> bool {
        fs::HAS_OUTPUTS && self.resume == Some(true) && !self.force
    }

    /// The error of a job that only adds, at a file with other content than it would write.
    pub(crate) fn differs(path: &Path) -> FormatError {
        let what = Wording::from("not what this job writes (remove it, name another output, or ");
        FormatError::invalid(path, Invalid::new(InvalidKind::Exists, what.field("force", " to replace it)")))
    }

    /// Checks the path of a file.
    ///
    /// # Errors
    /// Where it is a folder, or something exists that is neither replaced nor continued.
    pub fn check_file(self, path: &Path) -> Result<(), FormatError> {
        match occupant(path) {
            Occupant::File if self.only_adds() && !fs::is_file(path) => Err(Existing::differs(path)),
            Occupant::Nothing | Occupant::Stream => Ok(()),
            Occupant::EmptyFolder | Occupant::Folder => {
                Err(FormatError::io(path, "write", io::ErrorKind::IsADirectory.into()))
            }
            Occupant::File => self.check(path, "already exists", "file"),
        }
    }

    /// Checks the path of a folder.
    ///
    /// # Errors
    /// Where it is a file, or a folder that is not empty and neither replaced nor continued.
    pub(crate) fn check_folder(self, path: &Path) -> Result<(), FormatError> {
        match occupant(path) {
            Occupant::Nothing | Occupant::EmptyFolder => Ok(()),
            Occupant::Folder => self.check(path, "already exists and is not empty", "folder"),
            Occupant::Stream | Occupant::File => {
                Err(FormatError::io(path, "write", io::ErrorKind::NotADirectory.into()))
            }
        }
    }

    fn check(self, path: &Path, what: &str, kind: &str) -> Result<(), FormatError> {
        if self.replaces() || self.only_adds() {
            return Ok(());
        }
        let what = Wording::from(format!("{what} (name another {kind}, "));
        let what = match self.resume {
            Some(_) => what.field("force", " to replace it, or ").field("resume", " to continue it)"),
            None => what.then("or ").field("force", " to replace it)"),
        };
        Err(FormatError::invalid(path, Invalid::new(InvalidKind::Exists, what)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn an_output_must_not_exist_or_be_an_empty_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        for name in ["empty", "full"] {
            fs::create_dir(at(name)).expect("a folder");
        }
        fs::write(at("full/x"), "").expect("a file");
        fs::write(at("file"), "").expect("a file");
        #[cfg(unix)]
        for (target, link) in [("empty", "to_empty"), ("full", "to_full"), ("missing", "to_missing")] {
            std::os::unix::fs::symlink(target, at(link)).expect("a link");
        }
        let text = |result: Result<(), FormatError>| match result {
            Ok(()) => String::new(),
            Err(error) => error.to_string().rsplit('/').next().unwrap_or_default().to_owned(),
        };
        let (plain, job) = (Existing::new(false), Existing::or_resume(false, false));
        let ways = "(name another file, or `force` to replace it)";
        assert_eq!(text(plain.check_file(&at("file"))), format!("file: already exists {ways}"));
        let ways = "(name another file, `force` to replace it, or `resume` to continue it)";
        assert_eq!(text(job.check_file(&at("file"))), format!("file: already exists {ways}"));
        let ways = "(name another folder, `force` to replace it, or `resume` to continue it)";
        assert_eq!(text(job.check_folder(&at("full"))), format!("full: already exists and is not empty {ways}"));
        for free in ["missing", "empty"] {
            assert_eq!(text(job.check_folder(&at(free))), "", "{free}");
        }
        assert_eq!(text(plain.check_file(&at("missing"))) + &text(plain.check_file(Path::new("-"))), "");
        for existing in [Existing::new(true), Existing::or_resume(true, false), Existing::or_resume(false, true)] {
            assert_eq!(text(existing.check_file(&at("file"))) + &text(existing.check_folder(&at("full"))), "");
            assert!(existing.check_folder(&at("file")).is_err() && existing.check_file(&at("empty")).is_err());
        }
        assert!(Existing::or_resume(false, true).in_place().check_file(&at("file")).is_err());
        #[cfg(unix)]
        {
            assert_eq!(text(job.check_folder(&at("to_empty"))) + &text(job.check_file(Path::new("/dev/null"))), "");
            assert!(job.check_folder(&at("to_full")).is_err() && job.check_file(&at("to_missing")).is_err());
        }
    }
}
