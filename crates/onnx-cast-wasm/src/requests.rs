//! Requests as JSON: `{"job": "explain", ...}`. An answer is JSON too; an error is a text.

use crate::fields::Fields;
#[cfg(feature = "lent")]
use crate::files;
use crate::{Failure, Result, slots};
#[cfg(feature = "values")]
use crate::{tensors, values};
use onnx_cast::backend;
use serde_json::{Value, json};

/// Answers the request in the input slot, in the output slot.
///
/// # Errors
/// Where the request is not one, or what it asks for fails.
pub fn answer() -> Result<()> {
    let answer = answer_to(&serde_json::from_slice(&slots::take(slots::INPUT))?)?;
    slots::put(slots::OUTPUT, serde_json::to_vec(&answer)?);
    Ok(())
}

/// Answers a request. Tensors that go with it are in slots.
///
/// # Errors
/// As [`answer`].
pub fn answer_to(request: &Value) -> Result<Value> {
    let fields = Fields(request);
    match fields.required("job")? {
        "about" => {
            let backends: Vec<_> = backend::available().map(|backend| backend.name()).collect();
            Ok(json!({ "version": env!("CARGO_PKG_VERSION"), "backends": backends }))
        }
        job => work(job, fields),
    }
}

#[cfg(feature = "values")]
fn of_values(job: &str, fields: Fields<'_>) -> Option<Result<Value>> {
    Some(match job {
        "types" => onnx_cast_explain::types::json().map_err(Failure::from),
        "explain" => values::explain(fields),
        "explain_all" => values::explain_all(fields),
        "explain_block" => values::explain_block(fields),
        "pack" => tensors::pack(fields),
        "unpack" => tensors::unpack(fields),
        "print" => tensors::print(fields),
        "parse" => tensors::parse(fields),
        "quantize" => tensors::quantize(fields),
        "dequantize" => tensors::dequantize(fields),
        _ => return None,
    })
}

#[cfg(feature = "lent")]
fn of_files(job: &str, fields: Fields<'_>) -> Option<Result<Value>> {
    Some(match job {
        "info" => files::info(fields),
        "report" => files::report(fields),
        "cast_file" => files::cast(fields),
        "quantize_file" => files::quantize(fields),
        _ => return None,
    })
}

fn work(job: &str, fields: Fields<'_>) -> Result<Value> {
    #[cfg(feature = "values")]
    if let Some(answer) = of_values(job, fields) {
        return answer;
    }
    #[cfg(feature = "lent")]
    if let Some(answer) = of_files(job, fields) {
        return answer;
    }
    let _ = fields;
    Err(Failure(format!("unknown job `{job}`")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(request: Value) -> Value {
        answer_to(&request).unwrap_or_else(|Failure(text)| panic!("{request}: {text}"))
    }

    #[test]
    fn a_value_is_explained_in_every_type() {
        let all = ask(json!({ "job": "explain_all", "value": "0.3", "from": "float" }));
        let rows = all.as_array().expect("a list");
        let bits = |name: &str| {
            let row = rows.iter().find(|row| row["to"] == name).unwrap_or_else(|| panic!("no {name}"));
            row["explained"]["result"]["bits"].clone()
        };
        assert_eq!((bits("float16"), bits("float8e4m3fn")), (json!("0x34cd"), json!("0x2a")));
        assert_eq!(rows.len(), onnx_cast::DataType::ALL.len());
    }

    #[test]
    fn a_value_that_is_none_is_an_error() {
        let request = json!({ "job": "explain", "value": "nothing", "from": "float", "to": "float16" });
        assert!(answer_to(&request).expect_err("no number").0.contains("`nothing`"));
        for request in [json!({}), json!({ "job": 3 }), json!({ "job": "?" }), json!([1]), json!({ "job": "explain" })]
        {
            assert!(answer_to(&request).is_err(), "{request}");
        }
    }

    #[test]
    fn tensors_come_and_go_in_slots() {
        let bytes = |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
        slots::put(slots::TENSORS, bytes(&[0.5, -1.0, 3.0]));
        slots::put(slots::TENSORS + 1, bytes(&[0.25]));
        let request = json!({ "job": "quantize", "from": "float", "to": "int8", "shape": [3],
            "scale": { "type": "float", "shape": [] } });
        assert_eq!(ask(request)["shape"], json!([3]));
        assert_eq!(slots::take(slots::OUTPUT + 4), [2, (-4i8).to_le_bytes()[0], 12]);
        slots::put(slots::TENSORS, b"1.5nan".to_vec());
        slots::put(slots::TENSORS + 1, [3u32.to_le_bytes(), 3u32.to_le_bytes()].concat());
        ask(json!({ "job": "parse", "to": "float16", "len": 2 }));
        assert_eq!(slots::take(slots::OUTPUT + 4), [0x00, 0x3e, 0x00, 0x7e]);
    }
}
