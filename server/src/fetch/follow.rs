//! Following a fetch that another request leads, or that this request has started.

use std::future::poll_fn;

use forebay_cache::{
    BodyReader, FollowOutcome, Follower, RenewedHead, VariantKey, push_selector, selectors,
};
use forebay_http::fields::FieldBlock;
use forebay_http::policy::meta::StoredMeta;
use forebay_http::policy::reason::{Detail, Reason};
use forebay_http::policy::reuse::{ReuseDecision, judge};
use forebay_http::policy::vary::write_selector;

use super::join::{has_cookie, reason_of};
use super::lead::FailureCode;
use super::resolve::origin_pool;
use crate::clock;
use crate::fault::Fault;
use crate::lookup::{Hit, stored_meta, validated};
use crate::response::{GrowingResponse, Response};
use crate::trace::{FetchStep, RequestStep};
use crate::transaction::Transaction;

/// The result of following a fetch.
#[expect(clippy::large_enum_variant, reason = "it is made once and taken apart at once")]
pub(super) enum FollowedFetch<'t> {
    /// A response, and its remaining freshness lifetime in seconds.
    Response { response: Response<'t>, ttl: i64 },
    /// The response is for another variant. The selector that this request has for the Vary field
    /// names of that response has been added to the transaction.
    OtherVariant,
    /// The fetch began before this request, which asks for a newer response. The fetch has ended,
    /// so this request can lead or follow another fetch.
    TooEarly,
    /// The response is not storable because of a cookie that the leading request has and this
    /// request does not have. The fetch has ended, so this request can lead or follow another
    /// fetch.
    Personal,
    /// This request is not allowed to use the response; the detail is the reason for Cache-Status.
    Unusable(Detail),
    /// The fetch failed. The status is set if the origin failed, and `None` if the cause was the
    /// request that started the fetch.
    Failed(Option<u16>),
}

impl FollowedFetch<'_> {
    /// Returns the step of a trace for this result.
    fn step(&self) -> RequestStep {
        RequestStep::Fetch(match self {
            FollowedFetch::Response { .. } => FetchStep::Joined,
            FollowedFetch::OtherVariant | FollowedFetch::TooEarly | FollowedFetch::Personal => {
                FetchStep::Again
            }
            FollowedFetch::Unusable(why) => FetchStep::NotUsed(*why),
            FollowedFetch::Failed(_) => FetchStep::Failed,
        })
    }
}

/// Waits for another request's fetch, and checks whether its response may answer this request,
/// which began at `asked_ms`. The wait needs no limit of its own, because the fetch has the limits
/// of every exchange.
///
/// RFC 9111 §4 and §5.2.1.4: a request that asks for validation may share a fetch that began after
/// the request. If the fetch began earlier, the request still waits for its outcome. If the fetch
/// stores a new response, the request is passed through; otherwise all such requests share the next
/// fetch.
pub(super) async fn follow<'t>(
    transaction: &mut Transaction<'t>,
    follower: Follower,
    varies: bool,
    asked_ms: u64,
) -> FollowedFetch<'t> {
    let followed = follow_to_response(transaction, follower, varies, asked_ms).await;
    transaction.trace().step(|| followed.step());
    followed
}

async fn follow_to_response<'t>(
    transaction: &mut Transaction<'t>,
    mut follower: Follower,
    varies: bool,
    asked_ms: u64,
) -> FollowedFetch<'t> {
    let is_too_early =
        transaction.request.directives.asks_validation() && follower.began_ms() <= asked_ms;
    let is_personal = follower.is_personal() && !has_cookie(&transaction.request);
    match poll_fn(|cx| follower.poll_outcome(cx)).await {
        FollowOutcome::Growing(_) if is_too_early => {
            FollowedFetch::Unusable(Reason::NotFollowed.into())
        }
        FollowOutcome::Validated(_) | FollowOutcome::Declined(_) if is_too_early => {
            FollowedFetch::TooEarly
        }
        FollowOutcome::Growing(reader) => follow_growing(transaction, reader),
        FollowOutcome::Validated(renewed) => follow_renewed(transaction, &renewed, varies),
        FollowOutcome::Declined(_) if is_personal => FollowedFetch::Personal,
        FollowOutcome::Declined(reason) => {
            let cause = reason.and_then(reason_of);
            FollowedFetch::Unusable(Detail::caused(Reason::NotStorable, cause))
        }
        FollowOutcome::Failed(code) => {
            let failure = code.map(FailureCode::read);
            let is_only = transaction.route().route.origins.members().len() == 1;
            if is_only && failure.is_some_and(FailureCode::is_unreachable) {
                // The fetch may have run on another worker, so this worker may not know yet that
                // the origin cannot be reached. Of several origins, the failure does not say which
                // one it is.
                origin_pool(transaction).health.note_unreachable(Fault::OriginConnect);
            }
            FollowedFetch::Failed(failure.map(FailureCode::status))
        }
    }
}

fn follow_renewed<'t>(
    transaction: &mut Transaction<'t>,
    renewed: &RenewedHead,
    varies: bool,
) -> FollowedFetch<'t> {
    match selects(transaction, renewed.base.as_ref()) {
        Some(true) => {}
        Some(false) => return FollowedFetch::OtherVariant,
        None => return FollowedFetch::Unusable(Reason::NotReusable.into()),
    }
    let hit = validated_hit(transaction, renewed, varies);
    match hit.and_then(|hit| Some((freshness_left(transaction, &hit.stored.meta)?, hit))) {
        Some((ttl, hit)) => FollowedFetch::Response { response: Response::Stored(hit), ttl },
        None => FollowedFetch::Unusable(Reason::NotReusable.into()),
    }
}

/// Whether the request selects the variant of `base`; `None` if the names in that variant's Vary
/// field cannot be used. Adds the request's selector for these names to the transaction, if it is
/// missing.
fn selects(transaction: &mut Transaction<'_>, base: Option<&VariantKey>) -> Option<bool> {
    let names = base.map_or(&b""[..], |base| &base.names);
    if !transaction.route().route.settings.keys_by(names) {
        // The fetch began with other settings.
        return None;
    }
    let Some(base) = base else { return Some(true) };
    let list = &mut *transaction.variant;
    let (known_bytes, mut is_valid) = (list.len(), false);
    let at = push_selector(list, |list| {
        let fields = transaction.request.head.fields();
        is_valid = write_selector(&base.names, fields, list).is_some();
    });
    let (known, selector) = (list.get(..known_bytes)?, list.get(at..)?);
    let is_selected = selector == base.variant;
    let is_known = selectors(known).any(|known| known == selector);
    if is_known || !is_valid {
        list.truncate(known_bytes);
    }
    is_valid.then_some(is_selected)
}

fn follow_growing<'t>(transaction: &mut Transaction<'t>, reader: BodyReader) -> FollowedFetch<'t> {
    match selects(transaction, reader.base()) {
        Some(true) => {}
        Some(false) => return FollowedFetch::OtherVariant,
        None => return FollowedFetch::Unusable(Reason::NotReusable.into()),
    }
    let usable = stored_meta(reader.head())
        .and_then(|meta| Some((freshness_left(transaction, &meta)?, meta)));
    match usable {
        Some((ttl, meta)) => FollowedFetch::Response { response: growing(reader, meta), ttl },
        None => FollowedFetch::Unusable(Reason::NotReusable.into()),
    }
}

/// Follows the fetch that this request has started. The request may use the response even if the
/// response is not fresh. Returns `None` if the origin confirmed a stored response that has since
/// been purged or evicted, or that this request does not select.
///
/// # Errors
/// [`Fault::OriginBroke`]: the fetch failed after it had reported success.
pub(super) async fn own_response<'t>(
    transaction: &mut Transaction<'t>,
    mut follower: Follower,
    varies: bool,
) -> Result<Option<Response<'t>>, Fault> {
    match poll_fn(|cx| follower.poll_outcome(cx)).await {
        FollowOutcome::Growing(reader) => {
            let meta = stored_meta(reader.head()).ok_or(Fault::OriginBroke)?;
            Ok(Some(growing(reader, meta)))
        }
        FollowOutcome::Validated(renewed) => {
            if selects(transaction, renewed.base.as_ref()) != Some(true) {
                return Ok(None);
            }
            Ok(validated_hit(transaction, &renewed, varies).map(Response::Stored))
        }
        FollowOutcome::Declined(_) | FollowOutcome::Failed(_) => Err(Fault::OriginBroke),
    }
}

fn growing<'t>(reader: BodyReader, meta: StoredMeta) -> Response<'t> {
    Response::Growing(Box::new(GrowingResponse { reader, meta, own_lines: FieldBlock::new() }))
}

/// Returns the response that the origin has confirmed, if it is still stored.
fn validated_hit<'t>(
    transaction: &Transaction<'t>,
    renewed: &RenewedHead,
    varies: bool,
) -> Option<Hit<'t>> {
    let varies = varies || renewed.base.is_some();
    let variant = varies.then_some(&**transaction.variant);
    validated(&transaction.lookup_query(), &transaction.request, variant, renewed.version()?)
}

/// Returns the remaining freshness lifetime in seconds if this request may use the response (RFC
/// 9111 §4), otherwise `None`. A request that asks for validation may use the response too, because
/// the origin has sent or validated the response since the request began.
fn freshness_left(transaction: &Transaction<'_>, meta: &StoredMeta) -> Option<i64> {
    let directives = transaction.request.directives.without_validation();
    match judge(meta, &directives, clock::unix_seconds()) {
        ReuseDecision::Serve { ttl, .. } => Some(ttl),
        ReuseDecision::Validate(_) => None,
    }
}
