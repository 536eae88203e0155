//! The command, from the outside: arguments, outputs, exit codes, files.

mod bench;
mod checkpoints;
mod common;
mod explain;
mod faults;
mod files;
mod models;
mod readme;
mod report;
mod terminal;
mod types;
mod usage;
