//! Counts the read paths of the project and of well-known structures, and checks the counts.

mod caches;
mod flow;
mod ordered;
mod report;
mod workloads;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use forebay_conflict::{Counts, Plan, Refused, count, require_instrumented};
use mimalloc::MiMalloc;

use flow::FLOWS;
use report::Row;
use workloads::{CACHES, Expected, ORDERED, WORKLOADS};

/// The server's allocator: each thread allocates from pages of its own.
#[global_allocator]
static HEAP: MiMalloc = MiMalloc;

const EXAMPLES: &str = "\
Examples:
  bench/conflict/run                          all operations, 48 threads
  bench/conflict/run RwLock arc-swap          operations whose names contain a word
  bench/conflict/run --lines bravo            also shows instructions that write such lines
  bench/conflict/run --json out/conflict.json

Exit code: 1 if a count is wrong, 2 if nothing could be counted.";

/// Counts the accesses of operations to cache lines that several threads touch
#[derive(Parser)]
#[command(name = "bench/conflict/run", after_help = EXAMPLES)]
struct Cli {
    /// Only operations whose names contain one of these words
    names: Vec<String>,
    /// Threads that run the operation at once, at most 64
    #[arg(long, default_value_t = 48)]
    threads: usize,
    /// Counted operations of each thread
    #[arg(long, default_value_t = 1000)]
    operations: u32,
    /// Also writes the counts into this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Shows the lines in conflict, those with the most writes first
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

/// Whether every count is as expected.
fn run(cli: &Cli) -> Result<bool, Box<dyn std::error::Error>> {
    require_instrumented()?;
    let mut rows: Vec<Row> = Vec::new();
    let workloads = WORKLOADS.iter().chain(CACHES).chain(ORDERED);
    for workload in workloads.filter(|workload| is_asked(workload.name, cli)) {
        let counted = |plan| count(plan, &*(workload.operation)());
        rows.push(row(workload.name, workload.expected, &counted, cli)?);
    }
    for flow in FLOWS.iter().filter(|flow| is_asked(flow.name, cli)) {
        rows.push(row(flow.name, flow.expected, &|plan| flow.count(plan), cli)?);
    }
    if rows.is_empty() {
        return Err("no operation has a name that contains one of these words".into());
    }
    print!("{}", report::table(&rows, cli.threads));
    for row in rows.iter().filter(|row| !row.is_met) {
        println!("\nWRONG: the count of \"{}\" must be {}", row.name, row.expected);
    }
    if let Some(path) = &cli.json {
        let text = serde_json::to_string_pretty(&rows)?;
        std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(rows.iter().all(|row| row.is_met))
}

fn is_asked(name: &str, cli: &Cli) -> bool {
    let name = name.to_lowercase();
    cli.names.is_empty() || cli.names.iter().any(|word| name.contains(&word.to_lowercase()))
}

type Counting<'a> = &'a dyn Fn(Plan) -> Result<Counts, Refused>;

fn row(
    name: &'static str,
    expected: Expected,
    counting: Counting<'_>,
    cli: &Cli,
) -> Result<Row, Refused> {
    let one = Plan { threads: 1, operations: cli.operations };
    let alone = counting(one)?;
    let together = counting(Plan { threads: cli.threads, ..one })?;
    let row = Row::new(name, expected, alone, together);
    if cli.lines || !row.is_met {
        show_lines(&row);
    }
    Ok(row)
}

/// Prints the lines in conflict, and the command that finds the code that wrote each.
fn show_lines(row: &Row) {
    let program = std::env::current_exe().unwrap_or_default();
    eprintln!("{}: {} lines in conflict", row.name, row.together.lines);
    for line in &row.together.busiest {
        eprintln!("  {line}\n    addr2line -Cfipe {} {:#x}", program.display(), line.writer);
    }
}
