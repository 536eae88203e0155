//! Operators that now take tensors of any rank where they made them matrices before, and norms whose parameters changed
//! their shape.

use super::draft::{Done, Draft, Given, Kind, Refusal};
use super::site::Site;
use crate::edits::{NewAttribute, NewNode};
use crate::messages::attribute::kind;
use onnx_cast::DataType;

/// Softmax, LogSoftmax and Hardmax made a matrix of their input, and worked on its rows. Version 13 works along one
/// axis, which is the same where that is the last. Elsewhere the matrix is made by a Flatten.
pub(super) fn softmax<'a>(draft: &mut Draft<'_, 'a>, site: &mut Site<'_, '_, 'a>) -> Result<Done, Refusal> {
    let (x, y) = (draft.required(0)?, draft.output()?);
    let axis = draft.int("axis")?;
    let known = match axis {
        Given::Absent => Some(1),
        Given::Value(axis) => Some(axis),
        Given::Refers(_) => None,
    };
    let last = site.known.rank(&x).or_else(|| site.known.rank(&y)).map(|rank| rank as i64 - 1);
    if known.is_some_and(|axis| axis == -1 || last == Some(axis)) {
        let had = draft.has("axis");
        draft.set_int("axis", -1);
        return Ok((!had || known != Some(-1)).then_some("its axis, the last, is -1"));
    }
    let (flatten, flat) = site.node(draft, "Flatten", "flat", vec![x.clone()]);
    // A function's attribute that a call leaves out is 1 for both operators.
    let attribute = match axis {
        Given::Refers(to) => NewAttribute::reference("axis", kind::INT, &to),
        _ => NewAttribute::int("axis", known.unwrap_or(1)),
    };
    let (shape_node, shape) = site.node(draft, "Shape", "shape", vec![x]);
    draft.before.extend([flatten.with(attribute), shape_node]);
    draft.set_input(0, flat);
    draft.set_int("axis", -1);
    reshape_back(draft, site, shape, y);
    Ok(Some("its input is flattened before it and shaped back behind it"))
}

/// Has the node give another value, and a Reshape behind it the old one.
fn reshape_back<'a>(draft: &mut Draft<'_, 'a>, site: &mut Site<'_, '_, 'a>, shape: String, output: String) {
    let rows = site.fresh(draft, "rows");
    let (mut back, _) = site.node(draft, "Reshape", "shaped", vec![rows.clone(), shape]);
    back.outputs = vec![output];
    if site.to >= FIRST_ALLOW_ZERO {
        // A dimension of the shape that is 0 is one, not a request to copy another.
        back = back.with(NewAttribute::int("allowzero", 1));
    }
    draft.outputs[0] = rows;
    draft.after.insert(0, back);
}

const FIRST_ALLOW_ZERO: i64 = 14;

/// `spatial` of BatchNormalization: where it is 0, each element of an image has statistics of its own, as a channel has
/// in a matrix.
pub(super) fn batch_norm_spatial<'a>(draft: &mut Draft<'_, 'a>, site: &mut Site<'_, '_, 'a>) -> Result<Done, Refusal> {
    let Some(spatial) = draft.int("spatial")?.known("spatial")? else { return Ok(None) };
    draft.remove("spatial");
    if spatial != 0 {
        return Ok(Some("`spatial`, which is 1, is gone"));
    }
    if !draft.has_one_output() {
        return Err("it is in training mode (it gives more than one output)".to_owned());
    }
    let (x, y) = (draft.required(0)?, draft.output()?);
    let (flatten, flat) = site.node(draft, "Flatten", "flat", vec![x.clone()]);
    let (shape_node, shape) = site.node(draft, "Shape", "shape", vec![x]);
    draft.before.extend([flatten.with(NewAttribute::int("axis", 1)), shape_node]);
    draft.set_input(0, flat);
    let line = site.int64s(draft, "line", &[-1]);
    for place in 1..5 {
        let parameter = draft.required(place)?;
        let (node, output) = site.node(draft, "Reshape", "parameter", vec![parameter, line.clone()]);
        draft.before.push(node);
        draft.set_input(place, output);
    }
    reshape_back(draft, site, shape, y);
    Ok(Some("its input and its parameters are flattened before it"))
}

/// Before version 14 the other outputs are those of the training mode.
pub(super) fn batch_norm_outputs<'a>(draft: &mut Draft<'_, 'a>, _: &mut Site<'_, '_, 'a>) -> Result<Done, Refusal> {
    if draft.outputs.len() > 1 {
        return Err("it is in training mode (it gives more than one output)".to_owned());
    }
    Ok(None)
}

/// GroupNormalization-21 has a scale and a bias for each channel, not for each group, and tells the precision.
pub(super) fn group_norm<'a>(draft: &mut Draft<'_, 'a>, site: &mut Site<'_, '_, 'a>) -> Result<Done, Refusal> {
    let x = draft.required(0)?;
    let Some(data_type) = site.known.data_type(&x) else { return group_norm_in_parts(draft, site) };
    // Version 18 computes in the type of its input.
    if data_type != DataType::Float {
        draft.set_int("stash_type", data_type.onnx().into());
    }
    let (channels, count) = site.node(draft, "Shape", "channels", vec![x]);
    let channels = channels.with(NewAttribute::int("start", 1)).with(NewAttribute::int("end", 2));
    let scale = draft.required(1)?;
    let (groups, groups_count) = site.node(draft, "Shape", "groups", vec![scale]);
    let (size, size_count) = site.node(draft, "Div", "group_size", vec![count, groups_count.clone()]);
    let (both, table) = site.node(draft, "Concat", "groups_and_size", vec![groups_count, size_count]);
    draft.before.extend([channels, groups, size, both.with(NewAttribute::int("axis", 0))]);
    let (column, line) = (site.int64s(draft, "column", &[-1, 1]), site.int64s(draft, "line", &[-1]));
    for (place, what) in [(1, "scale"), (2, "bias")] {
        let parameter = draft.required(place)?;
        let (standing, stands) =
            site.node(draft, "Reshape", &format!("{what}_column"), vec![parameter, column.clone()]);
        let (expand, expanded) = site.node(draft, "Expand", &format!("{what}_table"), vec![stands, table.clone()]);
        let (flatten, each) = site.node(draft, "Reshape", &format!("{what}_by_channel"), vec![expanded, line.clone()]);
        draft.before.extend([standing, expand, flatten]);
        draft.set_input(place, each);
    }
    Ok(Some("scale and bias are repeated for the channels of each group"))
}

/// What version 18 is defined as, for an input of any type. Version 21 has to be told in which type it computes.
fn group_norm_in_parts<'a>(draft: &mut Draft<'_, 'a>, site: &mut Site<'_, '_, 'a>) -> Result<Done, Refusal> {
    let [x, scale, bias] = [draft.required(0)?, draft.required(1)?, draft.required(2)?];
    if !draft.has("epsilon") {
        draft.set("epsilon", kind::FLOAT, NewAttribute::float("epsilon", 1e-5));
    }
    let epsilon = site.input(draft, "epsilon", Kind::LikeFirst)?.ok_or("its epsilon is missing")?;
    let (minus_one, axis) = (site.int64s(draft, "line", &[-1]), site.int64s(draft, "last_axis", &[2]));
    let for_each = site.int64s(draft, "for_each_group", &[1, -1, 1]);
    let mut add = |op_type: &str, what: &str, inputs: &[&str], attributes: &[(&str, i64)]| {
        let (node, output) = site.node(draft, op_type, what, inputs.iter().map(|&name| name.to_owned()).collect());
        let attributes = attributes.iter().map(|&(name, value)| NewAttribute::int(name, value));
        draft.before.push(attributes.fold(node, NewNode::with));
        output
    };
    let shape = add("Shape", "shape", &[&x], &[]);
    let batch = add("Shape", "batch", &[&x], &[("start", 0), ("end", 1)]);
    let groups = add("Shape", "groups", &[&scale], &[]);
    let by_group = add("Concat", "by_group", &[&batch, &groups, &minus_one], &[("axis", 0)]);
    let x = add("Reshape", "grouped", &[&x, &by_group], &[]);
    let mean = add("ReduceMean", "mean", &[&x, &axis], &[]);
    let square = add("Mul", "square", &[&x, &x], &[]);
    let mean_of_square = add("ReduceMean", "mean_of_square", &[&square, &axis], &[]);
    let square_of_mean = add("Mul", "square_of_mean", &[&mean, &mean], &[]);
    let variance = add("Sub", "variance", &[&mean_of_square, &square_of_mean], &[]);
    let sum = add("Add", "sum", &[&variance, &epsilon], &[]);
    let deviation = add("Sqrt", "deviation", &[&sum], &[]);
    let centred = add("Sub", "centred", &[&x, &mean], &[]);
    let normal = add("Div", "normal", &[&centred, &deviation], &[]);
    let scale = add("Reshape", "scale", &[&scale, &for_each], &[]);
    let bias = add("Reshape", "bias", &[&bias, &for_each], &[]);
    let scaled = add("Mul", "scaled", &[&scale, &normal], &[]);
    let biased = add("Add", "biased", &[&scaled, &bias], &[]);
    draft.op_type = "Reshape";
    draft.inputs = vec![biased, shape];
    for name in ["num_groups", "stash_type"] {
        draft.remove(name);
    }
    draft.set_int("allowzero", 1);
    Ok(Some("it is the nodes that it is defined as, because the type of its input is unknown"))
}
