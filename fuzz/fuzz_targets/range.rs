#![no_main]
//! Feeds `bodies::range`, which states the properties.

#[path = "../bodies.rs"]
#[expect(dead_code, reason = "each target uses one body")]
mod bodies;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| bodies::range(bytes));
