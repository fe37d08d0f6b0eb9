//! The steps of a traced request, and the facts of each step as pairs of a name and a value.

use forebay_http::policy::cache_status::{CacheOutcome, CacheStatus};
use forebay_http::policy::reason::Detail;
use serde_json::{Value, json};

/// A step of a request. If Cache-Status has a word for a fact, that word is used.
#[derive(Debug)]
pub(crate) enum RequestStep {
    /// The head of the request is complete.
    Request,
    /// The site and the route are known.
    Route { site: String, shown_path: String },
    /// The key is known; `url` is the URL from which it was made.
    Key { url: String },
    /// The cache was looked up.
    Lookup(CacheStatus),
    /// The request leads a fetch, or joins the fetch of another request.
    Fetch(FetchStep),
    /// The request waits for a connection to the origin.
    Wait,
    /// The request has got a connection to the origin: a new connection, or one from the pool.
    Connection { is_new: bool },
    /// The origin has not answered, so the request goes to a second origin too.
    Hedge,
    /// The head of the origin's response is complete, `took_us` microseconds after the request was
    /// sent.
    Origin { status: u16, took_us: u64 },
    /// The exchange with the origin failed.
    OriginFailed { fault: &'static str },
    /// Whether the origin's response is stored.
    Store(StoreStep),
    /// A stale response is served in place of an error of the origin.
    Stale(CacheStatus),
    /// The response to the client begins; `source` says where it comes from.
    Response { source: &'static str },
    /// There is no response, or it broke off.
    Fault { fault: &'static str },
    /// The response is complete, or has broken off.
    End,
}

/// How a request takes part in a fetch that other requests may share.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FetchStep {
    /// The request leads a fetch.
    Leads,
    /// The request follows the fetch of another request.
    Follows,
    /// The request waited for a fetch, and uses its response.
    Joined,
    /// The request waited for a fetch, and is not allowed to use its response.
    NotUsed(Detail),
    /// The request waited for a fetch that failed.
    Failed,
    /// The request waited for a fetch, and looks up again. The fetch was for another variant, began
    /// too early, or was led by a request with a cookie and brought a response that must not be
    /// stored.
    Again,
    /// Another request has stored the response since this request's lookup.
    Found,
    /// An earlier response for the key was not stored, so the request goes to the origin by itself.
    Declined(Detail),
    /// The request goes to the origin by itself.
    Alone,
    /// A fetch in the background validates the stored response.
    Background,
}

/// The fate of an origin's response in the cache.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StoreStep {
    Stored,
    /// The origin has confirmed the stored response, whose head has been updated.
    Renewed,
    NotStored(Detail),
    /// The body was too long or too slow, or there was no room for it while it arrived.
    GivenUp,
    /// The body was incomplete, or could not be compressed.
    BrokenOff,
}

/// A fact of a step: a name and a value.
pub(super) type Fact = (&'static str, Value);

impl RequestStep {
    /// Returns the name of the step.
    pub(super) fn name(&self) -> &'static str {
        match self {
            RequestStep::Request => "request",
            RequestStep::Route { .. } => "route",
            RequestStep::Key { .. } => "key",
            RequestStep::Lookup(_) => "lookup",
            RequestStep::Fetch(_) => "fetch",
            RequestStep::Wait => "wait",
            RequestStep::Hedge => "hedge",
            RequestStep::Connection { .. } => "connection",
            RequestStep::Origin { .. } | RequestStep::OriginFailed { .. } => "origin",
            RequestStep::Store(_) => "store",
            RequestStep::Stale(_) => "stale",
            RequestStep::Response { .. } | RequestStep::Fault { .. } => "response",
            RequestStep::End => "end",
        }
    }

    /// Returns the facts of the step. The facts of the first and of the last step are in the access
    /// log entry of the record.
    pub(super) fn facts(&self) -> Vec<Fact> {
        match self {
            RequestStep::Request | RequestStep::Wait | RequestStep::Hedge | RequestStep::End => {
                Vec::new()
            }
            RequestStep::Route { site, shown_path } => {
                vec![("site", json!(site)), ("route", json!(shown_path))]
            }
            RequestStep::Key { url } => vec![("url", json!(url))],
            RequestStep::Lookup(status) | RequestStep::Stale(status) => {
                let mut facts = vec![("result", json!(outcome(status)))];
                facts.extend(status.ttl.map(|ttl| ("ttl", json!(ttl))));
                facts.extend(status.detail.map(detail));
                facts
            }
            RequestStep::Fetch(step) => step.facts(),
            RequestStep::Connection { is_new } => {
                vec![("result", json!(if *is_new { "new" } else { "reused" }))]
            }
            RequestStep::Origin { status, took_us } => {
                vec![("status", json!(status)), ("first_byte_us", json!(took_us))]
            }
            RequestStep::OriginFailed { fault } | RequestStep::Fault { fault } => {
                vec![("fault", json!(fault))]
            }
            RequestStep::Store(step) => step.facts(),
            RequestStep::Response { source } => vec![("source", json!(source))],
        }
    }
}

impl FetchStep {
    fn facts(self) -> Vec<Fact> {
        let (word, why) = match self {
            FetchStep::Leads => ("leads", None),
            FetchStep::Follows => ("follows", None),
            FetchStep::Joined => ("collapsed", None),
            FetchStep::NotUsed(why) => ("not-used", Some(why)),
            FetchStep::Failed => ("failed", None),
            FetchStep::Again => ("again", None),
            FetchStep::Found => ("found", None),
            FetchStep::Declined(why) => ("declined", Some(why)),
            FetchStep::Alone => ("alone", None),
            FetchStep::Background => ("background", None),
        };
        facts_of(word, why)
    }
}

impl StoreStep {
    fn facts(self) -> Vec<Fact> {
        let (word, why) = match self {
            StoreStep::Stored => ("stored", None),
            StoreStep::Renewed => ("renewed", None),
            StoreStep::NotStored(why) => ("not-stored", Some(why)),
            StoreStep::GivenUp => ("given-up", None),
            StoreStep::BrokenOff => ("broken-off", None),
        };
        facts_of(word, why)
    }
}

fn facts_of(word: &'static str, why: Option<Detail>) -> Vec<Fact> {
    let mut facts = vec![("result", json!(word))];
    facts.extend(why.map(detail));
    facts
}

fn detail(detail: Detail) -> Fact {
    ("detail", json!(detail.to_string()))
}

/// Returns the word for the outcome of a lookup: `hit`, the value of `fwd`, or `unused`.
fn outcome(status: &CacheStatus) -> &'static str {
    match status.outcome {
        CacheOutcome::Hit => "hit",
        CacheOutcome::Forwarded(reason) => reason.token(),
        CacheOutcome::NotForwarded | CacheOutcome::Unused => "unused",
    }
}
