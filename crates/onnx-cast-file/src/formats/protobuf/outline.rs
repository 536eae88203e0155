//! The outline of a message: its bytes in memory, without the large fields, which stay in the file.
//!
//! One pass with reads at places builds it. A field that stays in the file is marked in its key, by a wire type that
//! protocol buffers do not have, and [`Fields`] gives it as [`FieldValue::Left`]. The lengths of the messages around it
//! are those of their outlines, written in as many bytes as before. So every other byte is where it was, but for the
//! values that are left out before it, and each part of an outline has its place in the file.

use super::wire::{Field, FieldHead, FieldValue, Fields, LARGE, LEFT, WireError};
use crate::io::error::IoError;
use crate::io::positional::InputFile;
use std::borrow::Cow;
use std::io;
use std::ops::Range;
use std::path::Path;
use thiserror::Error;

/// What a kind of message holds, as far as its outline needs it.
#[derive(Debug)]
pub struct Schema {
    /// The fields that hold messages to be read field by field, and what these hold.
    pub messages: &'static [(u32, &'static Schema)],
    /// The fields that stay in the file where they are large.
    pub left: &'static [u32],
}

/// An outline that cannot be read.
#[derive(Debug, Error)]
pub enum OutlineError {
    /// The file cannot be read.
    #[error(transparent)]
    Io(#[from] IoError),
    /// The bytes are not a message.
    #[error(transparent)]
    Wire(#[from] WireError),
}

/// Where a message is.
#[derive(Clone, Copy, Debug)]
pub enum Backing<'a> {
    /// A file that stays open.
    File(&'a InputFile),
    /// Bytes in memory.
    Memory(&'a [u8]),
}

impl<'a> Backing<'a> {
    fn len(self) -> u64 {
        match self {
            Backing::File(file) => file.len(),
            Backing::Memory(bytes) => bytes.len() as u64,
        }
    }

    fn read(self, at: u64, len: u64) -> Result<Cow<'a, [u8]>, IoError> {
        match self {
            Backing::File(file) => file.read(at, len).map(Cow::Owned),
            Backing::Memory(bytes) => Ok(Cow::Borrowed(part(bytes, at, len)?)),
        }
    }

    fn append(self, at: u64, len: u64, to: &mut Vec<u8>) -> Result<(), IoError> {
        match self {
            Backing::File(file) => file.append(at, len, to),
            Backing::Memory(bytes) => append(to, part(bytes, at, len)?),
        }
    }
}

fn in_memory(kind: io::ErrorKind) -> IoError {
    IoError::new(Path::new("memory"), "read", kind.into())
}

fn part(bytes: &[u8], at: u64, len: u64) -> Result<&[u8], IoError> {
    let left = usize::try_from(at).ok().and_then(|at| bytes.get(at..));
    let part = left.and_then(|left| left.get(..usize::try_from(len).ok()?));
    part.ok_or_else(|| in_memory(io::ErrorKind::UnexpectedEof))
}

fn append(to: &mut Vec<u8>, bytes: &[u8]) -> Result<(), IoError> {
    to.try_reserve(bytes.len()).map_err(|_| in_memory(io::ErrorKind::OutOfMemory))?;
    to.extend_from_slice(bytes);
    Ok(())
}

/// The outline of a message.
#[derive(Debug)]
pub struct Outline<'a> {
    /// The file, or the memory, that has the whole message.
    pub backing: Backing<'a>,
    /// The message with its large fields left out.
    pub bytes: Vec<u8>,
    /// The places where values are left out, and how many bytes are, up to each.
    cuts: Vec<(usize, u64)>,
}

/// Messages within messages, as other readers limit them. What is deeper is not read field by field.
const MAX_DEPTH: u32 = 100;

impl<'a> Outline<'a> {
    /// Reads the outline of a message.
    ///
    /// # Errors
    /// Where the file cannot be read, or is not such a message.
    pub fn of(backing: Backing<'a>, schema: &Schema) -> Result<Self, OutlineError> {
        let mut outline = Outline::new(backing);
        outline.fill(schema)?;
        Ok(outline)
    }

    pub(crate) fn new(backing: Backing<'a>) -> Self {
        Outline { backing, bytes: Vec::new(), cuts: Vec::new() }
    }

    /// As [`Outline::of`]; where it fails, what was read before is here.
    pub(crate) fn fill(&mut self, schema: &Schema) -> Result<(), OutlineError> {
        let window = match self.backing {
            Backing::File(_) => Cow::Borrowed(&[][..]),
            Backing::Memory(bytes) => Cow::Borrowed(bytes),
        };
        let reader = &mut Reader { outline: self, window, start: 0, size: 0 };
        reader.message(schema, 0..reader.outline.backing.len(), 0)
    }

    fn left(&self) -> u64 {
        self.cuts.last().map_or(0, |&(_, left)| left)
    }

    /// The place in the file of a byte of the outline.
    fn at(&self, byte: usize) -> u64 {
        let before = self.cuts.partition_point(|&(cut, _)| cut <= byte);
        byte as u64 + before.checked_sub(1).map_or(0, |last| self.cuts[last].1)
    }

    /// The place in the file of a part of the outline, with what is left out of it; `None` of other bytes.
    pub fn place(&self, part: &[u8]) -> Option<Range<u64>> {
        let start = (part.as_ptr() as usize).wrapping_sub(self.bytes.as_ptr() as usize);
        let end = start.checked_add(part.len()).filter(|&end| end <= self.bytes.len())?;
        Some(self.at(start)..self.at(end))
    }

    /// The place in the file of the value of a field that holds bytes.
    pub fn value_at(&self, field: &Field<'_>) -> Option<u64> {
        let len = match field.value {
            FieldValue::Bytes(bytes) => bytes.len() as u64,
            FieldValue::Left(len) => len,
            _ => return None,
        };
        self.place(field.span)?.end.checked_sub(len)
    }

    /// Whether all of a part of the outline is in memory.
    pub fn is_whole(&self, part: &[u8]) -> bool {
        self.place(part).is_none_or(|place| place.end - place.start == part.len() as u64)
    }

    /// A message of the outline as it is in the file.
    ///
    /// # Errors
    /// Where the file cannot be read.
    pub fn whole<'b>(&self, message: &'b [u8]) -> Result<Cow<'b, [u8]>, IoError>
    where
        'a: 'b,
    {
        match self.place(message) {
            Some(place) if !self.is_whole(message) => self.backing.read(place.start, place.end - place.start),
            _ => Ok(Cow::Borrowed(message)),
        }
    }
}

/// Reads on from place to place, through a window.
struct Reader<'r, 'a> {
    outline: &'r mut Outline<'a>,
    window: Cow<'a, [u8]>,
    /// Where the window starts.
    start: u64,
    /// Bytes that were asked for last.
    size: u64,
}

/// Bytes to be read at once: few behind a value that was left out, where another may follow, and more the longer none
/// is.
const WINDOWS: Range<u64> = 4 << 10..256 << 10;

impl Reader<'_, '_> {
    /// The next bytes, enough for the head of a field unless the end comes first.
    fn ahead(&mut self, at: u64, end: u64) -> Result<&[u8], IoError> {
        let behind = self.start + self.window.len() as u64;
        let all = self.outline.backing.len();
        if behind < all && behind < at + FieldHead::MOST as u64 {
            self.size = if at > behind { WINDOWS.start } else { (self.size * 2).clamp(WINDOWS.start, WINDOWS.end) };
            self.window = self.outline.backing.read(at, self.size.min(all - at))?;
            self.start = at;
        }
        let ahead = self.window.get((at - self.start) as usize..).unwrap_or_default();
        let len = usize::try_from(end - at).unwrap_or(usize::MAX).min(FieldHead::MOST);
        Ok(&ahead[..ahead.len().min(len)])
    }

    /// Appends bytes of the file to the outline.
    fn copy(&mut self, at: u64, len: u64) -> Result<(), IoError> {
        match part(&self.window, at - self.start, len) {
            Ok(bytes) => append(&mut self.outline.bytes, bytes),
            Err(_) => self.outline.backing.append(at, len, &mut self.outline.bytes),
        }
    }

    fn message(
        &mut self,
        schema: &Schema,
        Range { start: mut at, end }: Range<u64>,
        depth: u32,
    ) -> Result<(), OutlineError> {
        while at < end {
            let Some(head) = FieldHead::read(self.ahead(at, end)?)? else {
                at = self.group(at, end)?;
                continue;
            };
            let value = at + head.start as u64;
            let wrong =
                || WireError::Length { claimed: head.len, left: usize::try_from(end - value).unwrap_or(usize::MAX) };
            let next = value.checked_add(head.len).filter(|&next| next <= end).ok_or_else(wrong)?;
            let inner =
                schema.messages.iter().find(|(number, _)| head.bytes && depth < MAX_DEPTH && *number == head.number);
            let key = self.outline.bytes.len();
            self.copy(at, head.start as u64)?;
            if let Some((_, inner)) = inner {
                let (start, left) = (self.outline.bytes.len(), self.outline.left());
                self.message(inner, value..next, depth + 1)?;
                if self.outline.left() > left {
                    let len = self.outline.bytes.len() - start;
                    set_len(&mut self.outline.bytes[key..start], len);
                }
            } else if head.bytes && head.len >= LARGE && schema.left.contains(&head.number) {
                self.outline.bytes[key] |= LEFT;
                let cut = (self.outline.bytes.len(), self.outline.left() + head.len);
                self.outline.cuts.push(cut);
            } else {
                self.copy(value, head.len)?;
            }
            at = next;
        }
        Ok(())
    }

    /// Copies a group, which ONNX does not use; returns where it ends.
    fn group(&mut self, at: u64, end: u64) -> Result<u64, OutlineError> {
        let mut len = WINDOWS.end;
        loop {
            let bytes = self.outline.backing.read(at, len.min(end - at))?;
            match Fields::new(&bytes).next() {
                Some(Ok(field)) => {
                    append(&mut self.outline.bytes, field.span)?;
                    return Ok(at + field.span.len() as u64);
                }
                Some(Err(error)) if len >= end - at => return Err(error.into()),
                _ => len = len.saturating_mul(2),
            }
        }
    }
}

/// Another length in the key and the length of a field, of as many bytes.
fn set_len(head: &mut [u8], mut len: usize) {
    let number = head.iter().take_while(|&&byte| byte >= 0x80).count() + 1;
    for byte in &mut head[number..] {
        *byte = *byte & 0x80 | (len & 0x7f) as u8;
        len >>= 7;
    }
}

#[cfg(test)]
mod tests {
    use super::super::wire::{last, put_bytes, put_int};
    use super::*;

    static OUTER: Schema = Schema { messages: &[(1, &OUTER), (2, &INNER)], left: &[] };
    static INNER: Schema = Schema { messages: &[], left: &[9] };

    /// A message within messages: a name, a value of `len` bytes, an unknown field, and a number.
    fn message(len: usize) -> Vec<u8> {
        let (mut inner, mut middle, mut outer) = (Vec::new(), Vec::new(), Vec::new());
        put_bytes(&mut inner, 8, b"name");
        put_bytes(&mut inner, 9, &vec![7; len]);
        put_bytes(&mut inner, 900, &vec![8; 300]);
        put_bytes(&mut middle, 2, &inner);
        put_int(&mut middle, 3, 5);
        put_bytes(&mut outer, 1, &middle);
        put_bytes(&mut outer, 1, &middle);
        outer
    }

    #[test]
    fn every_part_has_its_place() {
        for len in [0, 1, 127, 4095, 4096, 20_000, 300_000] {
            let whole = message(len);
            let file = InputFile::other(Path::new("m"), whole.len() as u64, whole.clone());
            for backing in [Backing::File(&file), Backing::Memory(&whole)] {
                let outline = Outline::of(backing, &OUTER).expect("an outline");
                assert_eq!(outline.bytes.len() < whole.len(), len >= 4096, "{len}");
                for field in Fields::new(&outline.bytes) {
                    let field = field.expect("a field");
                    let middle = field.value.bytes().expect("a message");
                    assert_eq!(*outline.whole(middle).expect("read"), *middle_of(&whole), "{len}");
                    assert_eq!(last(middle, 3, FieldValue::int), Ok(Some(5)));
                    let inner = last(middle, 2, FieldValue::bytes).expect("a message").expect("it is there");
                    for field in Fields::new(inner) {
                        let field = field.expect("a field");
                        let at = outline.value_at(&field).expect("its place") as usize;
                        match (field.number, field.value) {
                            (8, _) => assert_eq!(whole[at..at + 4], *b"name"),
                            (9, FieldValue::Left(left)) => {
                                assert_eq!((left, &whole[at..at + len]), (len as u64, &*vec![7; len]))
                            }
                            (9, value) => assert_eq!(value, FieldValue::Bytes(&vec![7; len])),
                            _ => assert_eq!(whole[at..at + 300], [8; 300]),
                        }
                    }
                }
                assert_eq!(outline.place(&outline.bytes), Some(0..whole.len() as u64));
            }
        }
    }

    fn middle_of(whole: &[u8]) -> &[u8] {
        last(whole, 1, FieldValue::bytes).expect("a message").expect("it is there")
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let of = |bytes: &[u8]| Outline::of(Backing::Memory(bytes), &OUTER).map(|outline| outline.bytes);
        let whole = message(5000);
        for end in 1..whole.len() {
            let got = of(&whole[..end]);
            assert_eq!(got.is_err(), Fields::new(&whole[..end]).any(|field| field.is_err()), "{end}");
        }
        // The mark of a value that is left out is a wire type that does not exist.
        for bytes in
            [&[9 << 3 | 7, 0x80, 0x20][..], &[2 << 3 | 2, 3, 9 << 3 | 7, 0x80, 0x20], &[0x0c], &[0x0b], &[0x00]]
        {
            assert!(matches!(of(bytes), Err(OutlineError::Wire(_))), "{bytes:?}");
        }
        let group = [0x0b, 0x10, 0x01, 0x13, 0x14, 0x0c, 0x18, 0x05];
        assert_eq!(of(&group).expect("an outline"), group);
    }

    #[test]
    fn a_file_cut_short_meanwhile_is_an_error() {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        io::Write::write_all(&mut file, &message(50_000)).expect("written");
        let input = InputFile::open(file.path()).expect("opened");
        let outline = Outline::of(Backing::File(&input), &OUTER).expect("an outline");
        file.as_file().set_len(1000).expect("cut");
        assert!(outline.whole(&outline.bytes).is_err());
        assert!(Outline::of(Backing::File(&input), &OUTER).is_err());
    }
}
