//! Finding a stored response and deciding whether it may be used.

use forebay_cache::{Lookup, RecordVersion, StoredBody};
use forebay_http::fields::{FieldId, Fields};
use forebay_http::policy::reason::{Detail, Reason};
use forebay_http::policy::reuse::{ForwardReason, ReuseDecision, judge};
use forebay_http::policy::stale::{StaleCause, may_serve_stale};
use forebay_http::policy::vary::{FieldNames, secondary_key};
use forebay_http::request::Method;

use super::bypass::bypass;
use super::{
    ForwardPlan, Hit, LookupMode, LookupQuery, LookupResult, SelectedPart, StoredResponse,
};
use crate::parse::Request;

/// Looks a request up; `variant` receives its secondary key if the resource has variants.
pub(crate) fn lookup<'w>(
    query: &LookupQuery<'w>,
    request: &Request<'_>,
    variant: &mut Vec<u8>,
) -> LookupResult<'w> {
    let ruled_out = query.is_ruled_out.then_some((ForwardReason::Bypass, Reason::RuledOut));
    if let Some((reason, detail)) = bypass(request, query.route).or(ruled_out) {
        return LookupResult::Forward(ForwardPlan::around_the_store(reason, detail));
    }
    if !query.is_used {
        // A fetch in progress is not shared either: a purge in the other process does not reach it.
        let plan = ForwardPlan::around_the_store(ForwardReason::Miss, Reason::Upgrade);
        return LookupResult::Forward(plan);
    }
    variant.clear();
    let selected = select(query, request.head.fields(), variant);
    // A secondary key has bytes for each name, so it is empty only without variants.
    let varies = !variant.is_empty();
    let stored = match selected {
        Ok(stored) => stored,
        Err(reason) => return forward(request, reason, varies, None),
    };
    let Some(part) = query.part(request, &stored, varies.then_some(&*variant)) else {
        return forward(request, ForwardReason::Partial, varies, None);
    };
    match judge(&stored.meta, &request.directives, query.now) {
        ReuseDecision::Serve { age, ttl } if !stored.found.is_soft() => {
            LookupResult::Hit(Hit { stored, part, age, ttl })
        }
        // A soft purge has made the stored response stale.
        ReuseDecision::Serve { .. } => {
            forward(request, ForwardReason::Stale, varies, Some(&stored))
        }
        ReuseDecision::Validate(reason) => forward(request, reason, varies, Some(&stored)),
    }
}

/// Returns the stored response that answers the request although it is stale; `None` if there is
/// none that may be served for this cause. `variant` receives the secondary key as in [`lookup`].
pub(crate) fn lookup_stale<'w>(
    query: &LookupQuery<'w>,
    request: &Request<'_>,
    variant: &mut Vec<u8>,
    cause: StaleCause,
) -> Option<Hit<'w>> {
    if bypass(request, query.route).is_some() || query.is_ruled_out || !query.is_used {
        return None;
    }
    variant.clear();
    let stored = select(query, request.head.fields(), variant).ok()?;
    let rules = query.route.settings.stale_rules();
    if !may_serve_stale(&stored.meta, &request.directives, &rules, cause, query.now) {
        return None;
    }
    let part = query.part(request, &stored, (!variant.is_empty()).then_some(&*variant))?;
    let age = stored.age(query.now);
    let ttl = i64::from(stored.meta.lifetime_s) - i64::from(age);
    // A soft purge makes a response stale before its time.
    let ttl = if stored.found.is_soft() { ttl.min(0) } else { ttl };
    Some(Hit { stored, part, age, ttl })
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
    let part = query.part(request, &stored, variant)?;
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

    /// Removes a record that is of no use.
    fn forget(&self, variant: Option<&[u8]>, version: RecordVersion) {
        if self.mode == LookupMode::Answer {
            self.store.forget(self.key, variant, version);
        }
    }

    /// Selects the part of a stored response that answers the request. Returns `None` if a fragment
    /// of that part is no longer in the store; then the whole response is removed, because it would
    /// be of no use to the next request either.
    fn part(
        &self,
        request: &Request<'_>,
        stored: &StoredResponse<'_>,
        variant: Option<&[u8]>,
    ) -> Option<SelectedPart> {
        let part = SelectedPart::of(request, stored);
        if let StoredBody::Long(long) = stored.found.body()
            && !request.form.head_only
            && !self.store.has_fragments(&long, part.bytes(long.bytes()))
        {
            self.forget(variant, stored.found.version());
            return None;
        }
        Some(part)
    }
}

// RFC: 9111-4-3, 9111-4.1-1, 9211-2.2-1
fn select<'w>(
    query: &LookupQuery<'w>,
    fields: Fields<'_>,
    variant: &mut Vec<u8>,
) -> Result<StoredResponse<'w>, ForwardReason> {
    let found = match query.find() {
        Lookup::Miss => return Err(ForwardReason::UriMiss),
        Lookup::Record(found) => found,
        Lookup::Base(base) => {
            let names = FieldNames::decode(base.names()).ok_or(ForwardReason::Miss)?;
            secondary_key(names, fields, variant);
            base.variant(variant).ok_or(ForwardReason::VaryMiss)?
        }
    };
    let known = found.version();
    StoredResponse::new(found).ok_or_else(|| {
        // Another version of the server wrote the record. It is removed, so that a new record can
        // be stored.
        query.forget((!variant.is_empty()).then_some(&*variant), known);
        ForwardReason::Miss
    })
}

impl ForwardPlan {
    /// Returns the plan of a request that uses no stored response and stores none.
    fn around_the_store(reason: ForwardReason, detail: Reason) -> ForwardPlan {
        ForwardPlan {
            reason,
            detail: Some(detail.into()),
            fills: false,
            varies: false,
            is_stale: false,
            stale: None,
        }
    }
}

/// Returns the reason that the response to a request is not stored, whatever it is.
fn not_filling(request: &Request<'_>) -> Option<Reason> {
    if request.head.method() != Method::Get {
        Some(Reason::Method)
    } else if request.head.fields().contains(FieldId::Range) {
        Some(Reason::Range)
    } else if request.directives.no_store {
        Some(Reason::RequestNoStore)
    } else {
        None
    }
}

/// Returns the plan of a request that goes to the origin. A response to HEAD or to a range request
/// is not whole, so it is not stored; nor is a response to a request with no-store.
fn forward(
    request: &Request<'_>,
    reason: ForwardReason,
    varies: bool,
    stale: Option<&StoredResponse<'_>>,
) -> LookupResult<'static> {
    let detail = not_filling(request).map(Detail::from);
    let fills = detail.is_none();
    let is_stale = stale.is_some();
    let stale = stale.filter(|_| fills).map(StoredResponse::to_stale);
    LookupResult::Forward(ForwardPlan { reason, detail, fills, varies, is_stale, stale })
}
