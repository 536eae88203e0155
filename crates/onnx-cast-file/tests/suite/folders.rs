//! Folders as people have them: a cache of huggingface_hub, pipelines with folders of their own, Mistral's own files
//! beside the others, weights that torch.save wrote.

use crate::common::folder;
use crate::common::replacing::{cast_file, quantize_file};

use onnx_cast::DataType;
use onnx_cast_file::{
    CastRequest, DiffRequest, FileError, InspectRequest, Loss, QuantizeRequest, QuantizedFormat, RunOptions, Summary,
    diff, inspect,
};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use tempfile::TempDir;

/// Of the two, the folder `in` and the path `out`, which is not there yet.
struct Place(TempDir);

impl Place {
    fn new() -> Place {
        let place = Place(tempfile::tempdir().expect("a folder"));
        fs::create_dir(place.input()).expect("a folder");
        place
    }

    fn input(&self) -> PathBuf {
        self.0.path().join("in")
    }

    fn output(&self) -> PathBuf {
        self.0.path().join("out")
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.input().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, bytes).expect("written");
    }

    fn link(&self, target: &str, name: &str) {
        let path = self.input().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        symlink(target, path).expect("a link");
    }

    fn cast(&self, within: &str) -> Result<Summary, FileError> {
        cast_file(self.input().join(within), self.output(), &CastRequest::new(DataType::BFloat16))
    }

    /// The error of every job; nothing is written.
    fn refused(&self, within: &str) -> String {
        let path = self.input().join(within);
        let error = self.cast(within).expect_err("an error").to_string();
        assert_eq!(inspect(&path, &InspectRequest::default()).expect_err("an error").to_string(), error);
        assert_eq!(diff(&path, &path, &DiffRequest::default()).expect_err("an error").to_string(), error);
        let quantize = QuantizeRequest::new("mxfp4".parse::<QuantizedFormat>().expect("a format"));
        assert_eq!(quantize_file(&path, self.output(), &quantize).expect_err("an error").to_string(), error);
        assert!(!self.output().exists());
        error.replace(&format!("{}: ", path.display()), "").replace(&format!("{}/", self.0.path().display()), "")
    }

    /// What is in the output, by its paths.
    fn written(&self) -> Vec<String> {
        folder::files(&self.output())
    }
}

/// A file with a matrix of ones.
fn weights(name: &str) -> Vec<u8> {
    let header = format!(r#"{{"{name}":{{"dtype":"F32","shape":[2,32],"data_offsets":[0,256]}}}}"#);
    let data = 1f32.to_le_bytes().repeat(64);
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat()
}

fn index(file: &str) -> Vec<u8> {
    format!(r#"{{"metadata":{{"total_size":256}},"weight_map":{{"a.weight":"{file}"}}}}"#).into_bytes()
}

/// A cache with a snapshot for each revision.
fn cache(revisions: &[&str]) -> Place {
    let place = Place::new();
    place.write("blobs/b1", &weights("a.weight"));
    place.write("blobs/b2", br#"{"torch_dtype": "float32"}"#);
    for revision in revisions {
        place.link("../../blobs/b1", &format!("snapshots/{revision}/model.safetensors"));
        place.link("../../blobs/b2", &format!("snapshots/{revision}/config.json"));
        place.link("../../../blobs/b2", &format!("snapshots/{revision}/1_Pooling/config.json"));
    }
    place
}

#[test]
fn a_cache_stands_for_its_snapshot() {
    for (revisions, main, within) in [
        (&["abc"][..], None, ""),
        (&["abc"], None, "snapshots"),
        (&["abc", "def"], Some("def\n"), ""),
        (&["abc", "def"], Some("def"), "snapshots"),
        // A branch whose snapshot is gone, where there is only one other.
        (&["abc"], Some("gone"), ""),
    ] {
        let place = cache(revisions);
        main.into_iter().for_each(|main| place.write("refs/main", main.as_bytes()));
        let done = place.cast(within).expect("cast");
        assert_eq!((done.copied, &done.left_out[..]), (2, &[][..]), "{revisions:?}, {main:?}, {within:?}");
        assert_eq!(place.written(), ["1_Pooling/config.json", "config.json", "model.safetensors"]);
        let config = fs::read_to_string(place.output().join("config.json")).expect("a configuration");
        assert_eq!(config, r#"{"torch_dtype": "bfloat16"}"#);
        let path = place.input().join(within);
        assert_eq!(inspect(&path, &InspectRequest::default()).expect("listed").tensors.len(), 1);
        assert_eq!(diff(&path, &path, &DiffRequest::default()).expect("compared"), []);
    }
}

#[test]
fn a_cache_that_does_not_tell_its_snapshot_is_refused() {
    let many = "a cache with 2 snapshots, `abc`, `def` (name one of these folders)";
    assert_eq!(cache(&["abc", "def"]).refused(""), many);
    for main in ["../../../etc", "/etc", "..", "", "a/b", &"x".repeat(5000)] {
        let place = cache(&["abc", "def"]);
        place.write("refs/main", main.as_bytes());
        assert_eq!(place.refused("snapshots"), many, "{main:?}");
    }
    let empty = Place::new();
    empty.write("refs/main", b"abc");
    fs::create_dir(empty.input().join("snapshots")).expect("a folder");
    assert_eq!(empty.refused(""), "a cache without a snapshot (download the model again)");
    // A snapshot that leads back to the cache is not followed again.
    let circle = Place::new();
    circle.write("refs/main", b"abc");
    circle.link("..", "snapshots/abc");
    let said = circle.refused("");
    assert!(
        said.ends_with("0 of *.safetensors.index.json and 0 of *.safetensors in this folder (want one; name the file)")
    );
    // A file of a snapshot that leads out of the cache.
    let out = cache(&["abc"]);
    fs::remove_file(out.input().join("snapshots/abc/model.safetensors")).expect("removed");
    fs::write(out.0.path().join("secret"), weights("a.weight")).expect("written");
    out.link("../../../secret", "snapshots/abc/model.safetensors");
    assert!(out.refused("").contains("a symlink out of the folder, which is not followed"));
}

#[test]
fn mistrals_own_files_are_the_same_weights_again() {
    let place = Place::new();
    place.write("model.safetensors", &weights("a.weight"));
    place.write("consolidated.safetensors", &weights("b.weight"));
    let done = place.cast("").expect("cast");
    assert_eq!(done.tensors[0].name, "a.weight");
    let left_out = [("consolidated.safetensors".to_owned(), "other weights".to_owned())];
    assert_eq!(done.left_out, left_out);
    assert_eq!(place.written(), ["model.safetensors"]);
    let split = Place::new();
    split.write("model-00001-of-00001.safetensors", &weights("a.weight"));
    split.write("model.safetensors.index.json", &index("model-00001-of-00001.safetensors"));
    split.write("consolidated-00001-of-00001.safetensors", &weights("b.weight"));
    split.write("consolidated.safetensors.index.json", &index("consolidated-00001-of-00001.safetensors"));
    assert_eq!(split.cast("").expect("cast").tensors[0].name, "a.weight");
    assert_eq!(split.written(), ["model-00001-of-00001.safetensors", "model.safetensors.index.json"]);
    let alone = Place::new();
    alone.write("consolidated.safetensors", &weights("b.weight"));
    assert_eq!(alone.cast("").expect("cast").tensors[0].name, "b.weight");
}

#[test]
fn folders_of_other_things_say_what_to_name() {
    let diffusers = Place::new();
    diffusers.write("unet/diffusion_pytorch_model.safetensors", &weights("a.weight"));
    diffusers.write("vae/diffusion_pytorch_model.safetensors", &weights("a.weight"));
    diffusers.write("scheduler/scheduler_config.json", b"{}");
    let said = "no weights in this folder, but in its folders `unet`, `vae` (name one of them)";
    assert_eq!(diffusers.refused(""), said);
    diffusers.cast("unet").expect("cast");
    let caches = Place::new();
    (1..=5).for_each(|number| caches.write(&format!("models--org--model-{number}/refs/main"), b"abc"));
    caches.write("datasets--org--data/refs/main", b"abc");
    let models =
        "`models--org--model-1`, `models--org--model-2`, `models--org--model-3`, `models--org--model-4` and 1 more";
    assert_eq!(caches.refused(""), format!("a cache of 5 models, {models} (name one of these folders)"));
    let pickles = Place::new();
    (1..=6).for_each(|part| pickles.write(&format!("pytorch_model-0000{part}-of-00006.bin"), b"PK\x03\x04"));
    pickles.write("pytorch_model.bin.index.json", b"{}");
    assert!(pickles.refused("").contains("pytorch_model.bin.index.json: the index is not valid"));
    fs::remove_file(pickles.input().join("pytorch_model.bin.index.json")).expect("removed");
    let said = "0 of *.bin.index.json and 6 of *.bin, *.pt, *.pth or *.ckpt in this folder, \
                `pytorch_model-00001-of-00006.bin`, `pytorch_model-00002-of-00006.bin`, \
                `pytorch_model-00003-of-00006.bin`, `pytorch_model-00004-of-00006.bin` and 2 more (the index that \
                belongs to them is missing)";
    assert_eq!(pickles.refused(""), said);
    let gguf = Place::new();
    gguf.write("model-Q4_K_M.gguf", b"GGUF");
    let said = "no .safetensors files in this folder, but `model-Q4_K_M.gguf` (name the file)";
    assert_eq!(gguf.refused(""), said);
    let parts = Place::new();
    parts.write("model-00001-of-00002.safetensors", &weights("a.weight"));
    parts.write("model-00002-of-00002.safetensors", &weights("b.weight"));
    let said = "0 of *.safetensors.index.json and 2 of *.safetensors in this folder, \
                `model-00001-of-00002.safetensors`, \
                `model-00002-of-00002.safetensors` (the index that belongs to them is missing)";
    assert_eq!(parts.refused(""), said);
    let several = Place::new();
    several.write("adapter.safetensors", &weights("a.weight"));
    several.write("model.safetensors", &weights("a.weight"));
    let said = "0 of *.safetensors.index.json and 2 of *.safetensors in this folder, `adapter.safetensors`, \
                `model.safetensors` (want one; name the file)";
    assert_eq!(several.refused(""), said);
}

#[test]
fn variants_of_a_file_are_left_out() {
    let place = Place::new();
    for name in ["model.fp16.safetensors", "model.non_ema.safetensors", "model.safetensors"] {
        place.write(name, &weights(if name == "model.safetensors" { "plain.weight" } else { "variant.weight" }));
    }
    let done = place.cast("").expect("cast");
    assert_eq!(done.tensors[0].name, "plain.weight");
    let left_out: Vec<&str> = done.left_out.iter().map(|(name, _)| &**name).collect();
    assert_eq!(left_out, ["model.fp16.safetensors", "model.non_ema.safetensors"]);
    assert_eq!(place.written(), ["model.safetensors"]);
    // A variant alone is what is meant; two are not.
    fs::remove_file(place.input().join("model.safetensors")).expect("removed");
    fs::remove_dir_all(place.output()).expect("removed");
    assert!(place.refused("").contains("2 of *.safetensors in this folder"));
    fs::remove_file(place.input().join("model.non_ema.safetensors")).expect("removed");
    assert_eq!(place.cast("").expect("cast").tensors[0].name, "variant.weight");
}

#[test]
fn folders_within_are_copied_unless_they_hold_weights() {
    let place = Place::new();
    place.write("model.safetensors", &weights("a.weight"));
    place.write("modules.json", b"[]");
    place.write("1_Pooling/config.json", b"{\"torch_dtype\": \"float32\"}");
    place.write("2_Dense/model.safetensors", &weights("linear.weight"));
    place.write("2_Dense/config.json", b"{}");
    place.write("a/b/c/d/deep.txt", b"deep");
    place.write("a/b/c/d/e/deeper.txt", b"deeper");
    place.write("onnx/x/model.onnx", b"");
    place.write("pytorch_model.bin", b"PK\x03\x04");
    place.write(".cache/x", b"hidden");
    place.link("..", "1_Pooling/loop");
    place.link(".", "loop");
    let done = place.cast("").expect("cast");
    let weights_within = "a folder with weights of its own: do it separately";
    let want = [
        ("1_Pooling/loop", "a link to a folder"),
        ("2_Dense", weights_within),
        ("a/b/c/d/e", "a folder nested too deep"),
        ("loop", "a link to a folder"),
        ("onnx", weights_within),
        ("pytorch_model.bin", "other weights"),
    ];
    let got: Vec<(&str, &str)> = done.left_out.iter().map(|(name, why)| (&**name, &**why)).collect();
    assert_eq!(got, want);
    let want = ["1_Pooling/config.json", "a/b/c/d/deep.txt", "model.safetensors", "modules.json"];
    assert_eq!(place.written(), want);
    // The configuration of the model is that beside its weights, and no other.
    let pooling = fs::read_to_string(place.output().join("1_Pooling/config.json")).expect("a configuration");
    assert_eq!(pooling, "{\"torch_dtype\": \"float32\"}");
    // The same again finds everything there.
    let request = CastRequest::new(DataType::BFloat16).run(RunOptions::new().resume(true));
    let again = cast_file(place.input(), place.output(), &request).expect("resumed");
    assert_eq!((again.already_there, again.kept_others.len()), (1, 0));
    // Nothing is written through a link in the output, and an output within the input is not copied into itself.
    fs::remove_dir_all(place.output().join("1_Pooling")).expect("removed");
    symlink(place.0.path(), place.output().join("1_Pooling")).expect("a link");
    let error = place.cast("").expect_err("a link").to_string();
    assert!(error.contains("a symlink, which is not written through"), "{error}");
    assert!(!place.0.path().join("config.json").exists());
    let inner = place.input().join("out");
    for _ in 0..2 {
        cast_file(place.input(), &inner, &CastRequest::new(DataType::BFloat16)).expect("cast");
        assert!(!inner.join("out").exists());
    }
}

/// Weights beside the folders of a cache would belong to no snapshot.
#[test]
fn nothing_is_written_into_the_root_of_a_cache() {
    for within in ["", "snapshots"] {
        let place = cache(&["abc"]);
        let root = place.input();
        for path in [root.clone(), root.join("snapshots"), root.join("snapshots/abc")] {
            let request = CastRequest::new(DataType::BFloat16);
            let error = cast_file(&path, root.join(within), &request).expect_err("a cache").to_string();
            let want = "the folder of a cache of huggingface_hub, which is never changed (name another output)";
            assert!(error.ends_with(want), "{error}");
            let quantize = QuantizeRequest::new("mxfp4".parse::<QuantizedFormat>().expect("a format"));
            let error = quantize_file(&path, root.join(within), &quantize).expect_err("a cache").to_string();
            assert!(error.ends_with(want), "{error}");
        }
        assert!(!root.join("model.safetensors").exists() && !root.join("snapshots/model.safetensors").exists());
    }
}

#[test]
fn a_failed_job_leaves_no_folder() {
    let header = r#"{"a.weight":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#;
    let large = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &1e30f32.to_le_bytes()].concat();
    let place = Place::new();
    place.write("model.safetensors", &large);
    let run = RunOptions::default().fail_on(vec![Loss::Overflow]);
    let request = CastRequest::new(DataType::Float16).run(run);
    let output = place.output().join("more/folders");
    cast_file(place.input(), &output, &request).expect_err("values overflow");
    assert!(!place.output().exists());
    // A folder that was there stays, and so does what is in one.
    fs::create_dir_all(place.output().join("more")).expect("a folder");
    cast_file(place.input(), &output, &request).expect_err("values overflow");
    assert!(place.output().join("more").exists() && !output.exists());
    cast_file(place.input(), &output, &CastRequest::new(DataType::BFloat16)).expect("cast");
    cast_file(place.input(), &output, &request).expect_err("values overflow");
    assert!(output.join("model.safetensors").exists());
}
