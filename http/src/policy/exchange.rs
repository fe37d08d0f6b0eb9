//! What the decisions look at: the client's request, the origin's response, when, and under
//! which rules.

use crate::date::parse_date;
use crate::fields::{FieldId, Fields};
use crate::policy::directives::{RequestDirectives, ResponseDirectives, parse_delta};
use crate::policy::lists;

/// What a client asked, as far as storing depends on it.
#[derive(Clone, Copy, Debug)]
pub struct ClientRequest<'a> {
    /// Only a GET can be stored here.
    pub is_get: bool,
    /// Framing announced content, even if empty in the end.
    pub has_body: bool,
    /// The request's fields.
    pub fields: Fields<'a>,
    /// What they say about caching.
    pub directives: RequestDirectives,
}

/// A final response of the origin.
#[derive(Clone, Copy, Debug)]
pub struct OriginResponse<'a> {
    /// Status code.
    pub status: u16,
    /// The response's fields, as received.
    pub fields: Fields<'a>,
    /// What they say about caching.
    pub directives: ResponseDirectives,
}

impl<'a> OriginResponse<'a> {
    /// Reads the directives once, for all decisions.
    pub fn new(status: u16, fields: Fields<'a>) -> OriginResponse<'a> {
        OriginResponse { status, fields, directives: ResponseDirectives::parse(fields) }
    }
}

/// When a response (a 304 included) came, and how old it said it was.
///
/// Apart from the stored fields because Age is about the message: it is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseTiming {
    /// When the request was sent, Unix seconds.
    pub request_time: u64,
    /// When the response head came, Unix seconds.
    pub response_time: u64,
    /// Seconds that Age gave; 0 without a valid Age.
    pub age_value: u32,
}

impl ResponseTiming {
    /// Reads Age of the fields as received.
    ///
    /// RFC 9111 §5.1: the first member counts, and what is not a whole number is ignored.
    pub fn new(received: Fields<'_>, request_time: u64, response_time: u64) -> ResponseTiming {
        let first = received.all(FieldId::Age).flat_map(lists::members).next();
        ResponseTiming {
            request_time,
            response_time,
            age_value: first.and_then(parse_delta).unwrap_or(0),
        }
    }
}

/// Settings of a route that bear on caching.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheRules {
    /// Share of the time since the last modification that a response without explicit freshness
    /// counts as fresh, in percent; 0 turns heuristics off.
    pub heuristic_percent: u8,
    /// Limit of that, in seconds.
    pub heuristic_s_max: u32,
    /// Freshness, in seconds, when the origin says nothing and there is no heuristic; 0: none.
    pub default_freshness_s: u32,
}

/// Unix seconds of a date field; `None` if it is absent, doubled or malformed.
pub(crate) fn date_field(fields: Fields<'_>, id: FieldId) -> Option<u64> {
    parse_date(fields.only(id)?)
}
