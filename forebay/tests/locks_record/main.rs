//! `forebay locks` with foreign programs: those of C and C++ are run, recorded and looked at.

mod common;
mod record;
mod stuck;
mod views;
