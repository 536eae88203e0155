//! Casts between strings and numbers: scalar printing and reading of one type, applied to a tensor.

use crate::element::{with_numeric_types, *};
use crate::packed::{byte_len, get, set};
use crate::scalar::Rules;
use crate::scalar::text::{Parse, ParseError, Print, Printed};
use crate::tensor::{Strings, StringsView};

/// Appends the texts of `len` elements. An error means that they do not fit in memory.
pub(super) type PrintFn = fn(bytes: &[u8], len: usize, out: &mut Strings) -> Printed;

/// Reads every string into bytes that are zero. An error carries the index of the string.
pub(super) type ParseFn = fn(StringsView<'_>, &mut [u8], &Rules) -> Result<(), (usize, ParseError)>;

fn print_all<T: Print>(bytes: &[u8], len: usize, out: &mut Strings) -> Printed {
    let (offsets, text) = out.parts_mut();
    T::print((0..len).map(|index| get::<T>(bytes, index)), offsets, text)
}

fn parse_all<T: Parse>(strings: StringsView<'_>, out: &mut [u8], rules: &Rules) -> Result<(), (usize, ParseError)> {
    debug_assert_eq!(out.len(), byte_len::<T>(strings.len()));
    for (index, (bytes, start)) in strings.iter_ends().enumerate() {
        set(out, index, T::parse(bytes, start, rules).map_err(|error| (index, error))?);
    }
    Ok(())
}

/// The function instantiated for the Rust type of a numeric type; `None` for the other types.
macro_rules! for_type {
    ($data_type:ident $function:ident $($ty:ty)*) => {
        match $data_type {
            $(data_type if data_type == <$ty as Element>::DATA_TYPE => Some($function::<$ty>),)*
            _ => None,
        }
    };
}

/// The function that prints elements of a type; `None` unless it is numeric.
pub(super) fn printer(data_type: DataType) -> Option<PrintFn> {
    with_numeric_types!(for_type data_type print_all)
}

/// The function that reads elements of a type; `None` unless it is numeric.
pub(super) fn parser(data_type: DataType) -> Option<ParseFn> {
    with_numeric_types!(for_type data_type parse_all)
}
