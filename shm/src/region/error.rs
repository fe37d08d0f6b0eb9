//! Errors of a region.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{CounterError, CounterErrorKind};

/// A region could not be made or opened.
#[derive(Debug)]
pub struct RegionError {
    /// The file or directory; `None` for memory without a name.
    pub path: Option<PathBuf>,
    /// The cause.
    pub kind: RegionErrorKind,
}

/// The cause of a [`RegionError`].
#[derive(Debug)]
pub enum RegionErrorKind {
    /// The system refused; trying again may help.
    Io {
        /// The failed action, to be read after "cannot".
        doing: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// The file system, or the memory, has no space for the whole region.
    NoSpace {
        /// The bytes that the file needs.
        need: u64,
        /// The bytes that are free.
        have: u64,
        /// Whether the file of an older region still occupies space.
        old_is_kept: bool,
    },
    /// The plan does not fit its own size.
    TooSmall {
        /// The bytes that header and areas need.
        need: u64,
        /// The bytes of the whole region in the plan.
        have: u64,
    },
    /// The caller's plan violates a rule.
    Spec {
        /// The violated rule.
        what: String,
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
    /// Another process is making or replacing a region in this directory, and does not finish.
    Busy {
        /// The time for which this process has waited for the other one.
        waited: Duration,
    },
    /// The region needs `membarrier` among processes, which this version does not use.
    NoMembarrier,
    /// The file cannot be opened for reading only: it is no region of this boot and this layout
    /// version.
    Unusable {
        /// The reason.
        what: &'static str,
    },
}

impl RegionError {
    pub(crate) fn at(path: Option<&Path>, kind: RegionErrorKind) -> Self {
        RegionError { path: path.map(Path::to_owned), kind }
    }

    pub(crate) fn io(
        path: Option<&Path>,
        doing: &'static str,
        source: impl Into<io::Error>,
    ) -> Self {
        RegionError::at(path, RegionErrorKind::Io { doing, source: source.into() })
    }
}

impl RegionError {
    /// Notes in an error about missing space that the old region still occupies space.
    pub(super) fn beside_the_old(mut self) -> Self {
        if let RegionErrorKind::NoSpace { old_is_kept, .. } = &mut self.kind {
            *old_is_kept = true;
        }
        self
    }
}

/// Counters and regions open directories and files in the same way.
impl From<CounterError> for RegionError {
    fn from(error: CounterError) -> Self {
        let kind = match error.kind {
            CounterErrorKind::Io { doing, source } => RegionErrorKind::Io { doing, source },
            CounterErrorKind::NotOurs { owner } => RegionErrorKind::NotOurs { owner },
            CounterErrorKind::NotPrivate { mode } => RegionErrorKind::NotPrivate { mode },
            CounterErrorKind::NotAFile => RegionErrorKind::NotAFile,
            other => RegionErrorKind::Spec { what: other.to_string() },
        };
        RegionError { path: error.path, kind }
    }
}

impl fmt::Display for RegionError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => write!(out, "{}: {}", path.display(), self.kind),
            None => write!(out, "region without a file: {}", self.kind),
        }
    }
}

impl fmt::Display for RegionErrorKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        use RegionErrorKind::*;
        match self {
            Io { doing, source } => write!(out, "cannot {doing}: {source}"),
            NoSpace { need, have, old_is_kept } => write!(
                out,
                "the region needs {need} bytes, and {have} are free{}; a container's /dev/shm may \
                 have to be made larger",
                if *old_is_kept { " beside the old region, which is still there" } else { "" }
            ),
            TooSmall { need, have } => {
                write!(
                    out,
                    "a region of {have} bytes is too small; at least {need} bytes are needed"
                )
            }
            Spec { what } => out.write_str(what),
            NotOurs { owner } => {
                write!(
                    out,
                    "owned by user {owner}, not by the user of this process; run as that user, or \
                     change the owner"
                )
            }
            NotPrivate { mode } => {
                write!(
                    out,
                    "the mode {mode:04o} lets other users in; keep them out with chmod 0700"
                )
            }
            NotAFile => out.write_str("this is not a plain file; remove it, or use another path"),
            Busy { waited } => write!(
                out,
                "another process has been making a region in this directory for {waited:?}, and \
                 holds a lock on it; it may be stopped: fuser and /proc/locks tell which one"
            ),
            NoMembarrier => out.write_str(
                "the region uses membarrier as its barrier; this version does not use membarrier, \
                 because membarrier does not order all processes",
            ),
            Unusable { what } => write!(out, "the region is not usable: {what}"),
        }
    }
}

impl std::error::Error for RegionError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            RegionErrorKind::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
