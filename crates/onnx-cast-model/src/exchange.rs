//! A model and its file of elements in place of others of the same names, with a whole model, old or new, at every
//! moment.
//!
//! Two files cannot be renamed at once, and a reader that opened the model between two renames would find elements of
//! the other one. So the new elements first get a name of their own, and a model that refers to that takes the old
//! one's place; only then are the old elements replaced, and then the model by one that refers to these.

use onnx_cast_file::__private::{fs, link_over};
use onnx_cast_file::{AtomicFile, IoError};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

/// The files, all complete and on the disk, none under its name.
pub(crate) struct Exchange<'p> {
    /// The elements.
    pub(crate) data: AtomicFile,
    /// The model that refers to `meanwhile`.
    pub(crate) first: AtomicFile,
    /// The model that refers to `place`.
    pub(crate) model: AtomicFile,
    /// Where the elements stand first.
    pub(crate) meanwhile: &'p Path,
    /// Where they stand in the end.
    pub(crate) place: &'p Path,
}

impl Exchange<'_> {
    /// Gives each its name. `step` is called after everything that another process could see.
    pub(crate) fn run(self, step: &dyn Fn()) -> Result<(), IoError> {
        let Exchange { data, first, model, meanwhile, place } = self;
        data.commit()?;
        step();
        if let Err(error) = first.commit() {
            // Nothing refers to it yet. What cannot be removed stays.
            let _ = fs::remove_file(meanwhile);
            return Err(error);
        }
        step();
        link_over(meanwhile, place)?;
        step();
        model.commit()?;
        step();
        // Nothing needs it now, so it may stay.
        let _ = fs::remove_file(meanwhile);
        step();
        Ok(())
    }
}

/// A name beside the model, made of another, that no file has, and no other process takes.
pub(crate) fn free_name(model: &Path, name: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    // Where there is no system there are no processes.
    let process = if cfg!(all(target_family = "wasm", target_os = "unknown")) { 0 } else { std::process::id() };
    let names = std::iter::repeat_with(|| match COUNT.fetch_add(1, Ordering::Relaxed) {
        0 => format!("{name}.{process}.new"),
        count => format!("{name}.{process}-{count}.new"),
    });
    let mut free = names.take(1 << 10).filter(|name| fs::symlink_metadata(model.with_file_name(name)).is_err());
    free.next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use crate::source::ModelSource;
    use crate::weights::cast_constants;
    use crate::{cast, diff};
    use onnx_cast::DataType;
    use onnx_cast_file::{CastRequest, DiffRequest, ModelOptions, RunOptions, Storage, WriteOptions};
    use std::cell::RefCell;
    use std::fs;
    use std::path::Path;

    /// A cast that replaces its output.
    fn to(data_type: DataType) -> CastRequest {
        CastRequest::new(data_type).run(RunOptions::new().write(WriteOptions::default().force(true)))
    }

    /// A model with two constants, which stand in `m.onnx.data`.
    fn model(folder: &Path) {
        let path = folder.join("m.onnx");
        fs::write(&path, crate::rewrite::tests::model(DataType::Float, &[300, 700])).expect("a file");
        let storage = Storage::default().external_data(Some("m.onnx.data".to_owned())).external_threshold(Some(0));
        let keep = to(DataType::Float).model(ModelOptions::default().storage(storage));
        cast(&path, &path, &keep).expect("a cast");
        assert!(folder.join("m.onnx.data").exists());
    }

    #[test]
    fn a_whole_model_is_there_at_every_step() {
        let [old, new, now] = [(); 3].map(|()| tempfile::tempdir().expect("a folder"));
        [&old, &new, &now].into_iter().for_each(|folder| model(folder.path()));
        let [old, new, now] = [&old, &new, &now].map(|folder| folder.path().join("m.onnx"));
        let request = to(DataType::Float16);
        cast(&new, &new, &request).expect("a cast");
        let seen = RefCell::new(Vec::new());
        let step = || {
            let same = |other| diff(&now, other, &DiffRequest::default()).expect("a whole model").is_empty();
            let names = fs::read_dir(now.parent().expect("a folder")).expect("a folder").count();
            seen.borrow_mut().push((same(&old), same(&new), names));
        };
        cast_constants(ModelSource::File(&now), Some(&now), &request, &step).expect("a cast");
        let (before, after) = ((true, false, 3), (false, true, 3));
        assert_eq!(seen.into_inner(), [before, after, after, after, (false, true, 2)]);
        for name in ["m.onnx", "m.onnx.data"] {
            assert!(
                fs::read(now.with_file_name(name)).expect("a file")
                    == fs::read(new.with_file_name(name)).expect("a file")
            );
        }
    }

    /// Each process once gave its elements and its model their names whenever they were done: a model was left with the
    /// elements of another.
    #[test]
    fn two_jobs_do_not_mix() {
        for is_there in [false, true] {
            let [input, now, one, other] = [(); 4].map(|()| tempfile::tempdir().expect("a folder"));
            [&input, &one, &other].into_iter().for_each(|folder| model(folder.path()));
            let [input, now, one, other] = [&input, &now, &one, &other].map(|folder| folder.path().join("m.onnx"));
            let request = to;
            cast(&one, &one, &request(DataType::Float16)).expect("a cast");
            cast(&other, &other, &request(DataType::Float8E5M2)).expect("a cast");
            if is_there {
                cast(&input, &now, &request(DataType::BFloat16)).expect("a cast");
            }
            std::thread::scope(|scope| {
                let second = RefCell::new(None);
                let step = || {
                    if second.borrow().is_some() {
                        return;
                    }
                    let job = scope.spawn(|| cast(&input, &now, &request(DataType::Float8E5M2)).map(drop));
                    // Long enough for one that does not wait.
                    for _ in 0..100 {
                        if job.is_finished() {
                            break;
                        }
                        std::thread::sleep(std::time::Duration::from_millis(2));
                    }
                    *second.borrow_mut() = Some(job);
                };
                cast_constants(ModelSource::File(&input), Some(&now), &request(DataType::Float16), &step)
                    .expect("a cast");
                let second = second.into_inner().expect("it has begun").join().expect("no panic");
                let last = if let Err(error) = second {
                    let error = error.to_string();
                    assert!(
                        !is_there && error.ends_with("written it meanwhile (run it again to replace that)"),
                        "{error}"
                    );
                    &one
                } else {
                    &other
                };
                let differences = diff(&now, last, &DiffRequest::default()).expect("a whole model");
                assert!(differences.is_empty(), "{differences:?}");
            });
            assert_eq!(fs::read_dir(now.parent().expect("a folder")).expect("a folder").count(), 2, "{is_there}");
        }
    }

    /// A model that is replaced while its elements are looked for could get those of the other.
    #[cfg(unix)]
    #[test]
    fn a_model_that_is_replaced_meanwhile_is_not_read() {
        let folder = tempfile::tempdir().expect("a folder");
        model(folder.path());
        let path = folder.path().join("m.onnx");
        let opened = onnx_cast_file::InputFile::open(&path).expect("a file");
        assert!(!opened.is_replaced());
        cast(&path, &path, &to(DataType::Float16)).expect("a cast");
        assert!(opened.is_replaced());
    }
}
