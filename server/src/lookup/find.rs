//! Finding a stored response and deciding whether it may be used.

use forebay_cache::{Lookup, RecordVersion, StoredBody};
use forebay_http::fields::{FieldId, Fields};
use forebay_http::policy::reuse::{ForwardReason, ReuseDecision, judge};
use forebay_http::policy::vary::{FieldNames, secondary_key};
use forebay_http::request::Method;

use super::bypass::bypass;
use super::{Forward, Hit, LookupQuery, LookupResult, SelectedPart, StoredResponse};
use crate::parse::Request;

/// Looks up; `variant` receives the secondary key if the resource has variants.
pub(crate) fn lookup<'w>(
    wanted: &LookupQuery<'w>,
    request: &Request<'_>,
    variant: &mut Vec<u8>,
) -> LookupResult<'w> {
    let ruled_out = wanted.is_ruled_out.then_some(ForwardReason::Bypass);
    if let Some(reason) = bypass(request, wanted.route).or(ruled_out) {
        return LookupResult::Forward(Forward { reason, fills: false, varies: false, stale: None });
    }
    if !wanted.is_used {
        // Nor may it be shared with a fetch under way, which a purge may have overtaken.
        let reason = ForwardReason::Miss;
        return LookupResult::Forward(Forward { reason, fills: false, varies: false, stale: None });
    }
    variant.clear();
    let selected = select(wanted, request.head.fields(), variant);
    // A secondary key has bytes for each name, so it is empty only without variants.
    let varies = !variant.is_empty();
    let stored = match selected {
        Ok(stored) => stored,
        Err(reason) => return forward(request, reason, varies, None),
    };
    let Some(part) = wanted.part(request, &stored, varies.then_some(&*variant)) else {
        return forward(request, ForwardReason::UriMiss, varies, None);
    };
    match judge(&stored.meta, &request.directives, wanted.now) {
        ReuseDecision::Serve { age, ttl } if !stored.found.is_soft() => {
            LookupResult::Hit(Hit { stored, part, age, ttl })
        }
        // Purged softly: as if it were stale.
        ReuseDecision::Serve { .. } => {
            forward(request, ForwardReason::Stale, varies, Some(&stored))
        }
        ReuseDecision::Validate(reason) => forward(request, reason, varies, Some(&stored)),
    }
}

/// The stored response that the origin has just declared good; `None` if it has gone meanwhile.
pub(crate) fn validated<'w>(
    wanted: &LookupQuery<'w>,
    request: &Request<'_>,
    variant: Option<&[u8]>,
    known: RecordVersion,
) -> Option<Hit<'w>> {
    let found = wanted.store.find_version(wanted.key, variant, known)?;
    let stored = StoredResponse::new(found)?;
    let part = wanted.part(request, &stored, variant)?;
    let age = stored.age(wanted.now);
    let ttl = i64::from(stored.meta.lifetime_s) - i64::from(age);
    Some(Hit { stored, part, age, ttl })
}

impl LookupQuery<'_> {
    /// What of a stored response answers the request. `None` if some of it has gone: then the rest
    /// is forgotten, since the next request could do no more with it.
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
            self.store.forget(self.key, variant, stored.found.version());
            return None;
        }
        Some(part)
    }
}

fn select<'w>(
    wanted: &LookupQuery<'w>,
    fields: Fields<'_>,
    variant: &mut Vec<u8>,
) -> Result<StoredResponse<'w>, ForwardReason> {
    let found = match wanted.store.lookup(wanted.key) {
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
        // Another version's: it would stand in the way of what this one stores.
        wanted.store.forget(wanted.key, (!variant.is_empty()).then_some(&*variant), known);
        ForwardReason::Miss
    })
}

/// HEAD and ranges are answered from a stored response only: what the origin answers to them is
/// not the whole. A request that says no-store leaves nothing behind.
fn forward(
    request: &Request<'_>,
    reason: ForwardReason,
    varies: bool,
    stale: Option<&StoredResponse<'_>>,
) -> LookupResult<'static> {
    let fields = request.head.fields();
    let fills = request.head.method() == Method::Get
        && !fields.contains(FieldId::Range)
        && !request.directives.no_store;
    let stale = stale.filter(|_| fills).map(StoredResponse::to_stale);
    LookupResult::Forward(Forward { reason, fills, varies, stale })
}
