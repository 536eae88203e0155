//! Are arrays in archives, in Fortran order and of the other byte order read for what they are, and damaged archives
//! refused?

use crate::common;

use common::{Format, read, text_without};
use onnx_cast::tensor::Strings;
use onnx_cast::{Cast, CastOptions, DataType, Tensor};
use onnx_cast_file::{CastRequest, InputFile, cast_file, read_tensor_as, read_tensors_from, safetensors};
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
    assert_eq!(refused(&claims), "in.npz: 16 bytes after the header for 536870912 `<f4` (want 2147483648)");
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
