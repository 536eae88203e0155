//! Appends texts to a buffer of strings: consecutive bytes, and the offset of the end of each text.

use alloc::collections::TryReserveError;
use alloc::vec::Vec;

/// Appends strings of at most `ROOM` bytes. Each string overwrites a window of `ROOM` characters `0`, and the next
/// window starts at its end. So nothing is copied, and the zeros of long numbers are already in place.
pub(super) struct Appender<'a, const ROOM: usize> {
    offsets: &'a mut Vec<u64>,
    bytes: &'a mut Vec<u8>,
    /// The end of the last string. The bytes after it are characters `0`.
    end: usize,
}

impl<'a, const ROOM: usize> Appender<'a, ROOM> {
    /// An appender for about `count` strings.
    ///
    /// # Errors
    /// Fails if the offsets do not fit in memory.
    pub(super) fn new(
        offsets: &'a mut Vec<u64>,
        bytes: &'a mut Vec<u8>,
        count: usize,
    ) -> Result<Self, TryReserveError> {
        offsets.try_reserve(count)?;
        let end = bytes.len();
        Ok(Appender { offsets, bytes, end })
    }

    /// Appends a string for each item. `write` writes it and returns its length. It may write past the string's end,
    /// but must leave characters `0` there if it relies on them for the next item.
    ///
    /// # Errors
    /// Fails if the strings do not fit in memory. Those of earlier calls stay.
    #[inline(always)]
    pub(super) fn write<T>(
        &mut self,
        items: &[T],
        write: impl Fn(&T, &mut [u8; ROOM]) -> usize,
    ) -> Result<(), TryReserveError> {
        let bytes = &mut *self.bytes;
        let max_end = self.end + items.len() * ROOM;
        if bytes.len() < max_end {
            bytes.try_reserve(max_end - bytes.len())?;
            bytes.resize(max_end, b'0');
        }
        self.offsets.try_reserve(items.len())?;
        let end = &mut self.end;
        self.offsets.extend(items.iter().map(|item| {
            if let Some(room) = bytes[*end..].first_chunk_mut() {
                *end += write(item, room);
            }
            *end as u64
        }));
        Ok(())
    }
}

impl<const ROOM: usize> Drop for Appender<'_, ROOM> {
    fn drop(&mut self) {
        self.bytes.truncate(self.end);
    }
}
