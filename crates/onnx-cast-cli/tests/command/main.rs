//! The command, from the outside: arguments, outputs, exit codes, files.

mod common;
mod explain;
mod types;
mod usage;
