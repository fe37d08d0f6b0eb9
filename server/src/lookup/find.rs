//! Finding a stored response and deciding whether it may be used.

use std::ops::Range;

use forebay_cache::{BaseRecord, LongBody, Lookup, RecordVersion, StoredBody, push_selector};
use forebay_http::fields::{FieldId, Fields};
use forebay_http::policy::range::{RangeDecision, byte_ranges, first_unit};
use forebay_http::policy::reason::{Detail, Reason};
use forebay_http::policy::reuse::{ForwardReason, ReuseDecision, judge};
use forebay_http::policy::stale::{StaleCause, may_serve_stale};
use forebay_http::policy::vary::{MatchRank, write_selector};
use forebay_http::request::Method;

use super::other_variants::other_variants;
use super::{
    ForwardPlan, Hit, LookupMode, LookupQuery, LookupResult, MissingPart, SelectedPart,
    StoredResponse, write_strong_tag,
};
use crate::parse::Request;

/// Looks up the response to a request; `variant` receives the request's selectors if the resource
/// has variants.
pub(crate) fn lookup<'w>(
    query: &LookupQuery<'w>,
    request: &Request<'_>,
    variant: &mut Vec<u8>,
) -> LookupResult<'w> {
    let ruled_out = query.is_ruled_out.then_some((ForwardReason::Bypass, Reason::RuledOut));
    if let Some((reason, detail)) = query.bypass.or(ruled_out) {
        return LookupResult::forward(ForwardPlan::unshared(reason, detail));
    }
    if !query.is_used {
        // Fetches in progress are not shared either, because a purge in the other process does not
        // reach them.
        return LookupResult::forward(ForwardPlan::unshared(ForwardReason::Miss, Reason::Upgrade));
    }
    variant.clear();
    let selected = select(query, request.head.fields(), variant);
    // A base record has at least one list of field names, and the request has a selector for each
    // list. So there are no selectors only if there are no variants.
    let varies = !variant.is_empty();
    let stored = match selected {
        Ok(stored) => stored,
        Err(reason) => return forward(query, request, (reason, varies), None),
    };
    let Some((part, missing)) = query.part(request, &stored, varies.then_some(&*variant)) else {
        return forward(query, request, (ForwardReason::Partial, varies), None);
    };
    let reason = match judge(&stored.meta, &request.directives, query.now) {
        ReuseDecision::Serve { age, ttl } if !stored.found.is_soft() => match missing {
            None => return LookupResult::Hit(Hit { stored, part, age, ttl }),
            Some((body, number)) => {
                return fill(request, &stored, varies, MissingFragment { body, number, ttl });
            }
        },
        // A soft purge has made the stored response stale.
        ReuseDecision::Serve { .. } => ForwardReason::Stale,
        ReuseDecision::Validate(reason) => reason,
    };
    forward(query, request, (reason, varies), Some(&stored))
}

impl LookupResult<'_> {
    /// The plan is boxed, so that moving a hit stays cheap.
    fn forward(plan: ForwardPlan) -> Self {
        LookupResult::Forward(Box::new(plan))
    }
}

/// The first fragment that is missing from a fresh response.
struct MissingFragment {
    body: LongBody,
    number: u32,
    ttl: i64,
}

/// Returns the plan for a request that a stored response can answer once a missing fragment is
/// fetched.
fn fill(
    request: &Request<'_>,
    stored: &StoredResponse<'_>,
    varies: bool,
    fragment: MissingFragment,
) -> LookupResult<'static> {
    if request.directives.no_store {
        let plan = ForwardPlan::unshared(ForwardReason::Partial, Reason::RequestNoStore);
        return LookupResult::forward(plan);
    }
    let mut tag = Vec::new();
    write_strong_tag(&stored.meta, stored.block(), &mut tag);
    let MissingFragment { body, number, ttl } = fragment;
    let missing = MissingPart { known: stored.found.version(), body, number, tag, ttl };
    LookupResult::forward(ForwardPlan {
        varies,
        missing: Some(missing),
        ..ForwardPlan::new(ForwardReason::Partial)
    })
}

/// Returns the stored response that answers the request although it is stale; `None` if no response
/// may be served for this cause. `variant` receives the selectors as in [`lookup`].
pub(crate) fn lookup_stale<'w>(
    query: &LookupQuery<'w>,
    request: &Request<'_>,
    variant: &mut Vec<u8>,
    cause: StaleCause,
) -> Option<Hit<'w>> {
    if query.bypass.is_some() || query.is_ruled_out || !query.is_used {
        return None;
    }
    variant.clear();
    let stored = select(query, request.head.fields(), variant).ok()?;
    let rules = query.route.settings.stale_rules();
    if !may_serve_stale(&stored.meta, &request.directives, &rules, cause, query.now) {
        return None;
    }
    let selected = query.part(request, &stored, (!variant.is_empty()).then_some(&*variant))?;
    // A missing part cannot be fetched, because the origin may not be able to send it.
    let (part, None) = selected else { return None };
    let age = stored.age(query.now);
    let ttl = i64::from(stored.meta.lifetime_s) - i64::from(age);
    // A soft purge makes a response stale before its lifetime ends.
    let ttl = if stored.found.is_soft() { ttl.min(0) } else { ttl };
    Some(Hit { stored, part, age, ttl })
}

/// Returns the stored response that a request selects, whether or not it may be used. `variant`
/// receives the selectors as in [`lookup`].
pub(crate) fn selected<'w>(
    query: &LookupQuery<'w>,
    request: &Request<'_>,
    variant: &mut Vec<u8>,
) -> Option<StoredResponse<'w>> {
    variant.clear();
    select(query, request.head.fields(), variant).ok()
}

/// Returns the stored response that the origin has just confirmed; `None` if the response is no
/// longer in the store.
// RFC: 9111-4.3.2-5
pub(crate) fn validated<'w>(
    query: &LookupQuery<'w>,
    request: &Request<'_>,
    variant: Option<&[u8]>,
    known: RecordVersion,
) -> Option<Hit<'w>> {
    let found = query.store.find_version(query.key, variant, known)?;
    let stored = StoredResponse::new(found)?;
    let (part, _) = query.part(request, &stored, variant)?;
    let age = stored.age(query.now);
    let ttl = i64::from(stored.meta.lifetime_s) - i64::from(age);
    Some(Hit { stored, part, age, ttl })
}

impl<'w> LookupQuery<'w> {
    /// Looks up the records of the key.
    #[inline]
    pub(crate) fn find(&self) -> Lookup<'w> {
        match self.mode {
            LookupMode::Answer => self.store.lookup(self.key),
            LookupMode::Inspect => self.store.inspect(self.key),
        }
    }

    /// Removes a record that cannot be used, unless the lookup only inspects the store.
    fn forget(&self, variant: Option<&[u8]>, version: RecordVersion) {
        if self.mode == LookupMode::Answer {
            self.store.forget(self.key, variant, version);
        }
    }

    /// Selects the part of a stored response that answers the request, and finds the first fragment
    /// of that part that is missing from the store. Returns `None` if the missing fragment cannot
    /// be fetched. In this case the whole response is removed, because the next request could not
    /// use it either.
    fn part(
        &self,
        request: &Request<'_>,
        stored: &StoredResponse<'_>,
        variant: Option<&[u8]>,
    ) -> Option<(SelectedPart, Option<(LongBody, u32)>)> {
        let part = SelectedPart::of(request, stored);
        let StoredBody::Long(long) = stored.found.body() else { return Some((part, None)) };
        let bytes = match part {
            SelectedPart::Body(RangeDecision::Parts) => {
                let parts = byte_ranges(request.head.fields(), long.bytes());
                let missing = |bytes: &Range<u64>| !self.store.has_fragments(&long, bytes.clone());
                parts.into_iter().find(missing).unwrap_or(0..0)
            }
            _ => part.bytes(long.bytes()),
        };
        if request.form.head_only || self.store.has_fragments(&long, bytes.clone()) {
            return Some((part, None));
        }
        if self.fills_missing(stored) {
            let missing = self.store.first_missing(&long, long.fragments(bytes));
            return Some((part, missing.map(|number| (long, number))));
        }
        self.forget(variant, stored.found.version());
        None
    }

    /// Whether missing parts of a stored body may be fetched. Without a strong entity tag, such a
    /// part could belong to another version.
    fn fills_missing(&self, stored: &StoredResponse<'_>) -> bool {
        let tag = stored.meta.etag(stored.block());
        self.route.settings.range_unit_bytes > 0
            && stored.meta.status == 200
            && tag.is_some_and(|tag| !tag.is_weak)
    }
}

/// Selects the stored response that matches the request. `variant` receives the request's
/// selectors.
// RFC: 9111-4-3, 9111-4.1-1, 9211-2.2-1
fn select<'w>(
    query: &LookupQuery<'w>,
    fields: Fields<'_>,
    variant: &mut Vec<u8>,
) -> Result<StoredResponse<'w>, ForwardReason> {
    let found = match query.find() {
        Lookup::Miss => return Err(ForwardReason::UriMiss),
        Lookup::Record(found) => found,
        Lookup::Base(base) => return select_variant(query, &base, fields, variant),
    };
    let known = found.version();
    let stored = StoredResponse::new(found).filter(|_| query.route.settings.keys_by(b""));
    stored.ok_or_else(|| {
        // Either another version of the server wrote the record, or the current settings add fields
        // to the key. The record is removed to make place for a new one.
        query.forget(None, known);
        ForwardReason::Miss
    })
}

/// Selects the best of the variants that match the request. `list` receives the request's
/// selectors.
// RFC: 9111-4.1-2, 9111-4-8
fn select_variant<'w>(
    query: &LookupQuery<'w>,
    base: &BaseRecord<'w>,
    fields: Fields<'_>,
    list: &mut Vec<u8>,
) -> Result<StoredResponse<'w>, ForwardReason> {
    let mut best: Option<(MatchRank, StoredResponse<'w>)> = None;
    for names in base.name_sets() {
        let mut is_valid = false;
        let at = push_selector(list, |list| {
            is_valid = write_selector(names, fields, list).is_some();
        });
        if !is_valid {
            return Err(ForwardReason::Miss);
        }
        let selector = list.get(at..).unwrap_or_default();
        let Some(found) = base.candidate(selector) else { continue };
        let known = found.version();
        let stored = StoredResponse::new(found).filter(|_| query.route.settings.keys_by(names));
        let Some(stored) = stored else {
            // A server of another version or with other settings wrote the record.
            query.forget(Some(list), known);
            continue;
        };
        let rank = MatchRank { varies: !names.is_empty(), date: stored.meta.date };
        if best.as_ref().is_none_or(|(best, _)| *best < rank) {
            best = Some((rank, stored));
        }
    }
    let (_, stored) = best.ok_or(ForwardReason::VaryMiss)?;
    base.count_use(&stored.found);
    Ok(stored)
}

/// Returns the plan for a request that goes to the origin. The response is not stored if the
/// request is a HEAD or has no-store. A response to a range request is stored in units.
fn forward(
    query: &LookupQuery<'_>,
    request: &Request<'_>,
    (reason, varies): (ForwardReason, bool),
    stale: Option<&StoredResponse<'_>>,
) -> LookupResult<'static> {
    let fields = request.head.fields();
    let is_range = fields.contains(FieldId::Range);
    let unit_bytes = query.route.settings.range_unit_bytes;
    let unit = match is_range && unit_bytes > 0 {
        true => first_unit(fields, query.store.whole_unit_bytes(unit_bytes)),
        false => None,
    };
    let not_stored = if request.head.method() != Method::Get {
        Some(Reason::Method)
    } else if request.directives.no_store {
        Some(Reason::RequestNoStore)
    } else {
        (is_range && unit.is_none()).then_some(Reason::Range)
    };
    let is_marked = |stored: &StoredResponse<'_>| {
        stored.found.is_soft() && stored.meta.stale_from() > query.now
    };
    let is_marked = reason == ForwardReason::Stale && stale.is_some_and(is_marked);
    let marked = is_marked.then_some(Reason::MarkedStale);
    let mut plan = ForwardPlan {
        detail: not_stored.or(marked).map(Detail::from),
        fills: not_stored.is_none() && !is_range,
        varies,
        is_stale: stale.is_some(),
        unit: unit.filter(|_| not_stored.is_none()),
        ..ForwardPlan::new(reason)
    };
    plan.stale = stale.filter(|_| plan.collapses()).map(StoredResponse::to_stale);
    if varies && plan.collapses() && query.route.settings.validate_variants {
        plan.others = other_variants(query, fields, stale);
    }
    LookupResult::forward(plan)
}
