//! A cast from one type to another, resolved: what to call and with which rules. Made once, run on any number of
//! tensors, without a lock or an allocation.

use crate::arch::{Backend, with_default_float_environment};
use crate::element::{with_numeric_types, *};
use crate::error::{CastError, ParseError, TensorError, shorten};
use crate::kernel::Job;
use crate::packed::{byte_len, clear_padding, get, set};
use crate::scalar::Rules;
use crate::scalar::text::{Parse, Print};
use crate::tensor::{Data, Strings, StringsView, Tensor, TensorData, TensorView};

/// A resolved cast.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    from: DataType,
    to: DataType,
    work: Work,
}

#[derive(Clone, Copy, Debug)]
enum Work {
    /// Bytes to bytes.
    Bytes(Job),
    Print(PrintAll),
    Parse(ParseAll, Rules),
    CopyStrings,
}

impl Work {
    /// Of a cast between strings and numbers, or strings.
    fn of_strings(from: DataType, to: DataType, rules: Rules) -> Work {
        match (printer(from), parser(to)) {
            (Some(print), _) => Work::Print(print),
            (None, Some(parse)) => Work::Parse(parse, rules),
            (None, None) => Work::CopyStrings,
        }
    }
}

impl Plan {
    /// The cast from `from` to `to`, neither complex.
    pub(super) fn cast(from: DataType, to: DataType, rules: Rules, backend: Backend, threads: Option<usize>) -> Plan {
        let work = if from.is_numeric() && to.is_numeric() {
            Work::Bytes(Job::cast(from, to, rules, backend, threads))
        } else {
            Work::of_strings(from, to, rules)
        };
        Plan { from, to, work }
    }

    /// The reinterpretation of bytes; the types are of the same width and not string.
    pub(super) fn bit_cast(from: DataType, to: DataType) -> Plan {
        Plan { from, to, work: Work::Bytes(Job::copy(to, Backend::best())) }
    }

    /// The type cast from.
    pub fn from(&self) -> DataType {
        self.from
    }

    /// The type cast to.
    pub fn to(&self) -> DataType {
        self.to
    }

    /// Casts a tensor into `out`, which must have exactly the bytes that the result takes. Nothing is allocated, but
    /// for the text of an error.
    ///
    /// # Errors
    /// Where the input is not of the type [`Plan::from`], the output is of another size or the target is string, or a
    /// string element is not a number (what is written to `out` is then unspecified).
    pub fn run_into(&self, input: &TensorView<'_>, out: &mut [u8]) -> Result<(), CastError> {
        self.check_input(input)?;
        let len = input.len();
        if self.to.byte_len(len) != Some(out.len()) {
            return Err(self.output_error(input, out));
        }
        match (&self.work, input.data()) {
            (Work::Bytes(job), Data::Bytes(bytes)) => {
                job.run(bytes, out, len);
                if job.copies() {
                    clear_padding(self.to, len, out);
                }
                Ok(())
            }
            (Work::Parse(parse, rules), Data::Strings(strings)) => {
                let parsed = with_default_float_environment(|| parse(strings, out, rules));
                parsed.map_err(|(index, source)| {
                    let text = strings.get(index).unwrap_or_default();
                    CastError::Text { index, text: shorten(&String::from_utf8_lossy(text)), to: self.to, source }
                })
            }
            _ => Err(CastError::OutputKind { data_type: self.to }),
        }
    }

    /// Casts a tensor to strings, in place of those that `out` holds.
    ///
    /// # Errors
    /// Where the input is not of the type [`Plan::from`], or the target is not string.
    pub fn run_strings_into(&self, input: &TensorView<'_>, out: &mut Strings) -> Result<(), CastError> {
        self.check_input(input)?;
        match (self.work, input.data()) {
            (Work::Print(print), Data::Bytes(bytes)) => {
                out.clear();
                with_default_float_environment(|| print(bytes, input.len(), out));
                Ok(())
            }
            (Work::CopyStrings, Data::Strings(strings)) => {
                out.clear();
                strings.iter().for_each(|string| out.push(string));
                Ok(())
            }
            _ => Err(CastError::OutputKind { data_type: self.to }),
        }
    }

    /// Casts a tensor to a new one of the same shape.
    ///
    /// # Errors
    /// Where the input is not of the type [`Plan::from`], the result would not fit in memory, or a string element is
    /// not a number.
    pub fn run(&self, input: &TensorView<'_>) -> Result<Tensor, CastError> {
        let shape = input.shape().to_vec();
        if self.to == DataType::String {
            let mut strings = Strings::with_capacity(input.len(), 0);
            self.run_strings_into(input, &mut strings)?;
            return Ok(Tensor::strings(shape, strings)?);
        }
        let too_large = || TensorError::TooLarge { data_type: self.to, shape: input.shape().to_vec() };
        let len = self.to.byte_len(input.len()).ok_or_else(too_large)?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(len).map_err(|_| too_large())?;
        bytes.resize(len, 0);
        self.run_into(input, &mut bytes)?;
        Ok(Tensor::new(self.to, shape, bytes)?)
    }

    /// As [`Plan::run`], but keeps the input's memory where the bytes stay the same.
    ///
    /// # Errors
    /// As [`Plan::run`].
    pub fn run_owned(&self, input: Tensor) -> Result<Tensor, CastError> {
        self.check_input(&input.view())?;
        match self.work {
            Work::CopyStrings => Ok(input),
            Work::Bytes(job) if job.copies() => {
                let len = input.len();
                match input.into_parts() {
                    (_, shape, TensorData::Bytes(mut bytes)) => {
                        clear_padding(self.to, len, &mut bytes);
                        Ok(Tensor::new(self.to, shape, bytes)?)
                    }
                    (_, shape, TensorData::Strings(strings)) => Ok(Tensor::strings(shape, strings)?),
                }
            }
            _ => self.run(&input.view()),
        }
    }

    /// What is wrong with an output that has not the bytes of the result.
    #[cold]
    fn output_error(&self, input: &TensorView<'_>, out: &[u8]) -> CastError {
        let (data_type, elements, got) = (self.to, input.len(), out.len());
        match data_type.byte_len(elements) {
            Some(want) => CastError::OutputLen { data_type, elements, got, want },
            None if data_type == DataType::String => CastError::OutputKind { data_type },
            None => TensorError::TooLarge { data_type, shape: input.shape().to_vec() }.into(),
        }
    }

    fn check_input(&self, input: &TensorView<'_>) -> Result<(), CastError> {
        if input.data_type() == self.from {
            return Ok(());
        }
        Err(CastError::InputType { got: input.data_type(), want: self.from })
    }
}

type PrintAll = fn(&[u8], usize, &mut Strings);
type ParseAll = fn(StringsView<'_>, &mut [u8], &Rules) -> Result<(), (usize, ParseError)>;

fn print_all<T: Print>(bytes: &[u8], len: usize, out: &mut Strings) {
    T::print((0..len).map(|index| get::<T>(bytes, index)), out);
}

fn parse_all<T: Parse>(strings: StringsView<'_>, out: &mut [u8], rules: &Rules) -> Result<(), (usize, ParseError)> {
    debug_assert_eq!(out.len(), byte_len::<T>(strings.len()));
    if T::DATA_TYPE.is_packed() {
        out.fill(0);
    }
    for (index, (bytes, start)) in strings.iter_ends().enumerate() {
        set(out, index, T::parse(bytes, start, rules).map_err(|error| (index, error))?);
    }
    Ok(())
}

/// The function instantiated for the Rust type of a numeric type; `None` for the others.
macro_rules! for_type {
    ($data_type:ident $function:ident $($ty:ty)*) => {
        match $data_type {
            $(data_type if data_type == <$ty as Element>::DATA_TYPE => Some($function::<$ty>),)*
            _ => None,
        }
    };
}

fn printer(data_type: DataType) -> Option<PrintAll> {
    with_numeric_types!(for_type data_type print_all)
}

fn parser(data_type: DataType) -> Option<ParseAll> {
    with_numeric_types!(for_type data_type parse_all)
}
