//! Scan-8, which works on batches of sequences: the first axis of everything that it reads and gives is the batch, the
//! second that of a sequence. Version 9 has no batches. One Scan over the batch around another one over the sequence,
//! which keeps the body as it is, gives the same.

use super::draft::{Done, Draft, Given, Refusal};
use super::site::Site;
use crate::edits::{Around, NewAttribute, NewNode};
use crate::messages::attribute::kind;

/// The first opset whose Slice and Pad read how much.
const FIRST_PADS: i64 = 11;

pub(super) fn batches<'a>(draft: &mut Draft<'_, 'a>, site: &mut Site<'_, '_, 'a>) -> Result<Done, Refusal> {
    let given = draft.int("num_scan_inputs")?.known("num_scan_inputs")?;
    let given = given.ok_or("its attribute `num_scan_inputs` is missing")?;
    let count = draft.inputs.len().saturating_sub(1);
    let scanned = usize::try_from(given).ok().filter(|scanned| (1..=count).contains(scanned));
    let states = count - scanned.ok_or_else(|| format!("its `num_scan_inputs` is {given}, and it reads {count}"))?;
    if draft.inputs.iter().skip(1).any(String::is_empty) || draft.outputs.len() < states {
        return Err("an input, or a state that it gives, is left out".to_owned());
    }
    directions(draft)?;
    let lengths = draft.input(0).map(str::to_owned);
    if lengths.is_some() && site.to < FIRST_PADS {
        return Err(format!("it is given lengths of sequences, which needs Slice and Pad of opset {FIRST_PADS}"));
    }

    let outer: Vec<String> = draft.inputs.drain(..).skip(1).collect();
    draft.inputs = outer.iter().map(|_| site.fresh(draft, "of_one")).collect();
    let results = draft.outputs.clone();
    let outputs: Vec<String> = results.iter().map(|_| site.fresh(draft, "one")).collect();
    draft.outputs.clone_from(&outputs);
    let name = site.fresh(draft, "batches");
    let mut around = Around {
        node: NewNode { outputs: results, ..NewNode::new("Scan", name, outer, String::new()) },
        inputs: draft.inputs.clone(),
        outputs,
        before: Vec::new(),
        after: Vec::new(),
    };
    if let Some(lengths) = lengths {
        let length = site.fresh(draft, "length");
        around.node.inputs.insert(0, lengths);
        around.inputs.insert(0, length.clone());
        shorten(draft, site, &mut around, states, length);
    }
    let inputs = around.inputs.len() as i64;
    around.node = around.node.with(NewAttribute::int("num_scan_inputs", inputs));
    draft.around = Some(around);
    Ok(Some("it runs in another Scan, over the batch"))
}

/// `directions` has another name.
fn directions(draft: &mut Draft<'_, '_>) -> Result<(), Refusal> {
    let name = "scan_input_directions";
    let new = match draft.ints("directions")? {
        Given::Absent => return Ok(()),
        Given::Value(values) => NewAttribute::ints(name, &values),
        Given::Refers(to) => NewAttribute::reference(name, kind::INTS, &to),
    };
    draft.remove("directions");
    draft.set(name, kind::INTS, new);
    Ok(())
}

/// Cuts the sequences to their length, and fills what is scanned of them up with zeros. ONNX leaves open what stands
/// there; these are onnxruntime's.
fn shorten<'a>(
    draft: &mut Draft<'_, 'a>,
    site: &mut Site<'_, '_, 'a>,
    around: &mut Around<'a>,
    states: usize,
    length: String,
) {
    let [line, zero, one, last] = [("line", 1), ("start", 0), ("one", 1), ("last", i64::MAX)]
        .map(|(what, value)| site.int64s(draft, what, &[value]));
    let (node, length) = site.node(draft, "Reshape", "length_list", vec![length, line]);
    around.before.push(node);
    let (shape, all) = site.node(draft, "Shape", "sequence", vec![draft.inputs[states].clone()]);
    let (first, most) = site.node(draft, "Slice", "longest", vec![all, zero.clone(), one.clone()]);
    let (sub, missing) = site.node(draft, "Sub", "missing", vec![most, length.clone()]);
    around.before.extend([shape, first, sub]);
    for place in states..draft.inputs.len() {
        let whole = draft.inputs[place].clone();
        let (slice, short) = site.node(draft, "Slice", "short", vec![whole, zero.clone(), length.clone()]);
        around.before.push(slice);
        draft.inputs[place] = short;
    }
    for place in states..draft.outputs.len() {
        let short = site.fresh(draft, "short");
        let (shape, dims) = site.node(draft, "Shape", "dims", vec![short.clone()]);
        let (zeros, before) = site.node(draft, "Sub", "before", vec![dims.clone(), dims]);
        let (others, behind) = site.node(draft, "Slice", "behind", vec![before.clone(), one.clone(), last.clone()]);
        let (all, pads) = site.node(draft, "Concat", "pads", vec![before, missing.clone(), behind]);
        let (mut pad, _) = site.node(draft, "Pad", "padded", vec![short.clone(), pads]);
        pad.outputs = vec![std::mem::replace(&mut draft.outputs[place], short)];
        around.after.extend([shape, zeros, others, all.with(NewAttribute::int("axis", 0)), pad]);
    }
}
