//! What is left of a checkpoint whose cast is interrupted, and of outputs that two jobs write at once.

use onnx_cast::{DataType, Tensor};
use onnx_cast_file::{
    CastRequest, DequantizeRequest, FileError, QuantizeRequest, QuantizedFormat, RunOptions, Watch, WriteOptions,
    cast_file, dequantize_file, inspect, quantize_file, safetensors,
};
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

const INDEX: &str = "model.safetensors.index.json";

/// Three files of a matrix each.
fn checkpoint(folder: &Path) {
    fs::create_dir_all(folder).expect("a folder");
    let mut places = Vec::new();
    for name in ["a", "b", "c"] {
        let values: Vec<f32> = (0..64 * 64).map(|value| value as f32 / 64.0).collect();
        let tensor = Tensor::from_slice(vec![64, 64], &values).expect("a tensor");
        let bytes = safetensors::write(None, &[(&format!("{name}.weight"), tensor.view())]).expect("bytes");
        fs::write(folder.join(format!("{name}.safetensors")), bytes).expect("a file");
        places.push(format!("\"{name}.weight\": \"{name}.safetensors\""));
    }
    let index = format!("{{\"metadata\": {{\"total_size\": 1}}, \"weight_map\": {{{}}}}}", places.join(", "));
    fs::write(folder.join(INDEX), index).expect("a file");
}

fn contents(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let file = |path: std::path::PathBuf| {
        let bytes = fs::read(&path).expect("a file");
        (path.file_name().expect("a name").to_string_lossy().into_owned(), bytes)
    };
    let mut files: Vec<_> = entries.map(file).collect();
    files.sort();
    files
}

/// Ends the work when half of it is done, which is within the second file.
fn half() -> Option<Watch> {
    Some(Watch::stopping(|done, total| match 2 * done >= total {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    }))
}

/// Replaces the output.
fn force(watch: Option<Watch>) -> RunOptions {
    RunOptions::new().write(WriteOptions::default().force(true)).watch(watch)
}

fn is_stopped<T>(result: Result<T, FileError>) -> bool {
    matches!(result, Err(FileError::Stopped { .. }))
}

#[test]
fn an_interrupted_run_leaves_no_index() {
    let root = tempfile::tempdir().expect("a folder");
    let [input, output, want] = ["in", "out", "want"].map(|name| root.path().join(name));
    checkpoint(&input);
    let job = |to: DataType, output: &Path, watch| cast_file(&input, output, &CastRequest::new(to).run(force(watch)));
    job(DataType::Float16, &output, None).expect("a cast");
    assert!(is_stopped(job(DataType::BFloat16, &output, half())));
    let names: Vec<String> = contents(&output).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["a.safetensors", "b.safetensors", "c.safetensors"], "new and old files, and no index");
    inspect(&output, &Default::default()).expect_err("not a checkpoint");
    let again = CastRequest::new(DataType::BFloat16).run(force(None).resume(true));
    assert_eq!(cast_file(&input, &output, &again).expect("a cast").already_there, 1);
    job(DataType::BFloat16, &want, None).expect("a cast");
    assert!(contents(&output) == contents(&want));

    // A run that fails before a file is replaced leaves the old checkpoint.
    let stop = Some(Watch::stopping(|_, _| ControlFlow::Break(())));
    assert!(is_stopped(job(DataType::Float16, &output, stop)));
    assert!(contents(&output) == contents(&want));
}

#[test]
fn an_interrupted_run_that_quantizes_leaves_no_index() {
    let root = tempfile::tempdir().expect("a folder");
    let [input, output, plain] = ["in", "out", "plain"].map(|name| root.path().join(name));
    checkpoint(&input);
    let quantize = |format: &str, watch| {
        let request = QuantizeRequest::new(format.parse::<QuantizedFormat>().expect("a format")).run(force(watch));
        quantize_file(&input, &output, &request)
    };
    quantize("int8", None).expect("quantized");
    assert!(is_stopped(quantize("float8e4m3fn", half())));
    assert!(!output.join(INDEX).exists());
    inspect(&output, &Default::default()).expect_err("not a checkpoint");
    quantize("float8e4m3fn", None).expect("quantized");
    let dequantize = |to, watch| dequantize_file(&output, &plain, &DequantizeRequest::new(to).run(force(watch)));
    dequantize(DataType::Float16, None).expect("plain");
    assert!(is_stopped(dequantize(DataType::BFloat16, half())));
    assert!(!plain.join(INDEX).exists() && plain.join("c.safetensors").exists());
}

/// In place the index tells how to go on, under a name that no loader reads.
#[test]
fn a_cast_in_place_goes_on() {
    let root = tempfile::tempdir().expect("a folder");
    let [input, want] = ["in", "want"].map(|name| root.path().join(name));
    checkpoint(&input);
    let request = |watch| CastRequest::new(DataType::BFloat16).run(force(watch));
    cast_file(&input, &want, &request(None)).expect("a cast");
    assert!(is_stopped(cast_file(&input, &input, &request(half()))));
    assert!(!input.join(INDEX).exists() && input.join(format!("{INDEX}.unfinished")).exists());
    let says = "a cast in place was interrupted here (run it again, and it is finished)";
    for path in [input.clone(), input.join(INDEX)] {
        for error in [
            inspect(&path, &Default::default()).map(drop).expect_err("unfinished"),
            cast_file(&path, root.path().join("other"), &request(None)).map(drop).expect_err("unfinished"),
        ] {
            assert!(error.to_string().ends_with(says), "{error}");
        }
    }
    let other = CastRequest::new(DataType::Float16).run(force(None));
    let error = cast_file(&input, &input, &other).expect_err("another job").to_string();
    assert!(
        error.ends_with("another job in place, cast to bfloat16, was interrupted here (run it again first)"),
        "{error}"
    );
    let done = cast_file(&input, &input, &request(None)).expect("the rest");
    assert!(done.notes.iter().any(|note| note.contains("before the interruption")), "{:?}", done.notes);
    assert!(contents(&input) == contents(&want));
}

/// Two jobs that write one file: it is the one's or the other's, and nothing else is left.
#[test]
fn two_jobs_of_one_file() {
    let root = tempfile::tempdir().expect("a folder");
    let [input, output] = ["in", "out"].map(|name| root.path().join(name));
    checkpoint(&input);
    fs::create_dir(&output).expect("a folder");
    let job = |to, name: &str, run: RunOptions| {
        let request = CastRequest::new(to).run(run);
        cast_file(input.join("a.safetensors"), output.join(name), &request).map(drop)
    };
    let types = [DataType::Float16, DataType::Float8E5M2];
    let want = types.map(|to| {
        job(to, "want.safetensors", force(None)).expect("a cast");
        fs::read(output.join("want.safetensors")).expect("a file")
    });
    let race = |run: &RunOptions| {
        std::thread::scope(|scope| {
            let jobs = types.map(|to| scope.spawn(move || job(to, "one.safetensors", run.clone())));
            jobs.map(|one| one.join().expect("no panic"))
        })
    };
    for _ in 0..8 {
        race(&force(None)).into_iter().for_each(|one| one.expect("a cast"));
        let got = fs::read(output.join("one.safetensors")).expect("a file");
        assert!(want.contains(&got));
        assert_eq!(contents(&output).len(), 2);
        // Without `force` the second does not replace the file of the first, however far it is.
        fs::remove_file(output.join("one.safetensors")).expect("removed");
        let done = race(&RunOptions::new());
        assert_eq!(done.iter().filter(|one| one.is_ok()).count(), 1, "{done:?}");
        let first = usize::from(done[1].is_ok());
        assert!(fs::read(output.join("one.safetensors")).expect("a file") == want[first]);
        assert_eq!(contents(&output).len(), 2);
    }
}

/// Both jobs may find the folder empty: the second must not write beside the first.
#[cfg(unix)]
#[test]
fn two_jobs_of_one_folder() {
    let root = tempfile::tempdir().expect("a folder");
    let [input, output] = ["in", "out"].map(|name| root.path().join(name));
    checkpoint(&input);
    let types = [DataType::Float16, DataType::BFloat16];
    let want = types.map(|to| {
        let want = root.path().join(to.name());
        cast_file(&input, &want, &CastRequest::new(to)).expect("a cast");
        contents(&want)
    });
    for _ in 0..8 {
        let (input, output) = (&input, &output);
        let done = std::thread::scope(|scope| {
            let jobs = types.map(|to| scope.spawn(move || cast_file(input, output, &CastRequest::new(to))));
            jobs.map(|one| one.join().expect("no panic"))
        });
        assert_eq!(done.iter().filter(|one| one.is_ok()).count(), 1, "{done:?}");
        assert!(contents(output) == want[usize::from(done[1].is_ok())]);
        fs::remove_dir_all(output).expect("removed");
    }
}
