//! `forebay locks` with foreign programs in C and C++, which it runs, records and examines.

mod common;
mod record;
mod stuck;
mod views;
