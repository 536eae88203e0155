//! The output of a job over several checkpoints: a folder for each, and everything else as it is.
//!
//! The file that names the folders is written last, and the old one is removed first: where it is, the output is
//! complete.

use super::{Collection, Member};
use crate::engine::{MODULES, PIPELINE, SideFiles, check_folder, name_of, retire, stale};
use crate::error::FileError;
use crate::formats::error::{Invalid, InvalidKind};
use crate::formats::existing::Existing;
use crate::formats::format::Format;
use crate::io::atomic::{NewFolders, create_output_folder};
use crate::io::fs::{self, is_same, place_of};
use crate::io::lock::FolderLock;
use crate::request::RunOptions;
use crate::summary::Summary;
use crate::text::Short;
use std::path::{Path, PathBuf};

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
        let existing = run.existing(output, Format::Safetensors);
        self.check_output(output, existing)?;
        // All of it has to be good before the first folder is written.
        let rehearses = !run.dry_run && !run.fail_on.is_empty();
        let plan = if rehearses { run.clone().dry_run(true) } else { run.clone().plan() };
        let mut planned = Vec::new();
        for member in self.in_order() {
            let outcome = if member.is_read {
                job(member, &target(output, member), plan.clone())?
            } else {
                Outcome::Kept("no weights that are read".to_owned())
            };
            planned.push(Planned { member, outcome });
        }
        self.check_any(&planned)?;
        let others = self.others(output, run)?;
        let stale = self.stale(output, existing, &others)?;
        let kept = self.check_continued(&planned, output, existing, &others)?;
        let made = NewFolders::of(&output.join("x"));
        let _lock = match if run.dry_run { Ok(None) } else { self.begin(output, run, existing).map(Some) } {
            Ok(lock) => lock,
            Err(error) => {
                // They may be empty because another job is about to fill them.
                made.keep();
                return Err(error);
            }
        };
        let mut done = self.pass(&planned, output, run, &job)?;
        if !run.dry_run {
            others.copy_to(output, existing)?;
            stale.iter().try_for_each(|path| retire(path))?;
        }
        done.copied += others.count();
        done.kept_others.extend(kept);
        done.left_out.extend_from_slice(others.left_out());
        done.removed.extend(stale.iter().map(|path| name_of(path)));
        made.keep();
        Ok(done)
    }

    /// Creates the output, keeps other jobs out of it, and removes what names the folders of an earlier output.
    fn begin(&self, output: &Path, run: &RunOptions, existing: Existing) -> Result<FolderLock, FileError> {
        create_output_folder(output, &self.root)?;
        let lock = FolderLock::take(output)?;
        existing.check_folder(output)?;
        if run.copies_others() && existing.replaces() {
            [PIPELINE, MODULES].iter().try_for_each(|name| retire(&output.join(name)))?;
        }
        Ok(lock)
    }

    /// The members, the root last: it has the file that names the others.
    fn in_order(&self) -> impl Iterator<Item = &Member> {
        let (root, folders): (Vec<_>, Vec<_>) = self.members.iter().partition(|member| member.name.is_empty());
        folders.into_iter().chain(root)
    }

    /// The files beside the folders. A root with weights copies them itself.
    fn others(&self, output: &Path, run: &RunOptions) -> Result<SideFiles, FileError> {
        if !run.copies_others() || self.has_root() {
            return Ok(SideFiles::default());
        }
        let members: Vec<&Path> = self.members.iter().map(|member| &*member.path).collect();
        SideFiles::around(&self.root, output, &members)
    }

    /// Files of an earlier output beside the folders. A root with weights finds them itself.
    fn stale(&self, output: &Path, existing: Existing, others: &SideFiles) -> Result<Vec<PathBuf>, FileError> {
        if self.has_root() {
            return Ok(Vec::new());
        }
        let new: Vec<PathBuf> = others.targets(output).collect();
        stale(output, existing, |path| new.iter().any(|new| new == path))
    }

    /// Checks what a job that only adds finds, but for what other jobs check, and returns the names of the files that
    /// stay though they were edited.
    fn check_continued(
        &self,
        planned: &[Planned<'_>],
        output: &Path,
        existing: Existing,
        others: &SideFiles,
    ) -> Result<Vec<String>, FileError> {
        if !existing.only_adds() {
            return Ok(Vec::new());
        }
        for Planned { member, .. } in planned.iter().filter(|part| matches!(part.outcome, Outcome::Kept(_))) {
            self.whole(member)?.check_continued(&target(output, member), false)?;
        }
        let is_complete = [PIPELINE, MODULES].iter().any(|name| fs::is_file(&output.join(name)));
        others.check_continued(output, is_complete)
    }

    /// All files of a folder that is copied as it is.
    fn whole(&self, member: &Member) -> Result<SideFiles, FileError> {
        let others: Vec<&Path> = self.members.iter().map(|member| &*member.path).collect();
        SideFiles::whole(&member.path, &others)
    }

    fn has_root(&self) -> bool {
        self.members.iter().any(|member| member.name.is_empty())
    }

    /// Does the job with each folder.
    fn pass(
        &self,
        planned: &[Planned<'_>],
        output: &Path,
        run: &RunOptions,
        job: &impl Fn(&Member, &Path, RunOptions) -> Result<Outcome, FileError>,
    ) -> Result<Summary, FileError> {
        let total: u64 = planned.iter().map(Planned::bytes).sum();
        let (mut all, mut before) = (Summary::default(), 0);
        for part in planned {
            let (member, bytes) = (part.member, part.bytes());
            let target = target(output, member);
            match &part.outcome {
                Outcome::Kept(reason) => {
                    let files = self.whole(member)?;
                    all.copied += files.count();
                    if !run.dry_run {
                        files.copy_to(&target, run.existing(output, Format::Safetensors))?;
                    }
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
        Ok(all)
    }

    /// Adds what became of a folder.
    fn join(&self, all: &mut Summary, member: &Member, done: Summary) {
        let Summary {
            tensors,
            already_there,
            copied,
            kept_others,
            removed,
            passed_over,
            left_out,
            dropped,
            notes,
            ignored,
        } = done;
        let named = |(name, reason): (String, String)| (member.name_of(&name), reason);
        all.tensors.extend(tensors.into_iter().map(|mut tensor| {
            tensor.name = member.name_of(&tensor.name);
            tensor
        }));
        all.already_there += already_there;
        all.copied += copied;
        all.kept_others.extend(kept_others.iter().map(|name| member.name_of(name)));
        all.removed.extend(removed.iter().map(|name| member.name_of(name)));
        all.passed_over.extend(passed_over.into_iter().map(named));
        // The other folders are not left out.
        let is_member = |name: &str| self.members.iter().any(|member| member.name == name);
        all.left_out.extend(left_out.into_iter().filter(|(name, _)| !is_member(name)).map(named));
        all.dropped.extend(dropped.iter().map(|name| member.name_of(name)));
        *all = std::mem::take(all).ignoring(ignored);
        let label = Short(member.label()).to_string();
        all.notes.extend(notes.into_iter().map(|note| format!("`{label}`: {note}")));
    }

    /// Checks the path of the output.
    fn check_output(&self, output: &Path, existing: Existing) -> Result<(), FileError> {
        check_folder(output, None)?;
        if is_same(output, &self.root) {
            let what = "the folder of the input (name another: several checkpoints are not changed in place)";
            return Err(FileError::request(output, what));
        }
        if place_of(output).starts_with(place_of(&self.root)) {
            return Err(FileError::request(output, "a folder within the input (name another output)"));
        }
        Ok(existing.check_folder(output)?)
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
