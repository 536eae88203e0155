//! Runs the script that measures the library beside its peers. It is in Python because most of the peers are Python
//! packages.

use clap::Args;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, ExitCode};

/// Measure the library beside numpy, onnxruntime and others (`cargo xtask peers --help` lists its options)
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Options {
    /// Options of bench/peers/peers.py
    #[arg(value_name = "OPTION", trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Runs the script with its options.
pub(crate) fn run(options: Options) -> Result<ExitCode, String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench/peers/peers.py");
    let mut python = Command::new(if cfg!(windows) { "python" } else { "python3" });
    let status = python.arg(&script).args(options.arguments).status();
    let status = status.map_err(|error| format!("{}: no Python 3.11 or newer to run it: {error}", script.display()))?;
    // A process that a signal ended has no exit code.
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}
