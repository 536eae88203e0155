//! The supported globals of a pickle. Their results are constructed here, without calling anything.

use super::values::{Id, PLAIN, Storage, Value, Values, View};
use onnx_cast::DataType;

/// Result of a call.
pub(super) enum Called {
    /// An existing value.
    Known(Id),
    New(Value),
}

/// torch's storage classes, without the suffix `Storage`, each with its type and bytes per element. ONNX lacks the
/// types of quantized storages; their element size is needed to find the next storage of an old file.
const STORAGES: [(&str, Option<DataType>, usize); 18] = [
    ("Float", Some(DataType::Float), 4),
    ("Double", Some(DataType::Double), 8),
    ("Half", Some(DataType::Float16), 2),
    ("BFloat16", Some(DataType::BFloat16), 2),
    ("Long", Some(DataType::Int64), 8),
    ("Int", Some(DataType::Int32), 4),
    ("Short", Some(DataType::Int16), 2),
    ("Char", Some(DataType::Int8), 1),
    ("Byte", Some(DataType::Uint8), 1),
    ("Bool", Some(DataType::Bool), 1),
    ("ComplexFloat", Some(DataType::Complex64), 8),
    ("ComplexDouble", Some(DataType::Complex128), 16),
    ("QInt8", None, 1),
    ("QUInt8", None, 1),
    ("QUInt4x2", None, 1),
    ("QUInt2x4", None, 1),
    ("QInt32", None, 4),
    // Each tensor of an untyped storage specifies its own type.
    ("storage.Untyped", None, 1),
];

/// torch's type of two float4 values in one byte, which it counts as one element.
const FLOAT4_PAIR: &str = "torch.float4_e2m1fn_x2";

/// Returns the result of calling a global with a tuple of arguments. The result of an unknown global is an opaque
/// object.
pub(super) fn call(values: &Values, class: Id, arguments: Id) -> Result<Called, &'static str> {
    let Some(name) = values.global(class) else { return Ok(Called::Known(PLAIN)) };
    let arguments = values.items(arguments).ok_or("a call without a tuple of arguments")?;
    let object = || Ok(Called::New(Value::Object(class, None)));
    match name {
        "collections.OrderedDict" | "collections.defaultdict" => {
            // Pickles of Python 2 pass the pairs. Other callers pass no argument, or the default factory.
            let pair = |&pair: &Id| match values.items(pair)? {
                &[key, value] => Some((key, value)),
                _ => None,
            };
            let pairs = arguments.first().and_then(|&list| values.items(list)).unwrap_or_default();
            Ok(Called::New(Value::Dict(pairs.iter().filter_map(pair).collect())))
        }
        "torch.Size" | "builtins.set" | "__builtin__.set" | "builtins.frozenset" | "__builtin__.frozenset" => {
            arguments.first().map_or_else(object, |&items| Ok(Called::Known(items)))
        }
        "torch.device" | "_codecs.encode" => Ok(Called::Known(PLAIN)),
        // Rebuilds a tensor subclass from a function, a class, arguments and state.
        "torch._tensor._rebuild_from_type_v2" => {
            let &[function, _, arguments, ..] = arguments else { return object() };
            let built = values.global(function).zip(values.items(arguments));
            built
                .map_or_else(|| Ok(None), |(name, arguments)| rebuild(values, name, arguments))?
                .map_or_else(object, Ok)
        }
        _ => rebuild(values, name, arguments)?.map_or_else(object, Ok),
    }
}

/// Returns the tensor that one of torch's rebuild functions creates; `None` for any other function, and for types that
/// ONNX lacks.
fn rebuild(values: &Values, name: &str, arguments: &[Id]) -> Result<Option<Called>, &'static str> {
    let is_tensor = |id: &&Id| matches!(values.get(**id), Value::Tensor(_));
    match name {
        "torch.nn.parameter.Parameter"
        | "torch.nn.parameter.Buffer"
        | "torch._utils._rebuild_parameter"
        | "torch._utils._rebuild_parameter_with_state" => {
            Ok(arguments.first().filter(is_tensor).map(|&tensor| Called::Known(tensor)))
        }
        // The tensor is the conjugate or the negative of the stored elements.
        "torch._utils._rebuild_tensor_v2" | "torch._utils._rebuild_tensor_v3"
            if arguments
                .last()
                .is_some_and(|&last| ["conj", "neg"].iter().any(|key| values.entry(last, key).is_some())) =>
        {
            Ok(None)
        }
        "torch._utils._rebuild_tensor" | "torch._utils._rebuild_tensor_v2" => {
            let data_type = arguments.first().and_then(|&storage| match values.get(storage) {
                Value::Storage(storage) => storage.data_type,
                _ => None,
            });
            data_type.map_or(Ok(None), |data_type| view(values, arguments, data_type))
        }
        "torch._utils._rebuild_tensor_v3" => {
            let name = arguments.get(6).and_then(|&name| values.global(name)).unwrap_or_default();
            data_type(name).map_or(Ok(None), |data_type| view(values, arguments, data_type))
        }
        _ => Ok(None),
    }
}

/// Parses a type name of torch.
fn data_type(name: &str) -> Option<DataType> {
    if name == FLOAT4_PAIR {
        return Some(DataType::Float4E2M1);
    }
    let data_type: DataType = name.strip_prefix("torch.")?.parse().ok()?;
    (!data_type.is_packed() && data_type != DataType::String).then_some(data_type)
}

/// Creates a tensor from its storage, offset, shape and strides.
fn view(values: &Values, arguments: &[Id], data_type: DataType) -> Result<Option<Called>, &'static str> {
    const WRONG: &str = "a tensor without offset, shape and strides";
    let &[storage, offset, shape, strides, ..] = arguments else { return Err(WRONG) };
    if !matches!(values.get(storage), Value::Storage(_)) {
        return Ok(None);
    }
    let offset = values.size(offset).ok_or(WRONG)?;
    Ok(Some(Called::New(Value::Tensor(View { storage, offset, shape, strides, data_type }))))
}

/// Returns the storage that a persistent identifier refers to: `("storage", class, key, device, length)`. Identifiers
/// in old files may also refer to modules, with their source code.
pub(super) fn persistent(values: &Values, id: Id) -> Result<Called, &'static str> {
    const WRONG: &str = "an unknown persistent identifier";
    let parts = values.items(id).ok_or(WRONG)?;
    match (parts.first().and_then(|&kind| values.text(kind)), parts) {
        (Some("storage"), &[_, class, key, _, _, ref rest @ ..]) => {
            let name = values.global(class).ok_or(WRONG)?;
            let short = name.strip_prefix("torch.").and_then(|name| name.strip_suffix("Storage")).unwrap_or(name);
            let short = short.strip_prefix("cuda.").unwrap_or(short);
            let &(_, data_type, size) =
                STORAGES.iter().find(|(known, ..)| *known == short).ok_or("a storage of an unknown type")?;
            values.text(key).ok_or(WRONG)?;
            let view = rest.first().and_then(|&view| values.items(view));
            let offset = match view {
                Some(&[_, offset, ..]) => values.size(offset).ok_or(WRONG)?,
                _ => 0,
            };
            Ok(Called::New(Value::Storage(Storage { key, data_type, size, offset })))
        }
        (Some("module"), &[_, class, ..]) => Ok(Called::Known(class)),
        _ => Err(WRONG),
    }
}
