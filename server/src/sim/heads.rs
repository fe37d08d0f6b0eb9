//! Responses to HEAD that contradict a stored response (RFC 9111 §4.3.5). Afterwards the stored
//! response must not be used as if it were fresh.

use std::cell::RefCell;
use std::collections::BTreeMap;

use forebay_testkit::Response;
use tokio::time::Instant;

use super::answers::is_hit;
use super::ideal::IdealReply;
use super::run::Run;
use super::scenario::Ask;
use super::sending::SentRequest;
use super::world::kind_of;

/// A response to HEAD that a client got from the origin.
#[derive(Debug)]
struct SeenHead {
    ask: Ask,
    /// The number of the event at which the response arrived. Requests with a later event must not
    /// use stored responses that this response contradicts.
    event: u64,
    exchange: u64,
    tag: String,
    /// The time at which the origin got the HEAD request.
    asked: Instant,
}

/// The responses to HEAD of a run.
#[derive(Default)]
pub(super) struct HeadLog {
    /// For each exchange with a HEAD request, the time at which the origin got the request.
    asked: RefCell<BTreeMap<u64, Instant>>,
    seen: RefCell<Vec<SeenHead>>,
}

impl HeadLog {
    /// Records that the origin has got a HEAD request.
    pub(super) fn note_asked(&self, exchange: u64, at: Instant) {
        self.asked.borrow_mut().insert(exchange, at);
    }

    /// Records a response to HEAD that came from the origin. Ignores a response that may be meant
    /// for its client alone, because it says nothing about stored responses.
    fn note_seen(&self, run: &Run, ask: &Ask, asked: &SentRequest, response: &Response) {
        let is_personal = asked.cookie.is_some() || !ask.spelling.cookie.is_empty();
        if !ask.is_head || is_personal || response.status != 200 {
            return;
        }
        let exchange = exchange_of(response);
        let at = exchange.and_then(|exchange| self.asked.borrow().get(&exchange).copied());
        let (Some(exchange), Some(at), Some(tag)) = (exchange, at, response.field("etag")) else {
            return;
        };
        let (ask, event) = (ask.clone(), run.world.borrow_mut().event());
        let head = SeenHead { ask, event, exchange, tag: tag.to_owned(), asked: at };
        self.seen.borrow_mut().push(head);
    }

    /// Whether an earlier HEAD contradicts the stored response with which a request was answered. A
    /// HEAD counts only if the stored response had arrived completely when the origin got the HEAD,
    /// and if the HEAD selects the same variant as the request. The number of the exchange does not
    /// identify the variant: if a 304 renews a variant that its own request does not select, two
    /// variants have the number of its exchange.
    fn contradicts(&self, reply: &IdealReply, ask: &Ask, asked: &SentRequest) -> bool {
        let contradicts = |head: &SeenHead| {
            head.ask.url == ask.url
                && head.event < asked.event
                && reply.event < head.exchange
                && reply.tag.as_ref().is_some_and(|tag| *tag != head.tag)
                && reply.matches(&head.ask)
                && reply.selects_alike(&head.ask, ask)
                && reply.has_arrived_before(head.asked)
        };
        self.seen.borrow().iter().any(contradicts)
    }
}

/// Checks that a response is not a fresh hit on a stored response that an earlier HEAD has
/// contradicted. Records the response if it came from the origin.
///
/// # Errors
/// An earlier HEAD has contradicted the response.
pub(super) fn check_heads(
    run: &Run,
    ask: &Ask,
    asked: &SentRequest,
    response: &Response,
) -> Result<(), String> {
    let heads = &run.ideal.heads;
    if !is_hit(response) {
        heads.note_seen(run, ask, asked, response);
        return Ok(());
    }
    let is_stale_use = response.field("cache-status").is_some_and(|it| it.contains("detail=stale"));
    // A request may match several responses of such a URL, but a HEAD concerns only one of them.
    if is_stale_use || kind_of(ask.url).vary_changes {
        return Ok(());
    }
    let reply = exchange_of(response).and_then(|exchange| run.ideal.stored(ask.url, exchange));
    match reply {
        Some(reply) if heads.contradicts(&reply, ask, asked) => {
            Err(format!("a hit came from exchange {}, which a HEAD had contradicted", reply.event))
        }
        _ => Ok(()),
    }
}

fn exchange_of(response: &Response) -> Option<u64> {
    response.field("x-exchange")?.parse().ok()
}
