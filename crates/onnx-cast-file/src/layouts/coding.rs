//! Elements whose owners have packing and arithmetic of their own.

/// Elements with arithmetic of their own (`values/coded.rs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    /// Entries of a table, two in a byte, the even element in the upper half: bitsandbytes.
    Table(Table),
    /// int8, whose products with the scale are divided by 127: bitsandbytes.
    Int8,
    /// Unsigned integers in a stream of bits, with a scale and a bias: MLX.
    Affine { bits: u32 },
    /// Signed integers, two in a byte, the even element in the lower half, with a scale and a bias: torchao.
    Int4,
}

impl Coding {
    /// Bits of an element.
    pub(super) fn bits(self) -> usize {
        match self {
            Coding::Table(_) | Coding::Int4 => 4,
            Coding::Int8 => 8,
            Coding::Affine { bits } => bits as usize,
        }
    }

    /// Elements after which a byte ends too.
    pub(super) fn step(self) -> usize {
        match self {
            Coding::Table(_) | Coding::Int4 => 2,
            Coding::Int8 => 1,
            Coding::Affine { .. } => 8,
        }
    }
}

/// Elements of which a word holds one of each part of the tensor (`values/parted.rs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parts {
    /// Bits of an element, and bytes of a word.
    pub(super) bits: u32,
    pub(super) word: usize,
    /// Whether the first part is in the upper bits of what is used of a word.
    pub(super) high_first: bool,
    /// Elements of a part, which is the number of words; the last part may have fewer.
    pub(super) len: usize,
    pub(super) formula: Formula,
    /// What codes are more than the elements.
    pub(super) offset: u8,
}

impl Parts {
    /// The place of a part's bits in a word.
    pub(super) fn shift(self, part: usize) -> u32 {
        let count = 8 * self.word as u32 / self.bits;
        self.bits * if self.high_first { (count - 1).saturating_sub(part as u32) } else { part as u32 }
    }
}

/// How a value comes of an element, a scale and a zero point. Each operation is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Formula {
    /// The element less the zero point, times the scale: HQQ.
    Difference,
    /// The element divided by the scale: BitNet.
    Quotient,
    /// The element times the scale: BitNet's `autobitlinear`, and tables of bitsandbytes.
    Product,
    /// The element times the scale, less a number: quanto.
    ProductLess,
    /// The element times the scale, plus a bias: MLX and torchao.
    ProductMore,
    /// The signed element times the scale, divided by 127 after that: bitsandbytes.
    Of127,
}

/// A table of bitsandbytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Table {
    Nf4,
    Fp4,
}

impl Table {
    /// The values of the codes, as `bitsandbytes.functional.get_4bit_type` has them: quantiles of the normal
    /// distribution, or twelfths of a float of 2 bits of exponent and 1 of significand. Code 8 of the latter is -0, as
    /// in the package's kernels for GPUs; those for CPUs give either sign.
    pub(super) fn entries(self) -> [f32; 16] {
        match self {
            Table::Nf4 => [
                -1.0,
                -0.696_192_8,
                -0.525_073_05,
                -0.394_917_5,
                -0.284_441_38,
                -0.184_773_43,
                -0.091_050_036,
                0.0,
                0.079_580_3,
                0.160_930_2,
                0.246_112_3,
                0.337_915_24,
                0.440_709_83,
                0.562_617,
                0.722_956_84,
                1.0,
            ],
            Table::Fp4 => {
                let magnitudes = [0.0f32, 0.0625, 8.0, 12.0, 4.0, 6.0, 2.0, 3.0].map(|twelfths| twelfths / 12.0);
                std::array::from_fn(|code| match code {
                    0..=7 => magnitudes[code],
                    _ => -magnitudes[code - 8],
                })
            }
        }
    }
}
