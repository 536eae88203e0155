//! The edge between C and Rust: pointers become slices here, and nowhere else without being checked; failures become
//! statuses with a text for the thread, and panics do too.

use crate::status::onnx_cast_status;
use onnx_cast::__private::Count;
use onnx_cast::backend::UnknownBackend;
use onnx_cast::ops::{CastErrorKind, OpError, OpErrorKind};
use onnx_cast::tensor::{TensorError, TensorErrorKind};
use onnx_cast::{CastError, DataType};
use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::fmt::Display;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Why a function fails: a status and a text, in a box, so that the results of small calls fit in registers.
#[derive(Debug)]
pub(crate) struct Failure(Box<(onnx_cast_status, String)>);

impl Failure {
    #[cold]
    pub(crate) fn new(status: onnx_cast_status, text: impl Display) -> Failure {
        Failure(Box::new((status, text.to_string())))
    }

    #[cold]
    pub(crate) fn invalid(text: impl Display) -> Failure {
        Failure::new(onnx_cast_status::ONNX_CAST_INVALID_ARGUMENT, text)
    }

    #[cold]
    pub(crate) fn unsupported(text: impl Display) -> Failure {
        Failure::new(onnx_cast_status::ONNX_CAST_UNSUPPORTED, text)
    }

    #[cold]
    pub(crate) fn overflow(text: impl Display) -> Failure {
        Failure::new(onnx_cast_status::ONNX_CAST_OVERFLOW, text)
    }

    #[cold]
    pub(crate) fn out_of_memory(bytes: usize) -> Failure {
        Failure::new(onnx_cast_status::ONNX_CAST_OUT_OF_MEMORY, format_args!("no memory for {bytes} bytes"))
    }

    #[cold]
    fn null(name: &str) -> Failure {
        Failure::invalid(format_args!("{name} is null"))
    }
}

impl From<OpError> for Failure {
    #[cold]
    fn from(error: OpError) -> Self {
        CastError::from(error).into()
    }
}

impl From<TensorError> for Failure {
    #[cold]
    fn from(error: TensorError) -> Self {
        CastError::from(error).into()
    }
}

impl From<UnknownBackend> for Failure {
    #[cold]
    fn from(error: UnknownBackend) -> Self {
        Failure::unsupported(error)
    }
}

impl From<CastError> for Failure {
    #[cold]
    fn from(error: CastError) -> Self {
        match error.kind() {
            CastErrorKind::Op(
                OpErrorKind::Axis { .. }
                | OpErrorKind::ScaleShape { .. }
                | OpErrorKind::BlockScaleShape { .. }
                | OpErrorKind::ZeroPointShape { .. },
            ) => Failure::invalid(error),
            CastErrorKind::Op(_) => Failure::unsupported(error),
            CastErrorKind::Tensor(TensorErrorKind::TooLarge { .. }) => Failure::overflow(error),
            CastErrorKind::Text { .. } => Failure::new(onnx_cast_status::ONNX_CAST_NOT_A_NUMBER, error),
            _ => Failure::invalid(error),
        }
    }
}

thread_local! {
    static LAST_ERROR: RefCell<Option<CString>> = const { RefCell::new(None) };
}

/// The message of the last function that failed on this thread: lower case, without a full stop. Empty if none has
/// failed. The library owns the text, which stays valid until a function fails on this thread again, or the thread
/// ends.
#[unsafe(no_mangle)]
pub extern "C" fn onnx_cast_last_error() -> *const c_char {
    // A thread at its end has no text any more.
    let text = LAST_ERROR.try_with(|last| last.borrow().as_ref().map(|text| text.as_ptr()));
    text.ok().flatten().unwrap_or(c"".as_ptr())
}

/// Runs what a function does, and makes a status of how it ends. A panic ends here.
#[inline]
pub(crate) fn status(work: impl FnOnce() -> Result<(), Failure>) -> c_int {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => onnx_cast_status::ONNX_CAST_OK as c_int,
        Ok(Err(failure)) => report(&failure),
        Err(panic) => report(&of_panic(&*panic)),
    }
}

#[cold]
fn report(failure: &Failure) -> c_int {
    let (status, text) = &*failure.0;
    let text: Vec<u8> = text.bytes().filter(|&byte| byte != 0).collect();
    let text = CString::new(text).unwrap_or_default();
    let _ = LAST_ERROR.try_with(|last| last.replace(Some(text)));
    *status as c_int
}

#[cold]
fn of_panic(panic: &(dyn Any + Send)) -> Failure {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let text = text.unwrap_or("no text");
    Failure::new(onnx_cast_status::ONNX_CAST_INTERNAL, format_args!("a bug in the library: {text}"))
}

/// The type of a number.
#[inline(always)]
pub(crate) fn type_of(number: i32) -> Result<DataType, Failure> {
    DataType::from_onnx(number.into()).ok_or_else(|| not_a_type(number))
}

#[cold]
fn not_a_type(number: i32) -> Failure {
    Failure::invalid(format_args!("{number} is not an element type (want {})", DataType::onnx_numbers()))
}

/// Bytes of so many elements of a type, which may be in memory.
#[inline(always)]
pub(crate) fn byte_len(data_type: DataType, count: usize) -> Result<usize, Failure> {
    match data_type.byte_len(count).filter(|&bytes| isize::try_from(bytes).is_ok()) {
        Some(bytes) => Ok(bytes),
        None => Err(no_size(data_type, count)),
    }
}

/// Why so many elements of a type have no size.
#[cold]
fn no_size(data_type: DataType, count: usize) -> Failure {
    if data_type == DataType::String {
        return Failure::unsupported(
            "elements of string have no size (onnx_cast_to_strings and onnx_cast_from_strings cast them, and with \
                 a plan onnx_cast_plan_run_to_strings and onnx_cast_plan_run_from_strings)",
        );
    }
    Failure::overflow(format_args!("{count} elements of {data_type} do not fit in memory"))
}

/// The elements that a pointer to so many of them leads to. Null leads to none.
///
/// # Safety
/// The pointer is null, or so many elements can be read from there on, by anyone, for as long as the slice is used.
#[inline(always)]
pub(crate) unsafe fn read<'a, T>(pointer: *const T, count: usize, name: &str) -> Result<&'a [T], Failure> {
    check_pointer(pointer, count, name)?;
    // SAFETY: the pointer is not null if there are elements, it is aligned, and the length fits; the caller guarantees
    // that the memory is readable. `T` is an integer, so any bytes are elements.
    Ok(if count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(pointer, count) } })
}

/// The memory for `count` elements from a pointer on, which the caller need not have initialised. Null leads to none.
///
/// # Safety
/// The pointer is null, or `count` elements can be written from there on, and only through this slice, for as long as
/// the slice is used; and the slice does not overlap another ([`apart`]).
#[inline(always)]
pub(crate) unsafe fn write<'a, T>(
    pointer: *mut T,
    count: usize,
    name: &str,
) -> Result<&'a mut [MaybeUninit<T>], Failure> {
    check_pointer(pointer, count, name)?;
    // SAFETY: the pointer is not null if there are elements, it is aligned, and the length fits; the caller guarantees
    // that the memory is writable, and that nothing else accesses it.
    Ok(if count == 0 { &mut [] } else { unsafe { std::slice::from_raw_parts_mut(pointer.cast(), count) } })
}

/// What can be seen of a pointer to so many elements.
#[inline(always)]
pub(crate) fn check_pointer<T>(pointer: *const T, count: usize, name: &str) -> Result<(), Failure> {
    if count == 0 {
        return Ok(());
    }
    let bytes = count.checked_mul(size_of::<T>()).filter(|&bytes| isize::try_from(bytes).is_ok());
    let fits = bytes.is_some_and(|bytes| pointer.addr().checked_add(bytes).is_some());
    if pointer.is_null() || !pointer.is_aligned() || !fits {
        return Err(bad_pointer(pointer.is_null(), pointer.is_aligned(), count, name, align_of::<T>()));
    }
    Ok(())
}

/// What is wrong with a pointer to so many elements.
#[cold]
fn bad_pointer(is_null: bool, is_aligned: bool, count: usize, name: &str, align: usize) -> Failure {
    match (is_null, is_aligned) {
        (true, _) => Failure::null(name),
        (_, false) => Failure::invalid(format_args!("{name} is not aligned to {align} bytes")),
        (_, true) => Failure::overflow(format_args!("{count} elements of {name} do not fit in memory")),
    }
}

/// A piece of memory, to be compared with others.
#[derive(Clone, Copy)]
pub(crate) struct Span<'a> {
    name: &'a str,
    start: usize,
    bytes: usize,
}

impl<'a> Span<'a> {
    #[inline(always)]
    pub(crate) fn new<T>(name: &'a str, pointer: *const T, bytes: usize) -> Span<'a> {
        Span { name, start: pointer.addr(), bytes }
    }

    #[inline(always)]
    fn overlaps(&self, other: &Span<'_>) -> bool {
        // Their ends fit, as `check_pointer` has seen of each, or there are no bytes.
        let meet =
            self.start < other.start.saturating_add(other.bytes) && other.start < self.start.saturating_add(self.bytes);
        meet && self.bytes > 0 && other.bytes > 0
    }
}

/// Refuses memory to be written that lies in other memory that the function uses.
#[inline(always)]
pub(crate) fn apart(written: Span<'_>, others: &[Span<'_>]) -> Result<(), Failure> {
    for other in others {
        if written.overlaps(other) {
            return Err(overlap(written.name, other.name));
        }
    }
    Ok(())
}

#[cold]
fn overlap(written: &str, other: &str) -> Failure {
    Failure::new(onnx_cast_status::ONNX_CAST_OVERLAP, format_args!("{written} and {other} overlap"))
}

/// A buffer for a result of so many bytes, in which there is room for so many.
#[inline(always)]
pub(crate) fn room(name: &str, room: usize, want: usize) -> Result<(), Failure> {
    if room >= want { Ok(()) } else { Err(no_room(name, room, want)) }
}

#[cold]
fn no_room(name: &str, room: usize, want: usize) -> Failure {
    let text = format_args!("{name} has room for {} (want {want})", Count(room, "byte"));
    Failure::new(onnx_cast_status::ONNX_CAST_BUFFER_TOO_SMALL, text)
}

/// What a pointer leads to.
///
/// # Safety
/// The pointer is null, or leads to a value that is not written to while the reference is used.
#[inline(always)]
pub(crate) unsafe fn reference<'a, T>(pointer: *const T, name: &str) -> Result<&'a T, Failure> {
    check_pointer(pointer, 1, name)?;
    // SAFETY: not null, aligned; that it is a value is promised.
    Ok(unsafe { &*pointer })
}

/// A struct of the caller that begins with its size, and gets more fields at its end in later versions.
///
/// # Safety
/// The struct is `repr(C)`, its first field is a `usize`, and all its bytes may be 0.
pub(crate) unsafe trait Versioned: Copy {
    /// The name in C.
    const NAME: &'static str;
    /// The smallest size of a program's struct: that of the struct's first version. It never changes.
    const FIRST: usize;
}

/// Declares [`Versioned`] structs: `name { first field that a program may lack }`, or `name {}` if it has all of them.
macro_rules! versioned {
    ($name:ident {}) => { crate::edge::versioned!(@ $name size_of::<$name>()); };
    ($name:ident { $field:ident }) => { crate::edge::versioned!(@ $name std::mem::offset_of!($name, $field)); };
    (@ $name:ident $first:expr) => {
        // SAFETY: the struct is `repr(C)`, begins with `size`, and has integers, pointers and bools alone.
        unsafe impl crate::edge::Versioned for $name {
            const NAME: &'static str = stringify!($name);
            const FIRST: usize = $first;
        }
    };
}
pub(crate) use versioned;

/// The largest size of a struct from a later version: a larger one was never set.
const MOST: usize = 4096;

/// The size of a struct of the caller, as its first field states it.
///
/// # Safety
/// The pointer is null, or leads to a struct whose first field can be read.
#[inline]
pub(crate) unsafe fn size_of_struct<T: Versioned>(pointer: *const T, name: &str) -> Result<usize, Failure> {
    check_pointer(pointer.cast::<usize>(), 1, name)?;
    // SAFETY: the pointer is not null and is aligned, and the first field can be read.
    let size = unsafe { pointer.cast::<usize>().read() };
    if !(T::FIRST..=MOST).contains(&size) {
        return Err(wrong_size::<T>(size, name));
    }
    check_pointer(pointer.cast::<u8>(), size, name)?;
    if !pointer.is_aligned() {
        return Err(bad_pointer(false, false, 1, name, align_of::<T>()));
    }
    Ok(size)
}

#[cold]
fn wrong_size<T: Versioned>(size: usize, name: &str) -> Failure {
    let (first, known, of) = (T::FIRST, size_of::<T>(), T::NAME);
    let want = if first == known { format!("{known}") } else { format!("{first} to {known}") };
    Failure::invalid(format_args!("{name} has the size {size} (want {want}, sizeof({of}))"))
}

/// A struct of the caller: the fields that it has, and 0 for those of later versions than the program's.
///
/// # Safety
/// The pointer is null, or as many bytes as the first field states can be read.
#[inline(always)]
pub(crate) unsafe fn known<T: Versioned>(pointer: *const T, name: &str) -> Result<T, Failure> {
    check_pointer(pointer, 1, name)?;
    // SAFETY: the pointer is not null and is aligned, and the first field can be read.
    if unsafe { pointer.cast::<usize>().read() } != size_of::<T>() {
        // SAFETY: the pointer is not null, and as many bytes as its first field states can be read.
        return unsafe { of_other_size(pointer, name) };
    }
    // SAFETY: the pointer is not null and is aligned, and all fields can be read.
    Ok(unsafe { pointer.read() })
}

/// A struct of an older program, or of a newer one whose other fields are 0.
///
/// # Safety
/// As [`known`].
#[cold]
unsafe fn of_other_size<T: Versioned>(pointer: *const T, name: &str) -> Result<T, Failure> {
    // SAFETY: the first field can be read: it is part of the bytes that it states.
    let size = unsafe { size_of_struct(pointer, name) }?;
    let mut fields = MaybeUninit::<T>::zeroed();
    let both = size.min(size_of::<T>());
    // SAFETY: `size` bytes can be read, and `T` has at least `both`. Zeros are valid in the others.
    let fields = unsafe {
        fields.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(pointer.cast(), both);
        fields.assume_init()
    };
    // SAFETY: `size` bytes can be read; a newer struct has no padding there, or it was set to 0.
    let later = unsafe { std::slice::from_raw_parts(pointer.cast::<u8>().add(both), size - both) };
    if later.iter().any(|&byte| byte != 0) {
        let (known, of) = (size_of::<T>(), T::NAME);
        return Err(Failure::unsupported(format_args!(
            "{name} has fields that this version of the library lacks (want 0 after the {known} bytes of {of})"
        )));
    }
    Ok(fields)
}

/// Gives a struct to the caller: the fields that the program has, and 0 for those of later versions than the library's.
///
/// # Safety
/// The pointer is null, or as many bytes as the first field states can be written; the field can be read.
pub(crate) unsafe fn give_known<T: Versioned>(
    pointer: *mut T,
    name: &str,
    value: impl FnOnce(usize) -> T,
) -> Result<(), Failure> {
    // SAFETY: the pointer is null, or its first field can be read.
    let size = unsafe { size_of_struct(pointer.cast_const(), name) }?;
    let (value, both) = (value(size), size.min(size_of::<T>()));
    let to = pointer.cast::<u8>();
    // SAFETY: `size` bytes can be written, of which the value has `both`.
    unsafe {
        to.copy_from_nonoverlapping((&raw const value).cast(), both);
        to.add(both).write_bytes(0, size - both);
    }
    Ok(())
}

/// Gives a value to the caller.
///
/// # Safety
/// The pointer is null, or leads to memory that a value can be written to.
#[inline]
pub(crate) unsafe fn give<T>(pointer: *mut T, name: &str, value: impl FnOnce() -> T) -> Result<(), Failure> {
    check_pointer(pointer, 1, name)?;
    // SAFETY: not null, aligned; that it can be written is promised. What is there is not read.
    unsafe { pointer.write(value()) };
    Ok(())
}

/// The text that a pointer leads to, where it is not null.
///
/// # Safety
/// The pointer is null, or bytes up to a zero can be read from there on for as long as the text is used.
pub(crate) unsafe fn static_text<'a>(pointer: *const c_char) -> Option<&'a CStr> {
    // SAFETY: not null, and ends with a zero, as promised.
    (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_a_status_and_a_text() {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        let got = status(|| panic!("the sky fell on element {}", 7));
        std::panic::set_hook(hook);
        assert_eq!(got, onnx_cast_status::ONNX_CAST_INTERNAL as c_int);
        // SAFETY: the text is this thread's, and nothing fails before it is read.
        let text = unsafe { CStr::from_ptr(onnx_cast_last_error()) };
        assert_eq!(text, c"a bug in the library: the sky fell on element 7");
    }

    #[test]
    fn a_text_ends_with_its_only_zero() {
        let got = status(|| Err(Failure::invalid("a\0b")));
        assert_eq!(got, onnx_cast_status::ONNX_CAST_INVALID_ARGUMENT as c_int);
        // SAFETY: as above.
        assert_eq!(unsafe { CStr::from_ptr(onnx_cast_last_error()) }, c"ab");
    }
}
