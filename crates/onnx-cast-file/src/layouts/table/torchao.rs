//! torchao, which stores the class and the block size of each weight as JSON in the file's metadata.

use super::{BASE, names};
use crate::error::FileError;
use crate::formats::error::Invalid;
use crate::layouts::spec::{Configuration, Finder, LayoutSpec};
use crate::layouts::tiles::{fit_swizzled, tiles_of_torchao};
use crate::layouts::weight::{Coding, Encoding, Grid, Weight, ZeroPoints};
use crate::text::{ShapeText, Short};
use DataType::{BFloat16, Float, Float4E2M1, Float8E4M3FN, Float8E5M2, Float8E8M0, Float16, Int8, Uint8};
use onnx_cast::DataType;
use serde_json::{Map, Value};

pub(super) const SPEC: LayoutSpec = LayoutSpec {
    name: "torchao",
    signs: &["_weight_qdata"],
    names: &[
        names("_weight_qdata", "_weight_scale", "weight"),
        // Tiles for one kind of GPU, which are rejected.
        names("_weight_qdata", "_weight_scale_and_zero", "weight"),
    ],
    configuration: Some(Configuration { methods: &["torchao"], ..Configuration::BASE }),
    describe,
    ..BASE
};

/// Classes whose elements are bytes.
const CLASSES: [&str; 3] = ["Int8Tensor", "IntxUnpackedToInt8Tensor", "Float8Tensor"];

/// Class of 4-bit integers in row order.
const INT4: &str = "Int4Tensor";

/// Classes of block formats: MX with float8 or float4, and NVFP4.
const BLOCKS: [&str; 2] = ["MXTensor", "NVFP4Tensor"];

/// Describes a weight. Its class and block size are JSON in the file's metadata, under the weight's name
/// (`TensorSubclassAttributeJSONEncoder` in torchao/prototype/safetensors).
fn describe(finder: &Finder<'_>, weight: Weight, start: &str) -> Result<Option<Weight>, FileError> {
    let (checkpoint, tensor) = (finder.checkpoint, weight.codes.tensor);
    let stored = checkpoint.stored(tensor);
    let settings = metadata(finder, &weight)?;
    let told = settings.as_ref().map(|settings| settings.get("_type").and_then(Value::as_str).unwrap_or_default());
    let class = told.unwrap_or_else(|| class_of(finder, &weight, start));
    let described = match class {
        INT4 => {
            let of_shapes = || groups_by_shapes(&stored.shape, &checkpoint.stored(weight.scales.tensor).shape);
            let sizes = settings.as_ref().map_or_else(of_shapes, block_of);
            int4(finder, weight, start, sizes)
        }
        class if BLOCKS.contains(&class) => blocks(finder, weight, start, class, settings.as_ref()),
        class if CLASSES.contains(&class) => in_bytes(finder, weight, start, class, settings.as_ref()),
        class => {
            let place = format!("tensor `{}`", stored.name);
            let want = "Int8Tensor, IntxUnpackedToInt8Tensor, Float8Tensor, Int4Tensor, MXTensor or NVFP4Tensor; torchao \
                        itself dequantizes others";
            Err(checkpoint.error(Some(tensor), Invalid::variant(&place, &format!("a {}", Short(class)), want)))
        }
    };
    described.map(Some)
}

/// Describes elements of one byte each, with scales per tensor, row or block.
fn in_bytes(
    finder: &Finder<'_>,
    mut weight: Weight,
    start: &str,
    class: &str,
    settings: Option<&Map<String, Value>>,
) -> Result<Weight, FileError> {
    let (checkpoint, tensor) = (finder.checkpoint, weight.codes.tensor);
    let stored = checkpoint.stored(tensor);
    let is_typed = match class {
        "Float8Tensor" => matches!(stored.data_type, Float8E4M3FN | Float8E5M2),
        _ => stored.data_type == Int8,
    };
    if !is_typed || stored.shape.len() < 2 {
        return Err(finder.part(tensor, format!("elements of a {class}, of two axes or more")));
    }
    let scales = checkpoint.stored(weight.scales.tensor);
    let sizes = match settings {
        Some(settings) => block_of(settings).filter(|sizes| sizes.len() == stored.shape.len()),
        None => block_by_shapes(&stored.shape, &scales.shape),
    };
    let Some(sizes) = sizes else {
        let want = "a `block_size` for each axis in the file's metadata, or a scale for whole blocks".to_owned();
        return Err(finder.part(weight.scales.tensor, want));
    };
    let grid: Vec<usize> = stored.shape.iter().zip(&sizes).map(|(size, block)| size.div_ceil(*block)).collect();
    // Either the scale covers the whole tensor, or no scale spans an outer axis.
    let [outer @ .., down, across] = &sizes[..] else { return Err(finder.part(tensor, "a matrix".to_owned())) };
    let is_whole = sizes == stored.shape;
    if !is_whole && outer.iter().any(|&size| size != 1) {
        return Err(finder.part(tensor, "blocks of the last two axes".to_owned()));
    }
    if !matches!(scales.data_type, Float | Float16 | BFloat16) || scales.len != grid.iter().product::<usize>() {
        let want = format!("float, float16 or bfloat16, one for each block: {}", ShapeText(&grid));
        return Err(finder.part(weight.scales.tensor, want));
    }
    weight.scales.block = [*down, *across];
    if let Some(zeros) = checkpoint.find(&format!("{start}_weight_zero_point")) {
        weight.zero_points = Some(ZeroPoints::stored(checkpoint, &weight, zeros, false)?);
    }
    weight.values = stored.shape.clone();
    if is_whole && !outer.is_empty() {
        let rows = stored.shape[..stored.shape.len() - 1].iter().product();
        (weight.codes.shape, weight.scales.block) = (vec![rows, *across], [rows, *across]);
    }
    Ok(weight)
}

/// Describes blocks within rows, whose scales may be in cuBLAS's order (`to_dtype` and `NVFP4Tensor.dequantize` in
/// torchao/prototype/mx_formats).
fn blocks(
    finder: &Finder<'_>,
    mut weight: Weight,
    start: &str,
    class: &str,
    settings: Option<&Map<String, Value>>,
) -> Result<Weight, FileError> {
    let (checkpoint, tensor, scales) = (finder.checkpoint, weight.codes.tensor, weight.scales.tensor);
    let (stored, scale) = (checkpoint.stored(tensor), checkpoint.stored(scales));
    let told = |key: &str| settings.and_then(|settings| settings.get("_data")?.get(key));
    let (is_mx, element) = (class == BLOCKS[0], told("elem_dtype").and_then(|element| element.get("_data")?.as_str()));
    let elements = match stored.data_type {
        Float8E4M3FN | Float8E5M2 if is_mx => stored.data_type,
        Uint8 if !is_mx || element.is_none_or(|element| element == "float4_e2m1fn_x2") => Float4E2M1,
        _ => return Err(finder.part(tensor, format!("float8 or two codes of 4 bits in a byte, as {class} has them"))),
    };
    let scale_type = if is_mx { Float8E8M0 } else { Float8E4M3FN };
    if scale.data_type != scale_type {
        return Err(finder.part(scales, format!("{scale_type}, as {class} has them")));
    }
    let size = match told("block_size") {
        Some(size) => size.as_u64().and_then(|size| usize::try_from(size).ok()).filter(|&size| size > 0),
        None => Some(if is_mx { 32 } else { 16 }),
    };
    let Some(size) = size else { return Err(finder.part(scales, "a `block_size` in the file's metadata".to_owned())) };
    (weight.codes.encoding, weight.scales.block) = (Encoding::Plain(elements), [1, size]);
    finder.read_shape(&mut weight, stored).map_err(|error| checkpoint.error(Some(tensor), error))?;
    // Without metadata, the shape determines the order: no shape fits both rows and tiles.
    let are_tiles = || tiles_of_torchao(&weight).is_some_and(|shape| scale.shape == shape);
    let fits = if told("is_swizzled_scales").and_then(Value::as_bool).unwrap_or_else(are_tiles) {
        weight.scales.order = Grid::Tiles;
        fit_swizzled(&weight, scale, tiles_of_torchao)
    } else {
        finder.fit_scales(&mut weight, scale)
    };
    fits.map_err(|error| checkpoint.error(Some(scales), error))?;
    if !is_mx {
        weight.scales.global = checkpoint.find(&format!("{start}_weight_per_tensor_scale"));
        finder.read_globals(&mut weight)?;
        // Plain weights do not need the scale of activations.
        weight.others.extend(checkpoint.find(&format!("{start}_weight_act_per_tensor_scale")));
    }
    Ok(weight)
}

/// Describes 4-bit integers with a scale and a bias per group of a row. Scales and biases are stored transposed. A
/// value is the integer times the scale, plus the bias (`_dequantize_affine_tinygemm`; the class itself leaves this to
/// its kernels).
fn int4(finder: &Finder<'_>, mut weight: Weight, start: &str, sizes: Option<Vec<usize>>) -> Result<Weight, FileError> {
    let (checkpoint, tensor) = (finder.checkpoint, weight.codes.tensor);
    let (stored, scale) = (checkpoint.stored(tensor), checkpoint.stored(weight.scales.tensor));
    let [outer @ .., rows, width] = &stored.shape[..] else {
        return Err(finder.part(tensor, "a matrix of bytes".to_owned()));
    };
    let columns = width.checked_mul(2).filter(|_| matches!(stored.data_type, Int8 | Uint8));
    let shape = columns.map(|columns| [outer, &[*rows, columns]].concat());
    let shape = shape.filter(|shape| onnx_cast::tensor::element_count(shape).is_some());
    let (Some(shape), Some(columns)) = (shape, columns) else {
        return Err(finder.part(tensor, "int8, two integers in each".to_owned()));
    };
    let group = sizes.and_then(|sizes| {
        let (group, others) = sizes.split_last()?;
        let is_meant = sizes.len() == shape.len() && others.iter().all(|&size| size == 1);
        (is_meant && columns.is_multiple_of(*group)).then_some(*group)
    });
    let Some(group) = group else {
        let want = format!("a `block_size` of groups that divide {columns} columns, in the file's metadata");
        return Err(finder.part(weight.scales.tensor, want));
    };
    let grid = [outer, &[columns / group, *rows]].concat();
    if !matches!(scale.data_type, Float | Float16 | BFloat16) || scale.shape != grid {
        let grid = ShapeText(&grid);
        return Err(
            finder.part(weight.scales.tensor, format!("float, float16 or bfloat16 of shape {grid}, groups and rows"))
        );
    }
    let want = format!("{start}_weight_zero_point");
    let Some(zeros) = checkpoint.find(&want) else {
        let error = Invalid::missing(&stored.name, "what is added to each group", &want);
        return Err(checkpoint.error(Some(tensor), error));
    };
    if (checkpoint.stored(zeros).data_type, &checkpoint.stored(zeros).shape) != (scale.data_type, &grid) {
        return Err(finder.part(zeros, "type and shape of the scales".to_owned()));
    }
    (weight.codes.encoding, weight.scales.order) = (Encoding::Coded(Coding::Int4), Grid::Exchanged);
    (weight.scales.biases, weight.owner_type, weight.scales.block) = (Some(zeros), Some(scale.data_type), [1, group]);
    (weight.values, weight.codes.shape) = (shape.clone(), shape);
    Ok(weight)
}

/// Infers the class from the types of elements, scales and zero points, if there is no metadata.
fn class_of(finder: &Finder<'_>, weight: &Weight, start: &str) -> &'static str {
    match weight.scales.data_type {
        Float8E8M0 => return BLOCKS[0],
        Float8E4M3FN => return BLOCKS[1],
        _ => {}
    }
    let elements = finder.checkpoint.stored(weight.codes.tensor).data_type;
    let zeros = finder.checkpoint.find(&format!("{start}_weight_zero_point"));
    match (elements, zeros.map(|zeros| finder.checkpoint.stored(zeros).data_type)) {
        (Int8, Some(Float | Float16 | BFloat16)) => INT4,
        (Int8, _) => CLASSES[0],
        _ => CLASSES[2],
    }
}

/// Reads the entry of a weight in its file's metadata. Tensors in memory have no metadata.
fn metadata(finder: &Finder<'_>, weight: &Weight) -> Result<Option<Map<String, Value>>, FileError> {
    let checkpoint = finder.checkpoint;
    let mut entries = checkpoint.files[weight.codes.tensor.file].metadata.iter().flatten();
    let Some((_, text)) = entries.find(|(key, _)| *key == weight.name) else { return Ok(None) };
    serde_json::from_str(text).map(Some).map_err(|error| {
        let what = format!("the metadata of `{}` is not a JSON object: {error}", Short(&weight.name));
        checkpoint.value_error(weight.codes.tensor, what)
    })
}

/// Reads the block size along each axis from metadata.
fn block_of(settings: &Map<String, Value>) -> Option<Vec<usize>> {
    let sizes = settings.get("_data")?.get("block_size")?.as_array()?;
    let size = |size: &Value| size.as_u64().and_then(|size| usize::try_from(size).ok()).filter(|&size| size > 0);
    sizes.iter().map(size).collect()
}

/// Infers the group size of 4-bit integers from the number of scales down the columns.
fn groups_by_shapes(shape: &[usize], scales: &[usize]) -> Option<Vec<usize>> {
    let ([outer @ .., width], [.., count, _]) = (shape, scales) else { return None };
    let size = width.checked_mul(2)?.checked_div(*count).filter(|&size| size > 0)?;
    Some([vec![1; outer.len()], vec![size]].concat())
}

/// Infers the block size from the number of scales along each axis.
fn block_by_shapes(shape: &[usize], scales: &[usize]) -> Option<Vec<usize>> {
    if scales.iter().product::<usize>() == 1 {
        return Some(shape.iter().map(|&size| size.max(1)).collect());
    }
    let size = |(&size, &count): (&usize, &usize)| (count > 0 && size % count == 0).then(|| (size / count).max(1));
    (shape.len() == scales.len()).then(|| shape.iter().zip(scales).map(size).collect())?
}
