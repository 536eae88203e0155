//! `.npz`: arrays in a zip archive, `x.npy` for the array `x`, stored or deflated.
//!
//! Members are read as streams, so that nothing is taken on the word of the archive's directory: a member of another
//! length or checksum than it claims is an error when it is read to its end, before the output appears.

use crate::formats::error::{FormatError, Invalid, InvalidKind};
use crate::io::memory::room_for;
use crate::io::positional::{InputFile, PositionedReader};
use crate::text::{Short, Wording};
use std::collections::HashSet;
use std::io::{self, Read};
use zip::result::ZipError;
use zip::{CompressionMethod, ZipArchive};

/// An archive, over a file.
pub(crate) type Archive<'a> = ZipArchive<PositionedReader<'a>>;

/// A member of an archive.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its place in the archive.
    pub index: usize,
    /// Where the elements start, behind the array's own header.
    pub start: u64,
    /// Opens the archive and reads the member. A program that opens no archives has no code for them: what only holds
    /// members does not name it.
    read: ReadMember,
}

/// Hands the elements of a member to a function, which says whether to read on to the member's end.
type ReadMember = fn(&InputFile, &Member, &mut dyn FnMut(&mut (dyn Read + Send)) -> bool) -> Result<(), FormatError>;

impl Member {
    pub(crate) fn new(index: usize, start: u64) -> Member {
        let read: ReadMember = |file, member, read| {
            with_elements(file, &mut open(file)?, member, |reader| match read(reader) {
                true => Ok(()),
                false => Err(FormatError::io(file.path(), "read", io::ErrorKind::Interrupted.into())),
            })
        };
        Member { index, start, read }
    }

    /// Hands the elements to a function, which reads all of them.
    pub(crate) fn with_elements<E: From<FormatError>>(
        &self,
        file: &InputFile,
        read: impl FnOnce(&mut (dyn Read + Send)) -> Result<(), E>,
    ) -> Result<(), E> {
        let (mut read, mut done) = (Some(read), Ok(()));
        let ended = (self.read)(file, self, &mut |reader| {
            done = read.take().map_or(Ok(()), |read| read(reader));
            done.is_ok()
        });
        done?;
        Ok(ended?)
    }
}

pub(crate) fn error(file: &InputFile, error: ZipError) -> FormatError {
    match error {
        ZipError::Io(error) => FormatError::io(file.path(), "read", error),
        error => invalid(file, InvalidKind::Syntax, format!("the archive is not valid: {error}")),
    }
}

fn invalid(file: &InputFile, kind: InvalidKind, what: impl Into<Wording>) -> FormatError {
    FormatError::invalid(file.path(), Invalid::new(kind, what))
}

/// Opens an archive, each of whose members has a name of its own.
pub(crate) fn open(file: &InputFile) -> Result<Archive<'_>, FormatError> {
    let archive = ZipArchive::new(PositionedReader::new(file)).map_err(|problem| error(file, problem))?;
    // The reader keeps the last of several members of a name, as numpy does; the others would be lost.
    if archive.has_duplicate_names() {
        let member = first_twice(file, archive.central_directory_start())?;
        let what = format!("member `{}` twice, of which only one could be read", Short(&member));
        return Err(invalid(file, InvalidKind::Name, what));
    }
    Ok(archive)
}

/// Refuses an archive whose members share bytes, which would stand for any number of arrays.
pub(crate) fn check_overlaps(file: &InputFile, archive: &mut Archive<'_>) -> Result<(), FormatError> {
    match archive.has_overlapping_entries().map_err(|problem| error(file, problem))? {
        true => {
            let what = "members that overlap: the same bytes would be several arrays";
            Err(invalid(file, InvalidKind::Size, what))
        }
        false => Ok(()),
    }
}

/// The first name that an archive's directory, which starts at a place, has twice.
fn first_twice(file: &InputFile, mut at: u64) -> Result<String, FormatError> {
    /// Signature, fields and the lengths of name, extra fields and comment, at 28, 30 and 32.
    const HEAD: u64 = 46;
    let mut seen = HashSet::new();
    while at + HEAD <= file.len() {
        let head = file.read(at, HEAD)?;
        let word =
            |place: usize| head.get(place..place + 2).map_or(0, |word| u64::from(word[0]) | u64::from(word[1]) << 8);
        if !head.starts_with(b"PK\x01\x02") {
            break;
        }
        let name = String::from_utf8_lossy(&file.read(at + HEAD, word(28).min(file.len() - at - HEAD))?).into_owned();
        if !seen.insert(name.clone()) {
            return Ok(name);
        }
        at += HEAD + word(28) + word(30) + word(32);
    }
    Ok(String::new())
}

/// Whether a member is deflated.
pub(crate) fn is_deflated(file: &InputFile, archive: &mut Archive<'_>, index: usize) -> Result<bool, FormatError> {
    let member = archive.by_index_raw(index).map_err(|problem| error(file, problem))?;
    Ok(member.compression() == CompressionMethod::Deflated)
}

/// Whether there is memory for the tables of what deflates or inflates, which panics where there is none.
pub(crate) fn room_for_tables() -> io::Result<()> {
    /// More than both take.
    const TABLES: usize = 1 << 20;
    room_for(TABLES)
}

/// Hands a member's array to a function: its name, its length and its bytes.
pub(crate) fn with_member<T, E: From<FormatError>>(
    file: &InputFile,
    archive: &mut Archive<'_>,
    index: usize,
    read: impl FnOnce(String, u64, &mut (dyn Read + Send)) -> Result<T, E>,
) -> Result<T, E> {
    room_for_tables().map_err(|error| FormatError::io(file.path(), "read", error))?;
    let mut member = archive.by_index(index).map_err(|problem| error(file, problem))?;
    let name = member.name().map_err(|problem| error(file, problem))?.into_owned();
    let known = [CompressionMethod::Stored, CompressionMethod::Deflated].contains(&member.compression());
    if !known || member.encrypted() {
        let what = "is encrypted or not compressed by deflate, which is not read";
        return Err(invalid(file, InvalidKind::Unsupported, format!("member `{}` {what}", Short(&name))).into());
    }
    let Some(array) = name.strip_suffix(".npy").map(str::to_owned) else {
        let what = "is not an array (want a name that ends in .npy)";
        return Err(invalid(file, InvalidKind::Name, format!("member `{}` {what}", Short(&name))).into());
    };
    let len = member.size();
    // It gives an error in place of a byte more than it claims.
    read(array, len, &mut member)
}

/// Hands the elements of a member's array to a function, which reads all of them.
pub(crate) fn with_elements<E: From<FormatError>>(
    file: &InputFile,
    archive: &mut Archive<'_>,
    member: &Member,
    read: impl FnOnce(&mut (dyn Read + Send)) -> Result<(), E>,
) -> Result<(), E> {
    let failed = |error| FormatError::io(file.path(), "read", error);
    with_member(file, archive, member.index, |_, _, reader| {
        skip(reader, member.start).map_err(failed)?;
        read(reader)?;
        Ok(finish(reader).map_err(failed)?)
    })
}

/// Reads a member's end, where its checksum is compared.
pub(crate) fn finish(member: &mut dyn Read) -> io::Result<()> {
    match member.read(&mut [0])? {
        0 => Ok(()),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "a member of the archive is longer than it claims")),
    }
}

/// Steps over bytes of a member.
fn skip(member: &mut dyn Read, len: u64) -> io::Result<()> {
    let skipped = io::copy(&mut member.take(len), &mut io::sink())?;
    if skipped == len { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// A read that failed here once had the member stored, silently.
    #[test]
    fn how_a_member_is_compressed_is_not_guessed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.npz");
        let mut zip = zip::ZipWriter::new(std::fs::File::create(&path).expect("a file"));
        let options = zip::write::SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
        zip.start_file("a.npy", options).expect("a member");
        zip.write_all(&[7; 1000]).expect("its bytes");
        zip.finish().expect("the end");
        let file = InputFile::open(&path).expect("opened");
        // An archive remembers a member that it has seen.
        assert!(is_deflated(&file, &mut open(&file).expect("an archive"), 0).expect("read"));
        let mut archive = open(&file).expect("an archive");
        std::fs::File::options().write(true).open(&path).and_then(|file| file.set_len(0)).expect("cut");
        let error = is_deflated(&file, &mut archive, 0).expect_err("it is gone").to_string();
        assert!(error.contains("x.npz"), "{error}");
    }
}
