//! Weights of integers in words whose rows and columns are exchanged, with scales and zero points beside: GPTQ, AWQ
//! and Quark.
//!
//! Elements are int32 of shape [K * bits / 32, N] (GPTQ) or [K, N / 8] (AWQ, Quark), scales [groups, N], and zero
//! points int32 of shape [groups, N * bits / 32], for values of shape [N, K]. AWQ's `gemv` has rows of words instead: elements
//! [N, K / 8], zero points [N, padded groups / 8] and scales [N, padded groups].

use crate::checkpoint::TensorRef;
use crate::error::FileError;
use crate::formats::error::{Invalid, InvalidKind};
use crate::layouts::packed_ints::{unpack_row, words};
use crate::layouts::spec::{ColumnsOfWords, Finder};
use crate::layouts::weight::{ColumnOrder, Encoding, Grid, Weight, WeightFormat};
use crate::layouts::weight::{Groups, ZeroPoints};
use DataType::{BFloat16, Float, Float16, Int32};
use onnx_cast::DataType;

/// Bytes of zero points that are read at a time.
const STEP: usize = 1 << 20;

/// The tensors of a weight.
struct Parts {
    tensor: TensorRef,
    scales: TensorRef,
    zero_points: Option<TensorRef>,
    groups: Option<TensorRef>,
}

/// How words hold a matrix: its rows and columns, the order of scales, and how many a row has.
struct Words {
    elements: Encoding,
    values: [usize; 2],
    grid: Grid,
    count: usize,
}

impl Finder<'_> {
    /// The weight that elements and scales make.
    pub(in crate::layouts) fn describe_columns(
        &self,
        mut weight: Weight,
        start: &str,
        columns: ColumnsOfWords,
    ) -> Result<Weight, FileError> {
        let (tensor, scales) = (weight.codes.tensor, weight.scales.tensor);
        let columns = ColumnsOfWords { order: self.claims.order.unwrap_or(columns.order), ..columns };
        let beside = |ending: &str| self.checkpoint.find(&format!("{start}{ending}"));
        let (zero_points, groups) = (beside(columns.zero_points), columns.groups.and_then(beside));
        let [down, across] = self.axes(tensor, &[Int32], "int32 of two axes")?;
        let floats = "float16, bfloat16 or float of two axes, groups and rows of the weight";
        let scale = self.axes(scales, &[Float, Float16, BFloat16], floats)?;
        if zero_points.is_none() && !self.claims.is_signed && !columns.is_auto_gptq {
            let want = format!("{start}{}", columns.zero_points);
            let missing = Invalid::missing(&self.checkpoint.stored(tensor).name, "the tensor of zero points", &want);
            return Err(self.checkpoint.error(Some(tensor), missing));
        }
        let parts = Parts { tensor, scales, zero_points, groups };
        let Words { elements, values, grid, count } = self.read_words(&parts, [down, across], scale, columns)?;
        if values.iter().try_fold(1usize, |len, &size| len.checked_mul(size)).is_none() {
            return Err(self.part(tensor, "fewer elements".to_owned()));
        }
        let group = self.group(values[1], count).ok_or_else(|| {
            self.part(scales, format!("groups of the configuration's size for {} columns", values[1]))
        })?;
        (weight.values, weight.codes.shape) = (values.to_vec(), values.to_vec());
        (weight.codes.encoding, weight.scales.block, weight.scales.order) = (elements, [1, group], grid);
        if let Some(tensor) = groups {
            let groups = Groups::stored(self.checkpoint, &weight, tensor)?;
            match self.are_plain_groups(&groups, &weight)? {
                true => weight.others.push(tensor),
                false => weight.groups = Some(groups),
            }
        }
        if let Some(tensor) = zero_points {
            let zero_points = ZeroPoints::stored(self.checkpoint, &weight, tensor, false)?;
            weight.zero_points = Some(zero_points.with_offset(self.zero_offset(&weight, tensor)?));
        }
        Ok(weight)
    }

    /// What elements and scales of these shapes mean together.
    fn read_words(
        &self,
        parts: &Parts,
        [down, across]: [usize; 2],
        scale: [usize; 2],
        ColumnsOfWords { order, is_auto_gptq, .. }: ColumnsOfWords,
    ) -> Result<Words, FileError> {
        let is_awq = is_auto_gptq && order == ColumnOrder::Interleaved;
        let is_gemv = is_awq && scale[0] == down && scale[1] != across.saturating_mul(8);
        let Parts { tensor, scales, zero_points, groups } = *parts;
        let is_signed = self.claims.is_signed;
        let (elements, values, grid, count) = match order {
            _ if is_gemv => {
                let columns = across.checked_mul(8).ok_or_else(|| self.part(tensor, "fewer columns".to_owned()))?;
                let count = self.padded_groups(scales, columns, scale[1])?;
                let elements = Encoding::Words { bits: 4, straddle: false };
                (elements, [down, columns], Grid::Padded(scale[1]), count)
            }
            ColumnOrder::Interleaved | ColumnOrder::Across => {
                // Quark fills the last word of each row.
                if scale[1] != across.saturating_mul(8) && (is_awq || words(scale[1], 4, false) != across) {
                    return Err(self.part(tensor, format!("{} columns, for scales of {}", scale[1] / 8, scale[1])));
                }
                (Encoding::Columns { bits: 4, order, is_signed }, [scale[1], down], Grid::Exchanged, scale[0])
            }
            ColumnOrder::Down => {
                let bits = self.width(zero_points, scale[1]).ok_or_else(|| {
                    let want = format!("zero points of the configuration's width for {} rows", scale[1]);
                    self.part(zero_points.unwrap_or(tensor), want)
                })?;
                if across != scale[1] {
                    return Err(self.part(tensor, format!("{} columns, as the scales have", scale[1])));
                }
                let columns = self.columns(groups, down, bits);
                let columns = columns.ok_or_else(|| {
                    self.part(tensor, format!("as many words down as whole integers of {bits} bits fill"))
                })?;
                (Encoding::Columns { bits, order, is_signed }, [across, columns], Grid::Exchanged, scale[0])
            }
        };
        Ok(Words { elements, values, grid, count })
    }

    /// The two axes of a tensor of one of some types.
    fn axes(&self, tensor: TensorRef, types: &[DataType], want: &str) -> Result<[usize; 2], FileError> {
        let stored = self.checkpoint.stored(tensor);
        match stored.shape[..] {
            [down, across] if types.contains(&stored.data_type) => Ok([down, across]),
            _ => Err(self.part(tensor, want.to_owned())),
        }
    }

    /// The bits of an integer: by the zero points, and as the configuration says.
    fn width(&self, zero_points: Option<TensorRef>, rows: usize) -> Option<u32> {
        let claimed: Vec<u32> = self.claims.formats.iter().filter_map(WeightFormat::bits).collect();
        let mut widths = (2..=8).filter(|bits| claimed.is_empty() || claimed.contains(bits));
        let Some(zero_points) = zero_points else {
            return widths.next().filter(|_| claimed.len() == 1);
        };
        let [_, width] = self.axes(zero_points, &[Int32], "").ok()?;
        widths.find(|&bits| words(rows, bits, true) == width)
    }

    /// The columns that so many words hold: as many as fill them, or where none do, as many as have a group.
    fn columns(&self, groups: Option<TensorRef>, down: usize, bits: u32) -> Option<usize> {
        let all = down.checked_mul(32)?;
        if all.is_multiple_of(bits as usize) {
            return Some(all / bits as usize);
        }
        let told = groups.map(|groups| self.checkpoint.stored(groups).len);
        told.filter(|&columns| words(columns, bits, true) == down)
    }

    /// The columns of a group, where there are so many groups.
    fn group(&self, columns: usize, groups: usize) -> Option<usize> {
        let fits = |size: &usize| columns.div_ceil((*size).max(1)) == groups;
        // One group, as `group_size` -1 says it, and any even number where nothing is said.
        let is_told = groups > 1 && !self.claims.groups.is_empty();
        let even = (groups > 0 && columns.is_multiple_of(groups) && !is_told).then(|| columns / groups);
        self.claims.groups.iter().copied().chain(even).find(fits).map(|size| size.max(1))
    }

    /// The groups of a row whose scales are padded to words of zero points, and to more of them for small groups.
    fn padded_groups(&self, scales: TensorRef, columns: usize, padded: usize) -> Result<usize, FileError> {
        let fits = |&&size: &&usize| {
            let multiple = 128usize.checked_div(size).unwrap_or(1).max(1);
            (columns / size.max(1)).div_ceil(8).next_multiple_of(multiple) * 8 == padded && columns.is_multiple_of(size)
        };
        let size = self.claims.groups.iter().filter(|&&size| size > 0).find(fits);
        size.map(|size| columns / size).ok_or_else(|| {
            let want = format!("a scale for each group of the configuration in {columns} columns, in whole words");
            self.part(scales, want)
        })
    }

    /// Whether each group holds columns that follow each other, as without an order of them.
    fn are_plain_groups(&self, groups: &Groups, weight: &Weight) -> Result<bool, FileError> {
        let path = self.checkpoint.files[groups.tensor().file].path();
        let numbers = groups.numbers(self.checkpoint, weight).map_err(|error| FileError::io(path, "read", error))?;
        Ok(numbers.iter().enumerate().all(|(column, group)| *group as usize == column / weight.scales.block[1]))
    }

    /// Offset added to stored zero points: 1 in the first format of GPTQ, whose readers disagree on the largest code.
    /// Where all zero points are the middle of the range, they show the offset: some files of the newer format claim to
    /// be of the first one.
    fn zero_offset(&self, weight: &Weight, zero_points: TensorRef) -> Result<u8, FileError> {
        let Encoding::Columns { bits, order: ColumnOrder::Down, .. } = weight.codes.encoding else { return Ok(0) };
        if self.claims.zero_offset == Some(0) && !self.claims.is_symmetric {
            return Ok(0);
        }
        let range = self.range_of_codes(zero_points, weight.matrix()[0], bits)?;
        let (middle, most) = (1u8 << (bits - 1), (0xffu32 >> (8 - bits)) as u8);
        let is_known = self.claims.zero_offset.is_some();
        match (range, self.claims.zero_offset) {
            (None, offset) => Ok(offset.unwrap_or(0)),
            (Some((least, amax)), _) if least == amax && (self.claims.is_symmetric || !is_known) => match least {
                code if code == middle => Ok(0),
                code if code == middle - 1 => Ok(1),
                _ => Err(self.ambiguous(zero_points, bits, "they are not the middle of the range")),
            },
            (_, _) if self.claims.is_symmetric => {
                Err(self.ambiguous(zero_points, bits, "the configuration says `sym`, and they differ from each other"))
            }
            (_, None) => {
                Err(self.ambiguous(zero_points, bits, "no `checkpoint_format` says whether they are stored less 1"))
            }
            (Some((_, amax)), Some(1..)) if amax == most => {
                Err(self.ambiguous(zero_points, bits, "one is stored as the largest integer, less 1 of it"))
            }
            (_, Some(offset)) => Ok(offset),
        }
    }

    fn ambiguous(&self, zero_points: TensorRef, bits: u32, why: &'static str) -> FileError {
        let tensor = self.checkpoint.stored(zero_points).name.clone();
        let what = format!(
            "zero points of {bits} bits whose meaning is not certain: {why} (readers would give different weights)"
        );
        self.checkpoint.error(Some(zero_points), Invalid::new(InvalidKind::Ambiguous, what).of_tensor(&tensor))
    }

    /// Returns the min and max of the stored zero points; `None` if there are none.
    fn range_of_codes(&self, tensor: TensorRef, rows: usize, bits: u32) -> Result<Option<(u8, u8)>, FileError> {
        let (file, at) = self.checkpoint.place(tensor);
        let line = words(rows, bits, true) * 4;
        let (lines, each) = (self.checkpoint.stored(tensor).shape[0], (STEP / line.max(1)).max(1));
        let (mut codes, mut range) = (Vec::new(), None);
        for first in (0..lines).step_by(each) {
            let count = each.min(lines - first);
            let bytes = file.read(at + (first * line) as u64, (count * line) as u64)?;
            codes.resize(rows, 0);
            for line in bytes.chunks_exact(line.max(1)) {
                unpack_row(line, 0, bits, true, &mut codes);
                let (least, amax) = codes.iter().fold((u8::MAX, 0), |(a, b), &code| (code.min(a), code.max(b)));
                range = match range {
                    _ if codes.is_empty() => range,
                    None => Some((least, amax)),
                    Some((a, b)) => Some((least.min(a), amax.max(b))),
                };
            }
        }
        Ok(range)
    }
}
