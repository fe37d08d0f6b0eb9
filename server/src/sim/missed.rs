//! The list of missed reuses: requests that a stored response could have answered according to RFC
//! 9111, but that went to the origin or failed. For each such request, the server must give a
//! reason that its documentation explains. Events of the run explain most of the reasons.

use std::collections::BTreeMap;
use std::time::Duration;

use forebay_testkit::Response;
use tokio::time::Instant;

use super::answers::is_hit;
use super::ideal::{IdealLifetime, IdealReply, Permission, PermittedReuse};
use super::run::Run;
use super::scenario::{Act, ActKind, Ask};
use super::sending::SentRequest;
use super::world::{ERROR_S, ROUNDING_MS, STALE_IF_UNREACHABLE_S, kind_of};

/// The page that explains the words of Cache-Status.
const DOCUMENTED: &str = include_str!("../../../docs/why-a-miss.md");

/// The words for details that concern another response, or the fetch of another request. Such a
/// word may be followed by the word of a second detail.
const ABOUT_OTHERS: &[&str] =
    &["declined", "leader-failed", "not-followed", "not-reusable", "not-shared", "not-storable"];

/// A row of the list. It stands for all requests with the same reason, permission and cause.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MissedReuse {
    /// The values of `fwd` and `detail` in Cache-Status. A detail that only says why the new
    /// response is not stored is left out.
    pub(super) reason: String,
    pub(super) permission: Permission,
    /// The event of the run that explains why the stored response was not used.
    pub(super) cause: String,
}

/// The number of requests in each row.
pub(super) type MissedCounts = BTreeMap<MissedReuse, u64>;

/// Counters of the store and of fetches. Their changes explain why a response is not stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct StoreLedger {
    /// Responses that were evicted.
    pub(super) evicted: u64,
    /// Segments that were freed, so that their responses were removed.
    pub(super) reclaimed: u64,
    /// Responses for which there was no room, or that were too long.
    pub(super) refused: u64,
    /// Fetches that ended before their response was stored.
    pub(super) aborted: u64,
    /// Requests that were not sent again to an origin, because the retry budget was used up.
    pub(super) retries_refused: u64,
    /// Origins that were left out because they failed.
    pub(super) ejections: u64,
    /// Connections of clients that were closed because a worker had too many.
    pub(super) crowded_out: u64,
}

/// The beginning of an exchange with the origin.
#[derive(Clone, Copy, Debug)]
pub(super) struct FetchStart {
    pub(super) at: Instant,
    pub(super) ledger: StoreLedger,
}

/// Counts a GET or HEAD request. If the response is not a hit, records the reason that the server
/// gives, and adds the request to the list if a stored response could have answered it. The run
/// fails if the list would have a request without a documented reason.
pub(super) fn note(run: &Run, ask: &Ask, asked: &SentRequest, response: &Response) {
    if ask.post.is_some() {
        return;
    }
    run.requested.update(|count| count + 1);
    if is_hit(response) {
        return;
    }
    let member = response.field("cache-status").unwrap_or_default();
    note_exchange(run, response, member);
    let Some(reuse) = &asked.reuse else {
        return;
    };
    let has_failed = matches!(response.status, 500 | 502..=504);
    let is_disconnected = run.blame.was_unreachable(asked.began_ms);
    let Some((permission, left)) = reuse.permission(has_failed, is_disconnected) else {
        return;
    };
    let Some(reason) = reason_of(member) else {
        let head = &response.head;
        return run.fail(format!("a miss of {ask:?} has no documented reason: {head:?}"));
    };
    let missed = MissedRequest { run, ask, reuse, permission, left };
    let cause = missed.cause(&reason).unwrap_or_else(|| "unknown".to_owned());
    let row = MissedReuse { reason, permission, cause };
    *run.missed.borrow_mut().entry(row).or_default() += 1;
}

/// Records, for the exchange that brought a response, the word for the reason why the response was
/// not stored. Records an empty text if it was stored.
fn note_exchange(run: &Run, response: &Response, member: &str) {
    let exchange = response.field("x-exchange").and_then(|number| number.parse().ok());
    let (Some(exchange), false) = (exchange, member.contains("; collapsed")) else {
        return;
    };
    let is_stored = member.contains("; stored");
    let word = member.split_once("; detail=").filter(|_| !is_stored).map(|(_, word)| word);
    run.exchanges.borrow_mut().insert(exchange, word.unwrap_or_default().to_owned());
}

/// Returns the reason that a member of Cache-Status gives; `None` if one of its words is not
/// documented.
fn reason_of(member: &str) -> Option<String> {
    let value = |name: &str| {
        let mut parameters = member.split("; ").filter_map(|parameter| parameter.split_once('='));
        parameters.find(|(other, _)| *other == name).map(|(_, value)| value)
    };
    let forward = value("fwd")?;
    if !DOCUMENTED.contains(&format!("`fwd={forward}`")) {
        return None;
    }
    let Some(detail) = value("detail") else {
        return Some(forward.to_owned());
    };
    let second = ABOUT_OTHERS.iter().find_map(|word| detail.strip_prefix(&format!("{word}-")));
    if !DOCUMENTED.contains(&format!("`{}`", second.unwrap_or(detail))) {
        return None;
    }
    let is_about_others = ABOUT_OTHERS.iter().any(|word| detail.starts_with(word));
    Some(if is_about_others { format!("{forward}; {detail}") } else { forward.to_owned() })
}

/// A request that a stored response could have answered.
struct MissedRequest<'a> {
    run: &'a Run,
    ask: &'a Ask,
    reuse: &'a PermittedReuse,
    permission: Permission,
    /// How much longer the permission lasts.
    left: Duration,
}

impl MissedRequest<'_> {
    /// Returns the cause for which the stored response was not used; `None` if no event explains
    /// it.
    fn cause(&self, reason: &str) -> Option<String> {
        let reply = &self.reuse.reply;
        if let Some((_, detail)) = reason.split_once("; ") {
            return Some(format!("detail={detail}"));
        }
        let was_found = reason.starts_with("stale") || reason.starts_with("request");
        let found = was_found.then(|| self.cause_of_found(reply)).flatten();
        if let Some(cause) = found {
            return Some(cause.to_owned());
        }
        let exchanges = self.run.exchanges.borrow();
        match exchanges.get(&reply.event).map(String::as_str) {
            Some(word) if !word.is_empty() => return Some(format!("not stored: {word}")),
            None if self.cause_of_lost(reply).is_none() => {
                return Some("no client saw whether the response was stored".to_owned());
            }
            _ => {}
        }
        self.cause_of_lost(reply).map(str::to_owned)
    }

    /// Returns the cause for which a response was not used although it is still stored.
    fn cause_of_found(&self, reply: &IdealReply) -> Option<&'static str> {
        let MissedRequest { run, ask, reuse, permission, left } = *self;
        let age = Instant::now() - reply.start.at;
        let rounding = Duration::from_millis(ROUNDING_MS);
        let stepped = Duration::from_millis(run.world.borrow().stepped_ms);
        let unreachable = Duration::from_secs(STALE_IF_UNREACHABLE_S);
        let is_background = permission == Permission::StaleWhileRevalidate;
        let is_cut_off = permission == Permission::StaleDisconnected;
        let is_error = reply.status >= 400;
        let is_heuristic = reply.lifetime.0 == IdealLifetime::Heuristic;
        let is_old = |limit: Duration, age: Duration| age + rounding + stepped >= limit;
        first_of(&[
            (ask.no_cache, "the client says no-cache"),
            (reply.is_soft_purged, "purged softly"),
            (
                is_error && is_old(Duration::from_secs(ERROR_S), age),
                "errors stay fresh only briefly",
            ),
            (is_error && kind_of(ask.url).varies, "the response is an error without Vary"),
            (is_heuristic && reply.has_cookie, "no heuristic lifetime because of a cookie"),
            (left <= rounding, "lifetimes count in whole seconds"),
            (left <= rounding + stepped, "the run set the clock"),
            (is_cut_off && is_old(unreachable, reuse.stale), "stale for too long"),
            (is_cut_off && run.blame.was_faulty(ask.url, run.now_ms()), "the origin was reached"),
            (
                is_background && (ask.is_head || !ask.ranges.is_empty()),
                "HEAD and ranges start no background fetch",
            ),
        ])
    }

    /// Returns the cause for which a response was not stored, or is no longer stored.
    fn cause_of_lost(&self, reply: &IdealReply) -> Option<&'static str> {
        let MissedRequest { run, ask, .. } = *self;
        let (before, now) = (reply.first_start.ledger, run.ledger());
        let is_restart = |act: &Act| {
            let during = reply.first_start.at..=Instant::now();
            matches!(act.kind, ActKind::Restart { .. }) && during.contains(&run.at(act.at_ms))
        };
        let is_error = reply.status >= 400;
        first_of(&[
            (now.evicted > before.evicted || now.reclaimed > before.reclaimed, "evicted"),
            (now.refused > before.refused, "the store had no room"),
            (now.aborted > before.aborted, "a fetch was broken off"),
            (run.scenario.acts.iter().any(is_restart), "a worker ended"),
            (
                kind_of(ask.url).varies && run.scenario.variants_max < 4,
                "the run stores few variants",
            ),
            (reply.is_for_range, "the response arrived for range requests"),
            (reply.is_soft_purged, "purged softly on arrival"),
            (self.reuse.is_replaced, "a part of a later response replaced the response"),
            (self.reuse.is_new, "the response has just arrived"),
            (is_error && kind_of(ask.url).varies, "the response is an error without Vary"),
            (self.has_changed(), "the response changed while the request was answered"),
        ])
    }

    /// Whether, by the time at which the request has been answered, the response may no longer be
    /// used, or another response has to be used instead.
    fn has_changed(&self) -> bool {
        let state = |reuse: &PermittedReuse| (reuse.reply.event, reuse.reply.is_soft_purged);
        self.run.ideal.permitted(self.ask).as_ref().map(state) != Some(state(self.reuse))
    }
}

fn first_of(causes: &[(bool, &'static str)]) -> Option<&'static str> {
    causes.iter().find(|(is_so, _)| *is_so).map(|(_, cause)| *cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_has_only_documented_words() {
        for (member, reason) in [
            ("forebay; fwd=stale; fwd-status=304; ttl=3", Some("stale")),
            ("forebay; fwd=uri-miss; fwd-status=200; detail=range", Some("uri-miss")),
            ("forebay; fwd=request; detail=not-followed", Some("request; not-followed")),
            ("forebay; fwd=uri-miss; detail=declined-private", Some("uri-miss; declined-private")),
            ("forebay", None),
            ("forebay; fwd=because", None),
            ("forebay; fwd=stale; detail=because", None),
            ("forebay; fwd=stale; detail=declined-because", None),
        ] {
            assert_eq!(reason_of(member).as_deref(), reason, "{member}");
        }
    }
}
