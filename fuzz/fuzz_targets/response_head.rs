#![no_main]
//! Feeds `bodies::response_head`, which states the properties.

#[path = "../bodies.rs"]
#[expect(dead_code, reason = "each target uses one body")]
mod bodies;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| bodies::response_head(bytes));
