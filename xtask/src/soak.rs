//! Randomised round trips in a loop, for hours: pairs, versions, attributes, shapes, lengths, places in memory,
//! backends, threads, texts and files are drawn at random, and every result is compared with the exact oracle, the
//! scalar cast, or what it was made from.
//!
//! A round depends on the seed and its number alone, so that one that fails can be had again. What was compared is
//! counted, and the memory of the process watched.

mod counts;
mod draw;
mod files;
mod memory;
mod numbers;
mod texts;

use crate::provenance::{commit, date, processor};
use crate::share::share;
use clap::{Args, value_parser};
use counts::Counts;
use memory::Memory;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use testkit::generators::Rng;

/// Cast random pairs, shapes, texts and files for hours, and compare each result
///
/// Pairs, versions, attributes, shapes, lengths, addresses, backends, threads, texts and files are drawn at random.
/// Each result is compared with the exact oracle, the scalar cast, or the values it was made from. The first difference
/// is printed with the command that repeats its round, and ends the run with exit code 1. So does memory that has
/// grown.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Stop after N minutes
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = value_parser!(u64).range(..=1 << 20))]
    minutes: u64,
    /// Stop after N rounds instead
    #[arg(long, value_name = "N", conflicts_with = "minutes")]
    rounds: Option<u64>,
    /// The number of the first round
    #[arg(long, value_name = "N", default_value_t = 0)]
    first: u64,
    /// The seed of the random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// The number of threads
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u64).range(1..=1 << 10))]
    threads: u64,
    /// Append the result to this Markdown file
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
}

/// What a thread keeps from round to round.
struct State {
    /// More threads than most machines have processors, so that tensors are cut in many ways; those of all states.
    pool: Arc<rayon::ThreadPool>,
    folder: tempfile::TempDir,
}

impl State {
    fn several(count: usize) -> Vec<State> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(draw::MOST_THREADS).build();
        let pool = Arc::new(pool.expect("threads to cast with"));
        let folder = || tempfile::tempdir().expect("a folder for temporary files");
        (0..count).map(|_| State { pool: Arc::clone(&pool), folder: folder() }).collect()
    }
}

/// The round of a number: what it compared, or what was not as it should be.
fn round(seed: u64, number: u64, state: &State) -> Result<Counts, String> {
    let mut rng = Rng::new(seed ^ Rng::new(number).next_u64());
    let rng = &mut rng;
    let mut counts = Counts { rounds: 1, ..Counts::default() };
    let done = match rng.below(100) {
        0..45 => numbers::short(rng, state, &mut counts),
        45..47 => numbers::long(rng, state, &mut counts),
        47..65 => numbers::there_and_back(rng, &mut counts),
        65..80 => texts::round(rng, &mut counts),
        80..92 => files::one(rng, state, &mut counts),
        _ => files::several(rng, state, &mut counts),
    };
    done.map(|()| counts)
}

/// Rounds until the time is up, or as many as asked for.
pub(crate) fn run(options: &Options) -> ExitCode {
    /// Rounds between two looks at the clock.
    const BATCH: u64 = 1 << 7;
    let begun = Instant::now();
    let (duration, threads) = (Duration::from_secs(60 * options.minutes), options.threads as usize);
    let total = Mutex::new(Counts::default());
    let free = Mutex::new(State::several(threads));
    let mut memory = Memory::new();
    let mut next = options.first;
    let end = options.rounds.map(|rounds| options.first.saturating_add(rounds));
    loop {
        let pieces = end.map_or(BATCH, |end| BATCH.min(end - next));
        let state = || free.lock().expect("no thread panics here").pop().expect("a state for each thread");
        let done = share(
            threads,
            pieces,
            || Lent { free: &free, state: Some(state()) },
            |lent, piece| {
                let number = next + piece;
                let counts = round(options.seed, number, lent.state()).map_err(|fault| (number, fault))?;
                total.lock().expect("no thread panics here").add(&counts);
                Ok(())
            },
        );
        let seconds = begun.elapsed().as_secs_f64();
        if let Err((number, fault)) = done {
            println!("round {number}: {fault}");
            println!("again: cargo xtask soak --seed {} --first {number} --rounds 1", options.seed);
            return ExitCode::FAILURE;
        }
        next += pieces;
        let total = total.lock().expect("no thread panics here");
        if memory.look(begun.elapsed()) {
            println!("{:.0} minutes: {} MB; {total}", seconds / 60.0, memory.now() >> 20);
        }
        if end.map_or(begun.elapsed() >= duration, |end| next >= end) {
            break;
        }
    }
    let total = total.into_inner().expect("no thread panics here");
    println!("no difference; {total}; {memory}");
    if let Err(grown) = memory.check() {
        println!("{grown}");
        return ExitCode::FAILURE;
    }
    if let Some(path) = &options.record
        && let Err(error) = record(path, options, begun.elapsed(), &total, &memory)
    {
        eprintln!("xtask: {}: {error}", path.display());
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// A state while a thread has it.
struct Lent<'a> {
    free: &'a Mutex<Vec<State>>,
    state: Option<State>,
}

impl Lent<'_> {
    fn state(&self) -> &State {
        self.state.as_ref().expect("it is given back only when this ends")
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        if let (Ok(mut free), Some(state)) = (self.free.lock(), self.state.take()) {
            free.push(state);
        }
    }
}

fn record(
    path: &PathBuf,
    options: &Options,
    time: Duration,
    total: &Counts,
    memory: &Memory,
) -> Result<(), std::io::Error> {
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    write!(
        file,
        "\n`cargo xtask soak --seed {}`, {}, {:.0} minutes, {} on {}{}: no difference; {total}; {memory}.\n",
        options.seed,
        date(),
        time.as_secs_f64() / 60.0,
        if options.threads == 1 { "1 thread".to_owned() } else { format!("{} threads", options.threads) },
        processor(),
        commit().map_or(String::new(), |commit| format!("; at commit {commit}")),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn rounds_find_nothing_and_depend_on_their_number_alone() {
        let state = &State::several(1)[0];
        let counts = |number| round(7, number, state).unwrap_or_else(|fault| panic!("round {number}: {fault}"));
        let first: Vec<Counts> = (0..40).map(counts).collect();
        let again: Vec<Counts> = (0..40).map(counts).collect();
        assert_eq!(first, again);
        let mut total = Counts::default();
        first.iter().for_each(|counts| total.add(counts));
        assert!(total.elements > 10_000 && total.files > 0 && total.texts > 0 && total.returned > 0, "{total}");
    }

    #[test]
    fn options_are_read() {
        #[derive(Debug, Parser)]
        #[command(no_binary_name = true)]
        struct Line {
            #[command(flatten)]
            options: Options,
        }
        let parse = |line: &str| Line::try_parse_from(line.split_whitespace()).map(|line| line.options);
        let options = parse("--minutes 240 --seed 5 --threads 2 --first 9").expect("good");
        assert_eq!((options.minutes, options.seed, options.threads), (240, 5, 2));
        assert_eq!((options.first, options.rounds), (9, None));
        assert_eq!(parse("--rounds 3").expect("good").rounds, Some(3));
        for (line, words) in [
            ("--minutes", "--minutes"),
            ("--seed x", "--seed"),
            ("--fast 1", "--fast"),
            ("--threads 0", "--threads"),
            ("--minutes 1 --rounds 1", "--rounds"),
        ] {
            let error = parse(line).expect_err(line).to_string();
            assert!(error.contains(words), "{line}: {error}");
        }
    }
}
