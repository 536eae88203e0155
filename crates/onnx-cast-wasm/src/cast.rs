//! Casts of numbers: a plan is made once, and runs on the elements of a slot as often as they come.

use crate::{Result, slots};
use onnx_cast::{BitCast, Cast, CastOptions, DataType, NEWEST_OPSET, Plan, RoundMode, TensorView};
use std::cell::Cell;

thread_local! {
    static PLAN: Cell<Option<Plan>> = const { Cell::new(None) };
}

/// The opset where none is given: the newest is meant.
const NO_OPSET: i64 = i32::MIN as i64;

/// Prepares casts between two types, given by ONNX's numbers. The least integer of 32 bits stands for an `opset` that is
/// not given; `saturate` and `round_mode` are negative then. Modes count as `RoundMode::ALL` does.
///
/// # Errors
/// Where there is unknown type, or the operator's version does not take it.
pub fn plan(from: i32, to: i32, opset: i64, saturate: i32, round_mode: i32) -> Result<()> {
    let mut options = CastOptions::new();
    if opset != NO_OPSET {
        options = options.opset(opset);
    }
    if saturate >= 0 {
        options = options.saturate(saturate > 0);
    }
    if round_mode >= 0 {
        let mode = usize::try_from(round_mode).ok().and_then(|index| RoundMode::ALL.get(index).copied());
        options = options.round_mode(mode.ok_or("unknown round_mode")?);
    }
    PLAN.set(Some(Cast::new(of_number(to)?, &options)?.plan(of_number(from)?)?));
    Ok(())
}

/// Prepares the operator BitCast, as [`plan`] a cast.
///
/// # Errors
/// As there.
pub fn plan_bits(from: i32, to: i32, opset: i64) -> Result<()> {
    let opset = if opset == NO_OPSET { NEWEST_OPSET } else { opset };
    PLAN.set(Some(BitCast::new(of_number(to)?, opset)?.plan(of_number(from)?)?));
    Ok(())
}

/// Casts `len` elements of the input slot into the output slot.
///
/// # Errors
/// Where no plan was made, or the slot has another length than the elements.
pub fn run(len: usize) -> Result<()> {
    let plan = PLAN.get().ok_or("no cast was prepared")?;
    slots::with_pair(|input, output| {
        let shape = [len];
        let view = TensorView::new(plan.source_type(), &shape, input)?;
        let size = plan.target_type().byte_len(len).ok_or("too many elements")?;
        output.try_reserve(size.saturating_sub(output.len()))?;
        output.resize(size, 0);
        Ok(plan.run_into(&view, output)?)
    })
}

fn of_number(number: i32) -> Result<DataType> {
    Ok(DataType::ALL.iter().copied().find(|data_type| data_type.onnx() == number).ok_or("unknown type")?)
}
