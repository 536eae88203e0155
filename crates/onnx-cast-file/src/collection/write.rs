//! The output of a job over several checkpoints: a folder for each, and everything else as it is.
//!
//! All of it is written to a folder beside the output, which gets the name of the output when it is complete.

use super::{Collection, Member};
use crate::error::FileError;
use crate::formats::error::{Invalid, InvalidKind};
use crate::io::atomic::{NewFolders, create_folder, together};
use crate::io::fs::{self, is_same};
use crate::request::RunOptions;
use crate::rewrite::SideFiles;
use crate::summary::Summary;
use crate::text::{Short, Wording};
use std::path::{Path, PathBuf};

/// Behind the name of the output: what is not complete.
const UNFINISHED: &str = ".unfinished";

/// What a job did with a folder.
pub(crate) enum Outcome {
    /// It wrote the folder.
    Written(Summary),
    /// It has nothing to do in it, for this reason.
    Kept(String),
}

impl Outcome {
    /// Of a job that refuses a folder without weights for it.
    pub(crate) fn of(done: Result<Summary, FileError>) -> Result<Outcome, FileError> {
        match done {
            Ok(summary) => Ok(Outcome::Written(summary)),
            Err(error) => match error.kind() {
                Some(InvalidKind::NotQuantized) => Ok(Outcome::Kept("no quantized weights".to_owned())),
                Some(InvalidKind::NoWeights) => Ok(Outcome::Kept("no weights for this job".to_owned())),
                _ => Err(error),
            },
        }
    }
}

/// What is to be done with a folder.
struct Planned<'c> {
    member: &'c Member,
    outcome: Outcome,
}

impl Planned<'_> {
    /// Bytes of the tensors that the job reads.
    fn bytes(&self) -> u64 {
        match &self.outcome {
            Outcome::Written(summary) => summary.bytes_before(),
            Outcome::Kept(_) => 0,
        }
    }
}

impl Collection {
    /// Does a job with each checkpoint. What it has nothing to do in is copied as it is, and so is the rest.
    pub(crate) fn run(
        &self,
        output: &Path,
        run: &RunOptions,
        job: impl Fn(&Member, &Path, RunOptions) -> Result<Outcome, FileError>,
    ) -> Result<Summary, FileError> {
        self.check_output(output, run)?;
        let staging = unfinished(output);
        let mut planned = Vec::new();
        for member in &self.members {
            let outcome = if member.is_read {
                job(member, &target(&staging, member), run.clone().plan())?
            } else {
                Outcome::Kept("no .safetensors files".to_owned())
            };
            planned.push(Planned { member, outcome });
        }
        self.check_any(&planned)?;
        if run.dry_run {
            return self.pass(&planned, &staging, run, &job, None);
        }
        let made = NewFolders::of(&staging);
        if fs::symlink_metadata(&staging).is_ok() && !run.resume {
            let what = "an unfinished output (remove it, or give ";
            let what = Wording::from(what).field("resume", " to continue it)");
            return Err(FileError::invalid(&staging, Invalid::new(InvalidKind::Exists, what)));
        }
        create_folder(&staging.join("x"))?;
        let done = self.pass(&planned, &staging, run, &job, Some(&staging)).and_then(|summary| {
            let renamed = together(|| {
                // An empty folder may be there.
                let _ = fs::remove_dir(output);
                fs::rename(&staging, output)
            });
            renamed.map(|()| summary).map_err(|error| FileError::io(output, "write", error))
        });
        match &done {
            Ok(_) => made.keep(),
            Err(_) if run.resume => made.keep(),
            // The folders around it go with `made`.
            Err(_) => drop(fs::remove_dir_all(&staging)),
        }
        done
    }

    /// Does the job with each folder, and copies the rest to a folder, if there is one.
    fn pass(
        &self,
        planned: &[Planned<'_>],
        staging: &Path,
        run: &RunOptions,
        job: &impl Fn(&Member, &Path, RunOptions) -> Result<Outcome, FileError>,
        output: Option<&Path>,
    ) -> Result<Summary, FileError> {
        let total: u64 = planned.iter().map(Planned::bytes).sum();
        let (mut all, mut before) = (Summary::default(), 0);
        for part in planned {
            let (member, bytes) = (part.member, part.bytes());
            let target = target(staging, member);
            match &part.outcome {
                Outcome::Kept(reason) => {
                    let files = SideFiles::whole(&member.path)?;
                    all.copied += files.count();
                    output.map_or(Ok(()), |_| files.copy_to(&target, run.resume))?;
                    let label = Short(member.label());
                    all.notes.push(format!("`{label}` is copied as it is: {reason}"));
                }
                Outcome::Written(_) => {
                    let watch = run.watch.as_ref().map(|watch| watch.part(before, bytes, total));
                    if let Outcome::Written(done) = job(member, &target, run.clone().watch(watch))? {
                        self.join(&mut all, member, done);
                    }
                }
            }
            before += bytes;
        }
        // The root copies its other files itself where it has weights.
        let has_root = self.members.iter().any(|member| member.name.is_empty());
        if run.copy_others && !has_root {
            let members: Vec<&Path> = self.members.iter().map(|member| &*member.path).collect();
            let files = SideFiles::around(&self.root, staging, &members)?;
            all.copied += files.count();
            all.left_out.extend_from_slice(files.left_out());
            output.map_or(Ok(()), |folder| files.copy_to(folder, run.resume))?;
        }
        Ok(all)
    }

    /// Adds what became of a folder.
    fn join(&self, all: &mut Summary, member: &Member, done: Summary) {
        let Summary { tensors, already_there, copied, kept_others, passed_over, left_out, dropped, notes, ignored } =
            done;
        let named = |(name, reason): (String, String)| (member.name_of(&name), reason);
        all.tensors.extend(tensors.into_iter().map(|mut tensor| {
            tensor.name = member.name_of(&tensor.name);
            tensor
        }));
        all.already_there += already_there;
        all.copied += copied;
        all.kept_others.extend(kept_others.iter().map(|name| member.name_of(name)));
        all.passed_over.extend(passed_over.into_iter().map(named));
        // The other folders are not left out.
        let is_member = |name: &str| self.members.iter().any(|member| member.name == name);
        all.left_out.extend(left_out.into_iter().filter(|(name, _)| !is_member(name)).map(named));
        all.dropped.extend(dropped.iter().map(|name| member.name_of(name)));
        *all = std::mem::take(all).ignoring(ignored);
        let label = Short(member.label()).to_string();
        all.notes.extend(notes.into_iter().map(|note| format!("`{label}`: {note}")));
    }

    /// Refuses an output that is there: files of it would be mixed with those of the new one.
    fn check_output(&self, output: &Path, run: &RunOptions) -> Result<(), FileError> {
        let is_empty = fs::is_dir(output) && fs::entries(output).is_ok_and(|entries| entries.is_empty());
        let is_there = fs::symlink_metadata(output).is_ok() && !is_empty;
        if is_same(output, &self.root) || is_there {
            let what = "it exists, and a folder of several checkpoints is written whole (remove it, or name another \
                        output)";
            return Err(FileError::invalid(output, Invalid::new(InvalidKind::Exists, what)));
        }
        if output.starts_with(&self.root) {
            let what = "a folder within the input (name another output)";
            return Err(FileError::request(output, what));
        }
        FileError::refuse(output, &[("force", run.write.force, "is for outputs whose files are replaced one by one")])
    }

    /// Refuses a job that has nothing to do.
    fn check_any(&self, planned: &[Planned<'_>]) -> Result<(), FileError> {
        let mut reasons = Vec::new();
        for Planned { member, outcome } in planned {
            match outcome {
                Outcome::Written(_) => return Ok(()),
                Outcome::Kept(reason) => reasons.push(format!("`{}` ({reason})", Short(member.label()))),
            }
        }
        let what = format!("nothing to do in its folders: {} (a pattern may name a folder)", reasons.join(", "));
        Err(FileError::invalid(&self.root, Invalid::new(InvalidKind::NoWeights, what)))
    }
}

/// Where the result for a folder goes.
fn target(output: &Path, member: &Member) -> PathBuf {
    if member.name.is_empty() { output.to_owned() } else { output.join(&member.name) }
}

/// Where an output is written until it is complete.
fn unfinished(output: &Path) -> PathBuf {
    let mut name = output.components().as_path().as_os_str().to_owned();
    name.push(UNFINISHED);
    name.into()
}
