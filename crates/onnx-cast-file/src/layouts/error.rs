//! What can be wrong with a quantized checkpoint.

use crate::text::{ShapeText, Short};
use onnx_cast::DataType;
use thiserror::Error;

/// A checkpoint whose tensors are not what its names and its configuration say.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// A configuration that is not a JSON object.
    #[error("not a JSON object: {what}")]
    Config {
        /// What the JSON reader says.
        what: String,
    },
    /// A text in a file of tensors that is not the JSON it should be.
    #[error("{}: not settings in JSON: {what}", Short(place))]
    Text {
        /// Where the text is.
        place: String,
        /// What the JSON reader says.
        what: String,
    },
    /// Weights of a kind that is not read.
    #[error("{}: {what}, which is not read here (want {want})", Short(place))]
    Variant {
        /// What says it.
        place: String,
        /// What it says.
        what: String,
        /// What is read.
        want: &'static str,
    },
    /// A checkpoint that says itself that it has another layout.
    #[error(
        "its weights are in the layout {own}, as the files say, where the configuration or `scheme` has {scheme}: the \
         scales would be read in another order (want the scheme {own})"
    )]
    OtherScheme {
        /// The layout that the files name.
        own: &'static str,
        /// The layout that is asked for.
        scheme: &'static str,
    },
    /// A configuration that names a scheme that is not known here.
    #[error("`{key}` is `{}`, which is not a known layout (known: {known}; `scheme` chooses one)", Short(got))]
    UnknownScheme {
        /// The key.
        key: &'static str,
        /// Its value.
        got: String,
        /// The known layouts.
        known: String,
    },
    /// An output that is the folder of the input.
    #[error("the folder of the input (want another: its configuration and its other weights would not fit)")]
    SameFolder,
    /// A checkpoint that is to be quantized, and is quantized already.
    #[error("tensor `{}`: the checkpoint is quantized already ({told}): dequantize it first", Short(tensor))]
    AlreadyQuantized {
        /// A tensor of codes.
        tensor: String,
        /// What tells it.
        told: String,
    },
    /// A cast of codes without their scales, or of scales without their codes.
    #[error(
        "tensor `{}`: a part of a quantized weight ({layout}), with `{}`: cast apart they would be wrong (dequantize the \
         checkpoint first; `exclude` keeps tensors as they are)",
        Short(tensor),
        Short(beside)
    )]
    CastApart {
        /// The tensor that would be cast.
        tensor: String,
        /// Another part of the weight.
        beside: String,
        /// The layout.
        layout: &'static str,
    },
    /// A checkpoint in which nothing is to be quantized.
    #[error(
        "no weight to quantize: no matrix of a Linear layer, by its name (gpt-oss: no experts), and no rule names \
         another{}{kept}",
        if kept.is_empty() { "" } else { "; kept: " }
    )]
    NothingToQuantize {
        /// Why matrices are kept, each reason with their number.
        kept: String,
    },
    /// A weight that a rule quantizes, beside one that stays or becomes something else.
    #[error(
        "tensor `{}`: a rule quantizes it, and `{}`, which loaders join with it, {what} (want one format for both, or \
         `keep`)",
        Short(tensor),
        Short(other)
    )]
    Joined {
        /// The tensor that the rule names.
        tensor: String,
        /// The other.
        other: String,
        /// What becomes of that.
        what: String,
    },
    /// A configuration that does not tell what another format asks for.
    #[error("{what}")]
    Model {
        /// What is wrong.
        what: String,
    },
    /// A format that a layout does not have.
    #[error("{layout} does not hold {to}: {reason}")]
    Unsupported {
        /// The layout.
        layout: &'static str,
        /// The format.
        to: &'static str,
        /// Why.
        reason: String,
    },
    /// A weight of a format that a layout does not have.
    #[error("tensor `{}`: {layout} does not hold {to}: {reason}", Short(tensor))]
    NotHeld {
        /// The elements.
        tensor: String,
        /// The layout.
        layout: &'static str,
        /// The format.
        to: &'static str,
        /// Why.
        reason: String,
    },
    /// A weight that is in no layout but its own.
    #[error(
        "tensor `{}`: no other layout has such a weight: of one axis, of float8 with zero points, of integers in three \
         axes, of ComfyUI's block formats, or of a layout that is only read (dequantize and quantize go from any layout to any, with a loss)",
        Short(tensor)
    )]
    NotTranscoded {
        /// The elements.
        tensor: String,
    },
    /// A weight whose values another format does not hold.
    #[error(
        "tensor `{}`: as {to}, {count} of its values or blocks would change (nothing is written; dequantize and \
         quantize round them)",
        Short(tensor)
    )]
    Changes {
        /// The elements.
        tensor: String,
        /// How many values, or blocks of NVFP4, would change.
        count: u64,
        /// The format.
        to: &'static str,
    },
    /// A configuration that describes quantized weights without naming the scheme.
    #[error("{key} has no `quant_method`, which names the layout (known: {known}; `scheme` chooses one)")]
    NoScheme {
        /// The key of the description.
        key: &'static str,
        /// The known layouts.
        known: String,
    },
    /// A checkpoint in which nothing is quantized.
    #[error("no quantized weights: neither the configuration nor the names of tensors tell of any")]
    NotQuantized,
    /// A checkpoint without weights of the layout that was named.
    #[error(
        "no weights in the layout {scheme} (is the checkpoint dequantized already? `scheme` chooses another layout)"
    )]
    NoWeights {
        /// The layout.
        scheme: &'static str,
    },
    /// Elements without scales.
    #[error(
        "tensor `{}`: {data_type} elements without scales (want `{}`; `exclude` keeps the tensor as it is)",
        Short(tensor),
        Short(want)
    )]
    MissingScale {
        /// The elements.
        tensor: String,
        /// Their type.
        data_type: DataType,
        /// The name that the scales would have.
        want: String,
    },
    /// Scales without elements.
    #[error("tensor `{}`: scales without a weight (want `{}`)", Short(tensor), Short(want))]
    MissingWeight {
        /// The scales.
        tensor: String,
        /// The name that the elements would have.
        want: String,
    },
    /// A part of a weight that is not there.
    #[error("tensor `{}`: {what} is missing (want `{}`)", Short(tensor), Short(want))]
    MissingPart {
        /// The elements.
        tensor: String,
        /// What is missing.
        what: &'static str,
        /// The name that it would have.
        want: String,
    },
    /// Types of elements and scales that no layout has together.
    #[error("tensor `{}`: {elements} elements with {scales} scales are in no known layout", Short(tensor))]
    Types {
        /// The elements.
        tensor: String,
        /// Their type.
        elements: DataType,
        /// The scales' type.
        scales: DataType,
    },
    /// Scales whose shape fits no blocks of the weight.
    #[error(
        "tensor `{}`: scales of shape {} for a weight of shape {} ({want})",
        Short(tensor),
        ShapeText(scales),
        ShapeText(shape)
    )]
    ScaleShape {
        /// The scales.
        tensor: String,
        /// Their shape.
        scales: Vec<usize>,
        /// The weight's shape.
        shape: Vec<usize>,
        /// The shape that fits.
        want: String,
    },
    /// A part of a weight of another shape or type than the weight needs.
    #[error("tensor `{}`: {data_type} of shape {} (want {want})", Short(tensor), ShapeText(shape))]
    Part {
        /// The tensor.
        tensor: String,
        /// Its type.
        data_type: DataType,
        /// Its shape.
        shape: Vec<usize>,
        /// What fits.
        want: String,
    },
    /// A zero point of elements of a float type that is not 0.
    #[error("tensor `{}`: zero point {index} is not 0 (want zeros, as the elements are {data_type})", Short(tensor))]
    ZeroPoint {
        /// The zero points.
        tensor: String,
        /// The first that is not 0.
        index: u64,
        /// The type of the elements.
        data_type: DataType,
    },
    /// Zero points that readers understand in different ways.
    #[error(
        "tensor `{}`: zero points of {bits} bits whose meaning is not certain: {why} (readers would give different weights)",
        Short(tensor)
    )]
    AmbiguousZeroPoints {
        /// The zero points.
        tensor: String,
        /// Their bits.
        bits: u32,
        /// Why.
        why: &'static str,
    },
    /// A weight of another format than the configuration claims.
    #[error("tensor `{}`: the configuration claims {claim}, and the tensor holds {found}", Short(tensor))]
    Contradiction {
        /// The elements.
        tensor: String,
        /// What the configuration says.
        claim: String,
        /// What types and shapes say.
        found: String,
    },
    /// A tensor beside a weight, without which the weight would be wrong.
    #[error(
        "tensor `{}` changes the weights beside it, and is not applied here: without it they would be wrong",
        Short(tensor)
    )]
    Beside {
        /// The tensor.
        tensor: String,
    },
    /// A scale or a zero point of activations that a layout has no place for.
    #[error(
        "tensor `{}`: {layout} has no place for it: {reason} (`activations` leaves out what data has told of activations)",
        Short(tensor)
    )]
    Calibration {
        /// The tensor.
        tensor: String,
        /// The layout.
        layout: &'static str,
        /// Why.
        reason: &'static str,
    },
    /// A configuration that changes weights or their inputs, as a rotation does.
    #[error(
        "`{key}` of the configuration changes the weights or their inputs, and is not applied here: without it they \
         would be wrong"
    )]
    Transformed {
        /// The key.
        key: &'static str,
    },
    /// Two tensors of the output with one name.
    #[error("two tensors would be named `{}`", Short(tensor))]
    Collision {
        /// The name.
        tensor: String,
    },
    /// A scale that is NaN.
    #[error("tensor `{}`: scale {index} is NaN (`allow_nan` gives NaN for its block)", Short(tensor))]
    NanScale {
        /// The scales.
        tensor: String,
        /// The first that is NaN.
        index: u64,
    },
    /// A global scale that is far from those of the other weights.
    #[error(
        "tensor `{}`: a global scale of {got} allows weights up to {largest:.3e}, where the checkpoint's others go to \
         {others:.3e}: it may be inverted (the scheme is {scheme}; `scheme` chooses another)",
        Short(tensor)
    )]
    GlobalScale {
        /// The global scale.
        tensor: String,
        /// Its value.
        got: Number,
        /// The largest weight that it allows.
        largest: Number,
        /// The median of the others.
        others: Number,
        /// How it was read.
        scheme: &'static str,
    },
}

/// A number of an error, compared by its bits.
#[derive(Clone, Copy, Debug)]
pub struct Number(pub f64);

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_bits() == other.0.to_bits()
    }
}

impl Eq for Number {}

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::fmt::LowerExp for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}
