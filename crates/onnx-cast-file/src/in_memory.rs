//! Quantized checkpoints in memory: the jobs of `dequantize.rs`, `quantize.rs` and `transcode.rs`, from tensors to
//! tensors. They share every step with the jobs on files but the reading and the writing.

use crate::checkpoint::{Checkpoint, Configuration};
use crate::dequantize::DequantizeRequest;
use crate::engine::{MadeTensors, Opened, OutputPaths};
use crate::error::FileError;
use crate::formats::error::Invalid;
use crate::formats::format::Format;
use crate::formats::input::{Input, Location, StoredTensor};
use crate::formats::source::{Items, NamedTensor};
use crate::inspect::{Quantized, consistent};
use crate::io::positional::{InputFile, ReadAt};
use crate::job::Job;
use crate::layouts::Layout;
use crate::quantize::QuantizeRequest;
use crate::transcode::TranscodeRequest;
use onnx_cast::__private::DefaultEnvironment;
use onnx_cast::{DataType, Tensor, TensorView};
use std::collections::HashSet;
use std::fmt;
use std::io;
use std::path::Path;

/// Placeholder for the path in errors.
const TENSORS: &str = "tensors";

/// A tensor whose elements somebody holds.
pub struct HeldTensor {
    /// The name.
    pub name: String,
    /// The element type.
    pub data_type: DataType,
    /// The shape.
    pub shape: Vec<usize>,
    /// The elements, packed and little endian.
    pub bytes: Box<dyn AsRef<[u8]> + Send + Sync>,
}

impl From<NamedTensor> for HeldTensor {
    fn from(NamedTensor { name, tensor }: NamedTensor) -> Self {
        let (data_type, shape) = (tensor.data_type(), tensor.shape().to_vec());
        HeldTensor { name, data_type, shape, bytes: Box::new(Owned(tensor)) }
    }
}

impl fmt::Debug for HeldTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let HeldTensor { name, data_type, shape, .. } = self;
        f.debug_struct("HeldTensor").field("name", name).field("type", data_type).field("shape", shape).finish()
    }
}

struct Owned(Tensor);

impl AsRef<[u8]> for Owned {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes().unwrap_or_default()
    }
}

/// Tensors instead of a file: one behind the other.
#[derive(Debug)]
struct InARow(Vec<(u64, HeldTensor)>);

impl ReadAt for InARow {
    fn read_at(&self, at: u64, bytes: &mut [u8]) -> io::Result<usize> {
        let index = self.0.partition_point(|(start, _)| *start <= at);
        let Some((start, tensor)) = index.checked_sub(1).and_then(|index| self.0.get(index)) else { return Ok(0) };
        let elements: &[u8] = (*tensor.bytes).as_ref();
        let left = usize::try_from(at - start).ok().and_then(|skipped| elements.get(skipped..)).unwrap_or_default();
        let len = left.len().min(bytes.len());
        bytes[..len].copy_from_slice(&left[..len]);
        Ok(len)
    }
}

/// Tensors of a module or a model, and what is said of their quantization.
#[derive(Debug)]
pub struct TensorsInMemory {
    opened: Opened,
}

impl TensorsInMemory {
    /// With the text of `config.json`, of its `quantization_config` alone, or of `hf_quant_config.json`. Without it,
    /// the names of tensors tell the layout.
    ///
    /// # Errors
    /// Where a tensor is not as long as its type and shape say, or two have one name.
    pub fn new(tensors: Vec<HeldTensor>, config: Option<&str>) -> Result<Self, FileError> {
        let path = Path::new(TENSORS);
        let (mut names, mut list, mut parts, mut end) = (HashSet::new(), Vec::new(), Vec::new(), 0);
        for tensor in tensors {
            let HeldTensor { name, data_type, shape, bytes } = &tensor;
            let bytes: &[u8] = (**bytes).as_ref();
            let view = TensorView::new(*data_type, shape, bytes);
            let len = view.map_err(|error| FileError::cast(path, name, error.into()))?.len();
            if !names.insert(name.clone()) {
                return Err(FileError::invalid(path, Invalid::twice(name)));
            }
            let (start, place) = (end, Location::File(end, Items::PLAIN));
            end += bytes.len() as u64;
            list.push(StoredTensor { name: name.clone(), data_type: *data_type, shape: shape.clone(), len, place });
            parts.push((start, tensor));
        }
        let file = InputFile::other(path, end, InARow(parts));
        let input = Input {
            file,
            format: Format::Safetensors,
            tensors: list,
            metadata: None,
            message: None,
            members: Vec::new(),
            left_out: Vec::new(),
        };
        let checkpoint = Checkpoint::with(vec![input], Configuration::Text(config.map(str::to_owned)));
        Ok(TensorsInMemory { opened: Opened::with(checkpoint, path, OutputPaths::default()) })
    }
}

fn made(tensors: &TensorsInMemory, job: &impl Job) -> Result<MadeTensors, FileError> {
    job.check(Path::new(TENSORS), Path::new(TENSORS))?;
    job.plan(&tensors.opened)?.into_memory()
}

/// As [`dequantize_file`](crate::dequantize_file), in memory. What a request says of files is not looked at.
///
/// # Errors
/// As there.
pub fn dequantize_tensors(tensors: TensorsInMemory, request: &DequantizeRequest) -> Result<MadeTensors, FileError> {
    let _environment = DefaultEnvironment::enter();
    made(&tensors, request)
}

/// As [`quantize_file`](crate::quantize_file), in memory. What a request says of files is not looked at.
///
/// # Errors
/// As there.
pub fn quantize_tensors(tensors: TensorsInMemory, request: &QuantizeRequest) -> Result<MadeTensors, FileError> {
    let _environment = DefaultEnvironment::enter();
    made(&tensors, request)
}

/// As [`transcode_file`](crate::transcode_file), in memory. What a request says of files is not looked at.
///
/// # Errors
/// As there.
pub fn transcode_tensors(tensors: TensorsInMemory, request: &TranscodeRequest) -> Result<MadeTensors, FileError> {
    let _environment = DefaultEnvironment::enter();
    made(&tensors, request)
}

/// The quantized weights among tensors. Their scales are read.
///
/// # Errors
/// Where the tensors contradict themselves or the configuration.
pub fn quantized_tensors(tensors: &TensorsInMemory, layout: Option<Layout>) -> Result<Quantized, FileError> {
    let _environment = DefaultEnvironment::enter();
    let checkpoint = &tensors.opened.checkpoint;
    consistent(checkpoint, &checkpoint.config(layout)?)
}
