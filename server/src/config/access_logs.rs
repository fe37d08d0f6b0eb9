//! The access logs of a configuration: that of the server, and those of sites.

use std::path::{Path, PathBuf};

use super::error::ProblemSpan;
use super::read::Reader;
use super::setting::ValueProblem;
use super::site::Site;
use super::value::AccessLog;
use crate::limits::ACCESS_LOGS_MAX;

/// The destinations of access logs. Sections that name the same destination share one log.
#[derive(Clone, Debug, Default)]
pub struct AccessLogs {
    destinations: Vec<LogDestination>,
    /// The log of the server, for requests without a site; `None` if it is off.
    server: Option<LogNumber>,
}

/// A destination of access log entries.
#[derive(Clone, Debug)]
pub struct LogDestination {
    /// The destination, which is not [`AccessLog::Off`].
    pub log: AccessLog,
    /// The position of the first section or flag that names the destination.
    pub at: String,
}

/// The index of a destination in its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogNumber(u16);

/// A destination that a section or a flag names.
pub(super) struct NamedLog {
    log: AccessLog,
    at: ProblemSpan,
}

/// The positions do not matter for the equality of configurations.
impl PartialEq for AccessLogs {
    fn eq(&self, other: &AccessLogs) -> bool {
        let logs = |logs: &AccessLogs| -> Vec<_> {
            logs.destinations.iter().map(|destination| destination.log.clone()).collect()
        };
        self.server == other.server && logs(self) == logs(other)
    }
}

impl LogNumber {
    /// Returns the number as an index.
    #[inline]
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl AccessLogs {
    /// Returns the destinations in the order of their numbers.
    pub fn iter(&self) -> std::slice::Iter<'_, LogDestination> {
        self.destinations.iter()
    }

    /// Returns the number of the server's log; `None` if it is off.
    pub(crate) fn server(&self) -> Option<LogNumber> {
        self.server
    }

    /// Returns the destination of the server's log.
    pub(super) fn server_log(&self) -> &AccessLog {
        let server = self.server.and_then(|number| self.destinations.get(number.index()));
        server.map_or(&AccessLog::Off, |destination| &destination.log)
    }

    fn number_of(&self, log: &AccessLog) -> Option<LogNumber> {
        let index = self.destinations.iter().position(|one| is_same(&one.log, log))?;
        Some(LogNumber(index as u16))
    }
}

impl<'a> IntoIterator for &'a AccessLogs {
    type Item = &'a LogDestination;
    type IntoIter = std::slice::Iter<'a, LogDestination>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl Reader<'_> {
    /// Notes the log that a section of a site names.
    pub(super) fn note_log(&mut self, log: &AccessLog, at: ProblemSpan) {
        self.named_logs.push(NamedLog { log: log.clone(), at });
    }

    /// Gives each log a number, and each site the number of its log. `server` is the log of the
    /// server, with the position at which it is named.
    pub(super) fn number_logs(
        &mut self,
        (server, at): (&AccessLog, Option<&ProblemSpan>),
        sites: &mut [Site],
    ) -> AccessLogs {
        let of_server =
            NamedLog { log: server.clone(), at: at.cloned().unwrap_or(ProblemSpan::File) };
        let named = std::iter::once(of_server).chain(std::mem::take(&mut self.named_logs));
        let mut logs = AccessLogs::default();
        for NamedLog { log, at } in named {
            if log == AccessLog::Off || logs.number_of(&log).is_some() {
                continue;
            }
            if logs.destinations.len() == ACCESS_LOGS_MAX {
                let text = format!("there are more than {ACCESS_LOGS_MAX} different access logs");
                let hint = "give several sites the same file: in the format json, a line has the \
                            name of its site";
                self.problem(at, ValueProblem::new(text).hint(hint));
                break;
            }
            let at = match at {
                ProblemSpan::Span(span) => self.sources.position(span.start),
                ProblemSpan::Flag(flag) => flag,
                ProblemSpan::File => String::new(),
            };
            logs.destinations.push(LogDestination { log, at });
        }
        logs.server = logs.number_of(server);
        for site in sites {
            site.log = logs.number_of(&site.settings.access_log);
        }
        logs
    }
}

/// Whether two settings name the same destination.
fn is_same(one: &AccessLog, other: &AccessLog) -> bool {
    match (one, other) {
        (AccessLog::File(one), AccessLog::File(other)) => absolute(one) == absolute(other),
        (one, other) => one == other,
    }
}

/// Returns the path without `.`, for a comparison. Relative paths begin at the current directory.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
