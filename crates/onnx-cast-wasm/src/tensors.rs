//! Tensors that go with a request: inputs in the slots from [`TENSORS`](slots::TENSORS) on, the result in [`RESULT`].

use crate::fields::Fields;
use crate::{Failure, Result, slots};
use onnx_cast::scaled::{DequantizeLinear, DequantizeOptions, QuantizeLinear, QuantizeOptions};
use onnx_cast::tensor::{Strings, TensorData};
use onnx_cast::{Cast, DataType, Tensor};
use serde_json::{Value, json};

/// The slot of the elements of a result.
const RESULT: usize = 5;
/// The slot of the lengths of strings, 32 bits each, beside that of their bytes.
const LENGTHS: usize = 6;

/// Elements that stand one in a byte, packed.
pub(crate) fn pack(fields: Fields<'_>) -> Result<Value> {
    let (data_type, codes) = (fields.data_type("type")?, slots::take(slots::TENSORS));
    let mut packed = zeros(data_type.byte_len(codes.len()))?;
    onnx_cast::packing::pack(data_type, &codes, &mut packed)?;
    slots::put(RESULT, packed);
    Ok(Value::Null)
}

/// Packed elements, one in a byte.
pub(crate) fn unpack(fields: Fields<'_>) -> Result<Value> {
    let (data_type, packed) = (fields.data_type("type")?, slots::take(slots::TENSORS));
    let mut codes = zeros(Some(len(fields)?))?;
    onnx_cast::packing::unpack(data_type, &packed, &mut codes)?;
    slots::put(RESULT, codes);
    Ok(Value::Null)
}

/// Numbers cast to strings.
pub(crate) fn print(fields: Fields<'_>) -> Result<Value> {
    let from = fields.data_type("from")?;
    let tensor = Tensor::new(from, vec![len(fields)?], slots::take(slots::TENSORS))?;
    let printed = Cast::new(DataType::String, &fields.options()?)?.run(&tensor.view())?;
    let TensorData::Strings(strings) = printed.into_parts().2 else { return Ok(Value::Null) };
    let lengths = strings.view().iter().map(|text| text.len() as u32).flat_map(u32::to_le_bytes).collect();
    slots::put(LENGTHS, lengths);
    slots::put(RESULT, strings.view().bytes().to_vec());
    Ok(Value::Null)
}

/// Strings cast to numbers.
pub(crate) fn parse(fields: Fields<'_>) -> Result<Value> {
    let (bytes, lengths) = (slots::take(slots::TENSORS), slots::take(slots::TENSORS + 1));
    let (lengths, _) = lengths.as_chunks::<4>();
    let mut strings = Strings::try_with_capacity(lengths.len(), bytes.len())?;
    let mut left = &bytes[..];
    for &len in lengths {
        let split = left.split_at_checked(u32::from_le_bytes(len) as usize);
        let (string, behind) = split.ok_or("the lengths exceed the bytes of the strings")?;
        strings.push(string);
        left = behind;
    }
    let tensor = Tensor::strings(vec![lengths.len()], strings)?;
    result(Cast::new(fields.data_type("to")?, &fields.options()?)?.run(&tensor.view())?)
}

/// QuantizeLinear.
pub(crate) fn quantize(fields: Fields<'_>) -> Result<Value> {
    let (x, scale, zero_point) = inputs(fields)?;
    // The type of a zero point is that of the result.
    let output = match zero_point {
        Some(_) => None,
        None => Some(fields.data_type("to")?),
    };
    let mut options = QuantizeOptions::new()
        .axis(fields.integer("axis")?)
        .saturate(fields.flag("saturate")?)
        .precision(fields.parse::<DataType>("precision")?)
        .output_dtype(output);
    if let Some(opset) = fields.integer("opset")? {
        options = options.opset(opset);
    }
    if let Some(size) = block_size(fields)? {
        options = options.block_size(size);
    }
    result(QuantizeLinear::new(&options)?.run(
        &x.view(),
        &scale.view(),
        zero_point.as_ref().map(Tensor::view).as_ref(),
    )?)
}

/// DequantizeLinear.
pub(crate) fn dequantize(fields: Fields<'_>) -> Result<Value> {
    let (x, scale, zero_point) = inputs(fields)?;
    let mut options =
        DequantizeOptions::new().axis(fields.integer("axis")?).output_dtype(fields.parse::<DataType>("to")?);
    if let Some(opset) = fields.integer("opset")? {
        options = options.opset(opset);
    }
    if let Some(size) = block_size(fields)? {
        options = options.block_size(size);
    }
    let run = DequantizeLinear::new(&options)?;
    result(run.run(&x.view(), &scale.view(), zero_point.as_ref().map(Tensor::view).as_ref())?)
}

/// The values, the scale, and the zero point where one is given.
fn inputs(fields: Fields<'_>) -> Result<(Tensor, Tensor, Option<Tensor>)> {
    let tensor = |fields: Fields<'_>, name, slot| {
        let shape = fields.sizes("shape")?.ok_or("`shape` is missing")?;
        Ok::<_, Failure>(Tensor::new(fields.data_type(name)?, shape, slots::take(slot))?)
    };
    let scale = Fields(fields.get("scale").ok_or("`scale` is missing")?);
    let zero_point = fields.get("zero_point").map(|given| tensor(Fields(given), "type", slots::TENSORS + 2));
    Ok((tensor(fields, "from", slots::TENSORS)?, tensor(scale, "type", slots::TENSORS + 1)?, zero_point.transpose()?))
}

fn block_size(fields: Fields<'_>) -> Result<Option<usize>> {
    let size = |size| usize::try_from(size).map_err(|_| Failure::from("`block_size` is negative"));
    fields.integer("block_size")?.map(size).transpose()
}

fn len(fields: Fields<'_>) -> Result<usize> {
    let len = fields.integer("len")?.ok_or("`len` is missing")?;
    usize::try_from(len).map_err(|_| "`len` is negative".into())
}

fn result(tensor: Tensor) -> Result<Value> {
    let (data_type, shape, data) = tensor.into_parts();
    let TensorData::Bytes(bytes) = data else { return Ok(Value::Null) };
    slots::put(RESULT, bytes);
    Ok(json!({ "type": data_type.name(), "shape": shape }))
}

/// A buffer of a length that a caller claims.
fn zeros(len: Option<usize>) -> Result<Vec<u8>> {
    let len = len.ok_or("too many elements")?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(len).map_err(|_| format!("cannot allocate {len} bytes"))?;
    bytes.resize(len, 0);
    Ok(bytes)
}
