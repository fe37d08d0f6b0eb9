//! The rules for requests and trailers (RFC 9113 §8), and their conversion to an HTTP/1.1 head.
//!
//! A [`CheckedRequest`] exists only for a list of field lines that obeys the rules. Where HTTP/1.1
//! is stricter than RFC 9113, so are these rules: names are tokens, values have no control
//! characters except HTAB, and a path has no byte that a request line cannot contain.

mod check;
mod http1;

pub use check::MalformedRequest;
pub(crate) use check::{CheckContext, RequestIndex, check_request, check_trailers};

use crate::field_list::FieldList;
use crate::line::DecodedLine;
use crate::priority::ResponsePriority;

/// A request that obeys the rules of RFC 9113 §8. It borrows the lines of its header block.
#[derive(Clone, Copy, Debug)]
pub struct CheckedRequest<'l> {
    list: &'l FieldList,
    index: RequestIndex,
}

impl<'l> CheckedRequest<'l> {
    pub(crate) fn new(list: &'l FieldList, index: RequestIndex) -> CheckedRequest<'l> {
        CheckedRequest { list, index }
    }

    /// The method.
    pub fn method(self) -> &'l [u8] {
        self.value(self.index.method).unwrap_or_default()
    }

    /// Path and query; empty only for a CONNECT without `:protocol`.
    pub fn path(self) -> &'l [u8] {
        self.value(self.index.path).unwrap_or_default()
    }

    /// Host and port, from `:authority` or else from Host.
    pub fn authority(self) -> &'l [u8] {
        self.value(self.index.authority.or(self.index.host)).unwrap_or_default()
    }

    /// The protocol of an extended CONNECT (RFC 8441).
    pub fn protocol(self) -> Option<&'l [u8]> {
        self.value(self.index.protocol)
    }

    /// The announced length of the body.
    pub fn content_length(self) -> Option<u64> {
        self.index.content_length
    }

    /// Whether a body or trailers may follow: the head did not end the stream.
    pub fn has_body(self) -> bool {
        self.index.has_body
    }

    /// Names and values of the lines after the pseudo-fields, as received.
    pub fn fields(self) -> impl Iterator<Item = (&'l [u8], &'l [u8])> + Clone {
        self.lines().map(|line| (line.name, line.value))
    }

    fn lines(self) -> impl Iterator<Item = DecodedLine<'l>> + Clone {
        self.list.lines(usize::from(self.index.first_field)..self.list.count())
    }

    /// The priority that the client's field asks for (RFC 9218 §5).
    pub(crate) fn priority(self) -> ResponsePriority {
        self.value(self.index.priority).map(ResponsePriority::parse).unwrap_or_default()
    }

    /// Returns the value of the line at this position.
    fn value(self, at: Option<u16>) -> Option<&'l [u8]> {
        let at = usize::from(at?);
        self.list.lines(at..at + 1).next().map(|line| line.value)
    }
}

#[cfg(test)]
mod tests;
