//! A strided view of items in a file, which is read in C order. Examples are transposed matrices, slices, and tensors
//! that repeat elements. Memory use is constant, whatever the order of the items in the file.

pub(crate) mod columns;
pub(crate) mod transpose;

use crate::io::memory::zeros;
use crate::io::positional::{InputFile, ReadAt};
use columns::Columns;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

/// Max number of items that are read at once.
const ITEMS: u64 = 1 << 18;
/// Max number of bytes of one read from which several items are gathered.
const SPAN: u64 = 1 << 20;
/// Max gap between two items, in bytes, that is read instead of skipped.
const GAP: u64 = 4096;

/// A view of items in a file. The caller has checked that every item is within the file.
#[derive(Debug)]
pub(crate) struct Strided {
    file: InputFile,
    /// Offset of the first item, in bytes.
    at: u64,
    /// Bytes per item.
    size: u64,
    /// Number of items.
    len: u64,
    /// Bytes per big-endian word; 1 if the items are little endian.
    swap: usize,
    /// Size and stride of each dimension, in items. Adjacent dimensions are merged where possible.
    dims: Vec<(u64, u64)>,
    /// Transposes the items of `dims`, in which the dimension with the smallest stride was moved to the end; `None` if
    /// it was last.
    columns: Option<Columns>,
    /// Number of items that were read. Once all were, the cached slab of `columns` is freed.
    done: AtomicU64,
}

/// Consecutive items: index of the first one in the file, its index in the result, and their number.
type Run = (u64, u64, u64);

impl Strided {
    pub(crate) fn new(file: InputFile, at: u64, size: usize, swap: usize, shape: &[u64], strides: &[u64]) -> Self {
        let mut dims = joined(shape.iter().copied().zip(strides.iter().copied()));
        let len = dims.iter().map(|(dim, _)| dim).product();
        let nearest = (0..dims.len()).filter(|&at| dims[at].1 > 0).min_by_key(|&at| (dims[at].1, dims.len() - at));
        let behind = nearest.map_or(&[][..], |at| &dims[at + 1..]);
        let rows = usize::try_from(behind.iter().map(|(dim, _)| dim).product::<u64>()).ok();
        let fits = usize::try_from(len).is_ok_and(|len| len.checked_mul(size).is_some());
        let mut columns = None;
        if let (Some(nearest), Some(rows), true) = (nearest, rows, fits && !behind.is_empty()) {
            let moved = dims.remove(nearest);
            let are_apart = dims.len() > nearest + 1 || dims[nearest].1 != moved.0;
            columns = Some(Columns::new([rows, moved.0 as usize], size).with_rows_apart(are_apart));
            dims.push(moved);
            dims = joined(dims.into_iter());
        }
        Strided { file, at, size: size as u64, len, swap, dims, columns, done: AtomicU64::new(0) }
    }

    /// Wraps the view as a file; `None` if its size overflows.
    pub(crate) fn into_file(self) -> Option<InputFile> {
        let len = self.len.checked_mul(self.size)?;
        let path = self.file.path().to_owned();
        Some(InputFile::other(&path, len, self))
    }

    /// Returns whether the items are consecutive in the file.
    pub(crate) fn is_contiguous(shape: &[u64], strides: &[u64]) -> bool {
        matches!(joined(shape.iter().copied().zip(strides.iter().copied()))[..], [] | [(_, 1)])
    }

    /// Returns the runs that make up `len` items of `dims`, starting at item `first`.
    fn runs(&self, first: u64, len: u64) -> Vec<Run> {
        let (inner, stride) = self.dims.last().copied().unwrap_or((1, 1));
        let mut runs = Vec::new();
        for row in first / inner..(first + len).div_ceil(inner) {
            let (mut rest, mut place) = (row, 0);
            for &(dim, stride) in self.dims.iter().rev().skip(1) {
                place += rest % dim * stride;
                rest /= dim;
            }
            let columns = first.saturating_sub(row * inner)..inner.min(first + len - row * inner);
            let at = |column: u64| row * inner + column - first;
            if stride == 1 {
                runs.push((place + columns.start, at(columns.start), columns.end - columns.start));
            } else {
                runs.extend(columns.map(|column| (place + column * stride, at(column), 1)));
            }
        }
        runs
    }

    /// Reads whole items of `dims`, starting at item `first`.
    fn read_stored(&self, first: u64, bytes: &mut [u8]) -> io::Result<()> {
        let size = self.size;
        let mut runs = self.runs(first, bytes.len() as u64 / size);
        // Sort the runs by their position in the file, so that neighbours are read together.
        runs.sort_unstable();
        let mut span = Vec::new();
        let mut rest = &runs[..];
        while let Some(&(start, to, count)) = rest.first() {
            let mut end = start + count;
            let near = |&&(next, _, more): &&Run| {
                let is_near = (next.saturating_sub(end)) * size <= GAP && (next + more - start) * size <= SPAN;
                end = end.max(next + more);
                is_near
            };
            let together = 1 + rest[1..].iter().take_while(near).count();
            let end = rest[..together].iter().map(|(start, _, count)| start + count).max().unwrap_or(end);
            let at = self.at + start * size;
            if together == 1 {
                self.file.read_at(at, &mut bytes[(to * size) as usize..((to + count) * size) as usize])?;
            } else {
                span.resize(((end - start) * size) as usize, 0);
                self.file.read_at(at, &mut span)?;
                for &(from, to, count) in &rest[..together] {
                    let from = ((from - start) * size) as usize;
                    let len = (count * size) as usize;
                    bytes[(to * size) as usize..][..len].copy_from_slice(&span[from..from + len]);
                }
            }
            rest = &rest[together..];
        }
        if self.swap > 1 {
            bytes.chunks_exact_mut(self.swap).for_each(<[u8]>::reverse);
        }
        Ok(())
    }

    /// Reads whole items of the view, starting at item `first`.
    fn read_items(&self, first: u64, bytes: &mut [u8]) -> io::Result<()> {
        let Some(columns) = &self.columns else { return self.read_stored(first, bytes) };
        let read = columns.read(first as usize, bytes, |at, bytes| {
            let firsts = (at as u64 / self.size..).step_by(ITEMS as usize);
            let mut parts = firsts.zip(bytes.chunks_mut(ITEMS as usize * self.size as usize));
            parts.try_for_each(|(first, part)| self.read_stored(first, part))
        });
        let items = bytes.len() as u64 / self.size;
        if self.done.fetch_add(items, Ordering::Relaxed) + items >= self.len {
            self.done.store(0, Ordering::Relaxed);
            columns.forget();
        }
        read
    }
}

impl ReadAt for Strided {
    fn read_at(&self, at: u64, bytes: &mut [u8]) -> io::Result<usize> {
        let (first, skipped) = (at / self.size, at % self.size);
        let items = self.len.saturating_sub(first).min(ITEMS);
        let whole = (bytes.len() as u64 / self.size).min(items);
        if skipped == 0 && whole > 0 {
            let len = (whole * self.size) as usize;
            self.read_items(first, &mut bytes[..len])?;
            return Ok(len);
        }
        // The range begins or ends within an item: read that item, and copy the requested part.
        let mut item = zeros(if items > 0 { self.size as usize } else { 0 }).ok_or(io::ErrorKind::OutOfMemory)?;
        self.read_items(first, &mut item)?;
        let part = item.get(skipped as usize..).unwrap_or_default();
        let len = part.len().min(bytes.len());
        bytes[..len].copy_from_slice(&part[..len]);
        Ok(len)
    }
}

/// Returns the dimensions with their strides, without dimensions of size 1, and with adjacent dimensions merged where
/// one stride covers both.
fn joined(all: impl Iterator<Item = (u64, u64)>) -> Vec<(u64, u64)> {
    let mut dims: Vec<(u64, u64)> = Vec::new();
    for (dim, stride) in all.filter(|(dim, _)| *dim != 1) {
        match dims.last_mut() {
            Some(outer) if stride.checked_mul(dim) == Some(outer.1) => *outer = (outer.0 * dim, stride),
            _ => dims.push((dim, stride)),
        }
    }
    dims
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn views_are_read_as_they_are_item_by_item() {
        let stored: Vec<u8> = (0..200_000u32).map(|i| (i % 251) as u8).collect();
        let views: [(&[u64], &[u64]); 12] = [
            (&[5, 6, 7], &[1, 5, 30]),
            (&[2, 7, 3, 4], &[0, 1, 7, 40]),
            (&[30, 100], &[2, 60]),
            (&[3, 4], &[4, 1]),
            (&[40, 300], &[1, 40]),
            (&[5, 6, 7], &[1, 35, 5]),
            (&[4, 3, 2], &[0, 2, 0]),
            (&[10, 20], &[100, 1]),
            (&[7, 5], &[3, 3]),
            (&[2, 1, 300], &[1500, 9, 5]),
            (&[], &[]),
            (&[6, 2, 5], &[20, 10, 1]),
        ];
        for (size, swap) in [(1, 1), (2, 2), (3, 1), (4, 1), (8, 4), (16, 8)] {
            for (shape, strides) in views {
                let mut want = Vec::new();
                for index in 0..shape.iter().product() {
                    let (mut rest, mut place) = (index, 0);
                    for (&dim, &stride) in shape.iter().zip(strides).rev() {
                        place += rest % dim * stride;
                        rest /= dim;
                    }
                    let at = 5 + place as usize * size;
                    let words = stored[at..at + size].chunks(swap).flat_map(|word| word.iter().rev());
                    want.extend(if swap > 1 { words.copied().collect() } else { stored[at..at + size].to_vec() });
                }
                let file = InputFile::other(Path::new("x"), stored.len() as u64, stored.clone());
                let view = Strided::new(file, 5, size, swap, shape, strides).into_file().expect("a size that fits");
                assert_eq!(view.len(), want.len() as u64);
                for (start, end) in [(0, want.len()), (1, want.len()), (want.len() / 3, want.len() / 2 + 1)] {
                    let got = view.read(start as u64, (end - start) as u64).expect("read");
                    assert_eq!(got, want[start..end], "{shape:?} {strides:?} {size} {start}");
                }
            }
        }
    }
}
