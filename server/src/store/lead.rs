//! The leader's task: fetch, decide, store.

use std::rc::Rc;

use forebay_cache::{Base, Leader, Refused};
use forebay_http::date::write_date;
use forebay_http::fields::{FieldBlock, FieldId};
use forebay_http::policy::conditional::validator_fields;
use forebay_http::policy::directives::RequestDirectives;
use forebay_http::policy::exchange::{Arrival, CacheRules, ClientRequest, OriginResponse};
use forebay_http::policy::meta::{STORED_META_BYTES, StoredMeta};
use forebay_http::policy::storable::storable;
use forebay_http::policy::update::{may_update, merge_304};
use forebay_http::policy::vary::{FieldNames, Vary, secondary_key, vary_names};
use tokio::sync::oneshot;

use super::fill::fill;
use crate::clock;
use crate::config::{Config, OriginAddress, RouteSettings};
use crate::counters::Counter;
use crate::fault::Fault;
use crate::fetch::{Asked, Exchange, InterimQueue, OriginAnswer, Outbound, Purpose, exchange};
use crate::lookup::StoredResponse;
use crate::worker::Worker;

/// Everything that the task needs; it outlives the client that started it.
pub(super) struct Errand {
    pub(super) worker: Rc<Worker>,
    pub(super) config: Rc<Config>,
    pub(super) origin: OriginAddress,
    pub(super) route: RouteSettings,
    pub(super) asked: Asked,
    /// What is stored and to be validated.
    pub(super) stale: Option<StoredResponse>,
    /// Where interim answers go: to the leader's own client.
    pub(super) interim: InterimQueue,
}

/// What the leader's own client is told.
pub(super) enum Told {
    /// The answer is stored, or is being stored: follow it.
    Follow { fwd_status: u16 },
    /// The answer is not stored: it is yours alone.
    Pass { answer: OriginAnswer, detail: &'static str },
    /// There is no answer.
    Failed(Fault),
}

/// Fetches on behalf of all who follow.
pub(super) async fn lead(errand: Errand, leader: Leader, own: oneshot::Sender<Told>) {
    match errand.fetch().await {
        Err(fault) => {
            leader.fail();
            tell(own, Told::Failed(fault));
        }
        Ok(Fetched::Confirmed(update)) => {
            errand.worker.count(Counter::Validated);
            leader.validated(&update);
            tell(own, Told::Follow { fwd_status: 304 });
        }
        Ok(Fetched::Answer(answer)) => errand.keep_or_pass(answer, leader, own).await,
    }
}

/// A client that left hears nothing; the fetch goes on without it.
fn tell(own: oneshot::Sender<Told>, told: Told) {
    let _ = own.send(told);
}

enum Fetched {
    Answer(OriginAnswer),
    /// The stored response is good, with this head.
    Confirmed(Vec<u8>),
}

impl Errand {
    async fn fetch(&self) -> Result<Fetched, Fault> {
        let Some(stale) = self.stale.as_ref().filter(|stale| stale.meta.has_validator()) else {
            return Ok(Fetched::Answer(self.ask(Purpose::Fill).await?));
        };
        let conditions = conditions(stale);
        let answer = self.ask(Purpose::Validate(&conditions)).await?;
        if answer.head.status != 304 {
            return Ok(Fetched::Answer(answer));
        }
        match self.confirm(stale, &answer) {
            Some(head) => Ok(Fetched::Confirmed(head)),
            // It speaks of some other response (RFC 9111 §4.3.4): ask for a whole one.
            None => Ok(Fetched::Answer(self.ask(Purpose::Fill).await?)),
        }
    }

    async fn ask(&self, purpose: Purpose<'_>) -> Result<OriginAnswer, Fault> {
        let request = Exchange {
            worker: &self.worker,
            origin: &self.origin,
            settings: &self.config.server,
            outbound: Outbound { asked: &self.asked, purpose, via: &self.worker.via },
            interim: &self.interim,
        };
        exchange(&request, None).await
    }

    fn rules(&self) -> CacheRules {
        CacheRules {
            heuristic_percent: self.route.heuristic_percent,
            heuristic_s_max: self.route.heuristic_s_max,
            default_freshness_s: self.route.default_freshness_s,
        }
    }

    /// The head of the stored response after a 304 (RFC 9111 §4.3.4).
    fn confirm(&self, stale: &StoredResponse, answer: &OriginAnswer) -> Option<Vec<u8>> {
        let update = answer.head.block.fields();
        if !may_update(&stale.meta, stale.block(), update) {
            return None;
        }
        let arrival = arrival(answer);
        let merged = merge_304(&FieldBlock::parse(stale.block())?, update);
        let block = stored_lines(&merged, &arrival);
        let mut meta = StoredMeta::new(stale.meta.status, &block, &arrival, &self.rules());
        meta.body_bytes = stale.meta.body_bytes;
        Some(stored_head(&meta, &block))
    }

    async fn keep_or_pass(self, answer: OriginAnswer, leader: Leader, own: oneshot::Sender<Told>) {
        let begun = match self.storable(&answer) {
            Ok(kept) => leader
                .begin(&kept.head, kept.base, answer.head.content_length)
                .map_err(|(leader, refused)| (leader, Unkept::of(refused))),
            Err(unkept) => Err((leader, unkept)),
        };
        match begun {
            Ok(filling) => {
                tell(own, Told::Follow { fwd_status: answer.head.status });
                fill(filling, answer.body, self.route.object_bytes_max).await;
            }
            Err((leader, unkept)) => {
                self.worker.count(Counter::NotStored);
                if unkept.lasts && answer.head.status < 500 {
                    leader.decline(clock::monotonic_ms());
                } else {
                    leader.decline_once();
                }
                tell(own, Told::Pass { answer, detail: unkept.detail });
            }
        }
    }

    fn storable(&self, answer: &OriginAnswer) -> Result<Kept, Unkept> {
        let status = answer.head.status;
        let response = OriginResponse::new(status, answer.head.block.fields());
        let asked = self.asked.fields().fields();
        let request = ClientRequest {
            is_get: true,
            has_body: false,
            fields: asked,
            directives: RequestDirectives::parse(asked),
        };
        let rules = self.rules();
        storable(&request, &response, &rules, answer.response_time)
            .map_err(|why| Unkept { detail: why.detail(), lasts: true })?;
        let length = answer.head.content_length;
        if length.is_some_and(|length| length > self.route.object_bytes_max) {
            return Err(Unkept::of(Refused::TooLarge));
        }
        let arrival = arrival(answer);
        let block = stored_lines(&answer.head.block, &arrival);
        let mut meta = StoredMeta::new(status, &block, &arrival, &rules);
        meta.body_bytes = length;
        Ok(Kept { head: stored_head(&meta, &block), base: self.base(&answer.head.block) })
    }

    /// By what the answer varies, and what of it this request asked for.
    fn base(&self, block: &FieldBlock) -> Option<Base> {
        let Vary::Names(names) = vary_names(block.fields()) else {
            return None;
        };
        let mut variant = Vec::new();
        secondary_key(FieldNames::decode(&names)?, self.asked.fields().fields(), &mut variant);
        Some(Base { names, variant })
    }
}

/// What of a storable answer is stored beside its body.
struct Kept {
    head: Vec<u8>,
    base: Option<Base>,
}

/// Why an answer is not stored, and whether the next one for its key probably won't be either.
struct Unkept {
    detail: &'static str,
    lasts: bool,
}

impl Unkept {
    fn of(refused: Refused) -> Unkept {
        match refused {
            Refused::TooLarge => Unkept { detail: "too-large", lasts: true },
            Refused::NoRoom => Unkept { detail: "no-room", lasts: false },
        }
    }
}

fn arrival(answer: &OriginAnswer) -> Arrival {
    Arrival::new(answer.head.block.fields(), answer.request_time, answer.response_time)
}

/// The lines as they are stored: without Age, which is computed anew for each use, and with a
/// Date, which a recipient adds if the origin sent none (RFC 9110 §6.6.1).
fn stored_lines(received: &FieldBlock, arrival: &Arrival) -> FieldBlock {
    let mut block = FieldBlock::new();
    for field in received.fields().iter().filter(|field| field.id != FieldId::Age) {
        block.push(field.name, field.value);
    }
    if !block.fields().contains(FieldId::Date) {
        block.push(b"date", &write_date(arrival.response_time));
    }
    block
}

fn stored_head(meta: &StoredMeta, block: &FieldBlock) -> Vec<u8> {
    let mut head = Vec::with_capacity(STORED_META_BYTES + block.bytes().len());
    meta.encode(&mut head);
    head.extend_from_slice(block.bytes());
    head
}

/// The preconditions that validate a stored response.
fn conditions(stale: &StoredResponse) -> FieldBlock {
    let validators = validator_fields(&stale.meta, stale.block());
    let mut conditions = FieldBlock::new();
    if let Some(etag) = validators.if_none_match {
        conditions.push(b"if-none-match", etag);
    }
    if let Some(date) = validators.if_modified_since {
        conditions.push(b"if-modified-since", &write_date(date));
    }
    conditions
}
