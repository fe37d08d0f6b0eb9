//! The one binary: `serve`, `try`, and the commands that look after a running server.
#![forbid(unsafe_code)]

mod admin_client;
mod cli;
mod commands;
mod example;
mod logging;
mod say;

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// A hit allocates nothing; for what goes to the origin this halves the cost of allocation.
#[global_allocator]
static HEAP: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    let matches = cli::command().get_matches();
    match commands::run(&matches) {
        Ok(code) => code,
        Err(message) => {
            eprintln!("forebay: {message}");
            ExitCode::FAILURE
        }
    }
}
