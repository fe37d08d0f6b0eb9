//! The permitted deviations from the rules, with their reasons.

use super::Problem;

/// One permitted deviation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exception {
    /// The rule's short name.
    pub(super) rule: &'static str,
    /// The file's path from the root.
    pub(super) path: &'static str,
    /// A part of the problem's message; empty for every problem of this rule in this file.
    pub(super) what: &'static str,
    /// Why the deviation makes the code better.
    #[expect(dead_code, reason = "its reader is a person")]
    pub(super) reason: &'static str,
}

/// All permitted deviations.
pub(super) const EXCEPTIONS: &[Exception] = &[
    Exception {
        rule: "file size",
        path: "server/src/config/table.rs",
        what: "",
        reason: "one table of settings",
    },
    Exception {
        rule: "file size",
        path: "server/src/counters.rs",
        what: "",
        reason: "one table of counters",
    },
    Exception {
        rule: "words",
        path: "http/src/policy/cache_status.rs",
        what: "write_ttl",
        reason: "RFC 9211 calls the parameter ttl",
    },
    Exception {
        rule: "function size",
        path: "http/src/policy/tests/directives.rs",
        what: "response_directives",
        reason: "one table of cases",
    },
    Exception {
        rule: "function size",
        path: "http/src/policy/tests/freshness.rs",
        what: "explicit_freshness",
        reason: "one table of cases",
    },
    Exception {
        rule: "function size",
        path: "http/src/policy/tests/reuse.rs",
        what: "a_stored_response",
        reason: "one table of cases",
    },
    Exception {
        rule: "function size",
        path: "http/src/policy/tests/storable.rs",
        what: "a_response_is_stored",
        reason: "one table of cases",
    },
];

/// Removes the problems that an exception covers. An exception that covers none becomes a problem.
pub(super) fn apply(problems: Vec<Problem>, exceptions: &[Exception]) -> Vec<Problem> {
    let unneeded = exceptions
        .iter()
        .filter(|exception| !problems.iter().any(|problem| exception.covers(problem)));
    let unneeded: Vec<Problem> = unneeded
        .map(|exception| {
            let message =
                format!("the exception from {:?} covers no problem: remove it", exception.rule);
            Problem::new(exception.path, 0, "exception", message)
        })
        .collect();
    let is_open = |problem: &Problem| !exceptions.iter().any(|exception| exception.covers(problem));
    problems.into_iter().filter(is_open).chain(unneeded).collect()
}

impl Exception {
    fn covers(&self, problem: &Problem) -> bool {
        self.rule == problem.rule
            && self.path == problem.path
            && problem.message.contains(self.what)
    }
}
