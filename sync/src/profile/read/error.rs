//! Why a profile can't be read.

use std::{fmt, io};

use crate::profile::plan::LAYOUT_VERSION;

/// Why a profile can't be read.
#[derive(Debug)]
pub struct ReadError(pub ReadErrorKind);

/// What is wrong.
#[derive(Debug)]
pub enum ReadErrorKind {
    /// The system refused.
    Io(io::Error),
    /// It does not begin as one does.
    NotAProfile,
    /// A newer program wrote it.
    NewerLayout {
        /// The layout version in it.
        found: u32,
    },
    /// An older program wrote it.
    OlderLayout {
        /// The layout version in it.
        found: u32,
    },
    /// It ends before its contents do.
    CutOff {
        /// Bytes that should be there.
        expected: u64,
        /// Bytes that are there.
        found: u64,
    },
    /// Its header contradicts itself.
    Damaged {
        /// Which part.
        what: &'static str,
    },
}

impl fmt::Display for ReadError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        use ReadErrorKind::*;
        let known = LAYOUT_VERSION;
        match &self.0 {
            Io(error) => write!(out, "cannot be read: {error}"),
            NotAProfile => out.write_str("is not a lock profile"),
            NewerLayout { found } => {
                write!(out, "has layout {found}, this program reads {known}: use a newer one")
            }
            OlderLayout { found } => {
                write!(out, "has layout {found}, this program reads {known}: record it anew")
            }
            CutOff { expected, found } => {
                write!(out, "is cut off: {found} of {expected} bytes are there")
            }
            Damaged { what } => write!(out, "is damaged: {what}"),
        }
    }
}

impl std::error::Error for ReadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0 {
            ReadErrorKind::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> ReadError {
        ReadError(ReadErrorKind::Io(error))
    }
}

impl From<ReadErrorKind> for ReadError {
    fn from(kind: ReadErrorKind) -> ReadError {
        ReadError(kind)
    }
}
