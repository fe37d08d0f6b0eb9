//! `forebay locks` beside a server: its switches, reports, and stacks.

mod command;
mod common;
mod stacks;
