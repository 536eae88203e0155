//! What each new version of an operator means for a node of the version before it, from opset 8 on. The facts are ONNX's
//! changelog, read operator by operator; `types/schemas.txt` has the versions, and marks those that add element types
//! and change no other word. Every other version is here, with what makes it the same, what rewrites it, or why nothing
//! does.

use super::draft::{Done, Draft, Kind, Refusal};
use super::inputs::{NewInput, Otherwise, input};
use super::site::Site;
use super::{casts, inputs, sampling, shapes};
use std::collections::HashMap;
use std::sync::LazyLock;

/// Rewrites a node of one version as one of the next.
pub(super) type Adapter = for<'t, 'a> fn(&mut Draft<'t, 'a>, &mut Site<'_, 't, 'a>) -> Result<Done, Refusal>;

/// What becomes of a node.
#[derive(Clone, Copy)]
pub(super) enum Step {
    /// It means the same, for this reason.
    Same(#[cfg_attr(not(test), expect(dead_code, reason = "a record of what was read, for reviewers"))] &'static str),
    Adapted(Adapter),
    /// Attributes are inputs, in these words.
    Inputs(&'static str, &'static [NewInput]),
    /// It means something else, and there is no other way to write it.
    Refused(&'static str),
}

use Kind::{Floats, Int, Ints, LikeFirst, ListOfInt};
use Otherwise::{Empty, LeftOut, Zero};
use Step::{Adapted, Inputs, Refused, Same};

const WORDS: Step = Same("other words, examples and formats");
const NEGATIVE: Step = Same("axes may be negative, and other words");
const REDUCE_WORDS: Step = Same("other words: an empty set and a scalar are told of");
const POOL_WORDS: Step = Same("the sizes that `auto_pad` gives in a formula, and the default strides of 1");
const CAST: Step = Adapted(casts::cast);
const AXES: Step = Inputs("`axes` is an input", &[input("axes", Ints, 1, LeftOut)]);

/// Reductions whose versions change together. ReduceSum got its input `axes` in another one.
pub(super) const REDUCTIONS: &[&str] = &[
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSumSquare",
];

/// Operators, the version that they get, and what that means.
const STEPS: &[(&[&str], i64, Step)] = &[
    (&["Max", "Mean", "Min", "Sum"], 8, Same("inputs are broadcast, which had to be of one shape before")),
    (&["MaxPool"], 8, Same("the second output, and `storage_order`, which is of that alone")),
    (&["BatchNormalization"], 9, Adapted(shapes::batch_norm_spatial)),
    (&["Cast"], 9, CAST),
    (&["Scan"], 9, Refused("has no batches of sequences (onnx.version_converter writes a Scan-9 for some)")),
    (&["Upsample"], 9, Inputs("`scales` is an input", &[input("scales", Floats, 1, Otherwise::Refused)])),
    (&["AveragePool"], 10, Same("`ceil_mode` is 0 where it is not given")),
    (&["Dropout"], 10, Adapted(inputs::dropout_mask)),
    (&["MaxPool"], 10, Same("`ceil_mode` is 0 and `dilations` are 1 where they are not given")),
    (
        &["Slice"],
        10,
        Inputs(
            "`starts`, `ends` and `axes` are inputs",
            &[
                input("starts", Ints, 1, Otherwise::Refused),
                input("ends", Ints, 2, Otherwise::Refused),
                input("axes", Ints, 3, LeftOut),
            ],
        ),
    ),
    (&["TopK"], 10, Inputs("`k` is an input", &[input("k", ListOfInt, 1, Otherwise::Refused)])),
    (&["Upsample"], 10, Adapted(sampling::to_resize)),
    (
        &[
            "ArgMax",
            "ArgMin",
            "Compress",
            "Concat",
            "Flatten",
            "Gather",
            "Hardmax",
            "LogSoftmax",
            "ReduceL1",
            "ReduceL2",
            "ReduceLogSum",
            "ReduceLogSumExp",
            "ReduceMax",
            "ReduceMean",
            "ReduceMin",
            "ReduceProd",
            "ReduceSum",
            "ReduceSumSquare",
            "Scan",
            "Softmax",
            "Split",
            "Squeeze",
            "Unsqueeze",
        ],
        11,
        NEGATIVE,
    ),
    (&["AveragePool", "Conv", "LpPool", "MaxPool", "MaxUnpool"], 11, POOL_WORDS),
    (
        &["Clip"],
        11,
        Inputs(
            "`min` and `max` are inputs",
            &[input("min", LikeFirst, 1, LeftOut), input("max", LikeFirst, 2, LeftOut)],
        ),
    ),
    (&["Constant"], 11, Same("`sparse_value` is another way to tell the value")),
    (&["ConvTranspose"], 11, Same("the halves of an odd padding in the formula, as `auto_pad` itself had them before")),
    (&["DepthToSpace"], 11, Same("`mode` is DCR, the one order before, where it is not given")),
    (&["Gemm"], 11, Same("the third input may be left out")),
    (&["If"], 11, Same("branches may give other shapes, which had to be the same before")),
    (&["Loop"], 11, WORDS),
    (&["NonMaxSuppression"], 11, Same("the threshold is told to be exclusive, as it was computed")),
    (&["OneHot"], 11, Same("indices may be negative, which they must not be before")),
    (
        &["Pad"],
        11,
        // A scalar is padded by nothing. Modes other than constant ignore the value.
        Inputs("`pads` and `value` are inputs", &[input("pads", Ints, 1, Empty), input("value", LikeFirst, 2, Zero)]),
    ),
    (&["Resize"], 11, Adapted(sampling::resize_modes)),
    (&["Scatter"], 11, Adapted(scatter)),
    (&["Slice"], 11, Same("axes may be negative, and a step of 0 is told to be none")),
    (&["TopK"], 11, Same("`largest` and `sorted` are 1 where they are not given")),
    (&["ArgMax", "ArgMin"], 12, Same("`select_last_index` is 0 where it is not given")),
    (&["Constant"], 12, Same("`value_float` and others are other ways to tell the value")),
    (&["Dropout"], 12, Adapted(inputs::dropout_ratio)),
    (&["GatherND"], 12, Same("`batch_dims` is 0 where it is not given")),
    (&["MaxPool"], 12, POOL_WORDS),
    (&["Pow"], 12, Same("the exponent may be of another type")),
    (&["ReduceMax", "ReduceMin"], 12, Same("more element types, and other words")),
    (
        &["Abs", "ArgMax", "ArgMin", "Ceil", "DepthToSpace", "Floor", "Gather", "GatherElements", "GatherND", "Gemm"],
        13,
        WORDS,
    ),
    (&["LRN", "Loop", "MeanVarianceNormalization", "Mod", "NegativeLogLikelihoodLoss", "Pow", "Slice"], 13, WORDS),
    (&["SoftmaxCrossEntropyLoss"], 13, WORDS),
    (&["Cast"], 13, CAST),
    (&["Clip"], 13, Same("a minimum above the maximum is told of")),
    (&["DequantizeLinear", "QuantizeLinear"], 13, Same("scales may be a list, and `axis` is of that alone")),
    (&["Erf"], 13, Adapted(casts::no_integers)),
    (&["Hardmax", "LogSoftmax", "Softmax"], 13, Adapted(shapes::softmax)),
    (&["Pad"], 13, Same("the value may be of any type")),
    (REDUCTIONS, 13, REDUCE_WORDS),
    (&["ReduceSum", "Squeeze"], 13, AXES),
    (&["Resize"], 13, Adapted(sampling::resize_inputs)),
    (&["Split"], 13, Inputs("`split` is an input", &[input("split", Ints, 1, LeftOut)])),
    (&["Unsqueeze"], 13, Inputs("`axes` is an input", &[input("axes", Ints, 1, Empty)])),
    (&["BatchNormalization"], 14, Adapted(shapes::batch_norm_outputs)),
    (&["GRU", "LSTM", "RNN"], 14, Same("`layout` is 0, the one order before, where it is not given")),
    (&["Identity"], 14, Same("sequences too")),
    (&["Reshape"], 14, Same("`allowzero` is 0 where it is not given")),
    (&["BatchNormalization"], 15, Same("scale and bias, and mean and variance, may be of types of their own")),
    (&["Shape"], 15, Same("`start` is 0 and `end` is the last where they are not given")),
    (&["Loop"], 16, WORDS),
    (&["RoiAlign"], 16, Adapted(sampling::roi_align)),
    (&["ScatterElements", "ScatterND"], 16, Same("`reduction` is none where it is not given")),
    (&["LpPool"], 18, Same("`ceil_mode` is 0 and `dilations` are 1 where they are not given")),
    (&["OptionalGetElement"], 18, Same("tensors and sequences too")),
    (&["OptionalHasElement"], 18, Same("tensors and sequences too, and the input may be left out")),
    (&["Pad"], 18, Same("`axes` are all where they are not given")),
    (REDUCTIONS, 18, AXES),
    (
        &["Resize"],
        18,
        Same("`antialias`, `axes` and `keep_aspect_ratio_policy` change nothing where they are not given"),
    ),
    (&["ScatterElements", "ScatterND"], 18, Same("`reduction` may be max or min")),
    (&["Split"], 18, Adapted(inputs::num_outputs)),
    (&["AveragePool"], 19, Same("`dilations` are 1 where they are not given")),
    (&["Cast"], 19, CAST),
    (&["CastLike"], 19, Adapted(casts::cast_like)),
    (&["DequantizeLinear"], 19, Same("float8 types too")),
    (&["Pad"], 19, Same("`mode` may be wrap")),
    (&["QuantizeLinear"], 19, Adapted(casts::quantize)),
    (&["Resize"], 19, Same("one more mode of coordinates")),
    // It is 1 where version 17 is not told it, and the last but one where version 20 is not.
    (&["DFT"], 20, Inputs("`axis` is an input", &[input("axis", Int, 2, Otherwise::Int(1))])),
    (&["GridSample"], 20, Adapted(sampling::grid_sample)),
    (&["ReduceMax", "ReduceMin"], 20, Same("bool too")),
    (&["DequantizeLinear"], 21, Same("`block_size` is 0, no blocks, where it is not given")),
    (&["GroupNormalization"], 21, Adapted(shapes::group_norm)),
    (&["QLinearMatMul"], 21, Same("scales may be of other types")),
    (&["QuantizeLinear"], 21, Same("`block_size` and `output_dtype` change nothing where they are not given")),
    (&["Transpose"], 21, Same("`perm` is told to name every axis")),
    (&["AveragePool", "MaxPool"], 22, Same("windows that start in the padding on the right are told to be left out")),
    (&["Dropout", "LSTM"], 22, WORDS),
    (&["EyeLike"], 22, Same("the type of the input is told to be there")),
    (&["DequantizeLinear"], 23, Same("`output_dtype` is the scale's type where it is not given")),
    (
        &["QuantizeLinear"],
        23,
        Same("the scale may be of another type, and `precision` is its own where it is not given"),
    ),
    (&["Squeeze", "Unsqueeze"], 23, WORDS),
    (&["Attention"], 24, Same("`nonpad_kv_seqlen` may be left out, and masks may be shorter")),
    (&["Cast"], 24, CAST),
    (&["CastLike"], 24, Adapted(casts::cast_like)),
    (&["QuantizeLinear"], 24, WORDS),
    (&["Attention"], 25, Same("windows are unbounded where they are not given")),
    (&["QuantizeLinear"], 25, Same("int2 and uint2 too")),
    (&["Transpose"], 25, Same("`perm` is told to name axes that there are")),
    (&["Range"], 27, Same("`stash_type` is of float16 and bfloat16 alone, which are new")),
    (&["BitShift"], 28, Same("signed types too")),
    (&["Mod"], 28, Same("floats where `fmod` is 0, and other words")),
    (&["QuantizeLinear"], 28, Same("float6 types too")),
    (&["ReduceLogSum", "ReduceLogSumExp"], 28, Adapted(casts::no_integers)),
    (&["SpaceToDepth"], 28, Same("`mode` is DCR, the one order before, where it is not given")),
];

/// Scatter has another name.
fn scatter<'a>(draft: &mut Draft<'_, 'a>, _: &mut Site<'_, '_, 'a>) -> Result<Done, Refusal> {
    draft.op_type = "ScatterElements";
    Ok(Some("it is a ScatterElements"))
}

/// The steps that are not the same in every word, by operator and version.
static BY_NAME: LazyLock<HashMap<(&str, i64), Step>> = LazyLock::new(|| {
    let rows = STEPS
        .iter()
        .flat_map(|&(operators, version, step)| operators.iter().map(move |&operator| ((operator, version), step)));
    rows.collect()
});

/// What a version means for a node of the one before; `same` if it only adds types.
pub(super) fn step(op_type: &str, version: i64, same: bool) -> Step {
    match BY_NAME.get(&(op_type, version)) {
        Some(step) => *step,
        None if same => Same("more element types"),
        None => Refused("differs from the one before, and how is unknown"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::OLDEST_OPSET;
    use super::*;
    use crate::types::schemas::Schema;

    /// Every version of every operator is known, and no row speaks of one that there is not.
    #[test]
    fn every_version_is_known() {
        let mut rows: Vec<(&str, i64)> =
            STEPS.iter().flat_map(|(names, at, _)| names.iter().map(|&name| (name, *at))).collect();
        let count = rows.len();
        rows.sort_unstable();
        rows.dedup();
        assert_eq!(rows.len(), count, "a version that two rows speak of");
        for (_, operator, _) in crate::operators::all().filter(|(domain, ..)| *domain == "ai.onnx") {
            let versions = Schema::versions("", operator).iter().skip(1);
            for &Schema { since, adds_types, .. } in versions.filter(|schema| schema.since > OLDEST_OPSET) {
                assert_eq!(rows.binary_search(&(operator, since)).is_ok(), !adds_types, "{operator}-{since}");
            }
        }
        for (names, version, step) in STEPS {
            assert!(!matches!(step, Same("") | Refused("") | Inputs("", _)), "{names:?}-{version}: without a reason");
        }
        for (operator, version) in rows {
            let known = Schema::versions("", operator).iter().any(|schema| schema.since == version);
            assert!(known && version > OLDEST_OPSET, "{operator}-{version}");
        }
    }
}
