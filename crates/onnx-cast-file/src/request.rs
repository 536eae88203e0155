//! What the callers of a job say: one type for each job, whatever its input is, and one for how any job runs.

use crate::counts::Loss;
use crate::error::FileError;
use crate::formats::existing::Existing;
use crate::formats::format::Format;
use crate::formats::output::WriteOptions;
use crate::io::fs::HAS_OUTPUTS;
use crate::io::positional::is_stream;
use crate::io::progress::Watch;
use crate::selection::{Selection, SourceType};
use crate::shard_size::ShardSize;
use crate::summary::Ignored;
use onnx_cast::{CastOptions, DataType, RoundMode};
use std::path::Path;

request! {
    /// Where a model's elements go.
    ///
    /// Left alone, elements stay where they were: in the model, or in a file of external data, which is then one file
    /// beside the output, named as the output with `.data` behind it. A model that would be larger than a protobuf
    /// message may be (2 GiB) gets such a file by itself.
    #[derive(Default, PartialEq, Eq)]
    pub struct Storage {
        /// Put elements into this file, beside the model.
        pub external_data: Option<String>,
        /// Tensors of this many bytes or more go into the file, 1024 where it is not said.
        pub external_threshold: Option<u64>,
    }
}

request! {
    /// What only a cast or a quantization of a model has a use for.
    #[derive(Default, PartialEq, Eq)]
    pub struct ModelOptions {
        /// Raise its opset where a target needs it, if every operator means the same in the newer one.
        pub raise_opset: bool,
        /// Where its elements go.
        pub storage: Storage,
    }
}

const MODELS: &str = "is for models (.onnx to .onnx)";

impl ModelOptions {
    /// Refuses a file of elements beside an output that is not a model.
    pub(crate) fn refuse(&self, path: &Path) -> Result<(), FileError> {
        FileError::refuse(path, &[("external_data", self.storage.external_data.is_some(), MODELS)])
    }

    /// The options that have no effect on a file that is not a model.
    pub(crate) fn ignored(&self) -> Vec<Ignored> {
        Ignored::of(&[
            ("raise_opset", self.raise_opset, MODELS),
            ("external_threshold", self.storage.external_threshold.is_some(), MODELS),
        ])
    }
}

request! {
    /// What an input does not tell itself, and what the standard input and output have no extension for.
    #[derive(Default, PartialEq, Eq)]
    pub struct RawInput {
        /// The type of raw bytes, and of arrays that do not tell theirs: of all tensors, or by name. Elsewhere it must be
        /// the file's.
        pub from: Vec<SourceType>,
        /// The shape of raw bytes.
        pub shape: Option<Vec<usize>>,
        /// The format of the standard input (`-`); if it is not given, its first bytes tell it.
        pub in_format: Option<Format>,
        /// The format of the standard output (`-`); if it is not given, that of the input.
        pub out_format: Option<Format>,
    }
}

impl RawInput {
    /// Refuses formats of files, whose extensions tell them.
    pub(crate) fn refuse_formats(&self, input: &Path, output: &Path) -> Result<(), FileError> {
        refuse_format(input, "in_format", self.in_format)?;
        refuse_format(output, "out_format", self.out_format)
    }
}

/// Refuses a format that is given of a file.
///
/// # Errors
/// [`InvalidKind::Request`](crate::InvalidKind::Request), which names the field.
pub(crate) fn refuse_format(path: &Path, field: &'static str, format: Option<Format>) -> Result<(), FileError> {
    const PIPES: &str = "is for standard input and output (-); the extension of a file tells its format";
    // It may say what the extension says.
    let is_other = |format| Format::from_path(path).ok() != Some(format);
    FileError::refuse(path, &[(field, format.is_some_and(is_other) && !is_stream(path), PIPES)])
}

request! {
    /// How a job runs, whatever it does.
    pub struct RunOptions {
        /// Threads at most.
        pub threads: Option<usize>,
        /// How to write.
        pub write: WriteOptions,
        /// Find out what would be done, and write nothing. Values are read only where they are to be counted.
        pub dry_run: bool,
        /// Copy the other files of a checkpoint's folder, where the input is a folder: configuration, tokenizer, and so
        /// on, but no other weights and no hidden files. By default they are copied.
        pub copy_others: bool,
        /// Continue an output: leave files alone that hold already what would be written (their bytes are compared with
        /// the result), and write those that are missing. A file of weights with other content is an error, unless
        /// `write.force` replaces it; another file that was edited since the output was complete is kept.
        pub resume: bool,
        /// Divide a checkpoint into new files of at most this size. The output is a folder of `.safetensors` files,
        /// with an index if there are several files.
        pub shard_size: Option<ShardSize>,
        /// Count what becomes of the values: [`TensorSummary::counts`](crate::TensorSummary::counts). Where weights are
        /// quantized, those that they then stand for, in float; where they are dequantized, what the last rounding,
        /// from float to the target, makes of them.
        pub losses: bool,
        /// Losses that make the job fail, with nothing written.
        pub fail_on: Vec<Loss>,
        /// Called with the progress of the work.
        pub watch: Option<Watch>,
    }
}

impl Default for RunOptions {
    fn default() -> Self {
        RunOptions {
            threads: None,
            write: WriteOptions::default(),
            dry_run: false,
            copy_others: true,
            resume: false,
            shard_size: None,
            losses: false,
            fail_on: Vec::new(),
            watch: None,
        }
    }
}

impl RunOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether other files of a folder are copied.
    pub(crate) fn copies_others(&self) -> bool {
        HAS_OUTPUTS && self.copy_others
    }

    /// The options that count losses, where no value changes.
    pub(crate) fn ignored_counts(&self) -> Vec<Ignored> {
        const KEPT: &str = "is for jobs that round, and no value changes here";
        Ignored::of(&[("losses", self.losses, KEPT), ("fail_on", !self.fail_on.is_empty(), KEPT)])
    }

    /// The options that have no effect on an output of this format.
    pub fn ignored_of_output(&self, output: &Path, format: Format) -> Vec<Ignored> {
        let is_plain = matches!(format, Format::Npy | Format::Npz);
        let can_resume = self.can_resume(output, format);
        Ignored::of(&[
            ("npy_plain", self.write.npy_plain && !is_plain, "is for .npy and .npz"),
            (
                "resume",
                self.resume && !can_resume,
                "is for files that can be compared: neither standard output nor .npz",
            ),
        ])
    }

    /// Whether an output can be compared with what would be written.
    pub(crate) fn can_resume(&self, output: &Path, format: Format) -> bool {
        self.resume && is_comparable(output, format)
    }

    /// What the job does with an output of this format that exists.
    pub(crate) fn existing(&self, output: &Path, format: Format) -> Existing {
        match is_comparable(output, format) {
            true => Existing::or_resume(self.write.force, self.resume),
            false => Existing::new(self.write.force),
        }
    }

    /// Rejects `shard_size` for files that are not checkpoints.
    ///
    /// # Errors
    /// [`InvalidKind::Request`](crate::InvalidKind::Request), which names the field.
    pub fn refuse_shards(&self, path: &Path) -> Result<(), FileError> {
        const CHECKPOINTS: &str = "is for .safetensors checkpoints, which are written to a folder";
        FileError::refuse(path, &[("shard_size", self.shard_size.is_some(), CHECKPOINTS)])
    }

    /// A dry run that reads no values.
    pub fn plan(self) -> Self {
        self.dry_run(true).losses(false).fail_on(Vec::new())
    }

    /// Whether values are counted.
    pub fn counts(&self) -> bool {
        self.losses || !self.fail_on.is_empty()
    }
}

/// Whether an output can be compared with what would be written.
fn is_comparable(output: &Path, format: Format) -> bool {
    HAS_OUTPUTS && format != Format::Npz && !is_stream(output)
}

request! {
    /// What to cast of a file, an archive, a checkpoint or a model, to what, and how.
    #[derive(Default)]
    pub struct CastRequest {
        /// Which tensors, and to which types.
        pub selection: Selection,
        /// The opset and the operator's attributes; of threads, [`CastRequest::run`] says how many. A model imports its
        /// own opset.
        pub options: CastOptions,
        /// What a file of raw bytes does not tell.
        pub raw: RawInput,
        /// What is for models.
        pub model: ModelOptions,
        /// How the job runs.
        pub run: RunOptions,
    }
}

/// The attributes of Cast that differ from their defaults without an effect: no target is a type that they are for.
pub(crate) fn ignored_attributes(options: &CastOptions, targets: &[DataType]) -> Vec<Ignored> {
    const FLOAT8: &str = "is for casts to float8, and there are none";
    const E8M0: &str = "is for casts to float8e8m0, and there are none";
    let is_float8 = targets.iter().any(|to| to.name().starts_with("float8"));
    let is_e8m0 = targets.contains(&DataType::Float8E8M0);
    let rounds = options.round_mode.is_some_and(|mode| mode != RoundMode::default());
    Ignored::of(&[
        ("saturate", options.saturate == Some(false) && !is_float8, FLOAT8),
        ("round_mode", rounds && !is_e8m0, E8M0),
    ])
}

impl CastRequest {
    /// The attributes of Cast that differ from their defaults without an effect.
    pub fn ignored_attributes(&self) -> Vec<Ignored> {
        ignored_attributes(&self.options, &self.selection.targets().collect::<Vec<_>>())
    }

    /// To a type, with ONNX's defaults.
    pub fn new(to: DataType) -> Self {
        CastRequest::default().selection(Selection::new(to))
    }
}

request! {
    /// Whose bits to reinterpret of a file, an archive or a checkpoint, as which type, and how.
    pub struct BitCastRequest {
        /// Which tensors, and as which types.
        pub selection: Selection,
        /// The opset.
        pub opset: i64,
        /// What a file of raw bytes does not tell.
        pub raw: RawInput,
        /// How the job runs. Nothing is lost, so nothing is counted.
        pub run: RunOptions,
    }
}

impl Default for BitCastRequest {
    fn default() -> Self {
        let CastRequest { selection, options, raw, run, .. } = CastRequest::default();
        BitCastRequest { selection, opset: options.opset, raw, run }
    }
}

impl BitCastRequest {
    /// To a type, at the newest opset.
    pub fn new(to: DataType) -> Self {
        BitCastRequest::default().selection(Selection::new(to))
    }

    /// The same as a request of a cast, which has more to say.
    pub(crate) fn as_cast(&self) -> CastRequest {
        let BitCastRequest { selection, opset, raw, run } = self.clone();
        let options = CastOptions::new().opset(opset);
        CastRequest { selection, options, raw, run, model: ModelOptions::default() }
    }
}
