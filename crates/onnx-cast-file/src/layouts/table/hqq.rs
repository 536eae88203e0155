//! HQQ, which stores the settings of a weight in companion tensors (`HQQLinear.state_dict` in hqq/core/quantize.py):
//! the shape, the width, the group size and its axis.
//!
//! A weight of shape [N, K] is reshaped so that each row is one group (axis 1), or one position within all groups (axis
//! 0). A word packs elements of several rows. With two elements per word, the upper bits hold the first half of the
//! rows, and the lower bits the second half.

use super::{BASE, names};
use crate::checkpoint::TensorRef;
use crate::error::FileError;
use crate::formats::error::Invalid;
use crate::layouts::spec::{Configuration, Finder, LayoutSpec};
use crate::layouts::weight::{Encoding, Formula, Parts, Weight};
use crate::text::ShapeText;
use DataType::{BFloat16, Float, Float16, Int32, Int64, Uint8};
use onnx_cast::DataType;

/// The configuration is not needed, because the settings of each weight are stored in companion tensors.
pub(super) const SPEC: LayoutSpec = LayoutSpec {
    name: "hqq",
    signs: &["W_q"],
    names: &[names("W_q", "scale", "weight")],
    configuration: Some(Configuration { methods: &["hqq"], ..Configuration::BASE }),
    describe,
    beside: HQQ_SETTINGS,
    // With `view_as_float`, codes are stored in a tensor of float type.
    has_any_type: true,
    ..BASE
};

/// `HQQLinear.state_dict_keys`, except for codes, scales, zero points and the bias.
const HQQ_SETTINGS: &[&str] = &[
    "nbits",
    "group_size",
    "shape",
    "axis",
    "packing",
    "unpack_view_dtype",
    "view_as_float",
    "quant_scale",
    "quant_zero",
    "compute_dtype",
    "offload_meta",
    "encoded_state_dict",
    "stores_quant_config",
    "channel_wise",
    "optimize",
    "round_zero",
];

/// How words are packed: the name, the bits of an element, and the bytes of a word.
const PACKINGS: [(&str, u32, usize); 5] =
    [("8bit_u8", 8, 1), ("4bit_u8", 4, 1), ("3bit_32", 3, 4), ("2bit_u8", 2, 1), ("1bit_u8", 1, 1)];

fn describe(finder: &Finder<'_>, mut weight: Weight, start: &str) -> Result<Option<Weight>, FileError> {
    let checkpoint = finder.checkpoint;
    let settings = Settings { finder, start, tensor: weight.codes.tensor };
    let shape = settings.shape()?;
    let group = settings.number("group_size", |size| size > 0, "a positive number")?;
    let axis = settings.number("axis", |axis| axis <= 1, "0 or 1")?;
    for key in ["quant_scale", "quant_zero"] {
        settings.find(key).map_or(Ok(0), |_| settings.number(key, |set| set == 0, "0: scales are not codes"))?;
    }
    let packing = settings.text("packing")?;
    let Some((_, bits, word)) = PACKINGS.into_iter().find(|(name, ..)| *name == packing) else {
        return Err(settings.wrong("packing", "8bit_u8, 4bit_u8, 3bit_32, 2bit_u8 or 1bit_u8"));
    };
    let len = onnx_cast::tensor::element_count(&shape);
    let len = len.filter(|len| *len > 0 && len.is_multiple_of(group));
    let len = len.ok_or_else(|| settings.wrong("shape", &format!("the two sizes of a weight in groups of {group}")))?;
    let groups = len / group;
    let (rows, columns) = if axis == 1 { (groups, group) } else { (group, groups) };
    let count = 8 * word / bits as usize;
    let part = rows.div_ceil(count) * columns;
    // Only words of 32 bits are filled up.
    let is_whole = word != 1 || rows.is_multiple_of(count);
    if !is_whole || Some(checkpoint.byte_len(weight.codes.tensor)) != part.checked_mul(word).map(|bytes| bytes as u64) {
        let (shape, bytes) = (ShapeText(&shape), part.saturating_mul(word));
        return Err(finder.part(weight.codes.tensor, format!("{bytes} bytes: {bits} bits for each of {shape}")));
    }
    let want = format!("{start}zero");
    let Some(zero) = checkpoint.find(&want) else {
        let error =
            Invalid::missing(&checkpoint.stored(weight.codes.tensor).name, "the zero point of each group", &want);
        return Err(checkpoint.error(Some(weight.codes.tensor), error));
    };
    let scales = checkpoint.stored(weight.scales.tensor);
    if !matches!(scales.data_type, Float | Float16 | BFloat16) || scales.len != groups {
        let want = format!("float, float16 or bfloat16, one for each of {groups} groups of {group}");
        return Err(finder.part(weight.scales.tensor, want));
    }
    if (checkpoint.stored(zero).data_type, checkpoint.stored(zero).len) != (scales.data_type, groups) {
        return Err(finder.part(zero, format!("{}, one for each scale: {groups}", scales.data_type)));
    }
    weight.others = finder.spec.beside.iter().filter_map(|key| settings.find(key)).collect();
    weight.codes.encoding =
        Encoding::Parts(Parts { bits, word, high_first: true, len: part, formula: Formula::Difference, offset: 0 });
    (weight.scales.biases, weight.owner_type) = (Some(zero), Some(scales.data_type));
    (weight.codes.shape, weight.scales.block) = match axis {
        1 => (vec![1, len], [1, group]),
        _ => (vec![group, groups], [group, 1]),
    };
    weight.values = shape.to_vec();
    Ok(Some(weight))
}

/// The tensors that hold the settings of a weight.
struct Settings<'a> {
    finder: &'a Finder<'a>,
    start: &'a str,
    tensor: TensorRef,
}

impl Settings<'_> {
    fn find(&self, key: &str) -> Option<TensorRef> {
        self.finder.checkpoint.find(&format!("{}{key}", self.start))
    }

    /// The bytes of a setting, which has few.
    fn bytes(&self, key: &str, types: &[DataType]) -> Result<Vec<u8>, FileError> {
        let checkpoint = self.finder.checkpoint;
        let Some(tensor) = self.find(key) else {
            let name = &checkpoint.stored(self.tensor).name;
            let error = Invalid::missing(name, "a setting of the weight", &format!("{}{key}", self.start));
            return Err(checkpoint.error(Some(self.tensor), error));
        };
        let stored = checkpoint.stored(tensor);
        if !types.contains(&stored.data_type) || stored.len > 64 {
            return Err(self.finder.part(tensor, format!("a setting of {}", types[0])));
        }
        Ok(checkpoint.bytes(tensor)?)
    }

    fn number(&self, key: &str, is_meant: impl Fn(usize) -> bool, want: &str) -> Result<usize, FileError> {
        let bytes = self.bytes(key, &[Int32, Int64, Uint8])?;
        let mut word = [0; 8];
        let is_short = bytes.len() <= word.len();
        word.iter_mut().zip(&bytes).for_each(|(word, byte)| *word = *byte);
        let number = usize::try_from(u64::from_le_bytes(word)).ok().filter(|_| is_short && !bytes.is_empty());
        number.filter(|number| is_meant(*number)).ok_or_else(|| self.wrong(key, want))
    }

    fn text(&self, key: &str) -> Result<String, FileError> {
        Ok(String::from_utf8_lossy(&self.bytes(key, &[Uint8])?).into_owned())
    }

    fn shape(&self) -> Result<[usize; 2], FileError> {
        let bytes = self.bytes("shape", &[Int64])?;
        let size = |bytes: &[u8; 8]| usize::try_from(i64::from_le_bytes(*bytes)).ok();
        let sizes: Option<Vec<usize>> = bytes.as_chunks().0.iter().map(size).collect();
        let sizes = sizes.and_then(|sizes| <[usize; 2]>::try_from(sizes).ok());
        sizes.ok_or_else(|| self.wrong("shape", "the two sizes of the weight"))
    }

    /// An error about a setting.
    fn wrong(&self, key: &str, want: &str) -> FileError {
        let tensor = self.find(key).unwrap_or(self.tensor);
        let place = format!("tensor `{}`", self.finder.checkpoint.stored(tensor).name);
        let what = format!("a `{key}` of another kind");
        self.finder.checkpoint.error(Some(tensor), Invalid::variant(&place, &what, want.to_owned()))
    }
}
