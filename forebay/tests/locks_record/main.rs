//! `forebay locks` with foreign programs in C and C++: they are run, recorded and examined.

mod common;
mod record;
mod stuck;
mod views;
