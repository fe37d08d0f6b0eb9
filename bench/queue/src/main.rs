//! Measures the same lookups between two processes in two ways: as requests over a message queue,
//! and by reading a shared map.
//!
//! The answering process reads the same map, so that only the transport differs.

#[path = "../../ordmap/src/data.rs"]
#[allow(dead_code, reason = "the benchmark of maps uses the other items")]
mod data;
mod mq;
mod report;
mod system;
mod table;
mod ways;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use serde::Serialize;

use data::Data;
use report::Sample;
use table::Table;
use ways::{Place, Role, Way};

const EXAMPLES: &str = "\
Examples:
  queue                            1,000,000 keys, 9 rounds
  queue --quick                    a trial run; its figures mean nothing
  queue --json out/queue.json      every sample, too

The table goes to standard output, in Markdown. The map is in /dev/shm, or in --dir.";

/// Measures queries between two processes, by messages and by shared memory
#[derive(Parser)]
#[command(name = "queue", after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    part: Option<Part>,
    /// Keys in the map
    #[arg(long, default_value_t = 1_000_000)]
    keys: usize,
    /// Bytes of a value
    #[arg(long, default_value_t = 100)]
    value_bytes: usize,
    /// Samples of each figure
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// Queries of a sample
    #[arg(long, default_value_t = 100_000)]
    queries: usize,
    /// Few keys, queries and rounds
    #[arg(long)]
    quick: bool,
    /// Folder for the map, on a file system in memory
    #[arg(long, default_value = "/dev/shm")]
    dir: PathBuf,
    /// Writes every sample into this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Part {
    /// The process that answers, which the first process starts
    #[command(hide = true)]
    Answer(Role),
}

/// All measurements, as they are written into the file.
#[derive(Serialize)]
struct Record {
    keys: usize,
    value_bytes: usize,
    rounds: usize,
    queries: usize,
    samples: Vec<Sample>,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match &cli.part {
        Some(Part::Answer(role)) => ways::answer(role),
        None => run(&cli),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("queue: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<(), String> {
    let (keys, rounds, queries) =
        if cli.quick { (20_000, 3, 2000) } else { (cli.keys, cli.rounds, cli.queries) };
    let data = Data::new(keys, cli.value_bytes, 1);
    let folder = cli.dir.join(format!("forebay-bench-queue-{}", std::process::id()));
    let table = Table::create(&folder.join("map"), &data);
    let measured = table.and_then(|table| measure(&table, &data, &folder, (rounds, queries)));
    // The folder is removed even after a failure.
    let _ = fs::remove_dir_all(&folder);
    let samples = measured?;
    print!("{}", report::markdown(&samples, &data));
    let Some(path) = &cli.json else { return Ok(()) };
    let value_bytes = cli.value_bytes;
    write(&Record { keys, value_bytes, rounds, queries, samples }, path)
}

/// Each round sends the same keys over all transports, in a new random order.
fn measure(
    table: &Table,
    data: &Data,
    folder: &Path,
    (rounds, queries): (usize, usize),
) -> Result<Vec<Sample>, String> {
    let processors = system::processors();
    let ways = ways::all(&processors);
    let mut samples = Vec::new();
    let mut random = fastrand::Rng::with_seed(1);
    // The first round warms the caches and is not counted.
    for round in 0..=rounds {
        eprintln!("round {round} of {rounds}");
        let asked = data.draw(queries, round as u64);
        let expected: u64 = asked.iter().map(|asked| u64::from(asked.number) + 1).sum();
        let mut order: Vec<(Way, Place)> = ways.clone();
        random.shuffle(&mut order);
        for (way, place) in order {
            let theirs = processors[usize::from(place == Place::TwoProcessors)];
            let at = (processors[0], theirs);
            let (cost, sum) = ways::ask(way, at, table, (folder, &asked))?;
            if sum != expected {
                return Err(format!("{way:?} gives other answers than the first transport"));
            }
            if round > 0 {
                samples.push(Sample { way, place, cost: cost.each(queries) });
            }
        }
    }
    Ok(samples)
}

fn write(record: &Record, path: &Path) -> Result<(), String> {
    let text = serde_json::to_string_pretty(record).map_err(|error| error.to_string())?;
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}
