//! NVFP4 and MXFP8 as ComfyUI stores them: the first of two elements in the upper half of a byte, and scales in tiles
//! (`layouts/tiles.rs`).

use crate::checkpoint::Checkpoint;
use crate::io::memory::resize;
use crate::io::positional::InputFile;
use crate::layouts::{PANEL, Weight, in_panels, panel_at};
use crate::pipeline::{CHUNK, Compute, PipelineError, Scratch};

/// Stored elements, two to a byte, with the halves of each byte exchanged.
pub(super) struct Swapped<'a> {
    file: &'a InputFile,
    at: u64,
}

impl<'a> Swapped<'a> {
    pub(super) fn new(checkpoint: &'a Checkpoint, weight: &Weight) -> Swapped<'a> {
        let (file, at) = checkpoint.place(weight.codes.tensor);
        Swapped { file, at }
    }
}

impl Compute for Swapped<'_> {
    fn compute(&self, start: usize, _: usize, _: &mut Scratch, out: &mut [u8]) -> Result<(), PipelineError> {
        self.file.read_at(self.at + start as u64, out)?;
        out.iter_mut().for_each(|byte| *byte = byte.rotate_left(4));
        Ok(())
    }
}

/// Scales of one byte in tiles, given a source that computes them in rows.
pub(super) struct Tiled<C> {
    source: C,
    rows: usize,
    /// Scales per row.
    across: usize,
}

impl<C: Compute> Tiled<C> {
    pub(super) fn new(source: C, [_, rows, columns]: [usize; 3], block: [usize; 2]) -> Tiled<C> {
        Tiled { source, rows, across: columns.div_ceil(block[1]) }
    }
}

impl<C: Compute> Compute for Tiled<C> {
    fn compute(&self, start: usize, len: usize, scratch: &mut Scratch, out: &mut [u8]) -> Result<(), PipelineError> {
        let (size, end) = (panel_at(PANEL, self.across), start + len);
        let mut scales = Vec::new();
        for panel in start / size..end.div_ceil(size) {
            let rows = PANEL.min(self.rows - panel * PANEL);
            resize(&mut scales, rows * self.across).ok_or_else(PipelineError::out_of_memory)?;
            self.source.compute(panel * PANEL * self.across, scales.len(), scratch, &mut scales)?;
            let part = start.max(panel * size)..end.min((panel + 1) * size);
            let tiles = &in_panels(&scales, self.across)[part.start - panel * size..part.end - panel * size];
            out[part.start - start..part.end - start].copy_from_slice(tiles);
        }
        Ok(())
    }

    fn chunk(&self) -> usize {
        CHUNK.next_multiple_of(panel_at(PANEL, self.across))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scales that are their own offsets, modulo 251.
    struct Counted;

    impl Compute for Counted {
        fn compute(&self, start: usize, _: usize, _: &mut Scratch, out: &mut [u8]) -> Result<(), PipelineError> {
            (start..).zip(out).for_each(|(at, out)| *out = (at % 251) as u8);
            Ok(())
        }
    }

    #[test]
    fn any_part_is_a_part_of_the_tiles() {
        let tiled = Tiled::new(Counted, [1, 300, 6 * 16], [1, 16]);
        let rows: Vec<u8> = (0..300 * 6).map(|at| (at % 251) as u8).collect();
        let want = in_panels(&rows, 6);
        assert_eq!(want.len(), 384 * 8);
        for (start, end) in [(0, want.len()), (1, 2), (1023, 1025), (500, 2900), (want.len() - 1, want.len())] {
            let mut out = vec![0xee; end - start];
            tiled.compute(start, end - start, &mut Scratch::default(), &mut out).expect("computed");
            assert_eq!(out, want[start..end], "{start} to {end}");
        }
    }
}
