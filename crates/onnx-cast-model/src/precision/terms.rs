//! The number of terms that an operator adds up per element of its result, from attributes and declared shapes.

use crate::graph::dataflow::{Dataflow, Node};
use crate::messages::attribute;
use crate::operators::Terms;
use crate::types::ranks::Shapes;
use onnx_cast_file::__private::wire;

/// The number of terms of a node; `None` if unknown.
pub(crate) fn count<'a>(model: &Dataflow<'_, '_, 'a>, shapes: &[Shapes<'a>], node: &Node<'_, '_, 'a>) -> Option<u64> {
    let product = |sizes: Vec<Option<u64>>| sizes.into_iter().try_fold(1_u64, |all, size| all.checked_mul(size?));
    let shape = || {
        let value = &model.values[model.before_casts(node.input(0)?)];
        shapes[value.body].of(&model.bodies[value.body].flow, value.id)
    };
    match node.step.traits.terms? {
        Terms::Attribute(name) => {
            let attribute = node.step.node.attribute(name)?;
            let sizes = wire::varints(attribute.message, attribute::INTS).collect::<Result<Vec<_>, _>>().ok()?;
            if sizes.is_empty() {
                return u64::try_from(attribute.int()).ok();
            }
            product(sizes.into_iter().map(Some).collect())
        }
        Terms::Spatial => product(shape()?.into_iter().skip(2).collect()),
        Terms::Axes => {
            let (shape, axes) = (shape()?, axes(model, node)?);
            let is_noop = node.step.node.attribute("noop_with_empty_axes").is_some_and(|noop| noop.int() != 0);
            if axes.is_empty() {
                return if is_noop { Some(1) } else { product(shape) };
            }
            let rank = i64::try_from(shape.len()).ok()?;
            let size = |axis: i64| *shape.get(usize::try_from(if axis < 0 { axis + rank } else { axis }).ok()?)?;
            product(axes.into_iter().map(size).collect())
        }
    }
}

/// The axes that a node reduces, as an attribute or an input lists them. An empty list stands for all axes, or for none
/// if `noop_with_empty_axes` says so. `None` if they depend on an input that is not constant.
fn axes(model: &Dataflow<'_, '_, '_>, node: &Node<'_, '_, '_>) -> Option<Vec<i64>> {
    if let Some(axes) = node.step.node.attribute("axes") {
        let axes = wire::varints(axes.message, attribute::INTS).map(|axis| axis.map(|axis| axis as i64));
        return axes.collect::<Result<_, _>>().ok();
    }
    node.input(1).map_or(Some(Vec::new()), |axes| model.ints(axes))
}
