//! The one binary: `serve`, `try`, and the commands that look after a running server.
#![forbid(unsafe_code)]

mod admin_client;
mod cli;
mod commands;
mod example;
mod logging;

use std::process::ExitCode;

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
