//! Tensors of every type and shape, written in every format that has them, and read again.

use crate::files::{checkpoint, read, written};
use crate::scratch;
use arbitrary::{Result, Unstructured};
use onnx_cast::packing::clear_padding;
use onnx_cast::tensor::Strings;
use onnx_cast::{DataType, Tensor};
use onnx_cast_file::{
    CastRequest, Format, NamedTensor, RawInput, RunOptions, WriteOptions, cast_file, read_tensor_as, safetensors,
    write_tensor,
};

/// A tensor with its name, and whether `.npy` is written plain.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) tensor: Tensor,
    pub(crate) plain: bool,
}

impl Case {
    fn new(data: &mut Unstructured<'_>) -> Result<Case> {
        let (data_type, plain) = (*data.choose(DataType::ALL)?, data.arbitrary()?);
        let rank = data.int_in_range(0..=4)?;
        let shape = (0..rank).map(|_| data.int_in_range(0..=9)).collect::<Result<Vec<usize>>>()?;
        let len = data.int_in_range(0..=12)?.min(data.len());
        let name = String::from_utf8_lossy(data.bytes(len)?).into_owned();
        let rest = data.bytes(data.len())?;
        Ok(Case { name, tensor: filled(data_type, shape, rest), plain })
    }
}

/// A tensor of these bytes, again and again.
fn filled(data_type: DataType, shape: Vec<usize>, bytes: &[u8]) -> Tensor {
    let count = shape.iter().product();
    let tensor = if data_type == DataType::String {
        let text = String::from_utf8_lossy(bytes);
        // Of a text in an `.npy` file, NULs at the end are none of its characters.
        let texts = text.split('\n').map(|text| text.trim_end_matches('\0')).cycle();
        Tensor::strings(shape, texts.take(count).collect::<Strings>())
    } else {
        let len = data_type.byte_len(count).expect("a small size");
        let mut elements: Vec<u8> = bytes.iter().copied().chain([7]).cycle().take(len).collect();
        if data_type == DataType::Bool {
            elements.iter_mut().for_each(|byte| *byte &= 1);
        }
        clear_padding(data_type, count, &mut elements).expect("the bytes of so many elements");
        Tensor::new(data_type, shape, elements)
    };
    tensor.expect("a tensor")
}

/// A tensor.
pub fn round_trip(data: &[u8]) {
    let Ok(Case { name, tensor, plain }) = Case::new(&mut Unstructured::new(data)) else { return };
    let (data_type, view) = (tensor.data_type(), tensor.view());

    let message = written(Format::TensorProto, &name, &tensor, false).expect("a small tensor");
    let one = read(Format::TensorProto, &message, None).expect("what was written");
    assert_eq!((&one.name, &one.tensor), (&name, &tensor), ".pb");
    let array = written(Format::Npy, "", &tensor, plain).expect("every type has a form");
    assert_eq!(read(Format::Npy, &array, Some(data_type)).expect("what was written").tensor, tensor, ".npy");
    let held = safetensors::write(None, &[(&name, view)]);
    if let Ok(written) = &held {
        let (tensors, _) = checkpoint(written).expect("what was written");
        assert_eq!((&tensors[0].name, &tensors[0].tensor), (&name, &tensor), ".safetensors");
    }
    through_files(&Case { name, tensor, plain }, held.is_ok());
}

/// From file to file, each from the one before.
fn through_files(Case { name, tensor, plain }: &Case, in_safetensors: bool) {
    let data_type = tensor.data_type();
    let first = scratch::output("0.pb");
    write_tensor(&first, Format::TensorProto, name, tensor.view(), &WriteOptions::default()).expect("a file");
    let mut from = first.clone();
    for (index, extension) in ["npy", "pb", "safetensors", "npy", "npz", "pb"].iter().enumerate() {
        let only_there = *extension == "safetensors" && (name.is_empty() || !in_safetensors);
        // A cast to their own type leaves elements as they are; complex numbers have no Cast.
        if only_there || matches!(data_type, DataType::Complex64 | DataType::Complex128) {
            continue;
        }
        let to = scratch::output(&format!("{}.{extension}", index + 1));
        // It is for arrays, and refused elsewhere.
        let is_plain = *plain && extension.starts_with("np");
        let request = CastRequest::new(data_type)
            .run(RunOptions::new().write(WriteOptions::default().npy_plain(is_plain)))
            .raw(RawInput::default().from(vec![data_type.into()]));
        match cast_file(&from, &to, &request) {
            Ok(_) => {}
            // A file of several tensors needs names, which `.npy` lacks.
            Err(_) if ["safetensors", "npz"].contains(extension) => continue,
            Err(error) => panic!("{error}"),
        }
        let NamedTensor { tensor: read, .. } = read_tensor_as(&to, Some(data_type)).expect("what was written");
        assert_eq!(&read, tensor, "{} from {}", to.display(), from.display());
        from = to;
    }
    raw(&first, tensor);
}

/// As raw bytes, whose type and shape are told.
fn raw(from: &std::path::Path, tensor: &Tensor) {
    let data_type = tensor.data_type();
    if data_type == DataType::String || matches!(data_type, DataType::Complex64 | DataType::Complex128) {
        return;
    }
    let (bytes, back) = (scratch::output("r.bin"), scratch::output("r.pb"));
    cast_file(from, &bytes, &CastRequest::new(data_type)).expect("raw bytes");
    assert_eq!(std::fs::read(&bytes).ok().as_deref(), tensor.bytes(), "raw bytes");
    let shape = Some(tensor.shape().to_vec());
    cast_file(
        &bytes,
        &back,
        &CastRequest::new(data_type).raw(RawInput::default().from(vec![data_type.into()]).shape(shape)),
    )
    .expect("cast");
    assert_eq!(read_tensor_as(&back, None).expect("what was written").tensor, *tensor, "raw bytes, read again");
}
