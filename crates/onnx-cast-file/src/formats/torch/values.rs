//! The values that a pickle makes. They refer to each other by index, so that shared ones are never copied.

use onnx_cast::DataType;

/// Index of a value in [`Values`].
pub(super) type Id = u32;

/// Index of every [`Value::Plain`]: none of them is stored.
pub(super) const PLAIN: Id = Id::MAX;

/// The values of a pickle; they refer to each other by index.
#[derive(Debug, Default)]
pub(super) struct Values(Vec<Value>);

/// A value of a pickle.
#[derive(Debug)]
pub(super) enum Value {
    /// `None`, a bool, a float, bytes, a device: nothing that tensors are built from.
    Plain,
    Int(i64),
    Text(String),
    Tuple(Vec<Id>),
    /// A list or a set.
    List(Vec<Id>),
    Dict(Vec<(Id, Id)>),
    /// A class or a function, with its module: `collections.OrderedDict`.
    Global(String),
    Storage(Storage),
    Tensor(View),
    /// An object of a class (a [`Value::Global`]) that is not built, and its state.
    Object(Id, Option<Id>),
}

/// The elements of one or several tensors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Storage {
    /// Its name among the storages, a [`Value::Text`].
    pub(super) key: Id,
    /// The type of the elements; `None` if ONNX lacks it, or if each tensor has its own.
    pub(super) data_type: Option<DataType>,
    /// Bytes of an element.
    pub(super) size: usize,
    /// Number of elements of the storage in front of this one, which is a view of it.
    pub(super) offset: u64,
}

/// A tensor: a view of a storage. Shape and strides are tuples of integers.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    /// A [`Value::Storage`].
    pub(super) storage: Id,
    /// Index of its first element in the storage.
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

    /// Adds a value; there are fewer than an index can count.
    pub(super) fn add(&mut self, value: Value) -> Id {
        self.0.push(value);
        (self.0.len() - 1) as Id
    }

    pub(super) fn all(&self) -> &[Value] {
        &self.0
    }

    /// The text of a string.
    pub(super) fn text(&self, id: Id) -> Option<&str> {
        if let Value::Text(text) = self.get(id) { Some(text) } else { None }
    }

    /// The name of a global.
    pub(super) fn global(&self, id: Id) -> Option<&str> {
        if let Value::Global(name) = self.get(id) { Some(name) } else { None }
    }

    /// The items of a tuple, a list or a set.
    pub(super) fn items(&self, id: Id) -> Option<&[Id]> {
        if let Value::Tuple(items) | Value::List(items) = self.get(id) { Some(items) } else { None }
    }

    /// A size: an integer that is not negative.
    pub(super) fn size(&self, id: Id) -> Option<u64> {
        if let Value::Int(value) = self.get(id) { u64::try_from(*value).ok() } else { None }
    }

    /// The sizes in a tuple.
    pub(super) fn sizes(&self, id: Id) -> Option<Vec<u64>> {
        self.items(id)?.iter().map(|&item| self.size(item)).collect()
    }

    /// The value of a key of a dictionary.
    pub(super) fn entry(&self, id: Id, key: &str) -> Option<Id> {
        let Value::Dict(pairs) = self.get(id) else { return None };
        pairs.iter().find(|(name, _)| self.text(*name) == Some(key)).map(|&(_, value)| value)
    }
}
