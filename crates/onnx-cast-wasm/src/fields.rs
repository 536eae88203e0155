//! The fields of a request. A field that is missing or `null` is not given; one of another type is an error that names
//! it.

use crate::{Failure, Result};
use serde_json::Value;
#[cfg(feature = "values")]
use {
    onnx_cast::{CastOptions, DataType},
    std::{fmt::Display, str::FromStr},
};

/// A request, or an object within one.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'a>(pub(crate) &'a Value);

fn wrong(name: &str, what: &str) -> Failure {
    Failure(format!("`{name}` {what}"))
}

impl<'a> Fields<'a> {
    pub(crate) fn get(self, name: &str) -> Option<&'a Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    pub(crate) fn text(self, name: &str) -> Result<Option<&'a str>> {
        let text = |value: &'a Value| value.as_str().ok_or_else(|| wrong(name, "is not a text"));
        self.get(name).map(text).transpose()
    }

    pub(crate) fn required(self, name: &str) -> Result<&'a str> {
        self.text(name)?.ok_or_else(|| wrong(name, "is missing"))
    }

    pub(crate) fn flag(self, name: &str) -> Result<Option<bool>> {
        let flag = |value: &Value| value.as_bool().ok_or_else(|| wrong(name, "is neither true nor false"));
        self.get(name).map(flag).transpose()
    }
}

/// What only casts of arrays and values ask for.
#[cfg(feature = "values")]
impl<'a> Fields<'a> {
    /// What a text stands for.
    pub(crate) fn parse<T: FromStr>(self, name: &str) -> Result<Option<T>>
    where
        T::Err: Display,
    {
        self.text(name)?.map(|text| text.parse().map_err(Failure::from)).transpose()
    }

    pub(crate) fn data_type(self, name: &str) -> Result<DataType> {
        self.parse(name)?.ok_or_else(|| wrong(name, "is missing"))
    }

    pub(crate) fn integer(self, name: &str) -> Result<Option<i64>> {
        let integer = |value: &Value| value.as_i64().ok_or_else(|| wrong(name, "is not an integer"));
        self.get(name).map(integer).transpose()
    }

    pub(crate) fn number(self, name: &str) -> Result<Option<f64>> {
        let number = |value: &Value| value.as_f64().ok_or_else(|| wrong(name, "is not a number"));
        self.get(name).map(number).transpose()
    }

    /// The texts of a list; none where it is not given.
    pub(crate) fn texts(self, name: &str) -> Result<Vec<&'a str>> {
        let Some(value) = self.get(name) else { return Ok(Vec::new()) };
        let Some(list) = value.as_array() else { return Err(wrong(name, "is not a list")) };
        list.iter().map(|item| item.as_str().ok_or_else(|| wrong(name, "is not a list of texts"))).collect()
    }

    /// The sizes of a list.
    pub(crate) fn sizes(self, name: &str) -> Result<Option<Vec<usize>>> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let Some(list) = value.as_array() else { return Err(wrong(name, "is not a list")) };
        let size = |item: &Value| item.as_u64().and_then(|size| usize::try_from(size).ok());
        let sizes = list.iter().map(|item| size(item).ok_or_else(|| wrong(name, "is not a list of sizes")));
        sizes.collect::<Result<Vec<_>>>().map(Some)
    }

    /// The opset and the attributes of a cast.
    pub(crate) fn options(self) -> Result<CastOptions> {
        let mut options =
            CastOptions::new().saturate(self.flag("saturate")?).round_mode(self.parse("round_mode")?).threads(1);
        if let Some(opset) = self.integer("opset")? {
            options = options.opset(opset);
        }
        Ok(options)
    }
}
