//! The way of a request. This file is read first.
//!
//! ```text
//! accept → parse → key → lookup ─┬─ hit ───────────────────────────► serve
//!                                └─ miss → fetch (or follow) → store → serve
//! ```
//!
//! Each step is a folder of its name. A hit runs from `parse` to `serve` without waiting and
//! without a heap allocation; only what goes to the origin waits.

use std::rc::Rc;

use forebay_http::policy::cache_status::CacheStatus;
use forebay_http::policy::range::RangeDecision;
use forebay_http::policy::reuse::ForwardReason;

use crate::accept::Client;
use crate::buffers::Buffers;
use crate::clock;
use crate::config::Config;
use crate::counters::Counter;
use crate::fault::Fault;
use crate::fetch::InterimQueue;
use crate::key::{is_back_again, place, write_key};
use crate::log::Access;
use crate::lookup::{Forward, Found, Part, Wanted, lookup, stored_block, write_strong_tag};
use crate::out::Out;
use crate::parse::{ReplyForm, Request};
use crate::serve::{
    Answered, Begun, Broken, Own, Relay, Reply, RestOf, is_for_us, serve_fault, serve_growing,
    serve_long, serve_options, serve_own, serve_pass, serve_stored,
};
use crate::store::{Needs, Source, obtain};

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
    let Buffers { input, parts, key, variant, out } = buffers;
    let mut cache = CacheStatus::REFUSED;
    let mut access = Access::default();
    let mut form = ReplyForm::UNKNOWN;
    // Bytes of a body that stay unread would be taken for the next request.
    let mut unread = true;
    let head = parts.head(input.bytes().get(..head_bytes).unwrap_or_default());
    access.begin(client, head);
    let taken = match Request::check(head) {
        Err(fault) => Err(Broken::Before(fault)),
        Ok(mut request) => {
            request.form.keep_alive &= !last;
            form = request.form;
            unread = request.has_body();
            let scratch = Scratch { key, variant, out };
            steps(client, config, &request, scratch, &mut cache).await
        }
    };
    input.consume(head_bytes);
    let answered = match taken {
        Ok(Taken::Answered(answered)) => Ok(answered),
        Ok(Taken::Own(own)) => {
            Box::pin(serve_own(client, config, *own, (input, out), &mut cache, &mut unread)).await
        }
        Err(broken) => Err(broken),
    };
    let answered = match answered {
        Ok(answered) => answered,
        Err(Broken::Before(Fault::ClientGone)) => return Err(Fault::ClientGone),
        // Of an answer before this one: nothing can follow it.
        Err(Broken::Before(Fault::HitCut)) => {
            client.worker.fault(Fault::HitCut, client.peer.ip());
            access.end(client, BROKEN_OFF, 0, &cache);
            return Err(Fault::HitCut);
        }
        Err(Broken::Before(fault)) => {
            form.keep_alive &= !unread;
            refuse(client, out, fault, form, &cache)
        }
        Err(Broken::Midway(fault)) => {
            client.worker.fault(fault, client.peer.ip());
            access.end(client, BROKEN_OFF, 0, &cache);
            return Err(fault);
        }
    };
    access.end(client, answered.status, answered.body_bytes, &cache);
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
    out: &'a mut Out,
}

/// How far the steps have come.
enum Taken<'c> {
    Answered(Answered),
    /// The exchange is this client's own: its body is still to be read from the input.
    Own(Box<Own<'c>>),
}

/// The steps from a checked request to its answer.
async fn steps<'c>(
    client: &Client,
    config: &'c Rc<Config>,
    request: &Request<'_>,
    scratch: Scratch<'_>,
    cache: &mut CacheStatus,
) -> Result<Taken<'c>, Broken> {
    #[cfg(test)]
    crate::tests::panic_if_asked(request.target.path_query);
    let Scratch { key, variant, out } = scratch;
    if is_back_again(request, &client.worker.via) {
        return Err(Broken::Before(Fault::Loop));
    }
    let place = place(config, request).map_err(Broken::Before)?;
    if is_for_us(request) && !request.has_body() {
        return Ok(Taken::Answered(serve_options(out, request, cache)));
    }
    write_key(key, place.site, request.target.authority, request.target.path_query);
    let now = clock::unix_seconds();
    let (store, is_used) = (&client.worker.store, client.worker.store_is_used());
    let wanted = Wanted { store, is_used, route: place.route, key, now };
    let forward = match lookup(&wanted, request, variant) {
        Found::Hit(hit) => {
            *cache = CacheStatus::hit(hit.ttl);
            let reply = Reply { client, form: request.form, cache };
            count_hit(client, hit.part);
            let answered = match serve_stored(&reply, out, hit, variant) {
                Begun::Whole(answered) => answered,
                Begun::Long(answer) => {
                    let rest = RestOf { config, place, request, tag: variant };
                    serve_long(&reply, out, answer, &rest).await?
                }
            };
            return Ok(Taken::Answered(answered));
        }
        Found::Forward(forward) => forward,
    };
    *cache = CacheStatus::forwarded(forward.reason);
    count_forward(client, forward.reason);
    if request.directives.only_if_cached {
        return Err(Broken::Before(Fault::OnlyIfCached));
    }
    let interim = InterimQueue::new();
    let mut shared_key = None;
    if forward.fills {
        let needs = Needs { client, config, place, request, key, interim: &interim };
        if let Some(answered) = Box::pin(miss_answer(&needs, forward, variant, out, cache)).await? {
            return Ok(Taken::Answered(answered));
        }
        shared_key = Some(key.to_vec());
    }
    let own = Own::copy(client, request, place, shared_key, interim).map_err(Broken::Before)?;
    Ok(Taken::Own(Box::new(own)))
}

/// From lookup through fetch and store to serve; `None` if the request has to go alone.
async fn miss_answer(
    needs: &Needs<'_>,
    forward: Forward,
    variant: &mut Vec<u8>,
    out: &mut Out,
    cache: &mut CacheStatus,
) -> Result<Option<Answered>, Broken> {
    let (client, request) = (needs.client, needs.request);
    let relay = Relay { client, form: request.form, queue: needs.interim };
    let obtained = relay.until(out, obtain(needs, forward, variant)).await?;
    let obtained = obtained.map_err(Broken::Before)?;
    *cache = obtained.cache;
    let reply = Reply { client, form: request.form, cache };
    match obtained.source {
        Source::Alone => Ok(None),
        Source::Stored(hit) => match serve_stored(&reply, out, *hit, variant) {
            Begun::Whole(answered) => Ok(Some(answered)),
            Begun::Long(answer) => {
                let rest =
                    RestOf { config: needs.config, place: needs.place, request, tag: variant };
                serve_long(&reply, out, answer, &rest).await.map(Some)
            }
        },
        Source::Growing(reader, meta) => {
            write_strong_tag(&meta, stored_block(reader.head()), variant);
            let rest = RestOf { config: needs.config, place: needs.place, request, tag: variant };
            serve_growing(&reply, out, (reader, &meta), &rest).await.map(Some)
        }
        Source::Pass(answer) => serve_pass(&reply, out, *answer).await.map(Some),
    }
}

/// An answer of our own in place of the one that was asked for.
fn refuse(
    client: &Client,
    out: &mut Out,
    fault: Fault,
    form: ReplyForm,
    cache: &CacheStatus,
) -> Answered {
    client.worker.fault(fault, client.peer.ip());
    client.worker.count(Counter::FaultsSent);
    serve_fault(out, fault, form, cache)
}

fn count_hit(client: &Client, part: Part) {
    client.worker.count(Counter::Hits);
    match part {
        Part::NotModified => client.worker.count(Counter::HitsNotModified),
        Part::Body(RangeDecision::Part { .. }) => client.worker.count(Counter::HitsRange),
        Part::Body(_) => {}
    }
}

fn count_forward(client: &Client, reason: ForwardReason) {
    client.worker.count(match reason {
        ForwardReason::Bypass | ForwardReason::Method => Counter::Bypasses,
        ForwardReason::Stale | ForwardReason::Request => Counter::Stale,
        _ => Counter::Misses,
    });
}
