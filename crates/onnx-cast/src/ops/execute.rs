//! Runs a resolved cast over a tensor's bytes: on several threads where that pays, and with non-temporal stores where
//! the result exceeds the caches.

use super::{CastError, CastErrorKind};
use crate::element::{DataType, byte_len_of};
use crate::kernel::{Context, Kernel, StoreHint};
use crate::packed::Out;
use crate::parts::Divide;
#[cfg(threads)]
use crate::parts::in_parts;
#[cfg(threads)]
use crate::pool;
use crate::scalar::with_default_float_environment;
use crate::tensor::{Tensor, TensorErrorKind, TensorView, element_count};
use alloc::vec::Vec;
use core::ops::Range;

/// Casts that read and write this many bytes use non-temporal stores. Little of their output would stay in the last
/// cache (32 MiB on the machines measured), through which the source passes too, and it would evict everything else. A
/// non-temporal store does not read the line that it overwrites, as an ordinary store must. Between this limit and the
/// size of that cache a cast is an eighth faster, and code that reads the result next is no slower.
const NON_TEMPORAL_BYTES: usize = 24 << 20;

/// Tensors are split at multiples of this many elements: a whole number of bytes of any type, and of cache lines of
/// types of 8 bits and more.
#[cfg(threads)]
const GRAIN: usize = 256;

/// Bytes read and written for which another thread is worth waking. Measured with two threads: a cast of 1 MiB takes
/// about 10 microseconds on one thread, and waking the other costs up to half of that.
#[cfg(threads)]
const THREAD_BYTES: usize = 1 << 20;

/// A range of elements of a tensor, whose parts begin at multiples of 1,024.
pub(super) struct Elements(pub(super) Range<usize>);

impl Divide for Elements {
    fn elements(&self) -> usize {
        self.0.len()
    }

    fn grain(&self) -> usize {
        1024
    }

    fn divide(self, at: usize) -> (Self, Self) {
        let Elements(Range { start, end }) = self;
        (Elements(start..start + at), Elements(start + at..end))
    }
}

/// The bytes of `len` elements in the source and in the target.
pub(crate) struct Span<'a> {
    pub(crate) src: &'a [u8],
    pub(crate) dst: &'a mut Out,
    pub(crate) len: usize,
}

/// Calls `run` for spans that together make up `span`, on at most `threads` threads. The store hint follows from the
/// size of `span`. `span` must hold exactly the bytes of its elements, whose widths are `bits`. Always inlined, or a
/// small cast finds its span in memory.
#[inline(always)]
pub(super) fn execute(
    span: Span<'_>,
    bits: [usize; 2],
    threads: Option<usize>,
    run: impl Fn(Span<'_>, StoreHint) + Sync,
) {
    debug_assert_eq!(span.src.len(), byte_len_of(span.len, bits[0]));
    debug_assert_eq!(span.dst.len(), byte_len_of(span.len, bits[1]));
    let touched = span.src.len().saturating_add(span.dst.len());
    let hint = store_hint(touched);
    #[cfg(threads)]
    {
        let parts = parts_for(touched, threads);
        if parts > 1 {
            let Span { src, dst, len } = span;
            return parallel(src, dst, len, bits[0], bits[1], parts, &|span| run(span, hint));
        }
    }
    #[cfg(not(threads))]
    let _ = threads;
    run(span, hint);
}

/// Where the results of a cast that touches so many bytes are stored.
#[inline]
pub(super) fn store_hint(touched: usize) -> StoreHint {
    if touched < NON_TEMPORAL_BYTES { StoreHint::Temporal } else { StoreHint::NonTemporal }
}

/// How many threads a cast that touches so many bytes is worth, of at most `threads`.
#[inline]
pub fn parts_for(touched: usize, threads: Option<usize>) -> usize {
    #[cfg(threads)]
    if touched >= 2 * THREAD_BYTES && threads != Some(1) {
        let available = pool::current_threads();
        return threads.map_or(available, |most| most.min(available)).min(touched / THREAD_BYTES);
    }
    let _ = (touched, threads);
    1
}

/// Runs a kernel over a span. The kernel writes every byte of the target.
///
/// # Safety
/// As [`Kernel`]: it is that of the context's types in the table of a [`Backend`](crate::Backend), and the span holds
/// the bytes of `len` elements of them.
#[inline]
pub(crate) unsafe fn run_kernel(kernel: Kernel, context: &Context, Span { src, dst, len }: Span<'_>) {
    with_default_float_environment(|| {
        // SAFETY: a `Backend` exists only if this machine can run it; the caller promises that the span has the bytes
        // of `len` elements of the kernel's types.
        unsafe { kernel(src, dst, len, context) }
    });
}

/// Copies a span; with the backend's kernel if the hint asks for non-temporal stores.
///
/// # Safety
/// The kernel is [`KernelTable::copy`](crate::kernel::KernelTable::copy) of the table of a
/// [`Backend`](crate::Backend), and source and target have as many bytes.
#[inline]
pub(super) unsafe fn run_copy(kernel: Kernel, Span { src, dst, .. }: Span<'_>, hint: StoreHint) {
    let len = dst.len();
    match hint {
        StoreHint::Temporal => {
            // SAFETY: source and target have `len` bytes, and the target is borrowed alone.
            unsafe { dst.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(src.as_ptr(), len) };
        }
        // Source and target elements have the same width, so the bytes can be copied as elements of uint8.
        StoreHint::NonTemporal => {
            let context = Context { hint, ..Context::plain(DataType::Uint8, DataType::Uint8) };
            // SAFETY: the kernel copies bytes, of which source and target have as many, as the caller promises.
            unsafe { run_kernel(kernel, &context, Span { src, dst, len }) };
        }
    }
}

/// A new tensor whose bytes `fill` writes, without writing zeros first.
pub(super) fn new_tensor(
    data_type: DataType,
    shape: &[usize],
    fill: impl FnOnce(&mut Out) -> Result<(), CastError>,
) -> Result<Tensor, CastError> {
    let too_large = || TensorErrorKind::TooLarge { data_type, shape: shape.to_vec() };
    let len = element_count(shape).and_then(|len| data_type.byte_len(len)).ok_or_else(too_large)?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(len).map_err(|_| too_large())?;
    fill(&mut bytes.spare_capacity_mut()[..len])?;
    // SAFETY: `fill` returned no error, so it wrote all `len` bytes.
    unsafe { bytes.set_len(len) };
    Ok(Tensor::new(data_type, shape.to_vec(), bytes)?)
}

/// Checks the type of an input.
#[inline(always)]
pub(super) fn check_type(view: &TensorView<'_>, want: DataType) -> Result<(), CastError> {
    let got = view.data_type();
    if got == want { Ok(()) } else { Err(CastErrorKind::InputType { got, want }.into()) }
}

/// Checks the length in bytes of a buffer for elements of a tensor of a shape. `elements` is `None` where their number
/// overflows.
pub(super) fn check_len(
    data_type: DataType,
    elements: Option<usize>,
    got: usize,
    shape: &[usize],
) -> Result<(), CastError> {
    match elements.and_then(|elements| Some((elements, data_type.byte_len(elements)?))) {
        Some((_, want)) if want == got => Ok(()),
        Some((elements, want)) => Err(CastErrorKind::OutputLen { data_type, elements, got, want }.into()),
        None => Err(TensorErrorKind::TooLarge { data_type, shape: shape.to_vec() }.into()),
    }
}

/// Runs a span in two or more parts. It is not inlined, and its arguments are plain values. Otherwise the caller would
/// keep the span and the widths in memory, and small casts would wait for them.
#[cfg(threads)]
#[inline(never)]
fn parallel(
    src: &[u8],
    dst: &mut Out,
    len: usize,
    from_bits: usize,
    to_bits: usize,
    parts: usize,
    run: &(impl Fn(Span<'_>) + Sync),
) {
    let work = Cut { span: Span { src, dst, len }, bits: [from_bits, to_bits] };
    in_parts(work, parts, &|Cut { span, .. }| run(span), &|(), ()| ());
}

/// A span of elements of these widths, to be split at multiples of 8 elements.
#[cfg(threads)]
struct Cut<'a> {
    span: Span<'a>,
    bits: [usize; 2],
}

#[cfg(threads)]
impl Divide for Cut<'_> {
    fn elements(&self) -> usize {
        self.span.len
    }

    fn grain(&self) -> usize {
        GRAIN
    }

    fn divide(self, at: usize) -> (Self, Self) {
        let Cut { span: Span { src, dst, len }, bits } = self;
        let (src_low, src_high) = src.split_at(byte_len_of(at, bits[0]));
        let (dst_low, dst_high) = dst.split_at_mut(byte_len_of(at, bits[1]));
        let low = Span { src: src_low, dst: dst_low, len: at };
        let high = Span { src: src_high, dst: dst_high, len: len - at };
        (Cut { span: low, bits }, Cut { span: high, bits })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::elements_before;

    /// On a 32-bit machine, the number of bits in half a gigabyte does not fit `usize`.
    #[test]
    fn the_bits_of_a_tensor_need_not_fit_in_a_size() {
        assert_eq!(byte_len_of(usize::MAX / 8, 64), usize::MAX / 8 * 8);
        assert_eq!(byte_len_of(usize::MAX, 8), usize::MAX);
        assert_eq!(byte_len_of(usize::MAX, 4), usize::MAX / 2 + 1);
        assert_eq!(byte_len_of(usize::MAX - 1, 6), usize::MAX / 4 * 3 + 2);
        assert_eq!(byte_len_of(5, 6), 4);
        // And back; the eighth part of all bytes has more bits than fit.
        for bits in [2, 4, 6, 8, 16, 32, 64] {
            for elements in [0, 8, 24, (usize::MAX / 64) & !7] {
                assert_eq!(elements_before(byte_len_of(elements, bits), bits), elements, "{bits} bits");
            }
        }
        assert_eq!(elements_before(usize::MAX, 8), usize::MAX);
        assert_eq!([0, 1, 2, 3].map(|byte| elements_before(byte, 6)), [0, 1, 2, 4]);
    }
}
