//! Where the scale of an element is: per tensor, per axis, or for each block of an axis or of rows and columns.

use crate::ops::{OpError, OpErrorKind};

/// How scales lie over the elements of a tensor: in rows of elements, each cut into runs with one scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ops) struct Layout {
    /// Elements of a row.
    row: usize,
    /// Elements of a run; the last of a row may be shorter. 1 where each element has its own scale.
    pub(in crate::ops) run: usize,
    /// Which row of scales a row of elements has.
    rows: Rows,
}

/// Rows in groups of `axis`; of each group, `block` rows share a row of scales, and the group has `blocks` of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rows {
    axis: usize,
    block: usize,
    blocks: usize,
}

impl Rows {
    /// All rows have the same scales.
    const SAME: Rows = Rows { axis: usize::MAX, block: usize::MAX, blocks: 0 };
    /// Each row has its own scales.
    const OWN: Rows = Rows { axis: 1, block: 1, blocks: 1 };

    fn of(self, row: usize) -> usize {
        row / self.axis * self.blocks + row % self.axis / self.block
    }
}

/// Elements in a row that follow each other, and their scales.
pub(in crate::ops) struct Piece {
    /// How many elements.
    pub(in crate::ops) len: usize,
    /// The index of the first scale, and how many there are.
    pub(in crate::ops) scale: usize,
    pub(in crate::ops) scales: usize,
    /// Elements that have the first scale; the others have it in runs.
    pub(in crate::ops) first: usize,
}

impl Layout {
    /// One scale for all elements.
    pub(in crate::ops) const TENSOR: Layout = Layout { row: usize::MAX, run: usize::MAX, rows: Rows::SAME };

    /// Whether an operator of ONNX has one scale for all elements.
    #[inline(always)]
    pub(in crate::ops) fn is_of_tensor(scale: &[usize], block_size: usize) -> bool {
        block_size == 0 && matches!(scale, [] | [1])
    }

    /// The layout of ONNX's operators.
    pub(in crate::ops) fn new(
        shape: &[usize],
        scale: &[usize],
        axis: i64,
        block_size: usize,
    ) -> Result<Layout, OpError> {
        if Layout::is_of_tensor(scale, block_size) {
            return Ok(Layout::TENSOR);
        }
        Layout::of_axis(shape, scale, axis, block_size)
    }

    /// That of scales along an axis.
    fn of_axis(shape: &[usize], scale: &[usize], axis: i64, block_size: usize) -> Result<Layout, OpError> {
        let wrong = || OpErrorKind::ScaleShape { input: shape.to_vec(), scale: scale.to_vec(), axis, block_size };
        let rank = shape.len();
        let index = if axis < 0 { axis.checked_add(rank as i64) } else { Some(axis) };
        let index = index.and_then(|axis| usize::try_from(axis).ok()).filter(|&axis| axis < rank);
        let index = index.ok_or(OpErrorKind::Axis { axis, rank })?;
        // Of an empty tensor the other dimensions may overflow.
        let inner = shape[index + 1..].iter().fold(1usize, |inner, &size| inner.saturating_mul(size)).max(1);
        let size = shape[index];
        let layout = if block_size == 0 {
            if scale != [size] {
                return Err(wrong().into());
            }
            let (row, run) = if inner == 1 { (size, 1) } else { (size.saturating_mul(inner), inner) };
            Layout { row, run, rows: Rows::SAME }
        } else {
            let others_agree = scale.len() == rank
                && scale.iter().zip(shape).enumerate().all(|(i, (scale, size))| i == index || scale == size);
            if !others_agree || scale[index] != size.div_ceil(block_size) && (size > 0 || scale[index] > 1) {
                return Err(wrong().into());
            }
            if inner == 1 {
                Layout::rows_of_runs(size, block_size)
            } else {
                let rows = Rows { axis: size, block: block_size, blocks: scale[index] };
                Layout { row: inner, run: 1, rows }
            }
        };
        // An empty tensor has no rows; a row of no elements would divide by zero.
        Ok(if layout.row == 0 || layout.rows.axis == 0 { Layout::TENSOR } else { layout })
    }

    /// A scale for each block of `block` rows and columns of the matrices that the last two axes make.
    pub(in crate::ops) fn of_blocks(shape: &[usize], scale: &[usize], block: [usize; 2]) -> Result<Layout, OpError> {
        let wrong = || OpErrorKind::BlockScaleShape { input: shape.to_vec(), scale: scale.to_vec(), block };
        let [.., rows, columns] = *shape else { return Err(wrong().into()) };
        let outer = &shape[..shape.len() - 2];
        if block.contains(&0) || scale != [outer, &[rows.div_ceil(block[0]), columns.div_ceil(block[1])]].concat() {
            return Err(wrong().into());
        }
        if shape.contains(&0) {
            return Ok(Layout::TENSOR);
        }
        if block[0] == 1 {
            return Ok(Layout::rows_of_runs(columns, block[1].min(columns)));
        }
        let rows = Rows { axis: rows, block: block[0], blocks: rows.div_ceil(block[0]) };
        Ok(Layout { row: columns, run: block[1], rows })
    }

    /// Rows of `row` elements, each cut into blocks of `block`, with scales of their own.
    pub(in crate::ops) fn rows_of_runs(row: usize, block: usize) -> Layout {
        if row.is_multiple_of(block) {
            return Layout { row: usize::MAX, run: block, rows: Rows::SAME };
        }
        Layout { row, run: block, rows: Rows::OWN }
    }

    /// The piece that begins at an element, of `max_len` elements or fewer.
    pub(in crate::ops) fn piece(&self, element: usize, max_len: usize) -> Piece {
        // Most tensors are one row, and divisions take long.
        let (row, column) = if element < self.row { (0, element) } else { (element / self.row, element % self.row) };
        let len = max_len.min(self.row - column);
        let (first_run, last_run) = (column / self.run, (column + len - 1) / self.run);
        let before = if row == 0 { 0 } else { self.rows.of(row) * self.row.div_ceil(self.run) };
        let scale = before + first_run;
        let first = (self.run - column % self.run).min(len);
        Piece { len, scale, scales: last_run - first_run + 1, first }
    }

    /// The period of the scales, where every row has the same and rows are not longer than `max_len`.
    pub(in crate::ops) fn period(&self, max_len: usize) -> Option<usize> {
        (self.rows == Rows::SAME && self.row <= max_len).then_some(self.row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scales by index, from coordinates.
    #[test]
    fn each_element_has_the_scale_of_its_coordinates() {
        let shape = [2, 5, 3];
        let cases: [(i64, usize, &[usize]); 7] = [
            (0, 0, &[2]),
            (1, 0, &[5]),
            (-1, 0, &[3]),
            (0, 2, &[1, 5, 3]),
            (1, 2, &[2, 3, 3]),
            (2, 2, &[2, 5, 2]),
            (2, 3, &[2, 5, 1]),
        ];
        for (axis, block, scale) in cases {
            let layout = Layout::new(&shape, scale, axis, block).expect("shapes that fit");
            let axis = if axis < 0 { 2 } else { axis as usize };
            for element in 0..30usize {
                let mut at: [usize; 3] = [element / 15, element / 3 % 5, element % 3];
                let want = match at[axis].checked_div(block) {
                    None => at[axis],
                    Some(index) => {
                        at[axis] = index;
                        (at[0] * scale[1] + at[1]) * scale[2] + at[2]
                    }
                };
                for max_len in [1, 4, 30] {
                    let piece = layout.piece(element, max_len.min(30 - element));
                    assert_eq!(piece.scale, want, "axis {axis}, block {block}, element {element}");
                    assert!(piece.len >= 1 && piece.first >= 1 && piece.first <= piece.len);
                }
            }
        }
        assert_eq!(Layout::new(&shape, &[], 9, 0), Ok(Layout::TENSOR));
        // An empty tensor whose other dimensions do not multiply.
        assert_eq!(Layout::new(&[0, 1 << 40, 1 << 40], &[0], 0, 0), Ok(Layout::TENSOR));
        for (block, scale) in [([2, 2], [2, 3, 2]), ([1, 2], [2, 5, 2]), ([1, 9], [2, 5, 1]), ([5, 3], [2, 1, 1])] {
            let layout = Layout::of_blocks(&shape, &scale, block).expect("shapes that fit");
            for element in 0..30usize {
                let at = [element / 15, element / 3 % 5 / block[0], element % 3 / block[1]];
                let want = (at[0] * scale[1] + at[1]) * scale[2] + at[2];
                assert_eq!(layout.piece(element, 30 - element).scale, want, "blocks of {block:?}, element {element}");
            }
        }
        assert!(
            Layout::of_blocks(&shape, &[2, 3, 1], [2, 2]).is_err() && Layout::of_blocks(&[4], &[2], [1, 2]).is_err()
        );
        for (axis, block, scale) in [(1, 0, &[2][..]), (3, 0, &[3]), (1, 2, &[2, 2, 3]), (1, 2, &[]), (2, 2, &[2, 5])] {
            assert!(Layout::new(&shape, scale, axis, block).is_err(), "axis {axis}, block {block}, {scale:?}");
        }
    }
}
