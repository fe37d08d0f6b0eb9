//! Measures the steps of a hit one by one, in CPU time without I/O: parse, key, lookup, write the
//! head.
//!
//! `cargo bench -p forebay-micro` runs all steps; a word after `--` selects those whose names
//! contain it. Each of our implementations is compared with another implementation, which does no
//! more work and which ours must beat. Only the step to the key has no other implementation.
#![allow(missing_docs, reason = "criterion's macros make functions without documentation")]

mod head;
mod key;
mod lookup;
mod parse;
mod requests;

use criterion::{criterion_group, criterion_main};

criterion_group!(hit, parse::benches, key::benches, lookup::benches, head::benches);
criterion_main!(hit);
