//! The leader's task: it fetches a response, and stores it if that is permitted. The task continues
//! even if the client that started it leaves.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

use forebay_cache::{DeclineReason, Follower, Leader};
use forebay_http::date::write_date;
use forebay_http::fields::{FieldBlock, FieldId};
use forebay_http::policy::conditional::validator_fields;
use forebay_http::policy::directives::RequestDirectives;
use forebay_http::policy::range::write_range;
use forebay_http::policy::reason::Reason;
use forebay_http::policy::stale::{StaleCause, is_failure_status, may_serve_stale};
use tokio::sync::oneshot;

use super::answer::OriginAnswer;
use super::exchange::{Exchange, ServedClient, exchange};
use super::fill::{BodySink, FillPace, fill_record};
use super::health::ProbeGuard;
use super::named::{NamedVariant, VariantConfirmation};
use super::outbound::Purpose;
use super::owned_request::OwnedRequest;
use crate::clock;
use crate::config::Config;
use crate::config::route::RouteNumber;
use crate::counters::Counter;
use crate::fault::{Fault, Side};
use crate::interim::InterimQueue;
use crate::key::RouteMatch;
use crate::lookup::{OtherVariant, Stale};
use crate::rules::{HookContext, RuleProgress, RuleState};
use crate::store::{BodyWriter, MergedHead, NewRecord, NotStored, StoreContext};
use crate::trace::{RequestStep, StoreStep, Trace};
use crate::worker::Worker;

/// The status 425 (Too Early): the origin does not want to answer the request before the TLS
/// handshake on its way is complete (RFC 8470 §5.2).
const TOO_EARLY: u16 = 425;

/// The data that a fetch needs, all of it owned, because the fetch may outlive the client that
/// started it.
pub(super) struct FetchTask {
    pub(super) worker: Rc<Worker>,
    pub(super) config: Rc<Config>,
    /// The client that started the fetch.
    pub(super) client: ServedClient,
    pub(super) route_number: RouteNumber,
    pub(super) request: OwnedRequest,
    pub(super) rule_state: RuleState,
    /// The stored response to validate, if there is one.
    pub(super) stale: Option<Stale>,
    /// Other variants that the origin may name.
    pub(super) others: Vec<OtherVariant>,
    /// The bytes to request; `None` for the whole response.
    pub(super) unit: Option<Range<u64>>,
    /// The queue of interim responses for the client that started the fetch.
    pub(super) interim: InterimQueue,
    /// The trace of the request that started the fetch.
    pub(super) trace: Trace,
    /// The right to probe the origin, if this fetch is a probe. Held until the origin has answered.
    pub(super) probe: Cell<Option<ProbeGuard>>,
}

/// The failure of a fetch, as its followers learn it: a status, and whether the origin was
/// unreachable.
#[derive(Clone, Copy, Debug)]
pub(super) struct FailureCode(u16);

impl FailureCode {
    const UNREACHABLE: u16 = 1 << 15;

    pub(super) fn of(fault: Fault) -> FailureCode {
        let reached = if fault.is_unreachable() { FailureCode::UNREACHABLE } else { 0 };
        FailureCode(fault.status() | reached)
    }

    /// Makes the failure from the code with which a fetch failed.
    pub(super) fn read(code: u16) -> FailureCode {
        FailureCode(code)
    }

    pub(super) fn status(self) -> u16 {
        self.0 & !FailureCode::UNREACHABLE
    }

    /// Returns the code with which the leader makes the fetch fail.
    pub(super) fn code(self) -> u16 {
        self.0
    }

    pub(super) fn is_unreachable(self) -> bool {
        self.0 & FailureCode::UNREACHABLE != 0
    }
}

/// The report of a fetch to the request that started it.
pub(super) enum FetchOutcome {
    /// The response is stored or is being stored; the request follows it.
    Stored {
        fwd_status: u16,
        progress: RuleProgress,
        /// Field lines that are meant only for the client of this request.
        own_lines: FieldBlock,
        /// If the response is fetched in parts: the follower of the fetch of the first part.
        first_part: Option<Follower>,
    },
    /// The origin has confirmed the stored response for this request. `head` is the merged head,
    /// which must not be stored or could not be.
    Confirmed {
        head: Vec<u8>,
        own_lines: FieldBlock,
        progress: RuleProgress,
        /// The reason why the head is not stored.
        detail: Reason,
        /// The confirmed variant, if the request does not select it.
        variant: Option<NamedVariant>,
        /// Whether the stored response must not be used again, because its directives are no longer
        /// the origin's (RFC 9111 §4.3.4).
        is_outdated: bool,
    },
    /// The response is not stored, so only this request gets it.
    NotStored { answer: Box<OriginAnswer>, detail: Reason, progress: RuleProgress },
    /// The requested unit of the response is not stored. The unit may differ from the range that
    /// the client wants, so the request asks for that range itself.
    PartNotStored { detail: Reason, progress: RuleProgress },
    /// There is no response.
    Failed(Fault),
}

/// Fetches on behalf of all followers, and reports to the request that started the fetch.
pub(super) async fn lead(task: FetchTask, leader: Leader, outcome: oneshot::Sender<FetchOutcome>) {
    let fetched = task.fetch(&leader).await;
    // The probe ends once the head of the answer has arrived; the body may take long.
    drop(task.probe.take());
    match fetched {
        Err(fault) => {
            match fault.side() {
                Side::Origin => leader.fail(FailureCode::of(fault).code()),
                // The fault lies with the client that started the fetch, or with a limit of this
                // server, so it does not concern the followers.
                Side::Client | Side::Us => drop(leader),
            }
            report(outcome, FetchOutcome::Failed(fault));
        }
        Ok(OriginVerdict::Confirmed { renewed, own_lines }) => {
            task.worker.count(Counter::Validated);
            let progress = task.rule_state.progress();
            if let Some(why) = renewed.refused {
                task.trace_not_stored(&why);
                let (head, is_outdated) = (renewed.head, task.answers_for_all());
                // A client that still waits gets the stored response first, and removes it
                // afterwards.
                if is_outdated && outcome.is_closed() {
                    leader.forget_known();
                }
                leader.decline_once(DeclineReason::Code(why.detail.code()));
                let confirmed = FetchOutcome::Confirmed {
                    head,
                    own_lines,
                    progress,
                    detail: why.detail,
                    variant: None,
                    is_outdated,
                };
                report(outcome, confirmed);
            } else {
                task.trace.step(|| RequestStep::Store(StoreStep::Renewed));
                leader.validated(&renewed.head, renewed.times, renewed.tags.as_ref());
                task.worker.notify_stored();
                let (fwd_status, first_part) = (304, None);
                let stored = FetchOutcome::Stored { fwd_status, progress, own_lines, first_part };
                report(outcome, stored);
            }
        }
        Ok(OriginVerdict::Named(confirmed)) => task.confirm_variant(*confirmed, leader, outcome),
        Ok(OriginVerdict::Answer(mut answer)) => match task.part_of(&mut answer, &leader) {
            Some(part) => task.store_part(answer, part, leader, outcome).await,
            None => task.store(answer, leader, outcome).await,
        },
    }
}

/// Reports to the client's task. If the client has left, the report is dropped.
pub(super) fn report(to: oneshot::Sender<FetchOutcome>, outcome: FetchOutcome) {
    let _ = to.send(outcome);
}

/// The result of asking the origin.
enum OriginVerdict {
    Answer(Box<OriginAnswer>),
    /// The origin has confirmed the stored response. Contains the merged head, and the lines for
    /// the client that started the fetch.
    Confirmed {
        renewed: MergedHead,
        own_lines: FieldBlock,
    },
    /// The origin has confirmed a variant that the request does not select.
    Named(Box<VariantConfirmation>),
}

impl FetchTask {
    /// Turns the task into a fetch that no client waits for. `probe` is set if the fetch probes an
    /// origin that is down.
    pub(super) fn in_background(self, probe: Option<ProbeGuard>) -> FetchTask {
        FetchTask { interim: InterimQueue::new(), probe: Cell::new(probe), ..self }
    }

    pub(super) fn route(&self) -> RouteMatch<'_> {
        let (site, route) = self.config.sites.place(self.route_number);
        RouteMatch { site, route, scheme: self.rule_state.scheme() }
    }

    pub(super) fn hook_context(&self) -> HookContext<'_> {
        let (route, view) = (Some(self.route()), self.request.view());
        HookContext::new(&self.worker, None, &self.config, route, &self.rule_state, view)
    }

    pub(super) fn store_context(&self) -> StoreContext<'_> {
        StoreContext {
            hook: self.hook_context(),
            network: self.client.network,
            route: self.route(),
            request: self.request.client_request(),
            path_query: self.request.path_query(),
        }
    }

    async fn fetch(&self, leader: &Leader) -> Result<OriginVerdict, Fault> {
        let stale = self.stale.as_ref().filter(|stale| stale.meta.can_validate());
        if stale.is_none() && self.others.is_empty() {
            return self.ask_anew(leader).await;
        }
        let mut conditions = conditions(stale, &self.others);
        let mut answer = match self.unit_fields(&mut conditions) {
            true => self.ask(Purpose::ValidateOrPart(&conditions), leader).await?,
            false => self.ask(Purpose::Validate(&conditions), leader).await?,
        };
        if answer.received_status != 304 {
            return self.decodable(answer, leader).await;
        }
        // A 304 has no body. Reading its end returns the connection to the pool.
        answer.body.next().await?;
        match self.confirmed_by(stale, &answer) {
            Some(confirmed) => Ok(confirmed),
            // The 304 is about another response (RFC 9111 §4.3.4), so the response is requested
            // without a condition.
            None => self.ask_anew(leader).await,
        }
    }

    /// Returns the stored response that a 304 confirms. If the request had the tags of several
    /// variants, the 304 has to contain one of these tags. A 304 for the page of `files_fallback`
    /// confirms none, because that page is never stored.
    fn confirmed_by(&self, stale: Option<&Stale>, answer: &OriginAnswer) -> Option<OriginVerdict> {
        if answer.is_fallback {
            return None;
        }
        let (context, update) = (self.store_context(), &answer.head.block);
        if !self.others.is_empty() && !update.fields().contains(FieldId::Etag) {
            return None;
        }
        let renewed = stale.and_then(|own| context.renewed_head(own, update, &answer.timing()));
        match renewed {
            Some(renewed) => {
                let own_lines = context.own_lines_of_304(update);
                Some(OriginVerdict::Confirmed { renewed, own_lines })
            }
            None => self.variant_named_by(answer).map(OriginVerdict::Named),
        }
    }

    /// Requests the response, or a unit of it, without a condition.
    async fn ask_anew(&self, leader: &Leader) -> Result<OriginVerdict, Fault> {
        let mut fields = FieldBlock::new();
        let answer = match self.unit_fields(&mut fields) {
            true => self.ask(Purpose::Part(&fields), leader).await?,
            false => self.ask(Purpose::Fill, leader).await?,
        };
        self.decodable(answer, leader).await
    }

    /// Requests the whole response if the answer is a part of a body that has to be decompressed.
    async fn decodable(
        &self,
        answer: OriginAnswer,
        leader: &Leader,
    ) -> Result<OriginVerdict, Fault> {
        if !self.store_context().needs_whole(&answer.head) {
            return Ok(OriginVerdict::Answer(Box::new(answer)));
        }
        answer.body.discard();
        let whole = self.ask(Purpose::Fill, leader).await?;
        Ok(OriginVerdict::Answer(Box::new(whole)))
    }

    /// Appends the field that requests the unit; returns whether there is a unit to request.
    fn unit_fields(&self, fields: &mut FieldBlock) -> bool {
        let Some(unit) = &self.unit else { return false };
        let mut range = Vec::new();
        write_range(unit, &mut range);
        fields.push(b"range", &range);
        true
    }

    async fn ask(&self, purpose: Purpose<'_>, leader: &Leader) -> Result<OriginAnswer, Fault> {
        let request = Exchange::new(
            self.client,
            self.hook_context(),
            self.request.message(),
            purpose,
            (&self.interim, &self.trace),
        );
        exchange(&request.led_by(leader), None).await
    }

    /// Adds the trace step which says that the response is not stored, and why.
    pub(super) fn trace_not_stored(&self, why: &NotStored) {
        self.trace.step(|| RequestStep::Store(StoreStep::NotStored(why.detail.into())));
    }

    /// Makes the record of a response. An error of the origin does not replace a stored response
    /// that may be served in place of errors.
    fn new_record(&self, answer: &OriginAnswer) -> Result<NewRecord, NotStored> {
        if answer.is_fallback {
            return Err(NotStored::FALLBACK);
        }
        if is_failure_status(answer.received_status) && self.serves_stale_if_error() {
            return Err(NotStored::FAILURE);
        }
        // If the origin answers the request for a unit with the whole response, the response is
        // stored without compression.
        let may_encode = self.unit.is_none();
        self.store_context().new_record(&answer.head, &answer.timing(), may_encode)
    }

    fn serves_stale_if_error(&self) -> bool {
        let Some(stale) = &self.stale else { return false };
        let rules = self.route().route.settings.stale_rules();
        let now = clock::unix_seconds();
        // Even if this request may not use the stale response, other requests may.
        may_serve_stale(&stale.meta, &RequestDirectives::EMPTY, &rules, StaleCause::Error, now)
    }

    /// Whether an answer that must not be stored proves that the stored response is outdated, so
    /// that the stored response must no longer be served stale. This is so if the stored response
    /// is stale and the request has neither Authorization nor Cookie: the answer to a request with
    /// one of them may be meant for that client alone.
    pub(super) fn answers_for_all(&self) -> bool {
        let is_stale = |stale: &Stale| stale.is_stale(clock::unix_seconds());
        !self.is_personal() && self.stale.as_ref().is_some_and(is_stale)
    }

    /// Whether the answer may be meant only for the client that sent the request.
    pub(super) fn is_personal(&self) -> bool {
        let request = self.request.client_request();
        request.directives.is_authorized || request.fields.contains(FieldId::Cookie)
    }

    /// Stores a response, or passes it to the request that started the fetch.
    // RFC: 9111-4.3.3-1
    async fn store(
        &self,
        mut answer: Box<OriginAnswer>,
        leader: Leader,
        outcome: oneshot::Sender<FetchOutcome>,
    ) {
        let begun = match self.new_record(&answer) {
            Ok(mut record) => {
                let (encoder, decoder) = (record.take_encoder(), record.take_decoder());
                let is_original = encoder.is_none() && decoder.is_none();
                let length = answer.head.content_length.filter(|_| is_original);
                record.begin(leader, length).map(|fill| (fill, encoder, decoder))
            }
            Err(why) => Err((leader, why)),
        };
        let progress = self.rule_state.progress();
        let settings = &self.route().route.settings;
        match begun {
            Ok((fill, encoder, decoder)) => {
                if let Some(decoder) = decoder {
                    answer.body.decode_with(decoder);
                }
                let fwd_status = answer.received_status;
                self.store_context().count_kept_coding(&answer.head);
                let own_lines = self.store_context().own_lines(&answer.head.block);
                if !own_lines.bytes().is_empty() {
                    self.worker.count(Counter::SetCookieStripped);
                }
                let first_part = None;
                let stored = FetchOutcome::Stored { fwd_status, progress, own_lines, first_part };
                report(outcome, stored);
                let writer = BodyWriter::new(fill, settings.object_bytes_max);
                let pace = FillPace::new(settings);
                fill_record(BodySink { writer, encoder }, answer.body, pace, &self.trace).await;
            }
            Err((leader, why)) => {
                self.worker.count(Counter::NotStored);
                self.trace_not_stored(&why);
                // The response to a request with Authorization says little about the responses to
                // other requests, and so does a 425, which is about the moment of this one.
                let is_authorized = self.request.client_request().directives.is_authorized;
                let lasts = why.lasts && answer.received_status != TOO_EARLY;
                if is_failure_status(answer.received_status) {
                    leader.fail(answer.received_status);
                } else {
                    let is_gone = matches!(answer.received_status, 404 | 410);
                    if (lasts || is_gone) && self.answers_for_all() {
                        leader.forget_known();
                    }
                    let reason = DeclineReason::Code(why.detail.code());
                    match lasts && !is_authorized {
                        true => leader.decline(clock::monotonic_ms(), reason),
                        false => leader.decline_once(reason),
                    }
                }
                let detail = why.detail;
                answer.head.block.remove(|field| settings.hides(field));
                report(outcome, FetchOutcome::NotStored { answer, detail, progress });
            }
        }
    }
}

/// Returns the precondition fields of a request that validates `stale`, and asks whether one of
/// `others` answers the request instead.
// RFC: 9111-4.3.1-1
pub(super) fn conditions(stale: Option<&Stale>, others: &[OtherVariant]) -> FieldBlock {
    let validators = stale.map(|stale| validator_fields(&stale.meta, stale.block()));
    let validators = validators.unwrap_or_default();
    let others = others.iter().filter_map(OtherVariant::tag_value);
    let tags: Vec<_> = validators.if_none_match.into_iter().chain(others).collect();
    let mut conditions = FieldBlock::new();
    if !tags.is_empty() {
        conditions.push(b"if-none-match", &tags.join(&b", "[..]));
    }
    if let Some(date) = validators.if_modified_since {
        conditions.push(b"if-modified-since", &write_date(date));
    }
    conditions
}
