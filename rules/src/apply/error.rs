//! What rules can make of a message that a server does not go on with.

use forebay_http::error::RequestError;

/// What rules made of a message is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplyError {
    /// The URL's host cannot be asked for.
    Host,
    /// The head is no request's; why, if it is not that it ends early or goes on.
    Request(Option<RequestError>),
    /// The lines are no fields.
    Fields,
}

impl std::fmt::Display for ApplyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ApplyError::Host => f.write_str("the URL's host cannot stand in a Host line"),
            ApplyError::Request(None) => f.write_str("that is no request"),
            ApplyError::Request(Some(why)) => write!(f, "that is no request: {why}"),
            ApplyError::Fields => f.write_str("what they leave are no field lines"),
        }
    }
}

impl std::error::Error for ApplyError {}
