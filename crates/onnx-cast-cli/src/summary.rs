//! The line that says what was done, on the standard error.

use onnx_cast_report::size;
use std::fmt;
use std::io::{self, Write};
use std::ops::AddAssign;
use std::time::Duration;

/// Tensors and their elements.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Amount {
    pub(crate) tensors: u64,
    pub(crate) elements: u64,
}

impl AddAssign for Amount {
    fn add_assign(&mut self, other: Amount) {
        self.tensors += other.tensors;
        self.elements += other.elements;
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = |count| if count == 1 { "" } else { "s" };
        let Amount { tensors, elements } = *self;
        write!(f, "{tensors} tensor{} ({elements} element{})", plural(tensors), plural(elements))
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Summary {
    pub(crate) cast: Amount,
    pub(crate) kept: Amount,
    pub(crate) bytes_before: u64,
    pub(crate) bytes_after: u64,
}

impl Summary {
    pub(crate) fn say(&self, files: &str, what: &str, time: Duration) {
        let kept = if self.kept.tensors == 0 { String::new() } else { format!(", {} kept", self.kept) };
        self.say_line(files, &format!("{} {what}{kept}", self.cast), time);
    }

    /// The same for a job that quantizes. `quantized` counts the weights; tensors that hold parts of them do not count.
    pub(crate) fn say_quantized(&self, files: &str, quantized: &str, time: Duration) {
        self.say_line(files, quantized, time);
    }

    fn say_line(&self, files: &str, what: &str, time: Duration) {
        let (before, after) = (size(self.bytes_before), size(self.bytes_after));
        // An error of the standard error does not undo the work.
        let _ = writeln!(io::stderr(), "{files}: {what}, {before} -> {after}, {:.2} s", time.as_secs_f64());
    }
}
