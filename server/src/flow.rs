//! The way of a request. This file is read first.
//!
//! ```text
//! accept → parse → key → lookup ─┬─ hit ───────────────────────────► deliver
//!                                └─ miss → fetch (or follow) → store → deliver
//! ```
//!
//! Each step is a folder of its name. A hit runs from `parse` to `deliver` without waiting and
//! without a heap allocation; only what goes to the origin waits.

use std::rc::Rc;

use forebay_http::policy::cache_status::CacheStatus;
use forebay_http::policy::range::RangeDecision;
use forebay_http::policy::reuse::ForwardReason;
use forebay_rules::apply::{OwnAnswer, RequestText, RequestView, RuledRequest};
use forebay_rules::ast::{Hook, HttpControl};

use crate::accept::Client;
use crate::buffers::Buffers;
use crate::clock;
use crate::config::Config;
use crate::counters::Counter;
use crate::deliver::{
    Answered, Begun, Broken, Own, Relay, Reply, RestOf, deliver_fault, deliver_growing,
    deliver_long, deliver_options, deliver_own, deliver_pass, deliver_purged, deliver_ruled,
    deliver_stored, is_for_us,
};
use crate::fault::Fault;
use crate::fetch::InterimQueue;
use crate::key::{RouteMatch, is_back_again, match_route, write_key};
use crate::log::Access;
use crate::lookup::{
    Forward, LookupQuery, LookupResult, SelectedPart, lookup, stored_block, write_strong_tag,
};
use crate::parse::{Request, ResponseForm};
use crate::rules::{HookContext, RuleState, unseen, view_of};
use crate::send_queue::SendQueue;
use crate::store::{Needs, Source, is_purge, obtain, purge_asked};

/// Answers the request whose head of `head_bytes` stands at the start of the input.
///
/// `last`: the connection ends with it.
///
/// # Errors
/// A fault in the middle of the answer: the connection must be reset.
pub(crate) async fn answer(
    client: &Client,
    config: &Rc<Config>,
    buffers: &mut Buffers,
    head_bytes: usize,
    last: bool,
) -> Result<After, Fault> {
    let Buffers { input, parts, key, variant, out, pre_remap, post_remap } = buffers;
    client.begin_request();
    let mut told = FetchOutcome { cache: CacheStatus::REFUSED, place: None };
    let mut access = Access::default();
    let mut form = ResponseForm::UNKNOWN;
    // Bytes of a body that stay unread would be taken for the next request.
    let mut unread = true;
    let way = Way { client, config, rule_state: &RuleState::new(client, config.has_rules()) };
    let head = parts.head(input.bytes().get(..head_bytes).unwrap_or_default());
    access.begin(client, head);
    let taken = match Request::check(head) {
        Err(fault) => Ok(Taken::Answered(refuse(client, out, fault, form, &told.cache, None))),
        Ok(mut received) => {
            received.form.keep_alive &= !last;
            form = received.form;
            unread = received.has_body();
            let scratch = Scratch { key, variant, out, pre_remap, post_remap };
            let taken = way.steps(&received, scratch, &mut told).await;
            taken.or_else(|broken| {
                let view = way.view(&received, &received);
                form.keep_alive &= !unread;
                way.answer_fault(broken, out, form, &told, view).map(Taken::Answered)
            })
        }
    };
    input.consume(head_bytes);
    let (answered, is_logged) = match taken {
        Ok(Taken::Answered(answered)) => (Ok(answered), way.ends()),
        Err(broken) => (Err(broken), way.ends()),
        Ok(Taken::Own(own)) => {
            let way = Way { rule_state: own.rule_state(), ..way };
            let cache = &mut told.cache;
            let work = deliver_own(client, config, &own, (input, out), cache, &mut unread);
            let answered = Box::pin(work).await.or_else(|broken| {
                form.keep_alive &= !unread;
                way.answer_fault(broken, out, form, &told, own.view())
            });
            (answered, way.ends())
        }
    };
    let answered = match answered {
        Ok(answered) => answered,
        Err(Broken::Before(Fault::ClientGone)) => return Err(Fault::ClientGone),
        Err(Broken::Before(fault) | Broken::Midway(fault)) => {
            client.worker.fault(fault, client.peer.ip());
            access.end(client, BROKEN_OFF, 0, &told.cache);
            return Err(fault);
        }
    };
    if is_logged {
        access.end(client, answered.status, answered.body_bytes, &told.cache);
    }
    Ok(match answered.keep_alive && !unread {
        true => After::GoOn,
        // Where the end is our own decision, the next request may be on its way already.
        false if unread || last => After::Linger,
        false => After::Close,
    })
}

/// What the access log has for an answer that broke off, whoever was to blame: the status that was
/// sent would say that all went well.
const BROKEN_OFF: u16 = 499;

/// What becomes of the connection after an answer.
pub(crate) enum After {
    /// It takes the next request.
    GoOn,
    /// It ends; everything the client sent was read.
    Close,
    /// It ends, and the client may still be sending.
    Linger,
}

/// Buffers that the steps write to.
struct Scratch<'a> {
    key: &'a mut Vec<u8>,
    variant: &'a mut Vec<u8>,
    out: &'a mut SendQueue,
    /// The request as rules left it before its site was known, and before its key was.
    pre_remap: &'a mut RequestText,
    post_remap: &'a mut RequestText,
}

/// What is known of a request by the time that it is answered.
struct FetchOutcome<'c> {
    cache: CacheStatus,
    place: Option<RouteMatch<'c>>,
}

/// How far the steps have come.
enum Taken<'c> {
    Answered(Answered),
    /// The exchange is this client's own: its body is still to be read from the input.
    Own(Box<Own<'c>>),
}

/// For whom, by which settings, and what rules carry along.
#[derive(Clone, Copy)]
struct Way<'w, 'c> {
    client: &'w Client,
    config: &'c Rc<Config>,
    rule_state: &'w RuleState,
}

impl<'w, 'c: 'w> Way<'w, 'c> {
    /// The rules that hold, and what they see.
    fn ruling(&self, place: Option<RouteMatch<'c>>, view: RequestView<'w>) -> HookContext<'w> {
        HookContext {
            worker: &self.client.worker,
            client: Some(self.client),
            config: self.config,
            rules: self.config.rules_of(place.map(|place| place.route)),
            origin: place.map(|place| &place.site.origin),
            rule_state: self.rule_state,
            view,
        }
    }

    /// A request as rules see it; nobody looks where there are none.
    fn view(&self, request: &Request<'w>, received: &Request<'w>) -> RequestView<'w> {
        match self.config.has_rules() {
            true => view_of(request, received),
            false => unseen(request),
        }
    }

    /// The connection keeps its variables; is the request to be logged?
    fn ends(&self) -> bool {
        self.rule_state.end(self.client);
        !self.rule_state.is_off(HttpControl::Logging)
    }

    /// Answers a fault, if nothing of another answer has been sent.
    fn answer_fault(
        &self,
        broken: Broken,
        out: &mut SendQueue,
        form: ResponseForm,
        told: &FetchOutcome<'c>,
        view: RequestView<'w>,
    ) -> Result<Answered, Broken> {
        match broken {
            // Of an answer before this one: nothing can follow it.
            Broken::Midway(_) | Broken::Before(Fault::ClientGone | Fault::HitCut) => Err(broken),
            Broken::Before(fault) => {
                let rules = self.ruling(told.place, view);
                Ok(refuse(self.client, out, fault, form, &told.cache, Some(&rules)))
            }
        }
    }

    /// The steps from a checked request to its answer, with the rules that come before its key.
    async fn steps(
        &self,
        received: &Request<'w>,
        scratch: Scratch<'w>,
        told: &mut FetchOutcome<'c>,
    ) -> Result<Taken<'c>, Broken> {
        #[cfg(test)]
        crate::tests::panic_if_asked(received.target.path_query);
        if is_back_again(received, &self.client.worker.via) {
            return Err(Broken::Before(Fault::Loop));
        }
        let Scratch { key, variant, out, pre_remap, post_remap } = scratch;
        let first = match self.rule(Hook::ReadRequest, received, received, None, pre_remap)? {
            Next::Request(request) => request,
            Next::Answer(answer, rules) => {
                let ruled = (&answer, &rules);
                let answered = answer_ruled(self.client, out, received, ruled, &told.cache);
                return Ok(Taken::Answered(answered));
            }
        };
        let place = match_route(self.config, &first).map_err(Broken::Before)?;
        told.place = Some(place);
        let request = match self.rule(Hook::Remap, &first, received, Some(place), post_remap)? {
            Next::Request(request) => request,
            Next::Answer(answer, rules) => {
                let ruled = (&answer, &rules);
                let answered = answer_ruled(self.client, out, received, ruled, &told.cache);
                return Ok(Taken::Answered(answered));
            }
        };
        let ruling = self.ruling(Some(place), self.view(&request, received));
        let of_whom = (self.client, self.config, place);
        let buffers = (key, variant, out);
        find_or_fetch(&ruling, of_whom, &request, buffers, &mut told.cache).await
    }

    /// What rules make of a request before it is looked up.
    fn rule(
        &self,
        hook: Hook,
        request: &Request<'w>,
        received: &Request<'w>,
        place: Option<RouteMatch<'c>>,
        into: &'w mut RequestText,
    ) -> Result<Next<'w>, Broken> {
        let rules = self.config.rules_of(place.map(|place| place.route));
        if !rules.program.has(hook) {
            return Ok(Next::Request(*request));
        }
        let ruling = self.ruling(place, self.view(request, received));
        let ruled = ruling.request(hook, request.form.version, into);
        match ruled.map_err(Broken::Before)? {
            RuledRequest::Same => Ok(Next::Request(*request)),
            RuledRequest::Changed(head) => {
                let changed = Request::check(head).map_err(|_| Broken::Before(Fault::Rules))?;
                Ok(Next::Request(Request { form: received.form, ..changed }))
            }
            RuledRequest::Answer(answer) => Ok(Next::Answer(answer, ruling)),
        }
    }
}

/// What comes of a request that rules have seen.
enum Next<'w> {
    Request(Request<'w>),
    Answer(OwnAnswer, HookContext<'w>),
}

/// An answer that rules give instead of what was asked for.
fn answer_ruled(
    client: &Client,
    out: &mut SendQueue,
    received: &Request<'_>,
    (answer, rules): (&OwnAnswer, &HookContext<'_>),
    cache: &CacheStatus,
) -> Answered {
    let mut form = received.form;
    form.keep_alive &= !received.has_body();
    client.worker.count(Counter::RuledAnswers);
    deliver_ruled(&Reply { client, form, cache, rules }, out, answer)
}

/// From a request whose site is known to its answer.
async fn find_or_fetch<'c>(
    ruling: &HookContext<'_>,
    (client, config, place): (&Client, &'c Rc<Config>, RouteMatch<'c>),
    request: &Request<'_>,
    (key, variant, out): (&mut Vec<u8>, &mut Vec<u8>, &mut SendQueue),
    cache: &mut CacheStatus,
) -> Result<Taken<'c>, Broken> {
    let reply = |cache| Reply { client, form: request.form, cache, rules: ruling };
    if is_for_us(request) && !request.has_body() {
        return Ok(Taken::Answered(deliver_options(&reply(cache), out)));
    }
    write_key(key, place.site, request.target.authority, request.target.path_query);
    if is_purge(place, request) {
        let asker = (&*client.worker, client.peer.ip());
        let purged = Box::pin(purge_asked(asker, place, request, key)).await;
        let purged = purged.map_err(Broken::Before)?;
        let mut reply = reply(cache);
        reply.form.keep_alive &= !request.has_body();
        return Ok(Taken::Answered(deliver_purged(&reply, out, &purged)));
    }
    let now = clock::unix_seconds();
    let (store, is_used) = (&client.worker.store, client.worker.store_is_used());
    let is_ruled_out = ruling.rule_state.is_off(HttpControl::RequestCacheable);
    let wanted = LookupQuery { store, is_used, is_ruled_out, route: place.route, key, now };
    let forward = match lookup(&wanted, request, variant) {
        LookupResult::Hit(hit) => {
            *cache = CacheStatus::hit(hit.ttl);
            ruling.rule_state.is_hit();
            count_hit(client, hit.part);
            let reply = reply(cache);
            let answered = match deliver_stored(&reply, out, hit, variant) {
                Begun::Whole(answered) => answered,
                Begun::Long(answer) => {
                    let rest = RestOf { config, place, request, tag: variant };
                    deliver_long(&reply, out, answer, &rest).await?
                }
            };
            return Ok(Taken::Answered(answered));
        }
        LookupResult::Forward(forward) => forward,
    };
    *cache = CacheStatus::forwarded(forward.reason);
    ruling.rule_state.forwarded(forward.reason);
    count_forward(client, forward.reason);
    if request.directives.only_if_cached {
        return Err(Broken::Before(Fault::OnlyIfCached));
    }
    let interim = InterimQueue::new();
    let mut shared_key = None;
    if forward.fills {
        let needs = Needs { client, config, place, request, key, interim: &interim, ruling };
        if let Some(answered) = Box::pin(miss_answer(&needs, forward, variant, out, cache)).await? {
            return Ok(Taken::Answered(answered));
        }
        shared_key = Some(key.to_vec());
    }
    let own = Own::copy(ruling, request, place, shared_key, interim).map_err(Broken::Before)?;
    Ok(Taken::Own(Box::new(own)))
}

/// From lookup through fetch and store to serve; `None` if the request has to go alone.
async fn miss_answer(
    needs: &Needs<'_>,
    forward: Forward,
    variant: &mut Vec<u8>,
    out: &mut SendQueue,
    cache: &mut CacheStatus,
) -> Result<Option<Answered>, Broken> {
    let (client, request) = (needs.client, needs.request);
    let relay = Relay { client, form: request.form, queue: needs.interim };
    let obtained = relay.until(out, obtain(needs, forward, variant)).await?;
    let obtained = obtained.map_err(Broken::Before)?;
    *cache = obtained.cache;
    let reply = Reply { client, form: request.form, cache, rules: needs.ruling };
    match obtained.source {
        Source::Alone => Ok(None),
        Source::Stored(hit) => match deliver_stored(&reply, out, *hit, variant) {
            Begun::Whole(answered) => Ok(Some(answered)),
            Begun::Long(answer) => {
                let rest =
                    RestOf { config: needs.config, place: needs.place, request, tag: variant };
                deliver_long(&reply, out, answer, &rest).await.map(Some)
            }
        },
        Source::Growing(reader, meta) => {
            write_strong_tag(&meta, stored_block(reader.head()), variant);
            let rest = RestOf { config: needs.config, place: needs.place, request, tag: variant };
            deliver_growing(&reply, out, (reader, &meta), &rest).await.map(Some)
        }
        Source::Pass(answer) => deliver_pass(&reply, out, *answer).await.map(Some),
    }
}

/// An answer of our own in place of the one that was asked for.
fn refuse(
    client: &Client,
    out: &mut SendQueue,
    fault: Fault,
    form: ResponseForm,
    cache: &CacheStatus,
    rules: Option<&HookContext<'_>>,
) -> Answered {
    client.worker.fault(fault, client.peer.ip());
    client.worker.count(Counter::FaultsSent);
    deliver_fault(out, fault, form, cache, rules)
}

fn count_hit(client: &Client, part: SelectedPart) {
    client.worker.count(Counter::Hits);
    match part {
        SelectedPart::NotModified => client.worker.count(Counter::HitsNotModified),
        SelectedPart::Body(RangeDecision::Part { .. }) => client.worker.count(Counter::HitsRange),
        SelectedPart::Body(_) => {}
    }
}

fn count_forward(client: &Client, reason: ForwardReason) {
    client.worker.count(match reason {
        ForwardReason::Bypass | ForwardReason::Method => Counter::Bypasses,
        ForwardReason::Stale | ForwardReason::Request => Counter::Stale,
        _ => Counter::Misses,
    });
}
