//! Errors of a counter file or of a lock profile.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A counter file, or a lock profile, could not be made or opened.
#[derive(Debug)]
pub struct CounterError {
    /// The file or directory; `None` for memory without a file.
    pub path: Option<PathBuf>,
    /// The cause.
    pub kind: CounterErrorKind,
}

/// The cause of a [`CounterError`].
#[derive(Debug)]
pub enum CounterErrorKind {
    /// The system refused; trying again may help.
    Io {
        /// The failed action, to be read after "cannot".
        doing: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// The file system has no space for the whole file.
    NoSpace {
        /// The bytes that the file needs.
        bytes: u64,
    },
    /// Another user owns the file or the directory.
    NotOurs {
        /// The owner's user id.
        owner: u32,
    },
    /// Other users may enter the directory.
    NotPrivate {
        /// Its permission bits.
        mode: u32,
    },
    /// The path has no file name, or does not name a plain file.
    NotAFile,
    /// The file does not begin like a counter file.
    NotCounters,
    /// A newer Forebay wrote the file.
    NewerLayout {
        /// The layout version in the file.
        found: u32,
        /// The newest version that this program reads.
        known: u32,
    },
    /// The file ends before its contents do.
    Truncated {
        /// The expected length in bytes.
        expected: u64,
        /// The actual length in bytes.
        found: u64,
    },
    /// The header or the name table contradicts itself.
    Damaged {
        /// The damaged part.
        what: &'static str,
    },
    /// The file is not a lock profile, or is a damaged one.
    #[cfg(not(loom))]
    Profile(forebay_sync::profile::ProfileError),
    /// The caller's definitions do not fit the format.
    Definition {
        /// The violated rule.
        what: String,
    },
}

impl CounterError {
    pub(crate) fn at(path: &Path, kind: CounterErrorKind) -> Self {
        CounterError { path: Some(path.to_owned()), kind }
    }

    pub(crate) fn definition(what: impl Into<String>) -> Self {
        CounterError { path: None, kind: CounterErrorKind::Definition { what: what.into() } }
    }

    pub(crate) fn io(path: &Path, doing: &'static str, source: impl Into<io::Error>) -> Self {
        CounterError::at(path, CounterErrorKind::Io { doing, source: source.into() })
    }
}

impl fmt::Display for CounterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => write!(f, "{}: {}", path.display(), self.kind),
            None => write!(f, "counters: {}", self.kind),
        }
    }
}

impl fmt::Display for CounterErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use CounterErrorKind::*;
        match self {
            Io { doing, source } => write!(f, "cannot {doing}: {source}"),
            NoSpace { bytes } => {
                write!(f, "no space for {bytes} bytes; free some space or choose another directory")
            }
            NotOurs { owner } => {
                write!(
                    f,
                    "owned by user {owner}, not by the user of this process; run as that user, or \
                     change the owner"
                )
            }
            NotPrivate { mode } => {
                write!(f, "the mode {mode:04o} lets other users in; keep them out with chmod 0700")
            }
            NotAFile => f.write_str("this is not a plain file; remove it, or use another path"),
            NotCounters => {
                f.write_str("this is not a counter file; give the path of a server's counter file")
            }
            NewerLayout { found, known } => {
                write!(
                    f,
                    "the file has layout {found}, but this program reads only layouts up to \
                     {known}; use a newer program"
                )
            }
            Truncated { expected, found } => {
                write!(
                    f,
                    "the file is cut off: it has only {found} of {expected} bytes; the next start \
                     of its server replaces it"
                )
            }
            Damaged { what } => {
                write!(f, "the file is damaged: {what}; the next start of its server replaces it")
            }
            #[cfg(not(loom))]
            Profile(error) => error.fmt(f),
            Definition { what } => f.write_str(what),
        }
    }
}

impl std::error::Error for CounterError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            CounterErrorKind::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
