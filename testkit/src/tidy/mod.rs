//! Checks of the source tree: sizes, dependencies between crates and steps, words, comments of
//! unsafe code and orderings, reasons, locks. `Words` counts phrases and names that are hard to
//! read; a table keeps these counts from rising. `Conformance` finds the code and the tests of each
//! requirement of the RFCs.
//!
//! Each check is a function from text to problems, so that a test can give it a bad snippet.
//! `exceptions` lists the permitted deviations with their reasons; an unneeded exception is itself
//! a problem.

mod contracts;
mod exceptions;
mod layers;
mod locks;
mod manifest;
mod names;
mod prose;
mod ratchet;
mod rfc;
mod shape;
mod source;
mod tree;
mod words;

#[cfg(test)]
mod prose_tests;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::Path;

use source::Source;

pub use ratchet::{TABLE, UPDATE, Words};
pub use rfc::{Conformance, PAGE};

/// Something in the tree that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file's path from the root of the tree.
    pub path: String,
    /// Line, counted from 1; 0 for the whole file.
    pub line: usize,
    /// The rule's short name, as used in exceptions.
    pub rule: &'static str,
    /// The violation, with the item that has it.
    pub message: String,
}

impl Problem {
    fn new(path: &str, line: usize, rule: &'static str, message: impl Into<String>) -> Problem {
        Problem { path: path.into(), line, rule, message: message.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}: {}: {}", self.path, self.line, self.rule, self.message)
    }
}

/// Returns every problem of the tree at `root` that no exception covers.
pub fn check_tree(root: &Path) -> Vec<Problem> {
    let mut problems = Vec::new();
    let (mut sources, mut manifests) = (Vec::new(), Vec::new());
    for (path, text) in tree::texts(root) {
        problems.extend(contracts::machine_paths(&path, &text));
        if path.ends_with(".rs") {
            sources.push(Source::new(&path, &text));
        }
        if path.ends_with("Cargo.toml") {
            problems.extend(manifest::reasons(&path, &text));
            manifests.push((path, text));
        }
    }
    problems.extend(sources.iter().flat_map(check_source));
    problems.extend(locks::unused_classes(&sources));
    problems.extend(locks::raw_locks(&manifests));
    problems.extend(layers::crate_edges(&manifests));
    exceptions::apply(problems, exceptions::EXCEPTIONS)
}

fn check_source(source: &Source) -> Vec<Problem> {
    let checks: [fn(&Source) -> Vec<Problem>; 9] = [
        shape::file_sizes,
        shape::function_sizes,
        shape::columns,
        layers::step_imports,
        layers::absences,
        words::own_words,
        contracts::orderings,
        contracts::unsafe_code,
        contracts::leftovers,
    ];
    checks.iter().flat_map(|check| check(source)).collect()
}
