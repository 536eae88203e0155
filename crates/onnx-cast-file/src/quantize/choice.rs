//! What becomes of each tensor of a checkpoint that is quantized: the formats of weights, and why matrices are kept.

use super::QuantizeRequest;
use super::linear::{Linears, Why, module_of};
use crate::checkpoint::{Checkpoint, TensorRef};
use crate::error::FileError;
use crate::formats::error::{Invalid, InvalidKind};
use crate::formats::input::StoredTensor;
use crate::layouts::{Layout, Model, WeightFormat, WrittenWeight, are_experts};
use crate::loaders::{Joined, Rules};
use crate::selection::Chosen;
use crate::text::Short;
use onnx_cast::DataType;
use std::collections::BTreeMap;

/// What becomes of a tensor.
pub(super) enum Choice {
    Quantized(Box<WrittenWeight>),
    /// A matrix of floats, or experts, that stay as they are.
    Kept(Why),
    /// Another tensor, which stays.
    Other,
}

/// A tensor that is quantized.
struct Wanted {
    written: Box<WrittenWeight>,
    /// Whether a rule names it.
    is_asked: bool,
}

/// What becomes of the tensors, file by file, and what to know of it.
pub(super) fn choices(
    checkpoint: &Checkpoint,
    model: &Model,
    request: &QuantizeRequest,
) -> Result<(Vec<Vec<Choice>>, Option<String>), FileError> {
    let floats = checkpoint.tensors().filter(|(_, stored)| is_float(stored));
    let names: Vec<(&str, &[usize])> = floats.map(|(_, stored)| (&*stored.name, &*stored.shape)).collect();
    let chooser = Chooser { layout: request.layout_or_default(), request, linears: Linears::of(model, &names) };
    let mut all = BTreeMap::new();
    for (tensor, stored) in checkpoint.tensors() {
        let choice = chooser.choose(stored).map_err(|error| checkpoint.error(Some(tensor), error))?;
        all.insert(tensor, choice);
    }
    if chooser.layout.is_joined() {
        keep_together(checkpoint, &chooser.linears.rules, &mut all)?;
    }
    let note = chooser.note_on_others(checkpoint, &all);
    let mut files: Vec<Vec<Choice>> = checkpoint.files.iter().map(|_| Vec::new()).collect();
    for (tensor, choice) in all {
        files[tensor.file].push(match choice {
            Ok(Wanted { written, .. }) => Choice::Quantized(written),
            Err(Some(why)) => Choice::Kept(why),
            Err(None) => Choice::Other,
        });
    }
    Ok((files, note))
}

/// A weight, or why a matrix is kept; `None` if it is not a matrix.
type Chose = Result<Wanted, Option<Why>>;

struct Chooser<'a> {
    layout: Layout,
    request: &'a QuantizeRequest,
    linears: Linears<'a>,
}

impl Chooser<'_> {
    fn choose(&self, stored: &StoredTensor) -> Result<Chose, Invalid> {
        let QuantizeRequest { selection, activations, .. } = self.request;
        let is_matrix = are_matrices(stored);
        let kept = |why| Ok(Err(is_matrix.then_some(why)));
        let (to, is_asked) = match selection.choose(&stored.name, stored.len as u64) {
            Chosen::Excluded => return kept(Why::Excluded),
            Chosen::Small => return kept(Why::Small),
            Chosen::ByRule(None) | Chosen::Default(None) => return kept(Why::Rule),
            Chosen::ByRule(Some(to)) => (to, true),
            Chosen::Default(Some(to)) => (to, false),
        };
        if is_matrix && stored.len == 0 {
            return kept(Why::Empty);
        }
        if !is_asked {
            match self.why(stored, to) {
                None if stored.shape.len() == 2 && !is_float(stored) => {
                    return Ok(Err(Some(Why::Type(stored.data_type))));
                }
                _ if !is_matrix => return Ok(Err(None)),
                Some(why) => return kept(why),
                None => {}
            }
        }
        match self.layout.write(stored, to, *activations) {
            Ok(written) => match self.why_unpacked(stored, &written).filter(|_| !is_asked) {
                Some(why) => kept(why),
                None => Ok(Ok(Wanted { written: Box::new(written), is_asked })),
            },
            Err(error) => match error.want().filter(|_| !is_asked && error.kind == InvalidKind::Size) {
                Some(want) => kept(Why::Shape(want.to_owned())),
                None => Err(error),
            },
        }
    }

    /// Returns why a tensor is kept if no rule names it; `None` if it is quantized.
    fn why(&self, stored: &StoredTensor, to: WeightFormat) -> Option<Why> {
        if are_experts(stored) {
            return (!self.layout.takes_experts(to)).then_some(Why::Experts);
        }
        let why = self.linears.why(&stored.name, false);
        if stored.shape.len() == 3 {
            return match why {
                None | Some(Why::Name) => Some(Why::Stacked),
                why => why,
            };
        }
        why.or((!self.layout.holds_matrices()).then_some(Why::Layout))
    }

    /// Loaders of layouts that a configuration describes look for nothing but Linear layers, which routers are not in all.
    fn note_on_others(&self, checkpoint: &Checkpoint, all: &BTreeMap<TensorRef, Chose>) -> Option<String> {
        self.layout.spec().configuration.as_ref()?;
        let names = all.iter().filter(|(_, chose)| chose.is_ok()).map(|(tensor, _)| &*checkpoint.stored(*tensor).name);
        let others: Vec<&str> =
            names.filter(|name| matches!(self.linears.why(name, false), Some(Why::Embedding | Why::Router))).collect();
        let (first, layout) = (Short(others.first()?), self.layout.name());
        let what = match others.len() {
            1 => format!("`{first}` is quantized"),
            count => format!("{count} embeddings and routers are quantized, such as `{first}`"),
        };
        Some(format!("{what} by a rule: loaders of {layout} read Linear layers alone, and may give it random values"))
    }

    /// Returns the reason, if any, to keep a matrix that the layout would pack or rename.
    fn why_unpacked(&self, stored: &StoredTensor, written: &WrittenWeight) -> Option<Why> {
        let is_small = written.to.element().bits().is_some_and(|bits| bits < 8);
        let is_packed = !written.are_experts && (written.elements != stored.name || is_small);
        self.linears.why(&stored.name, true).filter(|_| is_packed)
    }
}

/// Returns the groups in which loaders join the plain matrices of a checkpoint.
pub(super) fn joined_matrices(checkpoint: &Checkpoint, rules: &Rules) -> Joined {
    let matrices = checkpoint.tensors().filter(|(_, stored)| is_float(stored) && stored.shape.len() == 2);
    rules.joined(matrices.filter_map(|(_, stored)| module_of(&stored.name)))
}

/// Keeps matrices that loaders join with one that is kept.
fn keep_together(
    checkpoint: &Checkpoint,
    rules: &Rules,
    all: &mut BTreeMap<TensorRef, Chose>,
) -> Result<(), FileError> {
    let joined = joined_matrices(checkpoint, rules);
    let mut groups = BTreeMap::<&str, Vec<TensorRef>>::new();
    for &tensor in all.keys() {
        if let Some(group) = module_of(&checkpoint.stored(tensor).name).and_then(|module| joined.group(module)) {
            groups.entry(group).or_default().push(tensor);
        }
    }
    for group in groups.into_values().filter(|group| group.len() > 1) {
        let Some(first) = group.iter().find_map(|tensor| all[tensor].as_ref().ok()) else { continue };
        let form = |wanted: &Wanted| (wanted.written.to, wanted.written.granularity);
        let form_of_first = form(first);
        let is_other = |tensor: &&TensorRef| all[*tensor].as_ref().map_or(true, |wanted| form(wanted) != form_of_first);
        let Some(&other) = group.iter().find(is_other) else { continue };
        let asked = group.iter().find(|tensor| all[*tensor].as_ref().is_ok_and(|wanted| wanted.is_asked));
        let name = |tensor: TensorRef| checkpoint.stored(tensor).name.clone();
        if let Some(&asked) = asked {
            // Of two formats, the other one is that of a neighbour.
            let differs = |tensor: &&TensorRef| match (&all[*tensor], &all[&asked]) {
                (Ok(one), Ok(asked)) => form(one) != form(asked),
                _ => **tensor != asked,
            };
            let other = *group.iter().find(differs).unwrap_or(&other);
            let what = match &all[&other] {
                Ok(wanted) => format!("becomes {}", wanted.written.to),
                Err(why) => why.as_ref().map_or_else(|| "is kept".to_owned(), |why| format!("is kept ({why})")),
            };
            let other = name(other);
            let what = format!(
                "a rule quantizes it, and `{}`, which loaders join with it, {what} (want one format for both, or \
                 `keep`)",
                Short(&other)
            );
            let error = Invalid::new(InvalidKind::Request, what).of_tensor(&name(asked));
            return Err(checkpoint.error(Some(asked), error));
        }
        let with = name(other);
        let with = module_of(&with).and_then(|module| module.rsplit('.').next()).unwrap_or_default().to_owned();
        for tensor in group {
            let choice = all.get_mut(&tensor).filter(|choice| choice.is_ok());
            if let Some(choice) = choice {
                *choice = Err(Some(Why::Joined(with.clone())));
            }
        }
    }
    Ok(())
}

/// The smallest number of rows and of columns that a tensor of three axes has if it holds matrices. Kernels of
/// convolutions have fewer.
pub(super) const SMALLEST: usize = 32;

/// Whether a tensor is a matrix of floats, or several. None of these is kept without a reason.
pub(super) fn are_matrices(stored: &StoredTensor) -> bool {
    let is_large = |shape: &[usize]| shape.iter().all(|&size| size >= SMALLEST);
    let are_shaped = match &stored.shape[..] {
        [_, _] => true,
        [_, matrix @ ..] if stored.shape.len() == 3 => is_large(matrix) || are_experts(stored),
        _ => false,
    };
    stored.data_type.is_float() && are_shaped
}

/// Whether a tensor is of a type that weights are quantized from.
pub(super) fn is_float(stored: &StoredTensor) -> bool {
    matches!(stored.data_type, DataType::Float | DataType::Float16 | DataType::BFloat16)
}
