//! What is there where an output goes: an input, another output, a page, weights, a link, files of an earlier run.

use crate::checkpoints::shards;
use crate::common::{done, npy, refused, stderr, types};
use crate::files::{Folder, floats};
use onnx_cast::{DataType, Tensor};
use onnx_cast_file::safetensors;
use serde_json::Value;
use std::fs;
use testkit::proto::{int_attribute, model, node};

fn checkpoint(name: &str, values: &[f32]) -> Vec<u8> {
    safetensors::write(None, &[(name, floats(values).view())]).expect("bytes")
}

/// A checkpoint of three files as `shards`, of matrices that can be quantized.
fn linears(folder: &Folder, name: &str) {
    fs::create_dir(folder.path(name)).expect("a folder");
    let tensor = Tensor::from_slice(vec![32, 32], &[0.5f32; 1024]).expect("a tensor");
    for (file, tensor_name) in [("m-1", "a.weight"), ("m-2", "b.weight"), ("m-3", "c.weight")] {
        let bytes = safetensors::write(None, &[(tensor_name, tensor.view())]).expect("bytes");
        folder.write(&format!("{name}/{file}.safetensors"), bytes);
    }
    let map = r#"{"a.weight": "m-1.safetensors", "b.weight": "m-2.safetensors", "c.weight": "m-3.safetensors"}"#;
    let index = format!(r#"{{"metadata": {{"total_size": 12288}}, "weight_map": {map}}}"#);
    folder.write(&format!("{name}/model.safetensors.index.json"), index);
}

/// A model of float weights that are large enough to be cast.
fn weights(folder: &Folder, name: &str, value: f32) {
    folder.write("w.npy", npy(&floats(&[value; 300])));
    let tensor = testkit::proto::tensor(&[300], 1, &value.to_le_bytes().repeat(300)).bytes(8, "w");
    let graph = testkit::proto::Message::new().message(5, tensor);
    let opset = testkit::proto::Message::new().int(2, 21);
    let model = testkit::proto::Message::new().int(1, 10).message(7, graph).message(8, opset);
    folder.write(name, model.into_bytes());
    fs::remove_file(folder.path("w.npy")).expect("removed");
}

/// `--html` once replaced the model.
#[test]
fn a_page_replaces_only_pages() {
    let folder = Folder::new();
    let nodes = vec![node("Cast", &["x"], "y", vec![int_attribute("to", 10)])];
    folder.write("m.onnx", model(21, nodes, &[("x", 1)], &[("y", 10)]));
    folder.write("n.onnx", "another");
    folder.write("w.npy", npy(&floats(&[1.0])));
    let cannot = "cannot write: it exists, and is not a page of HTML (name another file)";
    folder.refuses("report w.npy --to float16 --html w.npy", "w.npy: --html is also FILE (name another file)");
    folder.refuses(
        "convert m.onnx o.onnx --to float16 --html m.onnx",
        "m.onnx: --html is also IN.onnx (name another file)",
    );
    folder.refuses(
        "convert m.onnx o.onnx --to float16 --html o.onnx",
        "o.onnx: --html is also OUT.onnx (name another file)",
    );
    folder.refuses("convert m.onnx o.onnx --to float16 --html n.onnx", &format!("n.onnx: {cannot}"));
    folder.refuses("report w.npy --to float16 --html m.onnx", &format!("m.onnx: {cannot}"));
    folder.refuses("explain 1 --to float16 --html m.onnx", &format!("m.onnx: {cannot}"));
    for _ in 0..2 {
        done(&folder.run("convert m.onnx o.onnx --to float16 --html page.html -q"));
        done(&folder.run("report w.npy --to float16 --html page.html"));
    }
    // A page that cannot be written is known before the work.
    let missing = "none/page.html: cannot write: No such file or directory (os error 2)";
    folder.refuses("convert m.onnx p.onnx --to float16 --html none/page.html", missing);
}

#[test]
fn an_output_of_run_is_no_other_path() {
    let folder = Folder::new();
    let nodes = vec![node("Cast", &["x"], "y", vec![int_attribute("to", 10)]), node("Identity", &["x"], "z", vec![])];
    folder.write("m.onnx", model(21, nodes, &[("x", 1)], &[("y", 10), ("z", 1)]));
    folder.write("x.npy", npy(&floats(&[1.0])));
    let line = "run m.onnx --input x.npy --output y=y.npy --output z=";
    folder.refuses(&format!("{line}./y.npy"), "./y.npy: output `z` is also output `y` (name another file)");
    folder.refuses(&format!("{line}x.npy"), "x.npy: output `z` is also input `x` (name another file)");
    done(&folder.run(&format!("{line}z.npy")));
}

/// What `cast *.npy --to bf16` means to a shell that finds two files.
#[test]
fn another_input_is_not_replaced() {
    let folder = Folder::new();
    for (first, second) in
        [("a.npy", "b.npy"), ("a.safetensors", "b.safetensors"), ("a.onnx", "b.onnx"), ("a.bin", "b.bin")]
    {
        let from = if first == "a.bin" { " --from float" } else { "" };
        for (name, value) in [(first, 1.5), (second, 2.5)] {
            match name.rsplit_once('.').expect("an extension").1 {
                "npy" => folder.write(name, npy(&floats(&[value; 300]))),
                "safetensors" => folder.write(name, checkpoint(name, &[value; 300])),
                "onnx" => weights(&folder, name, value),
                _ => folder.write(name, value.to_le_bytes().repeat(300)),
            }
        }
        let line = format!("cast {first} {second} --to bf16{from} -q");
        let says = format!(
            "{second}: it exists and holds float, as the input does, and not bfloat16, as an earlier result would \
             (name another output, or give --force to replace it)"
        );
        folder.refuses(&line, &says);
        folder.refuses(&format!("{line} --dry-run"), &says);
        // In place, to a new name, again, and to another type.
        done(&folder.run(&format!("cast {first} c{second} --to bf16{from} -q")));
        done(&folder.run(&format!("cast {first} c{second} --to bf16{from} -q")));
        done(&folder.run(&format!("cast {first} c{second} --to float16{from} -q")));
        done(&folder.run(&format!("{line} --force")));
        assert_eq!(folder.read(second).len(), {
            done(&folder.run(&format!("cast {first} d{second} --to bf16{from} -q")));
            folder.read(&format!("d{second}")).len()
        });
        done(&folder.run(&format!("cast {first} {first} --to bf16{from} -q")));
    }
    folder.write("x.safetensors", checkpoint("layer.weight", &[1.0; 64]));
    folder.write("y.safetensors", checkpoint("layer.weight", &[2.0; 64]));
    let says = refused(&folder.run("dequantize x.safetensors y.safetensors --to bf16 --layout deepseek"));
    assert!(!says.contains("--force"), "{says}");
    shards(&folder, "in");
    shards(&folder, "other");
    let says = refused(&folder.run("cast in other --to bf16"));
    assert!(says.starts_with("other/m-2.safetensors: it exists and holds float, as the input does"), "{says}");
    done(&folder.run("cast in other --to bf16 --force -q"));
}

/// The same of jobs from a model to a model; a run again, or with other patterns, replaces its own result.
#[test]
fn another_model_is_not_replaced() {
    let folder = Folder::new();
    for name in ["a.onnx", "b.onnx"] {
        weights(&folder, "w.onnx", 1.0);
        done(&folder.run(&format!("cast w.onnx {name} --to float16 -q --force")));
    }
    let nodes = || vec![node("Add", &["x", "x"], "h", vec![]), node("Softmax", &["h"], "y", vec![])];
    for name in ["c.onnx", "d.onnx"] {
        folder.write(name, model(11, nodes(), &[("x", 1)], &[("y", 1)]));
    }
    // A product becomes narrow; what stays float leaves no trace of an earlier run.
    for name in ["e.onnx", "f.onnx"] {
        folder.write(name, model(13, vec![node("MatMul", &["x", "x"], "y", vec![])], &[("x", 1)], &[("y", 1)]));
    }
    let says = "it exists, and an earlier run would have given another model, so it may be another input (name another \
                output, or give --force to replace it)";
    for (job, first, second) in [
        ("fold", "a.onnx", "b.onnx"),
        ("upgrade", "c.onnx", "d.onnx"),
        ("record", "c.onnx", "d.onnx"),
        ("convert --to float16", "e.onnx", "f.onnx"),
    ] {
        folder.refuses(&format!("{job} {first} {second} -q"), &format!("{second}: {says}"));
        let new = format!("{}.onnx", &job[..4]);
        for _ in 0..2 {
            done(&folder.run(&format!("{job} {first} {new} -q")));
        }
        folder.write("copy.onnx", folder.read(second));
        done(&folder.run(&format!("{job} {first} copy.onnx -q --force")));
        assert_eq!(folder.read("copy.onnx"), folder.read(&new), "{job}");
    }
    done(&folder.run("upgrade c.onnx to.onnx --opset 13 -q"));
    done(&folder.run("upgrade c.onnx to.onnx --opset 18 -q"));
}

/// With several inputs, one that is refused leaves nothing of those before it.
#[test]
fn all_inputs_are_checked_before_the_first_is_cast() {
    let folder = Folder::new();
    folder.write("a.npy", npy(&floats(&[1.0])));
    folder.write("b.npy", "not an array");
    let says = refused(&folder.run("cast a.npy b.npy --to float16 --out-dir out"));
    assert!(says.starts_with("b.npy: "), "{says}");
    assert_eq!(folder.names(), ["a.npy", "b.npy"]);
    folder.write("r.txt", "*=float16");
    folder.refuses(
        "cast a.npy r.txt --to float16 --out-dir . --rules-file r.txt",
        "./r.txt: the output of r.txt is also --rules-file (name another file)",
    );
}

#[test]
fn other_weights_in_the_folder() {
    let folder = Folder::new();
    shards(&folder, "in");
    fs::create_dir(folder.path("out")).expect("a folder");
    folder.write("out/m-4.safetensors", checkpoint("d", &[1.0]));
    let says = refused(&folder.run("cast in out --to bf16"));
    assert_eq!(
        says,
        "out: it holds other weights, such as m-4.safetensors, which would mix with the new ones (remove them, or \
         name another folder; --force leaves them)"
    );
    assert_eq!(fs::read_dir(folder.path("out")).expect("a folder").count(), 1);
    // By this file readers would take the new weights for quantized ones.
    fs::create_dir(folder.path("described")).expect("a folder");
    folder.write("described/hf_quant_config.json", "{}");
    let says = refused(&folder.run("cast in described --to bf16"));
    assert_eq!(
        says,
        "described: it holds the description of other weights, hf_quant_config.json, which would mix with the new \
         ones (remove them, or name another folder; --force leaves them)"
    );
    done(&folder.run("cast in out --to bf16 --force -q"));
    // In place they are the user's.
    done(&folder.run("cast out out --to bf16 -q"));
    fs::create_dir(folder.path("one")).expect("a folder");
    folder.write("one/model.safetensors", checkpoint("a", &[1.0]));
    let says = refused(&folder.run("cast one out --to bf16"));
    assert!(says.starts_with("out: it holds other weights, such as m"), "{says}");
}

/// The configuration names the type of the weights, and keeps what else it says.
#[test]
fn a_cast_notes_its_type_in_the_configuration() {
    let folder = Folder::new();
    shards(&folder, "in");
    folder.write("in/config.json", "{\n    \"torch_dtype\": \"float32\",\n    \"eps\": 1e-05\n}\n");
    let noted = |name: &str| format!("{{\n    \"torch_dtype\": \"{name}\",\n    \"eps\": 1e-05\n}}\n").into_bytes();
    done(&folder.run("cast in out --to bf16 -q"));
    assert_eq!(folder.read("out/config.json"), noted("bfloat16"));
    done(&folder.run("cast in out --to float16 -q"));
    assert_eq!(folder.read("out/config.json"), noted("float16"));
    // A type that no model computes in, and a few tensors of another.
    done(&folder.run("cast in codes --to float8e4m3fn -q"));
    done(&folder.run("cast in few --to float16 --include a -q"));
    done(&folder.run("bitcast in bits --to uint32 -q"));
    for kept in ["codes", "few", "bits"] {
        assert_eq!(folder.read(&format!("{kept}/config.json")), noted("float32"), "{kept}");
    }
    done(&folder.run("cast in in --to float16 --no-copy-others -q"));
    assert_eq!(folder.read("in/config.json"), noted("float32"));
    done(&folder.run("cast in in --to bf16 -q"));
    assert_eq!(folder.read("in/config.json"), noted("bfloat16"));
    folder.write("in/config.json", "{\"model_type\": \"a\"}");
    done(&folder.run("cast in added --to float16 -q"));
    assert_eq!(folder.read("added/config.json"), br#"{"model_type": "a", "torch_dtype": "float16"}"#);
    // Of something else than transformers.
    folder.write("in/config.json", "{\"eps\": 1}");
    done(&folder.run("cast in others --to float16 -q"));
    assert_eq!(folder.read("others/config.json"), br#"{"eps": 1}"#);
}

/// `--resume` once put back what was edited, without a word.
#[test]
fn a_run_that_goes_on_keeps_edited_files() {
    let folder = Folder::new();
    shards(&folder, "in");
    folder.write("in/config.json", "{\"model_type\": \"1\"}");
    folder.write("in/LICENSE", "theirs");
    folder.write("in/tokenizer.json", "{}");
    done(&folder.run("cast in out --to float16 -q"));
    folder.write("out/LICENSE", "mine");
    folder.write("out/config.json", "{\"model_type\": \"2\"}");
    let said = stderr(&folder.run("cast in out --to float16 --resume"));
    for name in ["LICENSE", "config.json"] {
        assert!(said.contains(&format!("\n  {name} was there with other content, and is kept\n")), "{said}");
    }
    assert!(!said.contains("tokenizer.json was"), "{said}");
    assert_eq!(folder.read("out/LICENSE"), b"mine");
    assert_eq!(folder.read("out/config.json"), br#"{"model_type": "2", "torch_dtype": "float16"}"#);
    let json: Value = serde_json::from_str(&done(&folder.run("cast in out --to bf16 --resume --json"))).expect("JSON");
    assert_eq!(json["kept_others"], serde_json::json!(["LICENSE", "config.json"]));
    assert_eq!(folder.read("out/config.json"), br#"{"model_type": "2", "torch_dtype": "bfloat16"}"#);
    // Without it everything is written.
    done(&folder.run("cast in out --to bf16 -q"));
    assert_eq!(folder.read("out/LICENSE"), b"theirs");
    assert_eq!(folder.read("out/config.json"), br#"{"model_type": "1", "torch_dtype": "bfloat16"}"#);
}

#[cfg(unix)]
mod links {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A snapshot in the cache of huggingface_hub: links to files that are named by their hashes.
    fn cached(folder: &Folder, files: &[&str]) {
        fs::create_dir_all(folder.path("hub/blobs")).expect("a folder");
        fs::create_dir_all(folder.path("hub/snapshots/main")).expect("a folder");
        for (index, file) in files.iter().enumerate() {
            let name = file.rsplit('/').next().expect("a name");
            fs::rename(folder.path(file), folder.path(&format!("hub/blobs/{index:064x}"))).expect("moved");
            symlink(format!("../../blobs/{index:064x}"), folder.path(&format!("hub/snapshots/main/{name}")))
                .expect("a link");
        }
    }

    #[test]
    fn a_checkpoint_in_a_cache_is_read_and_not_changed() {
        let folder = Folder::new();
        shards(&folder, "in");
        folder.write("in/config.json", "{\"model_type\": \"1\"}");
        done(&folder.run("cast in want --to bf16 -q"));
        let names =
            ["m-1.safetensors", "m-2.safetensors", "m-3.safetensors", "model.safetensors.index.json", "config.json"];
        let files: Vec<String> = names.iter().map(|name| format!("in/{name}")).collect();
        cached(&folder, &files.iter().map(String::as_str).collect::<Vec<_>>());
        done(&folder.run("cast hub/snapshots/main got --to bf16 -q"));
        for name in names {
            assert_eq!(folder.read(&format!("got/{name}")), folder.read(&format!("want/{name}")), "{name}");
            assert!(!fs::symlink_metadata(folder.path(&format!("got/{name}"))).expect("a file").is_symlink());
        }
        done(&folder.run("info hub/snapshots/main"));
        let blobs =
            || (0..names.len()).map(|index| folder.read(&format!("hub/blobs/{index:064x}"))).collect::<Vec<_>>();
        let before = blobs();
        let says = refused(&folder.run("cast hub/snapshots/main hub/snapshots/main --to bf16"));
        let link = "a symlink, which is not written through (remove it, or name another output)";
        assert!(says.starts_with("hub/snapshots/main/") && says.ends_with(link), "{says}");
        let says = refused(
            &folder.run("cast hub/snapshots/main/m-1.safetensors hub/snapshots/main/m-1.safetensors --to bf16"),
        );
        assert!(
            says.ends_with("a symlink to a file of a cache, which is never changed (name another output)"),
            "{says}"
        );
        assert_eq!(blobs(), before);
    }

    #[test]
    fn links_out_of_a_folder_are_refused() {
        let folder = Folder::new();
        folder.write("secret", "secret");
        folder.write("outside.safetensors", checkpoint("a.weight", &[1.0, 2.0]));
        let out = "a symlink out of the folder, which is not followed (put the file itself there)";
        for (link, target) in [
            ("LICENSE", "../secret"),
            ("config.json", "../secret"),
            ("m-1.safetensors", "../outside.safetensors"),
            ("model.safetensors.index.json", "../secret"),
        ] {
            let _ = fs::remove_dir_all(folder.path("in"));
            linears(&folder, "in");
            let _ = fs::remove_file(folder.path(&format!("in/{link}")));
            symlink(target, folder.path(&format!("in/{link}"))).expect("a link");
            for job in ["cast in out --to bf16", "quantize in out --to int8"] {
                let says = refused(&folder.run(job));
                assert_eq!(says, format!("in/{link}: cannot read: {out}"), "{job}");
                assert!(!folder.path("out").exists(), "{job}");
            }
        }
        // Within the folder they are followed, and copied as files.
        let _ = fs::remove_dir_all(folder.path("in"));
        linears(&folder, "in");
        folder.write("in/NOTICE", "notice");
        symlink("NOTICE", folder.path("in/LICENSE")).expect("a link");
        done(&folder.run("cast in out --to bf16 -q"));
        assert_eq!(folder.read("out/LICENSE"), b"notice");
    }

    /// `cast ck ck` once replaced the file that a shard's link led to.
    #[test]
    fn nothing_is_written_through_a_link_that_nobody_named() {
        let folder = Folder::new();
        linears(&folder, "in");
        let link = "cannot write: a symlink, which is not written through (remove it, or name another output)";
        for name in ["m-2.safetensors", "model.safetensors.index.json", "config.json"] {
            folder.write("in/config.json", "{\"eps\": 1}");
            let _ = fs::remove_dir_all(folder.path("out"));
            fs::create_dir(folder.path("out")).expect("a folder");
            folder.write("outside", "theirs");
            symlink("../outside", folder.path(&format!("out/{name}"))).expect("a link");
            for job in ["cast in out --to bf16", "quantize in out --to int8"] {
                assert_eq!(refused(&folder.run(job)), format!("out/{name}: {link}"), "{job}");
            }
            assert_eq!(folder.read("outside"), b"theirs", "{name}");
        }
        folder.write("a.npy", npy(&floats(&[1.0])));
        fs::create_dir(folder.path("dir")).expect("a folder");
        symlink("../outside", folder.path("dir/a.npy")).expect("a link");
        folder.refuses("cast a.npy --to bf16 --out-dir dir", &format!("dir/a.npy: {link}"));
        weights(&folder, "m.onnx", 1.0);
        symlink("outside", folder.path("n.onnx.data")).expect("a link");
        let says =
            refused(&folder.run("cast m.onnx n.onnx --to bf16 --external-threshold 0 --external-data n.onnx.data"));
        assert!(says.ends_with("it is a symlink, which is not written through (want another name)"), "{says}");
        assert_eq!(folder.read("outside"), b"theirs");
    }

    /// External data as links into the blobs of the cache was refused.
    #[test]
    fn a_model_in_a_cache() {
        let folder = Folder::new();
        weights(&folder, "m.onnx", 1.5);
        done(&folder.run("cast m.onnx in.onnx --to float --external-data in.onnx_data --external-threshold 0 -q"));
        done(&folder.run("cast in.onnx want.onnx --to float16 -q"));
        cached(&folder, &["in.onnx", "in.onnx_data"]);
        done(&folder.run("cast hub/snapshots/main/in.onnx got.onnx --to float16 -q"));
        done(&folder.run("diff want.onnx got.onnx"));
        let says = refused(&folder.run("cast hub/snapshots/main/in.onnx hub/snapshots/main/in.onnx --to float16"));
        assert!(says.contains("a symlink"), "{says}");
        // Elsewhere such a link leads out of the folder.
        fs::rename(folder.path("hub/snapshots"), folder.path("hub/else")).expect("moved");
        let says = refused(&folder.run("info hub/else/main/in.onnx"));
        assert!(says.contains("a symlink out of the model's folder"), "{says}");
    }

    /// An output is for nobody for whom its input is not.
    #[test]
    fn private_files_stay_private() {
        use std::os::unix::fs::PermissionsExt;
        let folder = Folder::new();
        let mode = |name: &str| fs::metadata(folder.path(name)).expect("a file").permissions().mode() & 0o777;
        let private =
            |name: &str| fs::set_permissions(folder.path(name), fs::Permissions::from_mode(0o600)).expect("a mode");
        folder.write("x.npy", npy(&floats(&[1.0; 300])));
        shards(&folder, "in");
        folder.write("in/config.json", "{\"eps\": 1}");
        folder.write("in/LICENSE", "free");
        weights(&folder, "m.onnx", 1.0);
        for name in ["x.npy", "in/m-1.safetensors", "in/config.json", "in/LICENSE", "m.onnx"] {
            private(name);
        }
        done(&folder.run("cast x.npy y.npy --to float16 -q"));
        done(&folder.run("cast x.npy y.npz --to float16 -q"));
        done(&folder.run("cast in out --to float16 -q"));
        done(&folder.run("cast m.onnx n.onnx --to float16 --external-data n.data --external-threshold 0 -q"));
        let private = ["y.npy", "y.npz", "out/m-1.safetensors", "out/config.json", "out/LICENSE", "n.onnx", "n.data"];
        assert_eq!(private.map(mode), [0o600; 7]);
        folder.write("plain", "");
        assert_eq!(mode("out/m-2.safetensors"), mode("plain"));
        // What is replaced keeps its own.
        fs::set_permissions(folder.path("y.npy"), fs::Permissions::from_mode(0o664)).expect("a mode");
        done(&folder.run("cast x.npy y.npy --to float16 -q"));
        assert_eq!(mode("y.npy"), 0o664);
    }

    /// The superuser does not take files from their owners.
    #[test]
    fn a_file_that_is_replaced_keeps_its_owner() {
        use std::os::unix::fs::{MetadataExt, chown};
        let folder = Folder::new();
        folder.write("x.npy", npy(&floats(&[1.0])));
        let own = fs::metadata(folder.path("x.npy")).expect("a file");
        let other = chown(folder.path("x.npy"), Some(12345), Some(12346)).is_ok();
        done(&folder.run("cast x.npy x.npy --to float16 -q"));
        let now = fs::metadata(folder.path("x.npy")).expect("a file");
        let want = if other { (12345, 12346) } else { (own.uid(), own.gid()) };
        assert_eq!((now.uid(), now.gid()), want);
    }

    /// Two jobs would mix their files under one index.
    #[test]
    fn a_folder_that_another_job_writes_to() {
        let folder = Folder::new();
        linears(&folder, "in");
        done(&folder.run("cast in out --to float16 -q"));
        let before = folder.read("out/m-1.safetensors");
        let held = fs::File::open(folder.path("out")).expect("a folder");
        held.lock().expect("locked");
        let busy = "out: cannot write: another job is writing to this folder (wait for it, or name another output)";
        for job in ["cast in out --to bf16", "quantize in out --to int8"] {
            assert_eq!(refused(&folder.run(job)), busy, "{job}");
        }
        assert_eq!(folder.read("out/m-1.safetensors"), before);
        done(&folder.run("cast in out --to bf16 --dry-run"));
        drop(held);
        done(&folder.run("cast in out --to bf16 -q"));
        let tensors = crate::common::tensors(folder.read("out/m-1.safetensors"));
        assert_eq!(types(&tensors), [("a.weight".to_owned(), DataType::BFloat16)]);
    }
}

/// Many arrays of one name and type do not hide that the second is another input.
#[test]
fn a_result_that_keeps_some_tensors_is_replaced() {
    let folder = Folder::new();
    let (weight, ids) = (floats(&[1.0; 64]), Tensor::from_slice(vec![1], &[7i64]).expect("a tensor"));
    let bytes = safetensors::write(None, &[("w", weight.view()), ("norm", weight.view()), ("ids", ids.view())]);
    folder.write("in.safetensors", bytes.expect("bytes"));
    done(&folder.run("cast in.safetensors out.safetensors --to bf16 --exclude norm -q"));
    done(&folder.run("cast in.safetensors out.safetensors --to bf16 -q"));
    done(&folder.run("cast out.safetensors back.safetensors --to float -q"));
    let says = refused(&folder.run("cast in.safetensors back.safetensors --to bf16 -q"));
    assert!(says.contains("back.safetensors: it exists and holds float"), "{says}");
}
