//! Header rules: the language that Apache Traffic Server's header_rewrite plugin made, compiled.
//!
//! ```text
//! text ─ lex, parse, check ─► rules (ast) ─ plan ─► program ─ run ─► changed fields, effects
//! ```
//!
//! Pure: no I/O, no threads, no clock. What a rule can ask of the world it asks a
//! [`RuleEnvironment`](run::RuleEnvironment); what it does beyond changing fields it leaves in
//! [`Effects`](run::Effects). What becomes of a message then is decided in [`apply`].
#![forbid(unsafe_code)]

pub mod apply;
pub mod ast;
mod check;
pub mod diagnostic;
pub mod filter;
mod lex;
pub mod limits;
mod parse;
pub mod plan;
mod read;
pub mod run;
#[cfg(test)]
mod tests;

pub use read::{ParsedFile, decode, read, read_bytes, read_with};
