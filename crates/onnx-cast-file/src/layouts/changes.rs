//! What changes weights or their inputs beside the scales: rotations, scales of inputs, SVDQuant's factors. None of it
//! is applied here, and without it weights would be wrong, so that such checkpoints are refused.

use super::companions::{CHANGES, CHANGING_KEYS};
use super::json;
use super::spec::COMFY_QUANT;
use super::spec::before;
use crate::checkpoint::Checkpoint;
use crate::error::FileError;
use crate::formats::error::{Invalid, InvalidKind};
use onnx_cast::DataType;
use serde_json::{Map, Value};

/// Refuses checkpoints with tensors, or metadata, that change weights or their inputs.
pub(crate) fn check_changes(checkpoint: &Checkpoint) -> Result<(), FileError> {
    for (tensor, stored) in checkpoint.tensors() {
        let name = &*stored.name;
        if changes_weight(name) {
            let what = "it changes the weights beside it, and is unsupported: without it they would be wrong";
            return Err(checkpoint.error(Some(tensor), Invalid::new(InvalidKind::Transformed, what).of_tensor(name)));
        }
        const MOST: usize = 1 << 16;
        if before(name, COMFY_QUANT).is_some() && stored.data_type == DataType::Uint8 && stored.len <= MOST {
            let bytes = checkpoint.bytes(tensor)?;
            check_text(&String::from_utf8_lossy(&bytes)).map_err(|error| checkpoint.error(Some(tensor), error))?;
        }
    }
    for input in &checkpoint.files {
        for (_, value) in input.metadata.iter().flatten() {
            check_text(value).map_err(|error| FileError::invalid(input.path(), error))?;
        }
    }
    Ok(())
}

/// Whether a tensor's name, or all but its last part, says that it changes a weight.
pub(super) fn changes_weight(name: &str) -> bool {
    let parent = name.rsplit_once('.').map_or("", |(parent, _)| parent);
    CHANGES.iter().any(|end| before(name, end).is_some() || before(parent, end).is_some())
}

/// As [`check_keys`], of a text that may be JSON.
fn check_text(text: &str) -> Result<(), Invalid> {
    let may_tell = CHANGING_KEYS.iter().any(|key| text.contains(key));
    let object = may_tell.then(|| json::object(text).ok()).flatten();
    object.map_or(Ok(()), |object| check_keys(&object))
}

/// Refuses configurations with a key that changes weights or their inputs, unless its value is empty.
pub(super) fn check_keys(object: &Map<String, Value>) -> Result<(), Invalid> {
    fn is_set(value: &Value) -> bool {
        match value {
            Value::Null => false,
            Value::Bool(value) => *value,
            Value::Number(_) => true,
            Value::String(value) => !value.is_empty() && value != "none",
            Value::Array(values) => !values.is_empty(),
            Value::Object(values) => values.values().any(is_set),
        }
    }
    for (key, value) in object {
        if let Some(key) = CHANGING_KEYS.iter().find(|changing| *changing == key).filter(|_| is_set(value)) {
            let what = format!(
                "`{key}` of the configuration changes the weights or their inputs, and is unsupported: without it \
                 they would be wrong"
            );
            return Err(Invalid::new(InvalidKind::Transformed, what));
        }
        let inner = value.as_array().into_iter().flatten().chain([value]);
        inner.filter_map(Value::as_object).try_for_each(check_keys)?;
    }
    Ok(())
}
