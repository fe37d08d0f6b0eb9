//! The command `forebay`: `serve`, `try`, and the commands that inspect and control a running
//! server.
//!
//! A custom build adds filters that header rules can run, and otherwise is the same program:
//!
//! ```no_run
//! use forebay_rules::filter::Filters;
//!
//! fn main() -> std::process::ExitCode {
//!     forebay::run(&Filters::default())
//! }
//! ```
#![forbid(unsafe_code)]

mod admin_client;
mod bars;
mod cli;
mod commands;
mod example;
mod logging;
mod running_servers;
mod runtime_files;
mod screen;
mod stdout;
mod symbols;

use std::process::ExitCode;

use forebay_rules::filter::Filters;
use forebay_server::event_queue;
use mimalloc::MiMalloc;

/// The allocator of the program. It halves the cost of allocations for requests that go to the
/// origin; a hit allocates nothing.
#[global_allocator]
static HEAP: MiMalloc = MiMalloc;

/// Runs the command line of this process; header rules may run these filters.
pub fn run(filters: &Filters) -> ExitCode {
    let matches = cli::command().get_matches();
    match commands::run(&matches, filters) {
        Ok(code) => {
            // The server has counted the lines that are lost.
            let _ = event_queue::finish();
            code
        }
        Err(message) => {
            event_queue::write_last(&format!("forebay: {message}\n"));
            ExitCode::FAILURE
        }
    }
}
