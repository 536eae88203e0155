//! The values of a pickle. They refer to each other by index, so that shared values are never copied.

use onnx_cast::DataType;

/// Index of a value in [`Values`].
pub(super) type Id = u32;

/// Index of every [`Value::Plain`], which are not stored.
pub(super) const PLAIN: Id = Id::MAX;

/// All values of a pickle.
#[derive(Debug, Default)]
pub(super) struct Values(Vec<Value>);

/// A value of a pickle.
#[derive(Debug)]
pub(super) enum Value {
    /// Placeholder for a value that tensors do not need: `None`, a bool, a float, bytes, a device.
    Plain,
    Int(i64),
    Text(String),
    Tuple(Vec<Id>),
    /// A list or a set.
    List(Vec<Id>),
    Dict(Vec<(Id, Id)>),
    /// The qualified name of a class or function, such as `collections.OrderedDict`.
    Global(String),
    Storage(Storage),
    Tensor(View),
    /// An opaque object: its class (a [`Value::Global`]) and its state.
    Object(Id, Option<Id>),
}

/// The elements of one or several tensors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Storage {
    /// Key of the storage, a [`Value::Text`].
    pub(super) key: Id,
    /// Type of the elements; `None` if ONNX lacks it, or if each tensor specifies its own.
    pub(super) data_type: Option<DataType>,
    /// Bytes per element.
    pub(super) size: usize,
    /// Offset in elements, if this storage is a view of a larger one.
    pub(super) offset: u64,
}

/// A tensor: a view of a storage. `shape` and `strides` are tuples of integers.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    /// A [`Value::Storage`].
    pub(super) storage: Id,
    /// Index of the tensor's first element in the storage.
    pub(super) offset: u64,
    pub(super) shape: Id,
    pub(super) strides: Id,
    pub(super) data_type: DataType,
}

impl Values {
    pub(super) fn get(&self, id: Id) -> &Value {
        self.0.get(id as usize).unwrap_or(&Value::Plain)
    }

    pub(super) fn get_mut(&mut self, id: Id) -> Option<&mut Value> {
        self.0.get_mut(id as usize)
    }

    /// Adds a value. The caller limits their number, so that an index never overflows.
    pub(super) fn add(&mut self, value: Value) -> Id {
        self.0.push(value);
        (self.0.len() - 1) as Id
    }

    pub(super) fn all(&self) -> &[Value] {
        &self.0
    }

    /// Contents of a string.
    pub(super) fn text(&self, id: Id) -> Option<&str> {
        if let Value::Text(text) = self.get(id) { Some(text) } else { None }
    }

    /// Name of a global.
    pub(super) fn global(&self, id: Id) -> Option<&str> {
        if let Value::Global(name) = self.get(id) { Some(name) } else { None }
    }

    /// Items of a tuple, list or set.
    pub(super) fn items(&self, id: Id) -> Option<&[Id]> {
        if let Value::Tuple(items) | Value::List(items) = self.get(id) { Some(items) } else { None }
    }

    /// Value of a non-negative integer.
    pub(super) fn size(&self, id: Id) -> Option<u64> {
        if let Value::Int(value) = self.get(id) { u64::try_from(*value).ok() } else { None }
    }

    /// Values of a tuple of non-negative integers.
    pub(super) fn sizes(&self, id: Id) -> Option<Vec<u64>> {
        self.items(id)?.iter().map(|&item| self.size(item)).collect()
    }

    /// Value of a key in a dictionary.
    pub(super) fn entry(&self, id: Id, key: &str) -> Option<Id> {
        let Value::Dict(pairs) = self.get(id) else { return None };
        pairs.iter().find(|(name, _)| self.text(*name) == Some(key)).map(|&(_, value)| value)
    }
}
