//! Fetching missing fragments of a stored response.
//!
//! Fragments are missing if a range request stored only a part of the body, or if they were
//! evicted. They are fetched in units of `range_unit_bytes`, and requests that need the same unit
//! share its fetch. Each unit is requested as a range of the stored version, which a strong entity
//! tag identifies (RFC 9110 §13.1.5), so parts of two versions are never combined.

use std::future::poll_fn;
use std::ops::Range;
use std::rc::Rc;

use forebay_cache::{
    CollapseResult, DeclineReason, DeclinedUntil, FollowOutcome, Follower, FragmentReader, Leader,
    LongBody, ReadEvent, RecordVersion,
};
use forebay_http::fields::FieldBlock;
use forebay_http::policy::range::write_range;
use forebay_http::policy::reason::Reason;
use forebay_http::policy::stale::is_failure_status;

use super::abandoned::run_while_wanted;
use super::exchange::{Exchange, exchange};
use super::fill::{FillPace, fill_part};
use super::join::joined_step;
use super::lead::{FailureCode, FetchTask};
use super::outbound::Purpose;
use super::part::unit_terms;
use super::resolve::fetch_task;
use super::resume::MissingRange;
use crate::clock;
use crate::counters::Counter;
use crate::fault::{Fault, Side};
use crate::limits::{FAILED_FETCHES_MAX, JOINS_MAX, READ_BYTES_MAX};
use crate::lookup::{MissingPart, validated};
use crate::response::Response;
use crate::store::{BodyWriter, NotStored};
use crate::trace::{RequestStep, StoreStep};
use crate::transaction::Transaction;

/// Where a fragment that was missing can be read.
pub(crate) enum FragmentSource {
    /// In the store.
    Stored,
    /// In a growing record.
    Arriving(FragmentReader),
}

/// The reason why a missing fragment is not available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FragmentFault {
    /// The origin has another version of the response.
    Changed,
    /// The origin could not answer. Contains the status for the client.
    Failed(u16),
    /// The fragment cannot be fetched, or the origin's answer cannot be shared between requests.
    Unavailable,
}

/// The reason to decline an answer that does not have the requested part.
const NOT_THE_PART: DeclineReason = DeclineReason::Code(Reason::ContentRange as u8);

/// The code with which a fetch fails if the origin has another version. It is not a status code.
const CHANGED: u16 = 0;

/// Fetches the first missing fragment of a stored response, with which that response then answers
/// the request. Returns `None` if the fragment is not available, so that the request has to repeat
/// its lookup.
///
/// # Errors
/// The origin could not answer.
pub(super) async fn fill_missing<'t>(
    transaction: &mut Transaction<'t>,
    missing: &MissingPart,
    varies: bool,
) -> Result<Option<Response<'t>>, Fault> {
    transaction.tag.clone_from(&missing.tag);
    match obtain_fragment(transaction, &missing.body, missing.number).await {
        Ok(_) => {}
        Err(FragmentFault::Changed) => {
            let variant = varies.then_some(&**transaction.variant);
            transaction.store().forget(transaction.key, variant, missing.known);
            return Ok(None);
        }
        Err(FragmentFault::Failed(code)) => return Err(Fault::FetchesFailed(code)),
        Err(FragmentFault::Unavailable) => return Ok(None),
    }
    let status = &mut transaction.cache_status;
    (status.fwd_status, status.ttl) = (Some(206), Some(missing.ttl));
    let variant = varies.then_some(&**transaction.variant);
    let query = transaction.lookup_query();
    Ok(validated(&query, &transaction.request, variant, missing.known).map(Response::Stored))
}

/// Waits until a missing fragment arrives: leads the fetch of its unit, or follows it.
///
/// # Errors
/// A [`FragmentFault`] says why the fragment is not available.
pub(crate) async fn obtain_fragment(
    transaction: &Transaction<'_>,
    body: &LongBody,
    number: u32,
) -> Result<FragmentSource, FragmentFault> {
    let route = transaction.route().route;
    let unit_bytes = route.settings.range_unit_bytes;
    if unit_bytes == 0 || transaction.tag.is_empty() || !transaction.worker().store_is_used() {
        return Err(FragmentFault::Unavailable);
    }
    let unit = body.unit_of(number, unit_bytes);
    let start = body.bytes_of_all(&(number..number + 1)).start;
    let mut tries_left = FAILED_FETCHES_MAX;
    for _ in 0..JOINS_MAX {
        let terms = unit_terms(transaction.config, route.number);
        let joined = transaction.store().collapse_fragments(body, &unit, number, terms);
        transaction.trace().step(|| RequestStep::Fetch(joined_step(&joined)));
        let (mut follower, leads) = match joined {
            CollapseResult::Stored => return Ok(FragmentSource::Stored),
            CollapseResult::Leader(leader, follower) => {
                start_unit(transaction, leader, body, &unit)?;
                (follower, true)
            }
            CollapseResult::Follower(follower) => (follower, false),
            CollapseResult::Declined(_) => break,
        };
        match poll_fn(|cx| follower.poll_outcome(cx)).await {
            FollowOutcome::Growing(reader) => {
                match FragmentReader::new(reader).ok_or(FragmentFault::Unavailable)? {
                    arriving if arriving.bytes.contains(&start) => {
                        return Ok(FragmentSource::Arriving(arriving));
                    }
                    // The fragment was evicted while the rest of its unit was being fetched.
                    other => read_to_end(other).await,
                }
            }
            FollowOutcome::Failed(None) => {}
            FollowOutcome::Failed(Some(CHANGED)) => return Err(FragmentFault::Changed),
            FollowOutcome::Failed(Some(code)) => {
                // The failure may be the fault of the request that led the fetch.
                tries_left -= 1;
                if leads || tries_left == 0 {
                    return Err(FragmentFault::Failed(FailureCode::read(code).status()));
                }
            }
            FollowOutcome::Declined(_) | FollowOutcome::Validated(_) => break,
        }
    }
    Err(FragmentFault::Unavailable)
}

/// Starts or joins the fetch of the unit that contains the given fragment, which the client will
/// soon need. Returns `None` if no fetch is needed or possible. The fetch does not count as
/// abandoned while the client holds the returned follower.
pub(crate) fn fetch_ahead(
    transaction: &Transaction<'_>,
    body: &LongBody,
    number: u32,
) -> Option<Follower> {
    let route = transaction.route().route;
    let unit = body.unit_of(number, route.settings.range_unit_bytes);
    let terms = unit_terms(transaction.config, route.number);
    match transaction.store().collapse_fragments(body, &unit, number, terms) {
        CollapseResult::Leader(leader, follower) => {
            // If the fetch cannot start now, it is started when the client needs the fragment.
            start_unit(transaction, leader, body, &unit).ok()?;
            follower.step_aside();
            Some(follower)
        }
        CollapseResult::Follower(follower) => {
            follower.step_aside();
            Some(follower)
        }
        CollapseResult::Stored | CollapseResult::Declined(_) => None,
    }
}

/// Records that the origin answered a request for a part with another version, after the head of
/// the response had been sent to the client. Removes the stored response, and passes requests for
/// it through for a while: with such an origin, each response that is fetched in parts would break
/// off.
pub(crate) fn forget_changed(transaction: &Transaction<'_>, known: RecordVersion) {
    let (store, key) = (transaction.store(), transaction.key);
    let variant = Some(&**transaction.variant).filter(|variant| !variant.is_empty());
    store.forget(key, variant, known);
    let declined_ms = u64::from(transaction.route().route.settings.hit_for_miss_ms);
    let until_ms = clock::monotonic_ms().saturating_add(declined_ms);
    store.decline_all(key, variant, DeclinedUntil { reason: NOT_THE_PART, until_ms });
}

async fn read_to_end(mut arriving: FragmentReader) {
    let mut pieces = Vec::new();
    loop {
        let read = poll_fn(|cx| arriving.reader.poll_fragments(cx, READ_BYTES_MAX, &mut pieces));
        if read.await != ReadEvent::Data {
            return;
        }
        pieces.clear();
    }
}

/// Starts the fetch of the missing fragments of a unit, in a separate task.
fn start_unit(
    transaction: &Transaction<'_>,
    leader: Leader,
    body: &LongBody,
    unit: &Range<u32>,
) -> Result<(), FragmentFault> {
    let worker = transaction.worker();
    let task = fetch_task(transaction, (None, Vec::new()), None);
    let task = task.map_err(|_| FragmentFault::Unavailable)?;
    // Interim responses are dropped: the response to the client may have begun.
    let task = task.in_background(None);
    // Another request may have stored the fragments in the meantime.
    let Some(numbers) = transaction.store().missing_run(body, unit.clone()) else { return Ok(()) };
    let fragments = MissingFragments { body: *body, numbers, tag: transaction.tag.clone() };
    let (network, followers) = (task.client.network, leader.watch_followers());
    let fetch = fragments.fetch(task, leader);
    worker.spawn(run_while_wanted(Rc::clone(worker), network, followers, fetch));
    Ok(())
}

/// Fragments of a stored body that are fetched together.
struct MissingFragments {
    body: LongBody,
    numbers: Range<u32>,
    /// The strong entity tag of the stored response.
    tag: Vec<u8>,
}

impl MissingFragments {
    async fn fetch(self, task: FetchTask, leader: Leader) {
        let part = self.body.bytes_of_all(&self.numbers);
        let (mut fields, mut range) = (FieldBlock::new(), Vec::new());
        write_range(&part, &mut range);
        fields.push(b"range", &range);
        fields.push(b"if-range", &self.tag);
        let request = Exchange::new(
            task.client,
            task.hook_context(),
            task.request.message(),
            Purpose::Resume(&fields),
            (&task.interim, &task.trace),
        );
        let mut answer = match exchange(&request.led_by(&leader), None).await {
            Ok(answer) => answer,
            Err(fault) => {
                if fault.side() == Side::Origin && !task.is_personal() {
                    leader.fail(FailureCode::of(fault).code());
                }
                return;
            }
        };
        let length = part.end - part.start;
        let missing = MissingRange { part, body_bytes: self.body.bytes() };
        let is_part = missing.is_answered_by(&answer.head, &self.tag)
            && answer.head.content_length == Some(length);
        if !is_part {
            task.worker.count(Counter::PartsRefused);
            let not_stored = StoreStep::NotStored(Reason::ContentRange.into());
            task.trace.step(|| RequestStep::Store(not_stored));
            match answer.head.status {
                // The answer may be meant only for the client that sent this request.
                _ if task.is_personal() => leader.decline_once(NOT_THE_PART),
                200 | 206 | 416 => leader.fail(CHANGED),
                status if is_failure_status(status) => leader.fail(status),
                _ => leader.decline_once(NOT_THE_PART),
            }
            answer.body.discard();
            return;
        }
        if let Err(why) = task.may_store_part(&mut answer, self.body.bytes()) {
            task.trace_not_stored(&why);
            leader.decline_once(DeclineReason::Code(why.detail.code()));
            answer.body.discard();
            return;
        }
        match leader.begin_fragments(self.body, self.numbers) {
            Ok(fill) => {
                task.worker.count(Counter::PartsFetched);
                let pace = FillPace::new(&task.route().route.settings);
                let writer = BodyWriter::new(fill, u64::MAX);
                fill_part(writer, answer.body, pace, &task.trace).await;
            }
            Err((leader, why)) => {
                let why = NotStored::by(why);
                task.trace_not_stored(&why);
                leader.decline_once(DeclineReason::Code(why.detail.code()));
            }
        }
    }
}
