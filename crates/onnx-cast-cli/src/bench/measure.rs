//! One pair: made, checked, timed.

use super::buffer::Buffer;
use super::scaled::Scaled;
use crate::pairs::Op;
use anyhow::{Result, anyhow, bail};
use onnx_cast::backend::Backend;
use onnx_cast::{Cast, CastOptions, DataType, Plan, Tensor, TensorView};
use onnx_cast_file::Granularity;
use rayon::prelude::*;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Rounds of one cast and one memcpy each, whose medians are quoted. Odd, so that a median is a round that was.
const ROUNDS: usize = 9;

/// A shorter stretch is repeated until it takes so long, so that the clock and the first misses do not count.
const STRETCH: Duration = Duration::from_micros(500);

/// A pair that moves this much is measured in memory: before each stretch the caches are filled with something else.
/// Otherwise a cast that writes past the caches would leave memcpy's buffers in them, and be compared with a copy
/// within the last cache, and the smaller pairs would be measured there themselves.
const IN_MEMORY: usize = 4 << 20;

/// What the caches are filled with, at least.
const EVICT: usize = 96 << 20;

/// Elements after which a source repeats. A multiple of every packing, so that the result repeats too.
const PERIOD: usize = 1 << 16;

/// Bytes read and written a second, in units of 10^9.
#[derive(Clone, Copy, Debug)]
pub(super) struct Speed {
    pub(super) cast: f64,
    pub(super) memcpy: f64,
    /// Bytes of all inputs and of the output.
    pub(super) moved: usize,
}

impl Speed {
    pub(super) fn ratio(self) -> f64 {
        self.cast / self.memcpy
    }
}

/// Measures pairs with one setting.
pub(super) struct Bench {
    backend: Backend,
    elements: usize,
    threads: usize,
    /// The last source, which the next pair may share.
    source: Option<(DataType, Buffer)>,
    /// What is read to empty the caches, made when first needed.
    evict: Option<Buffer>,
}

impl Bench {
    pub(super) fn new(backend: Backend, elements: usize, threads: usize) -> Bench {
        Bench { backend, elements, threads, source: None, evict: None }
    }

    /// The numbers that are cast from, which are those of the last pair where it had the same type.
    fn take_source(&mut self, from: DataType) -> Result<Buffer> {
        // The old one goes first: two at once would be the most memory that is ever held.
        match self.source.take() {
            Some((held, source)) if held == from => Ok(source),
            _ => source(from, self.elements),
        }
    }

    /// Checks and times one pair: a cast, or with a granularity a scaled cast.
    pub(super) fn pair(&mut self, from: DataType, to: DataType, scales: Option<(Op, Granularity)>) -> Result<Speed> {
        let source = self.take_source(from)?;
        let mut target = Buffer::new(byte_len(to, self.elements)?)?;
        let speed = match scales {
            None => {
                let shape = [self.elements];
                let view = TensorView::new(from, &shape, &source)?;
                let plan = plan(from, to, self.backend, self.threads)?;
                plan.run_into(&view, &mut target)?;
                check(from, to, &source, &target, self.elements)?;
                let run = |target: &mut [u8]| Ok(plan.run_into(black_box(&view), target)?);
                self.timed(source.len() + target.len(), &mut target, run)?
            }
            Some((op, granularity)) => {
                let scaled = Scaled::new(op, granularity, from, to, self.elements)?;
                let view = TensorView::new(from, &scaled.shape, &source)?;
                let scale = scaled.scale.view();
                let plan = scaled.plan(from, to, self.backend, self.threads)?;
                plan.run_into(&view, &scale, None, &mut target)?;
                let portable = scaled.plan(from, to, Backend::by_name("portable")?, 1)?.run(&view, &scale, None)?;
                if portable.bytes() != Some(&*target) {
                    bail!("{from} -> {to}: the result is not that of the scalar cast");
                }
                drop(portable);
                let moved = source.len() + target.len() + scale.bytes().map_or(0, <[u8]>::len);
                let run = |target: &mut [u8]| Ok(plan.run_into(black_box(&view), black_box(&scale), None, target)?);
                self.timed(moved, &mut target, run)?
            }
        };
        self.source = Some((from, source));
        Ok(speed)
    }

    /// Times what writes `target`, beside memcpy of as many bytes as it moves.
    fn timed(&mut self, moved: usize, target: &mut [u8], run: impl Fn(&mut [u8]) -> Result<()>) -> Result<Speed> {
        let (copied, mut copy) = (Buffer::new(moved / 2)?, Buffer::new(moved / 2)?);
        let mut cast = |repeat: usize| -> Result<Duration> {
            let start = Instant::now();
            for _ in 0..repeat {
                run(black_box(&mut *target))?;
            }
            Ok(start.elapsed())
        };
        let mut memcpy = |repeat: usize| memcpy(&copied, &mut copy, self.threads, repeat);
        let (cast_repeat, memcpy_repeat) = (repeats(&mut cast)?, repeats(&mut |repeat| Ok(memcpy(repeat)))?);
        let (mut casts, mut memcpies) = ([0.0; ROUNDS], [0.0; ROUNDS]);
        if moved >= IN_MEMORY && self.evict.is_none() {
            // Twice the last cache, so that nothing else stays there.
            let last = super::cache::last_cache_bytes().unwrap_or(0);
            let bytes = usize::try_from(2 * last).unwrap_or(EVICT).clamp(EVICT, 1 << 30);
            self.evict = Some(Buffer::new(bytes)?);
        }
        let mut evict = || {
            if let Some(evict) = self.evict.as_mut().filter(|_| moved >= IN_MEMORY) {
                // Written, so that other processors' caches lose it as well.
                evict.iter_mut().step_by(64).for_each(|byte| *byte = byte.wrapping_add(1));
            }
        };
        for round in 0..ROUNDS {
            evict();
            casts[round] = cast(cast_repeat)?.as_secs_f64() / cast_repeat as f64;
            evict();
            memcpies[round] = memcpy(memcpy_repeat).as_secs_f64() / memcpy_repeat as f64;
        }
        let speed = |seconds: &mut [f64; ROUNDS], bytes: usize| {
            seconds.sort_by(f64::total_cmp);
            // A clock may not see a single byte being copied.
            bytes as f64 / seconds[ROUNDS / 2].max(1e-12) / 1e9
        };
        Ok(Speed { cast: speed(&mut casts, moved), memcpy: speed(&mut memcpies, moved / 2 * 2), moved })
    }
}

fn plan(from: DataType, to: DataType, backend: Backend, threads: usize) -> Result<Plan> {
    let options = CastOptions::new().backend(backend).threads(threads);
    Ok(Cast::new(to, &options)?.plan(from)?)
}

fn byte_len(data_type: DataType, elements: usize) -> Result<usize> {
    data_type.byte_len(elements).ok_or_else(|| anyhow!("{elements} elements of {data_type} are too many"))
}

/// Numbers spread over -8 to 8, as weights and activations are: no kernel's rare paths, and no only zeros.
fn source(data_type: DataType, elements: usize) -> Result<Buffer> {
    let mut state = 0u32;
    let numbers = (0..PERIOD).map(|_| {
        // A linear congruential generator's upper bits are even enough.
        state = state.wrapping_mul(0x9e37_79b1).wrapping_add(0x7f4a_7c15);
        ((state >> 8) as f32 / (1 << 23) as f32 - 1.0) * 8.0
    });
    let numbers: Vec<f32> = numbers.collect();
    let numbers = Tensor::from_slice(vec![PERIOD], &numbers)?;
    let period = Cast::new(data_type, &CastOptions::default())?.run(&numbers.view())?;
    let period = period.bytes().ok_or_else(|| anyhow!("{data_type} has no bytes"))?;
    let mut source = Buffer::new(byte_len(data_type, elements)?)?;
    for part in source.chunks_mut(period.len()) {
        part.copy_from_slice(&period[..part.len()]);
    }
    Ok(source)
}

/// Compares a whole result with the scalar cast, which is the portable backend's, of the numbers that repeat in it.
fn check(from: DataType, to: DataType, source: &[u8], target: &[u8], elements: usize) -> Result<()> {
    let scalar = plan(from, to, Backend::by_name("portable")?, 1)?;
    let cast = |elements: usize| -> Result<Tensor> {
        let shape = [elements];
        Ok(scalar.run(&TensorView::new(from, &shape, &source[..byte_len(from, elements)?])?)?)
    };
    let period = cast(elements.min(PERIOD))?;
    let period = period.bytes().unwrap_or_default();
    // The last part may end within a byte, whose rest is zeros.
    let rest = cast(elements % PERIOD)?;
    let rest = rest.bytes().unwrap_or_default();
    let (whole, end) = target.split_at(target.len() - rest.len());
    if whole.chunks(period.len().max(1)).any(|part| part != period) || end != rest {
        bail!("{from} -> {to}: the result is not the scalar cast's");
    }
    Ok(())
}

/// How often `work` is repeated to fill a stretch; it is also warm then.
fn repeats(work: &mut impl FnMut(usize) -> Result<Duration>) -> Result<usize> {
    let mut repeat = 1;
    loop {
        let time = work(repeat)?;
        if time >= STRETCH || repeat >= 1 << 24 {
            return Ok(repeat);
        }
        // Too many rather than a stretch too short; eight times as many at most, since the first ones are cold.
        let wanted = STRETCH.as_secs_f64() / time.as_secs_f64().max(1e-9) * 1.2;
        repeat = (repeat as f64 * wanted.clamp(1.5, 8.0)).ceil() as usize;
    }
}

/// Copies so often, in as many parts as there are threads, which are woken as for a cast: those of the same pool.
fn memcpy(from: &[u8], to: &mut [u8], threads: usize, repeat: usize) -> Duration {
    let copy = |from: &[u8], to: &mut [u8]| black_box(to).copy_from_slice(black_box(from));
    const LINE: usize = 64;
    let part = from.len().div_ceil(threads).next_multiple_of(LINE).max(LINE);
    let start = Instant::now();
    for _ in 0..repeat {
        if threads == 1 {
            copy(from, to);
        } else {
            from.par_chunks(part).zip(to.par_chunks_mut(part)).for_each(|(from, to)| copy(from, to));
        }
    }
    start.elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_result_is_found() {
        let (from, to) = (DataType::Float, DataType::Int4);
        for elements in [1, 7, PERIOD - 1, PERIOD, 2 * PERIOD + 3] {
            let source = source(from, elements).expect("numbers");
            let shape = [elements];
            let view = TensorView::new(from, &shape, &source).expect("a tensor");
            let mut target = vec![0; byte_len(to, elements).expect("a size")];
            plan(from, to, Backend::best(), 1).expect("a cast").run_into(&view, &mut target).expect("a result");
            check(from, to, &source, &target, elements).expect("right");
            for wrong in [0, target.len() - 1] {
                target[wrong] ^= 1;
                assert!(check(from, to, &source, &target, elements).is_err(), "{elements} {wrong}");
                target[wrong] ^= 1;
            }
        }
    }

    #[test]
    fn all_of_it_is_copied() {
        for threads in 1..5 {
            for len in [0, 1, 63, 64, 65, 200, 1000] {
                let from: Vec<u8> = (0..len).map(|i| i as u8 | 1).collect();
                let mut to = vec![0; len];
                memcpy(&from, &mut to, threads, 2);
                assert_eq!(from, to, "{threads} threads");
            }
        }
    }

    #[test]
    fn the_source_is_spread() {
        let source = source(DataType::Float, PERIOD).expect("numbers");
        let numbers: Vec<f32> = source.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        let below = |limit: f32| numbers.iter().filter(|number| **number < limit).count();
        assert!(numbers.iter().all(|number| (-8.0..8.0).contains(number)));
        assert!((PERIOD * 7 / 16..PERIOD * 9 / 16).contains(&below(0.0)), "{}", below(0.0));
        assert!((PERIOD / 16..PERIOD * 3 / 16).contains(&below(-6.0)), "{}", below(-6.0));
    }
}
