//! Readers of tensors: from memory and from a file the same, and what was read is written and read again.

use crate::scratch;
use arbitrary::Unstructured;
use onnx_cast::{Cast, CastOptions, DataType, Tensor};
use onnx_cast_file::__private::{Given, Input};
use onnx_cast_file::{
    CastRequest, DequantizeRequest, DiffRequest, Difference, FileInfo, Format, FormatError, InputFile, InspectRequest,
    NamedTensor, RawInput, RunOptions, Selection, WriteOptions, cast_file, dequantize_file, diff, inspect, put_tensor,
    read_tensor_as, read_tensor_from, read_tensors_from,
};
use std::io::{Cursor, Read, Write};
use std::path::Path;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

/// A type, of all, that goes with an input: a file has no byte to spare for one.
pub(crate) fn some_type(data: &[u8]) -> DataType {
    let sum = data.iter().fold(0usize, |sum, &byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    DataType::ALL[sum % DataType::ALL.len()]
}

/// Compares what was read from memory with what was read from a file of the same bytes.
#[track_caller]
fn assert_same(memory: &Result<NamedTensor, FormatError>, file: &Result<NamedTensor, FormatError>) {
    match (memory, file) {
        (Ok(memory), Ok(file)) => assert_eq!(memory, file, "a file is read otherwise than its bytes"),
        (Err(_), Err(_)) => {}
        (Ok(_), Err(error)) => panic!("read from memory, but not from a file: {error}"),
        (Err(error), Ok(_)) => panic!("read from a file, but not from memory: {error}"),
    }
}

/// Reads the bytes of a file of one tensor.
pub(crate) fn read(format: Format, bytes: &[u8], from: Option<DataType>) -> Result<NamedTensor, FormatError> {
    read_tensor_from(in_memory(bytes), format, from)
}

/// The bytes of a file of one tensor.
pub(crate) fn written(format: Format, name: &str, tensor: &Tensor, npy_plain: bool) -> Result<Vec<u8>, FormatError> {
    let mut bytes = Vec::new();
    put_tensor(
        &mut bytes,
        Path::new("memory"),
        format,
        name,
        tensor.view(),
        &WriteOptions::default().npy_plain(npy_plain),
    )?;
    Ok(bytes)
}

fn in_memory(bytes: &[u8]) -> InputFile {
    InputFile::other(Path::new("memory"), bytes.len() as u64, bytes.to_vec())
}

/// The tensors of the bytes of a `.safetensors` file, and its metadata.
pub(crate) fn checkpoint(bytes: &[u8]) -> Result<Checkpoint, FormatError> {
    let input = Input::of(in_memory(bytes), Some(Format::Safetensors), &Given::default())?;
    Ok((read_tensors_from(in_memory(bytes), Format::Safetensors, None)?, input.metadata))
}

type Checkpoint = (Vec<NamedTensor>, Option<Vec<(String, String)>>);

/// Everything that can be listed.
pub(crate) fn listed(from: Option<DataType>) -> InspectRequest {
    InspectRequest::default().from(from.map(Into::into).into_iter().collect()).stats(true)
}

/// A TensorProto.
pub fn tensor_proto(data: &[u8]) {
    let memory = read(Format::TensorProto, data, None);
    let path = scratch::write("x.pb", data);
    assert_same(&memory, &read_tensor_as(&path, None));
    let Ok(NamedTensor { name, tensor }) = memory else { return };
    let written = written(Format::TensorProto, &name, &tensor, false).expect("a small tensor");
    let again = read(Format::TensorProto, &written, None).expect("what was written");
    assert_eq!((&again.name, &again.tensor), (&name, &tensor), "written, then read");
    check_cast(&path, &tensor, some_type(data), None);
}

/// Casts a file, of one tensor, and holds the result against the operator's. Both may refuse.
fn check_cast(path: &Path, tensor: &Tensor, to: DataType, from: Option<DataType>) {
    let want = Cast::new(to, &CastOptions::default()).map_err(drop);
    let want = want.and_then(|cast| cast.run(&tensor.view()).map_err(drop));
    let output = scratch::output("y.pb");
    let done = cast_file(
        path,
        &output,
        &CastRequest::new(to).raw(RawInput::default().from(from.map(Into::into).into_iter().collect())),
    );
    match (done, want) {
        (Ok(_), Ok(want)) => {
            let got = read_tensor_as(&output, None).expect("what was written");
            assert_eq!(got.tensor, want, "a file is cast otherwise than its tensor, to {to}");
        }
        (Err(_), Err(())) => {}
        (Ok(_), Err(())) => panic!("a file is cast to {to}, and its tensor is not"),
        (Err(error), Ok(_)) => panic!("a tensor is cast to {to}, and its file is not: {error}"),
    }
}

/// An `.npy` file; a type is given where it does not tell its own.
pub fn npy(data: &[u8]) {
    let path = scratch::write("x.npy", data);
    let given = some_type(data);
    for from in [None, Some(given)] {
        let memory = read(Format::Npy, data, from);
        assert_same(&memory, &read_tensor_as(&path, from));
        let Ok(NamedTensor { tensor, .. }) = memory else { continue };
        check_cast(&path, &tensor, given, from);
        for plain in [false, true] {
            // Texts that are not UTF-8 have no `U` to be written as.
            let Ok(written) = written(Format::Npy, "", &tensor, plain) else { continue };
            let again = read(Format::Npy, &written, Some(tensor.data_type())).expect("what was written");
            assert_eq!(again.tensor, tensor, "written, then read");
        }
    }
}

/// An `.npz` file: as it is, or members put into an archive, which a checksum keeps a fuzzer from changing otherwise.
pub fn npz(data: &[u8]) {
    let Some((&kind, rest)) = data.split_first() else { return };
    let path = match kind % 3 {
        0 => scratch::write("x.npz", rest),
        stored => {
            let method = if stored == 1 { CompressionMethod::Stored } else { CompressionMethod::Deflated };
            scratch::write("x.npz", &archive(rest, method))
        }
    };
    [None, Some(some_type(data))].into_iter().for_each(|from| check_archive(&path, from));
}

/// Reads an archive whose arrays are of a type, where they do not tell it, and casts it.
fn check_archive(path: &Path, from: Option<DataType>) {
    let Ok(info) = inspect(path, &listed(from)) else { return };
    if let [tensor] = &info.tensors[..] {
        let file = read_tensor_as(path, from);
        let memory = member(path).and_then(|bytes| read(Format::Npy, &bytes, from).ok());
        match (memory, file) {
            (Some(memory), Ok(file)) => {
                assert_eq!((&tensor.name, memory.tensor), (&file.name, file.tensor), "an archive's array");
            }
            (None, Err(_)) => {}
            (memory, file) => panic!("listed, but alone {:?}, and from the archive {file:?}", memory.is_some()),
        }
    }
    // Numbers to floats, all others left alone: what was listed can be cast, and stands there again.
    let output = scratch::output("y.npz");
    if cast_file(
        path,
        &output,
        &CastRequest::new(DataType::Float).raw(RawInput::default().from(from.map(Into::into).into_iter().collect())),
    )
    .is_ok()
    {
        let after = inspect(&output, &listed(None)).or_else(|_| inspect(&output, &listed(from)));
        let after = after.expect("what was written");
        let names = |info: &onnx_cast_file::FileInfo| {
            info.tensors.iter().map(|tensor| (tensor.name.clone(), tensor.shape.clone())).collect::<Vec<_>>()
        };
        assert_eq!(names(&info), names(&after), "the arrays of an archive");
    }
}

/// An archive of pieces of the data, each behind its length.
fn archive(data: &[u8], method: CompressionMethod) -> Vec<u8> {
    let mut data = Unstructured::new(data);
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(method);
    for name in ["a.npy", "b/c.npy", "ä.npy", "d.txt"] {
        let len = data.arbitrary::<u16>().unwrap_or_default();
        let piece = data.bytes(usize::from(len).min(data.len())).unwrap_or_default();
        zip.start_file(name, options).expect("a member");
        zip.write_all(piece).expect("written");
        if data.is_empty() {
            break;
        }
    }
    zip.finish().expect("an archive").into_inner()
}

/// The only member of an archive.
fn member(path: &Path) -> Option<Vec<u8>> {
    let mut zip = ZipArchive::new(std::fs::File::open(path).ok()?).ok()?;
    let mut bytes = Vec::new();
    zip.by_index(0).ok()?.read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// A `.gguf` file: what is dequantized can be listed, and has the values that are there.
pub fn gguf(data: &[u8]) {
    let path = scratch::write("x.gguf", data);
    let info = inspect(&path, &listed(None));
    let output = scratch::output("y.safetensors");
    let request = DequantizeRequest::new(DataType::Float).allow_nan(true).run(RunOptions::new().threads(Some(1)));
    let Ok(done) = dequantize_file(&path, &output, &request) else { return };
    let info = info.expect("what was dequantized");
    for row in &done.tensors {
        assert!(info.tensors.iter().any(|tensor| tensor.name == row.name && tensor.shape == row.shape), "{row:?}");
    }
    for (name, difference) in diff(&path, &output, &DiffRequest::default()).expect("what was dequantized") {
        assert_eq!(difference, Difference::OnlyFirst, "tensor {name}");
        // Scales of weights go.
        assert!(name.ends_with("scale"), "tensor {name} is missing");
    }
}

/// A file of `torch.save`: if it can be cast, its tensors can be listed, and the output has the same values.
pub fn torch(data: &[u8]) {
    let path = scratch::write("x.pt", data);
    let info = inspect(&path, &listed(None));
    let output = scratch::output("y.safetensors");
    let rules = vec!["*=keep".parse().expect("a rule")];
    let selection = Selection { rules, ..Selection::new(DataType::Float) };
    let request = CastRequest::default().selection(selection).run(RunOptions::new().threads(Some(1)));
    // A small file may contain large tensors, because a view may repeat its elements.
    let is_small = |info: &FileInfo| info.tensors.iter().map(|tensor| tensor.bytes).sum::<u64>() <= 1 << 20;
    let Some(info) = info.ok().filter(is_small) else { return };
    let Ok(done) = cast_file(&path, &output, &request) else { return };
    let tensors = done.tensors.iter().map(|row| (&row.name, &row.shape));
    assert!(tensors.eq(info.tensors.iter().map(|tensor| (&tensor.name, &tensor.shape))), "{done:?} and {info:?}");
    assert_eq!(diff(&path, &output, &DiffRequest::default()).expect("what was cast"), []);
}

/// A `.safetensors` file, beside the format's own reader.
pub fn safetensors(data: &[u8]) {
    let ours = checkpoint(data);
    match (&ours, ::safetensors::SafeTensors::deserialize(data)) {
        // It takes names that stand twice.
        (Err(error), Ok(_)) => assert!(error.to_string().contains("appears twice"), "{error}"),
        (Ok((ours, _)), Ok(theirs)) => {
            assert_eq!(ours.len(), theirs.len(), "tensors");
            for NamedTensor { name, tensor } in ours {
                let view = theirs.tensor(name).expect("a tensor of that name");
                assert_eq!((tensor.bytes(), tensor.shape()), (Some(view.data()), view.shape()), "tensor {name}");
            }
        }
        (Ok((ours, _)), Err(error)) => {
            // The reader here does not multiply dimensions past a zero.
            let zero = ours.iter().any(|one| one.tensor.shape().contains(&0));
            assert!(zero, "accepted, but {error}");
        }
        (Err(_), Err(_)) => {}
    }
    let path = scratch::write("x.safetensors", data);
    let info = inspect(&path, &listed(None));
    let Ok((ours, metadata)) = ours else {
        assert!(info.is_err(), "read from a file, but not from memory");
        return;
    };
    let info = info.expect("a file whose bytes are read");
    assert_eq!(info.tensors.len(), ours.len(), "tensors");
    let named: Vec<_> = ours.iter().map(|one| (one.name.as_str(), one.tensor.view())).collect();
    // The format has files without a name for a tensor, which are not written here.
    if let Ok(written) = onnx_cast_file::safetensors::write(metadata.as_deref(), &named) {
        let again = checkpoint(&written).expect("what was written");
        assert_eq!((&again.0, &again.1), (&ours, &metadata), "written, then read");
    }
    let to = some_type(data);
    let output = scratch::output("y.safetensors");
    if cast_file(&path, &output, &CastRequest::new(to)).is_ok() {
        let bytes = std::fs::read(&output).expect("what was written");
        let (cast, kept) = checkpoint(&bytes).expect("what was written");
        assert_eq!((cast.len(), kept), (ours.len(), metadata));
    }
}
