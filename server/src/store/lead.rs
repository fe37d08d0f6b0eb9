//! The leader's task: fetch, decide, store.

use std::rc::Rc;

use forebay_cache::{FillRefused, Leader, RecordTags, RecordTimes, TagsError, VariantKey};
use forebay_http::date::write_date;
use forebay_http::fields::{FieldBlock, FieldId, FieldSet};
use forebay_http::hop::HOP_BY_HOP;
use forebay_http::policy::conditional::validator_fields;
use forebay_http::policy::directives::RequestDirectives;
use forebay_http::policy::exchange::{CacheRules, ClientRequest, OriginResponse, ResponseTiming};
use forebay_http::policy::meta::{STORED_META_BYTES, StoredMeta};
use forebay_http::policy::storable::{NotStorable, storable};
use forebay_http::policy::update::{may_update, merge_304};
use forebay_http::policy::vary::{FieldNames, Vary, secondary_key, vary_names};
use forebay_rules::ast::{Hook, HttpControl};
use tokio::sync::oneshot;

use super::fill::fill;
use super::tags::{record_tags, renewed_tags};
use crate::clock;
use crate::config::{Config, Route, RouteNumber, RouteSettings};
use crate::counters::Counter;
use crate::events::Event;
use crate::fault::Fault;
use crate::fetch::{
    CONDITIONS, Exchange, InterimQueue, OriginAnswer, Outbound, OwnedRequest, Purpose, REWRITTEN,
    exchange,
};
use crate::key::RouteMatch;
use crate::lookup::Stale;
use crate::rules::{HookContext, RuleProgress};
use crate::worker::Worker;

/// Everything that the task needs; it outlives the client that started it.
pub(super) struct FetchTask {
    pub(super) worker: Rc<Worker>,
    pub(super) config: Rc<Config>,
    /// Which route of the configuration it is for.
    pub(super) number: RouteNumber,
    pub(super) asked: OwnedRequest,
    /// What is stored and to be validated.
    pub(super) stale: Option<Stale>,
    /// Where interim answers go: to the leader's own client.
    pub(super) interim: InterimQueue,
}

/// What the leader's own client is told.
pub(super) enum FetchOutcome {
    /// The answer is stored, or is being stored: follow it.
    Follow { fwd_status: u16, progress: RuleProgress },
    /// The answer is not stored: it is yours alone.
    Pass { answer: Box<OriginAnswer>, detail: &'static str, progress: RuleProgress },
    /// There is no answer.
    Failed(Fault),
}

/// Fetches on behalf of all who follow.
pub(super) async fn lead(task: FetchTask, leader: Leader, own: oneshot::Sender<FetchOutcome>) {
    match task.fetch().await {
        Err(fault) => {
            leader.fail();
            tell(own, FetchOutcome::Failed(fault));
        }
        Ok(Fetched::Confirmed(update)) => {
            task.worker.count(Counter::Validated);
            leader.validated(&update.head, update.times, update.tags.as_ref());
            task.worker.notify_stored();
            tell(
                own,
                FetchOutcome::Follow {
                    fwd_status: 304,
                    progress: task.asked.rule_state.progress(),
                },
            );
        }
        Ok(Fetched::Answer(answer)) => task.keep_or_pass(answer, leader, own).await,
    }
}

/// A client that left hears nothing; the fetch goes on without it.
fn tell(own: oneshot::Sender<FetchOutcome>, told: FetchOutcome) {
    let _ = own.send(told);
}

enum Fetched {
    Answer(Box<OriginAnswer>),
    /// The stored response is good, with this head.
    Confirmed(Update),
}

/// What a 304 makes of the stored head.
struct Update {
    head: Vec<u8>,
    /// Others than it has.
    tags: Option<RecordTags>,
    times: RecordTimes,
}

impl FetchTask {
    fn route(&self) -> &Route {
        self.config.sites.place(self.number).1
    }

    fn ruling(&self) -> HookContext<'_> {
        let (site, route) = self.config.sites.place(self.number);
        HookContext {
            worker: &self.worker,
            client: None,
            config: &self.config,
            rules: self.config.rules_of(Some(route)),
            origin: Some(&site.origin),
            rule_state: &self.asked.rule_state,
            view: self.asked.view(),
        }
    }

    async fn fetch(&self) -> Result<Fetched, Fault> {
        let Some(stale) = self.stale.as_ref().filter(|stale| stale.meta.has_validator()) else {
            return Ok(Fetched::Answer(Box::new(self.ask(Purpose::Fill).await?)));
        };
        let conditions = conditions(stale);
        let mut answer = self.ask(Purpose::Validate(&conditions)).await?;
        if answer.received_status != 304 {
            return Ok(Fetched::Answer(Box::new(answer)));
        }
        // It has no body; having seen the end of none, the connection goes back to the pool.
        answer.body.next().await?;
        match self.confirm(stale, &answer) {
            Some(update) => Ok(Fetched::Confirmed(update)),
            // It speaks of some other response (RFC 9111 §4.3.4), or what it makes of the stored
            // one is not for everybody: ask for a whole one.
            None => Ok(Fetched::Answer(Box::new(self.ask(Purpose::Fill).await?))),
        }
    }

    async fn ask(&self, purpose: Purpose<'_>) -> Result<OriginAnswer, Fault> {
        let request = Exchange {
            worker: &self.worker,
            origin: &self.config.sites.place(self.number).0.origin,
            settings: &self.config.server,
            outbound: Outbound {
                asked: &self.asked,
                purpose,
                via: &self.worker.via_line,
                rules: self.ruling(),
            },
            interim: &self.interim,
        };
        exchange(&request, None).await
    }

    /// The head of the stored response after a 304 (RFC 9111 §4.3.4).
    fn confirm(&self, stale: &Stale, answer: &OriginAnswer) -> Option<Update> {
        let update = answer.head.block.fields();
        if !may_update(&stale.meta, stale.block(), update) {
            return None;
        }
        let arrival = arrival(answer);
        let stored = FieldBlock::parse(stale.block())?;
        let merged = merge_304(&stored, update);
        let may_stay =
            check(&self.asked, stale.meta.status, &merged, &rules(&self.route().settings)).is_ok()
                && vary_names(merged.fields()) == vary_names(stored.fields());
        let is_permitted = permitted_by_rules(&self.ruling(), &merged).is_ok();
        if !may_stay || !is_permitted {
            return None;
        }
        let block = stored_lines(&merged, &arrival, &self.route().settings);
        let mut meta =
            StoredMeta::new(stale.meta.status, &block, &arrival, &rules(&self.route().settings));
        meta.body_bytes = stale.meta.body_bytes;
        let tags = renewed_tags(&stale.tags, merged.fields(), &self.route().settings).ok()?;
        Some(Update { head: stored_head(&meta, &block), tags, times: times(&meta) })
    }

    async fn keep_or_pass(
        self,
        mut answer: Box<OriginAnswer>,
        leader: Leader,
        own: oneshot::Sender<FetchOutcome>,
    ) {
        let begun = match self.storable(&answer) {
            Ok(kept) => leader
                .begin(&kept.head, kept.base, answer.head.content_length, kept.times)
                .map(|mut filling| {
                    filling.tag(kept.tags);
                    filling
                })
                .map_err(|(leader, refused)| (leader, Unkept::of(refused))),
            Err(unkept) => Err((leader, unkept)),
        };
        match begun {
            Ok(filling) => {
                let progress = self.asked.rule_state.progress();
                tell(own, FetchOutcome::Follow { fwd_status: answer.received_status, progress });
                let bytes_max = self.route().settings.object_bytes_max;
                fill(filling, answer.body, bytes_max).await;
            }
            Err((leader, unkept)) => {
                self.worker.count(Counter::NotStored);
                if unkept.lasts {
                    leader.decline(clock::monotonic_ms());
                } else {
                    leader.decline_once();
                }
                let progress = self.asked.rule_state.progress();
                let detail = unkept.detail;
                answer.head.block.remove(self.route().settings.hidden_fields());
                tell(own, FetchOutcome::Pass { answer, detail, progress });
            }
        }
    }

    fn storable(&self, answer: &OriginAnswer) -> Result<Kept, Unkept> {
        let status = answer.head.status;
        permitted_by_rules(&self.ruling(), &answer.head.block)?;
        let rules = rules(&self.route().settings);
        check(&self.asked, status, &answer.head.block, &rules)?;
        let tags = record_tags(answer.head.block.fields(), &self.route().settings)
            .map_err(|error| self.unkept_for_tags(error, status))?;
        let length = answer.head.content_length;
        if length.is_some_and(|length| length > self.route().settings.object_bytes_max) {
            return Err(Unkept::of(FillRefused::TooLarge));
        }
        let arrival = arrival(answer);
        let block = stored_lines(&answer.head.block, &arrival, &self.route().settings);
        let mut meta = StoredMeta::new(status, &block, &arrival, &rules);
        meta.body_bytes = length;
        let base = self.base(&answer.head.block);
        let (head, times) = (stored_head(&meta, &block), times(&meta));
        Ok(Kept { head, tags, base, times })
    }

    fn unkept_for_tags(&self, error: TagsError, status: u16) -> Unkept {
        let (site, _) = self.config.sites.place(self.number);
        let path = self.asked.path_query().escape_ascii();
        self.worker.count(Counter::TagsRefused);
        self.worker.event(Event::TagsRefused, &format_args!("{} {path}: {error}", site.name));
        Unkept { detail: "tags", lasts: status < 400 }
    }

    /// By what the answer varies, and what of it this request asked for.
    fn base(&self, block: &FieldBlock) -> Option<VariantKey> {
        let Vary::Names(names) = vary_names(block.fields()) else {
            return None;
        };
        let mut variant = Vec::new();
        secondary_key(FieldNames::decode(&names)?, self.asked.fields().fields(), &mut variant);
        Some(VariantKey { names, variant })
    }
}

/// What of a storable answer is stored beside its body.
struct Kept {
    head: Vec<u8>,
    tags: RecordTags,
    base: Option<VariantKey>,
    times: RecordTimes,
}

/// Why an answer is not stored, and whether the next one for its key probably won't be either.
struct Unkept {
    detail: &'static str,
    lasts: bool,
}

impl Unkept {
    fn of(refused: FillRefused) -> Unkept {
        match refused {
            FillRefused::TooLarge => Unkept { detail: "too-large", lasts: true },
            FillRefused::NoRoom => Unkept { detail: "no-room", lasts: false },
        }
    }

    /// What lasts is what the origin says of a resource that it serves. What depends on this
    /// request, or is an error, must not keep others from sharing the next answer.
    fn why(why: NotStorable, status: u16) -> Unkept {
        use NotStorable::{NoFreshness, NoStore, Private, SetCookie, Vary};
        let of_resource = matches!(why, NoStore | Private | Vary | SetCookie | NoFreshness);
        Unkept { detail: why.detail(), lasts: of_resource && status < 400 }
    }
}

fn rules(route: &RouteSettings) -> CacheRules {
    CacheRules {
        heuristic_percent: route.heuristic_percent,
        heuristic_s_max: route.heuristic_s_max,
        default_freshness_s: route.default_freshness_s,
    }
}

/// May this answer be stored (RFC 9111 §3)?
fn check(
    asked: &OwnedRequest,
    status: u16,
    block: &FieldBlock,
    rules: &CacheRules,
) -> Result<(), Unkept> {
    let fields = asked.fields().fields();
    let request = ClientRequest {
        is_get: asked.is_get(),
        has_body: asked.has_body,
        fields,
        directives: RequestDirectives::parse(fields),
    };
    let response = OriginResponse::new(status, block.fields());
    storable(&request, &response, rules, clock::unix_seconds())
        .map_err(|why| Unkept::why(why, status))?;
    if varies_by_rewritten(block) {
        return Err(Unkept::why(NotStorable::Vary, status));
    }
    Ok(())
}

/// Does the answer vary by a field that the origin did not get as the client sent it? Then no key
/// made of the client's fields is the right one.
fn varies_by_rewritten(block: &FieldBlock) -> bool {
    let Vary::Names(names) = vary_names(block.fields()) else { return false };
    let rewritten = |name: &[u8]| {
        let id = FieldId::of(name);
        HOP_BY_HOP.contains(id) || REWRITTEN.contains(id) || CONDITIONS.contains(id)
    };
    FieldNames::decode(&names).is_none_or(|names| names.iter().any(rewritten))
}

/// May it be stored as far as rules are concerned? They may forbid it, and what varies by a field
/// that they change on the way to the origin has no key that is made of the client's fields.
fn permitted_by_rules(ruling: &HookContext<'_>, block: &FieldBlock) -> Result<(), Unkept> {
    let HookContext { rules, rule_state, .. } = ruling;
    let forbidden = rule_state.is_on(HttpControl::ServerNoStore)
        || rule_state.is_off(HttpControl::ResponseCacheable);
    let Vary::Names(names) = vary_names(block.fields()) else {
        return if forbidden { Err(RULED_OUT) } else { Ok(()) };
    };
    let changed = rules.program.changed_names(Hook::SendRequest);
    let is_changed =
        |name: &[u8]| changed.iter().any(|changed| changed.as_bytes().eq_ignore_ascii_case(name));
    let varies = FieldNames::decode(&names).is_none_or(|names| names.iter().any(is_changed));
    if forbidden || varies { Err(RULED_OUT) } else { Ok(()) }
}

/// It depends on the request, so the next answer may be stored.
const RULED_OUT: Unkept = Unkept { detail: "ruled-out", lasts: false };

/// A request went alone because an earlier answer could not be stored. If its own could, the next
/// requests share again.
pub(crate) fn notice_storable(
    worker: &Worker,
    place: RouteMatch<'_>,
    asked: &OwnedRequest,
    key: &[u8],
    answer: &OriginAnswer,
) {
    let settings = &place.route.settings;
    let block = &answer.head.block;
    let is_storable = check(asked, answer.head.status, block, &rules(settings)).is_ok();
    if is_storable && record_tags(block.fields(), settings).is_ok() {
        worker.store.forget_declined(key);
    }
}

fn arrival(answer: &OriginAnswer) -> ResponseTiming {
    ResponseTiming::new(answer.head.block.fields(), answer.request_time, answer.response_time)
}

/// Fields that tell of the message that came and not of the response: Age is computed anew for
/// each use, and what other caches did to get this copy is over.
const OF_MESSAGE: FieldSet = FieldSet::of(&[FieldId::Age, FieldId::CacheStatus]);

/// The lines as they are stored: without those of the message and what no client gets, and with a
/// Date, which a recipient adds if the origin sent none (RFC 9110 §6.6.1).
fn stored_lines(
    received: &FieldBlock,
    arrival: &ResponseTiming,
    settings: &RouteSettings,
) -> FieldBlock {
    let hidden = settings.hidden_fields();
    let is_left_out = |id| OF_MESSAGE.contains(id) || hidden.contains(id);
    let mut block = FieldBlock::new();
    for field in received.fields().iter().filter(|field| !is_left_out(field.id)) {
        block.push_field(field);
    }
    if !block.fields().contains(FieldId::Date) {
        block.push(b"date", &write_date(arrival.response_time));
    }
    block
}

fn times(meta: &StoredMeta) -> RecordTimes {
    // Seconds of 32 bits last until 2106.
    let response_time = u32::try_from(meta.response_time).unwrap_or(u32::MAX);
    RecordTimes { response_time, stale_from: meta.stale_from() }
}

fn stored_head(meta: &StoredMeta, block: &FieldBlock) -> Vec<u8> {
    let mut head = Vec::with_capacity(STORED_META_BYTES + block.bytes().len());
    meta.encode(&mut head);
    head.extend_from_slice(block.bytes());
    head
}

/// The preconditions that validate a stored response.
fn conditions(stale: &Stale) -> FieldBlock {
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
