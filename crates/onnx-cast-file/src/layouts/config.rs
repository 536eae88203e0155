//! The configuration of a checkpoint: `config.json`, and the files that layouts have of their own.

use super::changes::check_keys;
use super::claims::{Claims, pair};
use super::description;
use super::group::{Group, ModuleName};
use super::json;
use super::model::Model;
use super::spec::OwnFile;
use super::table::{Layout, UNREAD};
use crate::checkpoint::{Checkpoint, Configuration};
use crate::error::FileError;
use crate::formats::error::{Invalid, InvalidKind};
use crate::formats::foreign::refuse_foreign_to_json;
use crate::formats::format::Format;
use crate::formats::limits::MAX_HEADER;
use crate::io::fs;
use crate::io::links;
use crate::io::positional::InputFile;
use crate::loaders;
use crate::text::{Short, Wording};
use serde_json::{Map, Value};
use std::fmt::Display;
use std::path::Path;

/// The keys under which configurations describe quantized weights.
pub(super) const QUANTIZATION: [&str; 2] = ["quantization_config", "compression_config"];

/// What a checkpoint's configuration says.
#[derive(Clone, Debug, Default)]
pub(crate) struct Config {
    /// The layout, where one is named.
    pub(crate) layout: Option<Layout>,
    pub(crate) claims: Claims,
    /// What is said of the model.
    pub(crate) model: Model,
    /// The description of the quantization, if there is one.
    pub(crate) quantization: Option<Map<String, Value>>,
}

impl Checkpoint {
    /// Reads the quantization from the configuration. The layout `given` overrides it.
    pub(crate) fn config(&self, given: Option<Layout>) -> Result<Config, FileError> {
        match &self.configuration {
            Configuration::Folder(folder) => Config::of(self, folder, given),
            Configuration::Text(text) => {
                let parsed = Config::parse(text.as_deref().unwrap_or("{}"), given);
                parsed.map_err(|error| FileError::invalid(Path::new(CONFIG_TEXT), error))
            }
        }
    }

    /// Describes the quantization in the configuration, for errors; `None` if there is none, or if the configuration
    /// cannot be read.
    pub(crate) fn claim(&self) -> Option<String> {
        match &self.configuration {
            Configuration::Folder(folder) => Config::texts(folder).find_map(|text| claims(&text)),
            Configuration::Text(text) => claims(text.as_deref()?),
        }
    }

    /// Returns the text of the configuration with another description of quantization.
    pub(crate) fn config_with(&self, quantization: Option<&Value>) -> Result<String, FileError> {
        let object = match &self.configuration {
            Configuration::Folder(folder) => config_of_folder(folder)?,
            Configuration::Text(text) => text.as_deref().and_then(|text| json::object(text).ok()),
        };
        let mut object = object.unwrap_or_default();
        QUANTIZATION.iter().for_each(|key| drop(object.remove(*key)));
        object.extend(quantization.map(|found| (QUANTIZATION[0].to_owned(), found.clone())));
        Ok(Value::Object(object).to_string())
    }

    /// Reads the model's properties from the configuration.
    ///
    /// # Errors
    /// If the configuration cannot be read, or if a failed download left something else in its place.
    pub(crate) fn model(&self) -> Result<Model, FileError> {
        let text = match &self.configuration {
            Configuration::Folder(folder) => read(&folder.join("config.json"))?,
            Configuration::Text(text) => text.clone(),
        };
        Ok(text.as_deref().map_or_else(Model::default, Model::of_text))
    }
}

/// Name of a configuration in memory, for errors.
const CONFIG_TEXT: &str = "config";

/// What the text of a configuration says of quantization, for errors; `None` if nothing.
fn claims(text: &str) -> Option<String> {
    let object = json::object(text).ok()?;
    let is_own = Layout::keys().chain(["bits"]).any(|key| object.contains_key(key));
    // ModelOpt has a file of its own, MLX a key beside the others.
    let other = || object.get("quantization").and_then(Value::as_object);
    let (key, found) = match quantization_of(&object) {
        Some(found) => (QUANTIZATION[0], found),
        None => match other() {
            Some(found) => ("quantization", found),
            None => ("quantization_config", is_own.then_some(&object)?),
        },
    };
    let method = ["quant_method", "quant_algo", "mode"].iter().find_map(|key| found.get(*key)?.as_str());
    let method = method.map_or(String::new(), |method| format!(" ({})", Short(method)));
    Some(format!("by `{key}` of the configuration{method}"))
}

/// The object in `config.json` of a folder, where there is one.
pub(crate) fn config_of_folder(folder: &Path) -> Result<Option<Map<String, Value>>, FileError> {
    object(&folder.join("config.json"))
}

impl Config {
    /// Returns the entries of the lists of modules that are not quantized.
    pub(crate) fn kept_modules(&self, layout: Layout) -> Vec<ModuleName> {
        let lists = layout.spec().configuration.as_ref().map_or(&[][..], |configuration| configuration.lists);
        let found =
            self.quantization.iter().flat_map(|found| lists.iter().filter_map(|key| found.get(*key)?.as_array()));
        found.flatten().filter_map(Value::as_str).filter_map(ModuleName::of).collect()
    }

    /// Returns the groups of modules with settings of their own.
    pub(crate) fn groups(&self, layout: Layout) -> Vec<Group> {
        let read = layout.spec().configuration.as_ref().and_then(|configuration| configuration.groups);
        self.quantization.as_ref().zip(read).map_or_else(Vec::new, |(found, read)| read(found))
    }

    /// The texts of a folder's configurations, as far as they can be read.
    fn texts(folder: &Path) -> impl Iterator<Item = String> {
        let own = Layout::own_files().map(|(_, file)| file.name);
        let names = std::iter::once("config.json").chain(own);
        names.filter_map(move |name| read(&folder.join(name)).ok().flatten())
    }

    /// Reads the configuration in the folder of a checkpoint, or what the metadata of its files says in place of one. A
    /// layout that is given overrules it.
    fn of(checkpoint: &Checkpoint, folder: &Path, given: Option<Layout>) -> Result<Config, FileError> {
        let mut config = Config::read(folder, given)?;
        let found = |key: &str| {
            let entries = checkpoint.files.iter().flat_map(|file| file.metadata.iter().flatten());
            entries.into_iter().find(|(known, _)| known == key).map(|(_, value)| &**value)
        };
        if config.quantization.is_some() {
            return Ok(config);
        }
        if let Some(text) = found(description::CONFIG) {
            let wrong = |error| checkpoint.error(None, error);
            let object = json::object(text).map_err(|error| wrong(syntax(error)))?;
            config.take(&object, given).map_err(wrong)?;
        }
        let named = found(description::LAYOUT).and_then(|name| name.parse::<Layout>().ok());
        config.layout = config.layout.or(named);
        config.overrule(given);
        Ok(config)
    }

    /// Reads the configuration of a folder, where there is one. A layout that is given overrules it.
    fn read(folder: &Path, given: Option<Layout>) -> Result<Config, FileError> {
        if let Some(given) = given.filter(|given| given.spec().file != Format::Safetensors) {
            let what = format!("`{}` is not a layout of .safetensors files", given.name());
            return Err(FileError::invalid(folder, Invalid::new(InvalidKind::Unsupported, what)));
        }
        let mut config = Config::default();
        let path = folder.join("config.json");
        let main = object(&path)?;
        let quantization = main.as_ref().and_then(quantization_of);
        if let Some(object) = &main {
            config.read_model(object);
            let is_own = config.take_own_key(object).map_err(|error| FileError::invalid(&path, error))?;
            if !is_own && let Some(quantization) = quantization {
                config.take(quantization, given).map_err(|error| FileError::invalid(&path, error))?;
            }
        }
        for (layout, file) in Layout::own_files() {
            let path = folder.join(file.name);
            if let Some(object) = object(&path)? {
                let wrong = |error| FileError::invalid(&path, error);
                if given.is_none() {
                    check_own(file, quantization, &object).map_err(wrong)?;
                }
                config.take_own(layout, file, &object).map_err(wrong)?;
            }
        }
        config.overrule(given);
        config.check_model().map_err(|error| FileError::invalid(&path, error))?;
        Ok(config)
    }

    /// Refuses models whose layers have rows and columns exchanged, in layouts that exchange them themselves.
    fn check_model(&self) -> Result<(), Invalid> {
        let model = self.claims.model_type.as_deref().unwrap_or_default();
        let exchanges = |layout: Layout| layout.spec().columns.is_some_and(|columns| columns.is_auto_gptq);
        match self.layout {
            Some(layout) if exchanges(layout) && !loaders::conv1d_of(model).is_empty() => Err(variant(
                layout,
                &format!("the model is {model}, whose layers are Conv1D"),
                "a model of Linear layers",
            )),
            _ => Ok(()),
        }
    }

    /// Reads a text: that of `config.json`, of its `quantization_config` alone, or of a layout's own file.
    fn parse(text: &str, given: Option<Layout>) -> Result<Config, Invalid> {
        let object = json::object(text).map_err(syntax)?;
        let is_quantization = || Layout::keys().any(|key| object.contains_key(key));
        let mut config = Config::default();
        config.read_model(&object);
        if config.take_own_key(&object)? {
        } else if let Some(quantization) = quantization_of(&object).or(is_quantization().then_some(&object)) {
            config.take(quantization, given)?;
        } else {
            Layout::own_files().try_for_each(|(layout, file)| config.take_own(layout, file, &object))?;
        }
        config.overrule(given);
        Ok(config)
    }

    /// Reads what the weights depend on apart from their quantization.
    fn read_model(&mut self, object: &Map<String, Value>) {
        self.model = Model::of(object);
        self.claims.model_type = object.get("model_type").and_then(Value::as_str).map(str::to_owned);
        self.claims.heads = heads(object);
        let model = object.get("text_config").and_then(Value::as_object).unwrap_or(object);
        let hidden = ["hidden_size", "d_model", "n_embd"].iter().find_map(|key| model.get(*key)?.as_u64());
        self.claims.hidden = hidden.and_then(|size| usize::try_from(size).ok());
    }

    /// Takes over what `config.json` says under the key of a layout: MLX repeats it as `quantization_config`.
    fn take_own_key(&mut self, object: &Map<String, Value>) -> Result<bool, Invalid> {
        let found = Layout::own_keys().find_map(|(layout, key)| Some((layout, own_key(object, key)?)));
        if let Some((layout, quantization)) = found {
            self.layout = Some(layout);
            self.claim(layout, quantization)?;
        }
        Ok(found.is_some())
    }

    /// Makes a layout that the caller names overrule the one that is claimed. Sizes of blocks stay: they are only
    /// candidates, which have to fit the scales.
    fn overrule(&mut self, given: Option<Layout>) {
        let Some(given) = given else { return };
        if self.layout.is_some_and(|claimed| claimed != given) {
            let Claims { block, blocks, groups, heads, hidden, model_type, .. } = std::mem::take(&mut self.claims);
            self.claims = Claims { block, blocks, groups, heads, hidden, model_type, ..Claims::default() };
        }
        self.layout = Some(given);
        self.claims.are_overruled = true;
    }

    /// Takes over what a layout's own file says.
    fn take_own(&mut self, layout: Layout, file: &OwnFile, object: &Map<String, Value>) -> Result<(), Invalid> {
        let found = match file.key {
            // `config.json` has precedence, and may name another layout whose files have this name.
            "" => Some(object).filter(|object| {
                let method = object.get("quant_method").and_then(Value::as_str).unwrap_or_default();
                self.layout.is_none() && Layout::of_configuration(method, object) == Some(layout)
            }),
            key => object.get(key).and_then(Value::as_object),
        };
        let Some(quantization) = found else { return Ok(()) };
        check_keys(quantization)?;
        self.quantization.get_or_insert_with(|| quantization.clone());
        // A model's file may have the description of another layout.
        let method = quantization.get("quant_method").and_then(Value::as_str).filter(|_| file.has_model);
        let layout = method.and_then(|method| Layout::of_configuration(method, quantization)).unwrap_or(layout);
        self.layout = self.layout.or(Some(layout));
        self.claim(layout, quantization)
    }

    fn claim(&mut self, layout: Layout, quantization: &Map<String, Value>) -> Result<(), Invalid> {
        if let Some(configuration) = &layout.spec().configuration {
            (configuration.claims)(&mut self.claims, quantization);
        }
        match self.claims.refused.take() {
            Some((what, want)) => Err(variant(layout, &what, want)),
            None => Ok(()),
        }
    }

    /// Takes over what `quantization_config` says.
    fn take(&mut self, quantization: &Map<String, Value>, given: Option<Layout>) -> Result<(), Invalid> {
        check_keys(quantization)?;
        self.quantization.get_or_insert_with(|| quantization.clone());
        let method = quantization.get("quant_method").and_then(Value::as_str).unwrap_or_default();
        self.layout = Layout::of_configuration(method, quantization);
        if self.layout.is_none() && given.is_none() {
            let known = Layout::ALL.iter().map(|(_, name)| *name).collect::<Vec<_>>().join(", ");
            if let Some((_, why)) = UNREAD.iter().find(|(start, _)| method.starts_with(start)) {
                let what = format!(
                    "`quant_method` is `{}`, which is unsupported: {why} (dequantize it with the package that wrote \
                     it)",
                    Short(method)
                );
                return Err(Invalid::new(InvalidKind::Unsupported, what));
            }
            let what = match method {
                "" => format!("{} has no `quant_method`, which names the layout (known: {known}; ", QUANTIZATION[0]),
                _ => format!("`quant_method` is `{}`, which is not a known layout (known: {known}; ", Short(method)),
            };
            let what = Wording::from(what).field("layout", " chooses one)");
            return Err(Invalid::new(InvalidKind::Unsupported, what));
        }
        self.claims.block = quantization.get("weight_block_size").and_then(pair);
        if let Some(layout) = self.layout {
            self.claim(layout, quantization)?;
        }
        Ok(())
    }
}

/// Compares what a layout's own file says with what `quantization_config` does.
fn check_own(
    file: &OwnFile,
    quantization: Option<&Map<String, Value>>,
    object: &Map<String, Value>,
) -> Result<(), Invalid> {
    let own = object.get(file.key).and_then(Value::as_object);
    let (Some(find), Some(quantization), Some(own)) = (file.contradiction, quantization, own) else { return Ok(()) };
    let Some([key, first, second]) = find(quantization, own) else { return Ok(()) };
    let what = format!(
        "`{}` is {} here, and {} by `{}` of config.json (remove the file that is wrong; ",
        Short(&key),
        Short(&second),
        Short(&first),
        QUANTIZATION[0]
    );
    let what = Wording::from(what).field("layout", " names one, and the tensors decide)");
    Err(Invalid::new(InvalidKind::Contradiction, what))
}

/// The rows of a layer's query, and those of its key and its value, by the numbers of heads and their size.
fn heads(object: &Map<String, Value>) -> Option<[usize; 2]> {
    let model = object.get("text_config").and_then(Value::as_object).unwrap_or(object);
    let number = |key: &str| usize::try_from(model.get(key)?.as_u64()?).ok();
    let heads = number("num_attention_heads")?;
    let size = number("head_dim").or_else(|| number("hidden_size")?.checked_div(heads))?;
    let keys = number("num_key_value_heads").unwrap_or(heads);
    Some([heads.checked_mul(size)?, keys.checked_mul(size)?])
}

/// What a layout's own key holds, unless it is that of another file: MLX names the width beside the group.
fn own_key<'o>(object: &'o Map<String, Value>, key: &str) -> Option<&'o Map<String, Value>> {
    object.get(key)?.as_object().filter(|found| found.contains_key("bits") && found.contains_key("group_size"))
}

/// Whether a file in the folder of a checkpoint is a configuration that is read.
pub(crate) fn is_configuration(name: &str) -> bool {
    name == "config.json" || Layout::own_files().any(|(_, file)| file.name == name)
}

/// A configuration of a variant of a layout that is not read.
fn variant(layout: Layout, what: &str, want: &'static str) -> Invalid {
    let what = format!("the configuration says that {what}");
    Invalid::variant(layout.name(), &what, want)
}

/// What the object of `config.json` says of quantization.
fn quantization_of(object: &Map<String, Value>) -> Option<&Map<String, Value>> {
    let nested = object.get("text_config").and_then(Value::as_object);
    let parents = [Some(object), nested].into_iter().flatten();
    let found = |parent: &'_ &Map<String, Value>| QUANTIZATION.iter().any(|key| parent.contains_key(*key));
    let parent = parents.into_iter().find(found)?;
    QUANTIZATION.iter().find_map(|key| parent.get(*key)).and_then(Value::as_object)
}

/// The object in a JSON file; `None` if the file does not exist.
fn object(path: &Path) -> Result<Option<Map<String, Value>>, FileError> {
    let Some(text) = read(path)? else { return Ok(None) };
    json::object(&text).map(Some).map_err(|error| not_an_object(path, error))
}

/// The text of a configuration; `None` if the file does not exist.
pub(crate) fn read(path: &Path) -> Result<Option<String>, FileError> {
    if !fs::is_file(path) {
        return Ok(None);
    }
    links::check_read(path)?;
    let file = InputFile::open(path)?;
    if file.len() > MAX_HEADER {
        return Err(not_an_object(path, format_args!("{} bytes (want at most {MAX_HEADER})", file.len())));
    }
    let bytes = file.read(0, file.len())?;
    refuse_foreign_to_json(&file, &bytes)?;
    String::from_utf8(bytes).map(Some).map_err(|error| not_an_object(path, error))
}

/// A configuration that is not a JSON object.
pub(super) fn not_an_object(path: &Path, what: impl Display) -> FileError {
    FileError::invalid(path, syntax(what))
}

fn syntax(what: impl Display) -> Invalid {
    Invalid::new(InvalidKind::Syntax, format!("not a JSON object: {what}"))
}
