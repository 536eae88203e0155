//! `fold`: Casts (CastLike, BitCast, QuantizeLinear) of constants are computed, those that change nothing removed, and
//! two in a row made one where no value can tell ([`DataType::is_same_via`]).
//!
//! Nodes are visited in their order (`decide.rs`); only at the end are the decisions written down as edits
//! (`write.rs`).

mod decide;
pub(crate) mod known;
mod write;

use crate::edits::Edits;
use crate::error::{Error, ModelError};
use crate::external::Files;
use crate::rewrite::{Request, refuse_of_models, rewrite};
use crate::source::ModelSource;
use crate::tree::Document;
use crate::types::Typing;
use decide::Fold;
use onnx_cast::__private::DefaultEnvironment;
use onnx_cast::DataType;
use onnx_cast_file::{Pattern, RunOptions, Storage, Unmatched, check_names};
use std::fmt;
use std::path::Path;

onnx_cast_file::request! {
    /// What to fold in a model, and where to put the result.
    #[derive(Default)]
    pub struct FoldRequest {
        /// Only Casts that give values of these names; all of them where this is empty.
        pub include: Vec<Pattern>,
        /// Not Casts that give values of these names.
        pub exclude: Vec<Pattern>,
        /// Only nodes of this operator; all of them if it is not given.
        pub operator: Option<&'static str>,
        /// Compute DequantizeLinear, too. Without it the quantized weights of a model stay quantized: as plain ones
        /// they are larger, and a runtime would no longer compute in integers.
        pub dequantize: bool,
        /// Where the elements go.
        pub storage: Storage,
        /// How the job runs. Models are written whole, and values are not counted.
        pub run: RunOptions,
    }
}

/// What was folded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FoldSummary {
    /// Casts of constants, which are now constants.
    pub computed: usize,
    /// Casts that changed nothing.
    pub removed: usize,
    /// Casts that now read what the Cast before them reads.
    pub joined: usize,
    /// Every Cast of the model, in its order.
    pub casts: Vec<Folded>,
}

/// A Cast, a CastLike, a BitCast or a scaled cast, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Folded {
    /// The value that it gives, by its name.
    pub output: String,
    /// The operator.
    pub operator: &'static str,
    /// The type that is cast, where the model tells it.
    pub from: Option<DataType>,
    /// The type that it is cast to, likewise.
    pub to: Option<DataType>,
    /// The shape of a constant that it gave, unless that was the scales of another.
    pub shape: Option<Vec<usize>>,
    /// What became of it.
    pub outcome: FoldOutcome,
}

/// What becomes of a Cast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FoldOutcome {
    /// It is there as it was.
    Kept,
    /// What it gave is a constant.
    Computed,
    /// It changed nothing, and is gone.
    Removed,
    /// It reads what the Cast before it reads.
    Joined,
    /// It is gone, since what read it reads what it read.
    Bypassed,
}

impl FoldOutcome {
    /// `kept`, and so on.
    pub const fn name(self) -> &'static str {
        match self {
            FoldOutcome::Kept => "kept",
            FoldOutcome::Computed => "computed",
            FoldOutcome::Removed => "removed",
            FoldOutcome::Joined => "joined",
            FoldOutcome::Bypassed => "bypassed",
        }
    }
}

impl fmt::Display for FoldOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Folds the Casts, CastLikes, BitCasts and QuantizeLinears of a model, in its graph, the graphs within it and its
/// functions; DequantizeLinears only where [`FoldRequest::dequantize`] asks for it. Inputs and outputs keep their names
/// and types, nodes their order, and every output its bits, by ONNX's rules. A runtime that computes a
/// DequantizeLinear and what reads it in one kernel of integers gives other bits for the plain weights.
///
/// A constant that nothing reads any more is removed, and with it the input that it has to be before version 4 of the
/// format ([`Model::inputs`](crate::Model::inputs) lists none of these). Types are inferred; in a function they are those
/// on which its calls agree.
///
/// # Errors
/// Where a file cannot be read or written, or the model is not valid.
pub fn fold(input: impl AsRef<Path>, output: impl AsRef<Path>, request: &FoldRequest) -> Result<FoldSummary, Error> {
    let _environment = DefaultEnvironment::enter();
    Ok(fold_of(ModelSource::File(input.as_ref()), Some(output.as_ref()), request)?.1)
}

/// As [`fold`], of a model that may be in memory. Without an output its bytes are given back, of a dry run none.
///
/// # Errors
/// As [`fold`].
pub fn fold_of(
    source: ModelSource<'_>,
    output: Option<&Path>,
    request: &FoldRequest,
) -> Result<(Vec<u8>, FoldSummary), Error> {
    let _environment = DefaultEnvironment::enter();
    let FoldRequest { storage, run, .. } = request;
    refuse_of_models(source.path(), run)?;
    let how = Request::of(run, storage);
    rewrite(source, output, &how, |document, files| edits(document, files, request), Ok)
}

pub(crate) fn edits<'a>(
    document: &Document<'a>,
    files: &'a Files<'a>,
    request: &FoldRequest,
) -> Result<(Edits<'a>, FoldSummary), ModelError> {
    let mut edits = Edits::default();
    let mut summary = FoldSummary::default();
    let mut agreed = Typing::of_all(document)?.agreed(document);
    for body in document.bodies() {
        let Some(agreed) = agreed.remove(&body.id) else { continue };
        let mut fold = Fold::new(document, agreed, files, request, summary);
        fold.run()?;
        fold.write(&mut edits);
        summary = fold.summary;
    }
    let names = summary.casts.iter().map(|cast| &*cast.output);
    check_names(&request.include, &request.exclude, names).map_err(Unmatched::of_values)?;
    if document.training && summary.computed + summary.removed + summary.joined > 0 {
        return Err(ModelError::training());
    }
    Ok((edits, summary))
}
