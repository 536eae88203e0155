//! Runs a scaled cast over a part of a tensor: as many elements at a time as have scales in a buffer, which are widened
//! to `f32` before.

use super::layout::Layout;
use super::{Direction, ScaledPlan};
use crate::arch::Backend;
use crate::element::{DataType, Int2, Int4, Uint2, Uint4, byte_len_of};
use crate::kernel::scale::{CHUNK, Floats, Method, Scales, Stage};
use crate::kernel::{Context, KernelTable, StoreHint};
use crate::packed::{code, get};
use crate::scalar::scaled::{Precision, wide_quotient};
use std::mem::MaybeUninit;
use std::ops::Range;

/// Scales of a tile, and elements where those have a scale each: a multiple of 8, so that such a tile of every type is
/// whole bytes.
const TILE: usize = 1024;

/// Scales beside the padding of a last step.
const PADDING: usize = 64;

/// Pieces of rows that are shorter than this are spread to a scale for each element, and so are runs that are not whole
/// chunks.
const SHORT: usize = 256;

/// Scales or zero points: the bytes of a tensor, and what each is multiplied with or divided by, rounded to float.
#[derive(Clone, Copy)]
pub(in crate::ops) struct Operand<'a> {
    pub(in crate::ops) data_type: DataType,
    pub(in crate::ops) bytes: &'a [u8],
    pub(in crate::ops) adjust: Adjust,
}

/// What a scale of a block is combined with.
#[derive(Clone, Copy)]
pub(in crate::ops) enum Adjust {
    None,
    Times(f32),
    Over(f32),
}

impl<'a> Operand<'a> {
    pub(in crate::ops) fn new(data_type: DataType, bytes: &'a [u8]) -> Self {
        Operand { data_type, bytes, adjust: Adjust::None }
    }
}

/// What a scaled cast reads besides the elements.
#[derive(Clone, Copy)]
pub(in crate::ops) struct Job<'a> {
    pub(in crate::ops) plan: &'a ScaledPlan,
    pub(in crate::ops) layout: Layout,
    pub(in crate::ops) scale: Operand<'a>,
    /// `None` where all are 0.
    pub(in crate::ops) zero_point: Option<Operand<'a>>,
}

/// Memory that is written before it is read.
#[repr(align(64))]
struct Buffer<const BYTES: usize>([MaybeUninit<u8>; BYTES]);

impl<const BYTES: usize> Buffer<BYTES> {
    const NEW: Self = Buffer([MaybeUninit::uninit(); BYTES]);

    /// The first bytes, for a kernel that writes all of them.
    fn first(&mut self, len: usize) -> &mut [u8] {
        // SAFETY: `MaybeUninit<u8>` has the layout of `u8`. Every use below passes the slice to a kernel that writes
        // every byte, or writes it, before it is read.
        unsafe { &mut *(std::ptr::from_mut(&mut self.0[..len]) as *mut [u8]) }
    }
}

/// Scales as floats, little endian: of a tile, or of a tile and a period more; and those beside the padding of a step.
type ScaleBuffer = Buffer<{ 4 * (2 * TILE + PADDING) }>;

/// Scales, their reciprocals where quotients are by way of those, and zero points.
struct ScaleBuffers {
    scales: ScaleBuffer,
    reciprocals: ScaleBuffer,
    zero_points: ScaleBuffer,
}

impl ScaleBuffers {
    const NEW: Self =
        ScaleBuffers { scales: ScaleBuffer::NEW, reciprocals: ScaleBuffer::NEW, zero_points: ScaleBuffer::NEW };
}

/// The scales of one tile after another.
struct Feed<'a> {
    job: &'a Job<'a>,
    table: &'static KernelTable,
    buffers: &'a mut ScaleBuffers,
    method: Method,
    /// The scales in the buffers; those of runs.
    held: Range<usize>,
    /// Whether the buffers hold a period of all rows' scales, one for each element.
    holds_period: bool,
}

impl<'a> Feed<'a> {
    fn new(job: &'a Job<'a>, table: &'static KernelTable, buffers: &'a mut ScaleBuffers) -> Self {
        Feed { job, table, buffers, method: Method::Divide, held: 0..0, holds_period: false }
    }

    /// The length of the tile that begins at an element, at most `most`, and its scales. A tile that ends before `most`
    /// ends at a whole byte.
    fn tile(&mut self, element: usize, most: usize) -> (usize, Method, Scales<'_>) {
        let layout = self.job.layout;
        if layout.run > 1 {
            let mut piece = layout.piece(element, most.min(layout.run.saturating_mul(TILE)));
            let are_chunks = layout.run.is_multiple_of(CHUNK) && piece.first.is_multiple_of(CHUNK);
            if piece.scales > 1 && !are_chunks {
                piece = layout.piece(element, piece.first);
            }
            if piece.len < most && !piece.len.is_multiple_of(8) {
                piece = layout.piece(element, (piece.len & !7).max(1));
            }
            if piece.len == most || piece.len >= SHORT {
                let range = piece.scale..piece.scale + piece.scales;
                if self.held != range {
                    self.fill(piece.scales, |table, operand, out| load(table, operand, range.start, range.len(), out));
                    self.held = range;
                }
                let run = if piece.scales == 1 { usize::MAX } else { layout.run };
                return (piece.len, self.method, self.scales(0, piece.scales, piece.first, run));
            }
        }
        let len = most.min(TILE);
        let period = layout.period(TILE);
        if !(self.holds_period && period.is_some()) {
            let (begin, count) = if period.is_some() { (0, 2 * TILE) } else { (element, len) };
            self.fill(count + PADDING, |table, operand, out| {
                let (out, beside_padding) = out.split_at_mut(4 * count);
                spread(&layout, table, operand, begin, out);
                beside_padding.fill(0);
            });
            (self.held, self.holds_period) = (0..0, period.is_some());
        }
        (len, self.method, self.scales(period.map_or(0, |period| element % period), len + PADDING, 1, 1))
    }

    /// Fills the buffers with so many scales.
    fn fill(&mut self, count: usize, write: impl Fn(&KernelTable, Operand<'_>, &mut [u8])) {
        let (job, table) = (self.job, self.table);
        let scales = self.buffers.scales.first(4 * count);
        write(table, job.scale, scales);
        let scales = scales.as_chunks().0;
        // SAFETY: the table is of a `Backend`, which exists only if this machine can run it.
        self.method = unsafe {
            match job.plan.direction {
                Direction::Quantize => {
                    (table.scale.divisors)(scales, self.buffers.reciprocals.first(4 * count).as_chunks_mut().0)
                }
                // A NaN of float8e5m2 has a payload, which a product alone would keep.
                Direction::Dequantize if job.plan.from == DataType::Float8E5M2 => Method::MultiplyAny,
                Direction::Dequantize => (table.scale.factors)(scales),
            }
        };
        if let Some(operand) = job.zero_point {
            write(table, operand, self.buffers.zero_points.first(4 * count));
        }
    }

    /// What the buffers hold.
    fn scales(&mut self, begin: usize, count: usize, first: usize, run: usize) -> Scales<'_> {
        fn floats(buffer: &mut ScaleBuffer, range: Range<usize>) -> &Floats {
            &buffer.first(4 * range.end).as_chunks().0[range.start..]
        }
        let range = begin..begin + count;
        let divisors = floats(&mut self.buffers.scales, range.clone());
        let factors = match self.job.plan.direction {
            Direction::Quantize => floats(&mut self.buffers.reciprocals, range.clone()),
            Direction::Dequantize => divisors,
        };
        let zero_points =
            if self.job.zero_point.is_some() { Some(floats(&mut self.buffers.zero_points, range)) } else { None };
        Scales { first, run, factors, divisors, zero_points }
    }
}

/// Writes the scale of each element.
fn spread(layout: &Layout, table: &KernelTable, operand: Operand<'_>, begin: usize, out: &mut [u8]) {
    let count = out.len() / 4;
    let mut done = 0;
    while done < count {
        let piece = layout.piece(begin + done, count - done);
        let out = &mut out[4 * done..4 * (done + piece.len)];
        done += piece.len;
        if layout.run == 1 {
            load(table, operand, piece.scale, piece.len, out);
            continue;
        }
        let mut few = ScaleBuffer::NEW;
        let few = few.first(4 * piece.scales);
        load(table, operand, piece.scale, piece.scales, few);
        let (mut rest, _) = out.as_chunks_mut::<4>();
        let mut run = piece.first;
        for scale in few.as_chunks::<4>().0 {
            let (now, later) = rest.split_at_mut(run.min(rest.len()));
            now.fill(*scale);
            (rest, run) = (later, layout.run);
        }
    }
}

/// Writes `count` scales as floats, from the index `start` on.
fn load(table: &KernelTable, operand: Operand<'_>, start: usize, count: usize, out: &mut [u8]) {
    let Operand { data_type, bytes, adjust } = operand;
    let mut each = |value: &dyn Fn(usize) -> i8| {
        for (i, float) in out.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            *float = f32::from(value(start + i)).to_le_bytes();
        }
    };
    match data_type {
        // They need not begin with a byte.
        DataType::Int4 => each(&|i| get::<Int4>(bytes, i).value()),
        DataType::Uint4 => each(&|i| get::<Uint4>(bytes, i).value() as i8),
        DataType::Int2 => each(&|i| get::<Int2>(bytes, i).value()),
        DataType::Uint2 => each(&|i| get::<Uint2>(bytes, i).value() as i8),
        // Zeros.
        _ if data_type.is_packed() => {
            for (i, float) in out.as_chunks_mut::<4>().0.iter_mut().enumerate() {
                *float = if code(bytes, start + i, data_type) == 0 { 0f32 } else { -0f32 }.to_le_bytes();
            }
        }
        _ => {
            let width = byte_len_of(1, data_type.info().bits as usize);
            cast_by(table, data_type, &bytes[start * width..(start + count) * width], DataType::Float, out, count);
        }
    }
    let floats = out.as_chunks_mut::<4>().0.iter_mut();
    match adjust {
        Adjust::None => {}
        Adjust::Times(factor) => floats.for_each(|float| *float = (f32::from_le_bytes(*float) * factor).to_le_bytes()),
        Adjust::Over(divisor) => floats.for_each(|float| *float = (f32::from_le_bytes(*float) / divisor).to_le_bytes()),
    }
}

/// Casts elements between two numeric types by the newest version's default rules, with the kernels of a backend.
pub(in crate::ops) fn cast(backend: Backend, from: DataType, src: &[u8], to: DataType, dst: &mut [u8], len: usize) {
    cast_by(backend.table(), from, src, to, dst, len);
}

/// Likewise with the kernels of a table.
fn cast_by(table: &KernelTable, from: DataType, src: &[u8], to: DataType, dst: &mut [u8], len: usize) {
    run(table, &Context::plain(from, to), src, dst, len);
}

/// Elements as floats, little endian: themselves, or cast to `out`.
pub(in crate::ops) fn floats<'a>(backend: Backend, from: DataType, src: &'a [u8], out: &'a mut [u8]) -> &'a [u8] {
    if from == DataType::Float {
        return src;
    }
    cast(backend, from, src, DataType::Float, out, out.len() / 4);
    out
}

/// Runs the kernel of a cast, or copies.
fn run(table: &KernelTable, context: &Context, src: &[u8], dst: &mut [u8], len: usize) {
    debug_assert_eq!(Some(src.len()), context.from.byte_len(len));
    debug_assert_eq!(Some(dst.len()), context.to.byte_len(len));
    let kernel = if context.from == context.to { Some(table.copy()) } else { table.cast(context.from, context.to) };
    let copied = if context.from == context.to { src.len() } else { len };
    let Some(kernel) = kernel else { unreachable!("a plan has numeric types") };
    // SAFETY: the table is of a `Backend`, which exists only if this machine can run it; the slices have the bytes of
    // `len` elements, and a copy takes bytes.
    unsafe { kernel(src, dst, copied, context) };
}

/// Orders what a job has stored by a hint before what is stored from here on.
pub(in crate::ops) fn fence(backend: Backend, hint: StoreHint) {
    if hint == StoreHint::NonTemporal {
        // SAFETY: the table is of a `Backend`, which exists only if this machine can run it.
        unsafe { (backend.table().scale.fence)() };
    }
}

impl Job<'_> {
    /// Casts `len` elements, of which the first is `start` in the tensor.
    pub(in crate::ops) fn run(
        &self,
        backend: Backend,
        start: usize,
        src: &[u8],
        dst: &mut [u8],
        len: usize,
        hint: StoreHint,
    ) {
        self.run_part(backend, start, src, dst, len, hint);
        fence(backend, hint);
    }

    /// As [`Job::run`], for part of a job: a [`fence`] is to follow.
    pub(in crate::ops) fn run_part(
        &self,
        backend: Backend,
        start: usize,
        src_all: &[u8],
        dst_all: &mut [u8],
        len: usize,
        hint: StoreHint,
    ) {
        let (table, plan) = (backend.table(), self.plan);
        let bits = [plan.from, plan.to].map(|data_type| data_type.info().bits as usize);
        let is_wide = plan.direction == Direction::Quantize && plan.is_wide();
        // Not in `Feed`: with its other fields, the compiler would fill them.
        let mut buffers = ScaleBuffers::NEW;
        let mut feed = Feed::new(self, table, &mut buffers);
        let mut done = 0;
        while done < len {
            let most = if is_wide { TILE } else { usize::MAX };
            let (tile, method, scales) = feed.tile(start + done, most.min(len - done));
            let [src, dst] = bits.map(|bits| byte_len_of(done, bits)..byte_len_of(done + tile, bits));
            let (src, dst) = (&src_all[src], &mut dst_all[dst]);
            let context = Context { from: plan.from, to: plan.to, rules: plan.rules, hint };
            let stage = Stage { context, scales, method, precision: plan.precision, range: plan.range };
            if is_wide {
                self.run_wide(table, start + done, src, dst, &stage, tile);
            } else {
                run_scaled(table, src, dst, tile, &stage);
            }
            done += tile;
        }
    }

    /// Casts a tile of values or scales that `f32` does not hold, or with a precision that two roundings would not
    /// give: quotients are found one by one.
    #[cold]
    #[inline(never)]
    fn run_wide(&self, table: &KernelTable, start: usize, src: &[u8], dst: &mut [u8], stage: &Stage<'_>, len: usize) {
        let (mut quotients, ones) = (Buffer::<{ 4 * TILE }>::NEW, [1f32.to_le_bytes(); TILE + PADDING]);
        let quotients = quotients.first(4 * len);
        self.wide_quotients(table, start, src, quotients);
        let ones = &ones[..stage.scales.factors.len()];
        let stage = Stage {
            context: Context { from: DataType::Float, ..stage.context },
            scales: Scales { factors: ones, divisors: ones, ..stage.scales },
            method: Method::Multiply,
            precision: Precision::Float,
            ..*stage
        };
        run_scaled(table, quotients, dst, len, &stage);
    }

    /// The quotients of such a tile.
    fn wide_quotients(&self, table: &KernelTable, start: usize, src: &[u8], quotients: &mut [u8]) {
        let (plan, len) = (self.plan, quotients.len() / 4);
        let (mut x, mut scale) = ([0; 8 * TILE], [0; 8]);
        let x = &mut x[..8 * len];
        cast_by(table, plan.from, src, DataType::Double, x, len);
        let Operand { data_type, bytes, .. } = self.scale;
        let width = byte_len_of(1, data_type.info().bits as usize);
        let elements = x.as_chunks::<8>().0.iter().zip(quotients.as_chunks_mut::<4>().0);
        let mut last = None;
        for ((x, quotient), element) in elements.zip(start..) {
            let index = self.layout.piece(element, 1).scale;
            if last != Some(index) {
                cast_by(table, data_type, &bytes[index * width..][..width], DataType::Double, &mut scale, 1);
                last = Some(index);
            }
            let (x, scale) = (f64::from_le_bytes(*x), f64::from_le_bytes(scale));
            *quotient = wide_quotient(x, scale, plan.precision).to_le_bytes();
        }
    }
}

/// Runs the kernel of a scaled cast.
fn run_scaled(table: &KernelTable, src: &[u8], dst: &mut [u8], len: usize, stage: &Stage<'_>) {
    let Context { from, to, .. } = stage.context;
    debug_assert_eq!(Some(src.len()), from.byte_len(len));
    debug_assert_eq!(Some(dst.len()), to.byte_len(len));
    let Some(kernel) = table.scaled(from, to) else { unreachable!("a plan has types of a scaled cast") };
    // SAFETY: the table is of a `Backend`, which exists only if this machine can run it; the slices have the bytes of
    // `len` elements.
    unsafe { kernel(src, dst, len, stage) };
}
