//! Runs part of a process with other standard streams: input comes from a file, and output is discarded. Panics are
//! still printed.

use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::panic;
use std::sync::{Mutex, Once, PoisonError};

/// The streams that the process has otherwise, while others stand for them.
static KEPT: Mutex<Option<[OwnedFd; 3]>> = Mutex::new(None);

/// Set, it leaves the output where it is, to see what is printed before a sanitizer ends the process.
const LOUD: &str = "FUZZ_LOUD";

/// Runs a function so.
pub(crate) fn quietly<R>(input: &File, run: impl FnOnce() -> R) -> R {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let next = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            restore();
            next(info);
        }));
    });
    replace(input).expect("streams");
    let result = run();
    restore();
    result
}

fn replace(input: &File) -> io::Result<()> {
    let (stdin, stdout, stderr) = (io::stdin(), io::stdout(), io::stderr());
    let kept = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()].map(|stream| stream.try_clone_to_owned());
    let [stdin, stdout, stderr] = kept;
    *KEPT.lock().unwrap_or_else(PoisonError::into_inner) = Some([stdin?, stdout?, stderr?]);
    dup2_stdin(input)?;
    if std::env::var_os(LOUD).is_none() {
        let nowhere = File::options().write(true).open("/dev/null")?;
        dup2_stdout(&nowhere)?;
        dup2_stderr(&nowhere)?;
    }
    Ok(())
}

fn restore() {
    let Some([stdin, stdout, stderr]) = KEPT.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
    let restored = dup2_stdin(stdin).and(dup2_stdout(stdout)).and(dup2_stderr(stderr));
    restored.expect("streams");
}
