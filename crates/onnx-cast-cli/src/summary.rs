//! The line that says what was done, on the standard error.

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
        let (before, after) = (size(self.bytes_before), size(self.bytes_after));
        // The work is done whether or not anybody can be told.
        let _ = writeln!(
            io::stderr(),
            "{files}: {} {what}{kept}, {before} -> {after}, {:.2} s",
            self.cast,
            time.as_secs_f64()
        );
    }
}

/// Bytes as people read them: exact below 10 KiB.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 10 << 10 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (bytes, text) in [
            (0, "0 B"),
            (10_239, "10239 B"),
            (10_240, "10.0 KiB"),
            (90_868_373, "86.7 MiB"),
            (1 << 40, "1.0 TiB"),
            (u64::MAX, "16777216.0 TiB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }
}
