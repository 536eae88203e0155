//! The command `onnx-cast`; all of it is in the library beside this file, so that tests and documentation can reach it.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    onnx_cast_cli::run(std::env::args_os())
}
