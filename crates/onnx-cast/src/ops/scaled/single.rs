//! Scaled casts by one scale for the tensor. Each thread finds its quantities, in plain Rust and in memory for one: for
//! a few elements, a kernel over many scales takes longer than the cast.

use super::ScaledPlan;
use super::tiles::{Operand, load};
use crate::element::DataType;
use crate::kernel::scale::{Granularity, Quantities, Quantity, Scales, loops};
use crate::kernel::{KernelTable, StoreHint, Task};
use crate::ops::CastError;
use crate::ops::buffers::{check_len, check_type};
use crate::ops::plan::execute;
use crate::packed::{Out, clear_padding, written};
use crate::scalar::with_default_float_environment;
use crate::tensor::TensorView;
use core::mem::MaybeUninit;

impl ScaledPlan {
    /// As [`ScaledPlan::run_into_uninit`], by a scale of one element, and not where quotients go by `f64`.
    #[inline(always)]
    pub(super) fn run_single<'o>(
        &self,
        x: &TensorView<'_>,
        scale: &TensorView<'_>,
        zero_point: Option<&TensorView<'_>>,
        out: &'o mut Out,
    ) -> Result<&'o mut [u8], CastError> {
        check_type(x, self.from)?;
        let has_zeros = self.check_operands(scale, zero_point)?;
        let len = x.len();
        if self.to.byte_len(len) != Some(out.len()) {
            check_len(self.to, Some(len), out.len(), x.shape())?;
        }
        let zero_point = match zero_point {
            Some(view) if has_zeros => Some((view.data_type(), view.bytes().unwrap_or_default())),
            _ => None,
        };
        Ok(self.run_by(x.bytes().unwrap_or_default(), len, scale.bytes().unwrap_or_default(), zero_point, out))
    }

    /// The same, of checked operands.
    fn run_by<'o>(
        &self,
        src: &[u8],
        len: usize,
        scale: &[u8],
        zero_point: Option<(DataType, &[u8])>,
        out: &'o mut Out,
    ) -> &'o mut [u8] {
        let table = self.backend.table();
        let has_zeros = zero_point.is_some();
        let task = Task::new(src, out, len);
        execute(&task, [self.from, self.to], self.threads, |_, task| {
            with_default_float_environment(|| {
                let mut quantities = Quantities::ZERO;
                let numbers = quantities.first(1);
                numbers[Quantity::Divisor as usize][0].write(one(table, self.scale, scale));
                if let Some((data_type, bytes)) = zero_point {
                    numbers[Quantity::Zero as usize][0].write(one(table, data_type, bytes));
                }
                // SAFETY: the lines above wrote one of each.
                let method = unsafe { loops::prepare(table.scale.fuses, numbers, self.scaling, has_zeros, self.range) };
                let quantities = quantities.all();
                let scales = Scales { quantities, begin: 0, granularity: Granularity::Tensor, has_zeros };
                let context = self.context(scales, method);
                // SAFETY: the table is of a `Backend`, which exists only if this machine can run it; the task has the
                // bytes of its elements, in a part of `out`.
                unsafe {
                    table.scale(self.kernel, task, &context, None);
                    if task.hint == StoreHint::NonTemporal {
                        (table.scale.fence)();
                    }
                }
            });
        });
        // SAFETY: the cast writes every byte of each task, and the tasks make up `out`.
        let out = unsafe { written(out) };
        clear_padding(self.to, len, out);
        out
    }
}

/// The only scale or zero point of an operand, as a float. The usual types need no kernel of Cast.
#[inline(always)]
fn one(table: &KernelTable, data_type: DataType, bytes: &[u8]) -> f32 {
    match (data_type, bytes) {
        (DataType::Float, &[a, b, c, d]) => f32::from_le_bytes([a, b, c, d]),
        (DataType::Uint8, &[a]) => a.into(),
        (DataType::Int8, &[a]) => (a as i8).into(),
        _ => load(table, Operand::new(data_type, bytes), 0, &mut [MaybeUninit::uninit()])[0],
    }
}
