//! A cache with unlimited room that does all that RFC 9111 permits: it stores each response that
//! may be stored, and knows which requests it could answer. It is written from the text of the RFC,
//! reads fields as text, and shares no policy code with the server.
//!
//! The cache stores responses to GET that arrived completely, and the parts in responses with
//! status 206; parts with the same strong entity tag are combined (§3.4). The RFC does not define
//! purges: they make this cache forget the purged responses.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;

use forebay_testkit::Request;
use tokio::time::Instant;

use super::heads::HeadLog;
use super::missed::{FetchStart, StoreLedger};
use super::ranges::satisfiable;
use super::reply::{OriginReply, url_of};
use super::scenario::Ask;
use super::wire::Arrival;

/// How long after an invalidation the server may still remove a response because of it. The server
/// invalidates in steps, so it may remove a response that has just arrived.
const INVALIDATION_STEPS: Duration = Duration::from_millis(50);

/// The statuses that are heuristically cacheable (RFC 9110 §15.1), except 206.
const HEURISTIC_STATUSES: &[u16] = &[200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501];

/// A heuristic lifetime is the time since `Last-Modified` divided by this number (§4.2.2).
const HEURISTIC_DIVISOR: u32 = 10;

/// The source of a response's freshness lifetime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IdealLifetime {
    Explicit,
    Heuristic,
}

/// A response that the cache stores, or is about to store.
#[derive(Clone, Debug)]
pub(super) struct IdealReply {
    url: usize,
    /// The number of the event that brought the response. Responses and invalidations share one
    /// sequence in a run.
    pub(super) event: u64,
    pub(super) status: u16,
    /// The beginning of the exchange, from which the response's age is counted (§4.2.3).
    pub(super) start: FetchStart,
    pub(super) replied: Instant,
    /// The beginning of the exchange that brought the first of the combined parts.
    pub(super) first_start: FetchStart,
    /// Whether the request had a cookie.
    pub(super) has_cookie: bool,
    /// Whether the request was for a range.
    pub(super) is_for_range: bool,
    pub(super) lifetime: (IdealLifetime, Duration),
    /// The times for which the response may be used stale (RFC 5861 §3, §4).
    stale_while_revalidate: Duration,
    stale_if_error: Duration,
    must_revalidate: bool,
    pub(super) tag: Option<String>,
    /// Whether a response to HEAD shows that there is another version (§4.3.5).
    is_outdated: bool,
    /// The fields that Vary names, with the values that they have in the request.
    varied: Vec<(String, Option<String>)>,
    /// The stored parts of the body. For each part: the offset of its first byte, and the offset
    /// after its last byte.
    parts: Vec<(usize, usize)>,
    body_bytes: usize,
    /// The times at which the response and the earlier responses that it updates arrived at the
    /// server.
    arrivals: Vec<Arrival>,
    pub(super) is_soft_purged: bool,
}

/// The effect of a response on the cache.
pub(super) enum IdealUse {
    /// The response is stored once it has arrived.
    Store(Box<IdealReply>),
    /// The response to an unsafe request invalidates the URL (§4.4).
    Invalidate(PendingRemoval),
}

/// A removal of all responses of a URL, in progress or completed.
#[derive(Clone, Debug)]
pub(super) struct PendingRemoval {
    event: u64,
    is_soft: bool,
    /// The time at which the removal ended; not set while the removal is in progress.
    ended: Arrival,
}

impl PendingRemoval {
    /// Whether the removal may have removed a response, judging by the time at which the response
    /// was sent. A removal in progress may remove any response.
    fn concerns(&self, reply: &IdealReply) -> bool {
        let is_later = |ended: Instant| reply.replied > ended + INVALIDATION_STEPS;
        reply.event < self.event || !self.ended.get().is_some_and(is_later)
    }

    pub(super) fn end(&self) {
        self.ended.set(Some(Instant::now()));
    }
}

/// A reuse that the RFC permits: the stored response that may answer a request at a certain moment,
/// without asking the origin.
#[derive(Clone, Debug)]
pub(super) struct PermittedReuse {
    pub(super) reply: Box<IdealReply>,
    /// The remaining time for which the response is fresh.
    pub(super) fresh: Duration,
    /// The time for which the response has been stale.
    pub(super) stale: Duration,
    /// Whether the response has arrived only at this moment, so that the server may not have stored
    /// it yet.
    pub(super) is_new: bool,
    /// Whether a later response that matches the request has arrived, but does not answer it.
    pub(super) is_replaced: bool,
}

/// A rule of RFC 9111 or RFC 5861 that permits the reuse of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Permission {
    /// The response is fresh (§4.2).
    Fresh,
    /// The response is fresh, according to a heuristic (§4.2.2).
    FreshByHeuristic,
    /// The response may be used while it is validated (RFC 5861 §3).
    StaleWhileRevalidate,
    /// The response may be used because the origin answered with an error (RFC 5861 §4).
    StaleIfError,
    /// The response may be used because the origin cannot be reached (§4.2.4).
    StaleDisconnected,
}

impl PermittedReuse {
    /// Returns the permission, and how much longer it lasts. Returns `None` if the response may be
    /// reused only after a failure of the origin, and the origin did not fail.
    pub(super) fn permission(
        &self,
        has_failed: bool,
        is_disconnected: bool,
    ) -> Option<(Permission, Duration)> {
        let IdealReply { stale_while_revalidate, stale_if_error, .. } = *self.reply;
        if !self.fresh.is_zero() {
            let permission = match self.reply.lifetime.0 {
                IdealLifetime::Explicit => Permission::Fresh,
                IdealLifetime::Heuristic => Permission::FreshByHeuristic,
            };
            return Some((permission, self.fresh));
        }
        let stale_until = |limit: Duration, permission| {
            Some((
                permission,
                limit.checked_sub(self.stale).filter(|_| !self.reply.must_revalidate)?,
            ))
        };
        let if_error = (has_failed && !stale_if_error.is_zero()).then_some(stale_if_error);
        stale_until(stale_while_revalidate, Permission::StaleWhileRevalidate)
            .or_else(|| stale_until(if_error?, Permission::StaleIfError))
            .filter(|(_, left)| !left.is_zero())
            .or_else(|| {
                let is_cut_off = has_failed && is_disconnected;
                stale_until(is_cut_off.then_some(Duration::MAX)?, Permission::StaleDisconnected)
            })
    }
}

/// The stored responses of the cache, and the removals during a run.
#[derive(Default)]
pub(super) struct IdealCache {
    stored: RefCell<BTreeMap<usize, Vec<IdealReply>>>,
    removals: RefCell<BTreeMap<usize, Vec<PendingRemoval>>>,
    event_count: Cell<u64>,
    pub(super) heads: HeadLog,
}

impl IdealCache {
    fn event(&self) -> u64 {
        self.event_count.update(|count| count + 1);
        self.event_count.get()
    }

    /// Begins to remove all responses of a URL.
    pub(super) fn remove(&self, url: usize, is_soft: bool) -> PendingRemoval {
        let removal = PendingRemoval { event: self.event(), is_soft, ended: Arrival::default() };
        self.removals.borrow_mut().entry(url).or_default().push(removal.clone());
        removal
    }

    /// Interprets a response that the origin is about to send. Returns `None` if the cache ignores
    /// it. Adds the number of the exchange to a response that the cache stores, and begins the
    /// removal if the response invalidates its URL.
    pub(super) fn reply(
        &self,
        request: &Request,
        answer: &mut OriginReply,
        start: FetchStart,
    ) -> Option<IdealUse> {
        let url = url_of(request)?;
        let fields = ReplyFields(&answer.head);
        let status = fields.status();
        // §4.4: a response to an unsafe method invalidates the URL, unless it is an error.
        if !matches!(request.method.as_str(), "GET" | "HEAD") {
            return (status < 400).then(|| IdealUse::Invalidate(self.remove(url, false)));
        }
        let reply = fields.storable(request, answer.body.len())?;
        let reply = IdealReply { url, event: self.event(), start, first_start: start, ..reply };
        answer.number(reply.event);
        if request.method == "HEAD" {
            self.heads.note_asked(reply.event, start.at);
        }
        Some(IdealUse::Store(Box::new(reply)))
    }

    /// Stores a response that is complete at `arrival`, or updates the stored responses that it
    /// confirms.
    pub(super) fn take(&self, method: &str, replied: Option<IdealUse>, arrival: Arrival) {
        match replied {
            None => {}
            Some(IdealUse::Invalidate(removal)) => {
                // The removal ends when the response arrives.
                let mut removals = self.removals.borrow_mut();
                let all = removals.values_mut().flatten();
                all.filter(|other| other.event == removal.event)
                    .for_each(|other| other.ended = arrival.clone());
            }
            Some(IdealUse::Store(mut reply)) => {
                reply.arrivals = vec![arrival];
                let mut stored = self.stored.borrow_mut();
                let stored = stored.entry(reply.url).or_default();
                let is_update = reply.status == 304 || method == "HEAD";
                let confirmed = |old: &&IdealReply| {
                    reply.tag.is_some() && old.tag == reply.tag && old.varied == reply.varied
                };
                // §3.4, §4.3.4, §4.3.5: the latest stored response with the same entity tag is
                // updated.
                match stored.iter().rfind(confirmed) {
                    Some(old) if is_update || reply.status == 206 => {
                        reply.parts.extend(&old.parts);
                        reply.arrivals.extend(old.arrivals.iter().cloned());
                        reply.body_bytes = reply.body_bytes.max(old.body_bytes);
                        reply.status = old.status;
                        reply.first_start = old.first_start;
                    }
                    None if is_update => {
                        let is_same = |old: &&mut IdealReply| old.varied == reply.varied;
                        let other = stored.iter_mut().filter(is_same);
                        other.for_each(|old| old.is_outdated |= reply.status == 200);
                        return;
                    }
                    _ => {}
                }
                stored.push(*reply);
            }
        }
    }

    /// Returns the stored response that the given exchange brought.
    pub(super) fn stored(&self, url: usize, exchange: u64) -> Option<IdealReply> {
        let stored = self.stored.borrow();
        stored.get(&url)?.iter().find(|reply| reply.event == exchange).cloned()
    }

    /// Returns the reuse that §4 permits for a request at this moment. A no-cache in the request is
    /// ignored, because a cache is not required to obey it.
    pub(super) fn permitted(&self, ask: &Ask) -> Option<PermittedReuse> {
        let now = Instant::now();
        let stored = self.stored.borrow();
        let has_arrived = |reply: &&IdealReply| {
            reply.arrivals.iter().all(|arrival| arrival.get().is_some_and(|at| at <= now))
        };
        let suits = |reply: &&IdealReply| reply.matches(ask) && reply.covers(ask);
        let stored_here = stored.get(&ask.url).into_iter().flatten();
        let usable = stored_here.filter(has_arrived).filter(suits).filter(|it| !it.is_outdated);
        let removals = self.removals.borrow();
        let removals = removals.get(&ask.url).map_or(&[][..], Vec::as_slice);
        let is_left = |reply: &&IdealReply| {
            !removals.iter().any(|removal| !removal.is_soft && removal.concerns(reply))
        };
        // §4, §4.1: of the suitable responses, those with Vary take precedence, then the most
        // recent one.
        let rank = |reply: &&IdealReply| (!reply.varied.is_empty(), reply.event);
        let mut reply = usable.filter(is_left).max_by_key(rank)?.clone();
        reply.is_soft_purged = removals.iter().any(|removal| removal.concerns(&reply));
        let age = now - reply.start.at;
        let (_, lifetime) = reply.lifetime;
        let (fresh, stale) = (lifetime.saturating_sub(age), age.saturating_sub(lifetime));
        let is_new = reply.arrivals.iter().any(|arrival| arrival.get() == Some(now));
        let mut later = stored.get(&ask.url).into_iter().flatten().filter(has_arrived);
        let is_replaced = later.any(|other| other.event > reply.event && other.matches(ask));
        Some(PermittedReuse { reply: Box::new(reply), fresh, stale, is_new, is_replaced })
    }
}

impl IdealReply {
    /// Whether a request has the same values as the stored response in the fields that Vary names
    /// (§4.1). The values are compared in normal form, because clients write the same language in
    /// several ways.
    pub(super) fn matches(&self, ask: &Ask) -> bool {
        self.varied.iter().all(|(name, value)| match name.as_str() {
            "accept-language" => value.as_deref().unwrap_or_default() == ask.language,
            "x-theme" => value.as_deref().unwrap_or_default() == ask.theme,
            _ => value.is_none(),
        })
    }

    /// Whether two requests agree in the fields by which the response varies.
    pub(super) fn selects_alike(&self, left: &Ask, right: &Ask) -> bool {
        self.varied.iter().all(|(name, _)| match name.as_str() {
            "accept-language" => left.language == right.language,
            "x-theme" => left.theme == right.theme,
            _ => true,
        })
    }

    /// Whether the stored parts of the body suffice to answer the request.
    fn covers(&self, ask: &Ask) -> bool {
        let ranges = match ask.is_head || self.status >= 400 {
            true => Vec::new(),
            false => satisfiable(&ask.ranges, self.body_bytes),
        };
        match ranges.is_empty() {
            true => self.has_bytes(0, self.body_bytes),
            false => ranges.iter().all(|(first, last)| self.has_bytes(*first, last + 1)),
        }
    }

    fn has_bytes(&self, mut from: usize, to: usize) -> bool {
        while from < to {
            let next = self.parts.iter().filter(|(first, _)| *first <= from).map(|(_, end)| *end);
            match next.max() {
                Some(next) if next > from => from = next,
                _ => return false,
            }
        }
        true
    }

    /// Whether the server had received the whole response before this time.
    pub(super) fn has_arrived_before(&self, at: Instant) -> bool {
        let mut arrivals = self.arrivals.iter();
        arrivals.all(|arrival| arrival.get().is_some_and(|arrived| arrived < at))
    }
}

/// The head of a response, as text.
struct ReplyFields<'a>(&'a str);

impl ReplyFields<'_> {
    fn status(&self) -> u16 {
        self.0.get(9..12).and_then(|code| code.parse().ok()).unwrap_or(0)
    }

    fn field(&self, name: &str) -> Option<&str> {
        let mut lines = self.0.split("\r\n").filter_map(|line| line.split_once(": "));
        lines.find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// Returns the directives of CDN-Cache-Control if it is a Dictionary (RFC 9213 §2.2), otherwise
    /// those of Cache-Control.
    fn directives(&self) -> &str {
        let is_member = |member: &str| {
            let (_, value) = member.trim().split_once('=').unwrap_or(("", "0"));
            value.bytes().all(|byte| byte.is_ascii_digit())
        };
        let targeted = self.field("CDN-Cache-Control");
        let targeted = targeted.filter(|value| value.split(',').all(is_member));
        targeted.or(self.field("Cache-Control")).unwrap_or_default()
    }

    fn has(&self, directive: &str) -> bool {
        self.directives().split(',').any(|other| other.trim() == directive)
    }

    fn seconds(&self, directive: &str) -> Option<Duration> {
        let values = self.directives().split(',').filter_map(|other| other.trim().split_once('='));
        let mut values = values.filter(|(name, _)| *name == directive).map(|(_, value)| value);
        values.next()?.parse().ok().map(Duration::from_secs)
    }

    /// Returns the lifetime for a shared cache (§4.2.1), or the heuristic lifetime (§4.2.2).
    fn lifetime(&self) -> Option<(IdealLifetime, Duration)> {
        let explicit = self.seconds("s-maxage").or(self.seconds("max-age"));
        if let Some(lifetime) = explicit {
            return Some((IdealLifetime::Explicit, lifetime));
        }
        if !HEURISTIC_STATUSES.contains(&self.status()) {
            return None;
        }
        let modified = forebay_http::date::parse_date(self.field("Last-Modified")?.as_bytes())?;
        let since = Duration::from_secs(crate::clock::unix_seconds().saturating_sub(modified));
        Some((IdealLifetime::Heuristic, since / HEURISTIC_DIVISOR))
    }

    /// Returns the response in the form in which it is stored; `None` unless a shared cache may
    /// store the response and use it without validation (§3, §3.5).
    fn storable(&self, request: &Request, body_bytes: usize) -> Option<IdealReply> {
        let forbids = ["no-store", "private", "no-cache"];
        if forbids.iter().any(|directive| self.has(directive)) {
            return None;
        }
        let s_maxage = self.seconds("s-maxage");
        let must_revalidate =
            self.has("must-revalidate") || self.has("proxy-revalidate") || s_maxage.is_some();
        let permits_authorized = self.has("public") || self.has("must-revalidate");
        if request.head.has("authorization") && !permits_authorized && s_maxage.is_none() {
            return None;
        }
        let names = self.field("Vary").unwrap_or_default().split(',').map(str::trim);
        let names = names.filter(|name| !name.is_empty()).map(str::to_lowercase);
        let varied = names.map(|name| {
            let value = request.head.field(&name).map(str::to_owned);
            (name, value)
        });
        let varied: Vec<_> = varied.collect();
        if varied.iter().any(|(name, _)| name == "*") {
            return None;
        }
        let (parts, body_bytes) = self.part(&request.method, body_bytes)?;
        let now = Instant::now();
        let start = FetchStart { at: now, ledger: StoreLedger::default() };
        Some(IdealReply {
            url: 0,
            event: 0,
            status: self.status(),
            start,
            first_start: start,
            replied: now,
            has_cookie: request.head.has("cookie"),
            is_for_range: request.head.has("range"),
            lifetime: self.lifetime()?,
            stale_while_revalidate: self.seconds("stale-while-revalidate").unwrap_or_default(),
            stale_if_error: self.seconds("stale-if-error").unwrap_or_default(),
            must_revalidate,
            is_outdated: false,
            tag: self.field("ETag").filter(|tag| tag.starts_with('"')).map(str::to_owned),
            varied,
            parts,
            body_bytes,
            arrivals: Vec::new(),
            is_soft_purged: false,
        })
    }

    /// Returns the part of the body that is in the response, and the length of the whole body.
    fn part(&self, method: &str, body_bytes: usize) -> Option<(Vec<(usize, usize)>, usize)> {
        if self.status() == 206 {
            let range = self.field("Content-Range")?.strip_prefix("bytes ")?;
            let (range, whole) = range.split_once('/')?;
            let (first, last) = range.split_once('-')?;
            let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
            return Some((vec![(first, last + 1)], whole.parse().ok()?));
        }
        if method == "HEAD" || self.status() == 304 {
            return Some((Vec::new(), 0));
        }
        Some((vec![(0, body_bytes)], body_bytes))
    }
}
