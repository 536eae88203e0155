//! `.npz`: arrays in a zip archive, `x.npy` for the array `x`, stored or deflated. `write.rs` writes one. Members that
//! are no arrays are kept.
//!
//! Members are read as streams, so that nothing is taken on the word of the archive's directory: a member of another
//! length or checksum than it claims is an error when it is read to its end, before the output appears.

mod write;

use crate::formats::error::{FormatError, Invalid, InvalidKind};
use crate::formats::limits::MAX_HEADER;
use crate::io::memory::room_for;
use crate::io::positional::{InputFile, PositionedReader};
use crate::text::Short;
use flate2::Crc;
use flate2::read::DeflateDecoder;
use std::collections::HashSet;
use std::io::{self, Read};

pub(crate) use write::ArchiveWriter;

/// Bytes of the record at the end, of one that points to a record of 64 bits, of that record, of what the directory
/// says of a member, and of the header before it, without names and comments.
const END: u64 = 22;
const POINTER: u64 = 20;
const WIDE_END: u64 = 56;
const ENTRY: usize = 46;
const HEADER: u64 = 30;

/// A member of an archive.
#[derive(Clone, Debug)]
pub struct Member {
    /// The name in the archive.
    pub(crate) file_name: String,
    pub(crate) is_deflated: bool,
    /// What the archive claims, of the array with its header.
    pub(crate) len: u64,
    crc: u32,
    /// Where its bytes are in the archive, and how many.
    at: u64,
    packed: u64,
    /// Where the elements start, behind the array's own header.
    pub(crate) start: u64,
    /// Opens the member. A program that opens no archives has no code for them: what only holds members does not name
    /// it.
    open: OpenMember,
}

type OpenMember = for<'f> fn(&'f InputFile, &Member) -> Box<dyn Read + Send + 'f>;

impl Member {
    /// The name of the array; `None` if the member is no array.
    pub(crate) fn array_name(&self) -> Option<&str> {
        self.file_name.strip_suffix(".npy")
    }

    /// The same member, whose elements start at this byte of the array.
    pub(crate) fn starting_at(self, start: u64) -> Member {
        Member { start, ..self }
    }

    /// Hands the whole array to a function.
    pub(crate) fn with_array<T, E: From<FormatError>>(
        &self,
        file: &InputFile,
        read: impl FnOnce(&mut (dyn Read + Send)) -> Result<T, E>,
    ) -> Result<T, E> {
        room_for_tables().map_err(|error| FormatError::io(file.path(), "read", error))?;
        read(&mut *(self.open)(file, self))
    }

    /// Hands the elements to a function, which reads all of them.
    pub(crate) fn with_elements<E: From<FormatError>>(
        &self,
        file: &InputFile,
        read: impl FnOnce(&mut (dyn Read + Send)) -> Result<(), E>,
    ) -> Result<(), E> {
        let failed = |error| FormatError::io(file.path(), "read", error);
        self.with_array(file, |reader| {
            io::copy(&mut reader.take(self.start), &mut io::sink()).map_err(failed)?;
            read(reader)?;
            Ok(finish(reader).map_err(failed)?)
        })
    }

    /// Where the elements are in the archive, if they are there as they are.
    pub(crate) fn place(&self) -> Option<u64> {
        (!self.is_deflated).then_some(self.at + self.start)
    }
}

/// Makes sure that the tables of flate2 can be allocated: it panics where they cannot.
pub(crate) fn room_for_tables() -> io::Result<()> {
    /// More than both take.
    const TABLES: usize = 1 << 20;
    room_for(TABLES)
}

/// Reads a member's end, where its checksum is compared.
pub(crate) fn finish(member: &mut dyn Read) -> io::Result<()> {
    if member.read(&mut [0])? == 0 { Ok(()) } else { Err(claims("longer")) }
}

fn claims(is: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("a member of the archive is {is} than it claims"))
}

/// The bytes of a member, with what it claims that comes behind them.
struct Checked<R> {
    bytes: R,
    left: u64,
    crc: Crc,
    want: u32,
}

impl<R: Read> Read for Checked<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.bytes.read(bytes)?;
        self.crc.update(&bytes[..read]);
        self.left = self.left.checked_sub(read as u64).ok_or_else(|| claims("longer"))?;
        if read == 0 && !bytes.is_empty() {
            if self.left > 0 {
                return Err(claims("shorter"));
            }
            if self.crc.sum() != self.want {
                let what = "a member of the archive does not match its checksum";
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
            }
        }
        Ok(read)
    }
}

fn open<'f>(file: &'f InputFile, member: &Member) -> Box<dyn Read + Send + 'f> {
    let &Member { len: left, crc: want, at, packed, .. } = member;
    let (bytes, crc) = (PositionedReader::from(file, at).take(packed), Crc::new());
    match member.is_deflated {
        true => Box::new(Checked { bytes: DeflateDecoder::new(bytes), left, crc, want }),
        false => Box::new(Checked { bytes, left, crc, want }),
    }
}

/// The error for an archive with the members `x` and `x.npy`. `name` is the name of the second.
pub(crate) fn shadowed(name: &str) -> String {
    let short = name.strip_suffix(".npy").unwrap_or(name);
    format!("members `{}` and `{}` have one name for numpy, which loads one of them", Short(short), Short(name))
}

/// Returns the members of an archive. Names are unique, and members do not overlap.
pub(crate) fn entries(file: &InputFile) -> Result<Vec<Member>, FormatError> {
    let (count, len, at) = directory(file)?;
    if len > MAX_HEADER || at.checked_add(len).is_none_or(|end| end > file.len()) {
        return Err(broken(file, "a directory of an impossible length"));
    }
    let directory = file.read(at, len)?;
    let (mut rest, mut members, mut heads, mut places) = (&directory[..], Vec::new(), Vec::new(), vec![(at, at)]);
    while !rest.is_empty() {
        let (member, from) = take_entry(file, &mut rest)?;
        places.push((from, member.at.saturating_add(member.packed)));
        heads.push(from);
        members.push(member);
    }
    let mut names: Vec<&str> = members.iter().map(|member| &*member.file_name).collect();
    names.sort_unstable();
    if let Some([name, ..]) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        let what = format!("member `{}` appears twice", Short(name));
        return Err(invalid(file, InvalidKind::Name, what));
    }
    if members.len() as u64 != count {
        return Err(broken(file, "a directory of another number of members than it claims"));
    }
    places.sort_unstable();
    if places.windows(2).any(|pair| pair[0].1 > pair[1].0) || places.last() != Some(&(at, at)) {
        let what = "members that overlap: the same bytes would be several arrays";
        return Err(invalid(file, InvalidKind::Size, what));
    }
    for (member, head) in members.iter().zip(heads) {
        // The header before a member has its name, too.
        let name = member.file_name.as_bytes();
        let is_same = number(&file.read(head, HEADER)?, 26, 2) == name.len() as u64;
        if !is_same || file.read(head + HEADER, name.len() as u64)? != name {
            return Err(broken(file, "a member whose name is another in the directory"));
        }
    }
    Ok(members)
}

/// Returns the members of an archive of arrays. An archive that has members but no array is an error.
pub(crate) fn members(file: &InputFile) -> Result<Vec<Member>, FormatError> {
    let members = entries(file)?;
    let names: HashSet<&str> = members.iter().map(|member| &*member.file_name).collect();
    // numpy names the member `x.npy` `x`.
    let is_shadowed = |member: &&Member| member.array_name().is_some_and(|short| names.contains(short));
    if let Some(member) = members.iter().find(is_shadowed) {
        return Err(invalid(file, InvalidKind::Name, shadowed(&member.file_name)));
    }
    if let (true, Some(member)) = (members.iter().all(|member| member.array_name().is_none()), members.first()) {
        let what = "is not an array (want a name that ends in .npy)";
        return Err(invalid(file, InvalidKind::Name, format!("member `{}` {what}", Short(&member.file_name))));
    }
    Ok(members)
}

/// How many members an archive has, and how long its directory is and where, by the record at its end.
fn directory(file: &InputFile) -> Result<(u64, u64, u64), FormatError> {
    let missing = || broken(file, "no directory at the end");
    let from = file.len().saturating_sub(END + u64::from(u16::MAX));
    let tail = file.read(from, file.len() - from)?;
    let last = (tail.len() as u64).checked_sub(END).ok_or_else(missing)?;
    let end = (0..=last as usize).rev().find(|&at| tail[at..].starts_with(b"PK\x05\x06")).ok_or_else(missing)?;
    let pointer = (from + end as u64).checked_sub(POINTER).map(|at| file.read(at, POINTER)).transpose()?;
    match pointer.filter(|pointer| pointer.starts_with(b"PK\x06\x07")) {
        None => {
            let end = &tail[end..];
            Ok((number(end, 10, 2), number(end, 12, 4), number(end, 16, 4)))
        }
        Some(pointer) => {
            let at = number(&pointer, 8, 8);
            let is_there = at.checked_add(WIDE_END).is_some_and(|end| end <= file.len());
            let end = if is_there { file.read(at, WIDE_END)? } else { Vec::new() };
            if !end.starts_with(b"PK\x06\x06") {
                return Err(missing());
            }
            Ok((number(&end, 32, 8), number(&end, 40, 8), number(&end, 48, 8)))
        }
    }
}

/// Takes what a directory says of a member from its front. Also where the member's header is.
fn take_entry(file: &InputFile, directory: &mut &[u8]) -> Result<(Member, u64), FormatError> {
    let cut = || broken(file, "a truncated directory or member");
    let (entry, rest) = directory.split_at_checked(ENTRY).ok_or_else(cut)?;
    let [name, extra, comment] = [28, 30, 32].map(|at| number(entry, at, 2) as usize);
    let (name, rest) = rest.split_at_checked(name).ok_or_else(cut)?;
    let (mut extra, rest) = rest.split_at_checked(extra).ok_or_else(cut)?;
    *directory = rest.get(comment..).ok_or_else(cut)?;
    let mut wide = [24, 20, 42].map(|at| number(entry, at, 4));
    while let Some((head, rest)) = extra.split_at_checked(4) {
        let (mut field, rest) = rest.split_at_checked(number(head, 2, 2) as usize).ok_or_else(cut)?;
        for value in wide.iter_mut().filter(|value| number(head, 0, 2) == 1 && **value == u64::from(u32::MAX)) {
            let taken;
            (taken, field) = field.split_at_checked(8).ok_or_else(cut)?;
            *value = number(taken, 0, 8);
        }
        extra = rest;
    }
    let [len, packed, from] = wide;
    let header = if from.checked_add(HEADER).is_some_and(|end| end <= file.len()) {
        file.read(from, HEADER)?
    } else {
        Vec::new()
    };
    if !entry.starts_with(b"PK\x01\x02") || !header.starts_with(b"PK\x03\x04") {
        return Err(cut());
    }
    let at = from + HEADER + number(&header, 26, 2) + number(&header, 28, 2);
    if at.checked_add(packed).is_none_or(|end| end > file.len()) {
        return Err(cut());
    }
    let name = str::from_utf8(name).map_err(|_| broken(file, "a name that is not UTF-8"))?;
    let (flags, method) = (number(entry, 8, 2), number(entry, 10, 2));
    if flags & 1 == 1 || ![0, 8].contains(&method) || (method == 0 && len != packed) {
        let what = "is encrypted, or compressed by another method than deflate";
        return Err(invalid(file, InvalidKind::Unsupported, format!("member `{}` {what}", Short(name))));
    }
    let (file_name, crc) = (name.to_owned(), number(entry, 16, 4) as u32);
    Ok((Member { file_name, is_deflated: method == 8, len, crc, at, packed, start: 0, open }, from))
}

/// A number of so many bytes, the lowest first. The bytes are there.
fn number(bytes: &[u8], at: usize, len: usize) -> u64 {
    bytes[at..at + len].iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

fn broken(file: &InputFile, what: &str) -> FormatError {
    invalid(file, InvalidKind::Syntax, format!("the archive is not valid: {what}"))
}

fn invalid(file: &InputFile, kind: InvalidKind, what: impl Into<String>) -> FormatError {
    FormatError::invalid(file.path(), Invalid::new(kind, what.into()))
}
