//! Does a watch see all progress of the work on models and files of tensors, and can it end the work with nothing
//! written?

use onnx_cast::{DataType, Tensor};
use onnx_cast_file::{
    CastRequest, DiffRequest, FileError, Format, InspectRequest, ModelOptions, RunOptions, Selection, Storage, Watch,
    WriteOptions, write_tensor,
};
use onnx_cast_model::{Error, FoldRequest, cast, diff, fold, inspect};
use std::fs;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use testkit::fixtures::file;

const MODELS: &str = include_str!("fixtures/models.txt");

/// The most that a watch was told is done, and of how much.
#[derive(Default)]
struct Told {
    done: AtomicU64,
    total: AtomicU64,
}

/// Does the work with a watch that ends it, and then with one that only listens; what that one was told at last.
fn watched<T>(work: impl Fn(&Watch) -> Result<T, Error>) -> (u64, u64) {
    let stopped = work(&Watch::stopping(|_, _| ControlFlow::Break(())));
    assert!(matches!(stopped, Err(Error::File { error: FileError::Stopped { .. } })), "{:?}", stopped.map(drop));
    let told = Arc::new(Told::default());
    let ear = Arc::clone(&told);
    let watch = Watch::new(move |done, total| {
        ear.done.fetch_max(done, Ordering::Relaxed);
        ear.total.store(total, Ordering::Relaxed);
    });
    if let Err(error) = work(&watch) {
        panic!("{error}");
    }
    (told.done.load(Ordering::Relaxed), told.total.load(Ordering::Relaxed))
}

#[test]
fn models() {
    let folder = tempfile::tempdir().expect("a folder");
    let (input, output) = (folder.path().join("in.onnx"), folder.path().join("out.onnx"));
    let bytes = file(MODELS, "constants");
    fs::write(&input, &bytes).expect("a file");
    let cast = |watch: &Watch| {
        let selection = Selection { min_elements: Some(0), ..Selection::new(DataType::Double) };
        let run = RunOptions::new().write(WriteOptions::default().force(true)).watch(Some(watch.clone()));
        cast(&input, &output, &CastRequest::new(DataType::Double).selection(selection).run(run))
    };
    let fold = |watch: &Watch| {
        let write = WriteOptions::default().force(true);
        let run = RunOptions::new().write(write).watch(Some(watch.clone()));
        fold(&input, &output, &FoldRequest::default().run(run))
    };
    fs::write(&output, b"as it was").expect("a file");
    let stop = Watch::stopping(|_, _| ControlFlow::Break(()));
    assert!(matches!(cast(&stop), Err(Error::File { error: FileError::Stopped { path } }) if path == output));
    assert!(matches!(fold(&stop), Err(Error::File { error: FileError::Stopped { path } }) if path == output));
    assert_eq!(fs::read(&output).expect("a file"), b"as it was");
    for (done, total) in [watched(cast), watched(fold)] {
        assert!(done == total && total > bytes.len() as u64 / 2, "{done} of {total}");
    }
    let floats = watched(|watch| inspect(&input, &InspectRequest::default().stats(true).watch(Some(watch.clone()))));
    assert!(floats.0 > 0 && floats.0 <= floats.1, "{floats:?}");
}

#[test]
fn files_of_tensors() {
    let folder = tempfile::tempdir().expect("a folder");
    let (input, output) = (folder.path().join("x.npy"), folder.path().join("y.npy"));
    let x = Tensor::from_slice(vec![3], &[1.0f32, 2.0, 3.0]).expect("a tensor");
    write_tensor(&input, Format::Npy, "", x.view(), &WriteOptions::default()).expect("a file");
    let cast = |watch: &Watch| {
        let write = WriteOptions::default().force(true);
        let run = RunOptions::new().write(write).watch(Some(watch.clone()));
        cast(&input, &output, &CastRequest::new(DataType::Float16).run(run))
    };
    fs::write(&output, b"as it was").expect("a file");
    let stop = Watch::stopping(|_, _| ControlFlow::Break(()));
    assert!(matches!(cast(&stop), Err(Error::File { error: FileError::Stopped { path } }) if path == output));
    assert_eq!(fs::read(&output).expect("a file"), b"as it was");
    assert_eq!(watched(cast), (12, 12));
    let request = |watch: &Watch| InspectRequest::default().stats(true).watch(Some(watch.clone()));
    assert_eq!(watched(|watch| inspect(&input, &request(watch))), (12, 12));
    let request = |watch: &Watch| DiffRequest::default().watch(Some(watch.clone()));
    assert_eq!(watched(|watch| diff(&input, &input, &request(watch))), (12, 12));
}

/// A model that appears while another is written stays, and the elements of the other are not left beside it.
#[test]
fn a_model_that_appears_meanwhile_is_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let (input, output) = (folder.path().join("in.onnx"), folder.path().join("out.onnx"));
    fs::write(&input, file(MODELS, "constants")).expect("a file");
    let request =
        |watch| {
            CastRequest::new(DataType::Double)
                .selection(Selection { min_elements: Some(0), ..Selection::new(DataType::Double) })
                .run(RunOptions::new().watch(watch))
                .model(ModelOptions::default().storage(
                    Storage::default().external_data(Some("weights.bin".to_owned())).external_threshold(Some(1)),
                ))
        };
    for at_the_end in [false, true] {
        let place = output.clone();
        let watch = Watch::new(move |done, total| {
            if done == total || !at_the_end {
                fs::write(&place, b"mine").expect("a file");
            }
        });
        let error = cast(&input, &output, &request(Some(watch))).expect_err("it is there").to_string();
        let want = "out.onnx: cannot write: another process has created it meanwhile (name another output)";
        assert!(error.ends_with(want), "{error}");
        assert_eq!(fs::read(&output).expect("a file"), b"mine");
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 2, "in.onnx and out.onnx");
        fs::remove_file(&output).expect("removed");
    }
    cast(&input, &output, &request(None)).expect("a cast");
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 3, "there are elements");
}
