//! Does the committed header equal cbindgen's output, and does its table of types equal ONNX's? After a change of the
//! sources, `bash scripts/update.sh` writes it.

use onnx_cast::DataType;
use std::path::Path;

#[test]
fn the_header_is_that_of_the_sources() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = root.join("include/onnx_cast.h");
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).expect("a configuration");
    let bindings = cbindgen::Builder::new().with_crate(root).with_config(config).generate().expect("a header");
    let mut text = Vec::new();
    bindings.write(&mut text);
    let text = String::from_utf8(text).expect("UTF-8");
    // What Rust wants to be told of unsafe functions is in the parameters already.
    let text = text.replace(" *\n * # Safety\n * As the parameters say.\n", "");
    if std::env::var_os("UPDATE_HEADER").is_some() {
        std::fs::write(&path, &text).expect("the header can be written");
    }
    // Before the header, so that a missing constant is named as such.
    for data_type in DataType::ALL {
        let row = format!("    ONNX_CAST_{} = {},\n", data_type.name().to_uppercase(), data_type.onnx());
        assert_eq!(text.matches(&row).count(), 1, "crates/onnx-cast-capi/src/types.rs has no constant {}", row.trim());
    }
    let last = DataType::ALL.last().expect("types").onnx();
    assert!(text.contains(&format!(" = {last},\n}} onnx_cast_type;")), "{last} is the last type's number");
    let header = std::fs::read_to_string(&path).expect("the header");
    assert!(text == header, "include/onnx_cast.h is not up to date: `bash scripts/update.sh` writes it");
}
