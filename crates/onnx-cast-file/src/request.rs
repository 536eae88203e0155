//! What the callers of a job say: one type for each job, whatever its input is.

use crate::counts::Loss;
use crate::formats::output::WriteOptions;
use crate::io::progress::Watch;
use crate::selection::Selection;
use onnx_cast::{CastOptions, DataType};

/// Where a model's elements go.
///
/// Left alone, elements stay where they were: in the model, or in a file of external data, which is then one file beside
/// the output, named as the output with `.data` behind it. A model that would be larger than a protobuf message may be
/// (2 GiB) gets such a file by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Storage {
    /// Put elements into this file, beside the model.
    pub external_data: Option<String>,
    /// Tensors of this many bytes or more go into the file, 1024 where it is not said.
    pub threshold: Option<u64>,
}

/// What to cast of a file, to what, and how.
#[derive(Clone, Debug)]
pub struct CastRequest {
    /// Which tensors, and to which types.
    pub selection: Selection,
    /// The opset and the operator's attributes, of which BitCast takes the opset alone; and how many threads read, cast
    /// and write at most.
    pub options: CastOptions,
    /// The input's type, where a `.npy` file does not tell it. Elsewhere it must be the file's.
    pub from: Option<DataType>,
    /// The shape of an input of raw bytes.
    pub shape: Option<Vec<usize>>,
    /// How to write.
    pub write: WriteOptions,
    /// Find out what would be done, and write nothing. Values are read only where they are to be counted.
    pub dry_run: bool,
    /// Copy the other files of a checkpoint's folder, where the input is a folder: configuration, tokenizer, and so on, but
    /// no other weights and no hidden files.
    pub copy_others: bool,
    /// Leave files alone that hold already what would be written: their bytes are compared with what the cast gives.
    pub resume: bool,
    /// Count what becomes of the values: [`TensorSummary::counts`].
    pub count: bool,
    /// Losses that make the cast fail, with nothing written.
    pub fail_on: Vec<Loss>,
    /// Who is told how far the work is.
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
            watch: None,
        }
    }

    /// Whether values are counted.
    pub(crate) fn counts(&self) -> bool {
        self.count || !self.fail_on.is_empty()
    }
}
