//! A cast between two pieces of memory, with or without scales, where elements narrower than a byte may stand one in a
//! byte each, as ml_dtypes holds them. Those are packed for the library and unpacked after it in blocks, which without
//! scales stay in the nearest cache.

use crate::array::{Contiguous, Elements, Source};
use crate::error::{of_cast, refused};
use crate::types::number_to_type;
use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use onnx_cast::__private::{Divide, in_parts, parts_for};
use onnx_cast::packing::{pack_into_uninit, unpack_into_uninit};
use onnx_cast::scaled::{BoundScaledPlan, ScaledPlan};
use onnx_cast::{Cast, CastError, CastOptions, DataType, Plan, TensorView};
use pyo3::prelude::*;
use std::borrow::Cow;
use std::iter;
use std::mem::MaybeUninit;

/// From this number of bytes read and written, other Python threads may run meanwhile: releasing and reacquiring the
/// interpreter costs about as much as casting so many.
const DETACH_BYTES: usize = 1 << 16;

/// Elements after which the interpreter is asked whether it was interrupted: some hundredths of a second.
const PIECE: usize = 1 << 26;

/// Results from which on a new array is new memory too: below, allocators hand out what was used before (glibc 32 MiB).
const NEW_BYTES: usize = 32 << 20;

/// Bytes read and written in a piece of a cast to new memory: fewer than the library writes with non-temporal stores.
/// The system has just zeroed the pages through the caches, where ordinary stores hit. Measured with 16 Mi elements of
/// float16 to float, one thread: 5.1 ms instead of 5.8 with pages of 2 MiB, 24 instead of 29 with pages of 4 KiB, where
/// the first access to each page dominates.
const NEW_PIECE: usize = 32 << 20;

/// Elements of a block: a multiple of 8, so that blocks are whole bytes of every type.
const BLOCK: usize = 4096;

/// Elements of a block of a scaled cast, packed in 12 MiB or less. Only in large tensors does the library fetch the
/// source ahead and store past the caches. Measured with 16 Mi elements of int4 to float, one thread: 7 ms, and 11 in
/// blocks of 32 Ki elements.
const SCALED_BLOCK: usize = 1 << 24;

/// Elements of a tile that is copied before it is cast, a multiple of [`BLOCK`]: several long rows, within the second
/// cache.
pub(crate) const TILE: usize = 1 << 16;

/// How elements are cast.
#[derive(Clone, Copy)]
pub(crate) enum Conversion<'a> {
    Cast(Plan),
    Scaled(ScaledPart<'a>),
}

/// A scaled cast of the elements of a tensor from the index `start` on.
#[derive(Clone, Copy)]
pub(crate) struct ScaledPart<'a> {
    pub(crate) plan: &'a ScaledPlan,
    pub(crate) bound: &'a BoundScaledPlan<'a>,
    pub(crate) shape: &'a [usize],
    pub(crate) scale: &'a TensorView<'a>,
    pub(crate) zero_point: Option<&'a TensorView<'a>>,
    pub(crate) start: usize,
}

impl ScaledPart<'_> {
    /// Whether `len` elements are a tensor to the library: all, or any where one scale is for all. It shares such out
    /// between threads, and stores past the caches if they are many.
    fn is_tensor(&self, len: usize) -> bool {
        matches!(self.scale.shape(), [] | [1]) || self.is_whole(len)
    }

    fn is_whole(&self, len: usize) -> bool {
        self.start == 0 && self.shape.iter().product::<usize>() == len
    }

    fn run<'o>(&self, len: usize, src: &[u8], dst: &'o mut [MaybeUninit<u8>]) -> Result<&'o mut [u8], CastError> {
        if !self.is_tensor(len) {
            return self.bound.run_part_uninit(self.start, len, src, dst);
        }
        let shape = if self.is_whole(len) { self.shape } else { &[len] };
        let x = TensorView::new(self.plan.source_type(), shape, src)?;
        self.plan.run_into_uninit(&x, self.scale, self.zero_point, dst)
    }
}

impl Conversion<'_> {
    fn source_type(&self) -> DataType {
        match self {
            Conversion::Cast(plan) => plan.source_type(),
            Conversion::Scaled(part) => part.plan.source_type(),
        }
    }

    fn target_type(&self) -> DataType {
        match self {
            Conversion::Cast(plan) => plan.target_type(),
            Conversion::Scaled(part) => part.plan.target_type(),
        }
    }

    /// That of the elements from the index `at` on.
    fn behind(self, at: usize) -> Self {
        match self {
            Conversion::Cast(plan) => Conversion::Cast(plan),
            Conversion::Scaled(part) => Conversion::Scaled(ScaledPart { start: part.start + at, ..part }),
        }
    }

    /// Casts elements as the library has them. Returns `dst`, which is then written.
    fn run<'o>(&self, len: usize, src: &[u8], dst: &'o mut [MaybeUninit<u8>]) -> Result<&'o mut [u8], CastError> {
        match self {
            Conversion::Cast(plan) => plan.run_into_uninit(&TensorView::new(plan.source_type(), &[len], src)?, dst),
            Conversion::Scaled(part) => part.run(len, src, dst),
        }
    }
}

/// A cast of `len` elements of `src` to `dst`.
pub(crate) struct Job<'a> {
    pub(crate) conversion: Conversion<'a>,
    pub(crate) len: usize,
    /// Whether the source's elements stand one in a byte, though they are narrower.
    pub(crate) src_spread: bool,
    pub(crate) dst_spread: bool,
    pub(crate) src: Elements<'a>,
    pub(crate) dst: &'a mut [MaybeUninit<u8>],
    /// Whether nothing was written to `dst` before.
    pub(crate) dst_is_new: bool,
}

/// Memory for a block's packed elements, of the source and of the target.
type Packed<'a> = (&'a mut [u8], &'a mut [MaybeUninit<u8>]);

/// Bytes of `len` elements.
fn bytes_of(data_type: DataType, spread: bool, len: usize) -> usize {
    if spread { len } else { data_type.byte_len(len).unwrap_or(0) }
}

/// Work on elements, which can be shared out between threads.
pub(crate) trait Work: Divide {
    /// Bytes read and bytes written.
    fn bytes(&self) -> [usize; 2];

    /// Whether nothing was written to the memory of the results before.
    fn is_new(&self) -> bool;

    fn on_this_thread(self) -> Result<(), CastError>;

    /// Does the work on so many threads at most; `None`: on all.
    fn on_threads(self, threads: Option<usize>) -> Result<(), CastError> {
        share_out(self, threads)
    }
}

fn share_out<W: Work>(work: W, threads: Option<usize>) -> Result<(), CastError> {
    let parts = parts_for(work.bytes().iter().sum(), threads);
    in_parts(work, parts, &W::on_this_thread, &Result::and)
}

/// Does the work on so many threads at most, and lets other Python threads run meanwhile where that is worth its price.
///
/// # Errors
/// Where the library refuses, or Python was interrupted: a part is written then.
pub(crate) fn run(py: Python<'_>, work: impl Work, threads: Option<usize>) -> PyResult<()> {
    if work.bytes().iter().sum::<usize>() < DETACH_BYTES {
        return work.on_threads(threads).map_err(of_cast);
    }
    let piece = piece(&work);
    let mut rest = work;
    while rest.elements() > piece {
        let (piece, behind) = rest.divide(piece);
        py.detach(|| piece.on_threads(threads)).map_err(of_cast)?;
        py.check_signals()?;
        rest = behind;
    }
    py.detach(|| rest.on_threads(threads)).map_err(of_cast)
}

/// Elements that are worked on at a time.
fn piece(work: &impl Work) -> usize {
    let [read, written] = work.bytes();
    if !work.is_new() || written < NEW_BYTES {
        return PIECE.next_multiple_of(work.grain());
    }
    let bytes = (read + written).div_ceil(work.elements().max(1));
    (NEW_PIECE / bytes.max(1)).next_multiple_of(work.grain())
}

impl Divide for Job<'_> {
    fn elements(&self) -> usize {
        self.len
    }

    fn grain(&self) -> usize {
        BLOCK
    }

    fn divide(self, at: usize) -> (Self, Self) {
        let Job { conversion, len, src_spread, dst_spread, src, dst, dst_is_new } = self;
        let (src, src_behind) = src.split_at(bytes_of(conversion.source_type(), src_spread, at));
        let (dst, dst_behind) = dst.split_at_mut(bytes_of(conversion.target_type(), dst_spread, at));
        let part = |conversion, len, src, dst| Job { conversion, len, src_spread, dst_spread, src, dst, dst_is_new };
        (part(conversion, at, src, dst), part(conversion.behind(at), len - at, src_behind, dst_behind))
    }
}

impl Work for Job<'_> {
    fn bytes(&self) -> [usize; 2] {
        [self.src.byte_len(), self.dst.len()]
    }

    fn is_new(&self) -> bool {
        self.dst_is_new
    }

    fn on_this_thread(self) -> Result<(), CastError> {
        let (from, to) = (self.conversion.source_type(), self.conversion.target_type());
        let src = match self.src {
            Elements::Bytes(bytes) => bytes,
            Elements::Strided(_) => return self.gathered(),
        };
        if !self.src_spread && !self.dst_spread {
            return self.conversion.run(self.len, src, self.dst).map(drop);
        }
        if let Conversion::Scaled(_) = self.conversion {
            let block = self.len.min(SCALED_BLOCK);
            let room = |spread, data_type: DataType| if spread { bytes_of(data_type, false, block) } else { 0 };
            let (mut packed_src, mut packed_dst) = (vec![0; room(self.src_spread, from)], Vec::new());
            packed_dst.resize(room(self.dst_spread, to), MaybeUninit::uninit());
            return self.blocks(block, (&mut packed_src, &mut packed_dst));
        }
        if from != to || self.src_spread == self.dst_spread {
            let (mut packed_src, mut packed_dst) = ([0; BLOCK], [MaybeUninit::uninit(); BLOCK]);
            return self.blocks(BLOCK, (&mut packed_src, &mut packed_dst));
        }
        // Elements that keep their type need no block in between. `divide` keeps the lengths right.
        let _ = match self.src_spread {
            true => pack_into_uninit(to, src, self.dst),
            false => unpack_into_uninit(to, src, self.dst),
        };
        Ok(())
    }

    fn on_threads(self, threads: Option<usize>) -> Result<(), CastError> {
        let is_tensor = match self.conversion {
            Conversion::Cast(_) => true,
            Conversion::Scaled(part) => part.is_tensor(self.len),
        };
        if is_tensor && matches!(self.src, Elements::Bytes(_)) && !self.src_spread && !self.dst_spread {
            // The library shares the work out itself.
            return self.on_this_thread();
        }
        share_out(self, threads)
    }
}

impl Job<'_> {
    /// Casts elements that are not contiguous, in tiles that are copied first.
    fn gathered(self) -> Result<(), CastError> {
        let mut buffer = Vec::new();
        let mut rest = self;
        while rest.len > 0 {
            let tile = rest.len.min(TILE);
            let (tile, behind) = rest.divide(tile);
            Job { src: tile.src.gathered(&mut buffer), ..tile }.on_this_thread()?;
            rest = behind;
        }
        Ok(())
    }

    /// Casts a block at a time, by way of memory for the packed elements of either side.
    fn blocks(self, block: usize, (packed_src, packed_dst): Packed<'_>) -> Result<(), CastError> {
        let mut rest = self;
        while rest.len > block {
            let (first, behind) = rest.divide(block);
            first.block((packed_src, packed_dst))?;
            rest = behind;
        }
        rest.block((packed_src, packed_dst))
    }

    fn block(self, (packed_src, packed_dst): Packed<'_>) -> Result<(), CastError> {
        let (from, to) = (self.conversion.source_type(), self.conversion.target_type());
        let src = match self.src_spread {
            true => {
                let packed = &mut packed_src[..bytes_of(from, false, self.len)];
                let _ = onnx_cast::packing::pack(from, self.src.bytes(), packed);
                packed
            }
            false => self.src.bytes(),
        };
        if !self.dst_spread {
            return self.conversion.run(self.len, src, self.dst).map(drop);
        }
        let packed = &mut packed_dst[..bytes_of(to, false, self.len)];
        let packed = self.conversion.run(self.len, src, packed)?;
        let _ = unpack_into_uninit(to, packed, self.dst);
        Ok(())
    }
}

/// What elements of `width` bytes have together, found in tiles on so many threads at most, and joined.
pub(crate) fn reduce<R: Send>(
    x: Elements<'_>,
    width: usize,
    threads: Option<usize>,
    of_tile: &(impl Fn(&[u8]) -> Result<R, CastError> + Sync),
    join: &(impl Fn(R, R) -> R + Sync),
) -> Result<R, CastError> {
    let of_part = |Tiles { x: mut rest, .. }: Tiles<'_>| {
        let (mut buffer, mut all) = (Vec::new(), of_tile(&[])?);
        while rest.byte_len() > 0 {
            let tile = if let Elements::Bytes(bytes) = rest { bytes.len() } else { TILE * width };
            let (tile, behind) = rest.split_at(tile.min(rest.byte_len()));
            all = join(all, of_tile(tile.gathered(&mut buffer).bytes())?);
            rest = behind;
        }
        Ok(all)
    };
    let parts = parts_for(x.byte_len(), threads);
    in_parts(Tiles { x, width }, parts, &of_part, &|low: Result<R, _>, high: Result<R, _>| Ok(join(low?, high?)))
}

/// Elements of `width` bytes that are read in tiles.
struct Tiles<'a> {
    x: Elements<'a>,
    width: usize,
}

impl Divide for Tiles<'_> {
    fn elements(&self) -> usize {
        self.x.byte_len() / self.width
    }

    fn grain(&self) -> usize {
        TILE
    }

    fn divide(self, at: usize) -> (Self, Self) {
        let Tiles { x, width } = self;
        let (low, high) = x.split_at(at * width);
        (Tiles { x: low, width }, Tiles { x: high, width })
    }
}

/// Elements as the library has them: those narrower than a byte stand one in a byte in an array.
pub(crate) fn packed(from: DataType, bytes: &[u8], len: usize) -> Cow<'_, [u8]> {
    if !from.is_packed() {
        return Cow::Borrowed(bytes);
    }
    let mut packed = vec![0; from.byte_len(len).unwrap_or(0)];
    let _ = onnx_cast::packing::pack(from, bytes, &mut packed);
    Cow::Owned(packed)
}

/// ONNX's bytes of an array whose elements stand one in a byte: a one-dimensional array of uint8.
#[pyfunction]
pub(crate) fn pack<'py>(array: &Bound<'py, PyUntypedArray>, number: i64) -> PyResult<Bound<'py, PyUntypedArray>> {
    let (py, data_type) = (array.py(), packed_type(number)?);
    let source = Source::of(array, iter::empty())?;
    let mut packed = Contiguous::new(py, DataType::Uint8, &[data_type.byte_len(array.len()).unwrap_or(0)])?;
    move_elements(py, data_type, array.len(), (source.elements(), true), (&mut packed, false))?;
    Ok(packed.into_array())
}

/// The elements of ONNX's bytes, one in a byte each.
#[pyfunction]
pub(crate) fn unpack<'py>(
    array: &Bound<'py, PyUntypedArray>,
    number: i64,
    shape: Vec<usize>,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let (py, data_type) = (array.py(), packed_type(number)?);
    let source = Contiguous::of(array)?;
    // Compared with the bytes that there are before anything of the shape's size is allocated.
    let view = TensorView::new(data_type, &shape, source.bytes()).map_err(refused)?;
    let mut elements = Contiguous::new(py, data_type, view.shape())?;
    move_elements(py, data_type, view.len(), (Elements::Bytes(source.bytes()), false), (&mut elements, true))?;
    Ok(elements.into_array())
}

/// The type with ONNX's number, which must be narrower than a byte.
fn packed_type(number: i64) -> PyResult<DataType> {
    let data_type = number_to_type(number)?;
    if !data_type.is_packed() {
        return Err(refused(format_args!("{data_type} is not packed")));
    }
    Ok(data_type)
}

/// Packs or unpacks the elements of `src` into the new array `dst`. This is a cast to their own type, so that it shares
/// the threads and the pieces of casts.
fn move_elements(
    py: Python<'_>,
    data_type: DataType,
    len: usize,
    (src, src_spread): (Elements<'_>, bool),
    (dst, dst_spread): (&mut Contiguous<'_>, bool),
) -> PyResult<()> {
    let plan = Cast::new(data_type, &CastOptions::default()).and_then(|cast| cast.plan(data_type)).map_err(refused)?;
    let dst = dst.bytes_mut(src.bytes()).ok_or_else(|| refused("new memory overlaps old"))?;
    let conversion = Conversion::Cast(plan);
    run(py, Job { conversion, len, src_spread, dst_spread, src, dst, dst_is_new: true }, None)
}
