//! Randomised round trips in a loop, for hours: pairs, versions, attributes, shapes, lengths, addresses, backends,
//! threads, strings and files are drawn at random, and every result is compared with the exact oracle, the scalar cast,
//! or its source.
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
use counts::Counts;
use memory::Memory;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use testkit::generators::Rng;

/// What is asked for.
pub(crate) struct Options {
    duration: Duration,
    /// The rounds to do, in place of a time.
    rounds: Option<u64>,
    first: u64,
    seed: u64,
    threads: usize,
    record: Option<PathBuf>,
}

impl Options {
    /// Reads the arguments.
    pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        let mut options = Options { duration: minutes(60), rounds: None, first: 0, seed: 1, threads: 1, record: None };
        while let Some(name) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
            let number = || value.parse::<u64>().map_err(|_| format!("{name} {value}: want a whole number"));
            match name.as_str() {
                "--minutes" => options.duration = minutes(number()?.min(1 << 20)),
                "--rounds" => options.rounds = Some(number()?),
                "--first" => options.first = number()?,
                "--seed" => options.seed = number()?,
                "--threads" => options.threads = number()?.clamp(1, 1 << 10) as usize,
                "--record" => options.record = Some(value.into()),
                other => return Err(format!("`{other}` is not an option")),
            }
        }
        Ok(options)
    }
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
    let total = Mutex::new(Counts::default());
    let free = Mutex::new(State::several(options.threads));
    let mut memory = Memory::new();
    let mut next = options.first;
    let end = options.rounds.map(|rounds| options.first.saturating_add(rounds));
    loop {
        let pieces = end.map_or(BATCH, |end| BATCH.min(end - next));
        let state = || free.lock().expect("no thread panics here").pop().expect("a state for each thread");
        let done = share(
            options.threads,
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
        if end.map_or(begun.elapsed() >= options.duration, |end| next >= end) {
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
        let parse = |line: &str| Options::parse(line.split_whitespace().map(str::to_owned));
        let options = parse("--minutes 240 --seed 5 --threads 2 --first 9 --rounds 3").expect("good");
        assert_eq!((options.duration.as_secs(), options.seed, options.threads), (14_400, 5, 2));
        assert_eq!((options.first, options.rounds), (9, Some(3)));
        for (line, word) in [("--minutes", "--minutes"), ("--seed x", "--seed x"), ("--fast 1", "--fast")] {
            let error = parse(line).err().unwrap_or_default();
            assert!(error.contains(word), "{line}: {error}");
        }
    }
}
