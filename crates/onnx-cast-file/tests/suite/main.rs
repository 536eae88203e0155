//! The tests of the crate on files, as one program: linking one for each file took longer than compiling them.

mod common;

mod archives;
mod calibrated;
mod check;
mod claims;
#[cfg(unix)]
mod collections;
mod companions;
mod downloads;
mod experts;
mod files;
mod fixtures;
#[cfg(any(target_arch = "x86", target_arch = "x86_64", target_arch = "aarch64"))]
mod float_environment;
#[cfg(unix)]
mod folders;
mod gguf;
mod gguf_written;
mod hostile;
mod in_memory;
mod integer_layouts;
mod linear;
mod loaders;
mod parts;
mod pickled;
mod quantized;
mod quantized_again;
mod quantized_hostile;
mod quantized_naive;
mod quantized_platforms;
mod quantized_releases;
mod quark;
mod refused;
mod replaced;
mod report;
mod report_scaled;
mod shards;
mod torch_layouts;
mod type_names;
mod verdicts;
