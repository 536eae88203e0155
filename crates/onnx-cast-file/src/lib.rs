//! Files of tensors and ONNX models, around the `onnx-cast` library, which does all the arithmetic.
//!
//! - [`cast_file`] and [`bit_cast_file`] go from file to file: `.pb` (TensorProto), `.npy`, `.safetensors`, in any
//!   combination that one tensor allows, in constant memory: the input is read and the output is written in chunks, to a
//!   temporary file that replaces the target when it is complete: see [`AtomicFile`].
//! - [`read_tensor`] and [`write_tensor`] hold one tensor in memory; [`pb`], [`npy`] and [`safetensors`] do the same from
//!   and to bytes.
//! - [`Model`] evaluates an ONNX model of Cast, CastLike, BitCast, Constant and Identity nodes.
//!
//! No input makes any of this panic, and nothing is allocated because a file claims it: sizes are multiplied with checks
//! and held against the bytes that are there first.
//!
//! ```
//! # let folder = tempfile::tempdir()?;
//! # let (input, output) = (folder.path().join("w.npy"), folder.path().join("w.safetensors"));
//! use onnx_cast::{DataType, Tensor};
//! use onnx_cast_file::{FileCast, Format, WriteOptions, cast_file, write_tensor};
//!
//! let tensor = Tensor::from_slice(vec![2], &[1.0f32, 2.5])?;
//! write_tensor(&input, Format::Npy, "w", tensor.view(), &WriteOptions::default())?;
//! let summary = cast_file(&input, &output, &FileCast::new(DataType::BFloat16))?;
//! assert_eq!(summary.tensors[0].to, DataType::BFloat16);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![deny(unsafe_code)]

mod atomic;
mod cast;
mod counts;
mod error;
mod flow;
mod format;
mod fortran;
mod input;
mod inspect;
mod mmap;
pub mod model;
pub mod npy;
mod npz;
mod others;
mod output;
pub mod parts;
pub mod pb;
mod positional;
mod proto;
mod report;
mod rewrite;
mod room;
pub mod safetensors;
mod selection;
mod sharded;
mod source;
mod tensor;
mod watch;
mod widen;

pub use atomic::{AtomicFile, end_without_traces};
pub use cast::{FileCast, Summary, TensorSummary, bit_cast_file, cast_file};
pub use counts::{Counts, Loss, Means};
pub use error::FileError;
pub use format::Format;
pub use inspect::{DiffRequest, Difference, FileInfo, InspectRequest, TensorInfo, Values, diff, inspect};
pub use model::Model;
pub use npz::NpzError;
pub use report::{
    Candidate, Concern, Grade, Magnitudes, Report, ReportRequest, TensorReport, Totals, report, report_of,
};
pub use rewrite::{
    CastInfo, ExternalProblem, FoldOutcome, FoldSummary, Folded, ModelCast, ModelFold, ModelInfo, Storage, cast_model,
    fold_model,
};
pub use room::room_for_a_thread;
pub use selection::{Pattern, Rule, Selection, SelectionError};
pub use sharded::ShardError;
pub use tensor::{NamedTensor, WriteOptions, read_tensor, read_tensor_as, write_tensor};
pub use watch::Watch;
