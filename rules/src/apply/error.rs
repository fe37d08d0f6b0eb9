//! Errors of messages that are invalid after rules have run.

use forebay_http::error::RequestError;

/// The reason why a message is invalid after rules have changed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplyError {
    /// The URL's host is not valid in a Host field.
    Host,
    /// The head is not a valid request; `None` if it ends early or has trailing bytes.
    Request(Option<RequestError>),
    /// The changed lines are not valid field lines.
    Fields,
}

impl std::fmt::Display for ApplyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ApplyError::Host => f.write_str("the URL's host is not valid in a Host field"),
            ApplyError::Request(None) => {
                f.write_str("the request head is incomplete, or bytes follow it")
            }
            ApplyError::Request(Some(why)) => write!(f, "the request is not valid: {why}"),
            ApplyError::Fields => f.write_str("the changed lines are not valid field lines"),
        }
    }
}

impl std::error::Error for ApplyError {}
