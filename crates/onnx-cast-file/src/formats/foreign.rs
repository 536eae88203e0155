//! Files that failed downloads leave in place of weights: Git LFS pointers, pages and error documents of servers, empty
//! files. Every reader of a format asks here first, so that the error says what the file is and what to do.

use crate::formats::error::{FormatError, Invalid, InvalidKind};
use crate::formats::format::Format;
use crate::io::positional::InputFile;
use crate::text::Short;

/// Bytes that are enough to recognize every kind.
const BEGINNING: usize = 256;
/// Bytes that are read of every file. More are read only if these may begin a text or an archive.
const FIRST: usize = 16;

const AGAIN: &str = "download it again";

/// Refuses a file that is not of its format, but what a failed download leaves. Raw bytes may begin as an archive does.
///
/// # Errors
/// Where it is, or where the file cannot be read.
pub fn refuse_foreign(file: &InputFile, format: Option<Format>) -> Result<(), FormatError> {
    let is_binary = matches!(format, Some(Format::TensorProto | Format::Onnx | Format::Raw));
    let first = file.prefix(FIRST)?;
    let found = match first[..] {
        // Readers of messages say what is missing from an empty one.
        [] if is_binary => None,
        [] => Some(format!("an empty file ({AGAIN})")),
        [0x1f, 0x8b, 8, 0..=31, ..] if format != Some(Format::Raw) => kind_of(&first),
        _ if first.iter().any(|byte| matches!(byte, 0..=8 | 14..=31)) => None,
        _ => {
            let bytes = file.prefix(BEGINNING)?;
            kind_of(&bytes).or_else(|| (!is_binary).then(|| json(&bytes)).flatten()).or_else(|| {
                // The reader of another format says by itself that it is not one.
                (format == Some(Format::Safetensors)).then(|| text(&bytes)).flatten()
            })
        }
    };
    found.map_or(Ok(()), |what| Err(syntax(file, what)))
}

/// The same for a file of JSON.
pub(crate) fn refuse_foreign_to_json(file: &InputFile, bytes: &[u8]) -> Result<(), FormatError> {
    let found = if bytes.is_empty() { Some(format!("an empty file ({AGAIN})")) } else { kind_of(bytes) };
    found.map_or(Ok(()), |what| Err(syntax(file, what)))
}

fn syntax(file: &InputFile, what: String) -> FormatError {
    FormatError::invalid(file.path(), Invalid::new(InvalidKind::Syntax, what))
}

/// What bytes begin that no format here begins with.
fn kind_of(bytes: &[u8]) -> Option<String> {
    let text = without_space(bytes);
    let begins = |start: &str| text.get(..start.len()).is_some_and(|text| text.eq_ignore_ascii_case(start.as_bytes()));
    let begins_any = |starts: &[&str]| starts.iter().any(|start| begins(start));
    if begins_any(&["version https://git-lfs.github.com/", "version https://hawser.github.com/"]) {
        return Some("a Git LFS pointer, not the file itself (run `git lfs pull`)".to_owned());
    }
    if bytes.starts_with(&[0x1f, 0x8b]) {
        return Some("a gzip archive (decompress it first)".to_owned());
    }
    if begins_any(&["<!doctype html", "<html", "<head", "<body"]) {
        return Some(format!("an HTML page, not the file itself ({AGAIN})"));
    }
    begins_any(&["<?xml", "<error"]).then(|| format!("an XML document, such as the error of a server ({AGAIN})"))
}

/// Whether bytes begin an object or a list of JSON.
fn json(bytes: &[u8]) -> Option<String> {
    let text = without_space(bytes);
    let rest = without_space(text.get(1..)?);
    let is_json = match text[0] {
        b'{' => rest.first().is_none_or(|byte| matches!(byte, b'"' | b'}')),
        b'[' => rest.first().is_none_or(|byte| matches!(byte, b'"' | b'{' | b'[' | b']')),
        _ => false,
    };
    (is_json && is_text(bytes)).then(|| format!("a JSON document, such as the error of a server ({AGAIN})"))
}

/// Whether bytes are text, and its first line.
fn text(bytes: &[u8]) -> Option<String> {
    let line = without_space(bytes).split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    is_text(bytes).then(|| format!("a text that begins with `{}`, not the file itself ({AGAIN})", Short(&line)))
}

fn is_text(bytes: &[u8]) -> bool {
    bytes.len() >= 8 && bytes.iter().all(|byte| matches!(byte, b'\t' | b'\r' | b'\n' | b' '..=b'~' | 0x80..))
}

/// Without a byte order mark and white space before the text.
fn without_space(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii_start()
}
