//! What the callers of a job say: one type for each job, whatever its input is.

use crate::counts::Loss;
use crate::error::FileError;
use crate::formats::output::WriteOptions;
use crate::io::progress::Watch;
use crate::selection::Selection;
use onnx_cast::{CastOptions, DataType};
use std::path::Path;

/// Where a model's elements go.
///
/// Left alone, elements stay where they were: in the model, or in a file of external data, which is then one file
/// beside the output, named as the output with `.data` behind it. A model that would be larger than a protobuf message
/// may be (2 GiB) gets such a file by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Storage {
    /// Put elements into this file, beside the model.
    pub external_data: Option<String>,
    /// Tensors of this many bytes or more go into the file, 1024 where it is not said.
    pub threshold: Option<u64>,
}

impl Storage {
    /// Refuses the fields of a request that only models have a use for.
    pub(crate) fn refuse_of_models(&self, path: &Path, raise_opset: bool) -> Result<(), FileError> {
        const MODELS: &str = "is for models (.onnx to .onnx)";
        let fields = [
            ("raise_opset", raise_opset, MODELS),
            ("external_data", self.external_data.is_some(), MODELS),
            ("external_threshold", self.threshold.is_some(), MODELS),
        ];
        FileError::refuse(path, &fields)
    }
}

/// What to cast of a file, an archive, a checkpoint or a model, to what, and how.
#[derive(Clone, Debug)]
pub struct CastRequest {
    /// Which tensors, and to which types.
    pub selection: Selection,
    /// The opset and the operator's attributes, and how many threads read, cast and write at most. A model imports its
    /// own opset.
    pub options: CastOptions,
    /// The input's type, where a `.npy` file does not tell it. Elsewhere it must be the file's.
    pub from: Option<DataType>,
    /// The shape of an input of raw bytes.
    pub shape: Option<Vec<usize>>,
    /// How to write.
    pub write: WriteOptions,
    /// Find out what would be done, and write nothing. Values are read only where they are to be counted.
    pub dry_run: bool,
    /// Copy the other files of a checkpoint's folder, where the input is a folder: configuration, tokenizer, and so on,
    /// but no other weights and no hidden files.
    pub copy_others: bool,
    /// Leave files alone that hold already what would be written: their bytes are compared with what the cast gives.
    pub resume: bool,
    /// Count what becomes of the values: [`TensorSummary::counts`](crate::TensorSummary::counts).
    pub count: bool,
    /// Losses that make the cast fail, with nothing written.
    pub fail_on: Vec<Loss>,
    /// Of a model: raise its opset where a target needs it, if every operator means the same in the newer one.
    pub raise_opset: bool,
    /// Of a model: where its elements go.
    pub storage: Storage,
    /// Called with the progress of the work.
    pub watch: Option<Watch>,
}

impl CastRequest {
    /// To a type, with ONNX's defaults.
    pub fn new(to: DataType) -> Self {
        CastRequest {
            selection: Selection::new(to),
            options: CastOptions::default(),
            from: None,
            shape: None,
            write: WriteOptions::default(),
            dry_run: false,
            count: false,
            fail_on: Vec::new(),
            copy_others: true,
            resume: false,
            raise_opset: false,
            storage: Storage::default(),
            watch: None,
        }
    }

    /// Whether values are counted.
    pub(crate) fn counts(&self) -> bool {
        self.count || !self.fail_on.is_empty()
    }
}

/// Whose bits to reinterpret of a file, an archive or a checkpoint, as which type, and how.
#[derive(Clone, Debug)]
pub struct BitCastRequest {
    /// Which tensors, and as which types.
    pub selection: Selection,
    /// The opset.
    pub opset: i64,
    /// Threads at most.
    pub threads: Option<usize>,
    /// As [`CastRequest::from`].
    pub from: Option<DataType>,
    /// As [`CastRequest::shape`].
    pub shape: Option<Vec<usize>>,
    /// How to write.
    pub write: WriteOptions,
    /// Find out what would be done, and write nothing.
    pub dry_run: bool,
    /// As [`CastRequest::copy_others`].
    pub copy_others: bool,
    /// As [`CastRequest::resume`].
    pub resume: bool,
    /// Called with the progress of the work.
    pub watch: Option<Watch>,
}

impl BitCastRequest {
    /// To a type, at the newest opset.
    pub fn new(to: DataType) -> Self {
        let CastRequest { selection, options, from, shape, write, dry_run, copy_others, resume, watch, .. } =
            CastRequest::new(to);
        let (opset, threads) = (options.opset, None);
        BitCastRequest { selection, opset, threads, from, shape, write, dry_run, copy_others, resume, watch }
    }

    /// The same as a request of a cast, which has more to say.
    pub(crate) fn as_cast(&self) -> CastRequest {
        let BitCastRequest { selection, opset, threads, from, shape, write, dry_run, copy_others, resume, watch } =
            self.clone();
        CastRequest {
            selection,
            options: CastOptions::new().opset(opset).threads(threads),
            from,
            shape,
            write,
            dry_run,
            copy_others,
            resume,
            count: false,
            fail_on: Vec::new(),
            raise_opset: false,
            storage: Storage::default(),
            watch,
        }
    }
}
