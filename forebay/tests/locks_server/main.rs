//! `forebay locks` with a running server: switching, reports and stacks.

mod command;
mod common;
mod stacks;
