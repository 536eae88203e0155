//! An archive that is written: members one behind the other, stored or deflated, and the directory of them at the end.

use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};
use std::io::{self, Seek, SeekFrom, Write};

/// The first length or place that a field of 32 bits does not hold. It says that an extra field has it.
const WIDE: u64 = u32::MAX as u64;
/// The same for counts, of 16 bits.
const MANY: u64 = u16::MAX as u64;
/// The version of the format that has extra fields for 64 bits.
const VERSION_64: u64 = 45;
/// What wrote the archive: Unix, whose permissions of a file the directory has.
const UNIX: u64 = 3 << 8;
const PERMISSIONS: u64 = 0o100_644 << 16;
/// The first day that a member can have: 1 January 1980.
const DATE: u64 = 1 << 5 | 1;

/// An archive, empty at first.
pub(crate) struct ArchiveWriter<W> {
    out: W,
    at: u64,
    members: Vec<Entry>,
}

impl<W: Write + Seek> ArchiveWriter<W> {
    pub(crate) fn new(out: W) -> Self {
        ArchiveWriter { out, at: 0, members: Vec::new() }
    }

    /// Starts a member. Only a large one may be longer than fields of 32 bits say.
    ///
    /// # Errors
    /// Where the output fails, or an archive can have no such name.
    pub(crate) fn member(&mut self, name: String, is_deflated: bool, is_large: bool) -> io::Result<Member<'_, W>> {
        if name.len() as u64 > MANY {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the name is too long for an archive"));
        }
        let entry = Entry { name, is_deflated, is_large, crc: 0, packed: 0, len: 0, at: self.at };
        self.out.write_all(&entry.header(false))?;
        let out = Counted { out: &mut self.out, count: 0 };
        let coder = match is_deflated {
            true => Coder::Deflated(DeflateEncoder::new(out, Compression::default())),
            false => Coder::Stored(out),
        };
        Ok(Member { coder, crc: Crc::new(), entry, at: &mut self.at, members: &mut self.members })
    }

    /// Writes the directory.
    ///
    /// # Errors
    /// Where the output fails.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        let mut end: Vec<u8> = self.members.iter().flat_map(|entry| entry.header(true)).collect();
        let (count, len, at) = (self.members.len() as u64, end.len() as u64, self.at);
        if count >= MANY || len.max(at) >= WIDE {
            put(&mut end, &[(0x0606_4b50, 4), (44, 8), (VERSION_64, 2), (VERSION_64, 2), (0, 8)]);
            put(&mut end, &[(count, 8), (count, 8), (len, 8), (at, 8)]);
            put(&mut end, &[(0x0706_4b50, 4), (0, 4), (at + len, 8), (1, 4)]);
        }
        put(&mut end, &[(0x0605_4b50, 4), (0, 4), (count.min(MANY), 2), (count.min(MANY), 2)]);
        put(&mut end, &[(len.min(WIDE), 4), (at.min(WIDE), 4), (0, 2)]);
        self.out.write_all(&end)?;
        self.out.flush()
    }
}

/// A member of an archive.
struct Entry {
    name: String,
    is_deflated: bool,
    /// Whether its lengths are in an extra field.
    is_large: bool,
    crc: u32,
    packed: u64,
    len: u64,
    at: u64,
}

impl Entry {
    /// The header before the member, or what the directory says of it.
    fn header(&self, in_directory: bool) -> Vec<u8> {
        let mut extra = if self.is_large { vec![self.len, self.packed] } else { Vec::new() };
        extra.extend((in_directory && self.at >= WIDE).then_some(self.at));
        let extra_len = if extra.is_empty() { 0 } else { 4 + 8 * extra.len() as u64 };
        let version = if extra_len > 0 { VERSION_64 } else { 10 + 10 * u64::from(self.is_deflated) };
        let (utf8, deflate) = (u64::from(!self.name.is_ascii()) << 11, 8 * u64::from(self.is_deflated));
        let [packed, len] = [self.packed, self.len].map(|len| if self.is_large { WIDE } else { len });
        let mut header = Vec::new();
        match in_directory {
            true => put(&mut header, &[(0x0201_4b50, 4), (UNIX | version, 2)]),
            false => put(&mut header, &[(0x0403_4b50, 4)]),
        }
        put(&mut header, &[(version, 2), (utf8, 2), (deflate, 2), (0, 2), (DATE, 2), (u64::from(self.crc), 4)]);
        put(&mut header, &[(packed, 4), (len, 4), (self.name.len() as u64, 2), (extra_len, 2)]);
        if in_directory {
            put(&mut header, &[(0, 6), (PERMISSIONS, 4), (self.at.min(WIDE), 4)]);
        }
        header.extend(self.name.as_bytes());
        if extra_len > 0 {
            put(&mut header, &[(1, 2), (extra_len - 4, 2)]);
            header.extend(extra.into_iter().flat_map(u64::to_le_bytes));
        }
        header
    }
}

/// Appends numbers, each with how many bytes it has.
fn put(out: &mut Vec<u8>, fields: &[(u64, usize)]) {
    fields.iter().for_each(|&(value, len)| out.extend(&value.to_le_bytes()[..len]));
}

/// A member while it is written.
pub(crate) struct Member<'a, W: Write> {
    coder: Coder<'a, W>,
    crc: Crc,
    entry: Entry,
    at: &'a mut u64,
    members: &'a mut Vec<Entry>,
}

enum Coder<'a, W: Write> {
    Stored(Counted<'a, W>),
    Deflated(DeflateEncoder<Counted<'a, W>>),
}

/// An output, and how many bytes it got.
struct Counted<'a, W> {
    out: &'a mut W,
    count: u64,
}

impl<W: Write + Seek> Member<'_, W> {
    /// Ends the member: its header gets its lengths and its checksum.
    ///
    /// # Errors
    /// Where the output fails, or the member is longer than it may be.
    pub(crate) fn finish(self) -> io::Result<()> {
        let Member { coder, crc, entry, at, members } = self;
        let Counted { out, count } = match coder {
            Coder::Stored(out) => out,
            Coder::Deflated(encoder) => encoder.finish()?,
        };
        let entry = Entry { crc: crc.sum(), packed: count, ..entry };
        if !entry.is_large && entry.len.max(count) >= WIDE {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a member of an archive is longer than 4 GiB"));
        }
        let header = entry.header(false);
        out.seek(SeekFrom::Start(*at))?;
        out.write_all(&header)?;
        *at += header.len() as u64 + count;
        out.seek(SeekFrom::Start(*at))?;
        members.push(entry);
        Ok(())
    }
}

impl<W: Write> Write for Member<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match &mut self.coder {
            Coder::Stored(out) => out.write(bytes)?,
            Coder::Deflated(encoder) => encoder.write(bytes)?,
        };
        self.crc.update(&bytes[..written]);
        self.entry.len += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<W: Write> Write for Counted<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.count += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Cursor, Read};
    use zip::{CompressionMethod, ZipArchive};

    /// Writes two members.
    fn write<W: Write + Seek>(mut archive: ArchiveWriter<W>) -> io::Result<()> {
        for (name, is_deflated, is_large) in [("a", false, false), ("\u{e9}", true, true)] {
            let mut member = archive.member(name.to_owned(), is_deflated, is_large)?;
            member.write_all(&[7; 1000])?;
            member.finish()?;
        }
        archive.finish()
    }

    fn check(archive: impl Read + Seek) {
        let mut archive = ZipArchive::new(archive).expect("an archive");
        assert_eq!(archive.len(), 2);
        for (index, name, method) in [(0, "a", CompressionMethod::Stored), (1, "\u{e9}", CompressionMethod::Deflated)] {
            let mut member = archive.by_index(index).expect("a member");
            assert_eq!((&*member.name().expect("a name"), member.compression()), (name, method));
            let mut bytes = Vec::new();
            member.read_to_end(&mut bytes).expect("its bytes, of its checksum");
            assert_eq!(bytes, [7; 1000]);
        }
    }

    #[test]
    fn members_come_back() {
        let mut bytes = Cursor::new(Vec::new());
        write(ArchiveWriter::new(&mut bytes)).expect("written");
        check(bytes);
        let mut file = tempfile::tempfile().expect("a file");
        let at = 5 << 30;
        file.seek(SeekFrom::Start(at)).expect("a place beyond 32 bits");
        write(ArchiveWriter { out: &mut file, at, members: Vec::new() }).expect("written");
        check(file);
    }

    #[test]
    fn counts_and_names_of_more_than_16_bits() {
        let mut bytes = Cursor::new(Vec::new());
        let mut archive = ArchiveWriter::new(&mut bytes);
        (0..=MANY).for_each(|n| archive.member(n.to_string(), false, false).and_then(Member::finish).expect("written"));
        assert!(archive.member("n".repeat(1 << 16), false, false).is_err());
        archive.finish().expect("written");
        assert_eq!(ZipArchive::new(bytes).expect("an archive").len() as u64, MANY + 1);
    }

    /// Memory, of which one call fails.
    struct Fails(Cursor<Vec<u8>>, usize);

    impl Fails {
        fn call(&mut self) -> io::Result<&mut Cursor<Vec<u8>>> {
            self.1 = self.1.checked_sub(1).ok_or_else(|| io::Error::other("no more calls"))?;
            Ok(&mut self.0)
        }
    }

    impl Write for Fails {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.call()?.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            self.call()?.flush()
        }
    }

    impl Seek for Fails {
        fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
            self.call()?.seek(to)
        }
    }

    #[test]
    fn a_failure_of_each_call_is_told() {
        let calls = (0..100).take_while(|&calls| {
            let done = write(ArchiveWriter::new(Fails(Cursor::default(), calls)));
            done.is_err_and(|error| error.to_string() == "no more calls")
        });
        assert_eq!(calls.count(), 12);
    }
}
