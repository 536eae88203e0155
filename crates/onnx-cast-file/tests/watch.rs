//! Is whoever watches told of every byte, and can they end the work, with nothing written?

mod common;

use common::{MODELS, file};
use onnx_cast::{DataType, Tensor};
use onnx_cast_file::{
    DiffRequest, FileCast, FileError, Format, InspectRequest, ModelCast, ModelFold, Watch, WriteOptions, cast_file,
    cast_model, diff, fold_model, inspect, write_tensor,
};
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The most that a watch was told is done, and of how much.
#[derive(Default)]
struct Told {
    done: AtomicU64,
    total: AtomicU64,
}

/// Does the work with a watch that ends it, and then with one that only listens; what that one was told at last.
fn watched<T>(work: impl Fn(&Watch) -> Result<T, FileError>) -> (u64, u64) {
    let stopped = work(&Watch::stopping(|_, _| ControlFlow::Break(())));
    assert!(matches!(stopped, Err(FileError::Stopped { .. })), "{:?}", stopped.map(drop));
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
fn files_of_tensors() {
    let folder = tempfile::tempdir().expect("a folder");
    let (input, output) = (folder.path().join("x.npy"), folder.path().join("y.npy"));
    let x = Tensor::from_slice(vec![3], &[1.0f32, 2.0, 3.0]).expect("a tensor");
    write_tensor(&input, Format::Npy, "", x.view(), &WriteOptions::default()).expect("a file");
    let cast = |watch: &Watch| {
        let request = FileCast { watch: Some(watch.clone()), ..FileCast::new(DataType::Float16) };
        cast_file(&input, &output, &request)
    };
    fs::write(&output, b"as it was").expect("a file");
    let stop = Watch::stopping(|_, _| ControlFlow::Break(()));
    assert!(matches!(cast(&stop), Err(FileError::Stopped { path }) if path == output));
    assert_eq!(fs::read(&output).expect("a file"), b"as it was");
    assert_eq!(watched(cast), (12, 12));
    assert_eq!(
        watched(|watch| inspect(
            &input,
            &InspectRequest { values: true, watch: Some(watch.clone()), ..InspectRequest::default() }
        )),
        (12, 12)
    );
    assert_eq!(
        watched(|watch| diff(&input, &input, &DiffRequest { watch: Some(watch.clone()), ..DiffRequest::default() })),
        (12, 12)
    );
}

#[test]
fn models() {
    let folder = tempfile::tempdir().expect("a folder");
    let (input, output) = (folder.path().join("in.onnx"), folder.path().join("out.onnx"));
    let bytes = file(MODELS, "constants");
    fs::write(&input, &bytes).expect("a file");
    let size = |path: &Path| fs::metadata(path).expect("a file").len();
    let every = |_: &str, from: DataType, _: usize| from.is_float().then_some(DataType::Double);
    let cast = |watch: &Watch| {
        let request = ModelCast { watch: Some(watch.clone()), ..ModelCast::new(&every) };
        cast_model(&input, &output, &request)
    };
    let fold =
        |watch: &Watch| fold_model(&input, &output, &ModelFold { watch: Some(watch.clone()), ..Default::default() });
    fs::write(&output, b"as it was").expect("a file");
    let stop = Watch::stopping(|_, _| ControlFlow::Break(()));
    assert!(matches!(cast(&stop), Err(FileError::Stopped { path }) if path == output));
    assert!(matches!(fold(&stop), Err(FileError::Stopped { path }) if path == output));
    assert_eq!(fs::read(&output).expect("a file"), b"as it was");
    let told = watched(cast);
    assert_eq!(told, (size(&output), size(&output)));
    assert!(told.0 > bytes.len() as u64);
    let told = watched(fold);
    assert_eq!(told, (size(&output), size(&output)));
    let floats = watched(|watch| {
        inspect(&input, &InspectRequest { values: true, watch: Some(watch.clone()), ..InspectRequest::default() })
    });
    assert!(floats.0 > 0 && floats.0 <= floats.1, "{floats:?}");
}
