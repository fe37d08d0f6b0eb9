//! Compares reader-writer locks by the cost of reading when many threads read.
//!
//! All figures are taken in rounds, each in a new random order, so that a slow phase of the machine
//! affects all locks. readers/README.md explains the figures.

mod clock;
mod completion;
mod locks;
mod report;
mod revocation;
mod row;
mod samples;
mod uncontended;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread::available_parallelism;

use clap::Parser;
use serde::Serialize;

use samples::{Case, Samples, cases};

const EXAMPLES: &str = "\
Examples:
  cargo run --release -p forebay-readers                  all locks except ck_rwlock
  cargo run --release -p forebay-readers --features ck    with ck_rwlock: apt-get install libck-dev
  readers Bravo arc-swap --threads-max 8                  locks whose names contain a word
  readers --rounds 3                                      a quick trial
  readers --json out/readers.json                         every sample, for the chart

The tables go to standard output, in Markdown. bench/readers.py writes the page and the chart.";

/// Measures what reading costs when many threads read
#[derive(Parser)]
#[command(name = "readers", after_help = EXAMPLES)]
struct Cli {
    /// Only locks whose names contain one of these words
    locks: Vec<String>,
    /// Samples of each figure
    #[arg(long, default_value_t = 21, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Operations of each thread
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    operations: u32,
    /// Measures on 1, 2, 4, ... threads, up to this number
    #[arg(long, default_value_t = 64)]
    threads_max: usize,
    /// Repeats the random order of an earlier run
    #[arg(long)]
    seed: Option<u64>,
    /// Writes every sample into this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The results, as they are written into the file.
#[derive(Serialize)]
struct Record<'a> {
    seed: u64,
    rounds: u32,
    operations: u32,
    /// The number of processors. More threads than that take turns.
    processors: usize,
    samples: &'a [Samples],
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("readers: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<(), String> {
    let cases = cases(&cli.locks, cli.operations, cli.threads_max);
    if cases.is_empty() {
        return Err("no lock has a name that contains one of these words".into());
    }
    let seed = cli.seed.unwrap_or_else(|| fastrand::u64(..));
    let samples = measure(&cases, cli.rounds, seed);
    print!("{}", report::markdown(&samples, cli.operations));
    let Some(path) = &cli.json else {
        return Ok(());
    };
    let processors = available_parallelism().map_or(1, usize::from);
    let Cli { rounds, operations, .. } = *cli;
    write(&Record { seed, rounds, operations, processors, samples: &samples }, path)
}

/// Takes one sample of each case in each round.
fn measure(cases: &[Case], rounds: u32, seed: u64) -> Vec<Samples> {
    let empty = |case: &Case| Samples { lock: case.lock, figure: case.figure, samples: vec![] };
    let mut all: Vec<Samples> = cases.iter().map(empty).collect();
    let mut order: Vec<usize> = (0..cases.len()).collect();
    let mut random = fastrand::Rng::with_seed(seed);
    eprintln!("measuring {} figures in {rounds} rounds, seed {seed}", cases.len());
    let begin = clock::now();
    for round in 1..=rounds {
        random.shuffle(&mut order);
        for &case in &order {
            all[case].samples.push((cases[case].measure)());
        }
        let taken = clock::now().duration_since(begin);
        let left = taken / round * (rounds - round);
        eprintln!("round {round} done: {} s taken, {} s left", taken.as_secs(), left.as_secs());
    }
    all
}

fn write(record: &Record<'_>, path: &Path) -> Result<(), String> {
    let text = serde_json::to_string_pretty(record).map_err(|error| error.to_string())?;
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}
