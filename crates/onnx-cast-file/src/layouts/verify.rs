//! Checks that need the values of scales: they are read before anything is written.

use super::find::Weights;
use super::weight::Weight;
use crate::checkpoint::{Checkpoint, TensorRef};
use crate::error::FileError;
use crate::formats::source::Items;
use crate::io::progress::{Meter, Watch};
use crate::pipeline::{self, Nowhere, Task, TaskInput, Transform};
use crate::text::Wording;
use onnx_cast::scaled::GlobalScale;
use onnx_cast::types::{BFloat16, Float8E4M3FN, Float8E8M0, Float16};
use onnx_cast::{CastError, DataType};
use std::sync::atomic::{AtomicUsize, Ordering};

/// How far the largest weight that a global scale allows may lie from those of the others.
const FAR: f64 = 1e4;

/// What a weight of NVFP4 is at most, for a global scale of 1: the largest element times the largest scale.
const NVFP4_MAX: f64 = 6.0 * 448.0;

/// The largest weight that a trained layer has, and more.
const LARGEST: f64 = 1e5;

/// Scales that must not be NaN, and the type as which they are read.
pub(crate) type Scales = Vec<(TensorRef, DataType)>;

/// Returns the scales of weights. Global scales that look inverted are an error, unless the layout was named.
pub(crate) fn scales_of(checkpoint: &Checkpoint, weights: &Weights, chosen: &[bool]) -> Result<Scales, FileError> {
    let all = || weights.list.iter().zip(chosen).filter(|(_, chosen)| **chosen).map(|(weight, _)| weight);
    let mut limits: Vec<f64> = all().flat_map(|weight| weight.scales.globals.iter().map(largest)).collect();
    limits.sort_by(f64::total_cmp);
    let mut scales = Vec::new();
    for weight in all() {
        scales.extend(weight.scale_tensors());
        if let Some(global) = weight.scales.global {
            if !weights.is_named {
                check_global(checkpoint, weights, weight, global, &limits)?;
            }
            scales.push((global, DataType::Float));
        }
    }
    Ok(scales)
}

/// The largest weight that a global scale allows.
fn largest(global: &GlobalScale) -> f64 {
    let value = f64::from(global.value());
    NVFP4_MAX * if global.divides() { 1.0 / value } else { value }
}

fn check_global(
    checkpoint: &Checkpoint,
    weights: &Weights,
    weight: &Weight,
    tensor: TensorRef,
    limits: &[f64],
) -> Result<(), FileError> {
    // The lower of two in the middle, so that one of two weights stands out.
    let Some(&others) = limits.get(limits.len().saturating_sub(1) / 2) else { return Ok(()) };
    for global in &weight.scales.globals {
        // What a weight of zeros has.
        let got = global.value();
        if got.to_bits() == 1f32.to_bits() {
            continue;
        }
        let largest = largest(global);
        if largest > FAR * others || largest > LARGEST {
            let than = match largest > FAR * others {
                true => format!("where the checkpoint's others go to {others:.3e}"),
                false => format!("more than {LARGEST:e}"),
            };
            let what = format!(
                "a global scale of {} allows weights up to {largest:.3e}, {than}: it may be inverted (the layout is \
                 {}; ",
                f64::from(got),
                weights.layout.name()
            );
            let what = Wording::from(what).field("layout", " settles it)");
            return Err(checkpoint.value_error(tensor, what));
        }
    }
    Ok(())
}

/// The index of the first NaN of a tensor, or [`usize::MAX`] while no NaN was found.
struct FirstNan {
    read_as: DataType,
    index: AtomicUsize,
}

impl Transform for FirstNan {
    fn target_type(&self) -> DataType {
        DataType::Bool
    }

    fn run(&self, start: usize, _: usize, elements: &[u8], _: &mut [u8]) -> Result<(), CastError> {
        if let Some(index) = first_nan(self.read_as, elements) {
            self.index.fetch_min(start + index, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Reads scales, and refuses the first that is NaN.
pub(crate) fn find_nan(
    checkpoint: &Checkpoint,
    scales: &[(TensorRef, DataType)],
    threads: Option<usize>,
    watch: Option<&Watch>,
) -> Result<(), FileError> {
    let first = |&(_, read_as): &(_, DataType)| FirstNan { read_as, index: AtomicUsize::new(usize::MAX) };
    let found: Vec<FirstNan> = scales.iter().map(first).collect();
    let mut tasks = Vec::with_capacity(scales.len());
    for (&(tensor, read_as), first) in scales.iter().zip(&found) {
        let ((file, at), len) = (checkpoint.place(tensor), checkpoint.stored(tensor).len);
        let task = Task::keeping(TaskInput::File(file, at), len, read_as, Items::PLAIN);
        tasks.push(Task { transform: Some(first), ..task });
    }
    let meter = Meter::new(watch, tasks.iter().map(Task::bytes).sum());
    // Only asks whether to stop: the bytes of the work itself are not known yet.
    let progress = |_| meter.add(0);
    pipeline::run(&tasks, threads, &Nowhere, &progress).map_err(|(task, error)| {
        let (tensor, _) = scales[task];
        let path = checkpoint.files[tensor.file].path();
        FileError::moving(error, path, path, &checkpoint.stored(tensor).name)
    })?;
    for ((tensor, _), first) in scales.iter().zip(&found) {
        let index = first.index.load(Ordering::Relaxed);
        if index < usize::MAX {
            let what = Wording::from(format!("scale {index} is NaN ("));
            return Err(checkpoint.value_error(*tensor, what.field("allow_nan", " gives NaN for its block)")));
        }
    }
    Ok(())
}

/// The index of the first NaN among scales.
fn first_nan(data_type: DataType, bytes: &[u8]) -> Option<usize> {
    let mut halves = bytes.as_chunks().0.iter().map(|bytes| u16::from_le_bytes(*bytes));
    match data_type {
        DataType::Float8E8M0 => bytes.iter().position(|&code| Float8E8M0::from_bits(code).is_nan()),
        DataType::Float8E4M3FN => bytes.iter().position(|&code| Float8E4M3FN::from_bits(code).is_nan()),
        DataType::Float16 => halves.position(|bits| Float16::from_bits(bits).is_nan()),
        DataType::BFloat16 => halves.position(|bits| BFloat16::from_bits(bits).is_nan()),
        _ => bytes.as_chunks().0.iter().position(|bytes| f32::from_le_bytes(*bytes).is_nan()),
    }
}
