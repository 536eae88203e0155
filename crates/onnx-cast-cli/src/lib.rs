//! The command `onnx-cast`: ONNX's Cast, CastLike and BitCast on tensor files and models, and tools to look at types
//! and single values.
//!
//! Exit codes: 0 done; 1 `diff`, `check` or `--fail-on` found something; 2 an error. Data goes to the standard output
//! only where it is asked for; messages go to the standard error, as `onnx-cast: error: ...`.
//!
//! There is no conversion arithmetic here: results are the library's.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::too_many_lines, clippy::disallowed_methods))]

mod args;
mod bench;
mod convert;
mod evaluate;
mod inspect;
mod models;
mod outcome;
mod pairs;
mod paths;
mod precision;
mod progress;
mod record;
mod report;
mod select;
mod summary;

use anstream::{AutoStream, ColorChoice};
use anyhow::{Context, Result, bail, ensure};
use args::{Args, BlockArgs, Command, Common, ExplainArgs, ScalingArgs};
use clap::error::ErrorKind::{DisplayHelp, DisplayHelpOnMissingArgumentOrSubcommand, DisplayVersion};
use clap::{CommandFactory, FromArgMatches};
use clap_complete::Shell;
use onnx_cast::__private::DefaultEnvironment;
use onnx_cast::DataType;
use onnx_cast::backend::{self, Backend};
use onnx_cast_explain as explain;
use onnx_cast_explain::{BlockRequest, types};
use onnx_cast_file::__private::{Lines, PathText, create_page, is_stream};
use onnx_cast_file::{AtomicFile, CandidateFormat, Existing, FileError, Format, FormatError, Wording};
use onnx_cast_model::Error;
use std::ffi::OsString;
use std::io::{self, Write};
use std::iter;
use std::path::{Path, PathBuf};
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
    let _environment = DefaultEnvironment::enter();
    let args: Vec<OsString> = args.into_iter().collect();
    let color = color_of(&args);
    match color {
        clap::ColorChoice::Auto => {}
        clap::ColorChoice::Always => ColorChoice::Always.write_global(),
        clap::ColorChoice::Never => ColorChoice::Never.write_global(),
    }
    let all = args::command();
    let parsed = args::with_other_names(all.clone()).color(color).try_get_matches_from(&args);
    let parsed = parsed.and_then(|matches| Ok((Args::from_arg_matches(&matches)?, matches)));
    let (mut parsed, matches) = match parsed {
        Ok(parsed) => parsed,
        Err(error)
            if error.kind() == DisplayVersion && args.iter().any(|arg| VERBOSE.contains(&&*arg.to_string_lossy())) =>
        {
            return print(&version()).map_or(ERROR, |()| DONE);
        }
        Err(error) => return usage(&args::with_other_command(error), args.iter().any(|arg| arg == "--json")),
    };
    parsed.common.command = matches.subcommand_name().unwrap_or_default().to_owned();
    progress::set_can_resume(can_resume(&matches));
    let checked = check_common(&parsed).and_then(|()| paths::check_request(&all, &matches));
    match checked.and_then(|()| dispatch(parsed.command, &parsed.common)) {
        Ok(code) => code,
        Err(error) if is_broken_pipe(&error) => DONE,
        Err(error) => {
            let text = say(&error, &parsed.common);
            // With it, what reads the standard output need not read the standard error.
            if parsed.common.json {
                let _ = print(&pretty_error(&text));
            }
            ERROR
        }
    }
}

/// Whether the command has `--resume`, and writes what can be continued.
fn can_resume(matches: &clap::ArgMatches) -> bool {
    let flag = |given: &clap::ArgMatches, id| given.try_get_one::<bool>(id).ok().flatten().copied();
    let is_whole =
        |path: &PathBuf| is_stream(path) || matches!(Format::from_path(path), Ok(Format::Npz | Format::Onnx));
    let writes_whole = |given: &clap::ArgMatches| {
        let files = given.try_get_many::<PathBuf>(args::FILES).ok().flatten();
        files.is_some_and(|files| files.clone().any(is_whole))
    };
    let given = matches.subcommand().map(|(_, given)| given);
    given.is_some_and(|given| {
        flag(given, "resume").is_some() && flag(given, "dry_run") != Some(true) && !writes_whole(given)
    })
}

/// The option of a command that gives a field of a request; where it has none, that of the command that has.
fn option(command: &str, field: &str) -> String {
    let long = match field {
        "rules" => "rule",
        "copy_others" => "no_copy_others",
        field => field,
    };
    let long = long.replace('_', "-");
    let all = Args::command();
    let has = |command: &clap::Command| command.get_arguments().any(|arg| arg.get_long() == Some(&long));
    match all.get_subcommands().find(|it| has(it)) {
        Some(other) if !all.find_subcommand(command).is_some_and(has) => format!("`{} --{long}`", other.get_name()),
        _ => format!("--{long}"),
    }
}

/// A text of the library, with options in place of fields.
pub(crate) fn with_options(text: &Wording, common: &Common) -> String {
    text.with(|field| option(&common.command, field))
}

/// Prints an error, and returns its text.
fn say(error: &anyhow::Error, common: &Common) -> String {
    let wording = |error: &(dyn std::error::Error + 'static)| {
        let of_model = error.downcast_ref().map(Error::wording);
        let of_file = || error.downcast_ref().map(FileError::wording);
        let of_format = || error.downcast_ref().map(FormatError::wording);
        let text = of_model.or_else(of_file).or_else(of_format);
        text.map_or_else(|| error.to_string(), |text| with_options(&text, common))
    };
    let text = Lines(&error.chain().map(wording).collect::<Vec<_>>().join(": ")).to_string();
    // An error of the standard error itself cannot be reported.
    let _ = writeln!(io::stderr(), "onnx-cast: error: {text}");
    text
}

/// An error as JSON. No output was written.
fn pretty_error(text: &str) -> String {
    pretty(&serde_json::json!({ "error": text, "written": false })).unwrap_or_default()
}

/// With `--version`, what asks for more than the version.
const VERBOSE: &[&str] = &["-v", "--verbose", "-vV", "-Vv"];

/// When to colour, which the help asks before the arguments are parsed.
fn color_of(args: &[OsString]) -> clap::ColorChoice {
    let place = args.iter().position(|arg| arg.to_string_lossy().starts_with("--color"));
    let value = place.and_then(|place| match args[place].to_string_lossy().strip_prefix("--color=") {
        Some(value) => Some(value.to_owned()),
        None => args.get(place + 1).map(|value| value.to_string_lossy().into_owned()),
    });
    value.and_then(|value| value.parse().ok()).unwrap_or_default()
}

/// The version, and what decides how fast it is.
fn version() -> String {
    let names: Vec<&str> = backend::available().map(|backend| backend.name()).collect();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let abis = [
        (cfg!(target_env = "gnu"), "-gnu"),
        (cfg!(target_env = "musl"), "-musl"),
        (cfg!(target_env = "msvc"), "-msvc"),
    ];
    let abi = abis.iter().find(|(it, _)| *it).map_or("", |(_, abi)| abi);
    format!(
        "onnx-cast {}\nbackend: {} (of {})\nthreads: {threads}\nfeatures: {}\ntarget: {}-{}{abi}\n",
        env!("CARGO_PKG_VERSION"),
        Backend::best().name(),
        names.join(", "),
        features(),
        std::env::consts::ARCH,
        std::env::consts::OS,
    )
}

/// What the processor has of all that backends ask for.
fn features() -> String {
    #[cfg(target_arch = "x86_64")]
    let known = [
        ("avx2", is_x86_feature_detected!("avx2")),
        ("f16c", is_x86_feature_detected!("f16c")),
        ("fma", is_x86_feature_detected!("fma")),
        ("bmi2", is_x86_feature_detected!("bmi2")),
        ("avx512f", is_x86_feature_detected!("avx512f")),
        ("avx512bw", is_x86_feature_detected!("avx512bw")),
        ("avx512dq", is_x86_feature_detected!("avx512dq")),
        ("avx512vl", is_x86_feature_detected!("avx512vl")),
        ("avx512cd", is_x86_feature_detected!("avx512cd")),
        ("avx512vbmi", is_x86_feature_detected!("avx512vbmi")),
        ("avx512vbmi2", is_x86_feature_detected!("avx512vbmi2")),
    ];
    #[cfg(not(target_arch = "x86_64"))]
    let known = [("neon", cfg!(target_feature = "neon")), ("simd128", cfg!(target_feature = "simd128"))];
    known.iter().filter(|(_, there)| *there).map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

/// Help and version, which are no errors, or a mistake in the arguments, which is one like any other.
fn usage(error: &clap::Error, json: bool) -> u8 {
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
            // The arguments, which may be the names of files, are part of it.
            let text = Lines(&error.render().to_string()).to_string();
            let _ = write!(io::stderr(), "onnx-cast: {text}");
            if json {
                let _ = print(&pretty_error(text.trim_start_matches("error: ").trim_end()));
            }
            ERROR
        }
    }
}

/// Refuses what would do nothing of the options that every command takes. The others are limits, which hold everywhere.
fn check_common(Args { command, common }: &Args) -> Result<()> {
    ensure!(!(common.quiet && common.verbose), "--quiet and --verbose: one prints less, the other more (want one)");
    let prints_text = matches!(command, Command::Completions { .. } | Command::Man { .. });
    ensure!(!(common.json && prints_text), "--json: {} prints text, not data", common.command);
    Ok(())
}

fn dispatch(command: Command, common: &Common) -> Result<u8> {
    if let Some(threads) = common.threads {
        // The library's own threads, never more than there are processors: a thread more takes memory and gains
        // nothing. An error says that there are some already, as in tests.
        let most = std::thread::available_parallelism().map_or(1, usize::from);
        let _ = rayon::ThreadPoolBuilder::new().num_threads(threads.min(most)).build_global();
    }
    if common.verbose && !common.quiet {
        let _ = io::stderr().write_all(version().as_bytes());
    }
    match command {
        Command::Cast(args) => return convert::cast(&args, common),
        Command::BitCast(args) => return convert::bit_cast(&args, common),
        Command::Dequantize(args) => return convert::dequantize(&args, common),
        Command::Quantize(args) => return convert::quantize(&args, common),
        Command::Transcode(args) => return convert::transcode(&args, common),
        Command::Convert(args) => precision::convert(&args, common)?,
        Command::Record(args) => record::record(&args, common)?,
        Command::Fold(args) => models::fold(&args, common)?,
        Command::Upgrade(args) => models::upgrade(&args, common)?,
        Command::Run(args) => evaluate::run(&args, common)?,
        Command::Info(args) => inspect::info(&args, common)?,
        Command::Diff(args) => return inspect::diff(&args, common),
        Command::Check(args) => return inspect::check(&args, common),
        Command::Report(args) => report::report(&args, common)?,
        Command::Types => print(&if common.json { pretty(&types::json()?)? } else { types::text()? })?,
        Command::Explain(args) => explain(&args, common)?,
        Command::Bench(args) => bench::bench(&args, common)?,
        Command::Man { command } => man(command.as_deref())?,
        Command::Completions { shell } => print(&completions(shell))?,
    }
    Ok(DONE)
}

/// The script that completes the command in a shell.
fn completions(shell: Shell) -> String {
    const NAME: &str = "onnx-cast";
    // With a hyphen in the name, Bash's script calls each subcommand by two names and completes nothing behind it
    // (clap-rs/clap#6421). Under this name both agree, and the name of its function stays as it was.
    const BASH_NAME: &str = "onnx__cast";
    let name = if shell == Shell::Bash { BASH_NAME } else { NAME };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut args::command(), name, &mut script);
    let script = String::from_utf8_lossy(&script);
    // The command that is completed is the last word of each `complete`.
    let line = |line: &str| match line.strip_suffix(BASH_NAME).filter(|start| start.contains("complete -F ")) {
        Some(start) => format!("{start}{NAME}\n"),
        None => format!("{line}\n"),
    };
    script.lines().map(line).collect()
}

/// Prints a page of the manual.
fn man(command: Option<&str>) -> Result<()> {
    let mut all = args::command();
    // Gives the commands their names in full.
    all.build();
    let page = match command {
        None => clap_mangen::Man::new(all),
        Some(name) => {
            let found = all.find_subcommand(name).with_context(|| format!("no command `{name}`"))?;
            clap_mangen::Man::new(found.clone()).title(format!("onnx-cast-{name}"))
        }
    };
    let mut text = Vec::new();
    page.render(&mut text)?;
    Ok(print(&String::from_utf8_lossy(&text))?)
}

fn explain(args: &ExplainArgs, common: &Common) -> Result<()> {
    if let Some(request) = block_request(args)? {
        return explain_block(&request, args, common);
    }
    let ExplainArgs { value, from, to, scaling, attributes, all, html, force, .. } = args;
    let to = to.map(CandidateFormat::element);
    let scaling = scaling.scale.as_deref().map(|scale| explain::Scaling {
        scale,
        scale_type: scaling.scale_type,
        zero_point: scaling.zero_point.as_deref(),
        precision: scaling.precision,
    });
    let request = |to| explain::Request { value, from: *from, to, options: attributes.options(), scaling };
    let Some(to) = to.filter(|_| !all) else {
        let request = request(DataType::Float);
        if let Some(path) = html {
            write_page(path, &explain::page_of_all(&request)?, force.existing())?;
        }
        if is_silent(args, common) {
            return Ok(());
        }
        return Ok(print(&if common.json { pretty(&explain::all_json(&request)?)? } else { explain::all(&request)? })?);
    };
    let explanation = explain::explain(&request(to))?;
    if let Some(path) = html {
        write_page(path, &explain::page(&explanation)?, force.existing())?;
    }
    if is_silent(args, common) {
        return Ok(());
    }
    if common.json {
        return Ok(print(&pretty(&explain::json(&explanation)?)?)?);
    }
    // The drawing is for terminals with colours; other output stays plain text.
    if AutoStream::choice(&io::stdout()) != ColorChoice::Never {
        print(&explain::drawing(&explanation)?)?;
    }
    Ok(print(&explain::text(&explanation)?)?)
}

/// Whether the page is all that is wanted.
fn is_silent(args: &ExplainArgs, common: &Common) -> bool {
    common.quiet && args.html.is_some() && !common.json
}

/// What is asked of a block, where the target is a block format.
fn block_request(args: &ExplainArgs) -> Result<Option<BlockRequest<'_>>> {
    let ExplainArgs { value, others, from, to, scaling, block, attributes, .. } = args;
    let is_single = others.is_empty();
    let format = match to {
        Some(CandidateFormat::Block(format)) => *format,
        Some(CandidateFormat::Bare(_)) | None => {
            let is_for_blocks = block.scale_rule.is_some() || block.recipe.is_some() || block.global_scale.is_some();
            const BLOCKS: &str = "a block format, as --to mxfp4 or --to nvfp4";
            ensure!(is_single, "several values need {BLOCKS}");
            ensure!(!is_for_blocks, "--scale-rule, --recipe and --global-scale need {BLOCKS}");
            return Ok(None);
        }
        Some(other) => bail!("{other} has scales that depend on the tensor: --scale gives {} one", other.element()),
    };
    let ScalingArgs { scale, .. } = scaling;
    let is_plain = attributes.opset.is_none() && attributes.saturate().is_none() && attributes.round_mode.is_none();
    let is_cast = scale.is_some() || !is_plain;
    ensure!(!is_cast, "blocks of {format} have neither --scale nor the options of a cast");
    let values = iter::once(value).chain(others).map(String::as_str).collect();
    let &BlockArgs { scale_rule: rule, recipe, global_scale } = block;
    Ok(Some(BlockRequest { values, from: *from, format, rule, recipe, global_scale }))
}

fn explain_block(request: &BlockRequest<'_>, args: &ExplainArgs, common: &Common) -> Result<()> {
    let block = explain::explain_block(request)?;
    if let Some(path) = &args.html {
        write_page(path, &explain::block_page(&block)?, args.force.existing())?;
    }
    if is_silent(args, common) {
        return Ok(());
    }
    Ok(print(&if common.json { pretty(&explain::block_json(&block)?)? } else { explain::block_text(&block)? })?)
}

/// A page that is started before the work, so that a path that takes none is known then. It appears whole or not at
/// all.
struct Page(AtomicFile);

impl Page {
    fn start(path: &Path, existing: Existing) -> Result<Page> {
        Ok(Page(create_page(path, existing)?))
    }

    fn write(mut self, page: &str) -> Result<()> {
        let written = self.0.write_all(page.as_bytes());
        written.with_context(|| format!("{}: cannot write", PathText(self.0.path())))?;
        Ok(self.0.commit()?)
    }
}

fn write_page(path: &Path, page: &str, existing: Existing) -> Result<()> {
    Page::start(path, existing)?.write(page)
}

fn pretty(value: &serde_json::Value) -> Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}

fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Whether the reader of the output has closed it, as `head` does, which is not an error.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// The README's Rust code, compiled and run with the documentation's tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
