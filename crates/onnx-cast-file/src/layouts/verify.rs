//! Checks that need the values of scales: they are read before anything is written.

use super::error::{LayoutError, Number};
use super::weight::{Checkpoint, TensorRef, Weight};
use super::{Weights, values::scale_size};
use crate::error::FileError;
use crate::io::memory::resize;
use onnx_cast::{DataType, GlobalScale};
use std::io;

/// How far the largest weight that a global scale allows may lie from those of the others.
const FAR: f64 = 1e4;

/// What a weight of NVFP4 is at most, for a global scale of 1: the largest element times the largest scale.
const NVFP4_MAX: f64 = 6.0 * 448.0;

/// The largest weight that a trained layer has, and more.
const LARGEST: f64 = 1e5;

/// Refuses scales that are NaN, unless they are allowed, and global scales that look inverted.
pub(crate) fn verify(
    checkpoint: &Checkpoint,
    weights: &Weights,
    chosen: &[bool],
    allow_nan: bool,
) -> Result<(), FileError> {
    let all = || weights.list.iter().zip(chosen).filter(|(_, chosen)| **chosen).map(|(weight, _)| weight);
    let mut limits: Vec<f64> = all().flat_map(|weight| weight.globals.iter().map(largest)).collect();
    limits.sort_by(f64::total_cmp);
    for weight in all() {
        if let Some(global) = weight.global {
            check_global(checkpoint, weights, weight, global, &limits)?;
        }
        if !allow_nan {
            for tensor in [Some(weight.scales), weight.global].into_iter().flatten() {
                let read_as = if tensor == weight.scales { weight.scale_type } else { DataType::Float };
                find_nan(checkpoint, weight, tensor, read_as)?;
            }
        }
    }
    Ok(())
}

/// The largest weight that a global scale allows.
fn largest(global: &GlobalScale) -> f64 {
    NVFP4_MAX
        * match *global {
            GlobalScale::Factor(factor) => f64::from(factor),
            GlobalScale::Divisor(divisor) => 1.0 / f64::from(divisor),
        }
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
    for global in &weight.globals {
        // What a weight of zeros has.
        if matches!(global, GlobalScale::Factor(factor) if factor.to_bits() == 1f32.to_bits()) {
            continue;
        }
        let largest = largest(global);
        if largest > FAR * others || largest > LARGEST {
            let (GlobalScale::Factor(got) | GlobalScale::Divisor(got)) = *global;
            let error = LayoutError::GlobalScale {
                tensor: checkpoint.stored(tensor).name.clone(),
                got: Number(got.into()),
                largest: Number(largest),
                others: Number(others),
                scheme: weights.scheme.name(),
            };
            return Err(checkpoint.error(Some(tensor), error));
        }
    }
    Ok(())
}

/// Reads all scales of a weight, and refuses the first that is NaN.
fn find_nan(checkpoint: &Checkpoint, weight: &Weight, tensor: TensorRef, read_as: DataType) -> Result<(), FileError> {
    const PART: usize = 1 << 20;
    let (file, at) = checkpoint.place(tensor);
    let stored = checkpoint.stored(tensor);
    let size = if tensor == weight.scales { scale_size(weight) } else { 4 };
    let failed = |error| FileError::io(file.path(), "read", error);
    let mut bytes = Vec::new();
    let mut done = 0;
    while done < stored.len {
        let count = PART.min(stored.len - done);
        resize(&mut bytes, count * size).ok_or_else(|| failed(io::ErrorKind::OutOfMemory.into()))?;
        file.read_at(at + (done * size) as u64, &mut bytes).map_err(failed)?;
        if let Some(index) = first_nan(read_as, &bytes) {
            let (name, index) = (stored.name.clone(), (done + index) as u64);
            return Err(checkpoint.error(Some(tensor), LayoutError::NanScale { tensor: name, index }));
        }
        done += count;
    }
    Ok(())
}

/// The index of the first NaN among scales.
fn first_nan(data_type: DataType, bytes: &[u8]) -> Option<usize> {
    let words = bytes.as_chunks().0;
    match data_type {
        DataType::Float8E8M0 => bytes.iter().position(|&code| code == 0xff),
        DataType::Float8E4M3FN => bytes.iter().position(|&code| code & 0x7f == 0x7f),
        DataType::Float16 => words.iter().position(|bytes| u16::from_le_bytes(*bytes) & 0x7fff > 0x7c00),
        DataType::BFloat16 => words.iter().position(|bytes| u16::from_le_bytes(*bytes) & 0x7fff > 0x7f80),
        _ => bytes.as_chunks().0.iter().position(|bytes| u32::from_le_bytes(*bytes) & 0x7fff_ffff > 0x7f80_0000),
    }
}
