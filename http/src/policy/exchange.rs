//! The inputs of caching decisions: the client's request, the origin's response and its times, and
//! the route's settings.

use crate::date::parse_date;
use crate::fields::{FieldId, Fields};
use crate::policy::directives::{RequestDirectives, ResponseDirectives, parse_seconds};
use crate::policy::freshness::StatusFreshness;
use crate::policy::lists;
use crate::policy::targeted::TargetList;

/// The client's request, as far as it affects storing.
#[derive(Clone, Copy, Debug)]
pub struct ClientRequest<'a> {
    /// Whether the method is GET. Only responses to GET can be stored.
    pub is_get: bool,
    /// Whether the framing announced content, even if the content turned out empty.
    pub has_body: bool,
    /// The request's fields.
    pub fields: Fields<'a>,
    /// The request's caching directives.
    pub directives: RequestDirectives,
}

/// A final response of the origin.
#[derive(Clone, Copy, Debug)]
pub struct OriginResponse<'a> {
    /// Status code.
    pub status: u16,
    /// The response's fields, as received.
    pub fields: Fields<'a>,
    /// The response's caching directives.
    pub directives: ResponseDirectives,
    /// Whether the directives are those of a targeted field, so that Expires is ignored (RFC 9213
    /// §2.2).
    pub is_targeted: bool,
    /// Whether a targeted field was ignored, because it is invalid.
    pub has_invalid_target: bool,
}

impl<'a> OriginResponse<'a> {
    /// Creates the response and parses its directives once, for all decisions. They are the
    /// directives of a targeted field or, without a valid one, those of Cache-Control.
    pub fn new(status: u16, fields: Fields<'a>, targets: &TargetList) -> OriginResponse<'a> {
        let targeted = targets.select(fields);
        OriginResponse {
            status,
            fields,
            directives: targeted.directives.unwrap_or_else(|| ResponseDirectives::parse(fields)),
            is_targeted: targeted.directives.is_some(),
            has_invalid_target: targeted.has_invalid,
        }
    }
}

/// The times of a response (or a 304), and its age on arrival.
///
/// These are separate from the stored fields, because Age describes the message and is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseTiming {
    /// When the request was sent, Unix seconds.
    pub request_time: u64,
    /// When the response head arrived, Unix seconds.
    pub response_time: u64,
    /// The value of Age in seconds; 0 without a valid Age.
    pub age_value: u32,
}

impl ResponseTiming {
    /// Reads Age from the fields as received.
    ///
    /// RFC 9111 §5.1: the first member counts, and a value that is not a whole number is ignored.
    // RFC: 9111-5.1-1, 9111-5.1-2
    pub fn new(received: Fields<'_>, request_time: u64, response_time: u64) -> ResponseTiming {
        let first = received.all(FieldId::Age).flat_map(lists::members).next();
        ResponseTiming {
            request_time,
            response_time,
            age_value: first.and_then(parse_seconds).unwrap_or(0),
        }
    }
}

/// Settings of a route that affect caching.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheRules<'a> {
    /// The fields whose directives take precedence over Cache-Control and Expires.
    pub targets: &'a TargetList,
    /// The heuristic freshness lifetime of a response without an explicit one, as a percentage of
    /// the time from its Last-Modified to its Date. 0 turns heuristic freshness off.
    pub heuristic_percent: u8,
    /// Limit of the heuristic freshness, in seconds.
    pub heuristic_s_max: u32,
    /// Limit of the heuristic freshness and of `default_freshness_s` for a response with a status
    /// of 400 or more, in seconds.
    pub heuristic_error_s_max: u32,
    /// Freshness lifetime in seconds that replaces the lifetime that the origin gives; 0 for none.
    pub override_freshness_s: u32,
    /// Freshness lifetimes by status for responses without an explicit one.
    pub status_freshness: &'a StatusFreshness,
    /// Freshness lifetime in seconds of other responses without an explicit one; 0 for the
    /// heuristic.
    pub default_freshness_s: u32,
    /// Whether a response with Set-Cookie may be stored at all.
    pub set_cookie_is_storable: bool,
}

impl CacheRules<'_> {
    /// Returns the rules for a response that sets a cookie: only the origin gives it a lifetime.
    pub fn for_cookie_setting(self) -> Self {
        static NONE: StatusFreshness = StatusFreshness::EMPTY;
        CacheRules {
            heuristic_percent: 0,
            override_freshness_s: 0,
            status_freshness: &NONE,
            default_freshness_s: 0,
            ..self
        }
    }
}

/// Parses a date field to Unix seconds; `None` if it is absent, repeated or malformed.
// RFC: 9110-13.1.3-2
pub(crate) fn date_field(fields: Fields<'_>, id: FieldId) -> Option<u64> {
    parse_date(fields.only(id)?)
}
