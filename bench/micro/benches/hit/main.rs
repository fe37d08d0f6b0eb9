//! The steps of a hit by themselves, in processor time without I/O: parse, key, lookup, head write.
//!
//! `cargo bench -p forebay-micro` runs all of them; a word behind `--` picks those whose names
//! contain it. Beside each of ours stands what it must beat, doing no more than it.
#![allow(missing_docs, reason = "criterion's macros make functions without documentation")]

mod head;
mod key;
mod lookup;
mod parse;
mod requests;

use criterion::{criterion_group, criterion_main};

criterion_group!(hit, parse::benches, key::benches, lookup::benches, head::benches);
criterion_main!(hit);
