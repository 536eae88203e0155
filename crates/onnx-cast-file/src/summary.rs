//! What a cast did, tensor by tensor.

use crate::counts::{Alarms, Counter, Counts};
use crate::layouts::WeightFormat;
use crate::text::{TensorText, Wording, counted};
use onnx_cast::DataType;

/// What was done with a file.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Summary {
    /// The tensors, in the order of the output file.
    pub tensors: Vec<TensorSummary>,
    /// Files that were there already, with the content that they were to get: see
    /// [`RunOptions::resume`](crate::RunOptions::resume).
    pub already_there: usize,
    /// Other files of the checkpoint's folder that were copied, or would be.
    pub copied: usize,
    /// Of these the names of those that were there already with another content, and are kept:
    /// see [`RunOptions::resume`](crate::RunOptions::resume).
    pub kept_others: Vec<String>,
    /// Weights, indexes and descriptions of an earlier output that are removed from the folder of the output: see
    /// [`WriteOptions::force`](crate::WriteOptions::force).
    pub removed: Vec<String>,
    /// Weights that most people expect to be quantized and that are kept, each with the reason. In a model the reason
    /// is an operator that reads them. In a checkpoint it is their shape or their type, or that they are several
    /// matrices in one tensor.
    pub passed_over: Vec<(String, String)>,
    /// What the input has and the output lacks because it cannot hold it: tensors, folders of other checkpoints, or
    /// the tokenizer, each with the reason.
    pub left_out: Vec<(String, String)>,
    /// Scales and zero points of activations that the output lacks.
    pub dropped: Vec<String>,
    /// What to know before the output is used elsewhere: where a quantized model runs.
    pub notes: Vec<String>,
    /// Options that had no effect.
    pub ignored: Vec<Ignored>,
}

impl Summary {
    /// The same summary, which names options that had no effect.
    pub fn ignoring(mut self, options: impl IntoIterator<Item = Ignored>) -> Self {
        for option in options {
            if !self.ignored.contains(&option) {
                self.ignored.push(option);
            }
        }
        self
    }

    /// Of these tensors.
    pub fn new(tensors: Vec<TensorSummary>) -> Self {
        Summary { tensors, ..Summary::default() }
    }

    /// What to know before the output is used: how many values overflowed, were saturated or are NaN, and the first
    /// tensor with one. `None` where there are no such values, or no values were read.
    pub fn warning(&self) -> Option<Wording> {
        let mut all = Alarms::default();
        self.tensors.iter().filter_map(|row| row.alarms).for_each(|alarms| all += alarms);
        let first = self.tensors.iter().find(|row| row.alarms.is_some_and(|alarms| alarms.any()))?;
        let were = if all.nan == 1 { "was NaN" } else { "were NaN" };
        let found = [
            (all.overflowed.saturating_sub(all.became_nan), "overflowed"),
            (all.saturated, if all.saturated == 1 { "was saturated" } else { "were saturated" }),
            (all.became_nan, "became NaN"),
            (all.nan, were),
        ];
        let mut text = String::new();
        for (count, what) in found.into_iter().filter(|(count, _)| *count > 0) {
            text += if text.is_empty() { "" } else { ", " };
            text += &format!("{count} {} {what}", if count == 1 { "value" } else { "values" });
        }
        let in_first = TensorText(&first.name).to_string();
        if !in_first.is_empty() {
            text += &format!(" (first in {})", in_first.trim_end_matches(": "));
        }
        let have = match all.nan_scales {
            0 => return Some(text.into()),
            1 => "1 block has a NaN scale, which is".to_owned(),
            count => format!("{count} blocks have NaN scales, which are"),
        };
        let text = format!("{text}; {have} read back with ");
        Some(Wording::from(text).field("allow_nan", " alone"))
    }

    /// How many scales and zero points of activations the output lacks, and the first; `None` where it lacks none.
    pub fn dropped_text(&self) -> Option<String> {
        let first = TensorText(self.dropped.first()?).to_string();
        let first = first.trim_end_matches(": ");
        Some(match self.dropped.len() {
            1 => format!("1 scale of activations is left out ({first})"),
            count => format!("{count} scales of activations are left out (first {first})"),
        })
    }

    /// How many matrices are kept where weights are quantized, and for which reasons, but for those that
    /// [`Summary::passed_over`] names; `None` if empty.
    pub fn kept_matrices(&self) -> Option<String> {
        let is_named = |row: &&TensorSummary| self.passed_over.iter().any(|(name, _)| *name == row.name);
        let rows = self.tensors.iter().filter(|row| row.reason.is_some() && !is_named(row));
        let reasons: Vec<&str> = rows.filter_map(|row| row.reason.as_deref()).collect();
        let what = if reasons.len() == 1 { "matrix" } else { "matrices" };
        (!reasons.is_empty()).then(|| format!("{} {what}: {}", reasons.len(), counted(reasons.iter().copied())))
    }

    /// Bytes of all elements in the input.
    pub fn bytes_before(&self) -> u64 {
        self.tensors.iter().map(|row| row.bytes_before).sum()
    }
}

/// An option that has no effect on the files of a job. It is a warning: a contradiction is an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ignored {
    /// The field of the request.
    pub option: &'static str,
    /// Why it has no effect.
    pub reason: &'static str,
}

impl Ignored {
    /// The options that are given: of each its name, whether it is given, and why it has no effect.
    pub fn of(options: &[(&'static str, bool, &'static str)]) -> Vec<Ignored> {
        let given = options.iter().filter(|(_, given, _)| *given);
        given.map(|&(option, _, reason)| Ignored { option, reason }).collect()
    }

    /// The text, with the field apart.
    pub fn wording(&self) -> Wording {
        Wording::default().field(self.option, format!(" has no effect: it {}", self.reason))
    }
}

/// What was done with a tensor.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TensorSummary {
    /// Its name; empty if it has none.
    pub name: String,
    /// Its shape.
    pub shape: Vec<usize>,
    /// The type that it had; string where `descr` is set.
    pub from: DataType,
    /// The type that it has; string where `descr` is set.
    pub to: DataType,
    /// The type of an array that is kept because ONNX lacks it, as its file names it: `<M8[D]`.
    pub descr: Option<String>,
    /// Bytes of its elements in the input, packed as ONNX packs them; of strings, the bytes of their text, or of their
    /// items in an array.
    pub bytes_before: u64,
    /// Bytes of its elements in the output.
    pub bytes_after: u64,
    /// Whether it was cast, or only kept.
    pub cast: bool,
    /// Why it was kept, where weights are quantized and it is a matrix.
    pub reason: Option<String>,
    /// What became of its values, where it was cast and that was to be counted.
    pub counts: Option<Counts>,
    /// Values that overflowed or are NaN, where it was cast and its values were read.
    pub alarms: Option<Alarms>,
    /// The name of the type of blocks that it is stored in, as `Q4_0`: in a `.gguf` file.
    pub block_type: Option<&'static str>,
    /// The format that a weight was quantized to, on the tensor that holds its elements. `None` for scales and for
    /// tensors that were not quantized.
    pub quantized: Option<WeightFormat>,
}

impl TensorSummary {
    /// Of a tensor that is kept, with elements of so many bytes.
    pub fn kept(name: &str, shape: Vec<usize>, data_type: DataType, bytes: u64) -> Self {
        let (name, from, to) = (name.to_owned(), data_type, data_type);
        TensorSummary {
            name,
            shape,
            from,
            to,
            descr: None,
            bytes_before: bytes,
            bytes_after: bytes,
            cast: false,
            reason: None,
            counts: None,
            alarms: None,
            block_type: None,
            quantized: None,
        }
    }

    /// Notes what a counter has counted.
    pub fn note(&mut self, counter: &Counter) {
        (self.counts, self.alarms) = (counter.counts(), Some(counter.alarms()));
    }
}
