//! Strings to numbers and back, on every backend, against the oracle.

use arbitrary::{Result, Unstructured};
use onnx_cast::backend::{self, Backend};
use onnx_cast::ops::{CastErrorKind, ParseError};
use onnx_cast::tensor::Strings;
use onnx_cast::{Cast, CastError, Tensor, TensorView};
use testkit::library::{data_type, options};
use testkit::packing::{pack, unpack};
use testkit::{Rules, StringError, Ty, cast_from_string, cast_to_string};

/// A type, the settings of its cast, and texts, a line each; the bytes are taken as numbers too.
pub fn texts(data: &[u8]) {
    let mut data = Unstructured::new(data);
    let Ok((ty, rules)) = plan(&mut data) else { return };
    let rest = data.take_rest();
    read(ty, &rules, &rest.split(|&byte| byte == b'\n').collect::<Vec<_>>());
    write(ty, rest);
}

/// A numeric type and settings of a cast from string to it.
fn plan(data: &mut Unstructured<'_>) -> Result<(Ty, Rules)> {
    let ty = *data.choose(&Ty::NUMERIC)?;
    let rules = Rules::distinct(Ty::String, ty);
    Ok((ty, *data.choose(&rules)?))
}

/// What the library says of texts, in the oracle's terms: the bits, or the first text that is not a number.
fn cast(
    backend: Backend,
    texts: &[&[u8]],
    to: Ty,
    rules: &Rules,
) -> std::result::Result<Vec<u64>, (usize, StringError)> {
    let strings: Strings = texts.iter().collect();
    let shape = [texts.len()];
    let view = TensorView::strings(&shape, strings.view()).expect("as many strings");
    match Cast::new(data_type(to), &options(rules, backend)).expect("a cast").run(&view).map_err(CastError::into_kind) {
        Ok(tensor) => Ok(unpack(to, tensor.bytes().expect("numbers"), texts.len()).expect("the bytes of the result")),
        Err(CastErrorKind::Text { index, source, .. }) => {
            let error = match source {
                ParseError::NotANumber => StringError::NotANumber,
                ParseError::OutOfRange => StringError::OutOfRange,
                ParseError::NotFinite => StringError::NotFinite,
                other => panic!("{other} is new here"),
            };
            Err((index, error))
        }
        Err(other) => panic!("{other}"),
    }
}

fn read(to: Ty, rules: &Rules, texts: &[&[u8]]) {
    // What is not UTF-8 is not a number.
    let one = |text: &&[u8]| match std::str::from_utf8(text) {
        Ok(text) => cast_from_string(text, to, rules),
        Err(_) => Err(StringError::NotANumber),
    };
    let want: std::result::Result<Vec<u64>, _> =
        texts.iter().enumerate().map(|(index, text)| one(text).map_err(|error| (index, error))).collect();
    for backend in backend::available() {
        let got = cast(backend, texts, to, rules);
        assert_eq!(got, want, "to {} with {rules:?} on {backend:?}", to.name());
    }
}

fn write(from: Ty, bytes: &[u8]) {
    let elements: Vec<u64> = bytes
        .chunks(from.bits().div_ceil(8) as usize)
        .map(|chunk| chunk.iter().rev().fold(0, |bits, &byte| bits << 8 | u64::from(byte)) & from.mask())
        .map(|bits| if from == Ty::Bool { bits & 1 } else { bits })
        .take(64)
        .collect();
    let tensor = Tensor::new(data_type(from), vec![elements.len()], pack(from, &elements)).expect("a tensor");
    let want: Vec<String> = elements.iter().map(|&bits| cast_to_string(from, bits)).collect();
    for backend in backend::available() {
        let cast = Cast::new(onnx_cast::DataType::String, &options(&Rules::default(), backend)).expect("a cast");
        let written = cast.run(&tensor.view()).expect("every number has a text");
        let onnx_cast::tensor::Data::Strings(strings) = written.view().data() else { panic!("no strings") };
        let got: Vec<_> = strings.iter().map(String::from_utf8_lossy).collect();
        assert_eq!(got, want, "{} to string on {backend:?}", from.name());
    }
}
