//! Single values and blocks, explained.

use crate::fields::Fields;
use crate::{Failure, Result};
use onnx_cast::DataType;
use onnx_cast_explain::{self as explain, BlockRequest, Request, Scaling};
use serde_json::{Value, json};

fn request<'a>(fields: Fields<'a>, to: DataType) -> Result<Request<'a>> {
    let scaling = match fields.text("scale")? {
        None => None,
        Some(scale) => Some(Scaling {
            scale,
            scale_type: fields.parse("scale_type")?,
            zero_point: fields.text("zero_point")?,
            precision: fields.parse("precision")?,
        }),
    };
    Ok(Request {
        value: fields.required("value")?,
        from: fields.parse("from")?,
        to,
        options: fields.options()?,
        scaling,
    })
}

/// One value in one type.
pub(crate) fn explain(fields: Fields<'_>) -> Result<Value> {
    Ok(explain::json(&explain::explain(&request(fields, fields.data_type("to")?)?)?)?)
}

/// One value in every type, or the error for a type that refuses it.
pub(crate) fn explain_all(fields: Fields<'_>) -> Result<Value> {
    let row = |&to: &DataType| {
        let explained = request(fields, to).and_then(|request| Ok(explain::json(&explain::explain(&request)?)?));
        match explained {
            Ok(explained) => json!({ "to": to.name(), "explained": explained }),
            Err(Failure(text)) => json!({ "to": to.name(), "error": text }),
        }
    };
    // What is wrong with the value itself is wrong in every type.
    fields.required("value")?;
    Ok(DataType::ALL.iter().map(row).collect())
}

/// A block of values in MX or NVFP4.
pub(crate) fn explain_block(fields: Fields<'_>) -> Result<Value> {
    let request = BlockRequest {
        values: fields.texts("values")?,
        from: fields.parse("from")?,
        format: fields.parse("format")?.ok_or("`format` is missing")?,
        rule: fields.parse("scale_rule")?,
        recipe: fields.parse("recipe")?,
        // The command reads its option as a float too.
        global_scale: fields.number("global_scale")?.map(|scale| scale as f32),
    };
    Ok(explain::block_json(&explain::explain_block(&request)?)?)
}
