//! Scaled casts of whole tensors, the plain way: each element finds its scale by its coordinates, and is divided or
//! multiplied by itself. It knows no parts, runs, blocks of memory, vectors or threads, which are where the library
//! can go wrong in tensors of millions of elements.
//!
//! An element takes some nanoseconds: one operation of IEEE 754 in `f32`, which is correctly rounded, and a [`Direct`]
//! cast. NaN and every other precision are left to the exact oracle of [`scaled`](crate::scaled), and blocks whose scales
//! are found to [`block_scale`](crate::block_scale). The tests compare the arithmetic with the oracle's.

use crate::block_scale::{Recipe, ScaleRule, mx_quantize, nvfp4_block, nvfp4_global};
use crate::scaled::{dequantize_direct, quantize_direct};
use crate::types::Ty;
use crate::{Direct, Rules, cast_bits};

/// Blocks of a tensor that have a scale each: how long they are on each axis. The last of an axis may be short.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// The tensor's shape.
    pub shape: Vec<usize>,
    /// Elements of a block on each axis.
    pub block: Vec<usize>,
}

impl Blocks {
    /// How many blocks there are on each axis.
    pub fn grid(&self) -> Vec<usize> {
        self.shape.iter().zip(&self.block).map(|(size, block)| size.div_ceil(*block)).collect()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.grid().iter().product()
    }

    /// The index of each element's block.
    pub fn places(&self) -> Vec<u32> {
        let mut places = vec![0u32];
        for ((size, block), count) in self.shape.iter().zip(&self.block).zip(self.grid()) {
            let mut next = Vec::with_capacity(places.len() * size);
            for place in places {
                next.extend((0..*size).map(|at| place * count as u32 + (at / block) as u32));
            }
            places = next;
        }
        places
    }
}

/// The codes of a float type for floats, by Cast.
#[derive(Clone, Debug)]
pub struct Values(Direct);

impl Values {
    /// Those of a numeric type.
    pub fn new(ty: Ty) -> Values {
        Values(Direct::new(Ty::Float, ty, &Rules::default()))
    }

    /// The code of a float.
    pub fn code_of(&self, value: f32) -> u64 {
        self.0.cast(value.to_bits().into())
    }
}

/// The value of a code of a type as a float, which has all values of the types of 16 bits or fewer.
fn float(ty: Ty, code: u64) -> f32 {
    match ty {
        Ty::Float => f32::from_bits(code as u32),
        Ty::Bfloat16 => f32::from_bits((code as u32) << 16),
        _ => f32::from_bits(cast_bits(ty, Ty::Float, code, &Rules::default()) as u32),
    }
}

/// The values of a type's codes as floats.
#[derive(Clone, Debug)]
pub struct Floats {
    ty: Ty,
    /// Of a type of 16 bits or fewer.
    values: Vec<f32>,
}

impl Floats {
    /// Those of a type of 16 bits or fewer, or of float.
    pub fn new(ty: Ty) -> Floats {
        let codes = if ty.bits() <= 16 { 1 << ty.bits() } else { 0 };
        Floats { ty, values: (0..codes).map(|code| float(ty, code)).collect() }
    }

    /// How many codes a type of 16 bits or fewer has.
    pub fn count(&self) -> u64 {
        self.values.len() as u64
    }

    /// The value of a code.
    pub fn of(&self, code: u64) -> f32 {
        self.values.get(code as usize).copied().unwrap_or_else(|| float(self.ty, code))
    }
}

/// What elements are quantized to.
pub struct Quantizer {
    to: Ty,
    cast: Direct,
    saturate: bool,
}

impl Quantizer {
    /// To an integer of 16 bits or fewer or a float of 8 bits or fewer.
    pub fn new(to: Ty, saturate: bool) -> Quantizer {
        let cast = Direct::new(Ty::Float, to, &Rules { saturate, ..Rules::default() });
        Quantizer { to, cast, saturate }
    }

    /// One element, divided by its scale. A zero point of a float is `None`, or a 0 that is added.
    pub fn code(&self, x: f32, scale: f32, zero_point: Option<i64>) -> u64 {
        let quotient = x / scale;
        match self.to.int_range() {
            Some((low, _)) if quotient.is_nan() => low as u64 & self.to.mask(),
            Some((low, high)) => {
                let sum = f64::from(quotient).round_ties_even() + zero_point.unwrap_or(0) as f64;
                sum.clamp(low as f64, high as f64) as i64 as u64 & self.to.mask()
            }
            // The processor's NaN may have another sign.
            None if quotient.is_nan() => {
                let bits = |value: f32| (Ty::Float, u64::from(value.to_bits()));
                quantize_direct(bits(x), bits(scale), 0, self.to, Ty::Float, self.saturate)
            }
            None => {
                let sum = if zero_point.is_some() { quotient + 0.0 } else { quotient };
                self.cast.cast(sum.to_bits().into())
            }
        }
    }
}

/// What elements are dequantized from and to.
pub struct Dequantizer {
    from: Floats,
    to: Ty,
    cast: Direct,
}

impl Dequantizer {
    /// From a type of 16 bits or fewer to float, float16 or bfloat16.
    pub fn new(from: Ty, to: Ty) -> Dequantizer {
        Dequantizer { from: Floats::new(from), to, cast: Direct::new(Ty::Float, to, &Rules::default()) }
    }

    /// One element, less its zero point, which is 0 for floats, times its scale.
    pub fn code(&self, code: u64, scale: f32, zero_point: i64) -> u64 {
        let product = (self.from.of(code) - zero_point as f32) * scale;
        if product.is_nan() {
            return dequantize_direct((self.from.ty, code), (Ty::Float, scale.to_bits().into()), zero_point, self.to);
        }
        self.cast.cast(product.to_bits().into())
    }
}

/// The greatest finite magnitude of each block.
pub fn greatest(x: &[f32], places: &[u32], count: usize) -> Vec<f32> {
    let mut most = vec![0f32; count];
    for (x, place) in x.iter().zip(places).filter(|(x, _)| x.is_finite()) {
        most[*place as usize] = most[*place as usize].max(x.abs());
    }
    most
}

/// The symmetric scale of each block: its largest magnitude divided by the type's largest number, or 1 if that is 0.
pub fn symmetric(x: &[f32], places: &[u32], count: usize, to: Ty) -> Vec<f32> {
    let most = match to.int_range() {
        Some((_, high)) => high as f32,
        None => float(to, to.layout().expect("a float type").max_code()),
    };
    let scale = |amax: f32| if amax / most == 0.0 { 1.0 } else { amax / most };
    greatest(x, places, count).into_iter().map(scale).collect()
}

/// The scale and the zero point of a range that holds 0, by the formulas of DynamicQuantizeLinear.
pub fn asymmetric(low: f32, high: f32, to: Ty) -> (f32, i64) {
    let (least, most) = to.int_range().expect("an integer type");
    let (least, most) = (least as f32, most as f32);
    if low == 0.0 && high == 0.0 {
        return (1.0, 0);
    }
    let scale = (high - low) / (most - least);
    let zero_point = if low == f32::NEG_INFINITY { most } else { least - low / scale };
    // NaN, which comes of 0 / 0, gives the least.
    let zero_point = if zero_point.is_nan() { least } else { zero_point.clamp(least, most) };
    (scale, zero_point.round_ties_even() as i64)
}

/// [`asymmetric`] for a finite range. If its width overflows, both ends are divided before they are subtracted. If the
/// scale is 0, the result is that of a range of 0.
pub fn finite_asymmetric(low: f32, high: f32, to: Ty) -> (f32, i64) {
    if (high - low).is_finite() {
        let (scale, zero_point) = asymmetric(low, high, to);
        return if scale == 0.0 { (1.0, 0) } else { (scale, zero_point) };
    }
    let (least, most) = to.int_range().expect("an integer type");
    let (least, most) = (least as f32, most as f32);
    let scale = high / (most - least) - low / (most - least);
    (scale, (least - low / scale).clamp(least, most).round_ties_even() as i64)
}

/// A format of MX: an element type, of which int8 counts 64ths, and a rule.
pub struct Mx {
    element: Ty,
    rule: ScaleRule,
}

impl Mx {
    /// The format of an element type.
    pub fn new(element: Ty, rule: ScaleRule) -> Mx {
        Mx { element, rule }
    }

    /// The code of a block's scale. The codes of its elements are appended.
    pub fn block(&self, block: &[f32], elements: &mut Vec<u64>) -> u64 {
        let (scale, codes) = mx_quantize(block, self.element, self.rule);
        elements.extend(codes);
        scale
    }

    /// What elements of a block are multiplied with to have their values.
    pub fn factor(&self, scale: u64) -> f32 {
        let unit = if self.element == Ty::Int8 { 1.0 / 64.0 } else { 1.0 };
        if scale == 0xff { f32::NAN } else { (2f64.powi(scale as i32 - 127) * unit) as f32 }
    }
}

/// NVFP4 by a recipe.
pub struct Nvfp4 {
    recipe: Recipe,
    /// The global scale.
    pub global: f32,
    /// The type of the values in the checkpoint, to which compressed-tensors rounds.
    weights: Ty,
}

impl Nvfp4 {
    /// The format of a tensor with a greatest finite magnitude.
    pub fn new(amax: f32, recipe: Recipe, weights: Ty) -> Nvfp4 {
        Nvfp4 { recipe, global: nvfp4_global(&[amax], recipe), weights }
    }

    /// The code of a block's scale. The codes of its elements are appended.
    pub fn block(&self, block: &[f32], elements: &mut Vec<u64>) -> u64 {
        let (scale, codes) = nvfp4_block(block, self.global, self.recipe, self.weights);
        elements.extend(codes);
        scale
    }

    /// What elements of a block are multiplied with to have their values.
    pub fn factor(&self, scale: u64) -> f32 {
        let scale = float(Ty::Float8E4M3FN, scale);
        if self.recipe == Recipe::CompressedTensors { scale / self.global } else { scale * self.global }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generators::{Rng, near_ties, random_scaled, special};
    use crate::scaled::{FLOATS, QUANTIZED, quotient_is_zero};

    fn floats(count: usize, seed: u64) -> Vec<f32> {
        let mut values = special(Ty::Float);
        values.extend(random_scaled(Ty::Float, count, seed));
        values.into_iter().map(|bits| f32::from_bits(bits as u32)).collect()
    }

    #[test]
    fn places_are_those_of_coordinates() {
        let blocks = Blocks { shape: vec![2, 3, 5], block: vec![1, 2, 4] };
        assert_eq!((blocks.grid(), blocks.count()), (vec![2, 2, 2], 8));
        let places = blocks.places();
        for (element, place) in places.iter().enumerate() {
            let [a, b, c] = [element / 15, element / 5 % 3, element % 5];
            assert_eq!(*place as usize, (a * 2 + b / 2) * 2 + c / 4, "element {element}");
        }
        assert_eq!(places.len(), 30);
    }

    #[test]
    fn quotients_are_the_oracles() {
        let scales = floats(300, 1);
        let mut rng = Rng::new(2);
        for to in QUANTIZED {
            let mut x = floats(300, 3);
            x.extend(near_ties(Ty::Float, to, 3000, 4).into_iter().map(|bits| f32::from_bits(bits as u32)));
            for saturate in [true, false] {
                let quantizer = Quantizer::new(to, saturate);
                for x in &x {
                    let scale = if rng.below(3) == 0 { 1.0 } else { scales[rng.below(scales.len() as u64) as usize] };
                    let zero = to.int_range().map(|(low, high)| low as i64 + rng.below((high - low) as u64 + 1) as i64);
                    let bits = |value: f32| (Ty::Float, u64::from(value.to_bits()));
                    let want = quantize_direct(bits(*x), bits(scale), zero.unwrap_or(0), to, Ty::Float, saturate);
                    assert_eq!(quantizer.code(*x, scale, zero), want, "{x:e} / {scale:e} {zero:?} to {}", to.name());
                    if to.int_range().is_none() && to.bits() < 8 {
                        let is_zero = quotient_is_zero(bits(*x), bits(scale), Ty::Float);
                        let want = if is_zero { 0 } else { want };
                        assert_eq!(quantizer.code(*x, scale, Some(0)), want, "{x:e} / {scale:e} + 0 to {}", to.name());
                    }
                }
            }
        }
    }

    #[test]
    fn products_are_the_oracles() {
        let scales = floats(3000, 5);
        let mut rng = Rng::new(6);
        for (from, to) in QUANTIZED.into_iter().flat_map(|from| FLOATS.map(|to| (from, to))) {
            let dequantizer = Dequantizer::new(from, to);
            for scale in &scales {
                let (code, zero) = (rng.next_u64() & from.mask(), rng.below(200) as i64 - 100);
                let zero = if from.int_range().is_some() { zero } else { 0 };
                let want = dequantize_direct((from, code), (Ty::Float, scale.to_bits().into()), zero, to);
                let got = dequantizer.code(code, *scale, zero);
                assert_eq!(got, want, "({} {code:#x} - {zero}) * {scale:e} to {}", from.name(), to.name());
            }
        }
    }
}
