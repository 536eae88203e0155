//! Measures the library beside its peers. Most of them are Python packages, so a script does the measuring; this finds
//! and runs it.

use std::path::Path;
use std::process::{Command, ExitCode};

/// Runs the script with the arguments, which it knows (`--help`).
pub(crate) fn run(arguments: impl Iterator<Item = String>) -> Result<ExitCode, String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench-record/peers/peers.py");
    let mut python = Command::new(if cfg!(windows) { "python" } else { "python3" });
    let status = python.arg(&script).args(arguments).status();
    let status = status.map_err(|error| format!("{}: no Python 3.11 or newer to run it: {error}", script.display()))?;
    // A signal has no code.
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}
