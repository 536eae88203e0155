//! Do the modules of every crate import one another in one direction only?

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use testkit::imports::{Import, of_crate, of_files, report_circles, report_layers};

/// The library, whose modules also stand in layers.
const CORE: &str = "crates/onnx-cast";

/// The layers of the library, the highest first: each may import those behind it.
const LAYERS: [&str; 7] = ["ops", "arch", "kernel", "packed", "scalar", "element", "format"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The folders of the crates, from the project's root.
fn crates() -> Vec<String> {
    let folder = root().join("crates");
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut names: Vec<String> = entries
        .map(|entry| format!("crates/{}", entry.expect("an entry").file_name().to_string_lossy()))
        .chain(["bindings/python", "fuzz/targets", "xtask"].map(str::to_owned))
        .filter(|name| root().join(name).join("src").is_dir())
        .collect();
    names.sort();
    names
}

fn imports(name: &str) -> Vec<Import> {
    of_crate(&root().join(name).join("src")).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn modules_import_one_another_in_one_direction() {
    let names = crates();
    assert!(names.len() > 8 && names.iter().any(|name| name == CORE), "{names:?}");
    let mut found = String::new();
    for name in names.iter().filter(|&name| name != CORE) {
        let text = report_circles(&imports(name));
        if !text.is_empty() {
            found += &format!("{name}/src: {text}");
        }
    }
    assert!(found.is_empty(), "{found}");
}

#[test]
fn the_library_s_modules_import_lower_layers_only() {
    let imports = imports(CORE);
    for layer in LAYERS {
        assert!(imports.iter().any(|import| import.to.split("::").next() == Some(layer)), "nothing imports {layer}");
    }
    let (circles, upward) = (report_circles(&imports), report_layers(&imports, &LAYERS));
    let order = LAYERS.join(" -> ");
    assert!(circles.is_empty() && upward.is_empty(), "{CORE}/src: {circles}against {order}:\n{upward}");
}

/// The oracle must not share code with what it is compared with: only `testkit::library` may name the library.
#[test]
fn the_oracle_does_not_use_the_library() {
    let folder = root().join("crates/testkit/src");
    let uses = |path: &Path| {
        let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        text.lines().any(|line| !line.trim_start().starts_with("//") && line.contains("onnx_cast::"))
    };
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let files = entries.map(|entry| entry.expect("an entry").path()).filter(|path| path.is_file());
    let users: Vec<PathBuf> = files.filter(|path| uses(path)).collect();
    assert_eq!(users, [folder.join("library.rs")]);
}

/// The imports among files of these names and texts, as `from -> to`.
fn found(files: &[(&str, &str)]) -> Vec<String> {
    let files: BTreeMap<String, String> = files.iter().map(|&(name, text)| (name.into(), text.into())).collect();
    of_files(&files)
        .iter()
        .map(|import| format!("{}:{} {} -> {}", import.file, import.line, import.from, import.to))
        .collect()
}

#[test]
fn imports_are_read() {
    let files = [
        ("lib.rs", "mod a;\nmod b;\nmod c;\npub use b::{Big, inner::Small as Tiny};\nuse a::x;\n"),
        (
            "a.rs",
            "use crate::b::inner::Small;\nuse std::fmt;\npub(crate) use crate::{\n    b::{Big as Large, self},\n    c::*,\n};\n",
        ),
        (
            "b.rs",
            "mod inner;\nuse inner::Small;\nfn f() { crate::c::f::<crate::a::X>(); }\nmod deep { use super::super::a; }\n",
        ),
        ("b/inner.rs", "use super::Big;\nuse super::super::c::C;\nuse self::Small;\nuse crate::{Big, Tiny, f};\n"),
        (
            "c.rs",
            "// use crate::a;\n/* crate::a /* */ crate::a */ const T: &str = \"crate::a \\\" crate::a\";\nconst R: &[u8] = br#\"\" crate::a\"#;\nconst Q: char = '\"';\nfn f<'a>(x: &'a u8) { $crate::b::g(x); }\n\
             #[cfg(test)]\nuse crate::a::{X, Y};\n#[cfg(test)]\nmod tests {\n    use crate::a;\n}\nuse crate::Tiny;\n",
        ),
        ("d.rs", "#[cfg(test)]\nmod checks;\nuse crate::x;\n"),
        ("d/checks.rs", "use crate::a;\n"),
    ];
    let want = [
        "a.rs:1 a -> b::inner",
        "a.rs:4 a -> b",
        "a.rs:4 a -> b",
        "a.rs:5 a -> c",
        "b.rs:3 b -> c",
        "b.rs:3 b -> a",
        "b.rs:4 b -> a",
        "b/inner.rs:2 b::inner -> c",
        "c.rs:5 c -> b",
        "c.rs:12 c -> b::inner",
        "d.rs:3 d -> a",
    ];
    let got = found(&files);
    assert_eq!(got, want);
}

#[test]
fn circles_and_layers_are_named_with_their_lines() {
    let files = [
        ("lib.rs", "mod a; mod b; mod c; mod d;"),
        ("a.rs", "use crate::b;"),
        ("b.rs", "\nuse crate::c::deep::C;"),
        ("c.rs", "mod deep;"),
        ("c/deep.rs", "fn f() { crate::a::f() }"),
        ("d.rs", "use crate::a;"),
    ];
    let files: BTreeMap<String, String> = files.iter().map(|&(name, text)| (name.into(), text.into())).collect();
    let imports = of_files(&files);
    assert_eq!(
        report_circles(&imports),
        "a circle of 3: a, b, c::deep\n  a.rs:1: a -> b (crate::b)\n  b.rs:2: b -> c::deep (crate::c::deep::C)\n  \
         c/deep.rs:1: c::deep -> a (crate::a::f)\n"
    );
    assert_eq!(report_layers(&imports, &["d", "a", "b", "c"]), "  c/deep.rs:1: c::deep -> a (crate::a::f)\n");
    assert_eq!(report_layers(&imports, &["a", "d"]), "  d.rs:1: d -> a (crate::a)\n");
}
