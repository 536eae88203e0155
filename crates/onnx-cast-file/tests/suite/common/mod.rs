//! The fixtures that `fixtures/make.py` writes, parsed.

pub(crate) mod checkpoint;
pub(crate) mod families;
pub(crate) mod folder;
pub(crate) mod replacing;

pub(crate) use testkit::fixtures::{files, text_without, unhex};

use onnx_cast::tensor::Strings;
use onnx_cast::{DataType, Tensor, TensorView};
use onnx_cast_file::__private::{Given, Input};
use onnx_cast_file::{
    FormatError, InputFile, NamedTensor, WriteOptions, put_tensor, read_tensor_from, read_tensors_from,
};
use std::path::Path;

pub(crate) use onnx_cast_file::Format;

pub(crate) const NPY: &str = include_str!("../../fixtures/npy.txt");
pub(crate) const PB: &str = include_str!("../../fixtures/pb.txt");
pub(crate) const SAFETENSORS: &str = include_str!("../../fixtures/safetensors.txt");
pub(crate) const REFUSED: &str = include_str!("../../fixtures/refused.txt");

/// A file that another package wrote, and the tensor that it holds.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) tensor: Tensor,
    pub(crate) file: Vec<u8>,
}

/// The lines `NAME TYPE SHAPE ELEMENTS FILE`.
pub(crate) fn cases(table: &'static str) -> Vec<Case> {
    table
        .lines()
        .map(|line| {
            let [name, data_type, shape, raw, file] = line.split(' ').collect::<Vec<_>>()[..] else {
                panic!("{line}");
            };
            let data_type: DataType = data_type.parse().expect("a type");
            let shape: Vec<usize> = match shape {
                "scalar" => vec![],
                shape => shape.split('x').map(|dim| dim.parse().expect("a dimension")).collect(),
            };
            let tensor = if data_type == DataType::String {
                let list: Vec<&str> = if raw == "none" { vec![] } else { raw.split(',').collect() };
                Tensor::strings(shape, list.into_iter().map(unhex).collect::<Strings>())
            } else {
                Tensor::new(data_type, shape, unhex(raw))
            };
            Case { name, tensor: tensor.unwrap_or_else(|error| panic!("{name}: {error}")), file: unhex(file) }
        })
        .collect()
}

/// Type, shape and elements, for a message.
pub(crate) fn describe(view: &TensorView<'_>) -> String {
    match view.as_strings() {
        None => format!("{} {:?} {:02x?}", view.data_type(), view.shape(), view.bytes().unwrap_or_default()),
        Some(strings) => {
            let texts: Vec<_> = strings.iter().map(String::from_utf8_lossy).collect();
            format!("{} {:?} {texts:?}", view.data_type(), view.shape())
        }
    }
}

/// A tensor of a type with some of every bit pattern, `len` elements long.
pub(crate) fn patterns(data_type: DataType, shape: &[usize]) -> Tensor {
    let len: usize = shape.iter().product();
    let tensor = if data_type == DataType::String {
        let strings: Strings = (0..len).map(|i| if i == 0 { String::new() } else { format!("é{i}") }).collect();
        Tensor::strings(shape.to_vec(), strings)
    } else {
        let size = data_type.byte_len(len).expect("a small size");
        let mut bytes: Vec<u8> = (0..size).map(|i| (i * 37 + 11) as u8).collect();
        if data_type == DataType::Bool {
            bytes.iter_mut().for_each(|byte| *byte &= 1);
        }
        onnx_cast::packing::clear_padding(data_type, len, &mut bytes).expect("the bytes of so many elements");
        Tensor::new(data_type, shape.to_vec(), bytes)
    };
    tensor.expect("a tensor")
}

fn in_memory(bytes: &[u8]) -> InputFile {
    InputFile::other(Path::new("memory"), bytes.len() as u64, bytes.to_vec())
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

/// The metadata of a `.safetensors` file.
pub(crate) type Metadata = Option<Vec<(String, String)>>;

/// Reads the bytes of a `.safetensors` file.
pub(crate) fn checkpoint(bytes: &[u8]) -> Result<(Vec<NamedTensor>, Metadata), FormatError> {
    let input = Input::of(in_memory(bytes), Some(Format::Safetensors), &Given::default())?;
    Ok((read_tensors_from(in_memory(bytes), Format::Safetensors, None)?, input.metadata))
}
