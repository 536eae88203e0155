//! Integers whose columns have groups in any order: act-order.
//!
//! Of 4 bits or fewer, a row has 16 values at most in each group. These are computed, and each column looks its own up.
//! Wider integers get the scale and the zero point of their group beside each of them.

use super::{Stretch, WeightValues};
use crate::io::memory::resize;
use crate::layouts::weight::Encoding;
use crate::pipeline::{PipelineError, Scratch};
use onnx_cast::{DataType, TensorView};

/// Values of a group in a row.
const ENTRIES: usize = 16;

impl WeightValues<'_> {
    /// Whether values are looked up in tables of groups.
    pub(super) fn has_tables(&self) -> bool {
        let is_narrow = matches!(
            self.weight.codes.encoding,
            Encoding::Columns { bits: ..=4, .. } | Encoding::Words { bits: ..=4, .. }
        );
        is_narrow && !self.groups.is_empty() && self.weight.scales.block[0] == 1
    }

    /// The values of a stretch whose codes, scales and zero points are read.
    pub(super) fn by_groups(
        &self,
        stretch: &Stretch,
        from: DataType,
        scratch: &mut Scratch,
        out: &mut [u8],
    ) -> Result<(), PipelineError> {
        let ([_, columns], [_, across]) = (self.weight.matrix(), self.grid());
        let grid = [stretch.rows, across];
        self.tables(stretch, from, grid, scratch)?;
        let size = self.to.byte_len(1).unwrap_or(1);
        let table = across * ENTRIES * size;
        let (mut at, mut codes, mut out) = (stretch.elements.start, &scratch.codes[..], out);
        while !codes.is_empty() {
            let (row, column) = (at / columns, at % columns);
            let count = (columns - column).min(codes.len());
            let (these, later) = codes.split_at(count);
            let (now, behind) = out.split_at_mut(count * size);
            let (table, groups) = (&scratch.results[row * table..][..table], &self.groups[column..]);
            match size {
                2 => look_up(table.as_chunks::<2>().0, groups, these, now.as_chunks_mut().0),
                _ => look_up(table.as_chunks::<4>().0, groups, these, now.as_chunks_mut().0),
            }
            (at, codes, out) = (at + count, later, behind);
        }
        Ok(())
    }

    /// Computes the values of all codes in the groups of some rows.
    fn tables(
        &self,
        stretch: &Stretch,
        from: DataType,
        grid: [usize; 2],
        scratch: &mut Scratch,
    ) -> Result<(), PipelineError> {
        let Scratch { elements: all, scales, zero_points, results, .. } = scratch;
        let columns = grid[1] * ENTRIES;
        let count = grid[0] * columns;
        resize(all, count).ok_or_else(PipelineError::out_of_memory)?;
        let codes: [u8; ENTRIES] = std::array::from_fn(|code| code as u8);
        all.as_chunks_mut().0.iter_mut().for_each(|all| *all = codes);
        resize(results, self.to.byte_len(count).unwrap_or(0)).ok_or_else(PipelineError::out_of_memory)?;
        let failed = PipelineError::Cast;
        let scales =
            TensorView::new(self.weight.scales.data_type, &grid, scales).map_err(|error| failed(error.into()))?;
        let zero_points = match &zero_points[..] {
            [] => None,
            bytes => Some(TensorView::new(from, &grid, bytes).map_err(|error| failed(error.into()))?),
        };
        let plan = self.plan(stretch, from, [1, ENTRIES])?;
        let bound = plan.bind(&[grid[0], columns], &scales, zero_points.as_ref()).map_err(failed)?;
        bound.run_part(0, count, all, results).map_err(failed)
    }

    /// Gives each column the item of its group, row by row.
    pub(super) fn by_column(
        &self,
        size: usize,
        items: &mut Vec<u8>,
        spread: &mut Vec<u8>,
    ) -> Result<(), PipelineError> {
        let [_, across] = self.weight.grid();
        let rows = items.len() / (across * size).max(1);
        resize(spread, rows * self.groups.len() * size).ok_or_else(PipelineError::out_of_memory)?;
        let lines = spread.chunks_exact_mut((self.groups.len() * size).max(1));
        for (row, line) in items.chunks_exact((across * size).max(1)).zip(lines) {
            match size {
                1 => pick(row.as_chunks::<1>().0, &self.groups, line.as_chunks_mut().0),
                2 => pick(row.as_chunks::<2>().0, &self.groups, line.as_chunks_mut().0),
                _ => pick(row.as_chunks::<4>().0, &self.groups, line.as_chunks_mut().0),
            }
        }
        std::mem::swap(items, spread);
        Ok(())
    }
}

/// Gives each column the entry of its code in the table of its group.
fn look_up<const SIZE: usize>(table: &[[u8; SIZE]], groups: &[u32], codes: &[u8], out: &mut [[u8; SIZE]]) {
    let entry = |group: u32, code: u8| table[group as usize * ENTRIES + usize::from(code & 15)];
    // Eight codes are one load: the loads of entries and groups alone bound the loop.
    let ((eights, codes), (out_eights, out)) = (codes.as_chunks::<8>(), out.as_chunks_mut::<8>());
    let (group_eights, groups) = groups[..].as_chunks::<8>();
    for ((codes, groups), out) in eights.iter().zip(group_eights).zip(out_eights) {
        *out = std::array::from_fn(|at| entry(groups[at], codes[at]));
    }
    let groups = if eights.len() < group_eights.len() { &group_eights[eights.len()][..] } else { groups };
    out.iter_mut().zip(groups).zip(codes).for_each(|((out, group), code)| *out = entry(*group, *code));
}

/// Gives each place the item of this number.
fn pick<const SIZE: usize>(items: &[[u8; SIZE]], numbers: &[u32], out: &mut [[u8; SIZE]]) {
    out.iter_mut().zip(numbers).for_each(|(out, number)| *out = items[*number as usize]);
}
