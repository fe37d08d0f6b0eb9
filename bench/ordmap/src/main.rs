//! Measures an ordered map in shared memory, LMDB (the other ordered map that processes share), and
//! ordered maps of a single process.
//!
//! All engines hold the same keys and values. Each round gives every engine the same work, and the
//! results are compared.

mod child;
mod data;
mod engines;
mod processes;
mod report;
mod rounds;
mod stopped;
mod time;
mod writers;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use serde::Serialize;

use child::Role;
use data::Data;
use report::Sample;
use rounds::Amounts;

const EXAMPLES: &str = "\
Examples:
  ordmap                              1,000,000 keys, values of 8 and of 100 bytes, 9 rounds
  ordmap --quick                      a trial run: 20,000 keys, 3 rounds; its figures mean nothing
  ordmap --json out/ordmap.json       every sample, too
  taskset -c 0 ordmap                 all processes on one processor

The tables go to standard output, in Markdown. The engines' files are in /dev/shm, or in --dir.";

/// Measures ordered maps side by side
#[derive(Parser)]
#[command(name = "ordmap", after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    part: Option<Part>,
    /// The number of keys in each map
    #[arg(long, default_value_t = 1_000_000)]
    keys: usize,
    /// Bytes of a value
    #[arg(long, value_delimiter = ',', default_value = "8,100")]
    value_bytes: Vec<usize>,
    /// Samples of each figure
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// Uses few keys and rounds, for a trial run
    #[arg(long)]
    quick: bool,
    /// Folder for the maps, on a file system in memory
    #[arg(long, default_value = "/dev/shm")]
    dir: PathBuf,
    /// Repeats the draws of an earlier run
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Writes every sample into this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Part {
    /// The second process of a figure with two processes; the first process starts it
    #[command(hide = true)]
    Child(Role),
}

/// All measurements, as written into the file.
#[derive(Serialize)]
struct Record {
    keys: usize,
    rounds: usize,
    seed: u64,
    samples: Vec<Sample>,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match &cli.part {
        Some(Part::Child(role)) => child::run(role),
        None => run(&cli),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ordmap: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<(), String> {
    let (keys, rounds) = if cli.quick { (20_000, 3) } else { (cli.keys, cli.rounds) };
    let amounts = if cli.quick { Amounts::QUICK } else { Amounts::FULL };
    let mut samples = Vec::new();
    for value_bytes in &cli.value_bytes {
        let data = Data::new(keys, *value_bytes, cli.seed);
        let dir = Folder::new(&cli.dir)?;
        let mut engines = engines::filled(&data, &dir.0, &mut samples);
        rounds::measure(&mut engines, &data, amounts, rounds, &mut samples);
        processes::measure(&mut engines, &data, amounts, rounds, (&dir.0, &mut samples))?;
        stopped::measure(&mut engines, &data, amounts, &dir.0, &mut samples)?;
        writers::measure(&data, amounts, rounds, &dir.0, &mut samples)?;
        rounds::compare_all(&mut engines, &data);
    }
    print!("{}", report::markdown(&samples, keys));
    let Some(path) = &cli.json else { return Ok(()) };
    write(&Record { keys, rounds, seed: cli.seed, samples }, path)
}

fn write(record: &Record, path: &Path) -> Result<(), String> {
    let text = serde_json::to_string_pretty(record).map_err(|error| error.to_string())?;
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

/// A folder that belongs to this user alone, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(inside: &Path) -> Result<Folder, String> {
        use std::os::unix::fs::DirBuilderExt;
        let path = inside.join(format!("forebay-bench-ordmap-{}", std::process::id()));
        let made = fs::DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // The folder is removed, because the next folder of this process has the same name.
        let _ = fs::remove_dir_all(&self.0);
    }
}
