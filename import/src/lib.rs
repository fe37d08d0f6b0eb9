//! Translates configurations of other servers into Forebay's (`docs/import.md`).
//!
//! A rule that refuses requests and cannot be carried over becomes a 403, a condition of storing
//! that cannot be carried over switches the cache off, and each case is noted: a site is not more
//! open than it was (`docs/import.md`). The translation reads files, opens no sockets, and knows
//! nothing of the server. The crate `rules` checks regular expressions and header rules.

#![forbid(unsafe_code)]

mod nginx;
mod rule_files;
mod toml;
mod trafficserver;
mod varnish;

use std::fmt;
use std::path::PathBuf;

pub use nginx::nginx;
pub use trafficserver::trafficserver;
pub use varnish::varnish;

/// How to translate.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// Directory to which relative paths refer; by default it follows from the first file.
    pub prefix: Option<PathBuf>,
    /// Whether requests are served although a directive that may refuse them is not carried over.
    pub drop_access_rules: bool,
    /// Beginning of the names of rule files, by default `forebay`.
    pub rules_stem: Option<String>,
}

/// A translated configuration.
#[derive(Clone, Debug, Default)]
pub struct Import {
    /// The configuration of Forebay.
    pub toml: String,
    /// Files of header rules, which the configuration names. Their place is beside it.
    pub rule_files: Vec<ImportedRules>,
    /// The differences, in the order of the source.
    pub notes: Vec<Note>,
}

/// A file of header rules (`docs/rules.md`).
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ImportedRules {
    /// Name of the file, without a directory.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// Something that was not carried over, or whose meaning differs.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Note {
    /// The source file.
    pub file: String,
    /// The line in the source, from 1.
    pub line: u32,
    /// Name of the directive.
    pub directive: String,
    /// The difference, and what to do about it.
    pub message: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.file, self.line, self.directive, self.message)
    }
}

/// A source that cannot be read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ImportError {
    /// The source file.
    pub file: String,
    /// The line, from 1; 0 stands for the whole file.
    pub line: u32,
    /// The column in bytes, from 1.
    pub column: u32,
    /// The error.
    pub message: String,
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.message),
            _ => write!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.message),
        }
    }
}

impl std::error::Error for ImportError {}
