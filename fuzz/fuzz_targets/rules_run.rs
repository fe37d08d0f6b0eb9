#![no_main]
//! Feeds `rules_run_body::rules_run`, which holds what must be true.

#[path = "../rules_run_body.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| body::rules_run(bytes));
