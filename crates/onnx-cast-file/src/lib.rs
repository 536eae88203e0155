//! Files of tensors around the `onnx-cast` library, which does all the arithmetic. Models are in `onnx-cast-model`.
//!
//! - [`cast_file`] and [`bit_cast_file`] go from file to file: `.pb` (TensorProto), `.npy`, `.safetensors`, in any
//!   combination that one tensor allows, in constant memory: the input is read and the output is written in chunks, to
//!   a temporary file that replaces the target when it is complete: see [`AtomicFile`].
//! - [`read_tensor`] and [`write_tensor`] hold one tensor in memory; [`read_tensor_from`] and [`put_tensor`] do the
//!   same from and to bytes.
//! - [`dequantize_file`], [`quantize_file`] and [`transcode_file`] are for quantized checkpoints;
//!   [`dequantize_tensors`] and its like take and give tensors in memory.
//! - [`inspect`], [`diff`], [`check`] and [`report`] read files, and [`parts`] writes a checkpoint by several
//!   processes.
//!
//! No input makes any of this panic, and nothing is allocated because a file claims it: sizes are multiplied with
//! checks and compared with the bytes that are there first.
//!
//! ```
//! # let folder = tempfile::tempdir()?;
//! # let (input, output) = (folder.path().join("w.npy"), folder.path().join("w.safetensors"));
//! use onnx_cast::{DataType, Tensor};
//! use onnx_cast_file::{CastRequest, Format, WriteOptions, cast_file, write_tensor};
//!
//! let tensor = Tensor::from_slice(vec![2], &[1.0f32, 2.5])?;
//! write_tensor(&input, Format::Npy, "w", tensor.view(), &WriteOptions::default())?;
//! let summary = cast_file(&input, &output, &CastRequest::new(DataType::BFloat16))?;
//! assert_eq!(summary.tensors[0].to, DataType::BFloat16);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::too_many_lines, clippy::disallowed_methods))]
// What only the writer of `.gguf` files calls stays, and the linker leaves it out.
#![cfg_attr(not(all(feature = "read-torch", feature = "write-gguf")), allow(dead_code, unused_imports))]

#[macro_use]
mod builders;
mod cast;
mod check;
mod checkpoint;
mod collection;
mod counts;
mod dequantize;
mod engine;
mod error;
mod fields;
mod formats;
mod glob;
mod in_memory;
mod inspect;
mod io;
mod job;
mod layouts;
mod level;
mod loaders;
mod opened;
mod page;
pub mod parts;
mod pipeline;
mod quantize;
mod report;
mod request;
mod selection;
mod shard_size;
mod summary;
mod text;
mod transcode;

pub use cast::{bit_cast_file, cast_file};
pub use check::{Loading, check};
pub use counts::{Alarms, Counts, Loss, Means, Number};
pub use dequantize::{DequantizeRequest, dequantize_file};
pub use engine::MadeTensors;
pub use error::FileError;
pub use formats::error::{FormatError, Invalid, InvalidKind};
pub use formats::existing::Existing;
pub use formats::format::Format;
pub use formats::output::WriteOptions;
pub use formats::safetensors;
pub use formats::source::NamedTensor;
pub use formats::tensor::{put_tensor, read_tensor, read_tensor_as, read_tensor_from, read_tensors_from, write_tensor};
pub use in_memory::{
    HeldTensor, TensorsInMemory, dequantize_tensors, quantize_tensors, quantized_tensors, transcode_tensors,
};
pub use inspect::{
    DiffRequest, Difference, FileInfo, InspectRequest, Quantized, QuantizedWeight, ScaleExtent, TensorInfo, Values,
    diff, inspect,
};
pub use io::positional::ReadAt;
pub use io::{AtomicFile, InputFile, IoError, Watch, end_without_traces, room_for_a_thread};
pub use layouts::{Activations, GgufFormat, Granularity, Layout, QuantizedFormat, WeightFormat};
pub use loaders::Loader;
pub use quantize::{
    ConstantRequest, ModelForm, QuantizeRequest, QuantizedConstant, Scaled, StoredValues, quantize_file,
};
pub use report::{
    Blocks, Candidate, CandidateFormat, Concern, Forecast, Grade, Magnitudes, Ratios, Report, ReportRequest,
    TensorReport, Totals, report, report_of,
};
pub use request::{BitCastRequest, CastRequest, ModelOptions, RawInput, RunOptions, Storage};
pub use selection::{Pattern, Rule, Selection, SelectionError, SourceType, Unmatched, admits, check_names, nearest};
pub use shard_size::ShardSize;
pub use summary::{Ignored, Summary, TensorSummary};
pub use text::Wording;
pub use transcode::{TranscodeRequest, transcode_file};

/// What the other crates of this project share with this one. No promise: it changes without notice.
#[doc(hidden)]
pub mod __private {
    pub use crate::cast::note_on_scales;
    pub use crate::counts::{Counter, Counters, Sides, value_of};
    pub use crate::fields::{Field, FromJson, options_of, parsed, with_options};
    pub use crate::formats::foreign::refuse_foreign;
    pub use crate::formats::input::{Given, Input, Location, StoredTensor};
    pub use crate::formats::pb;
    pub use crate::formats::protobuf::{onnx, outline, wire};
    pub use crate::formats::source::{Items, ParsedData, ParsedTensor, byte_len};
    pub use crate::inspect::{diff_collections, diff_opened, inspect_opened, open, open_all};
    pub use crate::io::atomic::{create_folder, folder_of, link_over, together};
    pub use crate::io::progress::Meter;
    pub use crate::io::{FolderLock, fs, is_stream, links, memory};
    pub use crate::layouts::check_scale_rule;
    pub use crate::page::create_page;
    pub use crate::report::report_opened;
    pub use crate::text::{Lines, PathText, Printable, ShapeText, Short, TensorText, counted, named};

    /// The pipeline: see `docs/dev/files-and-models.md`.
    pub mod pipeline {
        pub use crate::pipeline::{
            Amax, Chain, Clamp, Compute, Decode, InMemory, InPlace, Nowhere, PipelineError, Progress, ScaledCast,
            Scratch, Sink, Step, Task, TaskInput, Transform, run,
        };
    }
}

/// The README's example, compiled and run as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
