//! Jobs of the project that are not tests, run by hand: `cargo xtask --help` lists them.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::too_many_lines))]

mod api;
mod dist;
mod load;
mod prove;
mod provenance;

use clap::{Parser, Subcommand};
use std::error::Error;
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
    Api(api::Options),
    Dist(dist::Options),
    Load(load::Options),
    Prove(prove::Options),
}

fn main() -> ExitCode {
    let done = |result: Result<(), Box<dyn Error>>| match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error.to_string()),
    };
    match Arguments::parse().job {
        Job::Api(options) => done(api::run(&options)),
        Job::Dist(options) => done(dist::run(options)),
        Job::Load(options) => load::run(&options),
        Job::Prove(options) => prove::run(options),
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
