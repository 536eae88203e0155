//! The command `onnx-cast`: ONNX's Cast, CastLike and BitCast on tensor files and models, and tools to look at types and
//! single values.
//!
//! Exit codes: 0 done; 1 `diff` found a difference, or `--fail-on` a loss; 2 an error. Data goes to the standard output only where it is
//! asked for; messages go to the standard error, as `onnx-cast: error: ...`.
//!
//! There is no conversion arithmetic here: results are the library's.
#![forbid(unsafe_code)]

mod args;
mod bench;
mod convert;
mod decimal;
mod evaluate;
mod explain;
mod inspect;
mod models;
mod outcome;
mod pairs;
mod progress;
mod report;
mod select;
mod summary;
mod types;
mod value;

use anstream::{AutoStream, ColorChoice};
use anyhow::{Context, Result};
use args::{Args, Command, ExplainArgs, TypesArgs};
use clap::{CommandFactory, Parser};
use onnx_cast::DataType;
use onnx_cast_file::AtomicFile;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

const DONE: u8 = 0;
const DIFFERENT: u8 = 1;
const ERROR: u8 = 2;

/// Runs the command with these arguments, the first of which is the program's name, and says how to exit. A signal that
/// ends it takes its temporary files away first.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    progress::end_cleanly();
    ExitCode::from(exit_code(args))
}

/// As [`run`], any number of times in a process, whose signals are left as they are.
pub fn exit_code(args: impl IntoIterator<Item = OsString>) -> u8 {
    let args = match Args::try_parse_from(args) {
        Ok(args) => args,
        Err(error) => return usage(&error),
    };
    match dispatch(args.command) {
        Ok(code) => code,
        Err(error) if is_broken_pipe(&error) => DONE,
        Err(error) => {
            // Nobody is left to be told where even this cannot be written.
            let _ = writeln!(io::stderr(), "onnx-cast: error: {error:#}");
            ERROR
        }
    }
}

/// Help and version, which are no errors, or a mistake in the arguments, which is one like any other.
fn usage(error: &clap::Error) -> u8 {
    use clap::error::ErrorKind::{DisplayHelp, DisplayHelpOnMissingArgumentOrSubcommand, DisplayVersion};
    match error.kind() {
        DisplayHelp | DisplayVersion => {
            let _ = error.print();
            DONE
        }
        DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            ERROR
        }
        _ => {
            let _ = write!(io::stderr(), "onnx-cast: {}", error.render());
            ERROR
        }
    }
}

fn dispatch(command: Command) -> Result<u8> {
    match command {
        Command::Cast(args) => return convert::cast(&args),
        Command::BitCast(args) => return convert::bit_cast(&args),
        Command::Fold(args) => models::fold(&args)?,
        Command::Run(args) => evaluate::run(&args)?,
        Command::Info(args) => inspect::info(&args)?,
        Command::Diff(args) => return inspect::diff(&args),
        Command::Report(args) => report::report(&args)?,
        Command::Types(TypesArgs { json }) => print(&if json { pretty(&types::json()?)? } else { types::text()? })?,
        Command::Explain(args) => explain(&args)?,
        Command::Bench(args) => bench::bench(&args)?,
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Args::command(), "onnx-cast", &mut script);
            print(&String::from_utf8_lossy(&script))?;
        }
    }
    Ok(DONE)
}

fn explain(args: &ExplainArgs) -> Result<()> {
    let ExplainArgs { value, from, to, attributes, all, json, html } = args;
    let request = |to| explain::Request { value, from: *from, to, options: attributes.options() };
    let Some(to) = to.filter(|_| !all) else {
        let request = request(DataType::Float);
        if let Some(path) = html {
            write_page(path, &explain::page_of_all(&request)?)?;
        }
        return Ok(print(&explain::all(&request)?)?);
    };
    let explanation = explain::explain(&request(to))?;
    if let Some(path) = html {
        write_page(path, &explain::page(&explanation)?)?;
    }
    if *json {
        return Ok(print(&pretty(&explain::json(&explanation)?)?)?);
    }
    // Drawn for people; whoever reads the text by program, or wants no colours, gets it as it was.
    if AutoStream::choice(&io::stdout()) != ColorChoice::Never {
        print(&explain::drawing(&explanation)?)?;
    }
    Ok(print(&explain::text(&explanation)?)?)
}

/// Writes a page, which appears whole or not at all.
fn write_page(path: &Path, page: &str) -> Result<()> {
    let mut file = AtomicFile::create(path)?;
    file.write_all(page.as_bytes()).with_context(|| format!("{}: cannot write", path.display()))?;
    Ok(file.commit()?)
}

fn pretty(value: &serde_json::Value) -> Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}

fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Whether whoever reads our output has left, as `head` does, which is no error.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// The README's Rust code, compiled and run with the documentation's tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
