//! GGUF: a file format of its own, whose blocks contain their scales.

use super::{BASE, KEPT, held};
use crate::formats::format::Format;
use crate::layouts::format::OF_GGUF;
use crate::layouts::spec::{LayoutSpec, Loaders};

pub(super) const SPEC: LayoutSpec = LayoutSpec {
    name: "gguf",
    names: &[],
    held: &[held(&OF_GGUF, &[], Loaders::Are(&["llama.cpp"]), KEPT)],
    file: Format::Gguf,
    ..BASE
};
