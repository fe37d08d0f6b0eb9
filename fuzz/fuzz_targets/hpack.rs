#![no_main]
//! Feeds `http2_bodies::hpack`, which states the properties.

#[path = "../http2_bodies.rs"]
#[expect(dead_code, reason = "each target uses one body")]
mod http2_bodies;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| http2_bodies::hpack(bytes));
