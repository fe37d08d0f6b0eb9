//! The reasons why a profile cannot be read.

use std::{fmt, io};

use crate::profile::plan::LAYOUT_VERSION;

/// The reason why a profile cannot be read.
#[derive(Debug)]
pub struct ProfileError(pub ProfileErrorKind);

/// The kind of a read error.
#[derive(Debug)]
pub enum ProfileErrorKind {
    /// The system reported an error.
    Io(io::Error),
    /// The magic number is missing.
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
        /// Bytes that the header promises.
        expected: u64,
        /// Bytes that exist.
        found: u64,
    },
    /// Its header contradicts itself.
    Damaged {
        /// The damaged part.
        what: &'static str,
    },
}

impl fmt::Display for ProfileError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        use ProfileErrorKind::*;
        let known = LAYOUT_VERSION;
        match &self.0 {
            Io(error) => write!(out, "cannot be read: {error}"),
            NotAProfile => out.write_str("is not a lock profile"),
            NewerLayout { found } => {
                write!(out, "has layout {found}, this program reads {known}: use a newer program")
            }
            OlderLayout { found } => {
                write!(out, "has layout {found}, this program reads {known}: record it again")
            }
            CutOff { expected, found } => {
                write!(out, "is cut off: {found} of {expected} bytes are there")
            }
            Damaged { what } => write!(out, "is damaged: {what}"),
        }
    }
}

impl std::error::Error for ProfileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0 {
            ProfileErrorKind::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for ProfileError {
    fn from(error: io::Error) -> ProfileError {
        ProfileError(ProfileErrorKind::Io(error))
    }
}

impl From<ProfileErrorKind> for ProfileError {
    fn from(kind: ProfileErrorKind) -> ProfileError {
        ProfileError(kind)
    }
}
