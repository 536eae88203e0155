//! Jobs of the project that are no tests, run by hand: `cargo xtask dist`, `cargo xtask load`, `cargo xtask peers`,
//! `cargo xtask prove`, `cargo xtask soak`.
#![forbid(unsafe_code)]

mod claim;
mod dist;
mod load;
mod peers;
mod prove;
mod provenance;
mod share;
mod soak;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask dist [--target TRIPLE] [--out FOLDER]

Builds the C interface and lays it out for programs in C and C++, in a folder, whose name it prints, and a tarball:
libraries, header, pkg-config, CMake, examples, licences. Default: target/dist.

usage: cargo xtask peers [--help] ...

Measures the library beside what people would use instead, and keeps the record in bench-record.

usage: cargo xtask prove [--isa NAME|all] [--from TYPE]... [--to TYPE]... [--threads N] [--stride N] [--record FILE]

Compares the library with the exact oracle, on every backend or on the one named:
- all 2^32 values of float, int32 and uint32, to each numeric type, with every setting that matters;
- 10^8 random and 10^6 near-tie values of double, int64 and uint64, to the same;
- 10^7 random floats and as many doubles to string and back.
Stops at the first difference, prints it, and exits 1.

  --isa NAME     a backend's name; default: all that this machine has
  --from TYPE    only from this type (also one of 16 bits or fewer, or string); may be repeated
  --to TYPE      only to this type; may be repeated
  --threads N    default: as many as there are processors
  --stride N     only one block of N, to try the command out
  --record FILE  append the result to a file in Markdown

usage: cargo xtask soak [--minutes N | --rounds N] [--seed N] [--first N] [--threads N] [--record FILE]

Draws pairs, versions, attributes, shapes, lengths, places in memory, backends, threads, texts and files at random, casts,
and compares with the exact oracle, the scalar cast, or what it was made from. Stops at the first difference, prints how
to have its round again, and exits 1; so it does where memory has grown. Default: 60 minutes from seed 1, 1 thread.

usage: cargo xtask load [small] [large]

Ten million small casts, each compared, after which the memory must be what it was; tensors of 6442450944 uint8 to uint4
and of 4609540096 uint2 to uint8, each element compared (5 GB of memory).";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        Some("prove") => match prove::Options::parse(arguments) {
            Ok(options) => prove::run(&options),
            Err(error) => wrong(&error),
        },
        Some("soak") => match soak::Options::parse(arguments) {
            Ok(options) => soak::run(&options),
            Err(error) => wrong(&error),
        },
        Some("load") => load::run(arguments).unwrap_or_else(|error| wrong(&error)),
        Some("dist") => match dist::run(arguments) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => wrong(&error.to_string()),
        },
        Some("peers") => peers::run(arguments).unwrap_or_else(|error| wrong(&error)),
        Some("--help" | "-h" | "help") => {
            println!("{USAGE}");
            ExitCode::SUCCESS
        }
        Some(other) => wrong(&format!("`{other}` is not known (want dist, load, peers, prove or soak)")),
        None => wrong("what is to be done?"),
    }
}

fn wrong(error: &str) -> ExitCode {
    eprintln!("xtask: {error}\n\n{USAGE}");
    ExitCode::from(2)
}
