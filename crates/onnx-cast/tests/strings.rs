//! Casts to and from strings: every numeric type is read from text and written to it, and compared with the exact
//! oracle, the standard library's parser and the round trip. Texts that are not numbers give the right errors.

use onnx_cast::backend::{self, Backend};
use onnx_cast::ops::{CastErrorKind, ParseError};
use onnx_cast::tensor::Strings;
use onnx_cast::{Cast, CastError, CastOptions, DataType, Tensor, TensorView};
use testkit::generators::{
    NOT_NUMBERS, NUMBER_TEXTS, Rng, every, near_tie_texts, near_ties, random, random_scaled, special,
};
use testkit::library::{data_type, options};
use testkit::packing::{pack, unpack};
use testkit::types::Kind;
use testkit::{RoundMode, Rules, StringError, Ty, cast_from_string, cast_to_string};

/// Reads texts on one backend. Returns the bit patterns, or the library's error.
fn read_on<S: AsRef<[u8]>>(backend: Backend, texts: &[S], to: Ty, rules: &Rules) -> Result<Vec<u64>, CastError> {
    let strings: Strings = texts.iter().collect();
    let shape = [texts.len()];
    let view = TensorView::strings(&shape, strings.view())?;
    let cast = Cast::new(data_type(to), &options(rules, backend))?;
    let tensor = cast.run(&view)?;
    Ok(unpack(to, tensor.bytes().expect("numbers"), texts.len()).expect("the bytes of the result"))
}

/// Reads texts on every backend, which must agree.
fn read<S: AsRef<[u8]>>(texts: &[S], to: Ty, rules: &Rules) -> Result<Vec<u64>, CastError> {
    let mut results = backend::available().map(|backend| read_on(backend, texts, to, rules));
    let first = results.next().expect("a backend");
    for other in results {
        assert_eq!(other, first, "the backends differ, to {} with {rules:?}", to.name());
    }
    first
}

/// The library's result for one text, with the oracle's error type.
fn read_one(text: &[u8], to: Ty, rules: &Rules) -> Result<u64, StringError> {
    match read(&[text], to, rules).map_err(CastError::into_kind) {
        Ok(bits) => Ok(bits[0]),
        Err(CastErrorKind::Text { source, .. }) => Err(match source {
            ParseError::NotANumber => StringError::NotANumber,
            ParseError::OutOfRange => StringError::OutOfRange,
            ParseError::NotFinite => StringError::NotFinite,
            other => panic!("{other} is new here"),
        }),
        Err(other) => panic!("{:?} to {}: {other}", String::from_utf8_lossy(text), to.name()),
    }
}

/// Compares the results for valid and invalid texts with the oracle.
fn check_texts<S: AsRef<str>>(texts: &[S], to: Ty, rules: &Rules) {
    let wants: Vec<_> = texts.iter().map(|text| cast_from_string(text.as_ref(), to, rules)).collect();
    // Numbers are read together as one tensor; invalid texts one by one, because the first ends a cast.
    let (mut good, mut bits) = (Vec::new(), Vec::new());
    for (text, want) in texts.iter().zip(wants) {
        let text = text.as_ref();
        match want {
            Ok(want) => {
                good.push(text);
                bits.push(want);
            }
            Err(_) => assert_eq!(read_one(text.as_bytes(), to, rules), want, "{text:?} -> {} {rules:?}", to.name()),
        }
    }
    let got = read(&good, to, rules).unwrap_or_else(|error| panic!("to {}: {error}", to.name()));
    for ((text, got), want) in good.iter().zip(got).zip(bits) {
        let text: String = text.chars().take(100).collect();
        assert_eq!(got, want, "{text:?} -> {} {rules:?}: {got:#x}, want {want:#x}", to.name());
    }
}

/// Writes elements on one backend.
fn write_on(backend: Backend, from: Ty, values: &[u64]) -> Strings {
    let cast = Cast::new(DataType::String, &CastOptions::new().backend(backend));
    let bytes = pack(from, values);
    let shape = [values.len()];
    let view = TensorView::new(data_type(from), &shape, &bytes).expect("bytes of the right length");
    let mut strings = Strings::new();
    cast.and_then(|cast| cast.plan(data_type(from)))
        .expect("Cast-28 takes all types")
        .run_strings_into(&view, &mut strings)
        .expect("every number has a text");
    strings
}

/// Compares written texts with the oracle.
fn check_written(from: Ty, values: &[u64]) {
    let wants: Vec<String> = values.iter().map(|&bits| cast_to_string(from, bits)).collect();
    for backend in backend::available() {
        let strings = write_on(backend, from, values);
        assert_eq!(strings.view().len(), values.len());
        for ((bits, got), want) in values.iter().zip(strings.view().iter()).zip(&wants) {
            let got = String::from_utf8_lossy(got);
            assert_eq!(got, want.as_str(), "{} {bits:#x} on {backend:?}", from.name());
        }
    }
}

const DEFAULT: Rules = Rules { opset_version: 28, saturate: true, round_mode: RoundMode::Up };

#[test]
fn white_space_around_a_number_is_that_of_ascii() {
    for space in ["\t", "\n", "\x0b", "\x0c", "\r", " ", " \t\r\n "] {
        for text in [format!("{space}7"), format!("7{space}"), format!("{space}7{space}")] {
            for to in [Ty::Float, Ty::Float16, Ty::Int8, Ty::Uint4] {
                let want = cast_from_string("7", to, &DEFAULT);
                assert_eq!(read_one(text.as_bytes(), to, &DEFAULT), want, "{text:?} -> {}", to.name());
            }
        }
        let text = format!("{space}True{space}");
        assert_eq!(read_one(text.as_bytes(), Ty::Bool, &DEFAULT), Ok(1), "{text:?}");
    }
    for space in ["\0", "\x08", "\x1c", "\u{85}", "\u{a0}", "\u{2003}", "\u{3000}", "\u{feff}"] {
        for text in [format!("{space}7"), format!("7{space}")] {
            for to in Ty::NUMERIC {
                let got = read_one(text.as_bytes(), to, &DEFAULT);
                assert_eq!(got, Err(StringError::NotANumber), "{text:?} -> {}", to.name());
            }
        }
    }
}

#[test]
fn the_edges_of_the_grammar_to_every_type() {
    let words = ["true", "TRUE", "False", "tRuE", " false ", "+true", "truefalse", "t", "1true"];
    let texts: Vec<&str> = NUMBER_TEXTS.into_iter().chain(NOT_NUMBERS).chain(words).collect();
    for to in Ty::NUMERIC {
        for rules in Rules::every(Ty::String, to) {
            check_texts(&texts, to, &rules);
        }
    }
}

#[test]
fn texts_beside_the_points_where_a_result_changes() {
    for to in Ty::NUMERIC {
        let texts = near_tie_texts(to, 3000, 31);
        for rules in Rules::distinct(Ty::String, to) {
            check_texts(&texts, to, &rules);
        }
    }
}

/// A random decimal text: digits, point, exponent, sign and white space.
fn random_text(rng: &mut Rng) -> String {
    let mut text = String::new();
    if rng.below(8) == 0 {
        text.push([' ', '\t', '\n'][rng.below(3) as usize]);
    }
    text.push_str(["", "", "-", "+"][rng.below(4) as usize]);
    if rng.below(8) == 0 {
        text.push_str(&"0".repeat(1 + rng.below(30) as usize));
    }
    let reach = [4, 10, 25, 60][rng.below(4) as usize];
    let digits = 1 + rng.below(reach);
    let point = rng.below(2 * digits + 1);
    // A run of zeros or nines in the middle puts a number close to a number with fewer digits.
    let run = rng.below(digits + 1)..rng.below(digits + 1);
    let filler = [b'0', b'9'][rng.below(2) as usize];
    for place in 0..digits {
        if place == point {
            text.push('.');
        }
        let digit = if run.contains(&place) { filler } else { b'0' + rng.below(10) as u8 };
        text.push(char::from(digit));
    }
    if rng.below(2) == 0 {
        let reach = [3, 12, 50, 400][rng.below(4) as usize];
        let exponent = rng.below(2 * reach + 1) as i64 - reach as i64;
        text.push_str(["e", "E"][rng.below(2) as usize]);
        text.push_str(&if exponent >= 0 && rng.below(2) == 0 { format!("+{exponent}") } else { exponent.to_string() });
    }
    if rng.below(8) == 0 {
        text.push(' ');
    }
    text
}

#[test]
fn random_texts_to_every_type() {
    let mut rng = Rng::new(32);
    for to in Ty::NUMERIC {
        let texts: Vec<String> = (0..6000).map(|_| random_text(&mut rng)).collect();
        for rules in Rules::distinct(Ty::String, to) {
            check_texts(&texts, to, &rules);
        }
    }
}

/// Every one of these characters occurs in the grammar, but most words made of them are not numbers.
#[test]
fn random_words_are_taken_or_refused_as_the_oracle_does() {
    const LETTERS: &[u8] = b"0123456789000055559999++--...eEEe  \tinfatyINFATYrusl_,x";
    let mut rng = Rng::new(33);
    let mut taken = 0;
    let mut texts = Vec::new();
    for _ in 0..150_000 {
        let length = rng.below(9);
        let text: String = (0..length).map(|_| char::from(LETTERS[rng.below(LETTERS.len() as u64) as usize])).collect();
        taken += u32::from(cast_from_string(&text, Ty::Double, &DEFAULT).is_ok());
        texts.push(text);
    }
    assert!((10_000..140_000).contains(&taken), "{taken} of the words are numbers");
    for to in [Ty::Double, Ty::Float16, Ty::Int64, Ty::Uint8, Ty::Int4, Ty::Bool] {
        check_texts(&texts, to, &DEFAULT);
    }
}

#[test]
fn float_and_double_as_the_standard_library_reads_them() {
    let mut rng = Rng::new(34);
    let texts: Vec<String> = (0..500_000).map(|_| random_text(&mut rng)).collect();
    let backend = Backend::best();
    let floats = read_on(backend, &texts, Ty::Float, &DEFAULT).expect("numbers");
    let doubles = read_on(backend, &texts, Ty::Double, &DEFAULT).expect("numbers");
    for ((text, float), double) in texts.iter().zip(floats).zip(doubles) {
        let want: f32 = text.trim().parse().expect("a number");
        assert_eq!(float, u64::from(want.to_bits()), "{text:?} -> float");
        let want: f64 = text.trim().parse().expect("a number");
        assert_eq!(double, want.to_bits(), "{text:?} -> double");
    }
}

#[test]
fn long_texts_and_huge_exponents() {
    let zeros = |count: usize| "0".repeat(count);
    let nines = "9".repeat(5000);
    let mut texts = vec![
        format!("1.00048828125{}1", zeros(3000)),
        format!("1.00048828125{}", zeros(3000)),
        format!("1.00048828124{nines}"),
        format!("{}7", zeros(3000)),
        format!("0.{}1e3001", zeros(3000)),
        format!("0.{}25e3001", zeros(3000)),
        format!("1{}e-3000", zeros(3000)),
        format!("-{nines}e-4999"),
        format!("{nines}e-5010"),
        // Digits and exponents that cancel to a number of ordinary size.
        format!("0.{}1e70001", zeros(70_000)),
        format!("0.{}15E1000001", zeros(1_000_000)),
        format!("3{}e-1000000", zeros(1_000_000)),
        format!("-2.5{}E-{}1", zeros(100_000), zeros(100_000)),
        format!("0.{}", zeros(100_000)),
        format!("0.{}1", zeros(100_000)),
        format!("0.{}1e655359", zeros(100_000)),
        format!("1{}", zeros(100_000)),
    ];
    for exponent in ["65535", "65536", "655360", "9223372036854775807", "9223372036854775808", "18446744073709551616"] {
        for sign in ["", "+", "-"] {
            texts.push(format!("1e{sign}{exponent}"));
            texts.push(format!("-0.0001e{sign}{exponent}"));
            texts.push(format!("0.0e{sign}{exponent}"));
        }
    }
    texts.push(format!("1e{}5", zeros(1000)));
    texts.push(format!("1e-{}5", zeros(1000)));
    for to in Ty::NUMERIC {
        check_texts(&texts, to, &DEFAULT);
    }
}

#[test]
fn every_integer_type_ends_where_its_range_does() {
    for to in Ty::NUMERIC {
        let Some((low, high)) = to.int_range() else { continue };
        let mut texts = Vec::new();
        for end in [low, high, 0] {
            for value in end - 2..=end + 2 {
                for tail in ["", ".0", ".4999999999999999999999", ".5", ".50000000000000000001", ".99999", "e0", "0e-1"]
                {
                    texts.push(format!("{value}{tail}"));
                }
            }
        }
        texts.extend(
            ["1e19", "1e20", "1e21", "-1e19", "99999999999999999999", "-0.0", "-0.4", "1e-30"].map(str::to_owned),
        );
        check_texts(&texts, to, &DEFAULT);
        let bits = |value: i128| value as u64 & to.mask();
        assert_eq!(read_one(low.to_string().as_bytes(), to, &DEFAULT), Ok(bits(low)), "{}", to.name());
        assert_eq!(read_one(high.to_string().as_bytes(), to, &DEFAULT), Ok(bits(high)), "{}", to.name());
        for beyond in [low - 1, high + 1] {
            let got = read_one(beyond.to_string().as_bytes(), to, &DEFAULT);
            assert_eq!(got, Err(StringError::OutOfRange), "{beyond} -> {}", to.name());
        }
    }
}

#[test]
fn every_value_of_16_bits_or_fewer_is_written_and_read_back() {
    for from in Ty::NUMERIC.into_iter().filter(|ty| ty.bits() <= 16) {
        let values = every(from);
        check_written(from, &values);
        let strings = write_on(Backend::best(), from, &values);
        let texts: Vec<&[u8]> = strings.view().iter().collect();
        // The text is the shortest for a float. For a power of two it can be slightly above or below the power, which
        // affects "up" and "down" but not "nearest". With `saturate`, "INF" would be read as the largest float8e5m2.
        let rules = Rules { round_mode: RoundMode::Nearest, saturate: false, ..DEFAULT };
        let back = read(&texts, from, &rules).expect("numbers");
        for ((value, text), back) in values.iter().zip(&texts).zip(back) {
            let text = String::from_utf8_lossy(text);
            let nan = text == "NaN";
            let want = match from {
                _ if nan => cast_from_string("nan", from, &rules).expect("a type with NaN"),
                Ty::Bool => u64::from(*value != 0),
                _ => *value,
            };
            assert_eq!(back, want, "{} {value:#x} -> {text:?} -> {back:#x}", from.name());
            assert_eq!(nan, is_nan(from, *value), "{} {value:#x} -> {text:?}", from.name());
        }
    }
}

fn is_nan(ty: Ty, bits: u64) -> bool {
    matches!(testkit::exact::decode(ty, bits), testkit::exact::Number::NaN { .. })
}

#[test]
fn wider_values_are_written_as_the_oracle_writes_them() {
    for from in Ty::NUMERIC.into_iter().filter(|ty| ty.bits() > 16) {
        let count = if from == Ty::Double { 4000 } else { 20_000 };
        let mut values = special(from);
        values.extend(near_ties(from, Ty::Float, count / 4, 35));
        values.extend(random(from, count, 36));
        values.extend(random_scaled(from, count, 37));
        check_written(from, &values);
    }
}

/// Floats next to powers of ten and of two, halves of decimals, subnormals, and values spread over all exponents.
fn hard_to_print(ty: Ty) -> Vec<u64> {
    let (bits, significand_bits) = if ty == Ty::Float { (32, 23) } else { (64, 52) };
    let code = |value: f64| if ty == Ty::Float { u64::from((value as f32).to_bits()) } else { value.to_bits() };
    let infinity = code(f64::INFINITY);
    let mut centres: Vec<u64> = (-324..=308).map(|k| code(format!("1e{k}").parse().expect("a number"))).collect();
    centres.extend((0..infinity >> significand_bits).map(|field| field << significand_bits));
    // Sums of a few powers of two, whose decimals end in 5 after the last digit of the shortest text.
    centres.extend((0..6000).map(|i| code(f64::from(i) / 512.0)));
    centres.extend(
        (0..80).flat_map(|k| (1..64).map(move |i| (k, i))).map(|(k, i)| code(2f64.powi(k) + f64::from(i) / 16.0)),
    );
    let mut values: Vec<u64> =
        centres.iter().flat_map(|&centre| centre.saturating_sub(8)..=centre + 8).filter(|&x| x < infinity).collect();
    let step = infinity / 400_000 + 1;
    values.extend((0..infinity.div_ceil(step)).map(|i| i * step));
    values.extend(values.clone().into_iter().step_by(3).map(|value| value | 1 << (bits - 1)));
    values
}

/// Of two equally near texts, the standard library writes the upper one and the oracle, which is slower, the even one.
#[test]
fn float_and_double_as_the_standard_library_writes_them() {
    for ty in [Ty::Float, Ty::Double] {
        let values = hard_to_print(ty);
        let strings = write_on(Backend::best(), ty, &values);
        let mut ties = 0;
        for (&bits, text) in values.iter().zip(strings.view().iter()) {
            let standard = if ty == Ty::Float {
                f32::from_bits(bits as u32).to_string()
            } else {
                f64::from_bits(bits).to_string()
            };
            if text != standard.as_bytes() {
                ties += 1;
                let want = cast_to_string(ty, bits);
                assert_eq!(String::from_utf8_lossy(text), want, "{} {bits:#x}, {standard}", ty.name());
            }
        }
        assert!((100..values.len() / 20).contains(&ties), "{ties} of {} are ties", values.len());
    }
}

/// Most texts are read together with the bytes before them.
#[test]
fn a_text_is_read_alike_wherever_it_stands() {
    let mut rng = Rng::new(42);
    let mut texts: Vec<String> = NUMBER_TEXTS.into_iter().chain(NOT_NUMBERS).map(str::to_owned).collect();
    texts.extend((0..300).map(|_| random_text(&mut rng)));
    texts.extend((1..60).flat_map(|zeros| {
        let zeros = "0".repeat(zeros);
        [format!("-1234567{zeros}"), format!("0.{zeros}1234567"), format!("{zeros}.5"), format!("98765432109{zeros}1")]
    }));
    for to in [Ty::Float, Ty::Double, Ty::Float16, Ty::Float8E8M0, Ty::Int64, Ty::Uint64, Ty::Int4, Ty::Bool] {
        for text in &texts {
            let want = cast_from_string(text, to, &DEFAULT);
            for before in ["", "1", "0.", "1.", "1e0", "-0e0", "0.000000000000000000000000000000000000000000000000001"]
            {
                let strings: Strings = [before, text, "1"].iter().collect();
                let strings = if before.is_empty() { [text.as_str(), "1"].iter().collect() } else { strings };
                let len = strings.view().len();
                let shape = [len];
                let view = TensorView::strings(&shape, strings.view()).expect("as many strings");
                let cast = Cast::new(data_type(to), &options(&DEFAULT, Backend::best())).expect("Cast-28");
                let got = match cast.run(&view).map_err(CastError::into_kind) {
                    Ok(tensor) => {
                        let bits = unpack(to, tensor.bytes().expect("numbers"), len).expect("the bytes of the result");
                        Ok(bits[len - 2])
                    }
                    Err(CastErrorKind::Text { index, source, .. }) => {
                        assert_eq!(index, len - 2, "{text:?} after {before:?} -> {}", to.name());
                        Err(source.to_string())
                    }
                    Err(other) => panic!("{other}"),
                };
                let want = want.map_err(|error| match error {
                    StringError::NotANumber => ParseError::NotANumber.to_string(),
                    StringError::OutOfRange => ParseError::OutOfRange.to_string(),
                    StringError::NotFinite => ParseError::NotFinite.to_string(),
                });
                assert_eq!(got, want, "{text:?} after {before:?} -> {}", to.name());
            }
        }
    }
}

/// Writes random values and reads them back: the bits are the same, and NaN stays NaN.
fn round_trips(ty: Ty, count: usize, seed: u64) {
    const BLOCK: usize = 1 << 16;
    let backend = Backend::best();
    for (block, start) in (0..count).step_by(BLOCK).enumerate() {
        let count = BLOCK.min(count - start);
        let seed = seed ^ (block as u64) << 32;
        let values = if block % 2 == 0 { random(ty, count, seed) } else { random_scaled(ty, count, seed) };
        let strings = write_on(backend, ty, &values);
        let texts: Vec<&[u8]> = strings.view().iter().collect();
        let back = read_on(backend, &texts, ty, &DEFAULT).expect("numbers");
        for ((value, text), back) in values.iter().zip(texts).zip(back) {
            let same = back == *value || (is_nan(ty, *value) && is_nan(ty, back));
            assert!(same, "{} {value:#x} -> {:?} -> {back:#x}", ty.name(), String::from_utf8_lossy(text));
        }
    }
}

/// `cargo prove` does the same for ten million of each.
#[test]
fn random_floats_and_doubles_are_read_back_as_they_were() {
    round_trips(Ty::Float, 1_000_000, 38);
    round_trips(Ty::Double, 1_000_000, 39);
    round_trips(Ty::Int64, 200_000, 40);
    round_trips(Ty::Uint64, 200_000, 41);
}

#[test]
fn strings_stay_as_they_are() {
    let texts: [&[u8]; 5] = [b"", b"abc", b"\xff\xfe not UTF-8", "\u{663}".as_bytes(), b"1e5"];
    let strings: Strings = texts.iter().collect();
    let tensor = Tensor::strings(vec![5], strings.clone()).expect("five strings");
    for backend in backend::available() {
        let cast = Cast::new(DataType::String, &CastOptions::new().backend(backend));
        let cast = cast.expect("Cast-28 has string");
        assert_eq!(cast.run(&tensor.view()), Ok(tensor.clone()));
        assert_eq!(cast.run_owned(tensor.clone()), Ok(tensor.clone()));
        let mut out: Strings = ["was here before"].iter().collect();
        cast.run_strings_into(&tensor.view(), &mut out).expect("strings");
        assert_eq!(out, strings);
    }
}

#[track_caller]
fn error_of<S: AsRef<[u8]>>(texts: &[S], to: Ty) -> String {
    read(texts, to, &DEFAULT).expect_err("not numbers").to_string()
}

#[test]
fn an_error_names_the_element_and_quotes_its_text() {
    assert_eq!(
        error_of(&["1", "2", "Hello World!"], Ty::Float),
        r#"element 2: "Hello World!" is not a number (to float)"#
    );
    assert_eq!(error_of(&["", "x"], Ty::Int8), r#"element 0: "" is not a number (to int8)"#);
    assert_eq!(error_of(&["0", "128", "x"], Ty::Int8), r#"element 1: "128" is out of range (to int8)"#);
    assert_eq!(error_of(&["0", "-inf"], Ty::Uint64), r#"element 1: "-inf" has no integer value (to uint64)"#);
    assert_eq!(error_of(&["0", " nan "], Ty::Int2), r#"element 1: " nan " has no integer value (to int2)"#);
    assert_eq!(error_of(&["yes"], Ty::Bool), r#"element 0: "yes" is not a number (to bool)"#);
    assert_eq!(error_of(&["7", "٣"], Ty::Float8E8M0), r#"element 1: "٣" is not a number (to float8e8m0)"#);
    // Unprintable characters are escaped, and invalid UTF-8 is replaced.
    assert_eq!(error_of(&["\"1\"\n"], Ty::Float), r#"element 0: "\"1\"\n" is not a number (to float)"#);
    assert_eq!(error_of(&[b"\xff1"], Ty::Float), "element 0: \"\u{fffd}1\" is not a number (to float)");
    // Up to 64 characters are quoted in full; of longer texts, the first 64.
    let (fits, longer) = ("é".repeat(64), "é".repeat(65));
    assert_eq!(error_of(&[&fits], Ty::Float), format!("element 0: \"{fits}\" is not a number (to float)"));
    assert_eq!(error_of(&[&longer], Ty::Float), format!("element 0: \"{fits}...\" is not a number (to float)"));
    let digits = "9".repeat(10_000);
    let want = format!("element 0: \"{}...\" is out of range (to int64)", &digits[..64]);
    assert_eq!(error_of(&[&digits], Ty::Int64), want);
}

#[test]
fn an_error_in_a_packed_tensor_counts_elements() {
    let mut texts = vec!["1".to_owned(); 1000];
    texts[777] = "8".to_owned();
    for (to, want) in [
        (Ty::Int4, r#"element 777: "8" is out of range (to int4)"#),
        (Ty::Int2, r#"element 777: "8" is out of range (to int2)"#),
        (Ty::Uint2, r#"element 777: "8" is out of range (to uint2)"#),
    ] {
        assert_eq!(error_of(&texts, to), want);
        assert!(matches!(to.kind(), Kind::Int { .. }));
    }
}
