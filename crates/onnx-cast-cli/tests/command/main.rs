//! The command, from the outside: arguments, outputs, exit codes, files.

mod bench;
mod checkpoints;
mod common;
mod effects;
mod explain;
mod faults;
mod files;
mod hostile;
mod integers;
mod losses;
mod models;
mod precision;
mod quantized;
mod ranges;
mod readme;
mod refused;
mod replaced;
mod report;
mod schema;
mod surface;
mod terminal;
mod types;
mod usage;
mod words;
