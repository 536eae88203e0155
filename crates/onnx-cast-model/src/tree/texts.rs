//! The names of a model, each copied out of its bytes once. A file that is mapped changes where another process writes
//! it in place, and text that has been checked has to stay UTF-8 for as long as a `&str` refers to it. Everything else
//! of a model is read as bytes, of which any are allowed at any time, and elements are never copied.

use crate::error::ModelError;
use std::cell::OnceCell;
use std::collections::HashSet;

/// Names in one block.
const BLOCK: usize = 256;

/// Owns the names of a [`Document`](super::Document): blocks that are filled one after the other, and never change.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    names: OnceCell<Box<[OnceCell<Box<str>>]>>,
    next: OnceCell<Box<Texts>>,
}

impl Texts {
    fn slot(&self, place: usize) -> Option<&OnceCell<Box<str>>> {
        self.names.get_or_init(|| (0..BLOCK).map(|_| OnceCell::new()).collect()).get(place)
    }
}

impl Drop for Texts {
    /// One block after the other: each within the one before would need a stack as deep as there are blocks.
    fn drop(&mut self) {
        let mut next = self.next.take();
        while let Some(mut block) = next {
            next = block.next.take();
        }
    }
}

/// Copies names, equal ones once.
pub(super) struct Copier<'a> {
    known: HashSet<&'a str>,
    block: &'a Texts,
    used: usize,
    copy: Vec<u8>,
}

impl<'a> Copier<'a> {
    pub(super) fn new(texts: &'a Texts) -> Self {
        Copier { known: HashSet::new(), block: texts, used: 0, copy: Vec::new() }
    }

    /// A name that does not change with the bytes. They are checked in the copy, because they might change between.
    pub(super) fn text(&mut self, bytes: &[u8]) -> Result<&'a str, ModelError> {
        self.copy.clear();
        self.copy.extend_from_slice(bytes);
        let text = std::str::from_utf8(&self.copy).map_err(|_| ModelError::Name)?;
        if let Some(known) = self.known.get(text) {
            return Ok(known);
        }
        if self.used == BLOCK {
            (self.block, self.used) = (self.block.next.get_or_init(Box::default), 0);
        }
        // Unreachable: a block has a slot for each number below its size.
        let Some(slot) = self.block.slot(self.used) else { return Err(ModelError::Name) };
        let kept: &'a str = slot.get_or_init(|| text.into());
        self.used += 1;
        self.known.insert(kept);
        Ok(kept)
    }
}

/// Text of bytes that may change meanwhile.
pub(crate) fn utf8(bytes: &[u8]) -> Result<String, ModelError> {
    String::from_utf8(bytes.to_vec()).map_err(|_| ModelError::Name)
}

/// The same with a replacement character for each part that is no text.
pub(crate) fn lossy(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_outlive_what_they_were_read_from() {
        let texts = Texts::default();
        let mut copier = Copier::new(&texts);
        let mut file = b"weight".to_vec();
        let name = copier.text(&file).expect("text");
        // Another process writes the file in place.
        file.fill(0xff);
        assert_eq!(name, "weight");
        assert!(copier.text(&file).is_err());
    }

    /// A map shows what another process writes into the file; the names of a model that was read are as they were.
    #[test]
    fn a_mapped_model_keeps_its_names_while_it_is_written_in_place() {
        use crate::tree::Document;
        use onnx_cast_file::io::{InputFile, map::Mapped};
        use std::io::Write;
        use testkit::proto::{Message, model, node};
        let reference = Message::new().bytes(1, "to").int(20, 2).bytes(21, "its");
        let bytes = model(21, vec![node("Cast", &["x"], "y", vec![reference])], &[("x", 1)], &[("y", 10)]);
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(&bytes).expect("written");
        let mapped = Mapped::of(&InputFile::open(file.path()).expect("opened")).expect("mapped");
        let texts = Texts::default();
        let document = Document::parse(&mapped, &texts).expect("a model");
        std::fs::OpenOptions::new()
            .write(true)
            .open(file.path())
            .expect("opened")
            .write_all(&vec![0xff; bytes.len()])
            .expect("written");
        if matches!(mapped, Mapped::Map(_)) {
            assert!(mapped.iter().all(|&byte| byte == 0xff), "the map shows what is written");
        }
        let node = &document.graph.nodes[0];
        assert_eq!((node.op_type, &node.inputs[..], &node.outputs[..]), ("Cast", &["x"][..], &["y"][..]));
        assert_eq!((node.attributes[0].name, node.attributes[0].referred()), ("to", Some("its")));
        assert_eq!((document.graph.inputs[0].name, document.graph.outputs[0].name), ("x", "y"));
    }

    #[test]
    fn equal_names_are_one_and_many_blocks_are_dropped() {
        let texts = Texts::default();
        let mut copier = Copier::new(&texts);
        let names: Vec<_> =
            (0..300_000).map(|number| copier.text(format!("v{number}").as_bytes()).expect("text")).collect();
        assert!((0..names.len()).all(|number| names[number] == format!("v{number}")));
        assert!(std::ptr::eq(names[7], copier.text(b"v7").expect("text")));
        assert_eq!(copier.text(b"").expect("text"), "");
    }
}
