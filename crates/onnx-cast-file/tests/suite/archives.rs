//! Are arrays in archives, in Fortran order and of the other byte order read for what they are, and damaged archives
//! refused?

use crate::common;
use crate::common::replacing::{bit_cast_file, cast_file};

use common::{Format, read, text_without};
use onnx_cast::tensor::Strings;
use onnx_cast::{Cast, CastOptions, DataType, Tensor};
use onnx_cast_file::{
    BitCastRequest, CastRequest, DiffRequest, Difference, InputFile, InspectRequest, Number, Pattern, RawInput,
    ReportRequest, RunOptions, Selection, SourceType, diff, inspect, read_tensor_as, read_tensors_from, report,
    safetensors,
};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

/// The bytes of a `.npy` file with this header.
fn array(descr: &str, fortran: bool, shape: &[usize], items: &[u8]) -> Vec<u8> {
    let order = if fortran { "True" } else { "False" };
    let dims: String = shape.iter().map(|dim| format!("{dim},")).collect();
    let header = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': ({dims}), }}\n");
    [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), items].concat()
}

/// Items in C order, each looked up by its index, from items in Fortran order.
fn in_c_order(items: &[u8], shape: &[usize], size: usize) -> Vec<u8> {
    let place = |mut index: usize| {
        let mut place = 0;
        for (axis, dim) in shape.iter().enumerate().rev() {
            place += index % dim * shape[..axis].iter().product::<usize>();
            index /= dim;
        }
        place * size
    };
    (0..shape.iter().product()).flat_map(|index| &items[place(index)..][..size]).copied().collect()
}

#[test]
fn strings_in_fortran_order() {
    let items: Vec<u8> = "abcdef".chars().flat_map(|c| u32::from(c).to_be_bytes()).collect();
    let read = read(Format::Npy, &array(">U1", true, &[2, 3], &items), None).expect("an array");
    let want = Tensor::strings(vec![2, 3], ["a", "c", "e", "b", "d", "f"].iter().collect()).expect("a tensor");
    assert_eq!(read.tensor, want);
}

/// An archive keeps strings. It has casts neither from them nor to them.
#[test]
fn strings_are_not_cast_into_an_archive() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    fs::write(path("s.npy"), array("<U1", false, &[2], &[b'1', 0, 0, 0, b'2', 0, 0, 0])).expect("written");
    fs::write(path("f.npy"), array("<f4", false, &[1], &1f32.to_le_bytes())).expect("written");
    for (input, output, to) in [
        ("s.npy", "s.npz", DataType::Float),
        ("f.npy", "f.npz", DataType::String),
        ("s.npy", "s.safetensors", DataType::Float),
    ] {
        let error = cast_file(path(input), path(output), &CastRequest::new(to)).expect_err(output);
        let said = text_without(folder.path(), error);
        assert!(said.ends_with("strings are cast only in a file of one tensor"), "{said}");
        assert!(!path(output).exists(), "{output}");
    }
    cast_file(path("s.npy"), path("kept.npz"), &CastRequest::new(DataType::String)).expect("kept");
    let kept = members(&path("kept.npz"), DataType::String).remove(0).2;
    assert_eq!(kept, Tensor::strings(vec![2], ["1", "2"].iter().collect()).expect("a tensor"));
}

fn archive(path: &Path, members: &[(&str, CompressionMethod, Vec<u8>)]) {
    let mut zip = ZipWriter::new(File::create(path).expect("a file"));
    for (name, method, bytes) in members {
        // With the sizes of zip64, as numpy writes them.
        let options = SimpleFileOptions::default().compression_method(*method).large_file(true);
        zip.start_file(*name, options).expect("a member");
        zip.write_all(bytes).expect("written");
    }
    zip.finish().expect("finished");
}

fn members(path: &Path, from: DataType) -> Vec<(String, CompressionMethod, Tensor)> {
    let mut zip = ZipArchive::new(File::open(path).expect("a file")).expect("an archive");
    (0..zip.len())
        .map(|index| {
            let mut member = zip.by_index(index).expect("a member");
            let mut bytes = Vec::new();
            member.read_to_end(&mut bytes).expect("its checksum fits");
            let array = |from| read(Format::Npy, &bytes, from);
            let tensor = array(None).or_else(|_| array(Some(from))).expect("an array").tensor;
            (member.name().expect("a name").into_owned(), member.compression(), tensor)
        })
        .collect()
}

fn cast(tensor: &Tensor, to: DataType) -> Tensor {
    Cast::new(to, &CastOptions::default()).expect("a cast").run(&tensor.view()).expect("cast")
}

fn values(len: usize) -> Vec<f32> {
    (0..len).map(|i| (i as f32 - 700.0) * 0.37).collect()
}

#[test]
fn every_array_of_an_archive() {
    let folder = tempfile::tempdir().expect("a folder");
    let (input, output) = (folder.path().join("in.npz"), folder.path().join("out.npz"));
    let (stored, deflated) = (CompressionMethod::Stored, CompressionMethod::Deflated);
    let large = values(600_001);
    let little = |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    let text: Vec<u8> = "né".chars().flat_map(|c| u32::from(c).to_le_bytes()).collect();
    archive(
        &input,
        &[
            ("large.npy", deflated, array("<f4", false, &[600_001], &little(&large))),
            ("a/b.npy", stored, array(">f4", false, &[2], &[0x3f, 0x80, 0, 0, 0xc0, 0, 0, 0])),
            ("f.npy", deflated, array("<f4", true, &[2, 3], &little(&[1.0, 4.0, 2.0, 5.0, 3.0, 6.0]))),
            ("g.npy", stored, array("<f4", true, &[2, 3], &little(&[1.0, 4.0, 2.0, 5.0, 3.0, 6.0]))),
            ("ids.npy", stored, array("<i8", false, &[1], &7i64.to_le_bytes())),
            ("text.npy", deflated, array("<U2", false, &[1], &text)),
            ("none.npy", stored, array("<f8", false, &[0, 3], &[])),
        ],
    );
    for to in [DataType::Float16, DataType::Double, DataType::Float8E4M3FN] {
        let summary = cast_file(&input, &output, &CastRequest::new(to)).expect("cast");
        assert_eq!(summary.tensors.iter().filter(|row| row.cast).count(), 5);
        let got = members(&output, to);
        let floats = |shape: &[usize], values: &[f32]| Tensor::from_slice(shape.to_vec(), values).expect("a tensor");
        let want = [
            ("large.npy", deflated, cast(&floats(&[600_001], &large), to)),
            ("a/b.npy", stored, cast(&floats(&[2], &[1.0, -2.0]), to)),
            ("f.npy", deflated, cast(&floats(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), to)),
            ("g.npy", stored, cast(&floats(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), to)),
            ("ids.npy", stored, Tensor::from_slice(vec![1], &[7i64]).expect("a tensor")),
            ("text.npy", deflated, Tensor::strings(vec![1], ["né"].iter().collect::<Strings>()).expect("a tensor")),
            ("none.npy", stored, cast(&floats(&[0, 3], &[]), to)),
        ];
        assert_eq!(got.len(), want.len());
        for (got, want) in got.iter().zip(&want) {
            // What was deflated stays so.
            assert!((got.0.as_str(), got.1, &got.2) == (want.0, want.1, &want.2), "{} {to}", want.0);
        }
    }
    // Without the strings, it can be a checkpoint.
    let bytes = fs::read(&input).expect("read");
    let refused = cast_file(&input, folder.path().join("x.safetensors"), &CastRequest::new(DataType::Float16));
    assert!(
        refused
            .expect_err("strings")
            .to_string()
            .contains("tensor `text`: the .safetensors format has no name for string")
    );
    let checkpoint = folder.path().join("w.safetensors");
    fs::write(
        &checkpoint,
        safetensors::write(None, &[("w", Tensor::from_slice(vec![2], &[1.0f32, 2.0]).expect("a tensor").view())])
            .expect("bytes"),
    )
    .expect("written");
    cast_file(&checkpoint, &output, &CastRequest::new(DataType::BFloat16)).expect("cast");
    let [(name, _, tensor)] = &members(&output, DataType::BFloat16)[..] else { panic!("one array") };
    assert_eq!((name.as_str(), tensor.data_type()), ("w.npy", DataType::BFloat16));
    assert_eq!(fs::read(&input).expect("read"), bytes);
}

#[test]
fn damaged_archives() {
    let folder = tempfile::tempdir().expect("a folder");
    let (input, output) = (folder.path().join("in.npz"), folder.path().join("out.npz"));
    let refused = |bytes: &[u8]| {
        fs::write(&input, bytes).expect("written");
        let error = cast_file(&input, &output, &CastRequest::new(DataType::Float16)).expect_err("refused").to_string();
        assert!(!output.exists());
        text_without(folder.path(), error)
    };
    let stored = CompressionMethod::Stored;
    let archive_of = |fortran| {
        let x = ("x.npy", stored, array("<f4", fortran, &[2, 2], &[1; 16]));
        archive(&input, &[x, ("y.npy", stored, array("<f4", false, &[1], &[1; 4]))]);
        fs::read(&input).expect("read")
    };
    // One bit of the elements, which the checksum notices.
    for mut bad in [archive_of(true), archive_of(false)] {
        let at = bad.windows(16).position(|window| window == [1; 16]).expect("the elements");
        bad[at] ^= 1;
        let said = "in.npz: cannot read: a member of the archive does not match its checksum";
        assert_eq!(refused(&bad), said);
    }
    let good = fs::read(&input).expect("read");
    for len in 0..good.len() {
        refused(&good[..len]);
    }
    archive(&input, &[("notes.txt", stored, b"text".to_vec())]);
    let other = fs::read(&input).expect("read");
    assert_eq!(refused(&other), "in.npz: member `notes.txt` is not an array (want a name that ends in .npy)");
    // A header that claims more than the archive, and an archive that claims more than there is.
    archive(&input, &[("x.npy", stored, array("<f4", false, &[1 << 29], &[1; 16]))]);
    let claims = fs::read(&input).expect("read");
    assert_eq!(refused(&claims), "in.npz: tensor `x`: 16 bytes after the header for 536870912 `<f4` (want 2147483648)");
    let mut bomb = good.clone();
    for place in good.windows(4).enumerate().filter(|(_, window)| *window == b"PK\x01\x02").map(|(at, _)| at) {
        // The uncompressed size in the directory.
        bomb[place + 24..place + 28].copy_from_slice(&0x7fff_ffffu32.to_le_bytes());
    }
    assert!(refused(&bomb).starts_with("in.npz: "));
}

/// Each byte of an archive in turn: the arrays are as they were, or there is an error.
#[test]
fn damaged_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    let (input, output) = (folder.path().join("in.npz"), folder.path().join("out.npz"));
    let x = ("x.npy", CompressionMethod::Stored, array("<f4", true, &[2, 2], &[1; 16]));
    archive(&input, &[x, ("y.npy", CompressionMethod::Deflated, array("<f4", false, &[1], &[1; 4]))]);
    let good = fs::read(&input).expect("read");
    let tensors = |path: &Path| members(path, DataType::Float16).into_iter().map(|member| member.2).collect::<Vec<_>>();
    let cast = || cast_file(&input, &output, &CastRequest::new(DataType::Float16));
    cast().expect("cast");
    let want = tensors(&output);
    let mut refused = 0;
    for at in 0..good.len() {
        for value in [0, 0xff, good[at] ^ 1, good[at].wrapping_add(1)] {
            let mut bad = good.clone();
            bad[at] = value;
            fs::write(&input, bad).expect("written");
            fs::remove_file(&output).ok();
            match cast() {
                Ok(_) => assert_eq!(tensors(&output), want, "byte {at}: {value}"),
                Err(_) => refused += usize::from(!output.exists()),
            }
        }
    }
    assert!(refused > good.len(), "{refused}");
}

/// Arrays of many tiles, against their items one by one.
#[test]
fn fortran_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let (input, output) = (folder.path().join("in.npy"), folder.path().join("out.npy"));
    for shape in [&[1030, 2, 1100][..], &[3, 1, 5], &[1, 7], &[2, 3, 4, 5], &[2000, 3], &[0, 4, 4]] {
        let len: usize = shape.iter().product();
        for (descr, data_type, size) in [("<f4", DataType::Float, 4), (">f8", DataType::Double, 8)] {
            let items: Vec<u8> = (0..len * size).map(|i| (i * 31 % 251) as u8).collect();
            fs::write(&input, array(descr, true, shape, &items)).expect("written");
            let mut elements = in_c_order(&items, shape, size);
            if descr.starts_with('>') {
                elements.chunks_exact_mut(size).for_each(<[u8]>::reverse);
            }
            let tensor = Tensor::new(data_type, shape.to_vec(), elements).expect("a tensor");
            assert!(read_tensor_as(&input, None).expect("read").tensor == tensor, "{shape:?} {descr}");
            for to in [DataType::Float4E2M1, DataType::BFloat16] {
                cast_file(&input, &output, &CastRequest::new(to)).expect("cast");
                assert!(
                    read_tensor_as(&output, Some(to)).expect("read").tensor == cast(&tensor, to),
                    "{shape:?} {descr}"
                );
            }
        }
    }
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 2);
}

/// Replaces bytes with others of the same length, everywhere.
fn replace_all(bytes: &mut [u8], old: &[u8], new: &[u8]) -> usize {
    let places: Vec<usize> = (0..bytes.len() - old.len()).filter(|&at| bytes[at..].starts_with(old)).collect();
    places.iter().for_each(|&at| bytes[at..at + new.len()].copy_from_slice(new));
    places.len()
}

#[test]
fn two_members_of_one_name_or_of_the_same_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.npz");
    let one = |value: f32| array("<f4", false, &[1], &value.to_le_bytes());
    let mut zip = ZipWriter::new(File::create(&path).expect("a file"));
    for (name, value) in [("aa.npy", 1.0), ("ab.npy", 2.0)] {
        let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
        zip.start_file(name, options).expect("a member");
        zip.write_all(&one(value)).expect("written");
    }
    zip.finish().expect("finished");
    let good = fs::read(&path).expect("read");
    let refused = |bytes: &[u8]| {
        fs::write(&path, bytes).expect("written");
        let output = folder.path().join("y.npz");
        let error = cast_file(&path, &output, &CastRequest::new(DataType::Float16)).expect_err("damaged");
        assert!(!output.exists());
        text_without(folder.path(), error)
    };
    // The name stands in the member's header and in the directory.
    let mut twice = good.clone();
    assert_eq!(replace_all(&mut twice, b"ab.npy", b"aa.npy"), 2);
    assert_eq!(refused(&twice), "x.npz: member `aa.npy` appears twice");
    // numpy calls `aa` and `aa.npy` both `aa`.
    let mut zip = ZipWriter::new(File::create(&path).expect("a file"));
    for (name, value) in [("aa", 1.0), ("aa.npy", 2.0)] {
        zip.start_file(name, SimpleFileOptions::default()).expect("a member");
        zip.write_all(&one(value)).expect("written");
    }
    zip.finish().expect("finished");
    let said = "members `aa` and `aa.npy` have one name for numpy, which loads one of them";
    assert_eq!(refused(&fs::read(&path).expect("read")), format!("x.npz: {said}"));
    let tensor = onnx_cast::Tensor::from_slice(vec![1], &[1f32]).expect("a tensor");
    let pair = [("aa", tensor.view()), ("aa.npy", tensor.view())];
    let bytes = onnx_cast_file::safetensors::write(None, &pair).expect("bytes");
    let [input, output] = ["in.safetensors", "out.npz"].map(|name| folder.path().join(name));
    fs::write(&input, bytes).expect("written");
    let error = cast_file(&input, &output, &CastRequest::new(DataType::Float16)).expect_err("one name");
    let said = said.replace("`aa.npy`", "`aa.npy.npy`").replace("`aa`", "`aa.npy`");
    assert_eq!(text_without(folder.path(), error), format!("out.npz: {said}"));
    // The place of a member is 42 bytes into its entry of the directory.
    let mut shared = good.clone();
    let entries: Vec<usize> = (0..good.len()).filter(|&at| good[at..].starts_with(b"PK\x01\x02")).collect();
    let place = shared[entries[0] + 42..][..4].to_vec();
    shared[entries[1] + 42..][..4].copy_from_slice(&place);
    assert_eq!(refused(&shared), "x.npz: members that overlap: the same bytes would be several arrays");
}

#[test]
fn a_member_inflates_to_no_more_than_it_claims() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.npz");
    for (descr, order, items) in [("<f4", false, 4), (">f4", true, 4), ("<U1", false, 4)] {
        let honest = array(descr, order, &[2, 2], &[b'a', 0, 0, 0].repeat(items));
        let bomb = [honest.clone(), vec![0; 1 << 20]].concat();
        let mut zip = ZipWriter::new(File::create(&path).expect("a file"));
        let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
        zip.start_file("w.npy", options).expect("a member");
        zip.write_all(&bomb).expect("written");
        zip.finish().expect("finished");
        let mut bytes = fs::read(&path).expect("read");
        let (real, claimed) = ((bomb.len() as u32).to_le_bytes(), (honest.len() as u32).to_le_bytes());
        assert_eq!(replace_all(&mut bytes, &real, &claimed), 2, "both headers");
        fs::write(&path, bytes).expect("written");
        let file = InputFile::open(&path).expect("opened");
        let error = read_tensors_from(file, Format::Npz, None).expect_err("longer");
        let want = "x.npz: cannot read: a member of the archive is longer than it claims";
        assert_eq!(text_without(folder.path(), error), want, "{descr}");
    }
}

/// Headers and items of arrays of types that ONNX lacks, or that have more than one name here.
fn foreign() -> Vec<(&'static str, Vec<u8>)> {
    let pickle = b"\x80\x04]\x94(K\x01K\x02e.";
    vec![
        ("when.npy", array("<M8[D]", false, &[1], &18262i64.to_le_bytes())),
        ("long.npy", array("<f16", true, &[2, 2], &[7; 64])),
        ("pickle.npy", array("|O", false, &[2], pickle)),
        ("complex.npy", array("<c32", false, &[1], &[1; 32])),
        ("void.npy", array("|V3", false, &[2], &[9; 6])),
        ("codes.npy", array("|V1", false, &[3], &[0x38, 0x40, 0x7f])),
        ("empty.npy", array("|S0", false, &[2], &[])),
    ]
}

fn raw_members(path: &Path) -> Vec<(String, Vec<u8>)> {
    let mut zip = ZipArchive::new(File::open(path).expect("a file")).expect("an archive");
    let count = zip.len();
    let member = |index| {
        let mut member = zip.by_index(index).expect("a member");
        let mut bytes = Vec::new();
        member.read_to_end(&mut bytes).expect("its checksum fits");
        (member.name().expect("a name").into_owned(), bytes)
    };
    (0..count).map(member).collect()
}

/// An archive of every kind of member, alternately stored and deflated.
fn mixed(path: &Path) -> Vec<(&'static str, Vec<u8>)> {
    let structure = "{'descr': [('a', '<i4'), ('b', [('c', '|S3')], (2,))], 'fortran_order': False, 'shape': (1,), }\n";
    let head = [b"\x93NUMPY\x01\x00", &(structure.len() as u16).to_le_bytes()[..], structure.as_bytes()].concat();
    let mut all = foreign();
    all.extend([
        ("record.npy", [head, vec![5; 10]].concat()),
        ("w.npy", array("<f4", false, &[2], &[1.0f32, 2.0].map(f32::to_le_bytes).concat())),
        ("bytes.npy", array("|S2", false, &[2], b"abc\0")),
        (
            "text.npy",
            array(">U1", true, &[2, 2], &"abcd".chars().flat_map(|c| u32::from(c).to_be_bytes()).collect::<Vec<_>>()),
        ),
        ("ids.npy", array(">i4", true, &[2, 2], &[3; 16])),
        ("half.npy", array("<V2", false, &[1], &[0x80, 0x3f])),
        ("été/ü.npy", array("|b1", false, &[1], &[1])),
        ("notes.txt", b"no array".to_vec()),
        ("folder/", Vec::new()),
    ]);
    let methods = [CompressionMethod::Stored, CompressionMethod::Deflated];
    let members = all.iter().enumerate().map(|(index, (name, bytes))| (*name, methods[index % 2], bytes.clone()));
    archive(path, &members.collect::<Vec<_>>());
    all
}

#[test]
fn kept_members_keep_every_byte() {
    let folder = tempfile::tempdir().expect("a folder");
    let (input, output) = (folder.path().join("in.npz"), folder.path().join("out.npz"));
    let all = mixed(&input);
    let done = cast_file(&input, &output, &CastRequest::new(DataType::Float16)).expect("cast");
    let cast: Vec<&str> = done.tensors.iter().filter(|row| row.cast).map(|row| &*row.name).collect();
    assert_eq!(cast, ["w", "half"]);
    let written = raw_members(&output);
    assert_eq!(written.len(), all.len());
    for ((name, bytes), (want_name, want)) in written.iter().zip(&all) {
        assert_eq!(name, want_name);
        assert_eq!(bytes == want, !["w.npy", "half.npy"].contains(want_name), "{name}");
    }
    let [note] = &done.notes[..] else { panic!("one note: {:?}", done.notes) };
    let start = "10 tensors kept byte for byte: `when` (elements of `<M8[D]` are dates, which ONNX has no type for), ";
    assert!(note.starts_with(start), "{note}");
    // What is kept and what is cast tells the library nothing new where it is read again.
    assert!(diff(&input, &input, &DiffRequest::default()).expect("compared").is_empty());
    for by_value in [false, true] {
        let nothing = DiffRequest::default().exclude(vec!["*".parse().expect("a pattern")]).values(by_value);
        let said = diff(&input, &output, &nothing).expect_err("nothing is compared").to_string();
        assert!(said.ends_with("`exclude` `*` leaves no tensor to compare"), "{said}");
    }
    let differ = diff(&input, &output, &DiffRequest::default()).expect("compared");
    assert_eq!(differ.iter().map(|(name, _)| &**name).collect::<Vec<_>>(), ["w", "half"]);
}

#[test]
fn members_of_unknown_types_are_listed() {
    let folder = tempfile::tempdir().expect("a folder");
    let input = folder.path().join("in.npz");
    mixed(&input);
    let info = inspect(&input, &InspectRequest::default().stats(true)).expect("listed");
    let listed = |name: &str| info.tensors.iter().find(|one| one.name == name).expect(name);
    for (name, descr) in [
        ("when", "<M8[D]"),
        ("long", "<f16"),
        ("pickle", "|O"),
        ("complex", "<c32"),
        ("void", "|V3"),
        ("codes", "|V1"),
        ("empty", "|S0"),
        ("record", "[('a', '<i4'), ('b', [('c', '|S3')], (2,))]"),
        ("notes.txt", "(no array)"),
    ] {
        assert_eq!((listed(name).data_type, listed(name).descr.as_deref()), (None, Some(descr)), "{name}");
    }
    for (name, data_type, bytes) in [
        ("w", DataType::Float, 8),
        ("bytes", DataType::String, 4),
        ("text", DataType::String, 16),
        ("half", DataType::BFloat16, 2),
        ("été/ü", DataType::Bool, 1),
    ] {
        let one = listed(name);
        assert_eq!((one.data_type, &one.descr, one.bytes), (Some(data_type), &None, bytes), "{name}");
    }
    let report =
        report(&input, &ReportRequest::default().to(vec!["float16".parse().expect("a type")])).expect("a report");
    assert_eq!(report.tensors.iter().map(|one| &*one.name).collect::<Vec<_>>(), ["w", "half"]);
}

/// A note is the same text in every front end: it names no field of the request.
#[test]
fn notes_name_no_fields() {
    let folder = tempfile::tempdir().expect("a folder");
    let (input, output) = (folder.path().join("in.npz"), folder.path().join("out.npz"));
    let members = [
        ("w.npy", CompressionMethod::Stored, array("<f4", false, &[1], &1f32.to_le_bytes())),
        ("codes.npy", CompressionMethod::Stored, array("|V1", false, &[1], &[1])),
    ];
    archive(&input, &members);
    let done = cast_file(&input, &output, &CastRequest::new(DataType::Float16)).expect("cast");
    let why = "elements of `|V1` may be any type of 8 bits or fewer";
    assert_eq!(done.notes, [format!("1 tensor kept byte for byte: `codes` ({why})")]);
}

/// Only a member that is to be cast has to be understood.
#[test]
fn a_member_that_is_asked_for_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let (input, output) = (folder.path().join("in.npz"), folder.path().join("out.npz"));
    mixed(&input);
    let pattern = |text: &str| text.parse::<Pattern>().expect("a pattern");
    let float16 = || Selection::new(DataType::Float16);
    let rule = |text: &str| text.parse().expect("a rule");
    let dates = "in.npz: tensor `when`: elements of `<M8[D]` are dates, which ONNX has no type for";
    let codes = "in.npz: tensor `codes`: elements of `|V1` may be any type of 8 bits or fewer (`from` gives the type, such as \
         float8e4m3fn)";
    for (selection, want) in [
        (Selection { include: vec![pattern("when")], ..float16() }, dates),
        (Selection { rules: vec![rule("when=int64")], ..Selection::default() }, dates),
        (Selection { rules: vec![rule("codes=float")], ..float16() }, codes),
        (
            Selection { include: vec![pattern("*.txt")], ..float16() },
            "in.npz: tensor `notes.txt`: not an array (want a name that ends in .npy)",
        ),
    ] {
        let request = CastRequest::default().selection(selection.clone());
        assert_eq!(text_without(folder.path(), cast_file(&input, &output, &request).expect_err(want)), want);
        assert!(!output.exists());
        let request = BitCastRequest::default().selection(selection);
        assert_eq!(text_without(folder.path(), bit_cast_file(&input, &output, &request).expect_err(want)), want);
    }
    let excluded = Selection { exclude: vec![pattern("when")], rules: vec![rule("long=keep")], ..float16() };
    cast_file(&input, &output, &CastRequest::default().selection(excluded)).expect("cast");
    // Nothing but an archive has a place for them.
    let request = CastRequest::new(DataType::Float16);
    let error = cast_file(&input, folder.path().join("out.safetensors"), &request).expect_err("dates");
    assert_eq!(text_without(folder.path(), error), dates);
}

#[test]
fn types_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let (input, output) = (folder.path().join("in.npz"), folder.path().join("out.npz"));
    let stored = CompressionMethod::Stored;
    archive(
        &input,
        &[
            ("w.npy", stored, array("<f4", false, &[1], &1f32.to_le_bytes())),
            ("a.codes.npy", stored, array("|V1", false, &[2], &[0x38, 0x40])),
            ("b.codes.npy", stored, array("|u1", false, &[2], &[0x3c, 0x40])),
        ],
    );
    let request = |from: &[&str]| {
        let from = from.iter().map(|one| one.parse().expect("a type")).collect();
        CastRequest::new(DataType::Float).raw(RawInput::default().from(from))
    };
    cast_file(&input, &output, &request(&["*.codes=float8e5m2", "a.*=float8e4m3fn"])).expect("cast");
    let got: Vec<_> = members(&output, DataType::Float).into_iter().map(|member| member.2).collect();
    let floats = |values: &[f32]| Tensor::from_slice(vec![values.len()], values).expect("a tensor");
    assert_eq!(got, [floats(&[1.0]), floats(&[1.0, 2.0]), floats(&[1.0, 2.0])]);
    for (from, want) in [
        (&["nothing=float8e5m2"][..], "in.npz: `from` `nothing` matches no tensor (`info` lists the names)"),
        (
            &["float8e5m2"],
            "in.npz: tensor `w`: elements of `<f4` are not float8e5m2 (`from` PATTERN=TYPE gives the type of some arrays \
             alone)",
        ),
    ] {
        let error = cast_file(&input, &output, &request(from)).expect_err(want);
        assert_eq!(text_without(folder.path(), error), want);
    }
    for (text, want) in [
        ("=float", "`=float` is neither TYPE nor PATTERN=TYPE"),
        ("w=floaty", "`floaty` is not an element type (did you mean `float`?)"),
    ] {
        assert_eq!(text.parse::<SourceType>().expect_err(want), want);
    }
}

/// `np.load` reads names of types where ml_dtypes is imported.
#[test]
fn names_of_numpy_and_ml_dtypes() {
    for (name, data_type, items) in [
        ("bfloat16", DataType::BFloat16, vec![0x80, 0x3f]),
        ("float32", DataType::Float, vec![0, 0, 0x80, 0x3f]),
        ("<float64", DataType::Double, vec![0, 0, 0, 0, 0, 0, 0xf0, 0x3f]),
        ("float8_e4m3fn", DataType::Float8E4M3FN, vec![0x38]),
        ("float8_e8m0fnu", DataType::Float8E8M0, vec![0x7f]),
        ("int8", DataType::Int8, vec![1]),
        ("bool", DataType::Bool, vec![1]),
        ("uint16", DataType::Uint16, vec![1, 0]),
    ] {
        let read = read(Format::Npy, &array(name, false, &[1], &items), None).expect(name).tensor;
        assert_eq!(read, Tensor::new(data_type, vec![1], items).expect("a tensor"), "{name}");
    }
    // ml_dtypes stores elements narrower than a byte one to a byte.
    for (name, data_type) in [("int4", DataType::Int4), ("float4_e2m1fn", DataType::Float4E2M1)] {
        let read = read(Format::Npy, &array(name, false, &[2], &[2, 3]), None).expect(name).tensor;
        assert_eq!(read, Tensor::new(data_type, vec![2], vec![0x32]).expect("a tensor"), "{name}");
    }
    let error = read(Format::Npy, &array("float8_e4m3", false, &[1], &[0]), None).expect_err("no type of ONNX");
    assert!(error.to_string().ends_with("elements of `float8_e4m3` have a type that ONNX lacks"), "{error}");
}

/// A `.npy` file that is not cast keeps every byte, as a member does.
#[test]
fn a_kept_array_keeps_every_byte() {
    let folder = tempfile::tempdir().expect("a folder");
    let (input, output) = (folder.path().join("in.npy"), folder.path().join("out.npy"));
    let kept = Selection { min_elements: Some(100), ..Selection::new(DataType::Float16) };
    let mut arrays = foreign();
    arrays.push(("ids.npy", array(">i4", true, &[2, 2], &[3; 16])));
    arrays.push(("bytes.npy", array("|S2", false, &[2], b"abc\0")));
    for (name, bytes) in arrays {
        fs::write(&input, &bytes).expect("written");
        for dry_run in [true, false] {
            let run = RunOptions::new().dry_run(dry_run);
            cast_file(&input, &output, &CastRequest::default().selection(kept.clone()).run(run)).expect(name);
        }
        assert!(fs::read(&output).expect("read") == bytes, "{name}");
        let archive = folder.path().join("out.npz");
        cast_file(&input, &archive, &CastRequest::default().selection(kept.clone())).expect(name);
        assert_eq!(raw_members(&archive), [("in.npy".to_owned(), bytes)], "{name}");
    }
}

/// Strings are compared one by one, in either order of the items, and so are the bytes of other arrays.
#[test]
fn differences_of_arrays_that_are_not_numbers() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let stored = CompressionMethod::Deflated;
    let words = |text: &str| text.chars().flat_map(|c| u32::from(c).to_le_bytes()).collect::<Vec<_>>();
    let one = |when: i64| array("<M8[D]", false, &[1], &when.to_le_bytes());
    archive(
        &path("a.npz"),
        &[
            ("t.npy", stored, array("<U1", true, &[2, 2], &words("acbd"))),
            ("when.npy", stored, one(1)),
            ("kind.npy", stored, one(1)),
        ],
    );
    archive(
        &path("b.npz"),
        &[
            ("t.npy", stored, array("|S2", false, &[2, 2], b"a\0bxc\0d\0")),
            ("when.npy", stored, one(2)),
            ("kind.npy", stored, array("<M8[s]", false, &[1], &1i64.to_le_bytes())),
        ],
    );
    let values = Difference::Values { count: 1, of: 4, first: 1, largest: Number::Float(0.0) };
    let want = [
        ("t".to_owned(), values),
        ("when".to_owned(), Difference::Bytes),
        ("kind".to_owned(), Difference::ForeignType("<M8[D]".to_owned(), "<M8[s]".to_owned())),
    ];
    assert_eq!(diff(path("a.npz"), path("b.npz"), &DiffRequest::default()).expect("compared"), want);
    // By values too, and beside numbers, in either order.
    let by_values = DiffRequest::default().values(true);
    assert_eq!(diff(path("a.npz"), path("b.npz"), &by_values).expect("compared"), want);
    archive(&path("c.npz"), &[("when.npy", stored, array("<f4", false, &[1], &1f32.to_le_bytes()))]);
    archive(&path("d.npz"), &[("when.npy", stored, one(1))]);
    let (date, number) = ("<M8[D]".to_owned(), "float".to_owned());
    for (a, b, types) in [("d", "c", [&date, &number]), ("c", "d", [&number, &date])] {
        let found = diff(path(&format!("{a}.npz")), path(&format!("{b}.npz")), &by_values).expect("compared");
        let [ours, theirs] = types.map(Clone::clone);
        assert_eq!(found, [("when".to_owned(), Difference::ForeignType(ours, theirs))]);
    }
}
