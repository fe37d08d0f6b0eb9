//! The standard binary, without custom filters.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use forebay_rules::filter::Filters;

fn main() -> ExitCode {
    forebay::run(&Filters::default())
}
