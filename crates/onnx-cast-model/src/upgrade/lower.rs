//! The way back: a node of one version as a node of the version before. Where `steps.rs` says that a version means the
//! same, a node goes back as it is, unless it uses what the version added: an attribute, an input or an element type.
//! The facts are ONNX's schemas, compared version by version. What a rewrite would have to compute is refused.

use super::casts;
use super::draft::{Done, Draft, Given, Kind, Refusal};
use super::inputs::NewInput;
use super::site::Site;
use super::steps::{REDUCTIONS, Step};
use crate::edits::NewAttribute;
use crate::messages::attribute::kind;
use crate::types::schemas::{Arity, Formal, FormalType, Schema, TypeSet};
use onnx_cast::DataType;
use onnx_cast_file::__private::Short;
use std::collections::HashMap;

/// The oldest opset that models are lowered to.
pub(super) const OLDEST_LOWERED: i64 = 13;

/// A condition for a node to mean the same at the version before.
#[derive(Clone, Copy)]
enum Rule {
    /// A new attribute has this value, if any, and is removed.
    Int(&'static str, i64),
    Text(&'static str, &'static str),
    Ones(&'static str),
    /// A new attribute only matters for types that the version before lacks, and is removed.
    Unused(&'static str),
    Absent(&'static str),
    /// A new attribute, whose default is not what the version before does, has this value.
    Given(&'static str, &'static str),
    /// The attribute has none of these new values.
    Except(&'static str, &'static [&'static str]),
    Checked(Check),
    Refused(&'static str),
}

type Check = for<'t, 'a> fn(&mut Draft<'t, 'a>, &mut Site<'_, 't, 'a>) -> Result<Done, Refusal>;

use Rule::{Absent, Checked, Except, Int, Ones, Refused, Text, Unused};

/// Operators, the version that they leave, and its rules. A version that needs rewriting upwards has a row.
const RULES: &[(&[&str], i64, &[Rule])] = &[
    (&["BatchNormalization"], 14, &[Int("training_mode", 0), Checked(one_output)]),
    (&["GRU", "LSTM", "RNN"], 14, &[Int("layout", 0)]),
    (&["Reshape"], 14, &[Int("allowzero", 0)]),
    (&["Shape"], 15, &[Int("start", 0), Absent("end")]),
    (&["RoiAlign"], 16, &[Rule::Given("coordinate_transformation_mode", "output_half_pixel")]),
    (&["ScatterElements", "ScatterND"], 16, &[Text("reduction", "none")]),
    (&["LpPool"], 18, &[Int("ceil_mode", 0), Ones("dilations")]),
    (REDUCTIONS, 18, &[Int("noop_with_empty_axes", 0)]),
    (&["Resize"], 18, &[Int("antialias", 0), Absent("axes"), Text("keep_aspect_ratio_policy", "stretch")]),
    (&["ScatterElements", "ScatterND"], 18, &[Except("reduction", &["max", "min"])]),
    // Without the length of the axis, the last part may be smaller than the others.
    (&["Split"], 18, &[Absent("num_outputs")]),
    (&["AveragePool"], 19, &[Ones("dilations")]),
    (&["Cast", "CastLike"], 19, &[Unused("saturate")]),
    (&["Pad"], 19, &[Except("mode", &["wrap"])]),
    (&["QuantizeLinear"], 19, &[Unused("saturate"), Checked(no_int32)]),
    (&["Resize"], 19, &[Except("coordinate_transformation_mode", &["half_pixel_symmetric"])]),
    (&["GridSample"], 20, &[Checked(grid_sample)]),
    (&["DequantizeLinear"], 21, &[Int("block_size", 0)]),
    (&["GroupNormalization"], 21, &[Refused("has a scale and a bias for each group, not for each channel")]),
    (&["QuantizeLinear"], 21, &[Int("block_size", 0), Int("output_dtype", 0)]),
    (&["DequantizeLinear"], 23, &[Int("output_dtype", 0)]),
    (&["QuantizeLinear"], 23, &[Int("precision", 0)]),
    (&["Attention"], 24, &[Checked(no_mask)]),
    (&["Cast"], 24, &[Unused("round_mode"), Checked(cast)]),
    (&["CastLike"], 24, &[Unused("round_mode"), Checked(cast_like)]),
    (&["Attention"], 25, &[Refused("has no windows")]),
    (&["Range"], 27, &[Unused("stash_type")]),
    (&["Mod"], 28, &[Checked(fmod)]),
    // Before version 28 integers were allowed too.
    (&["ReduceLogSum", "ReduceLogSumExp"], 28, &[]),
    (&["SpaceToDepth"], 28, &[Text("mode", "DCR")]),
];

/// Takes a draft from a version down to the one in force at the new opset; what was done.
pub(super) fn steps_back<'t, 'a>(
    draft: &mut Draft<'t, 'a>,
    site: &mut Site<'_, 't, 'a>,
    old: i64,
) -> Result<Vec<&'static str>, String> {
    let versions = Schema::versions("", draft.op_type);
    let (to, mut what) = (site.to, Vec::new());
    for pair in versions.windows(2).rev().filter(|pair| pair[1].since <= old && pair[1].since > to) {
        let (before, version) = (pair[0].since, pair[1].since);
        site.step = version;
        let step = super::steps::step(draft.op_type, version, pair[1].adds_types);
        let done = back(draft, site, step, version);
        what.extend(done.map_err(|why| format!("is version {version} of its operator; version {before} {why}"))?);
    }
    let schema = |opset| Schema::of("", draft.op_type, opset);
    if let (Some(now), Some(new)) = (schema(old), schema(to)) {
        site.step = new.since;
        fits(draft, site, now, new)
            .map_err(|why| format!("is version {old} of its operator; version {} {why}", new.since))?;
    }
    what.dedup();
    Ok(what)
}

/// Takes a draft from a version to the one before; the refusal goes on after `version N`.
fn back<'t, 'a>(
    draft: &mut Draft<'t, 'a>,
    site: &mut Site<'_, 't, 'a>,
    step: Step,
    version: i64,
) -> Result<Done, Refusal> {
    let rules = RULES.iter().find(|(names, at, _)| *at == version && names.contains(&draft.op_type));
    let mut done = match (step, rules) {
        (Step::Inputs(_, rows), _) => to_attributes(draft, site, rows)?,
        (Step::Same(_), _) | (_, Some(_)) => None,
        (Step::Adapted(_) | Step::Refused(_), None) => return Err("means something else".to_owned()),
    };
    for &rule in rules.map_or(&[][..], |(_, _, rules)| rules) {
        done = holds(draft, site, rule)?.or(done);
    }
    Ok(done)
}

/// Checks a rule, and removes the attribute that it is about.
fn holds<'t, 'a>(draft: &mut Draft<'t, 'a>, site: &mut Site<'_, 't, 'a>, rule: Rule) -> Result<Done, Refusal> {
    let (name, is_neutral) = match rule {
        Checked(check) => return check(draft, site),
        Refused(why) => return Err(why.to_owned()),
        Except(name, values) => {
            return match draft.string(name)?.known(name)?.filter(|value| values.contains(&&**value)) {
                Some(value) => Err(format!("has no `{name}` \"{value}\"")),
                None => Ok(None),
            };
        }
        Rule::Given(name, value) => {
            if draft.string(name)?.known(name)?.as_deref() != Some(value) {
                return Err(format!("has no attribute `{name}`, and does what \"{value}\" means"));
            }
            (name, true)
        }
        Int(name, value) => (name, draft.int(name)?.known(name)?.is_none_or(|given| given == value)),
        Text(name, value) => (name, draft.string(name)?.known(name)?.is_none_or(|given| given == value)),
        Ones(name) => (name, draft.ints(name)?.known(name)?.is_none_or(|given| given.iter().all(|&one| one == 1))),
        Unused(name) => (name, true),
        Absent(name) => (name, !draft.has(name)),
    };
    if !is_neutral {
        return Err(format!("has no attribute `{name}`"));
    }
    let had = draft.has(name);
    draft.remove(name);
    Ok(had.then_some("newer attributes, which change nothing, are removed"))
}

/// Makes constant inputs attributes again.
fn to_attributes<'a>(
    draft: &mut Draft<'_, 'a>,
    site: &mut Site<'_, '_, 'a>,
    rows: &[NewInput],
) -> Result<Done, Refusal> {
    let mut done = None;
    for &NewInput { attribute, kind: of, place, .. } in rows {
        let values = match draft.input(place) {
            Some(name) => site.known.ints(name, site.files),
            None if of == Kind::Ints => continue,
            None => return Err(format!("has another default of `{attribute}`")),
        };
        let values = values.ok_or_else(|| format!("has `{attribute}` as an attribute, and it is not constant here"))?;
        match (of, &values[..]) {
            (Kind::Ints, []) => {}
            (Kind::Ints, values) => draft.set(attribute, kind::INTS, NewAttribute::ints(attribute, values)),
            (Kind::Int, &[value]) => draft.set_int(attribute, value),
            _ => return Err(format!("has `{attribute}` as an attribute")),
        }
        draft.inputs[place].clear();
        done = Some("constant inputs are attributes");
    }
    while draft.inputs.last().is_some_and(String::is_empty) {
        draft.inputs.pop();
    }
    Ok(done)
}

/// Checks the number of inputs and outputs and their types against a version.
fn fits(draft: &Draft<'_, '_>, site: &Site<'_, '_, '_>, now: &Schema, new: &Schema) -> Result<(), String> {
    let given = |names: &[String], place: usize| names.get(place).is_some_and(|name| !name.is_empty());
    let required = new.inputs.iter().enumerate().filter(|(_, formal)| formal.arity == Arity::Single);
    if let Some((_, formal)) = required.into_iter().find(|(place, _)| !given(&draft.inputs, *place)) {
        return Err(format!("needs the input `{}`", formal.name));
    }
    let mut bound: HashMap<usize, DataType> = HashMap::new();
    let inputs = draft.inputs.iter().enumerate().map(|(place, name)| (name, now.input(place), new.input(place)));
    let outputs = draft.outputs.iter().enumerate().map(|(place, name)| (name, now.output(place), new.output(place)));
    for (name, now_formal, new_formal) in inputs.chain(outputs).filter(|(name, ..)| !name.is_empty()) {
        let Some(formal) = new_formal else {
            return Err(format!("has no `{}`", now_formal.map_or("such value", |formal| formal.name)));
        };
        let same = now_formal.is_some_and(|now_formal| takes_all((now, now_formal), (new, formal)));
        let Some(data_type) = site.known.data_type(name) else {
            if !same {
                return Err(format!("takes fewer types, and that of `{}` is unknown", Short(name)));
            }
            continue;
        };
        let allowed = match &formal.of_type {
            FormalType::Fixed(of_type) => *of_type == data_type.into(),
            FormalType::Variable(variable) => new.variables[*variable].allowed.tensors(data_type),
        };
        let agrees = formal.variable().is_none_or(|variable| *bound.entry(variable).or_insert(data_type) == data_type);
        if !(allowed || same) || !agrees {
            return Err(format!("takes no {data_type} for `{}` (`{}`)", formal.name, Short(name)));
        }
    }
    Ok(())
}

/// Whether a version takes every type that another takes, by variables of the same name.
fn takes_all((now, now_formal): (&Schema, &Formal), (new, new_formal): (&Schema, &Formal)) -> bool {
    match (&now_formal.of_type, &new_formal.of_type) {
        (FormalType::Variable(from), FormalType::Variable(to)) => {
            let (from, to) = (&now.variables[*from], &new.variables[*to]);
            from.name == to.name && TypeSet::covers(&to.allowed, &from.allowed)
        }
        (from, to) => from == to,
    }
}

fn one_output<'t, 'a>(draft: &mut Draft<'t, 'a>, _: &mut Site<'_, 't, 'a>) -> Result<Done, Refusal> {
    if draft.has_one_output() { Ok(None) } else { Err("has other outputs".to_owned()) }
}

fn no_int32<'t, 'a>(draft: &mut Draft<'t, 'a>, site: &mut Site<'_, 't, 'a>) -> Result<Done, Refusal> {
    match site.known.data_type(&draft.required(0)?) {
        Some(data_type) if data_type.is_float() => Ok(None),
        Some(_) => Err("may round int32 otherwise".to_owned()),
        None => Err("may round int32 otherwise, and the type of the input is unknown".to_owned()),
    }
}

/// Modes have other names, and images are of two dimensions.
fn grid_sample<'t, 'a>(draft: &mut Draft<'t, 'a>, site: &mut Site<'_, 't, 'a>) -> Result<Done, Refusal> {
    if site.known.rank(&draft.required(0)?) != Some(4) {
        return Err("takes inputs of rank 4 only, and this rank is another or unknown".to_owned());
    }
    let name = match draft.string("mode")?.known("mode")?.as_deref() {
        Some("linear") => "bilinear",
        Some("cubic") => "bicubic",
        _ => return Ok(None),
    };
    draft.set_string("mode", name);
    Ok(Some("`mode` has its old name"))
}

fn no_mask<'t, 'a>(draft: &mut Draft<'t, 'a>, _: &mut Site<'_, 't, 'a>) -> Result<Done, Refusal> {
    if draft.input(3).is_some() { Err("takes no shorter masks".to_owned()) } else { Ok(None) }
}

fn cast<'t, 'a>(draft: &mut Draft<'t, 'a>, site: &mut Site<'_, 't, 'a>) -> Result<Done, Refusal> {
    let to = match draft.int("to")? {
        Given::Value(to) => DataType::from_onnx(to),
        _ => None,
    };
    casts::if_nothing_changed(site, to).map(|()| None)
}

fn cast_like<'t, 'a>(draft: &mut Draft<'t, 'a>, site: &mut Site<'_, 't, 'a>) -> Result<Done, Refusal> {
    let to = site.known.data_type(&draft.required(1)?);
    casts::if_nothing_changed(site, to).map(|()| None)
}

/// Floats need `fmod` before version 28.
fn fmod<'t, 'a>(draft: &mut Draft<'t, 'a>, site: &mut Site<'_, 't, 'a>) -> Result<Done, Refusal> {
    let is_integer = site.known.data_type(&draft.required(0)?).is_some_and(|data_type| !data_type.is_float());
    match is_integer || draft.int("fmod")?.known("fmod")? == Some(1) {
        true => Ok(None),
        false => Err("needs `fmod` 1 for floats".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upgrade::steps;

    /// Every rule is about a version that there is, and every version that is rewritten upwards has rules.
    #[test]
    fn every_rewritten_version_has_rules() {
        for (names, version, _) in RULES {
            for name in *names {
                assert!(Schema::versions("", name).iter().any(|one| one.since == *version), "{name}-{version}");
            }
        }
        let mut adapted = 0;
        for (_, name, _) in crate::operators::all().filter(|(domain, ..)| *domain == "ai.onnx") {
            for schema in Schema::versions("", name).iter().skip(1).filter(|schema| schema.since > OLDEST_LOWERED) {
                if let Step::Adapted(_) = steps::step(name, schema.since, schema.adds_types) {
                    adapted += 1;
                    let has = RULES.iter().any(|(names, at, _)| *at == schema.since && names.contains(&name));
                    assert!(has, "{name}-{}", schema.since);
                }
            }
        }
        assert!(adapted > 8, "{adapted}");
    }
}
