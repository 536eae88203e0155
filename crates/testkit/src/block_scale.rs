//! The block formats: one block of the OCP microscaling formats (MX), and a tensor of NVFP4.
//!
//! MX scales are exact: exponents come from comparisons of integers. NVFP4 is defined by float arithmetic in a stated
//! order, which the three recipes write down; only the casts to float8e4m3fn and float4e2m1 are the oracle's.

use crate::exact::{Dyadic, Magnitude, Number, Quick, Ratio, decode};
use crate::oracle::{Direct, Rules, encode};
use crate::scaled::{dequantize, product, rounded};
use crate::types::Ty;

/// Elements in a block of MX.
pub const MX_BLOCK: usize = 32;
/// Elements in a block of NVFP4.
pub const NVFP4_BLOCK: usize = 16;
/// The element types of MX. int8 stands for MXINT8, whose elements are `code / 64`.
pub const MX_ELEMENTS: [Ty; 6] =
    [Ty::Float8E4M3FN, Ty::Float8E5M2, Ty::Float6E2M3, Ty::Float6E3M2, Ty::Float4E2M1, Ty::Int8];

const SCALE_NAN: u64 = 0xff;
const E4M3_NAN: u64 = 0x7f;
/// Places behind the point of an MXINT8 element.
const INT8_PLACES: i32 = 6;

/// How the greatest magnitude A of a block becomes the exponent of its scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScaleRule {
    /// `floor(log2 A)`, less the exponent of the element's largest value.
    Floor,
    /// `ceil(log2(A / max))`, where `max` is the element's largest value.
    Rceil,
    /// `ceil(log2 A)`, less the exponent of the element's largest value.
    Ceil,
    /// `floor(log2 A)` of A with its significand rounded half up to the element's, less the exponent of the element's
    /// largest value.
    Even,
}

impl ScaleRule {
    /// All four.
    pub const ALL: [ScaleRule; 4] = [Self::Floor, Self::Rceil, Self::Ceil, Self::Even];

    /// Its word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Floor => "floor",
            Self::Rceil => "rceil",
            Self::Ceil => "ceil",
            Self::Even => "even",
        }
    }
}

/// Whose arithmetic NVFP4 is quantized by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Recipe {
    /// NVIDIA's ModelOpt.
    ModelOpt,
    /// torchao.
    Torchao,
    /// compressed-tensors, whose global scale is a divisor.
    CompressedTensors,
}

impl Recipe {
    /// All three.
    pub const ALL: [Recipe; 3] = [Self::ModelOpt, Self::Torchao, Self::CompressedTensors];

    /// Its word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ModelOpt => "modelopt",
            Self::Torchao => "torchao",
            Self::CompressedTensors => "compressed-tensors",
        }
    }
}

/// The greatest finite magnitude; 0 without any.
fn greatest_finite(values: &[f32]) -> f32 {
    values.iter().filter(|value| value.is_finite()).fold(0.0, |greatest, value| greatest.max(value.abs()))
}

fn exact(value: f32) -> Number<Quick> {
    decode(Ty::Float, value.to_bits().into())
}

/// Quantizes a block of MX, of any length: the code of its scale in float8e8m0, and the codes of its elements.
///
/// # Panics
/// If `element` is not one of [`MX_ELEMENTS`].
pub fn mx_quantize(block: &[f32], element: Ty, rule: ScaleRule) -> (u64, Vec<u64>) {
    assert!(MX_ELEMENTS.contains(&element), "{} is not an element type of MX", element.name());
    if block.iter().any(|value| !value.is_finite()) {
        return (SCALE_NAN, vec![0; block.len()]);
    }
    let exponent = match exact(greatest_finite(block)) {
        Number::Finite { magnitude: Quick { significand, exponent }, .. } if significand > 0 => {
            scale_exponent(Dyadic { significand: significand.into(), exponent }, element, rule).clamp(-127, 127)
        }
        _ => -127,
    };
    let codes = block.iter().map(|&value| {
        let scaled =
            exact(value).map(|Quick { significand, exponent: of_x }| Quick { significand, exponent: of_x - exponent });
        match scaled {
            Number::Finite { negative, magnitude: Quick { significand, exponent } } if element == Ty::Int8 => {
                let units = Quick { significand, exponent: exponent + INT8_PLACES };
                let code = units.nearest_integer_low_bits().min(127) as i64;
                (if negative { -code } else { code }) as u64 & 0xff
            }
            _ => encode(element, scaled, &Rules::default()),
        }
    });
    ((exponent + 127) as u64, codes.collect())
}

/// The exponent that `rule` gives a block whose greatest magnitude is `a`, before it is clamped. `a` is not zero.
fn scale_exponent(a: Dyadic, element: Ty, rule: ScaleRule) -> i32 {
    let (max, significand_bits) = match element.layout() {
        Some(layout) => (layout.value(layout.max_code()), layout.significand_bits as i32),
        None => (Dyadic { significand: 127, exponent: -INT8_PLACES }, INT8_PLACES),
    };
    let top = a.top();
    match rule {
        ScaleRule::Floor => top - max.top(),
        ScaleRule::Ceil => top + i32::from(a.cmp(&Dyadic::power_of_two(top)).is_gt()) - max.top(),
        ScaleRule::Even => {
            // A rounds to 2^(top + 1) from half a unit of the element's significand below it.
            let carries = Dyadic { significand: (4 << significand_bits) - 1, exponent: top - significand_bits - 1 };
            top + i32::from(a.cmp(&carries).is_ge()) - max.top()
        }
        ScaleRule::Rceil => {
            let fits = |e: &i32| a.cmp(&Dyadic { exponent: max.exponent + e, ..max }).is_le();
            (top - max.top()..).find(fits).expect("A is below 2^(top + 1), and max not below 2^max.top()")
        }
    }
}

/// The values of a block of MX, as bit patterns of `to`: float, float16 or bfloat16.
pub fn mx_dequantize(scale: u64, element: Ty, codes: &[u64], to: Ty) -> Vec<u64> {
    let scale = (Ty::Float8E8M0, scale);
    let value = |&code: &u64| {
        if element != Ty::Int8 {
            return dequantize((element, code), scale, 0, to);
        }
        let value = decode(element, code).map(|mut magnitude| {
            magnitude.exponent -= INT8_PLACES;
            magnitude
        });
        let value = rounded(Ty::Float, product::<Ratio>(value, decode(scale.0, scale.1)));
        encode(to, value, &Rules::default())
    };
    codes.iter().map(value).collect()
}

/// The code of a float in another type, by Cast.
fn cast(value: f32, to: Ty) -> u64 {
    Direct::new(Ty::Float, to, &Rules::default()).cast(value.to_bits().into())
}

/// The value of a code as a float.
fn float(from: Ty, code: u64) -> f32 {
    f32::from_bits(Direct::new(from, Ty::Float, &Rules::default()).cast(code) as u32)
}

/// The global scale of a tensor of NVFP4: a factor of its values, by compressed-tensors a divisor.
pub fn nvfp4_global(values: &[f32], recipe: Recipe) -> f32 {
    let amax = greatest_finite(values);
    match recipe {
        Recipe::ModelOpt | Recipe::Torchao if amax == 0.0 => 1.0,
        Recipe::ModelOpt | Recipe::Torchao => amax / (6.0 * 448.0),
        Recipe::CompressedTensors => Some((1.0 / amax) * 2688.0).filter(|g| g.is_finite()).unwrap_or(1.0),
    }
}

/// Quantizes a block of NVFP4, of any length: the code of its scale in float8e4m3fn, and the codes of its elements in
/// float4e2m1. `weights` is the type that the values had in the checkpoint, which compressed-tensors rounds `A / 6` to.
pub fn nvfp4_block(block: &[f32], g: f32, recipe: Recipe, weights: Ty) -> (u64, Vec<u64>) {
    if block.iter().any(|value| !value.is_finite()) {
        return (E4M3_NAN, vec![0; block.len()]);
    }
    let a = greatest_finite(block);
    let e4m3 = |value: f32| cast(value, Ty::Float8E4M3FN);
    let b = match recipe {
        Recipe::ModelOpt => match a / (6.0 * g) {
            quotient if a == 0.0 || quotient == 0.0 => e4m3(1.0),
            quotient => e4m3(quotient.clamp(2f32.powi(-9), 448.0)),
        },
        Recipe::Torchao if a == 0.0 => e4m3(2f32.powi(-6)),
        Recipe::Torchao => e4m3(((a / 6.0) / g).clamp(2f32.powi(-6), 448.0)),
        Recipe::CompressedTensors => match e4m3(g * float(weights, cast(a / 6.0, weights))) {
            0 => e4m3(0.125),
            code => code,
        },
    };
    let scale = float(Ty::Float8E4M3FN, b);
    let element = |&x: &f32| {
        let scaled = match recipe {
            Recipe::ModelOpt => x / (scale * g),
            Recipe::Torchao => x * ((1.0 / g) / scale),
            Recipe::CompressedTensors => x / (scale / g),
        };
        cast(scaled, Ty::Float4E2M1)
    };
    (b, block.iter().map(element).collect())
}

/// A tensor of NVFP4.
#[derive(Clone, Debug, PartialEq)]
pub struct Nvfp4 {
    /// The global scale: a factor, by compressed-tensors a divisor.
    pub global: f32,
    /// The code of each block's scale in float8e4m3fn, row by row.
    pub scales: Vec<u64>,
    /// The code of each element in float4e2m1.
    pub elements: Vec<u64>,
}

/// Quantizes a tensor whose last axis has `row` elements. The last block of a row may be short.
///
/// # Panics
/// If `row` is 0.
pub fn nvfp4_quantize(values: &[f32], row: usize, recipe: Recipe, weights: Ty) -> Nvfp4 {
    let global = nvfp4_global(values, recipe);
    let blocks = values.chunks(row).flat_map(|row| row.chunks(NVFP4_BLOCK));
    let (scales, elements): (Vec<_>, Vec<_>) = blocks.map(|block| nvfp4_block(block, global, recipe, weights)).unzip();
    Nvfp4 { global, scales, elements: elements.concat() }
}

/// The values of a tensor whose last axis has `row` elements, as bit patterns of `to`: float, float16 or bfloat16.
///
/// # Panics
/// If `row` is 0, or there are fewer scales than blocks.
pub fn nvfp4_dequantize(tensor: &Nvfp4, row: usize, recipe: Recipe, to: Ty) -> Vec<u64> {
    let mut scales = tensor.scales.iter().map(|&b| {
        let b = float(Ty::Float8E4M3FN, b);
        if recipe == Recipe::CompressedTensors { b / tensor.global } else { b * tensor.global }
    });
    let blocks = tensor.elements.chunks(row).flat_map(|row| row.chunks(NVFP4_BLOCK));
    let value = |block: &[u64]| {
        let scale = scales.next().expect("as many scales as blocks");
        let scale = (Ty::Float, u64::from(scale.to_bits()));
        block.iter().map(|&code| dequantize((Ty::Float4E2M1, code), scale, 0, to)).collect::<Vec<_>>()
    };
    blocks.flat_map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: u64 = 127;

    fn exponents(a: f32, element: Ty) -> [i32; 4] {
        ScaleRule::ALL.map(|rule| mx_quantize(&[a, 0.0], element, rule).0 as i32 - 127)
    }

    #[test]
    fn exponents_beside_powers_of_two() {
        use Ty::*;
        let above = 1f32.next_up();
        // floor, rceil, ceil, even
        assert_eq!(exponents(448.0, Float8E4M3FN), [0, 0, 1, 0]);
        assert_eq!(exponents(448f32.next_up(), Float8E4M3FN), [0, 1, 1, 0]);
        assert_eq!(exponents(480.0, Float8E4M3FN), [0, 1, 1, 0]);
        assert_eq!(exponents(496f32.next_down(), Float8E4M3FN), [0, 1, 1, 0]);
        assert_eq!(exponents(496.0, Float8E4M3FN), [0, 1, 1, 1]);
        assert_eq!(exponents(512.0, Float8E4M3FN), [1, 1, 1, 1]);
        assert_eq!(exponents(1.0, Float4E2M1), [-2, -2, -2, -2]);
        assert_eq!(exponents(above, Float4E2M1), [-2, -2, -1, -2]);
        assert_eq!(exponents(1f32.next_down(), Float4E2M1), [-3, -2, -2, -2]);
        assert_eq!(exponents(7.0, Float4E2M1), [0, 1, 1, 1]);
        assert_eq!(exponents(7f32.next_down(), Float4E2M1), [0, 1, 1, 0]);
        assert_eq!(exponents(57344.0, Float8E5M2), [0, 0, 1, 0]);
        assert_eq!(exponents(7.5, Float6E2M3), [0, 0, 1, 0]);
        assert_eq!(exponents(28.5, Float6E3M2), [0, 1, 1, 0]);
        assert_eq!(exponents(127.0 / 64.0, Int8), [0, 0, 1, 0]);
        assert_eq!(exponents(255.0 / 128.0, Int8), [0, 1, 1, 1]);
        // The ends of float and of float8e8m0.
        assert_eq!(exponents(f32::MAX, Float4E2M1), [125, 126, 126, 126]);
        assert_eq!(exponents(f32::MAX, Int8), [127, 127, 127, 127]);
        assert_eq!(exponents(f32::from_bits(1), Float4E2M1), [-127, -127, -127, -127]);
        // Subnormal: 3 * 2^-128, 2^-126 less half a unit of 6 bits, and one below that.
        assert_eq!(exponents(f32::from_bits(3 << 21), Int8), [-127, -127, -126, -127]);
        assert_eq!(exponents(f32::from_bits(0x7f_8000), Int8), [-127, -126, -126, -126]);
        assert_eq!(exponents(f32::from_bits(0x7f_7fff), Int8), [-127, -126, -126, -127]);
    }

    #[test]
    fn elements_of_mx() {
        use Ty::*;
        let block = [6.0, -0.0, 2.5, 3.5, -0.25, 0.25f32.next_up(), 7.5, -1.0];
        assert_eq!(mx_quantize(&block, Float4E2M1, ScaleRule::Floor), (ONE, vec![7, 8, 4, 6, 8, 1, 7, 10]));
        assert_eq!(mx_quantize(&block, Float4E2M1, ScaleRule::Ceil), (ONE + 1, vec![5, 8, 2, 4, 8, 0, 6, 9]));
        let (scale, codes) = mx_quantize(&[60000.0, 61440.0, -65535.0], Float8E5M2, ScaleRule::Floor);
        assert_eq!((scale, codes), (ONE, vec![0x7b, 0x7b, 0xfb]));
        let (scale, codes) = mx_quantize(&[1.99999, -1.99999, 0.5 / 64.0, 1.5 / 64.0, -1.0], Int8, ScaleRule::Floor);
        assert_eq!((scale, codes), (ONE, vec![127, 0x81, 0, 2, 0xc0]));
        for element in MX_ELEMENTS {
            let minus_zero = element.layout().map_or(0, |layout| layout.sign_bit());
            for rule in ScaleRule::ALL {
                assert_eq!(mx_quantize(&[0.0, -0.0], element, rule), (0, vec![0, minus_zero]));
                assert_eq!(mx_quantize(&[1.0, f32::NAN], element, rule), (0xff, vec![0, 0]));
                assert_eq!(mx_quantize(&[f32::NEG_INFINITY, -1.0], element, rule), (0xff, vec![0, 0]));
            }
        }
    }

    #[test]
    fn values_of_mx() {
        let float = |value: f32| u64::from(value.to_bits());
        assert_eq!(mx_dequantize(ONE + 1, Ty::Int8, &[64, 0x80, 0], Ty::Float), [2.0, -4.0, 0.0].map(float));
        assert_eq!(mx_dequantize(0, Ty::Int8, &[1], Ty::Float), [1 << 16]);
        assert_eq!(mx_dequantize(ONE - 1, Ty::Float4E2M1, &[8, 7], Ty::Float), [-0.0, 3.0].map(float));
        assert_eq!(mx_dequantize(SCALE_NAN, Ty::Int8, &[0x80], Ty::Float16), [0x7e00]);
        assert_eq!(mx_dequantize(254, Ty::Float8E4M3FN, &[0xfe], Ty::Bfloat16), [0xff80]);
    }

    #[test]
    fn nvfp4_by_recipe() {
        // amax 2688: the factor is 1. Blocks of A = 2688, 6 and 0.
        let mut values = vec![0.0; 3 * NVFP4_BLOCK - 4];
        values[..3].copy_from_slice(&[2688.0, -1344.0, -100.0]);
        values[16..20].copy_from_slice(&[6.0, -0.25, -0.75, 2.5]);
        values[33] = -0.0;
        for (recipe, of_zero) in [(Recipe::ModelOpt, 0x38), (Recipe::Torchao, 0x08), (Recipe::CompressedTensors, 0x20)]
        {
            let tensor = nvfp4_quantize(&values, values.len(), recipe, Ty::Float);
            // (1 / 2688) * 2688 is 1 in float.
            assert_eq!((tensor.global, &tensor.scales[..]), (1.0, &[0x7e, 0x38, of_zero][..]), "{}", recipe.name());
            assert_eq!(tensor.elements[..4], [7, 0xd, 8, 0]);
            assert_eq!(tensor.elements[16..20], [7, 8, 0xa, 4]);
            assert_eq!(tensor.elements[32..], [0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
            let back = nvfp4_dequantize(&tensor, values.len(), recipe, Ty::Float);
            let float = |value: f32| u64::from(value.to_bits());
            assert_eq!(back[..4], [2688.0, -1344.0, -0.0, 0.0].map(float));
            assert_eq!(back[16..20], [6.0, -0.0, -1.0, 2.0].map(float));
            assert_eq!(back.len(), values.len());

            values[5] = f32::NEG_INFINITY;
            let tensor = nvfp4_quantize(&values, values.len(), recipe, Ty::Float);
            // The greatest finite value is still 2688. That block is NaN.
            assert_eq!((tensor.global, tensor.scales[0], tensor.elements[0]), (1.0, 0x7f, 0));
            assert_eq!(nvfp4_dequantize(&tensor, values.len(), recipe, Ty::Bfloat16)[..2], [0x7fc0, 0x7fc0]);
            values[5] = 0.0;
            assert_eq!(nvfp4_global(&[0.0, f32::NAN], recipe), 1.0);
        }
        // Rows begin new blocks.
        assert_eq!(nvfp4_quantize(&values, 11, Recipe::ModelOpt, Ty::Float).scales.len(), 4);
        // 3.125 is the tie between 3 and 3.25. 1 / 6 is 0.16699 in bfloat16: the product is 3.1217 or 3.1278.
        let scale = |weights| nvfp4_block(&[1.0], 18.73, Recipe::CompressedTensors, weights).0;
        assert_eq!((scale(Ty::Float), scale(Ty::Bfloat16)), (0x44, 0x45));
    }
}
