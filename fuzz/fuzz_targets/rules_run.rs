#![no_main]
//! Feeds `rules_run_body::rules_run`, which states the properties.

#[path = "../rules_run_body.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| body::rules_run(bytes));
