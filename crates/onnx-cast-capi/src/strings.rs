//! Strings: offsets and bytes for input and output. The size of the output is only known after printing, so one call
//! measures it and another fills the buffer; if the buffer is large enough, the first call fills it. Strings are
//! printed in blocks, which bounds the memory in use.

use crate::edge::{
    Failure, Span, apart, byte_len, check_pointer, known, read, reference, room, status, versioned, write,
};
use crate::options::onnx_cast_options;
use crate::plan::{onnx_cast_plan, resolve};
use onnx_cast::ops::Operator;
use onnx_cast::tensor::{Strings, StringsView, TensorError, TensorErrorKind};
use onnx_cast::{DataType, Plan, TensorView};
use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;

/// Strings to be read: string i is the bytes from offset i up to offset i + 1. Start from ONNX_CAST_STRINGS_INIT; later
/// versions may have more fields at the end.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct onnx_cast_strings {
    /// sizeof(onnx_cast_strings): the library reads no further, and later fields count as 0.
    /// Fields that the library does not know must be 0.
    pub size: usize,
    /// One offset more than there are strings: the first 0, none below the one before, the last byte_count.
    pub offsets: *const u64,
    /// The number of strings.
    pub count: usize,
    /// The bytes of all strings. May be null where byte_count is 0.
    pub bytes: *const c_char,
    /// The number of bytes.
    pub byte_count: usize,
}

versioned!(onnx_cast_strings {});

impl Default for onnx_cast_strings {
    fn default() -> Self {
        let size = size_of::<onnx_cast_strings>();
        onnx_cast_strings { size, offsets: ptr::null(), count: 0, bytes: ptr::null(), byte_count: 0 }
    }
}

/// Where strings are written: string i becomes the bytes from offset i up to offset i + 1. Start from
/// ONNX_CAST_STRING_BUFFER_INIT, which has no room; later versions may have more fields at the end.
///
/// To learn how many bytes the strings take, call with room 0: that succeeds, and sets needed and the offsets. If room
/// is positive but too small, the function returns ONNX_CAST_BUFFER_TOO_SMALL and sets them too; the content of bytes
/// is then unspecified.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct onnx_cast_string_buffer {
    /// sizeof(onnx_cast_string_buffer): the library reads no further, and later fields count as 0.
    /// Fields that the library does not know must be 0.
    pub size: usize,
    /// Takes one offset more than there are strings, or is null where they are not wanted.
    pub offsets: *mut u64,
    /// Takes the bytes of all strings. May be null where room is 0.
    pub bytes: *mut c_char,
    /// How many bytes there is room for.
    pub room: usize,
    /// Set to the number of bytes that the strings take.
    pub needed: usize,
}

versioned!(onnx_cast_string_buffer {});

impl Default for onnx_cast_string_buffer {
    fn default() -> Self {
        let size = size_of::<onnx_cast_string_buffer>();
        onnx_cast_string_buffer { size, offsets: ptr::null_mut(), bytes: ptr::null_mut(), room: 0, needed: 0 }
    }
}

/// Elements that are printed at once: whole bytes of every type.
const BLOCK: usize = 4096;

/// A buffer on its way to being full.
struct Writer<'a> {
    offsets: Option<&'a mut [MaybeUninit<u64>]>,
    bytes: &'a mut [MaybeUninit<u8>],
    strings: usize,
    needed: usize,
}

impl<'a> Writer<'a> {
    /// The buffer of a caller's, for so many strings, apart from what is read.
    ///
    /// # Safety
    /// The buffer's pointers are null, or point to as much memory as the buffer states and the strings require, which
    /// nothing else uses during the call.
    unsafe fn new(out: &onnx_cast_string_buffer, strings: usize, read: &[Span<'_>]) -> Result<Self, Failure> {
        let count = strings.checked_add(1).ok_or_else(|| Failure::overflow("offsets do not fit in memory"))?;
        let wanted = !out.offsets.is_null();
        let count = if wanted { count } else { 0 };
        check_pointer(out.offsets, count, "out->offsets")?;
        let offsets = Span::new("out->offsets", out.offsets, count * size_of::<u64>());
        let bytes = Span::new("out->bytes", out.bytes, out.room);
        apart(offsets, read)?;
        apart(bytes, read)?;
        apart(bytes, &[offsets])?;
        // SAFETY: promised, and they overlap with nothing.
        let (offsets, bytes) = unsafe {
            (write(out.offsets, count, "out->offsets")?, write(out.bytes.cast::<u8>(), out.room, "out->bytes")?)
        };
        let mut writer = Writer { offsets: wanted.then_some(offsets), bytes, strings: 0, needed: 0 };
        writer.mark();
        Ok(writer)
    }

    /// Writes down where the next string starts.
    fn mark(&mut self) {
        if let Some(offset) = self.offsets.as_mut().and_then(|offsets| offsets.get_mut(self.strings)) {
            offset.write(self.needed as u64);
        }
    }

    fn push(&mut self, strings: StringsView<'_>) -> Result<(), Failure> {
        let (bytes, start) = (strings.bytes(), self.needed);
        let end = start.checked_add(bytes.len()).ok_or_else(|| Failure::overflow("the texts do not fit in memory"))?;
        if let Some(room) = self.bytes.get_mut(start..end) {
            room.iter_mut().zip(bytes).for_each(|(to, byte)| *to = MaybeUninit::new(*byte));
        }
        for string in strings.iter() {
            self.needed += string.len();
            self.strings += 1;
            self.mark();
        }
        Ok(())
    }

    /// How many bytes the strings took, and whether there was room.
    fn finish(self) -> (usize, Result<(), Failure>) {
        let asked = self.bytes.is_empty();
        (self.needed, if asked { Ok(()) } else { room("out", self.bytes.len(), self.needed) })
    }
}

/// Fills a buffer, whatever becomes of it, with its size.
///
/// # Safety
/// The pointer is null, or leads to a buffer as `Writer::new` wants it.
unsafe fn fill(
    out: *mut onnx_cast_string_buffer,
    strings: usize,
    read: &[Span<'_>],
    print: impl FnOnce(&mut Writer<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    // SAFETY: promised.
    let mut writer = unsafe { Writer::new(&known(out, "out")?, strings, read) }?;
    print(&mut writer)?;
    let (needed, result) = writer.finish();
    // SAFETY: not null, aligned, and the caller's own.
    unsafe { (*out).needed = needed };
    result
}

/// # Safety
/// As `onnx_cast_to_strings`.
unsafe fn to_strings(
    plan: &Plan,
    src: *const c_void,
    count: usize,
    out: *mut onnx_cast_string_buffer,
) -> Result<(), Failure> {
    if plan.target_type() != DataType::String {
        return Err(Failure::invalid(format_args!("a plan to {} gives no strings", plan.target_type())));
    }
    let (from, bytes) = (plan.source_type(), byte_len(plan.source_type(), count)?);
    let span = Span::new("src", src, bytes);
    // SAFETY: promised.
    unsafe {
        let src = read(src.cast::<u8>(), bytes, "src")?;
        fill(out, count, &[span], |writer| {
            let mut texts = Strings::new();
            for start in (0..count).step_by(BLOCK) {
                let len = BLOCK.min(count - start);
                let at = byte_len(from, start)?;
                let block = &src[at..at + byte_len(from, len)?];
                plan.run_strings_into(&TensorView::new(from, &[len], block)?, &mut texts)?;
                writer.push(texts.view())?;
            }
            Ok(())
        })
    }
}

/// Strings that are checked.
///
/// # Safety
/// The pointer is null, or leads to strings as they say.
unsafe fn view<'a>(strings: *const onnx_cast_strings) -> Result<(StringsView<'a>, [Span<'static>; 2]), Failure> {
    // SAFETY: promised.
    unsafe {
        let strings = known(strings, "src")?;
        let count = strings.count.checked_add(1).ok_or_else(|| Failure::overflow("offsets do not fit in memory"))?;
        let offsets = read(strings.offsets, count, "src->offsets")?;
        let bytes = read(strings.bytes.cast::<u8>(), strings.byte_count, "src->bytes")?;
        let spans = [
            Span::new("src->offsets", strings.offsets, size_of_val(offsets)),
            Span::new("src->bytes", strings.bytes, bytes.len()),
        ];
        Ok((StringsView::new(offsets, bytes).map_err(|error| wrong_offset(error, offsets, bytes.len()))?, spans))
    }
}

/// Names an offset that is out of order as C does, with its value.
#[cold]
fn wrong_offset(error: TensorError, offsets: &[u64], byte_count: usize) -> Failure {
    match error.kind() {
        &TensorErrorKind::StringOffsets { index } if index < offsets.len() => Failure::invalid(format_args!(
            "src->offsets[{index}] is {} (offsets start at 0, rise, and end with byte_count, {byte_count})",
            offsets[index]
        )),
        _ => error.into(),
    }
}

/// # Safety
/// As `onnx_cast_from_strings`.
unsafe fn from_strings(
    plan: &Plan,
    src: *const onnx_cast_strings,
    dst: *mut c_void,
    dst_bytes: usize,
) -> Result<(), Failure> {
    // SAFETY: promised.
    unsafe {
        let (strings, spans) = view(src)?;
        let bytes = byte_len(plan.target_type(), strings.len())?;
        room("dst", dst_bytes, bytes)?;
        apart(Span::new("dst", dst, bytes), &spans)?;
        let dst = write(dst.cast::<u8>(), bytes, "dst")?;
        Ok(plan.run_into_uninit(&TensorView::strings(&[strings.len()], strings)?, dst).map(drop)?)
    }
}

/// # Safety
/// As `onnx_cast_strings_to_strings`.
unsafe fn copy(plan: &Plan, src: *const onnx_cast_strings, out: *mut onnx_cast_string_buffer) -> Result<(), Failure> {
    if (plan.source_type(), plan.target_type()) != (DataType::String, DataType::String) {
        return Err(Failure::invalid(format_args!(
            "a plan from {} to {}, not of strings",
            plan.source_type(),
            plan.target_type()
        )));
    }
    // SAFETY: promised.
    unsafe {
        let (strings, spans) = view(src)?;
        fill(out, strings.len(), &spans, |writer| writer.push(strings))
    }
}

/// ONNX's Cast to string: every element as plain decimal digits, or a word (NaN, INF, -INF).
///
/// from: the onnx_cast_type of the elements, not string.
/// src: count elements: little endian, packed, of any alignment. May be null where count is 0.
/// count: the number of elements.
/// out: takes the strings.
/// options: how to cast, or null for the defaults.
///
/// # Safety
/// As the parameters say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onnx_cast_to_strings(
    from: i32,
    src: *const c_void,
    count: usize,
    out: *mut onnx_cast_string_buffer,
    options: *const onnx_cast_options,
) -> c_int {
    // SAFETY: the caller's promise.
    status(|| unsafe { to_strings(&resolve(Operator::Cast, from, STRING, options)?, src, count, out) })
}

/// ONNX's Cast from string: every text as a number, rounded once from its decimal value.
///
/// src: the strings.
/// to: the onnx_cast_type to cast to, not string.
/// dst: takes as many elements as there are strings, packed, the padding of the last byte 0. No part of src.
/// dst_bytes: the bytes that dst has room for: as many as onnx_cast_byte_size says, or more, which stay as they are.
/// options: how to cast, or null for the defaults.
///
/// Gives ONNX_CAST_NOT_A_NUMBER, with the element and its text in onnx_cast_last_error, where one is not a number of
/// the target type.
///
/// # Safety
/// As the parameters say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onnx_cast_from_strings(
    src: *const onnx_cast_strings,
    to: i32,
    dst: *mut c_void,
    dst_bytes: usize,
    options: *const onnx_cast_options,
) -> c_int {
    // SAFETY: the caller's promise.
    status(|| unsafe { from_strings(&resolve(Operator::Cast, STRING, to, options)?, src, dst, dst_bytes) })
}

/// ONNX's Cast from string to string: a copy.
///
/// src: the strings.
/// out: takes the strings.
/// options: how to cast, or null for the defaults.
///
/// # Safety
/// As the parameters say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onnx_cast_strings_to_strings(
    src: *const onnx_cast_strings,
    out: *mut onnx_cast_string_buffer,
    options: *const onnx_cast_options,
) -> c_int {
    // SAFETY: the caller's promise.
    status(|| unsafe { copy(&resolve(Operator::Cast, STRING, STRING, options)?, src, out) })
}

/// Runs a plan to string, as onnx_cast_to_strings does.
///
/// # Safety
/// As the parameters say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onnx_cast_plan_run_to_strings(
    plan: *const onnx_cast_plan,
    src: *const c_void,
    count: usize,
    out: *mut onnx_cast_string_buffer,
) -> c_int {
    // SAFETY: the caller's promise.
    status(|| unsafe { to_strings(&reference(plan, "plan")?.0, src, count, out) })
}

/// Runs a plan from string to another type, as onnx_cast_from_strings does. Allocates nothing and takes no lock.
///
/// # Safety
/// As the parameters say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onnx_cast_plan_run_from_strings(
    plan: *const onnx_cast_plan,
    src: *const onnx_cast_strings,
    dst: *mut c_void,
    dst_bytes: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    status(|| unsafe { from_strings(&reference(plan, "plan")?.0, src, dst, dst_bytes) })
}

/// Runs a plan from string to string, as onnx_cast_strings_to_strings does. Allocates nothing and takes no lock.
///
/// # Safety
/// As the parameters say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onnx_cast_plan_run_strings_to_strings(
    plan: *const onnx_cast_plan,
    src: *const onnx_cast_strings,
    out: *mut onnx_cast_string_buffer,
) -> c_int {
    // SAFETY: the caller's promise.
    status(|| unsafe { copy(&reference(plan, "plan")?.0, src, out) })
}

const STRING: i32 = DataType::String.onnx();
