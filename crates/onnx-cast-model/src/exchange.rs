//! A model and its file of elements in place of others of the same names, with a whole model, old or new, at every
//! moment.
//!
//! Two files cannot be renamed at once, and a reader that opened the model between two renames would find elements of
//! the other one. So the new elements first get a name of their own, and a model that refers to that takes the old
//! one's place; only then are the old elements replaced, and then the model by one that refers to these.

use onnx_cast_file::io::IoError;
use onnx_cast_file::io::atomic::{AtomicFile, link_over};
use onnx_cast_file::io::fs;
use std::path::Path;

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
        first.commit()?;
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

/// A name beside the model, made of another, that no file has.
pub(crate) fn free_name(model: &Path, name: &str) -> String {
    let names = (1..).map(|count| if count == 1 { format!("{name}.new") } else { format!("{name}.new{count}") });
    let mut free = names.filter(|name| fs::symlink_metadata(model.with_file_name(name)).is_err());
    free.next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use crate::weights::cast_constants;
    use crate::{cast, diff};
    use onnx_cast::DataType;
    use onnx_cast_file::{CastRequest, DiffRequest, Selection, Storage};
    use std::cell::RefCell;
    use std::fs;
    use std::path::Path;

    /// A model with two constants, which stand in `m.onnx.data`.
    fn model(folder: &Path) {
        let path = folder.join("m.onnx");
        fs::write(&path, crate::rewrite::tests::model(DataType::Float, &[300, 700])).expect("a file");
        let storage = Storage { external_data: Some("m.onnx.data".to_owned()), threshold: Some(0) };
        let selection = Selection::default();
        let keep = CastRequest { selection, storage, ..CastRequest::new(DataType::Float) };
        cast(&path, &path, &keep).expect("a cast");
        assert!(folder.join("m.onnx.data").exists());
    }

    #[test]
    fn a_whole_model_is_there_at_every_step() {
        let [old, new, now] = [(); 3].map(|()| tempfile::tempdir().expect("a folder"));
        [&old, &new, &now].into_iter().for_each(|folder| model(folder.path()));
        let [old, new, now] = [&old, &new, &now].map(|folder| folder.path().join("m.onnx"));
        let request = CastRequest::new(DataType::Float16);
        cast(&new, &new, &request).expect("a cast");
        let seen = RefCell::new(Vec::new());
        let step = || {
            let same = |other| diff(&now, other, &DiffRequest::default()).expect("a whole model").is_empty();
            let names = fs::read_dir(now.parent().expect("a folder")).expect("a folder").count();
            seen.borrow_mut().push((same(&old), same(&new), names));
        };
        cast_constants(&now, &now, &request, &step).expect("a cast");
        let (before, after) = ((true, false, 3), (false, true, 3));
        assert_eq!(seen.into_inner(), [before, after, after, after, (false, true, 2)]);
        for name in ["m.onnx", "m.onnx.data"] {
            assert!(
                fs::read(now.with_file_name(name)).expect("a file")
                    == fs::read(new.with_file_name(name)).expect("a file")
            );
        }
    }
}
