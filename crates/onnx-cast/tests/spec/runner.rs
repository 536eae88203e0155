//! Runs a case in every version to which it applies, and defines the short names that keep a case on one line. The exact
//! oracle, which tests of more values compare the library with, must give the same.

use onnx_cast::ops::{CastErrorKind, Operator};
use onnx_cast::tensor::{Data, Strings};
use onnx_cast::{Cast, CastError, CastLike, CastOptions, DataType, RoundMode, Tensor, TensorView};
use std::ops::RangeInclusive;
use testkit::{Direct, Rules, Ty, cast_from_string, cast_to_string};

/// From, bits of the source, to, bits of the result.
pub(crate) type Case = (DataType, u64, DataType, u64);

/// The attributes of a node.
#[derive(Clone, Copy)]
pub(crate) struct Attributes {
    pub(crate) saturate: Option<i64>,
    pub(crate) round_mode: Option<&'static str>,
}

/// The expected result of a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Bits(u64),
    Error,
}

pub(crate) const ALL: RangeInclusive<i64> = 1..=28;
pub(crate) const DEFAULT: Attributes = Attributes { saturate: None, round_mode: None };
pub(crate) const SATURATE: Attributes = Attributes { saturate: Some(1), round_mode: None };
pub(crate) const NO_SATURATE: Attributes = Attributes { saturate: Some(0), round_mode: None };

pub(crate) const INF: f64 = f64::INFINITY;
pub(crate) const NAN: f64 = f64::from_bits(0x7FF8 << 48);
pub(crate) const MINUS_NAN: f64 = f64::from_bits(0xFFF8 << 48);

/// The bits of a float.
pub(crate) const fn f(x: f32) -> u64 {
    x.to_bits() as u64
}

/// The bits of a double.
pub(crate) const fn d(x: f64) -> u64 {
    x.to_bits()
}

/// The bits of a negative integer; the runner truncates them to the type's width.
pub(crate) const fn i(x: i64) -> u64 {
    x as u64
}

/// 2^e as a double.
pub(crate) const fn p(e: i32) -> f64 {
    assert!(e >= -1022 && e <= 1023);
    f64::from_bits(((e + 1023) as u64) << 52)
}

/// The bits of the float with the value of this double; `None` if there is none.
pub(crate) fn exact_float(x: f64) -> Option<u64> {
    if x.is_nan() {
        return Some(if x.is_sign_negative() { 0xFFC0_0000 } else { 0x7FC0_0000 });
    }
    let narrow = x as f32;
    (f64::from(narrow).to_bits() == x.to_bits()).then_some(f(narrow))
}

pub(crate) fn check(versions: RangeInclusive<i64>, attributes: Attributes, cases: &[Case]) {
    for &(from, bits, to, want) in cases {
        cast_bits(versions.clone(), attributes, from, bits, to, want);
    }
}

/// Checks that a cast between two types other than string has the expected bits.
pub(crate) fn cast_bits(
    versions: RangeInclusive<i64>,
    attributes: Attributes,
    from: DataType,
    bits: u64,
    to: DataType,
    want: u64,
) {
    let want = want & mask(to);
    everywhere(versions, attributes, from, to, |len, run| {
        let shape = [len];
        let source = packed(from, &vec![bits; len]);
        let view = TensorView::new(from, &shape, &source).expect("packed for the type");
        let name = run.name();
        let (source, target, rules) = (oracle_type(from), oracle_type(to), run.rules());
        for got in [testkit::cast_bits(source, target, bits, &rules), Direct::new(source, target, &rules).cast(bits)] {
            assert_eq!(got, want, "the oracle, {from} {bits:#x} -> {to}, {name}: got {got:#x}, want {want:#x}");
        }
        let got = run.cast(&view).unwrap_or_else(|error| panic!("{from} {bits:#x} -> {to}, {name}: {error}"));
        assert_eq!(got.shape(), shape, "{from} {bits:#x} -> {to}, {name}: the shape");
        let bytes = got.bytes().expect("not strings");
        for (index, got) in unpacked(to, bytes, len).into_iter().enumerate() {
            assert_eq!(
                got, want,
                "{from} {bits:#x} -> {to}, {name}, element {index} of {len}: got {got:#x}, want {want:#x}"
            );
        }
        assert_eq!(bytes, packed(to, &vec![want; len]), "{from} {bits:#x} -> {to}, {name}: the padding");
    });
}

/// Checks that a cast from string has the expected outcome.
pub(crate) fn cast_text(
    versions: RangeInclusive<i64>,
    attributes: Attributes,
    text: &str,
    to: DataType,
    outcome: Outcome,
) {
    everywhere(versions, attributes, DataType::String, to, |len, run| {
        let strings: Strings = std::iter::repeat_n(text, len).collect();
        let tensor = Tensor::strings(vec![len], strings).expect("as many strings as in the shape");
        let name = run.name();
        let exact = match cast_from_string(text, oracle_type(to), &run.rules()) {
            Ok(bits) => Outcome::Bits(bits),
            Err(_) => Outcome::Error,
        };
        let want = if let Outcome::Bits(want) = outcome { Outcome::Bits(want & mask(to)) } else { outcome };
        assert_eq!(exact, want, "the oracle, {text:?} -> {to}, {name}");
        match (run.cast(&tensor.view()).map_err(CastError::into_kind), outcome) {
            (Ok(got), Outcome::Bits(want)) => {
                let want = want & mask(to);
                let bytes = got.bytes().expect("not strings");
                for got in unpacked(to, bytes, len) {
                    assert_eq!(got, want, "{text:?} -> {to}, {name}: got {got:#x}, want {want:#x}");
                }
            }
            (Err(CastErrorKind::Text { index, to: target, .. }), Outcome::Error) => {
                assert_eq!((index, target), (0, to), "{text:?} -> {to}, {name}: the element and the type");
            }
            (Ok(got), Outcome::Error) => panic!("{text:?} -> {to}, {name}: got {got:x?}, want an error"),
            (Err(kind), _) => panic!("{text:?} -> {to}, {name}: {kind}"),
        }
    });
}

/// Checks that a cast to string has the expected text.
pub(crate) fn text_of(from: DataType, bits: u64, want: &str) {
    assert_eq!(cast_to_string(oracle_type(from), bits), want, "the oracle, {from} {bits:#x} -> string");
    everywhere(ALL, DEFAULT, from, DataType::String, |len, run| {
        let shape = [len];
        let source = packed(from, &vec![bits; len]);
        let view = TensorView::new(from, &shape, &source).expect("packed for the type");
        let name = run.name();
        let got = run.cast(&view).unwrap_or_else(|error| panic!("{from} {bits:#x} -> string, {name}: {error}"));
        let view = got.view();
        let Data::Strings(strings) = view.data() else { panic!("{from} {bits:#x} -> string, {name}: not strings") };
        assert_eq!(strings.len(), len, "{from} {bits:#x} -> string, {name}: their number");
        for got in strings.iter() {
            assert_eq!(String::from_utf8_lossy(got), want, "{from} {bits:#x} -> string, {name}");
        }
    });
}

/// One way to run a case.
pub(crate) struct Run {
    operator: Operator,
    options: CastOptions,
    to: DataType,
}

impl Run {
    fn name(&self) -> String {
        let CastOptions { opset, saturate, round_mode, .. } = self.options;
        format!("{}-{opset} saturate={saturate:?} round_mode={round_mode:?}", self.operator)
    }

    /// The settings in the oracle's terms.
    fn rules(&self) -> Rules {
        let CastOptions { opset, saturate, round_mode, .. } = self.options;
        let word = round_mode.unwrap_or_default().to_string();
        let modes = [testkit::RoundMode::Up, testkit::RoundMode::Down, testkit::RoundMode::Nearest];
        let round_mode = modes.into_iter().find(|mode| mode.name() == word).expect("a mode of the oracle's");
        Rules { opset_version: opset as u32, saturate: saturate.unwrap_or(true), round_mode }
    }

    fn cast(&self, input: &TensorView<'_>) -> Result<Tensor, CastError> {
        match self.operator {
            Operator::Cast => Cast::new(self.to, &self.options)?.run(input),
            _ => CastLike::new(&self.options)?.run(input, self.to),
        }
    }
}

/// Calls `test` with each length and each run, for every version of Cast and CastLike in the range that supports the
/// types and attributes.
fn everywhere(
    versions: RangeInclusive<i64>,
    attributes: Attributes,
    from: DataType,
    to: DataType,
    test: impl Fn(usize, &Run),
) {
    let mut runs = 0;
    for operator in [Operator::Cast, Operator::CastLike] {
        for &version in operator.versions() {
            let has_attributes =
                (attributes.saturate.is_none() || version >= 19) && (attributes.round_mode.is_none() || version >= 24);
            if !versions.contains(&version)
                || !has_attributes
                || !operator.supports(version, from)
                || !operator.supports(version, to)
            {
                continue;
            }
            let options = CastOptions::new()
                .opset(version)
                .saturate(attributes.saturate.map(|value| value != 0))
                .round_mode(attributes.round_mode.map(|word| word.parse::<RoundMode>().expect("ONNX's word")));
            let run = Run { operator, options, to };
            for len in [1, 67] {
                test(len, &run);
            }
            runs += 1;
        }
    }
    assert!(runs > 0, "{from} -> {to}: no version in {versions:?} has it");
}

fn oracle_type(data_type: DataType) -> Ty {
    Ty::from_code(data_type.onnx()).expect("a type of the oracle's")
}

fn mask(data_type: DataType) -> u64 {
    u64::MAX >> (64 - data_type.bits().expect("not string"))
}

/// The elements in ONNX's layout: little endian, from the low bits of each byte.
pub(crate) fn packed(data_type: DataType, elements: &[u64]) -> Vec<u8> {
    let width = data_type.bits().expect("not string");
    let mut bytes = vec![0u8; (elements.len() * width).div_ceil(8)];
    for (index, element) in elements.iter().enumerate() {
        for bit in 0..width {
            let place = index * width + bit;
            bytes[place / 8] |= ((element >> bit & 1) as u8) << (place % 8);
        }
    }
    bytes
}

/// The bits of each element.
pub(crate) fn unpacked(data_type: DataType, bytes: &[u8], len: usize) -> Vec<u64> {
    let width = data_type.bits().expect("not string");
    assert_eq!(bytes.len(), (len * width).div_ceil(8), "{len} elements of {data_type}");
    let bit = |place: usize| u64::from(bytes[place / 8] >> (place % 8) & 1);
    (0..len).map(|index| (0..width).map(|b| bit(index * width + b) << b).sum()).collect()
}
