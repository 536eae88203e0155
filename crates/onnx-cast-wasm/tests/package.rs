//! Do the npm package's own lists of types have every type? JavaScript needs them before the module is there.
//! `UPDATE_NPM=1` adds the types that are missing.

use onnx_cast::DataType;
use onnx_cast::types::Kind;
use std::path::Path;

/// The types of the package: arrays hold no complex numbers.
fn types() -> impl Iterator<Item = DataType> {
    DataType::ALL.iter().copied().filter(|data_type| data_type.info().kind != Kind::Complex)
}

/// Compares the lines of a list in a file, or writes them. A type has the line that begins as `begin` gives it, or is
/// given `line`; what follows the types up to `end` stays.
fn compare(name: &str, [first, end]: [&str; 2], begin: fn(DataType) -> String, line: fn(DataType) -> String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../npm").join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (before, rest) = text.split_once(first).unwrap_or_else(|| panic!("npm/{name}: no {first}"));
    let (list, after) = rest.split_once(end).unwrap_or_else(|| panic!("npm/{name}: no {end}"));
    let row_of = |data_type| list.lines().find(|line| line.starts_with(&begin(data_type))).map(str::to_owned);
    if std::env::var_os("UPDATE_NPM").is_some() {
        let rows: Vec<String> =
            types().map(|data_type| row_of(data_type).unwrap_or_else(|| line(data_type)) + "\n").collect();
        let text = format!("{before}{first}{}{end}{after}", rows.concat());
        std::fs::write(&path, text).expect("the file is written");
        return;
    }
    for data_type in types() {
        assert!(
            row_of(data_type).is_some(),
            "npm/{name}: no line `{}`: bash scripts/update.sh",
            begin(data_type).trim()
        );
    }
    assert_eq!(list.lines().count(), types().count(), "npm/{name}: a line for each type, and no other");
}

#[test]
fn the_table_of_arrays_has_every_type() {
    let begin = |data_type: DataType| {
        format!("  [\"{data_type}\", {}, {}, ", data_type.onnx(), data_type.bits().unwrap_or_default())
    };
    // As bits. An array of numbers is chosen by hand.
    let line = |data_type: DataType| {
        let bits = data_type.bits().unwrap_or_default();
        let array = format!("{}Uint{}Array", if bits == 64 { "Big" } else { "" }, bits.max(8));
        format!("  [\"{data_type}\", {}, {bits}, {array}],", data_type.onnx())
    };
    compare("src/elements.js", ["const TABLE = [\n", "];\n"], begin, line);
}

#[test]
fn the_declarations_have_every_type() {
    let line = |data_type: DataType| format!("  | \"{data_type}\"");
    compare("index.d.ts", ["export type ElementType =\n", "  | \"float32\"\n"], line, line);
}
