//! Messages that are invalid after rules have run.

use forebay_http::error::RequestError;

/// The rules have made the message invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplyError {
    /// The URL's host is not valid in a Host field.
    Host,
    /// The head is not a valid request; `None` if it ends early or has trailing bytes.
    Request(Option<RequestError>),
    /// The lines are not valid fields.
    Fields,
}

impl std::fmt::Display for ApplyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ApplyError::Host => f.write_str("the URL's host is not valid in a Host field"),
            ApplyError::Request(None) => f.write_str("not a valid request"),
            ApplyError::Request(Some(why)) => write!(f, "not a valid request: {why}"),
            ApplyError::Fields => f.write_str("the changed lines are not valid field lines"),
        }
    }
}

impl std::error::Error for ApplyError {}
