//! Forebay with a filter of its own: in all else it is `forebay`, its command line too.
//!
//! Rules run it: `run-plugin secure-cookies` or, with a value for SameSite,
//! `run-plugin secure-cookies Lax`; see `example.rules`.
#![forbid(unsafe_code)]

mod filter;

use std::process::ExitCode;

use filter::SecureCookies;
use forebay_rules::filter::Filters;

fn main() -> ExitCode {
    forebay::run(&Filters::default().with("secure-cookies", SecureCookies::new))
}
