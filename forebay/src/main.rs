//! The one binary, with no filters of its own.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use forebay_rules::filter::Filters;

fn main() -> ExitCode {
    forebay::run(&Filters::default())
}
