//! Scaled casts of whole tensors, the plain way: each element finds its scale by its coordinates, and is divided or
//! multiplied by itself. It knows no parts, runs, blocks of memory, vectors or threads, which are where the library
//! can go wrong in tensors of millions of elements.
//!
//! An element takes a few nanoseconds: one operation of IEEE 754 in `f32`, which is correctly rounded, and a search
//! among the target's values. What is not ordinary (NaN, infinity, overflow without saturation) is left to the exact
//! oracle of [`scaled`](crate::scaled), and so is every other precision. The tests compare the two.

use crate::block_scale::{Recipe, ScaleRule};
use crate::scaled::{dequantize_direct, quantize_direct};
use crate::types::Ty;
use crate::{Rules, cast_bits};

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

/// The values of a float format in the order of their codes, to search among.
#[derive(Clone, Debug)]
pub struct Values {
    ty: Ty,
    /// Those of the positive codes, and the one that would follow the largest.
    positive: Vec<f64>,
    sign_bit: u64,
}

impl Values {
    /// Those of a float type of 16 bits or fewer.
    ///
    /// # Panics
    /// If the type is another one.
    pub fn new(ty: Ty) -> Values {
        let layout = ty.layout().filter(|layout| layout.bits() <= 16).expect("a float of 16 bits or fewer");
        let value = |code| {
            let value = layout.value(code);
            value.significand as f64 * 2f64.powi(value.exponent)
        };
        Values { ty, positive: (0..=layout.max_code() + 1).map(value).collect(), sign_bit: layout.sign_bit() }
    }

    /// The code of the largest value.
    fn most(&self) -> u64 {
        self.positive.len() as u64 - 2
    }

    /// The code of the nearest value, to even; the one that follows the largest is among them.
    fn nearest(&self, magnitude: f64) -> u64 {
        let above = self.positive.partition_point(|value| *value <= magnitude);
        let Some(next) = self.positive.get(above) else { return self.most() + 1 };
        let middle = (self.positive[above - 1] + next) / 2.0;
        let rounds_up = magnitude > middle || magnitude == middle && above % 2 == 0;
        if rounds_up { above as u64 } else { above as u64 - 1 }
    }

    /// The code of a float, by Cast.
    fn cast(&self, value: f32) -> u64 {
        if value.is_finite() {
            return self.saturated(value.into());
        }
        cast_bits(Ty::Float, self.ty, value.to_bits().into(), &Rules::default())
    }

    /// The code of a finite float, which saturates.
    pub fn code_of(&self, value: f32) -> u64 {
        self.saturated(value.into())
    }

    /// The code of a finite value that saturates.
    fn saturated(&self, value: f64) -> u64 {
        let code = self.nearest(value.abs()).min(self.most());
        let has_minus_zero = !matches!(self.ty, Ty::Float8E4M3FNUZ | Ty::Float8E5M2FNUZ);
        if value.is_sign_negative() && (code > 0 || has_minus_zero) { code | self.sign_bit } else { code }
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

    /// The value of a code.
    pub fn of(&self, code: u64) -> f32 {
        self.values.get(code as usize).copied().unwrap_or_else(|| float(self.ty, code))
    }
}

/// What elements are quantized to.
pub struct Quantizer {
    /// The type of the results.
    pub to: Ty,
    /// Whether floats saturate.
    pub saturate: bool,
    values: Option<Values>,
}

impl Quantizer {
    /// To an integer of 16 bits or fewer or a float of 8 bits or fewer.
    pub fn new(to: Ty, saturate: bool) -> Quantizer {
        Quantizer { to, saturate, values: to.layout().map(|_| Values::new(to)) }
    }

    /// One element, divided by its scale. A zero point of a float is `None`, or a 0 that is added.
    pub fn code(&self, x: f32, scale: f32, zero_point: Option<i64>) -> u64 {
        let quotient = x / scale;
        let Some(values) = &self.values else {
            let (low, high) = self.to.int_range().expect("an integer type");
            if quotient.is_nan() {
                return low as u64 & self.to.mask();
            }
            let sum = f64::from(quotient).round_ties_even() + zero_point.unwrap_or(0) as f64;
            return sum.clamp(low as f64, high as f64) as i64 as u64 & self.to.mask();
        };
        let added = if zero_point.is_some() { quotient + 0.0 } else { quotient };
        let overflows = added.is_finite() && values.nearest(f64::from(added).abs()) > values.most();
        if !added.is_finite() || overflows && !self.saturate {
            let bits = |value: f32| (Ty::Float, u64::from(value.to_bits()));
            return quantize_direct(bits(x), bits(scale), 0, self.to, Ty::Float, self.saturate);
        }
        values.saturated(added.into())
    }
}

/// What elements are dequantized from and to.
pub struct Dequantizer {
    from: Floats,
    to: Ty,
    values: Option<Values>,
}

impl Dequantizer {
    /// From a type of 16 bits or fewer to float, float16 or bfloat16.
    pub fn new(from: Ty, to: Ty) -> Dequantizer {
        let values = (to != Ty::Float).then(|| Values::new(to));
        Dequantizer { from: Floats::new(from), to, values }
    }

    /// One element, less its zero point, which is 0 for floats, times its scale.
    pub fn code(&self, code: u64, scale: f32, zero_point: i64) -> u64 {
        let product = (self.from.of(code) - zero_point as f32) * scale;
        match &self.values {
            _ if !product.is_finite() => {
                dequantize_direct((self.from.ty, code), (Ty::Float, scale.to_bits().into()), zero_point, self.to)
            }
            None => product.to_bits().into(),
            Some(values) => {
                let sign = if product.is_sign_negative() { values.sign_bit } else { 0 };
                values.nearest(f64::from(product).abs()) | sign
            }
        }
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

/// The symmetric scale of each block for a type: the greatest magnitude by the type's largest number; 1 for zeros.
pub fn symmetric(x: &[f32], places: &[u32], count: usize, to: Ty) -> Vec<f32> {
    let most = match to.int_range() {
        Some((_, high)) => high as f32,
        None => {
            let values = Values::new(to);
            values.positive[values.most() as usize] as f32
        }
    };
    let scale = |amax: f32| if amax == 0.0 { 1.0 } else { amax / most };
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

/// The exponent `e` of a positive number from `2^e` up to `2^(e + 1)`.
fn exponent_of(value: f64) -> i32 {
    (value.to_bits() >> 52) as i32 - 1023
}

/// A format of MX: an element type, of which int8 counts 64ths, and a rule.
pub struct Mx {
    element: Ty,
    rule: ScaleRule,
    values: Option<Values>,
    largest: f64,
    significand_bits: i32,
}

impl Mx {
    /// The format of an element type.
    pub fn new(element: Ty, rule: ScaleRule) -> Mx {
        let values = element.layout().map(|_| Values::new(element));
        let largest = values.as_ref().map_or(127.0 / 64.0, |values| values.positive[values.most() as usize]);
        let significand_bits = element.layout().map_or(6, |layout| layout.significand_bits as i32);
        Mx { element, rule, values, largest, significand_bits }
    }

    /// The code of a block's scale. The codes of its elements are appended.
    pub fn block(&self, block: &[f32], elements: &mut Vec<u64>) -> u64 {
        if block.iter().any(|x| !x.is_finite()) {
            elements.extend(block.iter().map(|_| 0));
            return 0xff;
        }
        let a = f64::from(block.iter().fold(0f32, |a, x| a.max(x.abs())));
        let largest_exponent = exponent_of(self.largest);
        let exponent = match self.rule {
            _ if a == 0.0 => -127,
            ScaleRule::Floor => exponent_of(a) - largest_exponent,
            ScaleRule::Ceil => {
                let is_power = a == 2f64.powi(exponent_of(a));
                exponent_of(a) + i32::from(!is_power) - largest_exponent
            }
            ScaleRule::Even => {
                // Half a unit of the element's significand carries into the exponent.
                let half = 2f64.powi(exponent_of(a) - self.significand_bits - 1);
                exponent_of(a + half) - largest_exponent
            }
            ScaleRule::Rceil => {
                let lowest = exponent_of(a) - largest_exponent - 1;
                (lowest..).find(|e| a <= self.largest * 2f64.powi(*e)).expect("A is a float")
            }
        };
        let exponent = exponent.clamp(-127, 127);
        let by = 2f64.powi(-exponent);
        elements.extend(block.iter().map(|x| {
            let scaled = f64::from(*x) * by;
            match &self.values {
                Some(values) => values.saturated(scaled),
                None => (scaled * 64.0).round_ties_even().clamp(-127.0, 127.0) as i64 as u64 & 0xff,
            }
        }));
        (exponent + 127) as u64
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
    weights: Option<Values>,
    scales: Values,
    elements: Values,
}

impl Nvfp4 {
    /// The format of a tensor with a greatest finite magnitude.
    pub fn new(amax: f32, recipe: Recipe, weights: Ty) -> Nvfp4 {
        let divisor = 1.0 / amax * 2688.0;
        let global = match recipe {
            Recipe::CompressedTensors if divisor.is_finite() => divisor,
            Recipe::CompressedTensors => 1.0,
            Recipe::ModelOpt | Recipe::Torchao if amax == 0.0 => 1.0,
            Recipe::ModelOpt | Recipe::Torchao => amax / 2688.0,
        };
        let weights = (weights != Ty::Float).then(|| Values::new(weights));
        Nvfp4 { recipe, global, weights, scales: Values::new(Ty::Float8E4M3FN), elements: Values::new(Ty::Float4E2M1) }
    }

    /// The code of a block's scale. The codes of its elements are appended.
    pub fn block(&self, block: &[f32], elements: &mut Vec<u64>) -> u64 {
        if block.iter().any(|x| !x.is_finite()) {
            elements.extend(block.iter().map(|_| 0));
            return 0x7f;
        }
        let a = block.iter().fold(0f32, |a, x| a.max(x.abs()));
        let g = self.global;
        let wide = match self.recipe {
            Recipe::ModelOpt => {
                let b = a / (6.0 * g);
                if a == 0.0 || b == 0.0 { 1.0 } else { b.clamp(2f32.powi(-9), 448.0) }
            }
            Recipe::Torchao if a == 0.0 => 2f32.powi(-6),
            Recipe::Torchao => (a / 6.0 / g).clamp(2f32.powi(-6), 448.0),
            Recipe::CompressedTensors => {
                let sixth = a / 6.0;
                let rounded = self.weights.as_ref().map(|values| {
                    let code = values.nearest(sixth.into());
                    if code > values.most() { f32::INFINITY } else { values.positive[code as usize] as f32 }
                });
                g * rounded.unwrap_or(sixth)
            }
        };
        let mut code = self.scales.cast(wide);
        if code == 0 && self.recipe == Recipe::CompressedTensors {
            code = self.scales.saturated(0.125);
        }
        let scale = float(Ty::Float8E4M3FN, code);
        elements.extend(block.iter().map(|x| {
            let scaled = match self.recipe {
                Recipe::ModelOpt => x / (scale * g),
                Recipe::Torchao => x * (1.0 / g / scale),
                Recipe::CompressedTensors => x / (scale / g),
            };
            self.elements.cast(scaled)
        }));
        code
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
    use crate::block_scale::{MX_ELEMENTS, mx_quantize, nvfp4_block, nvfp4_global};
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

    #[test]
    fn blocks_are_the_oracles() {
        let values = floats(2000, 7);
        for block in values.chunks(5) {
            let mut got = Vec::new();
            for (element, rule) in
                MX_ELEMENTS.into_iter().flat_map(|element| ScaleRule::ALL.map(|rule| (element, rule)))
            {
                got.clear();
                let scale = Mx::new(element, rule).block(block, &mut got);
                let want = mx_quantize(block, element, rule);
                assert_eq!((scale, &got), (want.0, &want.1), "{block:?} {} {}", element.name(), rule.name());
            }
        }
        for (recipe, weights) in Recipe::ALL.into_iter().flat_map(|recipe| FLOATS.map(|weights| (recipe, weights))) {
            for block in values.chunks(5) {
                let global = nvfp4_global(block, recipe);
                let most = block.iter().filter(|x| x.is_finite()).fold(0f32, |a, x| a.max(x.abs()));
                let naive = Nvfp4::new(most, recipe, weights);
                assert_eq!(naive.global.to_bits(), global.to_bits());
                let mut got = Vec::new();
                let scale = naive.block(block, &mut got);
                assert_eq!((scale, got), nvfp4_block(block, global, recipe, weights), "{block:?} {}", recipe.name());
            }
        }
    }
}
