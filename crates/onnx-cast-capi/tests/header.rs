//! Does the committed header equal cbindgen's output, and does its table of types equal ONNX's? After a change of the
//! sources, `UPDATE_HEADER=1 cargo test -p onnx-cast-capi --test header` writes it.

use onnx_cast::DataType;
use std::path::Path;

const HEADER: &str = include_str!("../include/onnx_cast.h");

#[test]
fn the_header_is_that_of_the_sources() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).expect("a configuration");
    let bindings = cbindgen::Builder::new().with_crate(root).with_config(config).generate().expect("a header");
    let mut text = Vec::new();
    bindings.write(&mut text);
    let text = String::from_utf8(text).expect("UTF-8");
    // What Rust wants to be told of unsafe functions is in the parameters already.
    let text = text.replace(" *\n * # Safety\n * As the parameters say.\n", "");
    if std::env::var_os("UPDATE_HEADER").is_some() {
        std::fs::write(root.join("include/onnx_cast.h"), text).expect("the header can be written");
        return;
    }
    assert!(
        text == HEADER,
        "include/onnx_cast.h is not up to date: UPDATE_HEADER=1 cargo test -p onnx-cast-capi --test header"
    );
}

#[test]
fn the_header_has_every_type() {
    for data_type in DataType::ALL {
        let row = format!("    ONNX_CAST_{} = {},\n", data_type.name().to_uppercase(), data_type.onnx());
        assert_eq!(HEADER.matches(&row).count(), 1, "{row}");
    }
    let after = format!(" = {},\n}} onnx_cast_type;", DataType::ALL.len());
    assert!(HEADER.contains(&after), "there are {} types", DataType::ALL.len());
}
