//! The bar that shows how far the work on a file is, and the end by a signal, which takes the bar away first.
//!
//! It is drawn where the standard error is a terminal. Rate and time left are those of the average since the first
//! bytes: an estimate from the last moments jumps with every flush of the disk's cache.

use crate::args::Common;
use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use onnx_cast_file::Watch;
use onnx_cast_report::size;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write as _};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// What is on the screen now.
static SHOWN: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Whether the command that runs can continue an interrupted run.
static CAN_RESUME: AtomicBool = AtomicBool::new(false);

/// Says whether an interruption is followed by the hint to resume.
pub(crate) fn set_can_resume(can_resume: bool) {
    CAN_RESUME.store(can_resume, Ordering::Relaxed);
}

/// A bar on the standard error until it is dropped, or none.
pub(crate) struct Progress(Option<Watch>);

impl Progress {
    /// Unless nothing is to be said, where there is a terminal.
    pub(crate) fn start(common: &Common) -> Progress {
        if common.quiet || common.json || !io::stderr().is_terminal() {
            return Progress(None);
        }
        let bar = ProgressBar::new(0);
        let begun = Arc::new(OnceLock::new());
        bar.set_style(style(Arc::clone(&begun)));
        *SHOWN.lock().unwrap_or_else(PoisonError::into_inner) = Some(bar.clone());
        let known = AtomicU64::new(0);
        Progress(Some(Watch::new(move |done, total| {
            begun.get_or_init(|| (Instant::now(), done));
            if known.swap(total, Ordering::Relaxed) != total {
                bar.set_length(total);
            }
            bar.set_position(done);
        })))
    }

    /// Set by the threads that do the work.
    pub(crate) fn watch(&self) -> Option<Watch> {
        self.0.clone()
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        clear();
    }
}

/// Takes the bar away, for good.
fn clear() {
    if let Some(bar) = SHOWN.lock().unwrap_or_else(PoisonError::into_inner).take() {
        bar.finish_and_clear();
    }
}

/// When the work began, and what was done then.
type Begun = Arc<OnceLock<(Instant, u64)>>;

fn style(begun: Begun) -> ProgressStyle {
    let told = move |state: &ProgressState, out: &mut dyn std::fmt::Write| {
        let (start, before) = begun.get().copied().unwrap_or((Instant::now(), 0));
        // What does not fit is not visible.
        let _ = write!(out, "{}", told(state.pos(), state.len().unwrap_or(0), before, start.elapsed()));
    };
    // The template is a constant, and a good one: a test draws it.
    let style = ProgressStyle::with_template("{bar:24} {told}").unwrap_or_else(|_| ProgressStyle::default_bar());
    style.progress_chars("=> ").with_key("told", told)
}

/// Bytes, rate and time left.
fn told(done: u64, total: u64, before: u64, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64();
    let rate = done.saturating_sub(before) as f64 / seconds;
    let mut text = format!("{} of {}", size(done), size(total));
    if rate.is_finite() && rate > 0.0 {
        let left = (total.saturating_sub(done) as f64 / rate).round() as u64;
        let (hours, minutes, seconds) = (left / 3600, left / 60 % 60, left % 60);
        let hours = if hours > 0 { format!("{hours}:{minutes:02}") } else { minutes.to_string() };
        let _ = write!(text, ", {:.2} GB/s, {hours}:{seconds:02} left", rate / 1e9);
    }
    text
}

/// Has the signals by which people end a command take away the bar and the temporary files first. The process then ends
/// by the signal, as it would have.
#[cfg(unix)]
pub(crate) fn end_cleanly() {
    use signal_hook::consts::{SIGINT, SIGTERM};
    use signal_hook::iterator::Signals;
    // Where the system has no thread to wait for signals, as where memory is short, they do what they do by themselves.
    if onnx_cast_file::room_for_a_thread().is_err() {
        return;
    }
    // It holds nothing that is sent: so the thread has begun, and has its stacks, when this ends.
    let (sender, receiver) = std::sync::mpsc::sync_channel::<Signals>(0);
    let thread = std::thread::Builder::new().spawn(move || {
        let Ok(mut signals) = receiver.recv() else { return };
        for signal in signals.forever() {
            clear();
            if CAN_RESUME.load(Ordering::Relaxed) {
                let _ = writeln!(io::stderr(), "onnx-cast: interrupted; the same command with --resume continues");
            }
            onnx_cast_file::end_without_traces(|| {
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            });
        }
    });
    if thread.is_ok()
        && let Ok(signals) = Signals::new([SIGINT, SIGTERM].into_iter().filter(|&signal| !is_ignored(signal)))
    {
        let _ = sender.send(signals);
    }
}

/// Whether the process was started with a signal ignored, as shells do for work in the background; as far as the system
/// tells.
#[cfg(unix)]
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

#[cfg(not(unix))]
pub(crate) fn end_cleanly() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_and_time_left_are_averages() {
        let gib = 1 << 30;
        for (done, before, millis, want) in [
            (gib, 0, 500, "1.0 GiB of 4.0 GiB, 2.15 GB/s, 0:02 left"),
            (gib, gib / 2, 250, "1.0 GiB of 4.0 GiB, 2.15 GB/s, 0:02 left"),
            (gib, 0, 60_000, "1.0 GiB of 4.0 GiB, 0.02 GB/s, 3:00 left"),
            (gib, 0, 3_000_000, "1.0 GiB of 4.0 GiB, 0.00 GB/s, 2:30:00 left"),
            (4 * gib, 0, 1000, "4.0 GiB of 4.0 GiB, 4.29 GB/s, 0:00 left"),
            (5, 5, 1000, "5 B of 4.0 GiB"),
            (5, 0, 0, "5 B of 4.0 GiB"),
            // A run that is resumed may go back.
            (0, gib, 1000, "0 B of 4.0 GiB"),
        ] {
            assert_eq!(told(done, 4 * gib, before, Duration::from_millis(millis)), want);
        }
    }
}
