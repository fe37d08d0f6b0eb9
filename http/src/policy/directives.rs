//! Cache-Control (RFC 9111 §5.2) and Pragma (§5.4).
//!
//! A directive that restricts caching applies whatever its argument is. If directives contradict
//! each other, the most restrictive directive applies. Unknown directives are ignored.

use crate::bytes::trim_space;
use crate::fields::{FieldId, FieldSet, Fields};
use crate::policy::lists;

/// Largest delta-seconds; larger values are clamped to it (RFC 9111 §1.2.2).
pub const DELTA_S_MAX: u32 = 1 << 31;

/// A request's directives about the use of stored responses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestDirectives {
    /// Validate a stored response before use. `Pragma: no-cache` means the same if there is no
    /// Cache-Control.
    pub no_cache: bool,
    /// Do not store the response.
    pub no_store: bool,
    /// Do not contact the origin.
    pub only_if_cached: bool,
    /// Whether the request has Authorization, which restricts caching (RFC 9111 §3.5), or the
    /// certificate of its client, whose response may be for this client as well (RFC 9440 §2.4).
    pub is_authorized: bool,
    /// Largest accepted age, in seconds.
    pub max_age: Option<u32>,
    /// Smallest accepted remaining freshness, in seconds.
    pub min_fresh: Option<u32>,
    /// Largest accepted staleness, in seconds; `u32::MAX` accepts any staleness.
    pub max_stale: Option<u32>,
    /// Largest accepted staleness if the origin fails, in seconds (RFC 5861 §4).
    pub stale_if_error: Option<u32>,
}

impl RequestDirectives {
    /// The directives of a request that has none.
    pub const EMPTY: RequestDirectives = RequestDirectives {
        no_cache: false,
        no_store: false,
        only_if_cached: false,
        is_authorized: false,
        max_age: None,
        min_fresh: None,
        max_stale: None,
        stale_if_error: None,
    };

    /// RFC 9111 §5.2.1.1 and §5.2.1.4: whether the request asks for a response that the origin
    /// sends or validates after the request was made.
    pub fn asks_validation(&self) -> bool {
        self.no_cache || self.max_age == Some(0)
    }

    /// Returns the directives without those that ask for a validation, for use after the validation
    /// has taken place.
    pub fn without_validation(self) -> RequestDirectives {
        let max_age = self.max_age.filter(|seconds| *seconds > 0);
        RequestDirectives { no_cache: false, max_age, ..self }
    }

    /// Returns the directives without those that refuse a fresh stored response. RFC 9111 §5.2.1
    /// leaves it to caches whether they obey the directives of requests.
    pub fn accepting_fresh(self) -> RequestDirectives {
        RequestDirectives { no_cache: false, max_age: None, min_fresh: None, ..self }
    }

    /// RFC 9111 §5.2.1 and §5.4: parses Cache-Control and Pragma of a request.
    pub fn parse(fields: Fields<'_>) -> RequestDirectives {
        use FieldId::{Authorization, CacheControl, ClientCert, Pragma};
        const BEARING: FieldSet = FieldSet::of(&[CacheControl, ClientCert, Pragma, Authorization]);
        let mut directives = RequestDirectives::EMPTY;
        if !fields.seen().intersects(BEARING) {
            return directives;
        }
        directives.is_authorized = fields.contains(Authorization)
            // A Client-Cert field that a peer has written says nothing about the client.
            || fields.iter().any(|field| field.id == ClientCert && field.is_ruled);
        for member in fields.all(CacheControl).flat_map(lists::members) {
            directives.add(Directive::parse(member));
        }
        // Pragma is the older form: if both are present, only Cache-Control counts.
        if !fields.contains(CacheControl) {
            let mut pragma = fields.all(Pragma).flat_map(lists::members);
            directives.no_cache = pragma.any(|member| Directive::parse(member).is(b"no-cache"));
        }
        directives
    }

    fn add(&mut self, directive: Directive<'_>) {
        if directive.is(b"no-cache") {
            self.no_cache = true;
        } else if directive.is(b"no-store") {
            self.no_store = true;
        } else if directive.is(b"only-if-cached") {
            self.only_if_cached = true;
        } else if directive.is(b"max-age") {
            self.max_age = Some(least(self.max_age, directive.delta_or_zero()));
        } else if directive.is(b"min-fresh") {
            self.min_fresh = self.min_fresh.max(directive.delta());
        } else if directive.is(b"max-stale") {
            self.add_max_stale(directive);
        } else if directive.is(b"stale-if-error") {
            self.stale_if_error = Some(least(self.stale_if_error, directive.delta_or_zero()));
        }
    }

    /// Adds `max-stale`: without an argument it accepts any staleness, and with a malformed
    /// argument it is ignored.
    fn add_max_stale(&mut self, directive: Directive<'_>) {
        let limit = match directive.argument {
            None => Some(u32::MAX),
            Some(_) => directive.delta(),
        };
        if let Some(limit) = limit {
            self.max_stale = Some(least(self.max_stale, limit));
        }
    }
}

/// A response's directives about storing and using the response. `no-transform` is not among them;
/// see [`forbids_transforming`](crate::policy::compression::forbids_transforming).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResponseDirectives {
    /// Do not store the response.
    pub no_store: bool,
    /// Validate before each use. A list of field names is ignored: the directive covers the whole
    /// response.
    pub no_cache: bool,
    /// Do not store the response in a shared cache. A list of field names is ignored: the directive
    /// covers the whole response.
    pub private: bool,
    /// A shared cache may store the response, even where the default forbids it.
    pub public: bool,
    /// Never use the response stale.
    pub must_revalidate: bool,
    /// Never use the response stale in a shared cache.
    pub proxy_revalidate: bool,
    /// Store the response only if the status code is understood. `no-store` is then ignored.
    pub must_understand: bool,
    /// Freshness lifetime in seconds.
    pub max_age: Option<u32>,
    /// Freshness lifetime in seconds in a shared cache.
    pub s_maxage: Option<u32>,
    /// Largest staleness in seconds while the response is validated in the background (RFC 5861
    /// §3).
    pub stale_while_revalidate: Option<u32>,
    /// Largest staleness in seconds if the origin fails (RFC 5861 §4).
    pub stale_if_error: Option<u32>,
}

impl ResponseDirectives {
    /// RFC 9111 §5.2.2: parses Cache-Control of a response.
    pub fn parse(fields: Fields<'_>) -> ResponseDirectives {
        let mut directives = ResponseDirectives::default();
        for member in fields.all(FieldId::CacheControl).flat_map(lists::members) {
            directives.add(Directive::parse(member));
        }
        directives
    }

    fn add(&mut self, directive: Directive<'_>) {
        if let Some(seconds) = self.seconds(directive.name) {
            *seconds = Some(least(*seconds, directive.delta_or_zero()));
        } else if let Some(flag) = self.flag(directive.name) {
            *flag = true;
        }
    }

    /// Returns the directive of this name if its value is a number of seconds.
    // RFC: 9111-5.2.2-1, 9111-5.2.3-1, 9213-2.2-5, 9213-2.2-10
    pub(super) fn seconds(&mut self, name: &[u8]) -> Option<&mut Option<u32>> {
        match name {
            _ if name.eq_ignore_ascii_case(b"max-age") => Some(&mut self.max_age),
            _ if name.eq_ignore_ascii_case(b"s-maxage") => Some(&mut self.s_maxage),
            _ if name.eq_ignore_ascii_case(b"stale-while-revalidate") => {
                Some(&mut self.stale_while_revalidate)
            }
            _ if name.eq_ignore_ascii_case(b"stale-if-error") => Some(&mut self.stale_if_error),
            _ => None,
        }
    }

    /// Returns the directive of this name if it needs no value.
    // RFC: 9111-5.2.2-1, 9111-5.2.2.7-2, 9111-5.2.3-1, 9213-2.2-6, 9213-2.2-7, 9213-2.2-8
    // RFC: 9213-2.2-9, 9213-2.2-10
    pub(super) fn flag(&mut self, name: &[u8]) -> Option<&mut bool> {
        let flags: [(&[u8], &mut bool); 7] = [
            (b"no-store", &mut self.no_store),
            (b"no-cache", &mut self.no_cache),
            (b"private", &mut self.private),
            (b"public", &mut self.public),
            (b"must-revalidate", &mut self.must_revalidate),
            (b"proxy-revalidate", &mut self.proxy_revalidate),
            (b"must-understand", &mut self.must_understand),
        ];
        let mut flags = flags.into_iter();
        flags.find_map(|(known, flag)| name.eq_ignore_ascii_case(known).then_some(flag))
    }

    /// RFC 9111 §4.2.4: whether the response must never be used stale. `s-maxage` implies that too
    /// (§5.2.2.10).
    // RFC: 9111-4.2.4-1, 9111-5.2.2.2-1, 9111-5.2.2.8-1, 9111-5.2.2.10-1
    pub fn forbids_stale(&self) -> bool {
        self.must_revalidate || self.proxy_revalidate || self.s_maxage.is_some()
    }

    /// RFC 9111 §3.5: whether the response to a request with Authorization may be used for other
    /// requests.
    // RFC: 9111-3-6, 9111-3.5-1
    pub fn permits_authorized(&self) -> bool {
        self.public || self.must_revalidate || self.s_maxage.is_some()
    }
}

/// One member of Cache-Control.
#[derive(Clone, Copy)]
struct Directive<'a> {
    name: &'a [u8],
    argument: Option<&'a [u8]>,
}

impl<'a> Directive<'a> {
    /// Parses one member. White space around `=` is not allowed: with it, the directive is still
    /// recognised, but its number counts as malformed.
    fn parse(member: &'a [u8]) -> Directive<'a> {
        let equals = memchr::memchr(b'=', member).unwrap_or(member.len());
        let (name, rest) = member.split_at_checked(equals).unwrap_or_default();
        let trimmed = trim_space(name);
        let has_space = trimmed.len() != name.len();
        let argument = rest.strip_prefix(b"=");
        Directive {
            name: trimmed,
            argument: argument.map(|argument| if has_space { b"" } else { argument }),
        }
    }

    fn is(self, name: &[u8]) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }

    fn delta(self) -> Option<u32> {
        self.argument.and_then(parse_delta)
    }

    /// Returns the argument in seconds, or 0 if it is malformed: RFC 9111 §4.2.1 recommends
    /// treating a response with malformed freshness as stale.
    fn delta_or_zero(self) -> u32 {
        self.delta().unwrap_or(0)
    }
}

/// Parses delta-seconds (RFC 9111 §1.2.2), given as a token or a quoted string (§5.2).
pub(crate) fn parse_delta(argument: &[u8]) -> Option<u32> {
    let inner = argument.strip_prefix(b"\"");
    let inner = inner.and_then(|rest| rest.strip_suffix(b"\""));
    parse_seconds(inner.unwrap_or(argument))
}

/// Parses delta-seconds (RFC 9111 §1.2.2).
pub(crate) fn parse_seconds(text: &[u8]) -> Option<u32> {
    let seconds = lists::saturating_decimal(text)?;
    Some(u32::try_from(seconds).map_or(DELTA_S_MAX, |seconds| seconds.min(DELTA_S_MAX)))
}

fn least(known: Option<u32>, new: u32) -> u32 {
    known.map_or(new, |known| known.min(new))
}
