//! A sender and a transmitter share a queue. The example runs two kinds of queue: one behind a
//! mutex, for which both sides contend, and one of published chunks, without a lock.
//!
//! `cargo run --release -p forebay-studies --example send_queue` runs both. For each call site of
//! the lock it prints, as a kernel's lock profile does, how often the other side wanted the lock
//! during a hold (`cnt_hold`), and how often the lock was already held (`cnt_lock`).
//! `studies/README.md` has the background.

mod locked;
mod measure;
mod published;
mod report;
mod sites;
mod work;

use std::process::ExitCode;

use forebay_sync::observe;
use measure::{Broken, measure};
use sites::SITES;
use work::Plan;

const HELP: &str = "\
Compares a queue behind one mutex with a lock-free queue, between a sender and a transmitter.

Usage: send_queue [--messages N] [--rounds N] [--seed N] [--json]

  --messages N  number of messages in each run (default: 20000)
  --rounds N    number of timed runs of each queue (default: 7)
  --seed N      seed of the random sizes and bytes (default: 1)
  --json        print the results as one JSON object
  -h, --help    print this help
";

#[derive(Debug)]
struct Options {
    messages: usize,
    rounds: usize,
    seed: u64,
    is_json: bool,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--help" || argument == "-h") {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    let options = match parse(&arguments) {
        Ok(options) => options,
        Err(message) => {
            eprint!("send_queue: {message}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    match run(&options) {
        Ok(is_good) if is_good => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(Broken(message)) => {
            eprintln!("send_queue: {message}");
            ExitCode::FAILURE
        }
    }
}

fn parse(arguments: &[String]) -> Result<Options, String> {
    let mut options = Options { messages: 20_000, rounds: 7, seed: 1, is_json: false };
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let mut number = || {
            let value = rest.next().ok_or_else(|| format!("{argument} needs a number"))?;
            let number: u64 =
                value.parse().map_err(|_| format!("{argument} needs a number, not {value}"))?;
            Ok::<u64, String>(number)
        };
        match argument.as_str() {
            "--messages" => options.messages = number()?.clamp(1, 100_000_000) as usize,
            "--rounds" => options.rounds = number()?.clamp(1, 1_000) as usize,
            "--seed" => options.seed = number()?,
            "--json" => options.is_json = true,
            _ => return Err(format!("unknown argument {argument}; see the usage below")),
        }
    }
    Ok(options)
}

/// Runs both queues and prints the results. Returns whether both queues delivered the sent
/// messages.
fn run(options: &Options) -> Result<bool, Broken> {
    observe::set(&SITES).map_err(|error| Broken(error.to_string()))?;
    let plan = Plan::new(options.seed, options.messages);
    let forms = measure(&plan, options.rounds)?;
    if options.is_json {
        println!("{}", report::json(&forms));
    } else {
        print!("{}", report::Table(&forms));
    }
    Ok(forms.iter().all(|form| form.sent == form.arrived) && forms[0].arrived == forms[1].arrived)
}
