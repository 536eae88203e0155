//! Outputs that exist: inputs, other outputs, pages, weights, links, and files of an earlier run.

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
    folder.refuses("convert m.onnx o.onnx --to float16 --html n.onnx -f", &format!("n.onnx: {cannot}"));
    folder.refuses("report w.npy --to float16 --html m.onnx -f", &format!("m.onnx: {cannot}"));
    folder.refuses("explain 1 --to float16 --html m.onnx -f", &format!("m.onnx: {cannot}"));
    for _ in 0..2 {
        done(&folder.run("convert m.onnx o.onnx --to float16 --html page.html -q -f"));
        done(&folder.run("report w.npy --to float16 --html page.html -f"));
    }
    // A page that cannot be written is known before the work.
    // A dry run checks the page's name, and writes nothing.
    for more in ["--dry-run", "--explain x"] {
        done(&folder.run(&format!("convert m.onnx p.onnx --to float16 --html dry.html {more}")));
        assert!(!folder.path("dry.html").exists() && !folder.path("p.onnx").exists(), "{more}");
    }
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

/// Foreign weights stayed beside the new ones, and a foreign configuration was mixed with them.
#[test]
fn a_folder_is_replaced_with_force_alone() {
    let folder = Folder::new();
    shards(&folder, "in");
    folder.write("in/tokenizer.json", "ours");
    fs::create_dir(folder.path("out")).expect("a folder");
    let foreign = [
        "pytorch_model.bin",
        "pytorch_model.bin.index.json",
        "m-4.safetensors",
        "model.gguf",
        "hf_quant_config.json",
        "adapter_config.json",
        "model_index.json",
        "modules.json",
        "model.safetensors.index.fp16.json",
        "config.json",
    ];
    let put = || {
        for name in foreign.iter().chain(&["tokenizer.json", "notes.txt", "model.safetensors.index.json"]) {
            folder.write(&format!("out/{name}"), "theirs");
        }
        fs::create_dir_all(folder.path("out/more")).expect("a folder");
        folder.write("out/more/model.safetensors", "theirs");
    };
    put();
    let ways = "(name another folder, --force to replace it, or --resume to continue it)";
    for job in ["cast in out --to bf16", "cast in out --to bf16 --dry-run", "bitcast in out --to uint32"] {
        assert_eq!(refused(&folder.run(job)), format!("out: already exists and is not empty {ways}"), "{job}");
    }
    // They are no part of what is continued.
    let says = refused(&folder.run("cast in out --to bf16 --resume"));
    let want = "out: it holds adapter_config.json, which is not part of this output (remove it, name another folder, or --force \
                to replace the folder)";
    assert_eq!(says, want);
    assert!(foreign.iter().all(|name| folder.read(&format!("out/{name}")) == b"theirs"));
    let plan = done(&folder.run("cast in out --to bf16 -f --dry-run"));
    let mut removed = foreign;
    removed.sort_unstable();
    let names = removed.join(", ");
    assert!(plan.ends_with(&format!("{names} would be removed\n")), "{plan}");
    let said = stderr(&folder.run("cast in out --to bf16 -f"));
    assert!(said.contains(&format!("\n  removed from out: {names}\n")), "{said}");
    let check = || {
        assert!(foreign.iter().all(|name| !folder.path(&format!("out/{name}")).exists()));
        assert_eq!(folder.read("out/tokenizer.json"), b"ours");
        for name in ["notes.txt", "more/model.safetensors"] {
            assert_eq!(folder.read(&format!("out/{name}")), b"theirs", "{name}");
        }
        done(&folder.run("info out"));
    };
    check();
    put();
    let json: Value = serde_json::from_str(&done(&folder.run("cast in out --to bf16 -f --json"))).expect("JSON");
    assert_eq!(json["removed"], serde_json::json!(removed));
    check();
    // In place they are the user's.
    folder.write("out/pytorch_model.bin", "mine");
    done(&folder.run("cast out out --to bf16 -f -q"));
    assert_eq!(folder.read("out/pytorch_model.bin"), b"mine");
}

/// Files of the same name are not those of the job that is continued.
#[test]
fn what_is_replaced_is_gone_before_the_new_files_come() {
    let folder = Folder::new();
    shards(&folder, "in");
    folder.write("in/config.json", "{\"model_type\": \"ours\"}");
    done(&folder.run("cast in out --to float16 -q"));
    folder.write("out/config.json", "{\"model_type\": \"theirs\"}");
    // The second file cannot be replaced.
    fs::remove_file(folder.path("out/m-1.safetensors")).expect("removed");
    fs::create_dir(folder.path("out/m-1.safetensors")).expect("a folder");
    refused(&folder.run("cast in out --to bf16 -f"));
    let left = ["config.json", "model.safetensors.index.json"].map(|name| folder.path(&format!("out/{name}")).exists());
    assert_eq!(left, [false, false], "no mixture is read");
    fs::remove_dir(folder.path("out/m-1.safetensors")).expect("removed");
    done(&folder.run("cast in out --to bf16 --resume -f -q"));
    assert_eq!(folder.read("out/config.json"), br#"{"model_type": "ours", "torch_dtype": "bfloat16"}"#);
    done(&folder.run("cast in want --to bf16 -q"));
    done(&folder.run("diff out want"));
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
    done(&folder.run("cast in out --to float16 -f -q"));
    assert_eq!(folder.read("out/config.json"), noted("float16"));
    // A type that no model computes in, and a few tensors of another.
    done(&folder.run("cast in codes --to float8e4m3fn -q"));
    done(&folder.run("cast in few --to float16 --include a -q"));
    done(&folder.run("bitcast in bits --to uint32 -q"));
    for kept in ["codes", "few", "bits"] {
        assert_eq!(folder.read(&format!("{kept}/config.json")), noted("float32"), "{kept}");
    }
    done(&folder.run("cast in in --to float16 --no-copy-others -f -q"));
    assert_eq!(folder.read("in/config.json"), noted("float32"));
    done(&folder.run("cast in in --to bf16 -f -q"));
    assert_eq!(folder.read("in/config.json"), noted("bfloat16"));
    done(&folder.run("cast in/model.safetensors.index.json in -f -q --to float16"));
    assert_eq!(folder.read("in/config.json"), noted("float16"));
    let said = stderr(&folder.run("cast in/m-1.safetensors in/m-1.safetensors -f --to bf16"));
    assert!(said.contains("in/config.json is not changed, and may describe the weights of before"), "{said}");
    folder.write("in/config.json", "{\"model_type\": \"a\"}");
    done(&folder.run("cast in added --to float16 -q"));
    assert_eq!(folder.read("added/config.json"), br#"{"model_type": "a", "torch_dtype": "float16"}"#);
    // Of something else than transformers.
    folder.write("in/config.json", "{\"eps\": 1}");
    done(&folder.run("cast in others --to float16 -q"));
    assert_eq!(folder.read("others/config.json"), br#"{"eps": 1}"#);
}

/// `--resume` once replaced the weights of another output, and left its description.
#[test]
fn another_output_is_not_continued() {
    let folder = Folder::new();
    shards(&folder, "in");
    folder.write("one.safetensors", checkpoint("a", &[1.0, 2.0]));
    folder.write("in/config.json", "{\"model_type\": \"1\"}");
    done(&folder.run("cast in half --to float16 -q"));
    done(&folder.run("cast one.safetensors half.safetensors --to float16 -q"));
    let refuses = |line: &str, file: &str| {
        let says =
            format!("{file}: not what this job writes (remove it, name another output, or --force to replace it)");
        assert_eq!(refused(&folder.run(line)), says, "{line}");
        assert_eq!(refused(&folder.run(&format!("{line} -n"))), says, "{line} -n");
    };
    refuses("cast in half --to float8e4m3fn --resume", "half/m-2.safetensors");
    refuses("cast one.safetensors half.safetensors --to float8e4m3fn --resume", "half.safetensors");
    // A file of the same length with another type.
    refuses("cast in half --to bfloat16 --resume", "half/m-2.safetensors");
    refuses("cast one.safetensors half.safetensors --to int16 --resume", "half.safetensors");
    // Other files come after the weights, and the index behind all.
    fs::remove_file(folder.path("half/m-2.safetensors")).expect("removed");
    folder.write("half/config.json", "{\"model_type\": \"2\"}");
    refuses("cast in half --to float16 --resume", "half/config.json");
    folder.write("half/model.safetensors.index.json", "{\"weight_map\": {}}");
    refuses("cast in half --to float16 --resume", "half/model.safetensors.index.json");
    fs::create_dir(folder.path("theirs")).expect("a folder");
    folder.write("theirs/config.json", "{\"model_type\": \"2\"}");
    linears(&folder, "matrices");
    folder.write("matrices/config.json", "{\"model_type\": \"1\"}");
    refuses("quantize matrices theirs --to int8 --resume", "theirs/config.json");
    assert_eq!(fs::read_dir(folder.path("theirs")).expect("a folder").count(), 1);
}

/// Files under the names of another checkpoint's parts once left its index wrong.
#[test]
fn parts_of_another_checkpoint_are_not_replaced() {
    let folder = Folder::new();
    shards(&folder, "in");
    linears(&folder, "other");
    let says = "other/model.safetensors.index.json lists other tensors for this file (name another output, or do the job \
                with the checkpoint)";
    for line in [
        "cast in other/new.safetensors.index.json --to bf16 -f",
        "cast in/m-1.safetensors other/m-1.safetensors --to bf16 -f",
        "quantize other/m-1.safetensors other/m-1.safetensors --to int8 -f",
    ] {
        assert!(refused(&folder.run(line)).ends_with(says), "{line}");
        assert!(refused(&folder.run(&format!("{line} -n"))).ends_with(says), "{line} -n");
    }
    done(&folder.run("cast other/m-1.safetensors other/m-1.safetensors --to bf16 -f -q"));
    done(&folder.run("info other"));
}

/// A run that goes on once put back what was edited, without a word.
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
    assert_eq!(folder.read("out/config.json"), br#"{"model_type": "2"}"#);
    let json: Value =
        serde_json::from_str(&done(&folder.run("cast in out --to float16 --resume --json"))).expect("JSON");
    assert_eq!(json["kept_others"], serde_json::json!(["config.json", "LICENSE"]));
    // Without it everything is written.
    done(&folder.run("cast in out --to bf16 -f -q"));
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
        let says = refused(&folder.run("cast hub/snapshots/main hub/snapshots/main --to bf16 -f"));
        let link = "a symlink, which is not written through (remove it, or name another output)";
        assert!(says.starts_with("hub/snapshots/main/") && says.ends_with(link), "{says}");
        let says = refused(
            &folder.run("cast hub/snapshots/main/m-1.safetensors hub/snapshots/main/m-1.safetensors --to bf16 -f"),
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
            for job in ["cast in out --to bf16 -f", "quantize in out --to int8 -f"] {
                assert_eq!(refused(&folder.run(job)), format!("out/{name}: {link}"), "{job}");
            }
            assert_eq!(folder.read("outside"), b"theirs", "{name}");
        }
        folder.write("a.npy", npy(&floats(&[1.0])));
        fs::create_dir(folder.path("dir")).expect("a folder");
        symlink("../outside", folder.path("dir/a.npy")).expect("a link");
        folder.refuses("cast a.npy --to bf16 --out-dir dir -f", &format!("dir/a.npy: {link}"));
        weights(&folder, "m.onnx", 1.0);
        symlink("outside", folder.path("n.onnx.data")).expect("a link");
        let says =
            refused(&folder.run("cast m.onnx n.onnx --to bf16 --external-threshold 0 --external-data n.onnx.data -f"));
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
        let says = refused(&folder.run("cast hub/snapshots/main/in.onnx hub/snapshots/main/in.onnx --to float16 -f"));
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
        fs::set_permissions(folder.path("in"), fs::Permissions::from_mode(0o710)).expect("a mode");
        done(&folder.run("cast in out --to float16 -q"));
        assert_eq!(mode("out"), 0o710);
        done(&folder.run("cast m.onnx n.onnx --to float16 --external-data n.data --external-threshold 0 -q"));
        let private = ["y.npy", "y.npz", "out/m-1.safetensors", "out/config.json", "out/LICENSE", "n.onnx", "n.data"];
        assert_eq!(private.map(mode), [0o600; 7]);
        folder.write("plain", "");
        assert_eq!(mode("out/m-2.safetensors"), mode("plain"));
        // What is replaced keeps its own.
        fs::set_permissions(folder.path("y.npy"), fs::Permissions::from_mode(0o664)).expect("a mode");
        done(&folder.run("cast x.npy y.npy --to float16 -f -q"));
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
        done(&folder.run("cast x.npy x.npy --to float16 -f -q"));
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
        for job in ["cast in out --to bf16 -f", "quantize in out --to int8 -f"] {
            assert_eq!(refused(&folder.run(job)), busy, "{job}");
        }
        assert_eq!(folder.read("out/m-1.safetensors"), before);
        done(&folder.run("cast in out --to bf16 --dry-run -f"));
        drop(held);
        done(&folder.run("cast in out --to bf16 -f -q"));
        let tensors = crate::common::tensors(folder.read("out/m-1.safetensors"));
        assert_eq!(types(&tensors), [("a.weight".to_owned(), DataType::BFloat16)]);
    }
}
