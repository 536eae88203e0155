//! Counts of casts from and to strings. A text counts as the double nearest to it.

use super::{Alarms, Counter, Counts, Means, Sides, is_integer};
use onnx_cast::tensor::{Strings, StringsView};
use onnx_cast::{Cast, CastError, CastOptions, DataType, Tensor, TensorView};

/// The bytes of the doubles nearest to texts that a cast to a type has taken. A number beyond doubles is still finite,
/// and one below all of them is not zero.
fn doubles(texts: StringsView<'_>, to: DataType) -> Result<Vec<u8>, CastError> {
    // Only a cast to bool takes `true` and `false`. Numbers have no letter but e.
    let number = |text| match text_letter(text) {
        Some(b't') => b"1",
        Some(b'f') => b"0",
        _ => text,
    };
    let numbers: Option<Strings> = (to == DataType::Bool).then(|| texts.iter().map(number).collect());
    let shape = [texts.len()];
    let view = TensorView::strings(&shape, numbers.as_ref().map_or(texts, Strings::view))?;
    let mut values = to_doubles(&view)?.to_vec::<f64>().unwrap_or_default();
    for (value, text) in values.iter_mut().zip(texts.iter()) {
        let mut digits = text.iter().take_while(|c| !c.eq_ignore_ascii_case(&b'e')).filter(|c| c.is_ascii_digit());
        if value.is_infinite() && digits.next().is_some() {
            *value = f64::MAX.copysign(*value);
        } else if *value == 0.0 && digits.any(|&digit| digit != b'0') {
            *value = f64::from_bits(1).copysign(*value);
        }
    }
    Ok(values.iter().flat_map(|value| value.to_le_bytes()).collect())
}

/// The first letter of a text, in lower case.
fn text_letter(text: &[u8]) -> Option<u8> {
    text.iter().find(|c| c.is_ascii_alphabetic()).map(u8::to_ascii_lowercase)
}

fn to_doubles(view: &TensorView<'_>) -> Result<Tensor, CastError> {
    Cast::new(DataType::Double, &CastOptions::new().threads(1))?.run(view)
}

/// What a cast from or to strings does to the values of a tensor. What is printed reads as the same value again.
pub(crate) fn count_strings(tensor: &TensorView<'_>, result: &TensorView<'_>) -> Result<(Counts, Means), CastError> {
    let Some(texts) = tensor.as_strings() else {
        let plan = Cast::new(DataType::String, &CastOptions::new())?.plan(tensor.data_type())?;
        return Counts::of(&plan, tensor);
    };
    if result.as_strings().is_some() {
        return Ok((Counts { values: texts.len() as u64, ..Counts::default() }, Means::default()));
    }
    let to = result.data_type();
    let source = doubles(texts, to)?;
    // The cast refuses integers that are out of range. As doubles, both sides are rounded alike.
    let widened = if is_integer(to) && to != DataType::Bool { Some(to_doubles(result)?) } else { None };
    let result = widened.as_ref().map_or(*result, Tensor::view);
    let counter = Counter::new(DataType::Double, result.data_type())?;
    let (mut sides, mut means) = (Sides::default(), Means::default());
    let bytes = result.bytes().unwrap_or_default();
    counter.add_with_means(&source, bytes, texts.len(), &mut sides, &mut means)?;
    Ok((counter.total(), means))
}

/// As [`count_strings`], of [`Alarms`] alone. Texts are read a second time only where a result is NaN, infinite, or the
/// largest of its type.
pub(crate) fn alarms_of_strings(tensor: &TensorView<'_>, result: &TensorView<'_>) -> Result<Alarms, CastError> {
    let to = result.data_type();
    if to == DataType::String {
        // What is printed reads as the same value again.
        return Ok(Alarms::default());
    }
    let limits = Counter::new(DataType::Double, to)?.limits;
    let results = to_doubles(result)?.to_vec::<f64>().unwrap_or_default();
    if results.iter().all(|&result| limits.low < result && result < limits.high) {
        return Ok(Alarms::default());
    }
    Ok(Alarms::from(&count_strings(tensor, result)?.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<T: AsRef<[u8]>>(texts: &[T], to: DataType) -> Counts {
        let strings: Strings = texts.iter().map(AsRef::as_ref).collect();
        let tensor = Tensor::strings(vec![texts.len()], strings).expect("texts");
        let plan = Cast::new(to, &CastOptions::new()).and_then(|cast| cast.plan(DataType::String)).expect("a cast");
        Counts::of(&plan, &tensor.view()).expect("counted").0
    }

    #[test]
    fn texts_are_counted_by_what_becomes_of_them() {
        use DataType::{Bool, Double, Float8E4M3FN, Float16, Int4, Int8, Uint64};
        // Overflowed, saturated, zero, subnormal, NaN, infinite.
        for (text, to, want) in [
            ("65504", Float16, [0; 6]),
            ("65505", Float16, [0, 1, 0, 0, 0, 0]),
            ("65520", Float16, [1, 0, 0, 0, 0, 0]),
            ("-1e400", Double, [1, 0, 0, 0, 0, 0]),
            ("-1e99999999999999999999", Float8E4M3FN, [0, 1, 0, 0, 0, 0]),
            ("1e-400", Double, [0, 0, 1, 0, 0, 0]),
            ("0e9", Double, [0; 6]),
            ("-.0", Float16, [0; 6]),
            (" \x0b+NaN\n", Float16, [0, 0, 0, 0, 1, 0]),
            ("-Infinity", Float16, [0, 0, 0, 0, 0, 1]),
            ("inf", Float8E4M3FN, [0, 1, 0, 0, 0, 1]),
            ("6e-8", Float16, [0, 0, 0, 1, 0, 0]),
            ("-0.9", Int8, [0, 0, 1, 0, 0, 0]),
            ("0.5", Int4, [0, 0, 1, 0, 0, 0]),
            ("18446744073709551615", Uint64, [0; 6]),
            ("127.99999999999999999999", Int8, [0; 6]),
            (" \x0bTRUE", Bool, [0; 6]),
            ("false", Bool, [0; 6]),
            ("inf", Bool, [0, 0, 0, 0, 0, 1]),
        ] {
            let Counts { overflowed, saturated, zero, subnormal, nan, infinite, .. } = of(&[text], to);
            assert_eq!([overflowed, saturated, zero, subnormal, nan, infinite], want, "{text} to {to}");
        }
    }

    #[test]
    fn errors_are_those_of_the_nearest_double() {
        use DataType::{Double, Float, Float16, Int8, Int64};
        for (text, to, error, relative) in [
            ("0.5", Float16, 0.0, 0.0),
            ("0.1", Double, 0.0, 0.0),
            ("2.75", Int8, 0.75, 0.75 / 2.75),
            ("9223372036854775807.25", Int64, 0.0, 0.0),
            ("-16777217", Float, 1.0, 1.0 / 16777217.0),
            ("1e-400", Double, 5e-324, 1.0),
        ] {
            let found = of(&[text], to);
            assert_eq!(found.max_error.to_bits(), f64::to_bits(error), "{text} to {to}: {found:?}");
            assert_eq!(found.max_relative_error.to_bits(), f64::to_bits(relative), "{text} to {to}: {found:?}");
        }
    }
}
