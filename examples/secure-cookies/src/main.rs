//! A build of Forebay with a native filter; otherwise the same as `forebay`, with all its commands.
//!
//! Rules run the filter: `run-plugin secure-cookies` or, with a value for SameSite,
//! `run-plugin secure-cookies Lax`. `example.rules` has an example.
#![forbid(unsafe_code)]

mod filter;

use std::process::ExitCode;

use filter::SecureCookies;
use forebay_rules::filter::Filters;

fn main() -> ExitCode {
    forebay::run(&Filters::default().with("secure-cookies", SecureCookies::new))
}
