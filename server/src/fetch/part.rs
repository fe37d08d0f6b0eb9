//! Storing a part of a response: the origin's 206 for a unit that a range request needs, or the
//! beginning of a response that is too long to be stored in one piece.
//!
//! The head is stored first, and then the fragments of the unit, as they arrive. Other fragments
//! are fetched when a request needs them ([`fragments`](super::fragments)). If the unit is the
//! whole response, the response is stored like the response to a request without a range.

use std::ops::Range;
use std::rc::Rc;

use forebay_cache::{
    CollapseResult, DeclineReason, Fill, FillRefused, Follower, FollowerWatch, JoinPolicy,
    JoinTerms, Leader,
};
use forebay_http::fields::FieldId;
use forebay_http::policy::range::{PartRefused, sends_parts, total_of_part};
use forebay_http::policy::reason::Reason;
use tokio::sync::oneshot;

use super::abandoned::run_while_wanted;
use super::answer::OriginAnswer;
use super::fill::{BodySink, FillPace, fill_part, fill_record};
use super::lead::{FetchOutcome, FetchTask, report};
use crate::clock;
use crate::config::Config;
use crate::config::route::RouteNumber;
use crate::counters::Counter;
use crate::limits::FOLLOW_STALLED_MS;
use crate::store::{BodyWriter, NewRecord, NotStored};

/// A part of a response that may be stored.
pub(super) struct ResponsePart {
    /// The positions of the bytes that arrive.
    bytes: Range<u64>,
    /// The length of the whole response, or the reason why the part is not usable.
    total: Result<u64, PartRefused>,
}

/// A part that is being stored.
struct PartFill {
    fill: Fill,
    /// A follower of the fetch of the part's fragments, and a watch on that fetch. `None` if the
    /// part is the whole response, because its followers are those of the leader.
    fragments: Option<(Follower, FollowerWatch)>,
}

impl FetchTask {
    /// Returns the part of the response that an answer contains; `None` if the answer is handled as
    /// a whole response.
    ///
    /// An answer with the whole response is cut after the first unit if the response is too long to
    /// be fetched in one piece, and if the origin says that it can send the other units.
    pub(super) fn part_of(
        &self,
        answer: &mut OriginAnswer,
        leader: &Leader,
    ) -> Option<ResponsePart> {
        let settings = &self.route().route.settings;
        let (fields, length) = (answer.head.block.fields(), answer.head.content_length);
        // A 416 refers to the unit. It does not decide about the client's own range, which may have
        // to be ignored because of the client's conditions.
        if let (Some(unit), 206 | 416) = (&self.unit, answer.head.status) {
            let total = total_of_part(fields, length, unit);
            return Some(ResponsePart { bytes: unit.clone(), total });
        }
        let total =
            length.filter(|_| answer.head.status == 200 && settings.range_unit_bytes > 0)?;
        // A long body that arrives in one piece would leave too little room for other responses.
        let is_too_long = total > settings.object_bytes_max || leader.is_large(total);
        let unit_bytes = self.worker.store.whole_unit_bytes(settings.range_unit_bytes);
        if !is_too_long || total <= unit_bytes || !sends_parts(fields) || answer.is_fallback {
            return None;
        }
        // If the record cannot be made, the client gets the whole answer.
        self.store_context().new_partial_record(&answer.head, &answer.timing(), true).ok()?;
        answer.body.cut_at(unit_bytes);
        Some(ResponsePart { bytes: 0..unit_bytes, total: Ok(total) })
    }

    /// Stores a part of a response.
    pub(super) async fn store_part(
        &self,
        mut answer: Box<OriginAnswer>,
        part: ResponsePart,
        leader: Leader,
        outcome: oneshot::Sender<FetchOutcome>,
    ) {
        let progress = self.rule_state.progress();
        match self.begin_part(&mut answer, part, leader) {
            Ok(PartFill { fill, fragments }) => {
                self.store_context().count_kept_coding(&answer.head);
                let own_lines = self.store_context().own_lines(&answer.head.block);
                if !own_lines.bytes().is_empty() {
                    self.worker.count(Counter::SetCookieStripped);
                }
                self.worker.count(Counter::PartsFetched);
                let fwd_status = answer.received_status;
                let settings = &self.route().route.settings;
                let writer = BodyWriter::new(fill, u64::MAX);
                let pace = FillPace::new(settings);
                let (first_part, watch) = fragments.unzip();
                let stored = FetchOutcome::Stored { fwd_status, progress, own_lines, first_part };
                report(outcome, stored);
                match watch {
                    // The requests that followed the fetch of the head leave it now, because they
                    // have the head. The fetch of the fragments is watched separately.
                    Some(watch) => {
                        let worker = Rc::clone(&self.worker);
                        let trace = self.trace.clone();
                        let fill = async move {
                            fill_part(writer, answer.body, pace, &trace).await;
                        };
                        let fill = run_while_wanted(worker, self.client.network, watch, fill);
                        self.worker.spawn(fill);
                    }
                    None => {
                        let sink = BodySink::plain(writer);
                        fill_record(sink, answer.body, pace, &self.trace).await;
                    }
                }
            }
            Err((leader, why)) => {
                self.worker.count(Counter::NotStored);
                self.trace_not_stored(&why);
                answer.body.discard();
                let reason = DeclineReason::Code(why.detail.code());
                // The response to a request with Authorization says little about the responses to
                // other requests.
                let lasts = why.lasts && answer.received_status == 206;
                match lasts && !self.request.client_request().directives.is_authorized {
                    true => leader.decline(clock::monotonic_ms(), reason),
                    false => leader.decline_once(reason),
                }
                let detail = why.detail;
                report(outcome, FetchOutcome::PartNotStored { detail, progress });
            }
        }
    }

    /// Checks that an answer with a missing part of a stored response may be stored (RFC 9111 §3).
    ///
    /// # Errors
    /// Returns the reason why the answer must not be stored.
    pub(super) fn may_store_part(
        &self,
        answer: &mut OriginAnswer,
        total: u64,
    ) -> Result<(), NotStored> {
        self.whole_record(answer, (total, true)).map(drop)
    }

    /// Makes the record of the whole response, without its body, from an answer with a part of it.
    /// Turns the head of the answer into the head of the answer to a request without a range.
    fn whole_record(
        &self,
        answer: &mut OriginAnswer,
        (total, is_too_long): (u64, bool),
    ) -> Result<NewRecord, NotStored> {
        if answer.is_fallback {
            return Err(NotStored::FALLBACK);
        }
        let head = &mut answer.head;
        (head.status, head.content_length) = (200, Some(total));
        head.block.remove(|field| field.id == FieldId::ContentRange);
        self.store_context().new_partial_record(&answer.head, &answer.timing(), is_too_long)
    }

    /// Begins to store a part. Turns the head of the answer into the head of the answer to a
    /// request without a range.
    fn begin_part(
        &self,
        answer: &mut OriginAnswer,
        part: ResponsePart,
        leader: Leader,
    ) -> Result<PartFill, (Leader, NotStored)> {
        let ResponsePart { bytes: unit, total } = part;
        let total = match total {
            Ok(total) => total,
            Err(why) => return Err((leader, NotStored::part(why))),
        };
        let bytes_max = self.route().route.settings.object_bytes_max;
        let is_too_long = total > bytes_max || leader.is_large(total);
        let record = match self.whole_record(answer, (total, is_too_long)) {
            Ok(record) => record,
            Err(why) => return Err((leader, why)),
        };
        if unit.start == 0 && total <= unit.end {
            let begun = record.begin(leader, Some(total));
            return begun.map(|fill| PartFill { fill, fragments: None });
        }
        let store = &self.worker.store;
        let Some(body) = store.empty_long_body(total) else {
            return Err((leader, NotStored::by(FillRefused::TooLarge)));
        };
        let unit_bytes = self.route().route.settings.range_unit_bytes;
        let numbers = body.fragments(unit.start..unit.end.min(total));
        // Requests that find the head follow the fetch of its first fragments, so that fetch must
        // begin before the head is stored.
        let whole = body.unit_of(numbers.start, unit_bytes);
        let terms = unit_terms(&self.config, self.route_number);
        let joined = store.collapse_fragments(&body, &whole, numbers.start, terms);
        let CollapseResult::Leader(fragments, follower) = joined else {
            // This does not happen, because no other request knows the id of the body.
            return Err((leader, NotStored::by(FillRefused::NoRoom)));
        };
        follower.step_aside();
        let fragments_watch = (follower, fragments.watch_followers());
        let fill = match fragments.begin_fragments(body, numbers) {
            Ok(fill) => fill,
            Err((_, refused)) => return Err((leader, NotStored::by(refused))),
        };
        match record.begin_partial(leader, &body) {
            Ok(()) => Ok(PartFill { fill, fragments: Some(fragments_watch) }),
            Err(leader) => Err((leader, NotStored::by(FillRefused::NoRoom))),
        }
    }
}

/// The terms on which a request joins the fetch of a unit.
pub(super) fn unit_terms(config: &Config, route: RouteNumber) -> JoinTerms {
    JoinTerms {
        policy: JoinPolicy::Any,
        stalled_ms: FOLLOW_STALLED_MS,
        share: config.sites.share_of(route),
        has_turn: true,
        is_part: true,
        ..JoinTerms::at(clock::monotonic_ms())
    }
}

impl NotStored {
    fn part(why: PartRefused) -> NotStored {
        let detail = match why {
            PartRefused::ContentRange => Reason::ContentRange,
            PartRefused::NoStrongTag => Reason::NoStrongTag,
        };
        NotStored { detail, lasts: true }
    }
}
