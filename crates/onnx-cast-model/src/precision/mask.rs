//! The large negative numbers with which masks hide elements, and the values that such masks reach. In a narrow type
//! these numbers become half of the type's lowest number. The lowest number plus a score would be minus infinity, and a
//! Softmax over a row of minus infinity is NaN.

use super::constants::overflows;
use crate::constant::ConstantValue;
use crate::edits::NewAttribute;
use crate::graph::dataflow::{Dataflow, Fact, Node as DataNode};
use crate::graph::values::Step;
use crate::operators::{Flag, Meaning};
use crate::rope::{CastElements, ElementSource};
use crate::tree::Node;
use onnx_cast::{Cast, CastOptions, DataType, Tensor, TensorView};
use onnx_cast_file::__private::onnx::tensor;
use onnx_cast_file::__private::pipeline::{Clamp, Step as CastStep};
use onnx_cast_file::__private::{ParsedData, pb, wire};

/// Where a value goes: as a mask to a Softmax, which stays float, or to an attention operator, which may be narrow, or
/// to anything else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MaskOf {
    pub(crate) softmax: bool,
    attention: bool,
    other: bool,
}

impl Fact for MaskOf {
    const UNKNOWN: MaskOf = MaskOf { softmax: false, attention: false, other: true };

    fn join(&self, other: &MaskOf) -> MaskOf {
        MaskOf {
            softmax: self.softmax || other.softmax,
            attention: self.attention || other.attention,
            other: self.other || other.other,
        }
    }
}

impl MaskOf {
    /// Whether a value is a mask and nothing else.
    pub(crate) fn is_mask(self) -> bool {
        (self.softmax || self.attention) && !self.other
    }

    /// Computes the fact of each value.
    pub(crate) fn all(model: &Dataflow<'_, '_, '_>) -> Vec<MaskOf> {
        let known = model.values.iter().map(|value| MaskOf { other: value.is_output, ..MaskOf::default() });
        model.backward(known.collect(), |node, input, facts| {
            if reads_mask(model, node, input) {
                let softmax = node.step.traits.sensitive.is_some();
                return MaskOf { softmax, attention: !softmax, other: false };
            }
            let reads_shape = ["Shape", "Size"].iter().any(|op_type| node.step.node.is(op_type));
            let results = node.outputs.iter().flatten().filter(|_| is_mask_way(node.step)).map(|&value| facts[value]);
            let of_results = results.reduce(|one, two| one.join(&two));
            of_results.unwrap_or(MaskOf { other: !reads_shape, ..MaskOf::default() })
        })
    }
}

/// Whether a node reads a value as a mask and nothing else.
pub(crate) fn is_mask_reading(
    model: &Dataflow<'_, '_, '_>,
    masks: &[MaskOf],
    value: usize,
    (node, input): (usize, usize),
) -> bool {
    let known = &model.values[value];
    if !known.reads.contains(&(node, input)) {
        return !known.becomes.is_empty() && known.becomes.iter().all(|&value| masks[value].is_mask());
    }
    let node = &model.nodes[node];
    let mut results = node.outputs.iter().flatten();
    reads_mask(model, node, input) || (is_mask_way(node.step) && results.all(|&value| masks[value].is_mask()))
}

/// Whether the result of an operator on a mask is still a mask.
pub(crate) fn is_mask_way(step: &Step<'_, '_>) -> bool {
    [Flag::Masks, Flag::Arranges, Flag::Picks, Flag::Updates].iter().any(|&flag| step.traits.is(flag))
}

/// Whether an input of a node is a mask, or scores that a mask was added to.
pub(crate) fn reads_mask(model: &Dataflow<'_, '_, '_>, node: &DataNode<'_, '_, '_>, input: usize) -> bool {
    let name = model.schema(node).and_then(|schema| Some(schema.input(input)?.name));
    name.and_then(|name| node.step.traits.meaning(name)) == Some(Meaning::Mask)
}

/// Half of the lowest number of a type.
fn half_of_lowest(low: DataType) -> f32 {
    if low == DataType::Float16 { -32752.0 } else { -f32::from_bits(0x7eff_0000) }
}

/// What clamps constants on their way to a type.
pub(crate) fn clamp([least, greatest]: [f32; 2], low: DataType) -> Clamp {
    Clamp::new(least, if overflows(greatest, low) { -2.0 * half_of_lowest(low) } else { greatest })
}

/// A number of a mask as it is to be stored.
fn raise(value: f32, low: DataType) -> f32 {
    if value < 0.0 && overflows(value, low) { half_of_lowest(low) } else { value }
}

/// Whether a ConstantOfShape gives a mask that would overflow.
pub(crate) fn is_raised(node: &Node<'_>, low: DataType, range: Option<[f32; 2]>) -> bool {
    fill(node, low, range).is_some_and(|value| value < 0.0 && overflows(value, low))
}

/// The elements of a mask, none of which overflows.
pub(crate) fn raised<'a>(elements: &CastElements<'a>, low: DataType) -> Option<CastElements<'a>> {
    let plan = Cast::new(DataType::Float, &CastOptions::new()).ok()?.plan(elements.data_type()).ok()?;
    let bytes = if elements.data_type() == DataType::Float {
        elements.read()?
    } else {
        elements.then(CastStep::Cast(plan)).read()?
    };
    let (words, _) = bytes.as_chunks::<4>();
    let raised: Vec<u8> = words.iter().flat_map(|word| raise(f32::from_le_bytes(*word), low).to_le_bytes()).collect();
    Some(CastElements::new(ElementSource::Owned(raised.into()), DataType::Float, elements.len))
}

/// The number that a ConstantOfShape gives, clamped where that is wanted.
pub(crate) fn fill(node: &Node<'_>, low: DataType, range: Option<[f32; 2]>) -> Option<f32> {
    let Some(value) = node.attribute("value") else { return Some(0.0) };
    let Ok(Some(ConstantValue::Tensor(message))) = ConstantValue::of(value) else { return None };
    let source = pb::parse(message).ok().filter(|source| source.data_type.is_float())?;
    let ParsedData::Bytes(bytes) = source.data else { return None };
    let one = TensorView::new(source.data_type, &[1], &bytes).ok()?;
    let value =
        Cast::new(DataType::Float, &CastOptions::new()).ok()?.run(&one).ok()?.to_vec::<f32>()?.first().copied()?;
    Some(range.map_or(value, |range| clamp(range, low).clamp(value)))
}

/// The attribute `value` of a ConstantOfShape, in a narrow type; of an emulated model, as float.
pub(crate) fn of_mask(node: &Node<'_>, low: DataType, range: Option<[f32; 2]>, emulate: bool) -> NewAttribute {
    let value = raise(fill(node, low, range).unwrap_or(0.0), low);
    let cast = |tensor: &Tensor, to| Cast::new(to, &CastOptions::new()).ok()?.run(&tensor.view()).ok();
    let stored = || {
        let narrow = cast(&Tensor::from_slice(vec![1], &[value]).ok()?, low)?;
        let stored = if emulate { cast(&narrow, DataType::Float)? } else { narrow };
        Some(stored.bytes()?.to_vec())
    };
    let of_type = if emulate { DataType::Float } else { low };
    let mut message = Vec::new();
    wire::put_int(&mut message, tensor::DIMS, 1);
    wire::put_int(&mut message, tensor::DATA_TYPE, of_type.onnx() as u64);
    let zero = || vec![0; of_type.byte_len(1).unwrap_or(2)];
    wire::put_bytes(&mut message, tensor::RAW_DATA, &stored().unwrap_or_else(zero));
    NewAttribute::tensor("value", &message)
}
