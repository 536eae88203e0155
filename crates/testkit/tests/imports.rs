//! Do the modules of every crate import one another in one direction only? (`cargo modules --acyclic` knows no layers, and
//! takes a module that uses its parent for a circle.)
//!
//! An import is a `use` line or a path that starts with `crate`, `super` or `self`, anywhere in the code. A path stands
//! for the longest part of it that is a file's module; a name that the crate's root re-exports stands for the module
//! that the root takes it from. Three kinds of import are left out: those to and from the root, those between a module
//! and one inside it, which count as one room, and those of unit tests.

use regex_lite::{Captures, Regex};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// The library, whose modules also stand in layers.
const CORE: &str = "crates/onnx-cast";

/// The layers of the library, the highest first: each may import those behind it.
const LAYERS: [&str; 7] = ["ops", "arch", "kernel", "packed", "scalar", "element", "format"];

/// Comments and literals. Of a character there is more than of a lifetime: an escape, or a quote behind one sign. Blocks
/// of comments do not occur.
static SKIPPED: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = concat!(
        r"//[^\n]*|",
        r##"\b[bc]?r#"(?s:.*?)"#|"##,
        r#"\b[bc]?r"[^"]*"|"#,
        r#""(?:[^"\\]|(?s:\\.))*"|"#,
        r"'(?:\\[^\n]*?[^\\\n]|[^'\\\n])'"
    );
    Regex::new(pattern).expect("a pattern")
});
/// A `use` up to its end, or another path within the crate.
static PATH: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\buse\s+([^;]+);|\b(?:crate|self|super)(?:::\w+)+").expect("a pattern"));
/// The name of a module of tests that has a file of its own.
static TESTS: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^\s*mod (\w+);").expect("a pattern"));
const CFG_TEST: &str = "#[cfg(test)]";

type Files = BTreeMap<String, String>;

/// A module that imports another: from where to where, and the file, the line and the path as it is written.
#[derive(Debug)]
struct Import {
    from: String,
    to: String,
    line: String,
}

/// A path in the code of a file, and the name that the file knows it by.
struct Used {
    line: usize,
    path: String,
    is_use: bool,
    name: String,
}

impl Used {
    /// The path from the crate's root, for a file of this module; none for a path into another crate.
    fn path_in_crate(&self, module: &str) -> Option<String> {
        let mut base: Vec<&str> = module.split("::").filter(|word| !word.is_empty()).collect();
        let first = self.path.split("::").next()?;
        // `pub use ops::Cast` in the root.
        if !(["crate", "self", "super"].contains(&first) || self.is_use && base.is_empty()) {
            return None;
        }
        for word in self.path.split("::") {
            match word {
                "crate" => base.clear(),
                "super" => drop(base.pop()),
                "self" => {}
                word => base.push(word),
            }
        }
        Some(base.join("::"))
    }
}

/// Where an item ends: behind its `;`, or behind its braces.
fn item_end(code: &str) -> usize {
    let mut depth = 0;
    for (at, sign) in code.char_indices() {
        match sign {
            '{' | '(' | '[' => depth += 1,
            '}' | ')' | ']' => depth -= 1,
            _ => {}
        }
        if depth <= 0 && (sign == ';' || sign == '}' && !code[at + 1..].trim_start().starts_with(';')) {
            return at + 1;
        }
    }
    code.len()
}

/// The paths of a `use`: each with the place where it ends, and the name that it gives.
fn tree(text: &str, at: usize, before: &str, found: &mut Vec<(usize, String, String)>) {
    let (head, inner) = text.split_once('{').unwrap_or((text, ""));
    if inner.is_empty() {
        let (path, name) = head.trim().split_once(" as ").unwrap_or((head.trim(), ""));
        let path = format!("{before}{path}");
        let name = if name.is_empty() { path.rsplit("::").next().unwrap_or_default() } else { name };
        let name = name.to_owned();
        if !head.trim().is_empty() {
            found.push((at + text.trim_end().len(), path, name));
        }
        return;
    }
    let (before, mut depth, mut start) = (format!("{before}{}", head.trim()), 0, head.len() + 1);
    for (place, sign) in text.char_indices().skip_while(|(place, _)| *place <= head.len()) {
        if depth == 0 && (sign == ',' || sign == '}') {
            tree(&text[start..place], at + start, &before, found);
            start = place + 1;
        }
        depth += i32::from(sign == '{') - i32::from(sign == '}');
    }
}

/// What a file uses, and its modules that are declared under `#[cfg(test)]` in files of their own.
fn read(text: &str) -> (Vec<Used>, Vec<String>) {
    let lines = |text: &str| "\n".repeat(text.matches('\n').count());
    let mut code = SKIPPED.replace_all(text, |found: &Captures<'_>| lines(&found[0])).into_owned();
    let mut tests = Vec::new();
    while let Some(at) = code.find(CFG_TEST) {
        let rest = &code[at + CFG_TEST.len()..];
        tests.extend(TESTS.captures(rest).map(|found| found[1].to_owned()));
        let end = at + CFG_TEST.len() + item_end(rest);
        let blank = lines(&code[at..end]);
        code.replace_range(at..end, &blank);
    }
    let mut used = Vec::new();
    for found in PATH.captures_iter(&code) {
        let (whole, mut paths) = (found.get(0).expect("a match"), Vec::new());
        match found.get(1) {
            Some(of_use) => tree(of_use.as_str(), of_use.start(), "", &mut paths),
            None => paths.push((whole.end(), whole.as_str().to_owned(), String::new())),
        }
        let line = |end: usize| 1 + code[..end].matches('\n').count();
        let is_use = found.get(1).is_some();
        used.extend(paths.into_iter().map(|(end, path, name)| Used { line: line(end), path, is_use, name }));
    }
    (used, tests)
}

/// The module of a file: none for `lib.rs` and `main.rs`, `bench::measure` for `bench/measure.rs`.
fn module_of(file: &str) -> String {
    let path = file.trim_end_matches(".rs");
    let path = path.strip_suffix("/mod").unwrap_or(path);
    if ["lib", "main"].contains(&path) { String::new() } else { path.replace('/', "::") }
}

fn is_inside(module: &str, outer: &str) -> bool {
    module.strip_prefix(outer).is_some_and(|rest| rest.starts_with("::"))
}

/// The imports between files, each given by its path in the folder of the sources (`bench/measure.rs`) and its text.
fn imports(files: &Files) -> Vec<Import> {
    let mut read: BTreeMap<String, (&String, Vec<Used>)> = BTreeMap::new();
    let mut tests = Vec::new();
    for (file, text) in files {
        let (used, of_file) = self::read(text);
        let module = module_of(file);
        tests.extend(of_file.iter().map(|test| format!("{module}::{test}").trim_start_matches("::").to_owned()));
        read.insert(module, (file, used));
    }
    read.retain(|module, _| !tests.iter().any(|test| test == module || is_inside(module, test)));
    let module_named = |mut path: &str| -> String {
        while !path.is_empty() && !read.contains_key(path) {
            path = path.rsplit_once("::").map_or("", |(parent, _)| parent);
        }
        path.to_owned()
    };
    let root = read.get("").map_or(&[][..], |(_, used)| used).iter().filter(|used| used.is_use);
    let exports: BTreeMap<&str, String> =
        root.filter_map(|used| Some((used.name.as_str(), module_named(&used.path_in_crate("")?)))).collect();
    let mut found = Vec::new();
    for (module, (file, used)) in read.iter().filter(|(module, _)| !module.is_empty()) {
        for used in used {
            let Some(path) = used.path_in_crate(module) else { continue };
            let mut to = module_named(&path);
            if to.is_empty() {
                to = exports.get(path.split("::").next().unwrap_or_default()).cloned().unwrap_or_default();
            }
            if !to.is_empty() && to != *module && !is_inside(&to, module) && !is_inside(module, &to) {
                let line = format!("  {file}:{}: {module} -> {to} ({})\n", used.line, used.path);
                found.push(Import { from: module.clone(), to, line });
            }
        }
    }
    found
}

/// What each module imports, directly or by way of others.
fn reached(imports: &[Import]) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut found: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    loop {
        let before: usize = found.values().map(BTreeSet::len).sum();
        for Import { from, to, .. } in imports {
            let further = found.get(to.as_str()).cloned().unwrap_or_default();
            found.entry(from).or_default().extend(further.into_iter().chain([to.as_str()]));
        }
        if found.values().map(BTreeSet::len).sum::<usize>() == before {
            return found;
        }
    }
}

/// The imports that are part of a circle.
fn circles(imports: &[Import]) -> String {
    let reached = reached(imports);
    let leads_back = |import: &&Import| reached.get(import.to.as_str()).is_some_and(|to| to.contains(&*import.from));
    imports.iter().filter(leads_back).map(|import| import.line.as_str()).collect()
}

/// The imports that point from a lower layer to a higher one.
fn upward(imports: &[Import], layers: &[&str]) -> String {
    let layer = |module: &str| layers.iter().position(|&layer| Some(layer) == module.split("::").next());
    let is_upward =
        |import: &&Import| layer(&import.to).is_some_and(|to| layer(&import.from).is_some_and(|it| it > to));
    imports.iter().filter(is_upward).map(|import| import.line.as_str()).collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read_folder(folder: &Path, name: &str, files: &mut Files) {
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.expect("an entry").path();
        let name = format!("{name}{}", path.file_name().unwrap_or_default().to_string_lossy());
        if path.is_dir() {
            read_folder(&path, &format!("{name}/"), files);
        } else if name.ends_with(".rs") {
            files.insert(name, fs::read_to_string(&path).expect("a source"));
        }
    }
}

fn imports_of(name: &str) -> Vec<Import> {
    let mut files = Files::new();
    read_folder(&root().join(name).join("src"), "", &mut files);
    imports(&files)
}

#[test]
fn modules_import_one_another_in_one_direction() {
    let entries = fs::read_dir(root().join("crates")).expect("the crates");
    let crates = entries.map(|entry| format!("crates/{}", entry.expect("an entry").file_name().to_string_lossy()));
    let names: Vec<String> = crates.chain(["bindings/python", "fuzz/targets"].map(str::to_owned)).collect();
    assert!(names.len() > 11 && names.iter().any(|name| name == CORE), "{names:?}");
    let found: String =
        names.iter().map(|name| (name, circles(&imports_of(name)))).fold(String::new(), |all, (name, one)| {
            if one.is_empty() { all } else { format!("{all}{name}/src:\n{one}") }
        });
    assert!(found.is_empty(), "circles:\n{found}");
}

#[test]
fn the_library_s_modules_import_lower_layers_only() {
    let imports = imports_of(CORE);
    for layer in LAYERS {
        assert!(imports.iter().any(|import| import.to.split("::").next() == Some(layer)), "nothing imports {layer}");
    }
    let upward = upward(&imports, &LAYERS);
    assert!(upward.is_empty(), "{CORE}/src against {}:\n{upward}", LAYERS.join(" -> "));
}

/// The oracle must not share code with what it is compared with: only `testkit::library` and the program `prove` may name it.
#[test]
fn the_oracle_does_not_use_the_library() {
    let mut files = Files::new();
    read_folder(&root().join("crates/testkit/src"), "", &mut files);
    let names_it =
        |text: &str| text.lines().any(|line| !line.trim_start().starts_with("//") && line.contains("onnx_cast::"));
    let users: Vec<&String> = files.iter().filter(|(_, text)| names_it(text)).map(|(name, _)| name).collect();
    assert!(
        users.iter().all(|name| name.starts_with("library") || *name == "bin/prove.rs") && users.len() > 1,
        "{users:?}"
    );
}

fn files_of(files: &[(&str, &str)]) -> Files {
    files.iter().map(|&(name, text)| (name.into(), text.into())).collect()
}

#[test]
fn imports_are_read() {
    let files = files_of(&[
        ("lib.rs", "mod a;\nmod b;\nmod c;\npub use b::{Big, inner::Small as Tiny};\nuse a::x;\n"),
        (
            "a.rs",
            "use crate::b::inner::Small;\nuse std::fmt;\npub(crate) use crate::{\n    b::{Big as B, self},\n    c::*,\n};\n",
        ),
        (
            "b.rs",
            "mod inner;\nuse inner::Small;\nfn f() { crate::c::f::<crate::a::X>(); }\nmod deep { use super::super::a; }\n",
        ),
        ("b/inner.rs", "use super::Big;\nuse super::super::c::C;\nuse self::Small;\nuse crate::{Big, Tiny, f};\n"),
        (
            "c.rs",
            "// use crate::a;\nconst T: &str = \"crate::a \\\" crate::a\";\nconst R: &[u8] = br#\"\" crate::a\"#;\n\
             const Q: [char; 2] = ['\"', '\\''];\nfn f<'a>(x: &'a u8) { $crate::b::g(x); }\n\
             #[cfg(test)]\nuse crate::a::{X, Y};\n#[cfg(test)]\nmod tests {\n    use crate::a;\n}\nuse crate::Tiny;\n",
        ),
        ("d.rs", "#[cfg(test)]\nmod checks;\nuse crate::x;\n"),
        ("d/checks.rs", "use crate::a;\n"),
    ]);
    let found: Vec<String> = imports(&files).into_iter().map(|import| import.line).collect();
    let want = "  a.rs:1: a -> b::inner (crate::b::inner::Small)
  a.rs:4: a -> b (crate::b::Big)
  a.rs:4: a -> b (crate::b::self)
  a.rs:5: a -> c (crate::c::*)
  b.rs:3: b -> c (crate::c::f)
  b.rs:3: b -> a (crate::a::X)
  b.rs:4: b -> a (super::super::a)
  b/inner.rs:2: b::inner -> c (super::super::c::C)
  c.rs:5: c -> b (crate::b::g)
  c.rs:12: c -> b::inner (crate::Tiny)
  d.rs:3: d -> a (crate::x)
";
    assert_eq!(found.concat(), want);
}

#[test]
fn circles_and_layers_are_named_with_their_lines() {
    let imports = imports(&files_of(&[
        ("lib.rs", "mod a; mod b; mod c; mod d;"),
        ("a.rs", "use crate::b;"),
        ("b.rs", "\nuse crate::c::deep::C;"),
        ("c.rs", "mod deep;"),
        ("c/deep.rs", "fn f() { crate::a::f() }"),
        ("d.rs", "use crate::a;"),
    ]));
    let back = "  c/deep.rs:1: c::deep -> a (crate::a::f)\n";
    let circle = format!("  a.rs:1: a -> b (crate::b)\n  b.rs:2: b -> c::deep (crate::c::deep::C)\n{back}");
    assert_eq!(circles(&imports), circle);
    assert_eq!(upward(&imports, &["d", "a", "b", "c"]), back);
    assert_eq!(upward(&imports, &["a", "d"]), "  d.rs:1: d -> a (crate::a)\n");
}
