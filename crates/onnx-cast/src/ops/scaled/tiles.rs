//! Runs a scaled cast over a part of a tensor: as many elements at a time as have scales in a buffer, which are widened
//! to `f32` before.

use super::ScaledPlan;
use super::layout::Layout;
use crate::arch::Backend;
use crate::element::{DataType, Int2, Int4, Uint2, Uint4, byte_len_of};
use crate::kernel::scale::{
    CHUNK, ENTRIES, Granularity, ManyQuantities, Method, PADDING, PendingLine, Quantities, Quantity, ScaleContext,
    Scales,
};
use crate::kernel::{Context, KernelTable, StoreHint, Task};
use crate::packed::{as_uninit, code, get, written};
use crate::scalar::scaled::{Precision, wide_quotient};
use core::mem::MaybeUninit;
use core::ops::Range;

/// Pieces of rows that are shorter than this are spread to a scale for each element, and so are runs that are not whole
/// chunks.
const SHORT: usize = 256;

/// Elements of a tile whose chunks have scales of their own: their scales, and what they are cast from and to, stay in
/// the nearest cache.
const MAX_LEN: usize = 256 * CHUNK;

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
pub(in crate::ops) struct BoundCast<'a> {
    pub(in crate::ops) plan: &'a ScaledPlan,
    pub(in crate::ops) layout: Layout,
    pub(in crate::ops) scale: Operand<'a>,
    /// `None` where all are 0.
    pub(in crate::ops) zero_point: Option<Operand<'a>>,
}

/// The tiles of a part of a tensor, each with the quantities of its scales.
struct Tiles<'a> {
    bound: &'a BoundCast<'a>,
    table: &'static KernelTable,
    one: Quantities<1>,
    quantities: &'a mut ManyQuantities,
    method: Method,
    loaded: Loaded,
}

/// The scales whose quantities are currently loaded.
#[derive(PartialEq, Eq)]
enum Loaded {
    /// No scales that a later tile could reuse.
    Nothing,
    /// The scales of a sequence of runs.
    Runs(Runs),
    /// One scale per element, for a period of the scales, which repeat in every row.
    Period,
}

/// Scales to load, each repeated once per run of elements.
#[derive(PartialEq, Eq)]
struct Runs {
    scales: Range<usize>,
    /// Number of runs of the first scale.
    first: usize,
    /// Number of runs of all scales.
    count: usize,
    /// Number of elements per run.
    len: usize,
}

/// Where a tile's scales are in memory.
struct Tile {
    len: usize,
    begin: usize,
    granularity: Granularity,
}

impl<'a> Tiles<'a> {
    fn new(bound: &'a BoundCast<'a>, table: &'static KernelTable, quantities: &'a mut ManyQuantities) -> Self {
        let one = Quantities::ZERO;
        Tiles { bound, table, one, quantities, method: Method::Divide, loaded: Loaded::Nothing }
    }

    /// The tile that begins at an element, of at most `max_len`. One that ends before `max_len` ends at a whole byte.
    fn tile(&mut self, element: usize, max_len: usize) -> Tile {
        let layout = self.bound.layout;
        if layout == Layout::TENSOR {
            self.load_runs(Runs { scales: 0..1, first: 1, count: 1, len: CHUNK });
            return Tile { len: max_len, begin: 0, granularity: Granularity::Tensor };
        }
        if layout.run > 1 {
            let mut piece = layout.piece(element, max_len.min(layout.run.max(MAX_LEN)));
            let are_chunks = layout.run.is_multiple_of(CHUNK) && piece.first.is_multiple_of(CHUNK);
            if piece.scales > 1 && (!are_chunks || layout.run >= MAX_LEN) {
                piece = layout.piece(element, piece.first);
            }
            if piece.len < max_len && !piece.len.is_multiple_of(8) {
                piece = layout.piece(element, (piece.len & !7).max(1));
            }
            if piece.len == max_len || piece.len >= SHORT {
                let scales = piece.scale..piece.scale + piece.scales;
                if piece.scales == 1 {
                    self.load_runs(Runs { scales, first: 1, count: 1, len: CHUNK });
                    return Tile { len: piece.len, begin: 0, granularity: Granularity::Tensor };
                }
                // Runs are spread to chunks where an index that is shifted does not give their scales.
                let is_shifted = layout.run.is_power_of_two() && piece.first == layout.run;
                let run = if is_shifted { layout.run } else { CHUNK };
                let (first, count) = (piece.first / run, piece.len.div_ceil(run));
                self.load_runs(Runs { scales, first, count, len: run });
                return Tile { len: piece.len, begin: 0, granularity: Granularity::Run(run.ilog2()) };
            }
        }
        let len = max_len.min(ENTRIES);
        let period = layout.period(ENTRIES);
        if !(self.loaded == Loaded::Period && period.is_some()) {
            // A tile can begin anywhere in a period, so the period is loaded twice. For a last tile, only as much is
            // loaded as the tile needs.
            let reach = |period: usize| if max_len < ENTRIES { element % period + max_len } else { 2 * ENTRIES };
            let (begin, count) = period.map_or((element, len), |period| (0, reach(period)));
            self.fill(count + PADDING, |table, operand, out| {
                let (out, extra_scales) = out.split_at_mut(count);
                spread(&layout, table, operand, begin, out);
                extra_scales.fill(MaybeUninit::new(0.0));
            });
            self.loaded = if period.is_some() { Loaded::Period } else { Loaded::Nothing };
        }
        Tile { len, begin: period.map_or(0, |period| element % period), granularity: Granularity::Element }
    }

    /// Loads the scales of runs, repeating each scale once per run.
    fn load_runs(&mut self, runs: Runs) {
        let loaded = Loaded::Runs(runs);
        if self.loaded == loaded {
            return;
        }
        let Loaded::Runs(Runs { scales: range, first, count, len }) = &loaded else { return };
        let (first, count, runs) = (*first, *count, self.bound.layout.run / len);
        let extra = if range.len() > 1 { extra_scales(*len) } else { 0 };
        self.fill(count + extra, |table, operand, out| {
            if range.len() == count {
                let (out, extra) = out.split_at_mut(count);
                let last = load(table, operand, range.start, out).last().copied().unwrap_or_default();
                return extra.fill(MaybeUninit::new(last));
            }
            let mut few = [MaybeUninit::uninit(); MAX_LEN / CHUNK];
            let few = load(table, operand, range.start, &mut few[..range.len()]);
            let mut rest = out;
            for (i, &scale) in few.iter().enumerate() {
                let runs = if i == 0 { first } else { runs };
                let last = i + 1 == few.len();
                let (now, later) = rest.split_at_mut(if last { rest.len() } else { runs });
                now.fill(MaybeUninit::new(scale));
                rest = later;
            }
        });
        self.loaded = loaded;
    }

    /// Fills memory with so many scales, all of which `write` writes, and finds what goes with them.
    fn fill(&mut self, count: usize, write: impl Fn(&KernelTable, Operand<'_>, &mut [MaybeUninit<f32>])) {
        let (bound, table) = (self.bound, self.table);
        let plan = bound.plan;
        let quantities = if count == 1 { self.one.first(1) } else { self.quantities.first(count) };
        let scales = &mut *quantities[Quantity::Divisor as usize];
        if plan.is_wide() {
            // The quotients are found beforehand.
            scales.fill(MaybeUninit::new(1.0));
        } else {
            write(table, bound.scale, scales);
        }
        if let Some(operand) = bound.zero_point {
            write(table, operand, quantities[Quantity::Zero as usize]);
        }
        // SAFETY: the table is of a `Backend`, which exists only if this machine can run it; as many scales and zero
        // points were written.
        self.method =
            unsafe { (table.scale.prepare)(quantities, plan.scaling, bound.zero_point.is_some(), plan.range) };
    }
}

/// How many scales a last step reads after those of its elements, because it is padded: it may begin at any chunk. They
/// have the last one's values.
fn extra_scales(run: usize) -> usize {
    (PADDING / run).max(1)
}

/// Writes the scale of each element.
fn spread(layout: &Layout, table: &KernelTable, operand: Operand<'_>, begin: usize, out: &mut [MaybeUninit<f32>]) {
    let count = out.len();
    let mut done = 0;
    while done < count {
        let piece = layout.piece(begin + done, count - done);
        let out = &mut out[done..done + piece.len];
        done += piece.len;
        if layout.run == 1 {
            load(table, operand, piece.scale, out);
            continue;
        }
        let mut few = [MaybeUninit::uninit(); 2 * ENTRIES];
        let few = load(table, operand, piece.scale, &mut few[..piece.scales]);
        let (mut rest, mut run) = (out, piece.first);
        for scale in few {
            let (now, later) = rest.split_at_mut(run.min(rest.len()));
            now.fill(MaybeUninit::new(*scale));
            (rest, run) = (later, layout.run);
        }
    }
}

/// Writes scales as floats, from the index `start` on. There are as many as `out` has.
pub(super) fn load<'o>(
    table: &KernelTable,
    operand: Operand<'_>,
    start: usize,
    out: &'o mut [MaybeUninit<f32>],
) -> &'o mut [f32] {
    let Operand { data_type, bytes, adjust } = operand;
    let mut each = |value: &dyn Fn(usize) -> i8| {
        for (i, float) in out.iter_mut().enumerate() {
            float.write(f32::from(value(start + i)));
        }
    };
    match data_type {
        DataType::Float => {
            let floats = &bytes.as_chunks().0[start..][..out.len()];
            for (float, bytes) in out.iter_mut().zip(floats) {
                float.write(f32::from_le_bytes(*bytes));
            }
        }
        // They need not begin with a byte.
        DataType::Int4 => each(&|i| get::<Int4>(bytes, i).value()),
        DataType::Uint4 => each(&|i| get::<Uint4>(bytes, i).value() as i8),
        DataType::Int2 => each(&|i| get::<Int2>(bytes, i).value()),
        DataType::Uint2 => each(&|i| get::<Uint2>(bytes, i).value() as i8),
        // Zeros.
        _ if data_type.is_packed() => {
            for (i, float) in out.iter_mut().enumerate() {
                float.write(if code(bytes, start + i, data_type) == 0 { 0f32 } else { -0f32 });
            }
        }
        _ => {
            let (width, len) = (byte_len_of(1, data_type.info().bits as usize), out.len());
            out.fill(MaybeUninit::new(0.0));
            // SAFETY: every float is written, and each pattern of bits is one.
            let floats = unsafe { core::slice::from_raw_parts_mut(out.as_mut_ptr().cast::<[u8; 4]>(), len) };
            let bytes = &bytes[start * width..(start + len) * width];
            cast_by(table, data_type, bytes, DataType::Float, floats.as_flattened_mut(), len);
            floats.iter_mut().for_each(|bytes| *bytes = f32::from_le_bytes(*bytes).to_ne_bytes());
        }
    }
    // SAFETY: each arm wrote every one: slices of another length would have panicked.
    let out = unsafe { written(out) };
    match adjust {
        Adjust::None => {}
        Adjust::Times(factor) => out.iter_mut().for_each(|float| *float *= factor),
        Adjust::Over(divisor) => out.iter_mut().for_each(|float| *float /= divisor),
    }
    out
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

/// Runs the kernel of a cast.
fn run(table: &KernelTable, context: &Context, src: &[u8], dst: &mut [u8], len: usize) {
    let [from, to] = [context.from, context.to].map(|data_type| byte_len_of(len, data_type.info().bits as usize));
    assert!(src.len() == from && dst.len() == to, "the bytes of as many elements");
    let Some(kernel) = table.cast(context.from, context.to) else { unreachable!("a plan has numeric types") };
    // SAFETY: the table is of a `Backend`, which exists only if this machine can run it; the slices have the bytes of
    // `len` elements. Kernels write only initialised bytes.
    unsafe { kernel(&Task::new(src, as_uninit(dst), len), context) };
}

impl ScaledPlan {
    /// Casts whole runs of elements, `run` of them, a power of two and whole chunks, by a scale for each that was just
    /// found: a few, and not those of a tensor. Results that pass the caches by need
    /// [`ScaleKernels::fence`](crate::kernel::scale::ScaleKernels::fence).
    ///
    /// # Safety
    /// The target is writable, and nothing else accesses it.
    pub(in crate::ops) unsafe fn run_found(
        &self,
        quantities: &mut ManyQuantities,
        scales: &[[u8; 4]],
        run: usize,
        task: &Task<'_>,
    ) {
        let bits = [self.from, self.to].map(|data_type| data_type.info().bits as usize);
        let lens = [task.src.len(), task.dst.len()];
        let fits = lens == bits.map(|bits| byte_len_of(task.len, bits)) && scales.len() * run == task.len;
        assert!(fits && run.is_power_of_two() && run >= CHUNK, "the bytes of as many elements, in whole runs");
        let (table, (last, _)) = (self.backend.table(), scales.split_last().unwrap_or((&[0; 4], &[])));
        let numbers = quantities.first(scales.len() + extra_scales(run));
        let (divisors, extra) = numbers[Quantity::Divisor as usize].split_at_mut(scales.len());
        for (divisor, scale) in divisors.iter_mut().zip(scales) {
            divisor.write(f32::from_le_bytes(*scale));
        }
        extra.fill(MaybeUninit::new(f32::from_le_bytes(*last)));
        // SAFETY: the table is of a `Backend`, which exists only if this machine can run it; every scale is written,
        // and the task has the bytes of its elements.
        unsafe {
            let method = (table.scale.prepare)(numbers, self.scaling, false, self.range);
            let (quantities, granularity) = (quantities.all(), Granularity::Run(run.ilog2()));
            let scales = Scales { quantities, begin: 0, granularity, has_zeros: false };
            table.scale(self.kernel, task, &self.context(scales, method), None);
        }
    }
}

impl BoundCast<'_> {
    /// Casts `len` elements, of which the first is `start` in the tensor. Where results pass the caches by, they are in
    /// order with what is stored after.
    ///
    /// # Safety
    /// The target is writable, and nothing else accesses it.
    pub(in crate::ops) unsafe fn run(&self, start: usize, task: &Task<'_>) {
        let len = task.len;
        let plan = self.plan;
        let table = plan.backend.table();
        let bits = [plan.from, plan.to].map(|data_type| data_type.info().bits as usize);
        let lens = [task.src.len(), task.dst.len()];
        assert!(lens == bits.map(|bits| byte_len_of(len, bits)), "the bytes of as many elements");
        let is_wide = plan.is_wide();
        // Not in `Tiles`: with its other fields, the compiler would fill them.
        let mut quantities = ManyQuantities::NEW;
        let mut tiles = Tiles::new(self, table, &mut quantities);
        let mut pending = PendingLine::new(task.dst.cast());
        let mut done = 0;
        while done < len {
            let max_len = if is_wide { ENTRIES } else { usize::MAX };
            let Tile { len: count, begin, granularity } = tiles.tile(start + done, max_len.min(len - done));
            let tile = task.part(done..done + count, [plan.from, plan.to]);
            let has_zeros = self.zero_point.is_some();
            let is_one = granularity == Granularity::Tensor;
            let quantities = if is_one { tiles.one.all() } else { tiles.quantities.all() };
            let scales = Scales { quantities, begin, granularity, has_zeros };
            let context = plan.context(scales, tiles.method);
            // SAFETY: the table is of a `Backend`, which exists only if this machine can run it; the caller promises
            // the target, and the tile has the bytes of its elements.
            unsafe {
                match is_wide {
                    true => self.run_wide(table, start + done, &tile, context),
                    false => table.scale(plan.kernel, &tile, &context, (count < len).then_some(&mut pending)),
                }
            }
            done += count;
        }
        if task.hint == StoreHint::NonTemporal {
            // SAFETY: as above; the caller promises that the target is writable.
            unsafe {
                pending.flush();
                (table.scale.fence)();
            }
        }
    }

    /// Casts a tile of values or scales that `f32` does not hold, or with a precision that two roundings would not
    /// give: quotients are found one by one.
    ///
    /// # Safety
    /// As [`KernelTable::scale`].
    #[cold]
    #[inline(never)]
    unsafe fn run_wide(&self, table: &KernelTable, start: usize, task: &Task<'_>, context: ScaleContext<'_>) {
        let mut quotients = [[0; 4]; ENTRIES];
        let quotients = &mut quotients[..task.len];
        self.wide_quotients(table, start, task.src, quotients);
        let context = ScaleContext { from: DataType::Float, precision: Precision::Float, ..context };
        let kernel = table.scaled(context.from, context.to);
        // SAFETY: the caller promises that the target has the bytes of the tile's elements. `quotients` has as many
        // floats.
        unsafe { table.scale(kernel, &Task { src: quotients.as_flattened(), ..*task }, &context, None) };
    }

    /// The quotients of such a tile.
    fn wide_quotients(&self, table: &KernelTable, start: usize, src: &[u8], quotients: &mut [[u8; 4]]) {
        let (plan, len) = (self.plan, quotients.len());
        let (mut x, mut scale) = ([0; 8 * ENTRIES], [0; 8]);
        let x = &mut x[..8 * len];
        cast_by(table, plan.from, src, DataType::Double, x, len);
        let Operand { data_type, bytes, .. } = self.scale;
        let width = byte_len_of(1, data_type.info().bits as usize);
        let elements = x.as_chunks::<8>().0.iter().zip(quotients);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A step that passes the caches by may begin at any chunk; what it reads beyond the tile is written too.
    #[test]
    fn a_last_step_at_any_chunk_reads_scales_that_are_written() {
        for (power, count) in (CHUNK.ilog2()..14).flat_map(|power| (1..10).map(move |count| (power, count))) {
            let run = 1 << power;
            for begin in (0..count * run).step_by(CHUNK) {
                let last = (begin + PADDING - 1) >> power;
                assert!(last < count + extra_scales(run), "{count} runs of {run}, a step at {begin}");
            }
        }
    }
}
