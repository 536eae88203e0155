//! The modules that are kept, as the loaders of a layout know them. Loaders quantize every Linear layer that the list
//! does not name. They have layers that no tensor belongs to, such as an output layer that shares the weight of the
//! embedding, and give parts of a model other names than the checkpoint has. A pattern outlives both.

use super::choice::are_matrices;
use super::linear::{Linears, is_number, module_of};
use crate::checkpoint::Checkpoint;
use crate::formats::input::StoredTensor;
use crate::layouts::{KeptNames, Order, WrittenWeight, are_experts};
use std::collections::HashSet;

/// The names, and the patterns behind them.
pub(super) fn kept_modules(
    checkpoint: &Checkpoint,
    linears: &Linears<'_>,
    written: &[WrittenWeight],
    style: KeptNames,
) -> Vec<String> {
    // Configurations name the module that transposed experts are in, and `module` is the name of their tensor.
    let names = written.iter().map(|weight| match (weight.order, weight.module.rsplit_once('.')) {
        (Order::Exchanged, Some((module, _))) => module,
        _ => &weight.module,
    });
    let quantized: HashSet<&str> = names.collect();
    let mut kept = Kept {
        style,
        parts: quantized.iter().flat_map(|name| name.split(|c| !is_word(c))).collect(),
        kinds: quantized.iter().map(|name| kind(name.split('.'))).collect(),
        ends: quantized.iter().flat_map(|name| ends(name)).collect(),
        quantized,
        list: Vec::new(),
        seen: HashSet::new(),
    };
    let all = checkpoint.tensors().flat_map(|(_, stored)| modules_of(stored));
    let modules: Vec<Module> = all.filter(|module| kept.is_kept(module)).collect();
    let renamed = modules.iter().filter_map(|module| Some(Module { name: linears.renamed(&module.name)?, ..*module }));
    let split = checkpoint.tensors().flat_map(|(_, stored)| linears.split(&stored.name)).map(Module::layer);
    let renamed: Vec<Module> = renamed.chain(split).collect();
    let modules = modules.iter().chain(&renamed).map(|module| (&*module.name, module.has_experts));
    let wholes: Vec<_> = modules.map(|(module, experts)| (module, experts, kept.whole_part(linears, module))).collect();
    // A part that loaders rename gives a hint that they rename the others too.
    let is_renamed = wholes.iter().any(|(.., whole)| matches!(whole, Some((_, true))));
    for (module, are_experts, whole) in wholes {
        kept.module(module, whole.map(|(part, _)| part), are_experts, is_renamed);
    }
    for head in linears.heads() {
        let is_missing = checkpoint.find(&format!("{head}.weight")).is_none();
        kept.head(head, is_missing, is_renamed);
    }
    kept.list
}

/// A module that loaders may build for a matrix that is kept.
struct Module {
    name: String,
    /// Whether it has the experts of a layer in one tensor.
    has_experts: bool,
    /// Whether the checkpoint does not name it: the parent of a bare parameter, or the experts that a loader makes of
    /// matrices in one tensor. It is listed only if nothing below it is quantized.
    is_guessed: bool,
}

impl Module {
    fn layer(name: String) -> Module {
        Module { name, has_experts: false, is_guessed: false }
    }
}

/// The modules of a tensor, if it is a matrix or several.
fn modules_of(stored: &StoredTensor) -> Vec<Module> {
    let is_matrix = stored.shape.len() == 2;
    let own = module_of(&stored.name);
    let parent = |name: &str| name.rsplit_once('.').map(|(parent, _)| parent.to_owned());
    let all = match own {
        Some(own) if is_matrix => vec![Module::layer(own.to_owned())],
        _ if !are_matrices(stored) => Vec::new(),
        _ => {
            let Some(name) = own.map(str::to_owned).or_else(|| parent(&stored.name)) else { return Vec::new() };
            match (experts_of(&name), own) {
                (Some(experts), _) => {
                    vec![Module { name: experts.to_owned(), has_experts: true, is_guessed: !are_experts(stored) }]
                }
                (None, _) if is_matrix && !name.split('.').any(is_number) => Vec::new(),
                (None, _) if is_matrix => vec![Module { is_guessed: true, ..Module::layer(name) }],
                // vLLM and transformers make a module `experts` of GraniteMoE's `input_linear`.
                (None, own) => {
                    let outer = if own.is_some() { parent(&name) } else { Some(name.clone()) };
                    let experts = outer.map(|outer| format!("{outer}.experts"));
                    let experts = experts.map(|name| Module { name, has_experts: true, is_guessed: true });
                    let own = Module { is_guessed: own.is_none(), ..Module::layer(name) };
                    std::iter::once(own).chain(experts).collect()
                }
            }
        }
    };
    // The whole model has no name, and an empty one would be found in all others.
    all.into_iter().filter(|module| !module.name.is_empty()).collect()
}

/// The path of a module up to the part `experts`.
fn experts_of(module: &str) -> Option<&str> {
    let ends = module.match_indices(".experts").map(|(at, name)| &module[..at + name.len()]);
    ends.into_iter().find(|experts| matches!(module.as_bytes().get(experts.len()), None | Some(b'.')))
}

struct Kept<'a> {
    style: KeptNames,
    quantized: HashSet<&'a str>,
    /// The parts of their names.
    parts: HashSet<&'a str>,
    /// Their names without the numbers.
    kinds: HashSet<String>,
    /// Their names from each part on.
    ends: HashSet<&'a str>,
    list: Vec<String>,
    seen: HashSet<String>,
}

impl Kept<'_> {
    /// Whether a module is not quantized; of one that is guessed, no part of it.
    fn is_kept(&self, module: &Module) -> bool {
        !self.quantized.contains(&*module.name) && (!module.is_guessed || self.keeps_all(&module.name))
    }

    fn add(&mut self, name: String) {
        if self.seen.insert(name.clone()) {
            self.list.push(name);
        }
    }

    /// The part of the model that a module is in, where all of that part is kept, and whether loaders rename it.
    fn whole_part<'n>(&self, linears: &Linears<'_>, module: &'n str) -> Option<(&'n str, bool)> {
        linears.whole_part(module).filter(|(part, _)| !self.parts.contains(part))
    }

    /// Adds a module, and what else loaders may call it.
    fn module(&mut self, module: &str, whole: Option<&str>, are_experts: bool, is_renamed: bool) {
        let has_expressions = self.style.has_expressions();
        let has_both = self.style == KeptNames::ExpressionsAndGlobs;
        if let Some(part) = whole {
            let is_part = module.rsplit('.').next() == Some(part);
            match self.style {
                KeptNames::ExpressionsAndGlobs => {
                    self.add(format!(r"re:.*\b{}\b.*", escaped(part)));
                    self.add(format!("{part}.*"));
                    self.add(format!("*.{part}.*"));
                    if is_part {
                        self.add(format!("*.{part}"));
                    }
                }
                KeptNames::Expressions => return self.add(format!(r"re:.*\b{}\b.*", escaped(part))),
                KeptNames::Globs if !self.quantized.iter().any(|name| name.contains(&format!("{part}."))) => {
                    self.add(format!("*{part}.*"));
                }
                KeptNames::Globs => {
                    self.add(format!("{part}.*"));
                    self.add(format!("*.{part}.*"));
                }
                KeptNames::Parts => {
                    self.add(part.to_owned());
                    self.add(format!(r"(.*\.)?{}", escaped(part)));
                }
            }
            return self.add(module.to_owned());
        }
        match experts_of(module).filter(|experts| has_expressions && (are_experts || self.keeps_all(experts))) {
            // Loaders ask for the matrices of one expert.
            Some(experts) => {
                self.expression(experts, r"\b.*");
                if has_both && self.keeps_all(experts) {
                    self.add(format!("{experts}.*"));
                }
            }
            None if has_expressions && !has_both && is_renamed && module.split('.').any(is_number) => {
                self.expression(module, "$");
            }
            None => {
                self.add(module.to_owned());
                if has_expressions && is_renamed {
                    self.expression(module, "$");
                }
            }
        }
    }

    /// Adds an output layer, which may have no tensor, unless it is quantized.
    fn head(&mut self, head: &str, is_missing: bool, is_renamed: bool) {
        let end = format!(".{head}");
        if self.quantized.iter().any(|name| *name == head || name.ends_with(&end)) {
            return;
        }
        let has_both = self.style == KeptNames::ExpressionsAndGlobs;
        if is_missing {
            self.add(match self.style {
                _ if !head.contains('#') => head.to_owned(),
                KeptNames::Expressions | KeptNames::ExpressionsAndGlobs => format!("re:{}$", escaped_path(head)),
                KeptNames::Globs => glob(head),
                KeptNames::Parts => escaped_path(head),
            });
            if has_both {
                self.add(glob(head));
            }
        }
        if is_renamed && self.style.has_expressions() {
            self.add(format!(r"re:.*\b{}$", escaped_path(head)));
            if has_both {
                self.add(format!("*.{}", glob(head)));
            }
        }
    }

    /// Whether nothing below a module is quantized.
    fn keeps_all(&self, module: &str) -> bool {
        !self.quantized.iter().any(|name| name.strip_prefix(module).is_some_and(|rest| rest.starts_with('.')))
    }

    /// Adds an expression for a module, whatever comes before the name of its layers: of all layers, unless it is
    /// quantized in others. It has as much of what comes before as keeps it from matching quantized modules, or the
    /// module alone is added.
    fn expression(&mut self, module: &str, end: &str) {
        let parts: Vec<&str> = module.split('.').collect();
        let first = parts.iter().position(|part| is_number(part)).unwrap_or(1).saturating_sub(1);
        let choices = (0..=first).rev().flat_map(|first| [(first, true), (first, false)]);
        let is_right = |&(first, is_of_all): &(usize, bool)| {
            let parts = parts[first..].iter().copied();
            match is_of_all {
                true => !self.kinds.iter().any(|other| has_match(other, &kind(parts.clone()), end)),
                false => {
                    let name = parts.collect::<Vec<_>>().join(".");
                    !match end {
                        "$" => self.ends.contains(&*name),
                        _ => self.quantized.iter().any(|other| has_match(other, &name, end)),
                    }
                }
            }
        };
        let Some((first, is_of_all)) = choices.into_iter().find(is_right) else { return self.add(module.to_owned()) };
        let parts = parts[first..].iter().map(|part| match part {
            part if is_of_all && is_number(part) => r"\d+".to_owned(),
            part => escaped(part),
        });
        self.add(format!(r"re:.*\b{}{end}", parts.collect::<Vec<_>>().join(r"\.")));
    }
}

/// Whether a character is one of a word in an expression; `#` stands for a number.
fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '#'
}

/// A name from each of its words on, as `\b` of an expression finds them.
fn ends(name: &str) -> impl Iterator<Item = &str> {
    let borders = name.char_indices().zip(name.chars().skip(1));
    let borders = borders.filter(|((_, one), next)| is_word(*one) != is_word(*next));
    std::iter::once(name).chain(borders.map(|((at, one), _)| &name[at + one.len_utf8()..]))
}

/// Whether an expression of part of a name, with an end, matches another name.
fn has_match(other: &str, part: &str, end: &str) -> bool {
    let is_border = |one: Option<char>, next: Option<char>| one.is_some_and(is_word) != next.is_some_and(is_word);
    let mut starts =
        other.match_indices(part).filter(|(at, _)| is_border(other[..*at].chars().last(), part.chars().next()));
    starts.any(|(at, _)| {
        let rest = &other[at + part.len()..];
        rest.is_empty() || end != "$" && is_border(part.chars().last(), rest.chars().next())
    })
}

/// A name with a sign in place of numbers.
fn kind<'n>(parts: impl Iterator<Item = &'n str>) -> String {
    parts.map(|part| if is_number(part) { "#" } else { part }).collect::<Vec<_>>().join(".")
}

/// A name as an expression that matches it; `#` is any number.
fn escaped_path(name: &str) -> String {
    let parts = name.split('.').map(|part| if part == "#" { r"\d+".to_owned() } else { escaped(part) });
    parts.collect::<Vec<_>>().join(r"\.")
}

/// A name as a pattern with stars; `#` is any number.
fn glob(name: &str) -> String {
    name.replace('#', "*")
}

/// A part of a name as an expression that matches it.
fn escaped(part: &str) -> String {
    let mut text = String::new();
    for c in part.chars() {
        if !c.is_alphanumeric() && c != '_' {
            text.push('\\');
        }
        text.push(c);
    }
    text
}
