//! What went wrong, on which side, and what follows from it.
//!
//! A [`Fault`] alone decides the status code of the answer and the fate of the client's
//! connection. Nothing else in the server chooses a 4xx or 5xx, but for the 416
//! that a range decision gives.

use forebay_http::error::RequestError;

use crate::counters::Counter;
use crate::events::Event;

/// Whose fault it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The client's request, or its connection.
    Client,
    /// The origin's answer, or its connection.
    Origin,
    /// Ours: a limit of Forebay or of the machine.
    Us,
}

/// Why a request is not answered as asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The request is malformed or asks for what Forebay does not do.
    Request(RequestError),
    /// The target has bytes that can't be forwarded as they are.
    TargetNotForwardable,
    /// A chunked request body is malformed.
    RequestBody,
    /// The request body is longer than the limit.
    RequestBodyTooLarge,
    /// The head did not arrive in time.
    HeadTimeout,
    /// A body moved slower than the least rate.
    TooSlow,
    /// The client closed or reset its connection.
    ClientGone,
    /// No site serves this host.
    NoSite,
    /// The request came round to this server again.
    Loop,
    /// The client's address may not purge.
    PurgeForbidden,
    /// What a request purges by can be nobody's tags.
    PurgeTags,
    /// Where it would have tags to purge by there are none, or they are not read there.
    PurgeNoTags,
    /// Another process has a cache of its own.
    PurgeElsewhere,
    /// Other purges do not end.
    PurgeBusy,
    /// The client wants only what is stored, and nothing usable is.
    OnlyIfCached,
    /// The memory of what was to be sent of a stored response was needed for something else.
    HitCut,
    /// The client stood still, and another request waited for the connection to the origin.
    GaveWay,
    /// What header rules made is no HTTP.
    Rules,
    /// A bug of ours ended the fetch.
    Internal,
    /// Too many connections to the origin are in use.
    OriginBusy,
    /// The origin's name has no address.
    OriginName,
    /// No connection to the origin.
    OriginConnect,
    /// The connection to the origin took too long.
    OriginConnectTimeout,
    /// The origin did not begin to answer in time.
    OriginFirstByteTimeout,
    /// The origin stopped in the middle of its answer.
    OriginIdleTimeout,
    /// The origin closed the connection before its answer was whole.
    OriginBroke,
    /// The origin's answer is malformed, doubly framed or overlong.
    OriginAnswer(&'static str),
}

impl Fault {
    /// Whose fault it is.
    pub(crate) fn side(self) -> Side {
        match self {
            Fault::Request(_)
            | Fault::TargetNotForwardable
            | Fault::RequestBody
            | Fault::RequestBodyTooLarge
            | Fault::HeadTimeout
            | Fault::TooSlow
            | Fault::ClientGone
            | Fault::NoSite
            | Fault::Loop
            | Fault::PurgeForbidden
            | Fault::PurgeTags
            | Fault::PurgeNoTags
            | Fault::OnlyIfCached => Side::Client,
            Fault::OriginBusy
            | Fault::PurgeBusy
            | Fault::PurgeElsewhere
            | Fault::HitCut
            | Fault::GaveWay
            | Fault::Rules
            | Fault::Internal => Side::Us,
            _ => Side::Origin,
        }
    }

    /// The status of the answer (RFC 9110 §15).
    pub(crate) fn status(self) -> u16 {
        match self {
            Fault::Request(error) => error.status(),
            Fault::TargetNotForwardable
            | Fault::RequestBody
            | Fault::ClientGone
            | Fault::PurgeTags
            | Fault::PurgeNoTags => 400,
            Fault::PurgeForbidden => 403,
            Fault::RequestBodyTooLarge => 413,
            Fault::HeadTimeout | Fault::TooSlow => 408,
            Fault::NoSite => 421,
            Fault::Loop => 508,
            Fault::HitCut | Fault::GaveWay | Fault::Rules | Fault::Internal => 500,
            Fault::OriginBusy | Fault::PurgeBusy | Fault::PurgeElsewhere => 503,
            Fault::OnlyIfCached
            | Fault::OriginConnectTimeout
            | Fault::OriginFirstByteTimeout
            | Fault::OriginIdleTimeout => 504,
            Fault::OriginName
            | Fault::OriginConnect
            | Fault::OriginBroke
            | Fault::OriginAnswer(_) => 502,
        }
    }

    /// One sentence for the body of the answer and for the log.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Fault::Request(error) => error.reason(),
            Fault::TargetNotForwardable => "the request target has bytes that a URI can't have",
            Fault::RequestBody => "the request body is malformed",
            Fault::RequestBodyTooLarge => "the request body is longer than this server takes",
            Fault::HeadTimeout => "the request head did not arrive in time",
            Fault::TooSlow => "the body moves slower than this server waits for",
            Fault::ClientGone => "the client closed the connection",
            Fault::NoSite => "this server does not serve the requested host",
            Fault::Loop => "the request has been at this server before: the origin leads back",
            Fault::PurgeForbidden => "this address may not purge here",
            Fault::PurgeTags => "the purge has too many tags, or too long ones",
            Fault::PurgeNoTags => "the purge has no tag in the fields that tags are read from here",
            Fault::PurgeElsewhere => "another process serves from a cache of its own; ask again",
            Fault::PurgeBusy => "other purges did not end in time; try again",
            Fault::OnlyIfCached => "nothing usable is stored, and only-if-cached was asked for",
            Fault::HitCut => "the memory of what was to be sent was needed for something else",
            Fault::GaveWay => "the client stood still, and another request waited for the origin",
            Fault::Rules => "the header rules of this server made no valid message of it",
            Fault::Internal => "an error of this server's own ended the request",
            Fault::OriginBusy => "all permitted connections to the origin are in use",
            Fault::OriginName => "the origin's name has no address",
            Fault::OriginConnect => "no connection to the origin",
            Fault::OriginConnectTimeout => "the origin did not accept a connection in time",
            Fault::OriginFirstByteTimeout => "the origin did not answer in time",
            Fault::OriginIdleTimeout => "the origin stopped sending",
            Fault::OriginBroke => "the origin closed the connection before its answer was whole",
            Fault::OriginAnswer(reason) => reason,
        }
    }

    /// Does the client's connection end with this answer? After a fault of form nobody knows
    /// where the next request would begin (RFC 9112 §2.2, §6.3).
    pub(crate) fn closes(self) -> bool {
        match self {
            Fault::TargetNotForwardable
            | Fault::NoSite
            | Fault::Loop
            | Fault::PurgeForbidden
            | Fault::PurgeTags
            | Fault::PurgeNoTags
            | Fault::OnlyIfCached => false,
            fault => fault.side() == Side::Client,
        }
    }

    /// The counter that goes up with it, beside the one of all faults.
    pub(crate) fn counter(self) -> Option<Counter> {
        match self {
            Fault::Request(_) | Fault::TargetNotForwardable | Fault::RequestBody => {
                Some(Counter::RequestsRefused)
            }
            Fault::NoSite
            | Fault::Loop
            | Fault::PurgeForbidden
            | Fault::PurgeTags
            | Fault::PurgeNoTags => Some(Counter::RequestsRefused),
            Fault::RequestBodyTooLarge => Some(Counter::BodiesTooLarge),
            Fault::HeadTimeout => Some(Counter::HeadTimeouts),
            Fault::TooSlow => Some(Counter::SlowClients),
            Fault::HitCut => Some(Counter::HitsCut),
            Fault::GaveWay => Some(Counter::GaveWay),
            Fault::Rules => Some(Counter::RulesFailed),
            Fault::OriginBusy => Some(Counter::OriginBusy),
            Fault::OriginName | Fault::OriginConnect | Fault::OriginConnectTimeout => {
                Some(Counter::OriginConnectErrors)
            }
            Fault::OriginFirstByteTimeout | Fault::OriginIdleTimeout => {
                Some(Counter::OriginTimeouts)
            }
            Fault::OriginBroke | Fault::OriginAnswer(_) => Some(Counter::OriginBadAnswers),
            // Counted where it is seen.
            Fault::PurgeBusy | Fault::PurgeElsewhere => None,
            Fault::ClientGone | Fault::OnlyIfCached | Fault::Internal => None,
        }
    }
}

impl Fault {
    /// The event that tells of a fault of the origin's side.
    pub(crate) fn event(self) -> Option<Event> {
        match self {
            Fault::OriginName | Fault::OriginConnect | Fault::OriginConnectTimeout => {
                Some(Event::OriginUnreachable)
            }
            Fault::OriginFirstByteTimeout | Fault::OriginIdleTimeout => Some(Event::OriginTimedOut),
            Fault::OriginBroke | Fault::OriginAnswer(_) => Some(Event::OriginBadAnswer),
            _ => None,
        }
    }
}

impl From<RequestError> for Fault {
    fn from(error: RequestError) -> Fault {
        Fault::Request(error)
    }
}
