//! Memory to measure in: on huge pages where it is large and the system has them, so that what is timed is the cast and
//! not the walks of page tables. numpy asks for the same.

use anyhow::{Result, anyhow};
use memmap2::MmapMut;
use std::ops::{Deref, DerefMut};

const HUGE_PAGE: usize = 2 << 20;

/// Bytes in memory of their own, already touched.
pub(super) struct Buffer {
    map: MmapMut,
    start: usize,
    len: usize,
}

impl Buffer {
    pub(super) fn new(len: usize) -> Result<Buffer> {
        let wrong = |error: &dyn std::fmt::Display| anyhow!("no memory for {len} bytes: {error}");
        let slack = if len < HUGE_PAGE { 0 } else { HUGE_PAGE };
        let whole = len.max(1).checked_next_multiple_of(slack.max(1)).and_then(|len| len.checked_add(slack));
        let whole = whole.ok_or_else(|| wrong(&"too large"))?;
        let map = MmapMut::map_anon(whole).map_err(|error| wrong(&error))?;
        let start = if slack == 0 { 0 } else { map.as_ptr().align_offset(HUGE_PAGE).min(slack) };
        #[cfg(target_os = "linux")]
        if slack != 0 {
            // A wish: a kernel without huge pages refuses it, and small pages only cost time.
            let _ = map.advise(memmap2::Advice::HugePage);
        }
        let mut buffer = Buffer { map, start, len };
        // Pages are given when they are first written to.
        buffer.fill(1);
        Ok(buffer)
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.map[self.start..self.start + self.len]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.map[self.start..self.start + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_every_size() {
        for len in [0, 1, 4096, HUGE_PAGE - 1, HUGE_PAGE, HUGE_PAGE + 1, 3 * HUGE_PAGE - 5] {
            let buffer = Buffer::new(len).expect("memory");
            assert_eq!(buffer.len(), len);
            assert!(len < HUGE_PAGE || buffer.as_ptr().align_offset(HUGE_PAGE) == 0, "{len}");
        }
        assert!(Buffer::new(usize::MAX).is_err());
    }
}
