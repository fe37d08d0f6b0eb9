//! Header rules: the language of Apache Traffic Server's header_rewrite plugin, compiled.
//!
//! ```text
//! text ─ lex, parse, check ─► rules (ast) ─ plan ─► program ─ run ─► changed fields, effects
//! ```
//!
//! The crate is pure: it does no I/O, starts no thread and reads no clock. Rules read their
//! environment through a [`RuleEnvironment`](run::RuleEnvironment) and leave effects other than
//! changed fields in [`Effects`](run::Effects). [`apply`] applies these effects to a message.
#![forbid(unsafe_code)]

pub mod apply;
pub mod ast;
mod check;
pub mod diagnostic;
pub mod filter;
mod lex;
pub mod limits;
mod parse;
pub mod pattern;
pub mod plan;
mod read;
pub mod run;
#[cfg(test)]
mod tests;

pub use read::{ParsedFile, decode, read, read_bytes, read_with};
