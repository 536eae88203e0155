//! The imports between the modules of a crate, read from its sources, and the circles among them.
//!
//! An import is a `use` line or a path that starts with `crate`, `super` or `self`, anywhere in the code. A path stands
//! for the longest part of it that is a file's module; a name that the crate's root re-exports stands for the module
//! that the root takes it from. Three kinds of import are left out: those to and from the root, those between a module
//! and one inside it, which count as one room, and those of unit tests.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::{fs, io};

/// A module that imports another, and where it says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// The importing module: `bench::measure`.
    pub from: String,
    /// The imported module.
    pub to: String,
    /// The importing file, from the folder of the sources: `bench/measure.rs`.
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
    /// The path that is imported, as it is written: `super::pairs::Pairs`.
    pub path: String,
}

/// The imports between the modules whose files lie in `src`, in the order of the files and lines.
///
/// # Errors
///
/// A folder or file that cannot be read.
pub fn of_crate(src: &Path) -> io::Result<Vec<Import>> {
    let mut files = BTreeMap::new();
    read_folder(src, "", &mut files)?;
    Ok(of_files(&files))
}

fn read_folder(folder: &Path, name: &str, files: &mut BTreeMap<String, String>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = format!("{name}{}", path.file_name().unwrap_or_default().to_string_lossy());
        if path.is_dir() {
            read_folder(&path, &format!("{name}/"), files)?;
        } else if name.ends_with(".rs") {
            files.insert(name, fs::read_to_string(&path)?);
        }
    }
    Ok(())
}

/// The imports between files, each given by its path in the folder of the sources (`bench/measure.rs`) and its text.
pub fn of_files(files: &BTreeMap<String, String>) -> Vec<Import> {
    let read: BTreeMap<String, (&str, Source)> =
        files.iter().map(|(file, text)| (module_of(file), (file.as_str(), Source::read(text)))).collect();
    let tests: BTreeSet<String> = read
        .iter()
        .flat_map(|(module, (_, source))| source.test_modules.iter().map(|test| join(module, test)))
        .collect();
    let is_test = |module: &str| tests.iter().any(|test| test == module || is_inside(module, test));
    let modules: BTreeSet<&str> = read.keys().map(String::as_str).filter(|module| !is_test(module)).collect();
    let module_named = |path: &str| -> String {
        let mut path = path;
        while !path.is_empty() && !modules.contains(path) {
            path = parent(path);
        }
        path.to_owned()
    };
    let mut exports: BTreeMap<String, String> = BTreeMap::new();
    for used in read.get("").into_iter().flat_map(|(_, root)| &root.paths) {
        if let (Some(path), Some(name)) = (used.path_in_crate(""), used.name()) {
            exports.insert(name.to_owned(), module_named(&path));
        }
    }
    let mut found = Vec::new();
    for (module, (file, source)) in read.iter().filter(|(module, _)| modules.contains(module.as_str())) {
        for used in &source.paths {
            let Some(path) = used.path_in_crate(module) else { continue };
            let mut to = module_named(&path);
            if to.is_empty() {
                let first = path.split("::").next().unwrap_or_default();
                to = exports.get(first).cloned().unwrap_or_default();
            }
            let one_room = to == *module || is_inside(&to, module) || is_inside(module, &to);
            if !to.is_empty() && !module.is_empty() && !one_room {
                let (file, line, path) = ((*file).to_owned(), used.line, used.words.join("::"));
                found.push(Import { from: module.clone(), to, file, line, path });
            }
        }
    }
    found.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
    found
}

/// The groups of two or more modules that import one another, directly or by way of others.
pub fn circles(imports: &[Import]) -> Vec<BTreeSet<String>> {
    let mut next: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for import in imports {
        next.entry(&import.from).or_default().insert(&import.to);
    }
    let reached: BTreeMap<&str, BTreeSet<&str>> = next.keys().map(|&module| (module, reached(&next, module))).collect();
    let leads = |from: &str, to: &str| reached.get(from).is_some_and(|seen| seen.contains(to));
    let mut found: Vec<BTreeSet<String>> = Vec::new();
    for &module in next.keys().filter(|&&module| leads(module, module)) {
        if !found.iter().any(|circle| circle.contains(module)) {
            found
                .push(next.keys().filter(|&&it| leads(module, it) && leads(it, module)).map(|&it| it.into()).collect());
        }
    }
    found
}

/// What a module imports, and what that imports, and so on.
fn reached<'a>(next: &BTreeMap<&'a str, BTreeSet<&'a str>>, from: &'a str) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    let mut open = vec![from];
    while let Some(module) = open.pop() {
        open.extend(next.get(module).into_iter().flatten().copied().filter(|&to| seen.insert(to)));
    }
    seen
}

/// One paragraph for each circle: its modules, then the lines that import one from another.
pub fn report_circles(imports: &[Import]) -> String {
    let mut text = String::new();
    for circle in circles(imports) {
        let names: Vec<&str> = circle.iter().map(String::as_str).collect();
        text += &format!("a circle of {}: {}\n", names.len(), names.join(", "));
        for import in imports.iter().filter(|import| circle.contains(&import.from) && circle.contains(&import.to)) {
            text += &line_of(import);
        }
    }
    text
}

/// The imports that point from a lower layer to a higher one, a line each. `layers` holds the outermost modules from
/// the highest layer to the lowest; modules in none of them may be imported by all.
pub fn report_layers(imports: &[Import], layers: &[&str]) -> String {
    let layer = |module: &str| layers.iter().position(|&layer| Some(layer) == module.split("::").next());
    let against =
        |import: &&Import| layer(&import.to).is_some_and(|to| layer(&import.from).is_some_and(|from| from > to));
    imports.iter().filter(against).map(line_of).collect()
}

fn line_of(import: &Import) -> String {
    let Import { from, to, file, line, path } = import;
    format!("  {file}:{line}: {from} -> {to} ({path})\n")
}

/// The module of a file: none for `lib.rs` and `main.rs`, `bench::measure` for `bench/measure.rs`.
fn module_of(file: &str) -> String {
    let path = file.trim_end_matches(".rs");
    let path = path.strip_suffix("/mod").unwrap_or(path);
    if ["lib", "main"].contains(&path) { String::new() } else { path.replace('/', "::") }
}

fn parent(path: &str) -> &str {
    path.rsplit_once("::").map_or("", |(parent, _)| parent)
}

fn join(module: &str, name: &str) -> String {
    if module.is_empty() { name.to_owned() } else { format!("{module}::{name}") }
}

fn is_inside(module: &str, outer: &str) -> bool {
    module.strip_prefix(outer).is_some_and(|rest| rest.starts_with("::"))
}

/// A path in the code of a file.
struct Used {
    line: usize,
    /// Its words, and after them the name that `as` gives it.
    words: Vec<String>,
    renamed: Option<String>,
    /// The modules in the file that the path stands in.
    inner: Vec<String>,
    /// Whether it is a `use`, whose first word may be a module of the crate's root in the root's own file.
    is_use: bool,
}

impl Used {
    /// The path from the crate's root, for a file of this module; none for a path into another crate.
    fn path_in_crate(&self, module: &str) -> Option<String> {
        let mut base: Vec<&str> = module.split("::").filter(|word| !word.is_empty()).collect();
        base.extend(self.inner.iter().map(String::as_str));
        let mut words = self.words.iter().map(String::as_str).peekable();
        match *words.peek()? {
            "crate" => {
                base.clear();
                words.next();
            }
            "self" | "super" => {
                while let Some(word) = words.next_if(|&word| ["self", "super"].contains(&word)) {
                    if word == "super" {
                        base.pop();
                    }
                }
            }
            // `pub use ops::Cast` in the root.
            _ if self.is_use && base.is_empty() => {}
            _ => return None,
        }
        Some(base.into_iter().chain(words.filter(|&word| word != "self")).collect::<Vec<_>>().join("::"))
    }

    /// The name by which the file knows it.
    fn name(&self) -> Option<&str> {
        let last = self.renamed.as_ref().or(self.words.last()).filter(|_| self.is_use)?;
        (!["*", "self", "_"].contains(&last.as_str())).then_some(last)
    }
}

/// What a file imports.
#[derive(Default)]
struct Source {
    paths: Vec<Used>,
    /// Modules in files of their own that are declared under `#[cfg(test)]`.
    test_modules: Vec<String>,
}

impl Source {
    fn read(text: &str) -> Source {
        let words = words_of(text);
        let mut reader = Reader { words: &words, at: 0 };
        let mut source = Source::default();
        // The modules around the place, with the depth of braces at which each ends.
        let (mut depth, mut inner) = (0usize, Vec::<(usize, String)>::new());
        while let Some((_, word)) = reader.next() {
            match word {
                "{" => depth += 1,
                "}" => {
                    depth = depth.saturating_sub(1);
                    inner.retain(|(end, _)| *end <= depth);
                }
                "#" if reader.takes(&["[", "cfg", "(", "test", ")", "]"]) => reader.skip_test(&mut source.test_modules),
                "mod" if reader.peek(1) == "{" => {
                    inner.push((depth + 1, reader.peek(0).to_owned()));
                }
                "use" | "crate" | "self" | "super" if word == "use" || reader.peek(0) == "::" => {
                    let is_use = word == "use";
                    if !is_use {
                        reader.at -= 1;
                    }
                    let inner: Vec<String> = inner.iter().map(|(_, name)| name.clone()).collect();
                    reader.tree(&[], is_use, &mut |line, words, renamed| {
                        source.paths.push(Used { line, words, renamed, inner: inner.clone(), is_use });
                    });
                }
                _ => {}
            }
        }
        source
    }
}

struct Reader<'a> {
    words: &'a [(usize, &'a str)],
    at: usize,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Option<(usize, &'a str)> {
        let word = self.words.get(self.at).copied();
        self.at += usize::from(word.is_some());
        word
    }

    fn peek(&self, ahead: usize) -> &'a str {
        self.words.get(self.at + ahead).map_or("", |(_, word)| word)
    }

    fn takes(&mut self, words: &[&str]) -> bool {
        let takes = words.iter().enumerate().all(|(i, word)| self.peek(i) == *word);
        self.at += if takes { words.len() } else { 0 };
        takes
    }

    /// Behind `#[cfg(test)]`: passes over the item, and notes a module in a file of its own.
    fn skip_test(&mut self, modules: &mut Vec<String>) {
        let mut depth = 0;
        while let Some((_, word)) = self.next() {
            match word {
                "mod" if depth == 0 && self.peek(1) == ";" => modules.push(self.peek(0).to_owned()),
                "{" | "(" | "[" => depth += 1,
                "}" | ")" | "]" => depth -= 1,
                _ => {}
            }
            // An item ends with `;` or its braces, but a `use` may have braces and end with `;`.
            if depth <= 0 && (word == ";" || word == "}" && self.peek(0) != ";") || depth < 0 {
                return;
            }
        }
    }

    /// A path, or the tree of paths of a `use`; `found` takes the line, the words and the name behind `as` of each.
    fn tree(&mut self, before: &[String], is_use: bool, found: &mut dyn FnMut(usize, Vec<String>, Option<String>)) {
        let mut path = before.to_vec();
        let mut at = self.words.get(self.at).map_or(0, |(line, _)| *line);
        loop {
            match self.peek(0) {
                "{" if is_use => {
                    self.at += 1;
                    while !["}", ""].contains(&self.peek(0)) {
                        if !self.takes(&[","]) {
                            self.tree(&path, true, found);
                        }
                    }
                    self.at += 1;
                    return;
                }
                "::" => self.at += 1,
                word if word == "*" || word.starts_with(|c: char| c.is_alphanumeric() || c == '_') => {
                    at = self.words[self.at].0;
                    path.push(word.to_owned());
                    self.at += 1;
                    if self.peek(0) != "::" {
                        break;
                    }
                }
                _ => {
                    self.at += usize::from(is_use && path == before);
                    break;
                }
            }
        }
        let renamed = if is_use && self.takes(&["as"]) {
            let name = self.peek(0).to_owned();
            self.at += 1;
            Some(name)
        } else {
            None
        };
        found(at, path, renamed);
    }
}

/// The identifiers, `::` and other signs of a text with their lines, without comments, strings and characters.
pub(crate) fn words_of(text: &str) -> Vec<(usize, &str)> {
    let bytes = text.as_bytes();
    let (mut words, mut at, mut line) = (Vec::new(), 0, 1);
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80;
    while at < bytes.len() {
        let rest = &text[at..];
        let len = match bytes[at] {
            b'/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            b'/' if rest.starts_with("/*") => block_comment(rest),
            b'r' | b'b' | b'c' if raw_string(rest).is_some() => raw_string(rest).unwrap_or(1),
            b'"' => quoted(rest, b'"'),
            // A character, and not a lifetime: one sign or an escape between quotes.
            b'\'' if rest[1..].starts_with('\\') || rest.chars().nth(2) == Some('\'') => quoted(rest, b'\''),
            byte if is_word(byte) => rest.bytes().position(|byte| !is_word(byte)).unwrap_or(rest.len()),
            b':' if rest.starts_with("::") => 2,
            _ => 1,
        };
        let word = &rest[..len];
        let is_code = is_word(bytes[at]) && raw_string(rest).is_none() || "{}()[];,#*:<".contains(&word[..1]);
        if is_code {
            words.push((line, word));
        }
        line += word.bytes().filter(|&byte| byte == b'\n').count();
        at += len;
    }
    words
}

fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        let two = text.as_bytes().get(at..at + 2);
        let step = match two {
            Some(b"/*") => 1,
            Some(b"*/") => -1,
            _ => 0,
        };
        depth += step;
        at += if step == 0 { 1 } else { 2 };
        if depth == 0 {
            break;
        }
    }
    at.min(text.len())
}

/// The length of a literal `r#"..."#`, with `b` or `c` before it; `None` if missing.
fn raw_string(text: &str) -> Option<usize> {
    let start = text.strip_prefix(['b', 'c']).unwrap_or(text).strip_prefix('r')?;
    let hashes = start.len() - start.trim_start_matches('#').len();
    let body = start[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let len = body.find(&end).map_or(body.len(), |at| at + end.len());
    Some(text.len() - body.len() + len)
}

fn quoted(text: &str, quote: u8) -> usize {
    let (bytes, mut at) = (text.as_bytes(), 1);
    while at < bytes.len() && bytes[at] != quote {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    // An escaped sign of several bytes cannot be cut: `\` is followed by ASCII in Rust.
    (at + 1).min(text.len())
}
