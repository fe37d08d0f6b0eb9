//! The parts of an explanation.

use std::net::SocketAddr;

use forebay_http::policy::freshness::FreshnessLifetime;
use forebay_http::policy::meta::StoredMeta;
use forebay_http::policy::reason::Detail;
use forebay_http::policy::reuse::ValidationCause;
use forebay_http::policy::stale::{StaleCause, StaleRefusal};

use crate::config::{OriginHttp2, ProxyProtocol};
use crate::key::KeyText;
use crate::purger::PurgeKind;

/// How a request would be answered now.
#[derive(Debug)]
pub(crate) struct Explanation {
    pub(crate) request: RequestLine,
    pub(crate) steps: StepFacts,
    pub(crate) verdict: Verdict,
}

/// The results of the steps up to the verdict. The result of a step that the request does not reach
/// is `None` or empty.
#[derive(Debug, Default)]
pub(crate) struct StepFacts {
    pub(crate) rules: RuleFacts,
    /// The address at which the request arrives; `None` if it does not matter for the site.
    pub(crate) listener: Option<SocketAddr>,
    pub(crate) site: Option<SiteFacts>,
    /// The first sites and their hosts, if none of the sites serves the request.
    pub(crate) other_sites: Vec<String>,
    pub(crate) key: Option<KeyFacts>,
    pub(crate) stored: Option<StoredFacts>,
    /// For each cause of serving the stored response stale, whether that is permitted.
    pub(crate) stale_uses: Vec<StaleUse>,
}

/// The request as it was received.
#[derive(Debug)]
pub(crate) struct RequestLine {
    pub(crate) method: String,
    pub(crate) url: String,
}

/// The effect of the header rules that run before the lookup.
#[derive(Debug, Default)]
pub(crate) struct RuleFacts {
    /// Whether any rules ran.
    pub(crate) ran: bool,
    /// The URL after the rules changed it; `None` if they did not.
    pub(crate) url: Option<String>,
    /// Whether the rules changed fields of the request.
    pub(crate) changes_fields: bool,
}

/// The site and the route of the request.
#[derive(Debug)]
pub(crate) struct SiteFacts {
    pub(crate) site: String,
    pub(crate) origin: String,
    /// The file that answers in place of the origin, or the reason why there is none. `None` if the
    /// route has no `files`.
    pub(crate) file: Option<String>,
    /// The path and query that the origin gets, or the reason why it gets no request. `None` if
    /// they are those of the request, or if files answer.
    pub(crate) sent: Option<String>,
    /// The server's zone and its origins, which come first; `None` if zones have no effect.
    pub(crate) zone: Option<String>,
    /// Whether requests to the origin use HTTP/2.
    pub(crate) http2: OriginHttp2,
    /// The PROXY protocol in which the origin gets the client's address.
    pub(crate) proxy_protocol: ProxyProtocol,
    /// The paths of the route.
    pub(crate) path_prefix: String,
    /// The reasons why the request has this route, unless the paths of the route say so.
    pub(crate) route_reasons: Vec<String>,
    /// The checks of the client that the route makes. The explanation is for a client that passes.
    pub(crate) client_checks: Vec<&'static str>,
    /// Whether this worker considers the origin down: its last attempt to connect failed a short
    /// time ago.
    pub(crate) origin_is_down: bool,
    /// The reason for that failure, in the words of the logged event.
    pub(crate) origin_failure: Option<&'static str>,
}

/// The key of the request.
#[derive(Debug)]
pub(crate) struct KeyFacts {
    pub(crate) key: KeyText,
    /// The differences between the request and its normal form, from which the key is made.
    pub(crate) changes: Vec<&'static str>,
}

/// The stored responses of the key.
#[derive(Debug)]
pub(crate) struct StoredFacts {
    /// The stored variants, grouped by the field names in their Vary.
    pub(crate) vary: Vec<VaryFacts>,
    /// The response that the request selects.
    pub(crate) selected: Option<ResponseFacts>,
    /// The last known purge that covers the key.
    pub(crate) purge: Option<PurgeFacts>,
}

/// The variants of a key that have the same names in Vary.
#[derive(Debug)]
pub(crate) struct VaryFacts {
    /// The names in Vary; empty for a response without Vary.
    pub(crate) names: Vec<String>,
    /// The normalised values of the request, one for each name; `None` for a missing field.
    pub(crate) request: Vec<Option<String>>,
    pub(crate) variants: Vec<VariantFacts>,
}

impl VaryFacts {
    /// Returns the names of the fields in which a variant differs from the request.
    pub(crate) fn differing(&self, variant: &VariantFacts) -> Vec<&str> {
        let values = self.request.iter().zip(&variant.values);
        let names = self.names.iter().zip(values);
        let differing = names.filter(|(_, (request, stored))| request != stored);
        differing.map(|(name, _)| name.as_str()).collect()
    }
}

/// A stored variant.
#[derive(Debug)]
pub(crate) struct VariantFacts {
    /// The normalised values of the request for which the variant was stored, one for each name.
    pub(crate) values: Vec<Option<String>>,
    /// Whether this variant answers the request. Several variants may match, but one is selected.
    pub(crate) is_selected: bool,
}

/// A stored response that matches the request.
#[derive(Debug)]
pub(crate) struct ResponseFacts {
    pub(crate) meta: StoredMeta,
    pub(crate) body_bytes: u64,
    pub(crate) etag: Option<String>,
    pub(crate) tags: Vec<String>,
    /// Whether a soft purge or a HEAD has made the response stale before its time.
    pub(crate) is_soft: bool,
    pub(crate) lifetime: LifetimeFacts,
    pub(crate) age_s: u32,
    /// The reason why the response needs validation before this request may use it.
    pub(crate) validation: Option<ValidationCause>,
}

impl ResponseFacts {
    /// Returns the seconds of freshness that are left; negative if the response is stale.
    pub(crate) fn fresh_s(&self) -> i64 {
        i64::from(self.meta.lifetime_s) - i64::from(self.age_s)
    }
}

/// The freshness lifetime of a stored response, and its source.
#[derive(Debug)]
pub(crate) struct LifetimeFacts {
    /// The lifetime that the stored fields give with the current settings.
    pub(crate) present: FreshnessLifetime,
    /// The calculation of the current lifetime.
    pub(crate) sum: String,
    /// Whether the stored lifetime is the current one, less at most the permitted jitter. Otherwise
    /// the settings have changed since the response was stored, or the stored fields no longer show
    /// where the lifetime comes from.
    pub(crate) is_present: bool,
}

/// Whether the stored response may be served stale for one cause.
#[derive(Debug)]
pub(crate) struct StaleUse {
    pub(crate) cause: StaleCause,
    /// The largest permitted staleness in seconds, or the reason why the response is never served
    /// stale for this cause.
    pub(crate) limit: Result<u32, StaleRefusal>,
    /// Whether the response could be served stale now.
    pub(crate) is_permitted: bool,
}

/// A purge that covers a key.
#[derive(Debug)]
pub(crate) struct PurgeFacts {
    /// The URLs that the purge covered.
    pub(crate) covered: String,
    /// The kind of the purge; `None` if another process made it.
    pub(crate) kind: Option<PurgeKind>,
    /// The number of later purges.
    pub(crate) later: u64,
}

/// The answer that the request would get.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) kind: AnswerKind,
    /// The value of Cache-Status, without members that depend on the origin's answer; `None` if the
    /// cache would not be used.
    pub(crate) cache_status: Option<String>,
}

/// How the request would be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerKind {
    /// The request is refused.
    Refused { status: u16, reason: &'static str },
    /// This server answers without the cache; the text names the answer.
    Local(&'static str),
    /// A stored response answers, with this status.
    Hit { status: u16 },
    /// A stale stored response answers.
    Stale(StaleCause),
    /// The stored response is validated with the origin.
    Validate,
    /// The response is fetched and stored if its fields permit it.
    Fetch,
    /// A missing part of the response is fetched and stored.
    FetchPart,
    /// The request waits for the fetch of another request.
    Follow,
    /// The request goes to the origin by itself, because the response to an earlier fetch was not
    /// stored. `left_ms` is how long this still applies, in milliseconds.
    Declined { left_ms: u64 },
    /// The request is passed to the origin, and the response is not stored.
    Pass(Option<Detail>),
}

impl AnswerKind {
    /// Returns the word that stands for this kind of answer.
    pub(crate) fn word(self) -> &'static str {
        match self {
            AnswerKind::Refused { .. } => "refused",
            AnswerKind::Local(_) => "local",
            AnswerKind::Hit { .. } => "hit",
            AnswerKind::Stale(_) => "stale",
            AnswerKind::Validate => "validate",
            AnswerKind::Fetch => "miss",
            AnswerKind::FetchPart => "partial",
            AnswerKind::Follow => "collapsed",
            AnswerKind::Declined { .. } => "declined",
            AnswerKind::Pass(_) => "pass",
        }
    }
}
