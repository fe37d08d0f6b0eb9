//! Load generators. Each prints one JSON object of numbers on standard output.

pub(crate) mod handshakes;
mod latency;
pub(crate) mod mixed;
pub(crate) mod rate;
mod response;
mod zipf;

use std::fmt::Display;

/// A flat JSON object of numbers, in the order in which they were added.
#[derive(Default)]
struct Report(Vec<String>);

impl Report {
    fn add(&mut self, name: &str, value: impl Display) {
        self.0.push(format!("\"{name}\": {value}"));
    }

    fn print(&self) {
        println!("{{{}}}", self.0.join(", "));
    }
}
