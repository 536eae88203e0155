//! From plain weights to a `.gguf` file for llama.cpp: the tensors under its names, in its types, behind its metadata.
//!
//! The input is a checkpoint of Hugging Face, of a family whose names are known (`names.rs`); a `.safetensors` file
//! with llama.cpp's own names; or a `.gguf` file, whose metadata stays as it is, the tokenizer with it. Types are
//! chosen as llama.cpp's converter chooses them: matrices get the type that is asked for, everything else float.

mod limits;
mod metadata;
mod names;
mod source;

use super::linear::Why;
use super::{QuantizeRequest, nothing_to_quantize};
use crate::checkpoint::TensorRef;
use crate::counts::Counters;
use crate::engine::{self, Computed, Opened, OutputFile, OutputPaths, OutputPlan, OutputTensor, Source};
use crate::error::FileError;
use crate::formats::error::{FormatError, Invalid, InvalidKind};
use crate::formats::format::Format;
use crate::formats::gguf::{self, Described, FileHead, GgufType, Held, Metadata, MetadataValue};
use crate::formats::input::{Given, Input, Location, StoredTensor};
use crate::layouts::{self, QuantizedFormat, WeightFormat};
use crate::selection::Chosen;
use crate::summary::TensorSummary;
use crate::text::{Count, Wording};
use metadata::Config;
use names::{Called, Family};
use onnx_cast::scaled::ScaleRule;
use onnx_cast::tensor::element_count;
use onnx_cast::{Cast, CastOptions, DataType};
use serde_json::{Map, Value};
use source::{EncodedBlocks, Floats, KeptBlocks, Rows};
use std::cmp::Ordering;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

const ARCHITECTURE: &str = "general.architecture";
const FILE_TYPE: &str = "general.file_type";
const QUANTIZATION_VERSION: &str = "general.quantization_version";
const ALIGNMENT: &str = "general.alignment";
const ROTATION_FACTORS: &str = "rope_freqs.weight";

/// Tensors that llama.cpp reads as float alone, though they are matrices: routers.
const FLOATS: &[&str] = &["_norm.weight", "ffn_gate_inp.weight", "ffn_gate_inp_shexp.weight"];

pub(super) fn open(input: &Path, output: &Path, request: &QuantizeRequest) -> Result<Opened, FileError> {
    const OWN: &str = "is for layouts with scales of float8e8m0 (gguf has a rule of its own)";
    const APART: &str = "is for checkpoints of .safetensors files (gguf says nothing of activations)";
    let fields = [
        ("scale_rule", request.scale_rule.is_some_and(|rule| rule != ScaleRule::default()), OWN),
        ("activations", request.activations.is_some(), APART),
    ];
    FileError::refuse(input, &fields)?;
    request.run.refuse_shards(input)?;
    for to in request.selection.targets() {
        let granularity = request.layout_or_default().granularity(to.format, to.granularity);
        granularity.map_err(|error| FileError::invalid(input, error))?;
    }
    if gguf::is_meant(input) {
        let file = Input::open(input, Some(Format::Gguf), &Given::default())?;
        let outputs = OutputPaths { single: Some(output.to_owned()), ..OutputPaths::default() };
        return Ok(Opened::of(input, vec![file], outputs));
    }
    engine::open_to_file(input, output)
}

pub(super) fn plan<'a>(opened: &'a Opened, request: &'a QuantizeRequest) -> Result<OutputPlan<'a>, FileError> {
    if opened.checkpoint.files.iter().all(|file| file.format != Format::Gguf) {
        layouts::check_plain(&opened.checkpoint)?;
    }
    let names = opened.checkpoint.tensors().map(|(_, stored)| &*stored.name);
    request.selection.check_names(names).map_err(|error| FileError::invalid(&opened.input, error))?;
    Planner::new(opened, request)?.plan()
}

/// The matrices of one tensor of experts, each with its number.
type Experts = Vec<(usize, TensorRef)>;

/// A tensor of the output.
struct Wanted {
    name: String,
    shape: Vec<usize>,
    /// The tensors that it is made of, one above the other.
    parts: Vec<TensorRef>,
    /// Rows of a head, where they go by pairs.
    head: Option<usize>,
    adds_one: bool,
}

impl Wanted {
    fn is_simple(&self) -> bool {
        self.parts.len() == 1 && self.head.is_none() && !self.adds_one
    }
}

struct Planner<'a> {
    opened: &'a Opened,
    request: &'a QuantizeRequest,
    family: Option<(&'static Family, Map<String, Value>)>,
    passed_over: Vec<(String, String)>,
    left_out: Vec<(String, String)>,
    counters: Counters,
}

impl<'a> Planner<'a> {
    fn new(opened: &'a Opened, request: &'a QuantizeRequest) -> Result<Self, FileError> {
        let checkpoint = &opened.checkpoint;
        let is_called = checkpoint.tensors().any(|(_, stored)| names::is_called(&stored.name));
        let is_gguf = checkpoint.files.iter().any(|file| file.format == Format::Gguf);
        let family = if is_gguf || is_called { None } else { Some(metadata::family(checkpoint)?) };
        let counters = Counters::new(request.run.counts());
        Ok(Planner { opened, request, family, passed_over: Vec::new(), left_out: Vec::new(), counters })
    }

    fn plan(mut self) -> Result<OutputPlan<'a>, FileError> {
        let (opened, request) = (self.opened, self.request);
        let path = opened.outputs.file(&opened.input);
        let mut rows = Vec::new();
        let mut kinds = Vec::new();
        for wanted in self.wanted()? {
            let (kind, row) = self.row(wanted)?;
            kinds.push(kind);
            rows.push(row);
        }
        if !rows.iter().any(|row| row.summary.cast) {
            return Err(nothing_to_quantize(&opened.checkpoint, ""));
        }
        let metadata = self.metadata(&kinds)?;
        let note = self.check_limits(&rows)?;
        if let Some((_, config)) = &self.family
            && let Some(factors) = metadata::rotation_factors(Config(config)).map_err(|what| self.wrong_config(what))?
        {
            let bytes: Vec<u8> = factors.iter().flat_map(|factor| factor.to_le_bytes()).collect();
            let (shape, tensor) = (vec![factors.len()], TensorRef { file: 0, tensor: 0 });
            let summary = TensorSummary::kept(ROTATION_FACTORS, shape, DataType::Float, bytes.len() as u64);
            kinds.push(GgufType::of_plain(DataType::Float).unwrap_or(kinds[0]));
            rows.push(OutputTensor { summary, tensor, source: Source::Bytes(bytes) });
        }
        let described = rows.iter().zip(&kinds).map(|(row, kind)| Described {
            name: &row.summary.name,
            shape: &row.summary.shape,
            kind,
            bytes: row.summary.bytes_after,
        });
        let head = gguf::header(&metadata, &described.collect::<Vec<_>>());
        let head = Some(head.map_err(|error| FormatError::invalid(&path, error))?);
        let files = vec![OutputFile { path, format: Format::Gguf, metadata: None, head, rows }];
        let (passed_over, left_out, notes) = (self.passed_over, self.left_out, note.into_iter().collect());
        Ok(OutputPlan { passed_over, left_out, notes, ..OutputPlan::new(opened, files, &request.run) })
    }

    /// Refuses what llama.cpp would not load, or compute otherwise, and says what to know of the rest.
    fn check_limits(&self, rows: &[OutputTensor<'_>]) -> Result<Option<String>, FileError> {
        let Some((family, config)) = &self.family else { return Ok(None) };
        let tensors = rows.iter().map(|row| (&*row.summary.name, &*row.summary.shape));
        limits::check(family, Config(config), tensors).map_err(|what| self.wrong_config(what))
    }

    fn wrong_config(&self, what: String) -> FileError {
        let path = self.opened.checkpoint.folder().join("config.json");
        FileError::invalid(&path, Invalid::new(InvalidKind::Unsupported, what))
    }

    /// An error about a tensor of the input.
    fn wrong(&self, tensor: TensorRef, kind: InvalidKind, what: impl Into<Wording>) -> FileError {
        let checkpoint = &self.opened.checkpoint;
        let error = Invalid::new(kind, what).of_tensor(&checkpoint.stored(tensor).name);
        FormatError::invalid(checkpoint.files[tensor.file].path(), error).into()
    }

    /// The tensors of the output, in the order of those that they are made of.
    fn wanted(&mut self) -> Result<Vec<Wanted>, FileError> {
        let checkpoint = &self.opened.checkpoint;
        let mut all: Vec<Wanted> = Vec::new();
        // Experts of one tensor, by their numbers.
        let mut experts: HashMap<String, (usize, Experts)> = HashMap::new();
        let mut left_out = Vec::new();
        for (tensor, stored) in checkpoint.tensors() {
            let called = match &self.family {
                Some((family, _)) => family.call(&stored.name),
                None => Called::Name(stored.name.clone()),
            };
            let mut leave_out = |reason: &str| left_out.push((stored.name.clone(), reason.to_owned()));
            match called {
                Called::Name(name) => all.push(self.of_one(tensor, stored, name)?),
                Called::Expert(name, number) => {
                    let (_, experts) = experts.entry(name.clone()).or_insert_with(|| {
                        let (shape, parts) = (stored.shape.clone(), Vec::new());
                        all.push(Wanted { name, shape, parts, head: None, adds_one: false });
                        (all.len() - 1, Experts::new())
                    });
                    experts.push((number, tensor));
                }
                Called::LeftOut(reason) => leave_out(reason),
                Called::Unknown if self.is_excluded(stored) => leave_out("it has no name in llama.cpp"),
                Called::Unknown => {
                    let family = self.family.as_ref().map_or("", |(family, _)| family.model_type);
                    let what = Wording::from(format!("its name in llama.cpp is unknown for the family `{family}` ("));
                    let what = what.field("exclude", " leaves it out)");
                    return Err(self.wrong(tensor, InvalidKind::Name, what));
                }
            }
        }
        let mut joined: Vec<(usize, Experts)> = experts.into_values().collect();
        joined.sort_by_key(|(place, _)| *place);
        joined.into_iter().try_for_each(|(place, experts)| self.join_experts(&mut all[place], experts))?;
        self.left_out.extend(left_out);
        Ok(all)
    }

    /// Puts the matrices of experts one above the other. They must be numbered from 0 on.
    fn join_experts(&self, wanted: &mut Wanted, mut experts: Experts) -> Result<(), FileError> {
        let checkpoint = &self.opened.checkpoint;
        experts.sort_by_key(|(number, _)| *number);
        for (place, &(number, tensor)) in experts.iter().enumerate() {
            let (tensor, what) = match number.cmp(&place) {
                Ordering::Equal => continue,
                Ordering::Less => (tensor, format!("a second expert {number} of its layer")),
                Ordering::Greater => (experts[0].1, format!("expert {place} of its layer is missing")),
            };
            return Err(self.wrong(tensor, InvalidKind::Name, what));
        }
        let parts: Vec<TensorRef> = experts.into_iter().map(|(_, tensor)| tensor).collect();
        let Some(&first) = parts.first() else { return Ok(()) };
        for part in parts {
            let (stored, of_first) = (checkpoint.stored(part), checkpoint.stored(first));
            if (&stored.shape, stored.data_type) != (&of_first.shape, of_first.data_type) {
                let what = format!("another shape or type than `{}` has", crate::text::Short(&of_first.name));
                return Err(self.wrong(part, InvalidKind::Size, what));
            }
            wanted.parts.push(part);
        }
        wanted.shape.insert(0, wanted.parts.len());
        Ok(())
    }

    /// A tensor that is made of one.
    fn of_one(&self, tensor: TensorRef, stored: &StoredTensor, name: String) -> Result<Wanted, FileError> {
        let (mut head, mut adds_one) = (None, false);
        if let Some((family, config)) = &self.family {
            let heads = match stored.name.rsplit('.').nth(1) {
                Some("q_proj") if family.pairs_rows => Some("num_attention_heads"),
                Some("k_proj") if family.pairs_rows && config.contains_key("num_key_value_heads") => {
                    Some("num_key_value_heads")
                }
                Some("k_proj") if family.pairs_rows => Some("num_attention_heads"),
                _ => None,
            };
            if let Some(key) = heads {
                let heads = Config(config).count(key).map_err(|what| self.wrong_config(what))?;
                let heads = heads.ok_or_else(|| self.wrong_config(format!("`{key}` is missing")))? as usize;
                let rows = stored.shape.first().copied().unwrap_or(0);
                head = rows.checked_div(heads).filter(|head| head * heads == rows && head % 2 == 0 && *head > 0);
                if head.is_none() {
                    let what = format!("{rows} rows are not those of {heads} heads, each of an even number (`{key}`)");
                    return Err(self.wrong(tensor, InvalidKind::Size, what));
                }
            }
            adds_one = family.adds_one && stored.name.ends_with("norm.weight");
        }
        Ok(Wanted { name, shape: stored.shape.clone(), parts: vec![tensor], head, adds_one })
    }

    /// Whether a tensor is not to be quantized by the request, whatever it is.
    fn is_excluded(&self, stored: &StoredTensor) -> bool {
        self.request.selection.target_if(&stored.name, stored.len as u64, |_| true).is_none()
    }

    /// The type of a tensor in the output.
    fn kind(&mut self, wanted: &Wanted) -> Result<&'static GgufType, FileError> {
        let checkpoint = &self.opened.checkpoint;
        let tensor = wanted.parts[0];
        let stored = checkpoint.stored(tensor);
        let is_float = matches!(stored.data_type, DataType::Float | DataType::Float16 | DataType::BFloat16);
        let is_matrix = wanted.shape.len() > 1
            && wanted.name.ends_with(".weight")
            && !FLOATS.iter().any(|end| wanted.name.ends_with(end));
        let selection = &self.request.selection;
        let Some(to) = selection.target_if(&stored.name, stored.len as u64, |_| is_float && is_matrix) else {
            // What is not chosen by name keeps its type, but norms and biases are read as float alone.
            let becomes_float = is_float && !is_matrix && self.family.is_some() || stored.data_type == DataType::Double;
            return self.plain(tensor, if becomes_float { DataType::Float } else { stored.data_type });
        };
        if !is_float {
            let what = format!("{} (want float, float16 or bfloat16 to quantize)", stored.data_type);
            return Err(self.wrong(tensor, InvalidKind::Type, what));
        }
        let kind = gguf_type(to.format);
        let columns = wanted.shape.last().copied().unwrap_or(1);
        if columns.is_multiple_of(kind.elements) {
            return Ok(kind);
        }
        let (to, block) = (kind.name, kind.elements);
        if selection.rules.iter().any(|rule| rule.pattern.matches(&stored.name)) {
            let columns = Count(columns, "element");
            let what = format!("rows of {columns} are not whole blocks of {to} (want a multiple of {block})");
            return Err(self.wrong(tensor, InvalidKind::Size, what));
        }
        let reason = format!("as float16: {} are not whole blocks of {block}", Count(columns, "column"));
        self.passed_over.push((stored.name.clone(), reason));
        self.plain(tensor, DataType::Float16)
    }

    /// The type that holds elements as they are.
    fn plain(&self, tensor: TensorRef, data_type: DataType) -> Result<&'static GgufType, FileError> {
        let what = || format!("{data_type}, which llama.cpp has no type for (cast the tensor first)");
        GgufType::of_plain(data_type).ok_or_else(|| self.wrong(tensor, InvalidKind::Type, what()))
    }

    /// Returns why a matrix gets no blocks; `None` if the request names a type without blocks.
    fn why_plain(&self, stored: &StoredTensor) -> Option<String> {
        let is_float = |to: WeightFormat| gguf_type(to.format).elements == 1;
        let why = match self.request.selection.choose(&stored.name, stored.len as u64) {
            Chosen::ByRule(Some(to)) | Chosen::Default(Some(to)) if is_float(to) => return None,
            Chosen::Excluded => Why::Excluded,
            Chosen::Small => Why::Small,
            Chosen::ByRule(None) | Chosen::Default(None) => Why::Rule,
            _ => match self.passed_over.last() {
                Some((name, reason)) if *name == stored.name => return Some(reason.clone()),
                _ => Why::LlamaCpp,
            },
        };
        Some(why.to_string())
    }

    /// A tensor of the output with its type.
    fn row(&mut self, wanted: Wanted) -> Result<(&'static GgufType, OutputTensor<'a>), FileError> {
        let checkpoint = &self.opened.checkpoint;
        let tensor = wanted.parts[0];
        let stored = checkpoint.stored(tensor);
        if let Location::Blocks(blocks) = &stored.place {
            return self.kept_blocks(tensor, stored, blocks);
        }
        let kind = self.kind(&wanted)?;
        let to = kind.like();
        let is_plain = kind.elements == 1 && wanted.shape.len() > 1 && stored.data_type.is_float();
        let reason = is_plain.then(|| self.why_plain(stored)).flatten();
        let bytes_after = element_count(&wanted.shape).and_then(|len| kind.byte_len(len));
        let too_large = || FormatError::invalid(self.opened.path(), Invalid::too_large(kind.name, &wanted.shape));
        let summary = TensorSummary {
            name: wanted.name.clone(),
            shape: wanted.shape.clone(),
            to,
            bytes_before: wanted.parts.iter().map(|part| checkpoint.byte_len(*part)).sum(),
            bytes_after: bytes_after.ok_or_else(too_large)?,
            cast: to != stored.data_type || kind.elements > 1,
            descr: None,
            block_type: (kind.elements > 1).then_some(kind.name),
            quantized: (kind.elements > 1).then(|| kind.name.parse().ok()).flatten(),
            reason,
            ..TensorSummary::kept("", Vec::new(), stored.data_type, 0)
        };
        let source = self.source(&wanted, kind, to).map_err(FileError::Operator)?;
        Ok((kind, OutputTensor { summary, tensor, source }))
    }

    /// Where the elements come from.
    fn source(
        &mut self,
        wanted: &Wanted,
        kind: &'static GgufType,
        to: DataType,
    ) -> Result<Source<'a>, onnx_cast::ops::OpError> {
        let checkpoint = &self.opened.checkpoint;
        let from = checkpoint.stored(wanted.parts[0]).data_type;
        let plan = || Cast::new(to, &CastOptions::new().threads(1))?.plan(from);
        let is_plain = kind.elements == 1;
        if is_plain && wanted.is_simple() {
            if from == to {
                return Ok(Source::Kept);
            }
            let counter = self.counters.of(from, to);
            return Ok(Source::Cast(plan()?, counter.map(Box::new)));
        }
        let rows = Rows {
            parts: wanted.parts.iter().map(|part| checkpoint.place(*part)).collect(),
            each: checkpoint.stored(wanted.parts[0]).len.max(1),
            columns: wanted.shape.get(1..).map_or(1, |shape| shape.iter().product()),
            data_type: from,
            head: wanted.head,
        };
        let computed = |source, data_type, cast, counter| {
            Source::Computed(Box::new(Computed { source, data_type, cast, counter }))
        };
        match kind.held {
            Held::Blocks(coding, _) => {
                let counter = source::counter(from, coding, self.request.run.counts())?;
                let floats = Floats::new(rows, false)?;
                let blocks = EncodedBlocks { floats, kind, coding, counter: Arc::clone(&counter) };
                Ok(Source::Encoded(Box::new(blocks), Some(counter)))
            }
            _ if wanted.adds_one => Ok(computed(Box::new(Floats::new(rows, true)?), DataType::Float, None, None)),
            _ if from == to => Ok(computed(Box::new(rows), from, None, None)),
            _ => {
                let counter = self.counters.of(from, to).map(Arc::new);
                Ok(computed(Box::new(rows), from, Some(plan()?), counter))
            }
        }
    }

    /// A tensor of blocks, which stays unless it is to be quantized.
    fn kept_blocks(
        &self,
        tensor: TensorRef,
        stored: &'a StoredTensor,
        blocks: &'a gguf::Blocks,
    ) -> Result<(&'static GgufType, OutputTensor<'a>), FileError> {
        let name = blocks.type_name();
        if *blocks.kind == gguf::UNKNOWN_TYPE {
            let what = format!("{name} is an unknown type, so the tensor cannot be copied");
            return Err(self.wrong(tensor, InvalidKind::Type, what));
        }
        if !self.is_excluded(stored) {
            let what = Wording::from(format!("{name} is quantized already ("));
            let what = what.field("exclude", " keeps the tensor; `dequantize` makes it plain)");
            return Err(self.wrong(tensor, InvalidKind::Type, what));
        }
        let file = &self.opened.checkpoint.files[tensor.file].file;
        let kept = TensorSummary::kept(&stored.name, stored.shape.clone(), stored.data_type, stored.bytes());
        let summary = TensorSummary { block_type: Some(blocks.kind.name), ..kept };
        let source = Source::Encoded(Box::new(KeptBlocks { file, at: blocks.at }), None);
        Ok((blocks.kind, OutputTensor { summary, tensor, source }))
    }

    /// The metadata: of a `.gguf` file its own, of a family what its configuration says.
    fn metadata(&mut self, kinds: &[&'static GgufType]) -> Result<Metadata, FileError> {
        const OWN: &[&str] = &[FILE_TYPE, QUANTIZATION_VERSION, ALIGNMENT];
        let mut metadata = Metadata::default();
        let file = &self.opened.checkpoint.files[0];
        let text = |text: &str| MetadataValue::String(text.to_owned());
        if file.format == Format::Gguf {
            for (_, place) in FileHead::read(&file.file)?.places.iter().filter(|(key, _)| !OWN.contains(&&**key)) {
                metadata.add_entry(&file.file.read(place.start, place.end - place.start)?);
            }
        } else if let Some((family, config)) = &self.family {
            metadata.add(ARCHITECTURE, &text(family.architecture));
            metadata.add("general.type", &text("model"));
            metadata::add(&mut metadata, family, Config(config)).map_err(|what| self.wrong_config(what))?;
            self.without_tokenizer(&mut metadata);
        } else {
            let known = file.metadata.iter().flatten().find(|(key, _)| key == ARCHITECTURE);
            let Some((_, architecture)) = known else {
                let what = "names of llama.cpp, but no `general.architecture` in the metadata of the .safetensors file";
                let error = Invalid::new(InvalidKind::Name, format!("{what} (`dequantize` of a .gguf file writes it)"));
                return Err(FormatError::invalid(file.path(), error).into());
            };
            metadata.add(ARCHITECTURE, &text(architecture));
            self.without_tokenizer(&mut metadata);
        }
        metadata.add(QUANTIZATION_VERSION, &MetadataValue::Uint32(2));
        metadata.add(FILE_TYPE, &MetadataValue::Uint32(metadata::file_type(kinds)));
        Ok(metadata)
    }

    /// llama.cpp asks for the kind of tokenizer, and reads a model without one too.
    fn without_tokenizer(&mut self, metadata: &mut Metadata) {
        metadata.add("tokenizer.ggml.model", &MetadataValue::String("none".to_owned()));
        let reason = "the tokenizer is not written: quantize the .gguf file of llama.cpp's converter to keep it";
        self.left_out.push(("tokenizer.ggml".to_owned(), reason.to_owned()));
    }
}

/// The type of a format.
fn gguf_type(to: QuantizedFormat) -> &'static GgufType {
    match to {
        QuantizedFormat::Gguf(format) => format.gguf_type(),
        _ => GgufType::of_name("MXFP4"),
    }
}
