//! Jobs of the project that are not tests, run by hand: `cargo xtask --help` lists them.
#![forbid(unsafe_code)]

mod claim;
mod dist;
mod load;
mod prove;
mod provenance;
mod share;
mod soak;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Jobs of the project that are not tests
#[derive(Debug, Parser)]
#[command(name = "xtask", bin_name = "cargo xtask", arg_required_else_help = true, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    job: Job,
}

#[derive(Debug, Subcommand)]
enum Job {
    Dist(dist::Options),
    Load(load::Options),
    Prove(prove::Arguments),
    Soak(soak::Options),
}

fn main() -> ExitCode {
    match Arguments::parse().job {
        Job::Dist(options) => match dist::run(options) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => failed(&error.to_string()),
        },
        Job::Load(options) => load::run(&options),
        Job::Prove(arguments) => prove::run(&prove::Options::new(arguments)),
        Job::Soak(options) => soak::run(&options),
    }
}

fn failed(error: &str) -> ExitCode {
    eprintln!("xtask: {error}");
    ExitCode::from(2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
