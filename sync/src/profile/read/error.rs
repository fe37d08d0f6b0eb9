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
    /// The magic number of a profile is missing.
    NotAProfile,
    /// A newer program wrote the profile.
    NewerLayout {
        /// The layout version of the profile.
        found: u32,
    },
    /// An older program wrote the profile.
    OlderLayout {
        /// The layout version of the profile.
        found: u32,
    },
    /// The profile is shorter than its header says.
    CutOff {
        /// The number of bytes that the header promises.
        expected: u64,
        /// The number of bytes that exist.
        found: u64,
    },
    /// The header of the profile contradicts itself.
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
            Io(error) => write!(out, "the file cannot be read: {error}"),
            NotAProfile => out.write_str("this is not a lock profile"),
            NewerLayout { found } => {
                write!(
                    out,
                    "the profile has layout version {found}, but this program reads version \
                     {known}: use a newer program"
                )
            }
            OlderLayout { found } => {
                write!(
                    out,
                    "the profile has layout version {found}, but this program reads version \
                     {known}: record a new profile"
                )
            }
            CutOff { expected, found } => {
                write!(out, "the profile is cut off: it has {found} of {expected} bytes")
            }
            Damaged { what } => write!(out, "the profile is damaged: {what}"),
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
