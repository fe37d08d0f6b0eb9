//! Records how a request is answered: in Cache-Status, in the counters, and for header rules.

use forebay_http::policy::cache_status::CacheStatus;
use forebay_http::policy::range::RangeDecision;
use forebay_http::policy::reason::Reason;
use forebay_http::policy::reuse::ForwardReason;
use forebay_rules::run::CacheResult;

use crate::counters::Counter;
use crate::fault::Fault;
use crate::fetch::StaleHit;
use crate::lookup::{ForwardPlan, Hit, SelectedPart};
use crate::response::Response;
use crate::transaction::Transaction;

#[inline]
pub(crate) fn note_hit(transaction: &mut Transaction<'_>, hit: &Hit<'_>) {
    let detail = hit.stored.meta.detail();
    transaction.cache_status = CacheStatus { detail, ..CacheStatus::hit(hit.ttl) };
    transaction.rule_state.set_cache_result(CacheResult::HitFresh);
    let worker = transaction.worker();
    worker.count(Counter::Hits);
    match hit.part {
        SelectedPart::NotModified => worker.count(Counter::HitsNotModified),
        SelectedPart::Body(RangeDecision::Part { .. } | RangeDecision::Parts) => {
            worker.count(Counter::HitsRange);
        }
        SelectedPart::Body(_) => {}
    }
}

pub(crate) fn note_stale_hit(transaction: &mut Transaction<'_>, stale: &StaleHit<'_>) {
    note_hit(transaction, &stale.hit);
    transaction.cache_status.detail = Some(stale.cause.reason().into());
    transaction.rule_state.set_cache_result(CacheResult::HitStale);
    transaction.worker().count(Counter::HitsStale);
}

pub(crate) fn note_stale_if_error(
    transaction: &mut Transaction<'_>,
    stale: &StaleHit<'_>,
    response: &Result<Response<'_>, Fault>,
) {
    let status = &mut transaction.cache_status;
    match response {
        Ok(Response::Streamed(streamed)) => {
            status.fwd_status = Some(streamed.answer.received_status);
        }
        Ok(_) => {}
        Err(fault) => transaction.log.note_fault(*fault),
    }
    status.ttl = Some(stale.hit.ttl);
    status.detail = Some(stale.cause.reason().into());
    transaction.worker().count(Counter::StaleIfError);
}

pub(crate) fn note_forward(transaction: &mut Transaction<'_>, plan: &ForwardPlan) {
    let ForwardPlan { reason, detail, .. } = *plan;
    transaction.cache_status = CacheStatus { detail, ..CacheStatus::forwarded(reason) };
    let (counter, result) = match reason {
        ForwardReason::Bypass | ForwardReason::Method => (Counter::Bypasses, CacheResult::Skipped),
        ForwardReason::Stale | ForwardReason::Request => (Counter::Stale, CacheResult::HitStale),
        _ => (Counter::Misses, CacheResult::Miss),
    };
    transaction.worker().count(counter);
    transaction.rule_state.set_cache_result(result);
}

/// Records that a CONNECT goes to the origin.
pub(crate) fn note_tunnel(transaction: &mut Transaction<'_>) {
    let detail = Some(Reason::Tunnel.into());
    transaction.cache_status =
        CacheStatus { detail, ..CacheStatus::forwarded(ForwardReason::Method) };
    transaction.rule_state.set_cache_result(CacheResult::Skipped);
    transaction.worker().count(Counter::Bypasses);
    transaction.worker().count_reason(Reason::Tunnel);
}

/// Records in Cache-Status why a request got no response from the origin.
pub(crate) fn note_fault_reason(transaction: &mut Transaction<'_>, fault: Fault) {
    if let Some(reason) = fault.cache_reason() {
        transaction.cache_status.detail = Some(reason.into());
    }
}
