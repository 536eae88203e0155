//! The memory of this process over time.

use crate::provenance::resident;
use std::fmt;
use std::time::Duration;

/// Growth from one part of the run to a later one that is not a leak: what the allocator keeps varies with the sizes
/// that it was asked for.
const ALLOWANCE: u64 = 64 << 20;

/// The resident memory, minute by minute.
pub(super) struct Memory {
    minutes: Vec<u64>,
}

impl Memory {
    pub(super) fn new() -> Memory {
        Memory { minutes: Vec::new() }
    }

    /// Takes note of the memory now, and says whether a minute has begun.
    pub(super) fn look(&mut self, since: Duration) -> bool {
        let Some(now) = resident() else { return false };
        let minute = (since.as_secs() / 60) as usize;
        let new = minute >= self.minutes.len();
        if new {
            self.minutes.resize(minute + 1, 0);
        }
        self.minutes[minute] = self.minutes[minute].max(now);
        new
    }

    /// The memory of the last minute.
    pub(super) fn now(&self) -> u64 {
        self.minutes.last().copied().unwrap_or(0)
    }

    /// The most of a quarter of the run, the first being 0; of a run of few minutes, of all of it.
    fn quarter(&self, nth: usize) -> u64 {
        let len = self.minutes.len();
        let (nth, len) = if len < 4 { (0, 4 * len) } else { (nth, len) };
        self.minutes[len * nth / 4..len * (nth + 1) / 4].iter().copied().max().unwrap_or(0)
    }

    /// Whether the last quarter of a run of twenty minutes or more took no more than the first.
    ///
    /// # Errors
    /// Where it did, with both.
    pub(super) fn check(&self) -> Result<(), String> {
        let (first, last) = (self.quarter(0), self.quarter(3));
        if self.minutes.len() < 20 || last <= first + ALLOWANCE {
            return Ok(());
        }
        Err(format!("memory has grown: at most {first} bytes in the first quarter, {last} in the last"))
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at most ")?;
        for nth in 0..4 {
            let name = ["MB of memory in the first quarter", "in the second", "in the third", "in the last"][nth];
            let comma = if nth < 3 { ", " } else { "" };
            write!(f, "{} {name}{comma}", self.quarter(nth) >> 20)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_told_from_ups_and_downs() {
        let memory = |of: fn(u64) -> u64| Memory { minutes: (0..60).map(of).collect() };
        assert!(memory(|minute| (100 + 37 * minute % 50) << 20).check().is_ok());
        let grown = memory(|minute| (100 + 3 * minute) << 20);
        assert!(grown.check().is_err());
        assert!(grown.to_string().contains("277 in the last"), "{grown}");
        let mut short = Memory::new();
        short.look(Duration::from_secs(61));
        assert!(short.check().is_ok());
        assert_eq!(short.minutes.len(), if short.now() == 0 { 0 } else { 2 });
    }
}
