//! Files that are not what their names say: Git LFS pointers, pages and error documents of servers and empty files, which
//! failed downloads leave, and files of other formats that would be read as raw bytes. Every reader asks here first, so
//! that the error says what the file is and what to do.

use crate::formats::error::{FormatError, Invalid, InvalidKind};
use crate::formats::format::{Format, GGUF_MAGIC, UNSEEN, is_unseen};
use crate::formats::limits::MAX_HEADER;
use crate::io::positional::{InputFile, is_stream};
use crate::text::Short;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::fmt;

/// Bytes that are enough to recognize every kind.
const BEGINNING: usize = 256;
/// Bytes that are read of every file. More are read only if these may begin a text or an archive.
const FIRST: usize = 16;
/// Max length of a JSON document that may be the error of a server.
const MAX_ERROR: usize = 1 << 16;

const AGAIN: &str = "download it again";

/// Keys of the errors that servers send as JSON objects: one of the first, and maybe others of these.
const ERROR_KEYS: [&str; 4] = ["error", "errors", "detail", "message"];
const OTHER_ERROR_KEYS: [&str; 13] = [
    "code",
    "details",
    "documentation_url",
    "error_code",
    "error_description",
    "path",
    "request_id",
    "requestId",
    "status",
    "status_code",
    "statusCode",
    "timestamp",
    "type",
];

/// A file that is not what its name says.
struct Foreign {
    what: Cow<'static, str>,
    todo: &'static str,
}

impl Foreign {
    const fn new(what: &'static str, todo: &'static str) -> Foreign {
        Foreign { what: Cow::Borrowed(what), todo }
    }
}

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.what, self.todo)
    }
}

const EMPTY: Foreign = Foreign::new("an empty file", AGAIN);
const EMPTY_STREAM: Foreign = Foreign::new("an empty stream", "the command that should write it may have failed");
const JSON: Foreign = Foreign::new("a JSON document, such as the error of a server", AGAIN);

/// Refuses a file that is not of its format, but what a failed download leaves.
///
/// # Errors
/// Where it is, or where the file cannot be read.
pub fn refuse_foreign(file: &InputFile, format: Option<Format>) -> Result<(), FormatError> {
    found(file, format)?.map_or(Ok(()), |foreign| Err(syntax(file, &foreign)))
}

/// Refuses a file in place of raw bytes: what a failed download leaves, or a file of another format. One that is named
/// `.raw` is not looked at.
pub(crate) fn refuse_foreign_to_raw(file: &InputFile) -> Result<(), FormatError> {
    let path = file.path();
    // Of the standard input a shape alone tells that it is raw.
    if is_stream(path) || is_unseen(path) {
        return Ok(());
    }
    if let Some(Foreign { what, todo }) = found(file, Some(Format::Raw))? {
        return Err(FormatError::request(path, format!("{what} ({todo}, or name raw bytes .{UNSEEN})")));
    }
    let other = other_format(&file.prefix(FIRST)?);
    other.map_or(Ok(()), |(what, todo)| Err(FormatError::request(path, format!("{what}, not raw bytes ({todo})"))))
}

/// Refuses a file of JSON that holds something else, or the error of a server.
pub(crate) fn refuse_foreign_to_json(file: &InputFile, bytes: &[u8]) -> Result<(), FormatError> {
    let found = if bytes.is_empty() { Some(EMPTY) } else { kind_of(bytes).or_else(|| server_error(bytes)) };
    found.map_or(Ok(()), |foreign| Err(syntax(file, &foreign)))
}

/// What a file is in place of its format. Raw bytes may begin as an archive or a list does.
fn found(file: &InputFile, format: Option<Format>) -> Result<Option<Foreign>, FormatError> {
    let (is_raw, is_message) =
        (format == Some(Format::Raw), matches!(format, Some(Format::TensorProto | Format::Onnx)));
    let first = file.prefix(FIRST)?;
    Ok(match first[..] {
        // Readers of messages say what is missing from an empty one.
        [] if is_stream(file.path()) => (!is_raw && !is_message).then_some(EMPTY_STREAM),
        [] => (!is_raw && !is_message).then_some(EMPTY),
        [0x1f, 0x8b, 8, 0..=31, ..] if !is_raw => kind_of(&first),
        _ if first.iter().any(|byte| matches!(byte, 0..=8 | 14..=31)) => None,
        _ => {
            let bytes = file.prefix(BEGINNING)?;
            kind_of(&bytes).or_else(|| if is_raw { server_error(&bytes) } else { json(&bytes) }).or_else(|| {
                // The reader of another format says by itself that it is not one.
                (format == Some(Format::Safetensors)).then(|| text(&bytes)).flatten()
            })
        }
    })
}

fn syntax(file: &InputFile, foreign: &Foreign) -> FormatError {
    FormatError::invalid(file.path(), Invalid::new(InvalidKind::Syntax, foreign.to_string()))
}

/// What bytes begin that no format here begins with.
fn kind_of(bytes: &[u8]) -> Option<Foreign> {
    let text = without_space(bytes);
    let begins = |start: &str| text.get(..start.len()).is_some_and(|text| text.eq_ignore_ascii_case(start.as_bytes()));
    let begins_any = |starts: &[&str]| starts.iter().any(|start| begins(start));
    if begins_any(&["version https://git-lfs.github.com/", "version https://hawser.github.com/"]) {
        return Some(Foreign::new("a Git LFS pointer, not the file itself", "run `git lfs pull`"));
    }
    if bytes.starts_with(&[0x1f, 0x8b]) {
        return Some(Foreign::new("a gzip archive", "decompress it first"));
    }
    if begins_any(&["<!doctype html", "<html", "<head", "<body"]) {
        return Some(Foreign::new("an HTML page, not the file itself", AGAIN));
    }
    let is_xml = begins_any(&["<?xml", "<error"]);
    is_xml.then(|| Foreign::new("an XML document, such as the error of a server", AGAIN))
}

/// Whether bytes begin an object or a list of JSON.
fn json(bytes: &[u8]) -> Option<Foreign> {
    let text = without_space(bytes);
    let rest = without_space(text.get(1..)?);
    let is_json = match text[0] {
        b'{' => rest.first().is_none_or(|byte| matches!(byte, b'"' | b'}')),
        b'[' => rest.first().is_none_or(|byte| matches!(byte, b'"' | b'{' | b'[' | b']')),
        _ => false,
    };
    (is_json && is_text(bytes)).then_some(JSON)
}

/// Whether bytes are the error of a server: an object of keys that errors have.
fn server_error(bytes: &[u8]) -> Option<Foreign> {
    let text = without_space(bytes);
    if !text.starts_with(b"{") || text.len() > MAX_ERROR {
        return None;
    }
    let object: Map<String, Value> = serde_json::from_slice(text).ok()?;
    let is_main = |key: &String| ERROR_KEYS.contains(&key.as_str());
    let is_known = |key: &String| is_main(key) || OTHER_ERROR_KEYS.contains(&key.as_str());
    (object.keys().any(is_main) && object.keys().all(is_known)).then_some(JSON)
}

/// Whether bytes are text, and its first line.
fn text(bytes: &[u8]) -> Option<Foreign> {
    let line = without_space(bytes).split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let what = || Cow::Owned(format!("a text that begins with `{}`, not the file itself", Short(&line)));
    is_text(bytes).then(|| Foreign { what: what(), todo: AGAIN })
}

fn is_text(bytes: &[u8]) -> bool {
    bytes.len() >= 8 && bytes.iter().all(|byte| matches!(byte, b'\t' | b'\r' | b'\n' | b' '..=b'~' | 0x80..))
}

/// Without a byte order mark and white space before the text.
fn without_space(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii_start()
}

/// The format of a file by its first bytes, and what to do with it in place of taking it for raw bytes.
fn other_format(bytes: &[u8]) -> Option<(&'static str, &'static str)> {
    const SAVE: &str = "save its tensors as .safetensors, or name raw bytes .raw";
    let known: [(&[u8], _, _); 6] = [
        (b"PK\x03\x04", "a zip archive", "name it .pt if torch.save wrote it, and arrays .npz"),
        (b"PK\x05\x06", "a zip archive without a member", SAVE),
        (b"\x89HDF\r\n\x1a\n", "an HDF5 file", SAVE),
        (GGUF_MAGIC, "a GGUF file", "name it .gguf, or raw bytes .raw"),
        (b"\x93NUMPY", "a numpy array", "name it .npy, or raw bytes .raw"),
        (b"\x08", "an ONNX model", "name it .onnx, or raw bytes .raw"),
    ];
    let fits = |magic: &[u8]| bytes.starts_with(magic) && (magic != b"\x08" || is_model(bytes));
    if let Some((_, what, todo)) = known.into_iter().find(|(magic, ..)| fits(magic)) {
        return Some((what, todo));
    }
    // The protocol, then a frame, or one of the opcodes that a pickle of an object, a number or a container begins
    // with.
    if let [0x80, 2..=5, 0x95 | b'}' | b']' | b'(' | b')' | b'c' | b'X' | b'\x8a' | b'\x8c' | b'K' | b'N', ..] = bytes {
        return Some(("a pickle", "name it .pt if torch.save wrote it, or raw bytes .raw"));
    }
    let header = bytes.first_chunk().map(|len| u64::from_le_bytes(*len));
    let plausible = header.is_some_and(|len| len <= MAX_HEADER);
    let named = bytes.get(8..10).is_some_and(|start| matches!(start, [b'{', b'"' | b'}' | b' ' | b'\n']));
    (plausible && named).then_some(("a .safetensors file", "name it .safetensors, or raw bytes .raw"))
}

/// Whether bytes begin as a ModelProto does: the version of the format, then the graph, or the name of a producer.
fn is_model(bytes: &[u8]) -> bool {
    if let [0x08, 1..=31, 0x3a, ..] = bytes {
        return true;
    }
    let [0x08, 1..=31, 0x12, len @ 1..=64, rest @ ..] = bytes else { return false };
    let name = rest.get(..usize::from(*len).min(rest.len())).unwrap_or_default();
    !name.is_empty() && name.iter().all(|c| c.is_ascii_graphic() || *c == b' ')
}
