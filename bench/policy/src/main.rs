//! Measures how many hits are lost by evicting whole segments. It compares the store's decisions
//! with policies that evict single objects, over traces that are made from a seed.
//!
//! bench/policy/README.md has the results, and docs/why/eviction.md the decisions. No figure
//! depends on the speed of the machine.

mod policies;
mod report;
mod simulate;
mod study;
mod sweep;
mod traces;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use serde::Serialize;

use policies::segments::Config;
use policies::{Entry, REFERENCE, SINGLE, entry};
use study::{OURS, Row, Study};
use sweep::{SWEEPS, Sweep};
use traces::{Draw, SPECS, Spec, Trace};

const EXAMPLES: &str = "\
Examples:
  cargo run --release -p forebay-policy               all traces, all policies
  policy zipf burst                                   traces whose names contain a word
  policy --sweep keep                                 one parameter of the segments, varied
  policy --sweep all --requests 1000000               all parameters, with shorter traces
  policy --trace access.txt --budgets 0.1,1,10        a trace from a file: lines of KEY BYTES
  policy --json out/policy.json                       also writes every figure into a file
  policy --list                                       traces, policies and parameters

The tables go to standard output, in Markdown. The same arguments give the same figures.";

/// Compares the hit ratios of evicting whole segments and of evicting single objects
#[derive(Parser)]
#[command(name = "policy", after_help = EXAMPLES)]
struct Cli {
    /// Only traces whose names contain one of these words
    names: Vec<String>,
    /// Varies this parameter of the segments; "all" varies each in turn
    #[arg(long, value_name = "NAME")]
    sweep: Option<String>,
    /// Reads a trace from this file instead of making traces
    #[arg(long, value_name = "FILE", conflicts_with = "names")]
    trace: Option<PathBuf>,
    /// Budgets, as percentages of a trace's footprint
    #[arg(long, value_delimiter = ',', default_values_t = [1.0, 5.0])]
    budgets: Vec<f64>,
    /// The number of requests of a made trace
    #[arg(long, default_value_t = 3_000_000, value_parser = clap::value_parser!(u32).range(1000..))]
    requests: u32,
    /// The percentage of the requests before counting begins
    #[arg(long, default_value_t = 33, value_parser = clap::value_parser!(u32).range(0..100))]
    warm: u32,
    /// The seed of the traces
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Writes every figure into this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Lists traces, policies and parameters
    #[arg(long)]
    list: bool,
}

/// The results, as they are written into the file.
#[derive(Serialize)]
struct Record<'a> {
    seed: u64,
    requests: u32,
    warm_percent: u32,
    rows: &'a [Row],
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("policy: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<(), String> {
    if cli.list {
        list();
        return Ok(());
    }
    let sweeps = sweeps(cli)?;
    let single: Vec<&Entry> = match &sweeps[..] {
        [] => SINGLE.iter().collect(),
        _ => entry(REFERENCE).into_iter().collect(),
    };
    let swept = sweeps.iter().flat_map(|sweep| sweep.forms());
    let forms: Vec<(String, Config)> =
        [(OURS.into(), Config::STORE)].into_iter().chain(swept).collect();
    let study = Study { budget_percents: cli.budgets.clone(), warm_percent: cli.warm as usize };
    let rows = rows(cli, |trace| study.rows(trace, &single, &forms))?;
    if sweeps.is_empty() {
        println!("{}\n{}", report::hit_ratios(&rows), report::costs(&rows));
    }
    for sweep in sweeps {
        let names: Vec<String> = sweep.forms().into_iter().map(|(name, _)| name).collect();
        println!("{}: {}\n\n{}", sweep.name, sweep.about, report::sweep(&rows, &names));
    }
    match &cli.json {
        Some(path) => write(cli, &rows, path),
        None => Ok(()),
    }
}

fn sweeps(cli: &Cli) -> Result<Vec<&'static Sweep>, String> {
    let Some(name) = &cli.sweep else {
        return Ok(Vec::new());
    };
    let sweeps: Vec<&Sweep> =
        SWEEPS.iter().filter(|sweep| name == "all" || sweep.name == name).collect();
    match sweeps.is_empty() {
        true => Err(format!("no parameter is called {name}; --list shows all parameters")),
        false => Ok(sweeps),
    }
}

/// Returns the rows of all traces. It handles one trace after another, because each takes much
/// memory.
fn rows(cli: &Cli, of_trace: impl Fn(&Trace) -> Vec<Row>) -> Result<Vec<Row>, String> {
    if let Some(path) = &cli.trace {
        return Ok(of_trace(&traces::read(path)?));
    }
    let is_asked = |spec: &&Spec| {
        cli.names.is_empty() || cli.names.iter().any(|word| spec.name.contains(word.as_str()))
    };
    let specs: Vec<&Spec> = SPECS.iter().filter(is_asked).collect();
    if specs.is_empty() {
        return Err("no trace has a name that contains one of these words; --list shows all".into());
    }
    let draw = Draw { requests: cli.requests, seed: cli.seed };
    let mut rows = Vec::new();
    for (index, spec) in specs.iter().enumerate() {
        eprintln!("trace {} of {}: {}", index + 1, specs.len(), spec.name);
        rows.extend(of_trace(&spec.make(&draw)));
    }
    Ok(rows)
}

fn write(cli: &Cli, rows: &[Row], path: &Path) -> Result<(), String> {
    let Cli { seed, requests, warm, .. } = *cli;
    let record = Record { seed, requests, warm_percent: warm, rows };
    let text = serde_json::to_string_pretty(&record).map_err(|error| error.to_string())?;
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

fn list() {
    println!("Traces:");
    SPECS.iter().for_each(|spec| println!("  {:<18}{}", spec.name, spec.about));
    println!("Policies:");
    SINGLE.iter().for_each(|entry| println!("  {:<18}{}", entry.name, entry.about));
    println!("  {OURS:<18}the store's policy: S3-FIFO on whole segments");
    println!("Parameters of the segments:");
    SWEEPS.iter().for_each(|sweep| println!("  {:<18}{}", sweep.name, sweep.about));
}
