//! Draws shapes, granularities, values and scales.

use super::tensor;
use onnx_cast::Tensor;
use testkit::Ty;
use testkit::generators::{Rng, random, special};
use testkit::naive::{Blocks, Floats, Values};

/// What parts, blocks and vectors are long, and the columns of models that people use.
const EDGES: [usize; 22] = [
    8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 5120, 8192, 11008, 12288, 14336, 16384, 28672, 32768, 3, 48, 96,
    4095,
];

/// The longest row.
const MOST_COLUMNS: usize = 32_768;
/// The most rows.
const MOST_ROWS: u64 = 130;

/// The value of a code of an integer type.
pub(crate) fn signed(ty: Ty, code: u64) -> i64 {
    let unused = 64 - ty.bits();
    match ty.int_range() {
        Some((low, _)) if low < 0 => ((code << unused) as i64) >> unused,
        _ => code as i64,
    }
}

/// Where a round's random numbers come from.
pub(crate) struct Draw(Rng);

impl Draw {
    pub(crate) fn new(seed: u64) -> Draw {
        Draw(Rng::new(seed))
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0.below(end)
    }

    pub(crate) fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    /// A length up to a limit: short ones, those of any magnitude, and those on and beside the edges.
    fn length(&mut self, most: usize) -> usize {
        let length = match self.below(4) {
            0 => 1 + self.below(300) as usize,
            1 => 1 + self.0.of_any_length(16) as usize,
            _ => (self.one_of(&EDGES) + self.below(5) as usize).saturating_sub(2),
        };
        length.clamp(1, most)
    }

    /// Rows and columns. Most cases are small, some have all elements of the longest.
    fn rows_and_columns(&mut self) -> [usize; 2] {
        let columns = self.length(MOST_COLUMNS);
        let most = [1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22][self.below(25).isqrt() as usize];
        let most = if self.below(8) == 0 { 1 << 22 } else { most.min(1 << 19) };
        let rows = 1 + self.below(MOST_ROWS) as usize;
        [rows.min((most / columns).max(1)), columns]
    }

    /// A part that begins at a whole byte of any type.
    pub(crate) fn part(&mut self, len: usize) -> (usize, usize) {
        let start = self.below(len as u64) as usize & !7;
        (start, 1 + self.below((len - start) as u64) as usize)
    }

    /// Random codes of a type of 16 bits or fewer.
    pub(crate) fn codes(&mut self, ty: Ty, len: usize) -> Vec<u64> {
        let mask = ty.mask();
        (0..len.div_ceil(4))
            .flat_map(|_| {
                let word = self.0.next_u64();
                [word & mask, word >> 16 & mask, word >> 32 & mask, word >> 48 & mask]
            })
            .take(len)
            .collect()
    }

    /// Scales of a type: of a few powers of two, ordinary ones, or with some of every kind.
    pub(crate) fn scales(&mut self, count: usize, types: &[Ty]) -> (Ty, Vec<u64>) {
        let ty = if self.below(2) == 0 { Ty::Float } else { self.one_of(types) };
        let kind = self.below(6);
        let special = special(ty);
        let values = (ty.bits() == 16).then(|| Values::new(ty));
        let scale = |draw: &mut Draw| {
            if kind == 0 && draw.below(8) == 0 {
                return draw.one_of(&special);
            }
            let exponent = 117 + draw.below(16);
            if ty == Ty::Float8E8M0 {
                return exponent;
            }
            let fraction = if kind == 1 { 0 } else { draw.below(1 << 23) };
            let bits = exponent << 23 | fraction;
            values.as_ref().map_or(bits, |values| values.code_of(f32::from_bits(bits as u32)))
        };
        (ty, (0..count).map(|_| scale(self)).collect())
    }

    /// Moves what is smaller than the greatest of a block to a tie of two codes of a type of 8 bits or fewer, times a
    /// factor, or just beside one: there the order of divisions and products shows.
    pub(crate) fn beside_ties(&mut self, block: &mut [f32], values: &Floats, factor: f32) {
        let most = block.iter().fold(0f32, |most, x| most.max(x.abs()));
        for x in block.iter_mut().filter(|x| x.abs() < most) {
            let code = self.below(values.count() / 2 - 1);
            let tie = (values.of(code) + values.of(code + 1)) / 2.0 * factor;
            let bits = tie.to_bits().wrapping_add(self.below(3) as u32).wrapping_sub(1);
            let beside = f32::from_bits(bits | (self.below(2) as u32) << 31);
            if beside.abs() < most {
                *x = beside;
            }
        }
    }

    /// Zero points of a type, or none: of floats zeros.
    pub(crate) fn zero_points(&mut self, count: usize, ty: Ty) -> Option<Vec<u64>> {
        match (self.below(2), ty.int_range()) {
            (0, _) => None,
            (_, Some(_)) => Some(random(ty, count, self.0.next_u64())),
            _ => Some(vec![0; count]),
        }
    }
}

/// A tensor's shape, and which elements have a scale together.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) blocks: Blocks,
    /// The shape of the scale, and the attributes, as ONNX has them.
    pub(crate) scale_shape: Vec<usize>,
    pub(crate) axis: i64,
    pub(crate) block_size: usize,
}

impl Case {
    pub(crate) fn len(&self) -> usize {
        self.blocks.shape.iter().product()
    }

    pub(crate) fn count(&self) -> usize {
        self.blocks.count()
    }

    /// A shape of two axes, or of three.
    fn shape(draw: &mut Draw) -> Vec<usize> {
        let [rows, columns] = draw.rows_and_columns();
        match draw.below(4) {
            0 => {
                let outer = 1 + draw.below(rows as u64) as usize;
                vec![outer, rows.div_ceil(outer), columns]
            }
            // The long axis in the middle.
            1 if columns > rows => vec![rows.min(3), columns, rows.div_ceil(3)],
            _ => vec![rows, columns],
        }
    }

    /// A granularity of ONNX's operators: of the tensor, an axis, or blocks of one.
    pub(crate) fn of_onnx(draw: &mut Draw) -> Case {
        let shape = Case::shape(draw);
        let axis = draw.below(shape.len() as u64) as usize;
        let (mut block, mut block_size) = (shape.clone(), 0);
        let scale_shape = match draw.below(6) {
            0 => Vec::new(),
            1 | 2 => {
                block[axis] = 1;
                vec![shape[axis]]
            }
            _ => {
                block_size = draw.length(shape[axis] + 2);
                block.fill(1);
                block[axis] = block_size;
                Vec::new()
            }
        };
        let blocks = Blocks { shape, block };
        let scale_shape = if block_size > 0 { blocks.grid() } else { scale_shape };
        let axis = if draw.below(2) == 0 { axis as i64 } else { axis as i64 - blocks.shape.len() as i64 };
        Case { blocks, scale_shape, axis, block_size }
    }

    /// Blocks of rows and columns of the last two axes: often whole rows.
    pub(crate) fn of_rows_and_columns(draw: &mut Draw) -> Case {
        let shape = Case::shape(draw);
        let [rows, columns] = [shape[shape.len() - 2], shape[shape.len() - 1]];
        let by_rows = if draw.below(2) == 0 { 1 } else { draw.length(rows + 2) };
        let by_columns = if draw.below(3) == 0 { columns } else { draw.length(columns + 2) };
        let mut block = vec![1; shape.len()];
        block[shape.len() - 2..].copy_from_slice(&[by_rows, by_columns]);
        let blocks = Blocks { shape, block };
        Case { scale_shape: blocks.grid(), blocks, axis: 0, block_size: 0 }
    }
}

/// The values of a tensor: their type, their codes, and what these are as floats.
pub(crate) struct Source {
    pub(crate) ty: Ty,
    pub(crate) codes: Vec<u64>,
    pub(crate) floats: Vec<f32>,
}

impl Source {
    pub(crate) fn tensor(&self, case: &Case) -> Tensor {
        tensor(self.ty, &case.blocks.shape, &self.codes)
    }

    /// Values of float, float16 or bfloat16.
    pub(crate) fn values(draw: &mut Draw, case: &Case) -> Source {
        let ty = draw.one_of(&[Ty::Float, Ty::Float, Ty::Float16, Ty::Bfloat16]);
        Source::of_type(draw, case, ty)
    }

    /// Values of float.
    pub(crate) fn floats(draw: &mut Draw, case: &Case) -> Source {
        Source::of_type(draw, case, Ty::Float)
    }

    /// Stretches of any length have magnitudes of their own, so that scales of neighbours differ; some values are not
    /// ordinary.
    fn of_type(draw: &mut Draw, case: &Case, ty: Ty) -> Source {
        let len = case.len();
        let columns = case.blocks.shape.last().copied().unwrap_or(1) as u64;
        let mut floats = Vec::with_capacity(len);
        while floats.len() < len {
            let stretch = (1 + draw.below(2 * columns)).min((len - floats.len()) as u64);
            let exponent = 119 + draw.below(12) as u32;
            for _ in 0..stretch {
                let word = draw.0.next_u64() as u32;
                // Most are of the stretch's magnitude or a little less.
                let exponent = exponent - (word & 3) - (word >> 2 & 3);
                floats.push(f32::from_bits(word & (1 << 31) | exponent << 23 | word >> 4 & 0x7f_ffff));
            }
        }
        let values = (ty != Ty::Float).then(|| Values::new(ty));
        let code = |value: &f32| match &values {
            None => value.to_bits().into(),
            Some(values) => values.code_of(*value),
        };
        let mut codes: Vec<u64> = floats.iter().map(code).collect();
        if draw.below(3) == 0 {
            let special = special(ty);
            for _ in 0..1 + draw.below(20) {
                let at = draw.below(len as u64) as usize;
                codes[at] = draw.one_of(&special);
            }
        }
        let values = Floats::new(ty);
        let floats = codes.iter().map(|code| values.of(*code)).collect();
        Source { ty, codes, floats }
    }
}
