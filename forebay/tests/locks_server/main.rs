//! `forebay locks` beside a server: switches, reports and stacks.

mod command;
mod common;
mod stacks;
