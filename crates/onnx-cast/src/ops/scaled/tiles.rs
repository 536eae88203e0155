//! Runs a scaled cast over a part of a tensor, in tiles that stay in the nearest cache: kernels of Cast widen a tile to
//! `f32` and narrow the results; between them, the scales are applied.

use super::layout::Layout;
use super::{Direction, ScaledPlan};
use crate::arch::Backend;
use crate::element::{DataType, Int2, Int4, Uint2, Uint4, byte_len_of};
use crate::kernel::scale::{ScaleKernel, Scales};
use crate::kernel::{Context, KernelTable, StoreHint};
use crate::packed::{code, get};
use crate::scalar::scaled::{Precision, wide_quotient};
use std::mem::MaybeUninit;

/// Elements of a tile: a multiple of 8, so that a tile of every type is whole bytes.
const TILE: usize = 1024;

/// Runs shorter than this are spread to a scale for each element.
const SHORT_RUN: usize = 8;

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

/// Scales as floats, little endian: of a tile, or of a tile and a period more.
type Floats = Buffer<{ 8 * TILE }>;

/// The scales of one tile after another.
struct Feed<'a> {
    job: &'a Job<'a>,
    table: &'static KernelTable,
    operand: Operand<'a>,
    floats: Floats,
    /// Whether `floats` holds all rows' scales.
    is_filled: bool,
}

impl<'a> Feed<'a> {
    fn new(job: &'a Job<'a>, table: &'static KernelTable, operand: Operand<'a>) -> Self {
        Feed { job, table, operand, floats: Buffer::NEW, is_filled: false }
    }

    /// The scales of a piece of one row, one for each run.
    fn runs(&mut self, start: usize, count: usize) -> &[[u8; 4]] {
        load(self.table, self.operand, start, count, self.floats.first(4 * count));
        self.floats.first(4 * count).as_chunks().0
    }

    /// A scale for each element of a tile.
    fn each(&mut self, element: usize, len: usize) -> &[[u8; 4]] {
        let layout = &self.job.layout;
        let period = layout.period(TILE);
        if !(self.is_filled && period.is_some()) {
            let (begin, count) = if period.is_some() { (0, 2 * TILE) } else { (element, len) };
            self.spread(begin, count);
        }
        let begin = period.map_or(0, |period| element % period);
        &self.floats.first(4 * (begin + len)).as_chunks().0[begin..]
    }

    /// Writes the scale of each element.
    fn spread(&mut self, begin: usize, count: usize) {
        let layout = &self.job.layout;
        let floats = self.floats.first(4 * count);
        let mut done = 0;
        while done < count {
            let piece = layout.piece(begin + done, count - done);
            let out = &mut floats[4 * done..4 * (done + piece.len)];
            done += piece.len;
            if layout.run == 1 {
                load(self.table, self.operand, piece.scale, piece.len, out);
                continue;
            }
            let mut few = [0; 8 * TILE];
            let few = &mut few[..4 * piece.scales];
            load(self.table, self.operand, piece.scale, piece.scales, few);
            let (mut rest, _) = out.as_chunks_mut::<4>();
            let mut run = piece.first;
            for scale in few.as_chunks::<4>().0 {
                let (now, later) = rest.split_at_mut(run.min(rest.len()));
                now.fill(*scale);
                (rest, run) = (later, layout.run);
            }
        }
        self.is_filled = true;
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
            cast(table, data_type, &bytes[start * width..(start + count) * width], DataType::Float, out, count);
        }
    }
    let floats = out.as_chunks_mut::<4>().0.iter_mut();
    match adjust {
        Adjust::None => {}
        Adjust::Times(factor) => floats.for_each(|float| *float = (f32::from_le_bytes(*float) * factor).to_le_bytes()),
        Adjust::Over(divisor) => floats.for_each(|float| *float = (f32::from_le_bytes(*float) / divisor).to_le_bytes()),
    }
}

/// Casts elements between two numeric types by the newest version's default rules.
fn cast(table: &KernelTable, from: DataType, src: &[u8], to: DataType, dst: &mut [u8], len: usize) {
    run(table, &Context::plain(from, to), src, dst, len);
}

/// Elements as floats, little endian: themselves, or cast to `out`.
pub(in crate::ops) fn floats<'a>(backend: Backend, from: DataType, src: &'a [u8], out: &'a mut [u8]) -> &'a [u8] {
    if from == DataType::Float {
        return src;
    }
    cast(backend.table(), from, src, DataType::Float, out, out.len() / 4);
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

impl Job<'_> {
    /// Casts `len` elements, of which the first is `start` in the tensor.
    pub(in crate::ops) fn run(
        &self,
        backend: Backend,
        start: usize,
        src_all: &[u8],
        dst_all: &mut [u8],
        len: usize,
        hint: StoreHint,
    ) {
        let table = backend.table();
        let bits = [self.plan.from, self.plan.to].map(|data_type| data_type.info().bits as usize);
        let mut scales = Feed::new(self, table, self.scale);
        let mut zero_points = self.zero_point.map(|operand| Feed::new(self, table, operand));
        let mut done = 0;
        while done < len {
            // Where results pass the caches by, the first tile ends where a line begins.
            let most = if done == 0 && hint == StoreHint::NonTemporal { before_line(dst_all, bits) } else { TILE };
            let tile = Tile { job: self, table, start: start + done, len: most.min(len - done), hint };
            let [src, dst] = [
                byte_len_of(done, bits[0])..byte_len_of(done + tile.len, bits[0]),
                byte_len_of(done, bits[1])..byte_len_of(done + tile.len, bits[1]),
            ];
            let (src, dst) = (&src_all[src], &mut dst_all[dst]);
            match self.plan.direction {
                Direction::Dequantize => tile.dequantize(src, dst, &mut scales, zero_points.as_mut()),
                Direction::Quantize => tile.quantize(src, dst, &mut scales, zero_points.as_mut()),
            }
            done += tile.len;
        }
        if hint == StoreHint::NonTemporal {
            // SAFETY: the table is of a `Backend`, which exists only if this machine can run it.
            unsafe { (table.scale.fence)() };
        }
    }
}

/// Elements of a first tile: those before a cache line of the results, in whole bytes on both sides; else a whole tile.
fn before_line(dst: &[u8], bits: [usize; 2]) -> usize {
    let bits_before = dst.as_ptr().align_offset(64) * 8;
    let count = bits_before / bits[1];
    let is_whole = count > 0 && bits_before.is_multiple_of(bits[1]) && (count * bits[0]).is_multiple_of(8);
    if is_whole { count } else { TILE }
}

/// A tile of a tensor.
struct Tile<'a> {
    job: &'a Job<'a>,
    table: &'static KernelTable,
    start: usize,
    len: usize,
    hint: StoreHint,
}

impl Tile<'_> {
    fn dequantize(&self, src: &[u8], dst: &mut [u8], scales: &mut Feed<'_>, zero_points: Option<&mut Feed<'_>>) {
        let (plan, len) = (self.job.plan, self.len);
        let (mut values, mut products) = (Buffer::<{ 4 * TILE }>::NEW, Buffer::<{ 4 * TILE }>::NEW);
        let values = values.first(4 * len);
        cast(self.table, plan.from, src, DataType::Float, values, len);
        let is_direct = plan.to == DataType::Float && self.hint == StoreHint::Temporal;
        if is_direct {
            return self.apply(self.table.scale.multiply, values, dst, 4, scales, zero_points);
        }
        let products = products.first(4 * len);
        self.apply(self.table.scale.multiply, values, products, 4, scales, zero_points);
        self.finish(src, products, dst);
    }

    fn quantize(&self, src: &[u8], dst: &mut [u8], scales: &mut Feed<'_>, zero_points: Option<&mut Feed<'_>>) {
        let (plan, len, table) = (self.job.plan, self.len, self.table);
        let (mut values, mut quotients) = (Buffer::<{ 4 * TILE }>::NEW, Buffer::<{ 4 * TILE }>::NEW);
        let x = if plan.from == DataType::Float || plan.is_wide() {
            src
        } else {
            let values = values.first(4 * len);
            cast(table, plan.from, src, DataType::Float, values, len);
            values
        };
        let (to_ints, width) =
            if plan.to.info().bits == 16 { (table.scale.to_words, 2) } else { (table.scale.to_bytes, 1) };
        let is_int = !plan.to.is_float();
        if is_int && plan.precision == Precision::Float && !plan.is_wide() {
            return self.integers(src, dst, width, |out| self.apply(to_ints, x, out, width, scales, zero_points));
        }
        let quotients = quotients.first(4 * len);
        if plan.is_wide() {
            self.wide_quotients(src, quotients);
        } else {
            self.apply(table.scale.divide, x, quotients, 4, scales, None);
            if plan.precision != Precision::Float {
                let mut halves = Buffer::<{ 2 * TILE }>::NEW;
                let halves = halves.first(2 * len);
                let precision = plan.precision.data_type();
                cast(table, DataType::Float, quotients, precision, halves, len);
                cast(table, precision, halves, DataType::Float, quotients, len);
            }
        }
        // The quotients are there; integers are rounded, and zero points added.
        if is_int {
            return self.integers(src, dst, width, |out| self.add_zero_points(to_ints, quotients, out, zero_points));
        }
        if zero_points.is_none() {
            return self.finish(src, quotients, dst);
        }
        let mut sums = Buffer::<{ 4 * TILE }>::NEW;
        let sums = sums.first(4 * len);
        self.add_zero_points(table.scale.divide, quotients, sums, zero_points);
        self.finish(src, sums, dst);
    }

    /// Runs a kernel of quotients by 1 and the zero points.
    fn add_zero_points(&self, kernel: ScaleKernel, x: &[u8], out: &mut [u8], zero_points: Option<&mut Feed<'_>>) {
        let ones = [1f32.to_le_bytes(); TILE];
        let zero_points = zero_points.map(|zeros| zeros.each(self.start, self.len));
        let run = if zero_points.is_some() { 1 } else { self.len };
        let scales = &ones[..if run == 1 { self.len } else { 1 }];
        let scales = Scales { first: run, run, scales, zero_points, range: self.job.plan.range };
        // SAFETY: the table is of a `Backend`, which exists only if this machine can run it.
        unsafe { kernel(x, out, &scales) };
    }

    /// Casts or copies the results of a tile to their place.
    fn finish(&self, src: &[u8], results: &[u8], dst: &mut [u8]) {
        let (to, rules) = (self.job.plan.to, self.job.plan.rules);
        let context = Context { from: DataType::Float, to, rules, hint: StoreHint::Temporal };
        if self.hint == StoreHint::Temporal {
            return run(self.table, &context, results, dst, self.len);
        }
        if to == DataType::Float {
            return self.pass_on(src, results, dst);
        }
        let mut narrowed = Buffer::<{ 4 * TILE }>::NEW;
        let narrowed = narrowed.first(dst.len());
        run(self.table, &context, results, narrowed, self.len);
        self.pass_on(src, narrowed, dst);
    }

    /// Copies results past the caches, and asks for the tile after this one.
    fn pass_on(&self, src: &[u8], results: &[u8], dst: &mut [u8]) {
        // SAFETY: the table is of a `Backend`, which exists only if this machine can run it; both have the bytes of the
        // results, and buffers are aligned to lines.
        unsafe { (self.table.scale.pass_on)(results, dst, src.as_ptr_range().end, src.len()) };
    }

    /// Integers of 8 or 16 bits, which `make` writes, in their place: packed, or copied past the caches.
    fn integers(&self, src: &[u8], dst: &mut [u8], width: usize, make: impl FnOnce(&mut [u8])) {
        let to = self.job.plan.to;
        let pack = self.table.pack(to);
        if pack.is_none() && self.hint == StoreHint::Temporal {
            return make(dst);
        }
        let mut integers = Buffer::<{ 2 * TILE }>::NEW;
        let integers = integers.first(width * self.len);
        make(integers);
        let Some(pack) = pack else { return self.pass_on(src, integers, dst) };
        let pack = |bytes: &mut [u8]| {
            // SAFETY: as in `run`; `integers` has a byte for each element.
            unsafe { pack(integers, bytes, self.len, &Context::plain(to, to)) };
        };
        if self.hint == StoreHint::Temporal {
            return pack(dst);
        }
        let mut packed = Buffer::<TILE>::NEW;
        let packed = packed.first(dst.len());
        pack(packed);
        self.pass_on(src, packed, dst);
    }

    /// Runs a kernel over the pieces of the tile.
    fn apply(
        &self,
        kernel: ScaleKernel,
        x: &[u8],
        out: &mut [u8],
        width: usize,
        scales: &mut Feed<'_>,
        mut zero_points: Option<&mut Feed<'_>>,
    ) {
        let layout = &self.job.layout;
        let range = self.job.plan.range;
        let run = |x: &[u8], out: &mut [u8], scales: Scales<'_>| {
            // SAFETY: the table is of a `Backend`, which exists only if this machine can run it.
            unsafe { kernel(x, out, &scales) };
        };
        if layout.run < SHORT_RUN {
            let scales = scales.each(self.start, self.len);
            let zero_points = zero_points.map(|zeros| zeros.each(self.start, self.len));
            return run(x, out, Scales { first: 1, run: 1, scales, zero_points, range });
        }
        let mut done = 0;
        while done < self.len {
            let piece = layout.piece(self.start + done, self.len - done);
            let next = done + piece.len;
            let scales = Scales {
                first: piece.first,
                run: layout.run,
                scales: scales.runs(piece.scale, piece.scales),
                zero_points: zero_points.as_mut().map(|zeros| zeros.runs(piece.scale, piece.scales)),
                range,
            };
            run(&x[4 * done..4 * next], &mut out[width * done..width * next], scales);
            done = next;
        }
    }

    /// Quotients of values or scales that `f32` does not hold, or with a precision that two roundings would not give:
    /// one by one.
    fn wide_quotients(&self, src: &[u8], quotients: &mut [u8]) {
        let plan = self.job.plan;
        let (mut x, mut scale) = ([0; 8 * TILE], [0; 8]);
        let x = &mut x[..8 * self.len];
        cast(self.table, plan.from, src, DataType::Double, x, self.len);
        let Operand { data_type, bytes, .. } = self.job.scale;
        let width = byte_len_of(1, data_type.info().bits as usize);
        let elements = x.as_chunks::<8>().0.iter().zip(quotients.as_chunks_mut::<4>().0);
        let mut last = None;
        for ((x, quotient), element) in elements.zip(self.start..) {
            let index = self.job.layout.piece(element, 1).scale;
            if last != Some(index) {
                cast(self.table, data_type, &bytes[index * width..][..width], DataType::Double, &mut scale, 1);
                last = Some(index);
            }
            let (x, scale) = (f64::from_le_bytes(*x), f64::from_le_bytes(scale));
            *quotient = wide_quotient(x, scale, plan.precision).to_le_bytes();
        }
    }
}
