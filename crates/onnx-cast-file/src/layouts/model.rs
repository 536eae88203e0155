//! What `config.json` says of a model, apart from its quantization.

use super::json;
use crate::loaders::{Loader, Rules, Structure};
use serde_json::{Map, Value};
use std::collections::{HashMap, HashSet};

/// The kinds of a model and of its parts, by which loaders choose their code.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    /// `model_type`, of the model and of its parts.
    kinds: HashSet<String>,
    /// `architectures`, the classes of the model.
    classes: Vec<String>,
    /// Numbers in the configuration of the model and of its parts, by their keys.
    numbers: HashMap<String, Vec<usize>>,
}

impl Model {
    /// Of the text of a `config.json`. One that cannot be read says nothing: the names of tensors have to do.
    pub(crate) fn of_text(text: &str) -> Model {
        json::object(text).map_or_else(|_| Model::default(), |object| Model::of(&object))
    }

    pub(super) fn of(object: &Map<String, Value>) -> Model {
        let mut model = Model::default();
        model.add(object);
        let classes = object.get("architectures").and_then(Value::as_array);
        let classes = classes.into_iter().flatten().filter_map(Value::as_str);
        model.classes.extend(classes.map(str::to_owned));
        model
    }

    fn add(&mut self, object: &Map<String, Value>) {
        if let Some(kind) = object.get("model_type").and_then(Value::as_str) {
            self.kinds.insert(kind.to_owned());
        }
        for (key, value) in object {
            if let Some(number) = value.as_u64().and_then(|number| usize::try_from(number).ok()) {
                self.numbers.entry(key.clone()).or_default().push(number);
            }
        }
        object.values().filter_map(Value::as_object).for_each(|part| self.add(part));
    }

    /// Whether the model, or a part of it, is of one of these types.
    pub(crate) fn is_any(&self, kinds: &[&str]) -> bool {
        kinds.iter().any(|kind| self.kinds.contains(*kind))
    }

    /// Returns the rules of all loaders for the model.
    pub(crate) fn rules(&self) -> Rules {
        Rules::of(&self.kinds, &self.classes)
    }

    /// Returns the rules of one loader for the model; `None` if its table lacks the model.
    pub(crate) fn rules_of(&self, loader: Loader) -> Option<Rules> {
        Rules::of_loader(loader, &self.kinds, &self.classes)
    }

    /// Returns the modules that the model has beside these, and that are missing from them.
    pub(crate) fn missing(&self, modules: &[&str]) -> Vec<String> {
        Structure::of(&self.kinds).missing(modules, |key| self.numbers.get(key).map_or(&[], Vec::as_slice))
    }

    /// Whether a class of the model has one of these in its name.
    pub(crate) fn has_class(&self, names: &[&str]) -> bool {
        self.classes.iter().any(|class| names.iter().any(|name| class.contains(name)))
    }
}
