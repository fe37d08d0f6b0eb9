//! Counts the project's read paths, and the well-known ones beside them, and checks the counts.

mod caches;
mod report;
mod workloads;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use forebay_conflict::{Plan, Refused, count, require_instrumented};

use report::Row;
use workloads::{CACHES, WORKLOADS, Workload};

const EXAMPLES: &str = "\
Examples:
  bench/conflict/run                          all operations, 48 threads
  bench/conflict/run RwLock arc-swap          those whose names contain a word
  bench/conflict/run --lines bravo            and which instructions write the lines in conflict
  bench/conflict/run --json out/conflict.json

Ends with 1 if a count is not what it must be, with 2 if nothing could be counted.";

/// Counts what operations do to cache lines that several threads touch
#[derive(Parser)]
#[command(name = "bench/conflict/run", after_help = EXAMPLES)]
struct Cli {
    /// Only operations whose names contain one of these
    names: Vec<String>,
    /// Threads that do the operation at once, at most 64
    #[arg(long, default_value_t = 48)]
    threads: usize,
    /// Counted operations of each thread
    #[arg(long, default_value_t = 1000)]
    operations: u32,
    /// Writes the counts into this file too
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Shows the lines in conflict, those with most writes first
    #[arg(long)]
    lines: bool,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("conflict: {error}");
            ExitCode::from(2)
        }
    }
}

/// Is every count what it must be?
fn run(cli: &Cli) -> Result<bool, Box<dyn std::error::Error>> {
    require_instrumented()?;
    let is_asked = |workload: &&Workload| {
        let name = workload.name.to_lowercase();
        cli.names.is_empty() || cli.names.iter().any(|word| name.contains(&word.to_lowercase()))
    };
    let rows = WORKLOADS.iter().chain(CACHES).filter(is_asked).map(|workload| row(workload, cli));
    let rows: Vec<Row> = rows.collect::<Result<_, _>>()?;
    if rows.is_empty() {
        return Err("no operation has such a name".into());
    }
    print!("{}", report::table(&rows, cli.threads));
    for row in rows.iter().filter(|row| !row.is_met) {
        println!("\nWRONG: {} must be {}", row.name, row.expected);
    }
    if let Some(path) = &cli.json {
        let text = serde_json::to_string_pretty(&rows)?;
        std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(rows.iter().all(|row| row.is_met))
}

fn row(workload: &Workload, cli: &Cli) -> Result<Row, Refused> {
    let one = Plan { threads: 1, operations: cli.operations };
    let alone = count(one, &*(workload.operation)())?;
    let many = Plan { threads: cli.threads, ..one };
    let together = count(many, &*(workload.operation)())?;
    let row = Row::new(workload, alone, together);
    if cli.lines || !row.is_met {
        show_lines(&row);
    }
    Ok(row)
}

/// The lines in conflict, and how to find out what wrote them.
fn show_lines(row: &Row) {
    let program = std::env::current_exe().unwrap_or_default();
    eprintln!("{}: {} lines in conflict", row.name, row.together.lines);
    for line in &row.together.busiest {
        eprintln!("  {line}\n    addr2line -Cfipe {} {:#x}", program.display(), line.writer);
    }
}
