//! What became of a constant that is stored narrow, as is counted while it is written.

use onnx_cast_file::__private::Counter;
use onnx_cast_file::__private::pipeline::Clamp;
use std::sync::Arc;

/// A constant that is stored narrow.
pub(crate) struct NarrowConstant {
    pub(crate) name: String,
    /// Whether it is stored as it was too.
    pub(crate) twice: bool,
    /// Counts what is lost.
    pub(crate) counter: Option<Arc<Counter>>,
    /// Clamps it.
    pub(crate) clamp: Option<Arc<Clamp>>,
}

impl NarrowConstant {
    /// Whether numbers overflowed, or most of them vanished: became zero or, where digits are to be kept, subnormal.
    pub(crate) fn is_lost(&self, keeps_digits: bool) -> bool {
        let counts = self.counter.as_ref().map(|counter| counter.total());
        counts.is_some_and(|counts| {
            let vanished = counts.zero + if keeps_digits { counts.subnormal } else { 0 };
            counts.overflowed > 0 || 2 * vanished > counts.values
        })
    }
}
