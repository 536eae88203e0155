//! Are all forms of checkpoints of torch.save read like torch.load does, without executing code, allocating untrusted
//! lengths, or skipping values silently?

use crate::common::replacing::{cast_file, quantize_file};
use crate::common::unhex;
use onnx_cast::{DataType, Tensor};
use onnx_cast_file::{
    CastRequest, DiffRequest, Format, InputFile, InspectRequest, NamedTensor, QuantizeRequest, QuantizedFormat,
    ReportRequest, RunOptions, diff, inspect, read_tensors_from, report, safetensors,
};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use tempfile::{TempDir, tempdir};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

const TORCH: &str = include_str!("../fixtures/torch.txt");

/// Returns the checkpoints of `fixtures/make_torch.py`, each with its tensors.
fn checkpoints() -> Vec<(&'static str, Vec<u8>, Vec<NamedTensor>)> {
    let mut all: Vec<(&str, Vec<u8>, Vec<NamedTensor>)> = Vec::new();
    for line in TORCH.lines() {
        match line.split(' ').collect::<Vec<_>>()[..] {
            [name, file] => all.push((name, unhex(file), Vec::new())),
            [name, data_type, shape, raw] => {
                let dim = |dim: &str| dim.parse().expect("a dimension");
                let shape = if shape == "scalar" { Vec::new() } else { shape.split('x').map(dim).collect() };
                let bytes = if raw == "-" { Vec::new() } else { unhex(raw) };
                let tensor = Tensor::new(data_type.parse().expect("a type"), shape, bytes).expect("a tensor");
                all.last_mut().expect("a file").2.push(NamedTensor { name: name.to_owned(), tensor });
            }
            _ => panic!("{line}"),
        }
    }
    all
}

fn read(bytes: &[u8]) -> Result<Vec<NamedTensor>, String> {
    let file = InputFile::other(Path::new("tensor.pt"), bytes.len() as u64, bytes.to_vec());
    read_tensors_from(file, Format::Torch, None).map_err(|error| error.to_string().replace("tensor.pt: ", ""))
}

fn written(folder: &TempDir, name: &str, bytes: &[u8]) -> std::path::PathBuf {
    let path = folder.path().join(name);
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(&path, bytes).expect("written");
    path
}

#[test]
fn tensors_are_those_that_torch_loads() {
    let folder = tempdir().expect("a folder");
    for (name, file, want) in checkpoints() {
        assert_eq!(read(&file).expect(name), want, "{name}");
        let path = written(&folder, &format!("{name}/tensor.bin"), &file);
        let output = folder.path().join("out.safetensors");
        let Ok(done) = cast_file(&path, &output, &CastRequest::new(DataType::Float)) else {
            // `.safetensors` lacks this complex type.
            assert_eq!(name, "types");
            continue;
        };
        assert_eq!(done.tensors.iter().map(|row| &*row.name).collect::<Vec<_>>(), names(&want), "{name}");
        let found = inspect(&output, &InspectRequest::default()).expect("listed");
        assert_eq!(found.metadata, [("format".to_owned(), "pt".to_owned())]);
        let shapes: Vec<&[usize]> = found.tensors.iter().map(|tensor| &*tensor.shape).collect();
        assert_eq!(shapes, want.iter().map(|one| one.tensor.shape()).collect::<Vec<_>>(), "{name}");
        // If no value changes, both files have the same values.
        if want.iter().all(|one| one.tensor.data_type() == DataType::Float) {
            assert_eq!(diff(&path, &output, &DiffRequest::default()).expect("compared"), [], "{name}");
        }
    }
}

fn names(tensors: &[NamedTensor]) -> Vec<&str> {
    tensors.iter().map(|one| &*one.name).collect()
}

#[test]
fn what_is_left_out_is_named() {
    let folder = tempdir().expect("a folder");
    let trainer = [
        ("optimizer", "1 tensor beside `state_dict`"),
        ("args", "`argparse.Namespace` is not read"),
        ("epoch", "not a tensor"),
    ];
    let model = [("torch.nn.modules.container.Sequential", "all but its parameters and buffers")];
    let skipped = [
        ("sparse", "`torch._utils._rebuild_sparse_tensor` is not read"),
        ("meta", "`torch._utils._rebuild_meta_tensor_no_storage` is not read"),
    ];
    for (name, want) in [
        ("trainer", &trainer[..]),
        ("trainer_old", &trainer),
        ("model", &model),
        ("skipped", &skipped),
        ("nested", &[("list.1", "not a tensor")]),
        ("views", &[]),
    ] {
        let (_, file, _) = checkpoints().into_iter().find(|(known, ..)| *known == name).expect("a checkpoint");
        let path = written(&folder, "x.ckpt", &file);
        let found = inspect(&path, &InspectRequest::default()).expect("listed");
        let want: Vec<_> = want.iter().map(|(name, why)| ((*name).to_owned(), (*why).to_owned())).collect();
        assert_eq!((found.format, found.left_out), (Format::Torch, want.clone()), "{name}");
        let output = folder.path().join("out.safetensors");
        let done = cast_file(&path, &output, &CastRequest::new(DataType::Float16)).expect("cast");
        assert_eq!(done.left_out, want, "{name}");
        if name == "views" {
            assert_eq!(done.notes, ["shared elements are written for each tensor: `tied` (those of base)"]);
        }
    }
}

/// Opcodes of a string, an integer, and a tuple of integers.
fn text(text: &str) -> Vec<u8> {
    [b"X", &(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat()
}

fn int(value: i64) -> Vec<u8> {
    [&b"\x8a\x08"[..], &value.to_le_bytes()].concat()
}

fn tuple(values: &[i64]) -> Vec<u8> {
    [&b"("[..], &values.iter().flat_map(|&value| int(value)).collect::<Vec<_>>(), b"t"].concat()
}

fn storage(class: &str, key: &str) -> Vec<u8> {
    let class = format!("ctorch\n{class}Storage\n");
    [b"(", &text("storage")[..], class.as_bytes(), &text(key), &text("cpu"), b"K\0tQ"].concat()
}

/// Opcodes of a dictionary with one tensor.
fn dict(name: &str, storage: &[u8], offset: i64, shape: &[i64], strides: &[i64]) -> Vec<u8> {
    let call = b"ctorch._utils\n_rebuild_tensor_v2\n(";
    [b"}", &text(name)[..], call, storage, &int(offset), &tuple(shape), &tuple(strides), b"\x89NtRs"].concat()
}

/// Creates a file of the older form with an object and storages of floats.
fn old(object: &[u8], storages: &[(&str, &[f32])]) -> Vec<u8> {
    let mut file = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.\x80\x02}.\x80\x02".to_vec();
    file.extend_from_slice(object);
    let keys: Vec<u8> = storages.iter().flat_map(|(key, _)| text(key)).collect();
    file.extend([&b".\x80\x02]("[..], &keys, b"e."].concat());
    for (_, values) in storages {
        file.extend((values.len() as u64).to_le_bytes());
        file.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    }
    file
}

/// Creates an archive with an object and one storage.
fn archive(object: &[u8], byteorder: &str, storage: &[u8], compressed: Option<&str>) -> Vec<u8> {
    let mut bytes = std::io::Cursor::new(Vec::new());
    let mut zip = ZipWriter::new(&mut bytes);
    let pickle = [&b"\x80\x02"[..], object, b"."].concat();
    for (name, content) in [("data.pkl", &pickle[..]), ("byteorder", byteorder.as_bytes()), ("data/0", storage)] {
        let method = if compressed == Some(name) { CompressionMethod::Deflated } else { CompressionMethod::Stored };
        let options = SimpleFileOptions::default().compression_method(method);
        zip.start_file(format!("x/{name}"), options).expect("a member");
        zip.write_all(content).expect("written");
    }
    zip.finish().expect("finished");
    bytes.into_inner()
}

#[test]
fn damaged_files_are_errors() {
    const FLOATS: &[(&str, &[f32])] = &[("0", &[0.0; 4])];
    let float = || storage("Float", "0");
    let good = old(&dict("w", &float(), 1, &[3], &[1]), FLOATS);
    assert_eq!(read(&good).expect("read")[0].tensor.shape(), [3]);
    let deep = [b"]".repeat(300), b"a".repeat(299)].concat();
    // Each list contains the previous list twice.
    let mut bomb = b"](]q\0".to_vec();
    for _ in 0..60 {
        bomb.extend(b"](h\0h\0eq\0");
    }
    bomb.extend(b"e");
    let most = i64::MAX;
    for (object, said) in [
        (dict("w", &float(), 2, &[3], &[1]), "tensor `w`: 3 float is not within storage `0` of 16 bytes"),
        (dict("w", &float(), most, &[1], &[1]), "is not within storage `0`"),
        (dict("w", &float(), 0, &[2, 2], &[most, most]), "is not within storage `0`"),
        (dict("w", &float(), 0, &[2, 2], &[3, 1]), "2x2 float is not within storage `0` of 16 bytes"),
        (dict("w", &float(), 0, &[most, most], &[0, 0]), "tensor `w`"),
        (dict("w", &float(), 0, &[1 << 30, 1 << 24], &[0, 0]), "that share the elements of a file of"),
        (dict("w", &float(), 0, &[-1], &[1]), "tensor `w`: no valid shape and strides"),
        (dict("w", &float(), 0, &[1], &[]), "tensor `w`: no valid shape and strides"),
        (dict("w", &float(), 0, &[1; 65], &[1; 65]), "tensor `w`: no valid shape and strides"),
        (dict("w", &storage("Float", "1"), 0, &[1], &[1]), "tensor `w`: storage `1` is not in the file"),
        (dict("w", &storage("Strange", "0"), 0, &[1], &[1]), "a storage of an unknown type"),
        (
            dict("w", b"N", 0, &[1], &[1]),
            "no tensors in this file, but `w` (`torch._utils._rebuild_tensor_v2` is not read)",
        ),
        (b"cos\nsystem\n(X\x04\0\0\0truetR".to_vec(), "no tensors in this file, but `` (`os.system` is not read)"),
        (b"ctorch.storage\n_load_from_bytes\n(C\x01xtR".to_vec(), "`torch.storage._load_from_bytes` is not read"),
        (deep, "0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0"),
        (bomb, "values shared too often (want at most 4194304 in all)"),
        (b"X\xff\xff\xff\xff".to_vec(), "the pickle is not valid: truncated"),
        (b"\x8d\xff\xff\xff\xff\xff\xff\xff\xff".to_vec(), "the pickle is not valid: truncated"),
        (b"\x8b\xff\xff\xff\x7f".to_vec(), "the pickle is not valid: truncated"),
        (b"h\x05".to_vec(), "an unknown value of the memo"),
        (b"(t0".to_vec(), "an empty stack"),
        (b"N(a".to_vec(), "an empty stack"),
        (b"t".to_vec(), "a missing mark"),
        (b"\x82\x01".to_vec(), "opcode 0x82, which is not read"),
        (b"P0\n".to_vec(), "opcode 0x50, which is not read"),
        (b"N)R".to_vec(), "no tensors"),
        (b"cos\nsystem\nNR".to_vec(), "a call without a tuple of arguments"),
        (b"NQ".to_vec(), "an unknown persistent identifier"),
        (b"c\xff\n\xff\n".to_vec(), "a name that is not UTF-8"),
        (b"(".repeat((1 << 22) + 2), "more than 4194304 values"),
        (b")".repeat((1 << 22) + 2), "more than 4194304 values"),
    ] {
        let error = read(&old(&object, FLOATS)).expect_err(said);
        assert!(error.contains(said), "{error}\nand not {said}");
    }
    let twice =
        [&b"}"[..], &dict("w", &float(), 0, &[1], &[1])[1..], &dict("w", &float(), 1, &[1], &[1])[1..]].concat();
    assert!(read(&old(&twice, FLOATS)).expect_err("twice").contains("two tensors would be named `w`"));
    let missing = archive(&dict("w", &storage("Float", "1"), 0, &[1], &[1]), "little", &[0; 4], None);
    assert_eq!(read(&missing).expect_err("missing"), "tensor `w`: storage `1` is not in the file");
    let claims = [&good[..good.len() - 24], &u64::MAX.to_le_bytes()].concat();
    assert!(read(&claims).expect_err("a claim").contains("storage `0` is not in the file, which may be truncated"));
}

#[test]
fn other_files_are_refused() {
    let tar = [&[b'x'; 257][..], b"ustar", &[0; 250]].concat();
    let object = dict("w", &storage("Float", "0"), 0, &[1], &[1]);
    for (bytes, said) in [
        (tar, "a tar archive, as torch 0.1 wrote it"),
        (b"\x80\x04}.".to_vec(), "a pickle that torch.save did not write"),
        (b"neither".to_vec(), "not a file of torch.save"),
        (Vec::new(), "an empty file"),
        (archive(&object, "middle", &[0; 4], None), "byteorder `middle` (want little or big)"),
    ] {
        let error = read(&bytes).expect_err(said);
        assert!(error.contains(said), "{error}\nand not {said}");
    }
    let folder = tempdir().expect("a folder");
    let input = written(&folder, "x.pt", &old(&object, &[("0", &[1.0])]));
    let raw = cast_file(&input, folder.path().join("out.bin"), &CastRequest::new(DataType::Float16));
    assert!(raw.expect_err("refused").to_string().ends_with("(want .safetensors, or .raw)"));
    for name in ["out.pt", "out.pth", "out.ckpt"] {
        let error = cast_file(&input, folder.path().join(name), &CastRequest::new(DataType::Float16));
        assert!(error.expect_err("refused").to_string().ends_with("are only read (want .safetensors)"), "{name}");
    }
}

#[test]
fn elements_may_be_big_endian() {
    let words: Vec<u8> = (0..32).collect();
    for (class, word) in [("Float", 4), ("Half", 2), ("Double", 8), ("Byte", 1), ("ComplexFloat", 4)] {
        for (shape, strides) in [(&[2, 2][..], &[2, 1][..]), (&[2, 2], &[1, 2])] {
            let object = dict("w", &storage(class, "0"), 0, shape, strides);
            let swapped: Vec<u8> = words.chunks(word).flat_map(|word| word.iter().rev()).copied().collect();
            let little = read(&archive(&object, "little", &swapped, None)).expect("read");
            assert_eq!(read(&archive(&object, "big", &words, None)).expect("read"), little, "{class}");
            for member in ["data.pkl", "byteorder", "data/0"] {
                let packed = archive(&object, "big", &words, Some(member));
                assert_eq!(read(&packed).expect("read"), little, "{class}, compressed {member}");
            }
        }
    }
}

/// What Python's pickle module writes with protocols 0 and 1. Of torch's own files only those of protocol 1 can be
/// loaded, as identifiers of storages are tuples.
#[test]
fn pickles_may_have_protocol_0_or_1() {
    let storage = b"(Vstorage\np1\nctorch\nFloatStorage\np2\nV0\np3\nVcpu\nI4\ntQ";
    let call = b"ctorch._utils\n_rebuild_tensor_v2\np4\n(";
    let rest = b"I1\n(I3\nt(L1L\ntI00\nccollections\nOrderedDict\n(tRtRs";
    let others = b"Vkind\n(iargparse\nNamespace\nsVother\n(cargparse\nNamespace\nosS'rate'\nF0.5\ns";
    let object = [&b"(dp0\nV\xe9\\u2192\\u005c\\u000a\n"[..], call, storage, rest].concat();
    let mut file = b"L119547037146038801333356L\n.I1001\n.(d.".to_vec();
    file.extend([&object[..], others, b"g1\ng3\ns.(lV0\na."].concat());
    file.extend(4u64.to_le_bytes());
    file.extend([1f32, 2.0, 3.0, 4.0].iter().flat_map(|value| value.to_le_bytes()));
    let tensors = read(&file).expect("read");
    assert_eq!(tensors.len(), 1);
    assert_eq!(tensors[0].name, "\u{e9}\u{2192}\\\n");
    assert_eq!(tensors[0].tensor, Tensor::from_slice(vec![3], &[2f32, 3.0, 4.0]).expect("a tensor"));
    let folder = tempdir().expect("a folder");
    let found = inspect(written(&folder, "x.pt", &file), &InspectRequest::default()).expect("listed");
    let reasons: Vec<_> = found.left_out.iter().map(|(name, why)| (&**name, &**why)).collect();
    let unread = "`argparse.Namespace` is not read";
    assert_eq!(reasons, [("kind", unread), ("other", unread), ("rate", "not a tensor"), ("storage", "not a tensor")]);
    for (object, said) in [
        (&b"Ix\n."[..], "no tensors in this file"),
        (b"g7\n.", "an unknown value of the memo"),
        (b"gx\n.", "an invalid number"),
        (b"(o.", "an object without a class"),
        (b"V\\x\n.", "no tensors in this file"),
    ] {
        let file = [&b"L119547037146038801333356L\n.I1001\n.(d."[..], object, b"(l."].concat();
        let error = read(&file).expect_err(said);
        assert!(error.contains(said), "{error}\nand not {said}");
    }
}

#[test]
fn tensors_that_share_a_view_are_noted() {
    let tensor = |name: &str| dict(name, &storage("Float", "0"), 0, &[2, 3], &[1, 2])[1..].to_vec();
    let object = [&b"}"[..], &tensor("w"), &tensor("tied")].concat();
    for file in [
        old(&object, &[("0", &[1.5; 6])]),
        archive(&object, "little", &[7; 24], None),
        archive(&object, "little", &[7; 24], Some("data/0")),
    ] {
        let folder = tempdir().expect("a folder");
        let (input, output) = (written(&folder, "x.pt", &file), folder.path().join("out.safetensors"));
        let done = cast_file(&input, &output, &CastRequest::new(DataType::Float16)).expect("cast");
        assert_eq!(done.notes, ["shared elements are written for each tensor: `tied` (those of w)"]);
    }
}

/// Replaces every byte of these files, and tries every prefix. Each result must be an error or valid tensors, which
/// their type guarantees.
#[test]
fn no_damage_makes_the_reader_panic() {
    for (name, file, want) in checkpoints() {
        if !["trainer", "views_old", "skipped"].contains(&name) {
            continue;
        }
        for len in 0..file.len() {
            let cut = read(&file[..len]);
            assert!(cut.is_err(), "{name} cut to {len}: {cut:?} of {}", want.len());
        }
        for at in 0..file.len() {
            for byte in [0, 1, 0x7f, 0x80, 0xff, b'.', b'R', b'(', b'Q', b't'] {
                let mut damaged = file.clone();
                damaged[at] = byte;
                let _ = read(&damaged);
            }
        }
    }
}

const INDEX: &str = r#"{"metadata": {"total_size": 64}, "weight_map": {
    "a.weight": "pytorch_model-00001-of-00002.bin", "b.weight": "pytorch_model-00002-of-00002.bin"}}"#;

#[test]
fn folders_get_the_names_of_safetensors_files() {
    let folder = tempdir().expect("a folder");
    let weights = |name: &str| old(&dict(name, &storage("Float", "0"), 0, &[2, 4], &[1, 2]), &[("0", &[1.5; 8])]);
    written(&folder, "in/pytorch_model-00001-of-00002.bin", &weights("a.weight"));
    written(&folder, "in/pytorch_model-00002-of-00002.bin", &weights("b.weight"));
    written(&folder, "in/pytorch_model.bin.index.json", INDEX.as_bytes());
    written(&folder, "in/config.json", br#"{"model_type": "llama", "torch_dtype": "float32"}"#);
    written(&folder, "in/training_args.bin", b"PK\x03\x04");
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    let done = cast_file(&input, &output, &CastRequest::new(DataType::BFloat16)).expect("cast");
    assert_eq!(done.left_out, [("training_args.bin".to_owned(), "other weights".to_owned())]);
    let mut found: Vec<String> = fs::read_dir(&output)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    found.sort();
    let shards = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"];
    assert_eq!(found, [&["config.json"], &shards[..], &["model.safetensors.index.json"]].concat());
    let index: serde_json::Value =
        serde_json::from_slice(&fs::read(output.join("model.safetensors.index.json")).expect("read")).expect("JSON");
    assert_eq!((&index["metadata"]["total_size"], &index["weight_map"]["b.weight"]), (&32.into(), &shards[1].into()));
    assert!(fs::read_to_string(output.join("config.json")).expect("read").contains("bfloat16"));
    // Casts in place are an error, and .safetensors files in the same folder are preferred.
    let error = cast_file(&input, &input, &CastRequest::new(DataType::BFloat16)).expect_err("in place").to_string();
    assert!(error.ends_with("whose weights are pickled and stay as they are (name another output)"), "{error}");
    let plain = Tensor::new(DataType::Float, vec![1], vec![0; 4]).expect("a tensor");
    written(&folder, "in/model.safetensors", &safetensors::write(None, &[("plain", plain.view())]).expect("bytes"));
    let found = inspect(&input, &InspectRequest::default()).expect("listed");
    assert_eq!((found.format, found.tensors.len()), (Format::Safetensors, 1));
}

#[test]
fn shards_of_pickles_are_continued() {
    let folder = tempdir().expect("a folder");
    let weights = |name: &str| old(&dict(name, &storage("Float", "0"), 0, &[64, 64], &[1, 64]), &[("0", &[1.5; 4096])]);
    written(&folder, "in/pytorch_model-00001-of-00002.bin", &weights("a.weight"));
    written(&folder, "in/pytorch_model-00002-of-00002.bin", &weights("b.weight"));
    written(&folder, "in/pytorch_model.bin.index.json", INDEX.as_bytes());
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    for (size, count) in [(None, 2), (Some("10KB"), 2), (Some("1GB"), 1)] {
        let run = RunOptions::new().shard_size(size.map(|size| size.parse().expect("a size")));
        let request = CastRequest::new(DataType::BFloat16).run(run);
        cast_file(&input, &output, &request).expect("cast");
        let files = |folder: &Path| {
            let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
            entries.map(|path| (path.clone(), fs::read(path).expect("read"))).collect::<BTreeMap<_, _>>()
        };
        let want = files(&output);
        let shards: Vec<_> =
            want.keys().filter(|path| path.extension().is_some_and(|end| end == "safetensors")).collect();
        assert_eq!(shards.len(), count, "{size:?}");
        want.keys().filter(|path| *path != shards[count - 1]).for_each(|path| fs::remove_file(path).expect("removed"));
        let mut resumed = request.clone();
        resumed.run.resume = true;
        let done = cast_file(&input, &output, &resumed).expect("continued");
        assert_eq!(done.already_there, 1, "{size:?}");
        assert!(files(&output) == want, "{size:?}");
        fs::remove_dir_all(&output).expect("removed");
    }
}

#[test]
fn jobs_give_what_they_give_of_safetensors_files() {
    let folder = tempdir().expect("a folder");
    let values: Vec<f32> = (0..128 * 64).map(|i| ((i * 37) % 101) as f32 / 50.0 - 1.0).collect();
    let name = "model.layers.0.self_attn.q_proj.weight";
    let object = dict(name, &storage("Float", "0"), 0, &[64, 128], &[1, 64]);
    let pickled = written(&folder, "pytorch_model.bin", &old(&object, &[("0", &values)]));
    let tensors = read(&fs::read(&pickled).expect("read")).expect("tensors");
    let metadata = [("format".to_owned(), "pt".to_owned())];
    let bytes = safetensors::write(Some(&metadata), &[(name, tensors[0].tensor.view())]).expect("bytes");
    let plain = written(&folder, "model.safetensors", &bytes);
    for format in ["int4", "nvfp4", "float8e4m3fn", "mxfp4"] {
        let request = QuantizeRequest::new(format.parse::<QuantizedFormat>().expect("a format"));
        let of = |input: &Path| {
            let output = folder.path().join("out.safetensors");
            quantize_file(input, &output, &request).expect(format);
            fs::read(output).expect("read")
        };
        assert_eq!(of(&pickled), of(&plain), "{format}");
    }
    // The forecast of a scaled candidate is the plan of `quantize`.
    let request = ReportRequest::default().to(["bfloat16", "nvfp4"].map(|to| to.parse().expect("a type")).to_vec());
    let of = |input: &Path| {
        let found = report(input, &request).expect("a report");
        (found.tensors, found.forecasts)
    };
    assert_eq!(of(&pickled), of(&plain));
    // Quantized weights are found in pickles too.
    let codes = dict("l.weight_packed", &storage("Byte", "0"), 0, &[64, 64], &[64, 1]);
    let quantized = written(&folder, "codes.pt", &old(&codes, &[("0", &[0.0; 1024])]));
    let error = report(&quantized, &request).expect_err("no scales").to_string();
    assert!(error.contains("weight_packed"), "{error}");
}
