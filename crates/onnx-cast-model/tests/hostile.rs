//! Does no damage to a model make its reader panic?

use onnx_cast_model::Model;
use testkit::fixtures::files;

const MODELS: &str = include_str!("fixtures/models.txt");

/// Reads and runs a model of bytes that may be anything.
fn read(bytes: &[u8]) {
    if let Ok(model) = Model::parse(bytes) {
        let _ = model.run(Vec::new());
    }
}

#[test]
fn every_prefix() {
    for (_, file) in files(MODELS) {
        (0..file.len()).for_each(|len| read(&file[..len]));
    }
}

#[test]
fn every_bit_flipped() {
    for (_, mut file) in files(MODELS) {
        for bit in 0..file.len() * 8 {
            file[bit / 8] ^= 1 << (bit % 8);
            read(&file);
            file[bit / 8] ^= 1 << (bit % 8);
        }
    }
}
