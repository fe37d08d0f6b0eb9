#![no_main]
//! Feeds `rules_bodies::rules_read`, which states the properties.

#[path = "../rules_bodies.rs"]
mod bodies;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| bodies::rules_read(bytes));
