//! Applies the response to a HEAD request to the stored response to GET (RFC 9111 §4.3.5).

use forebay_http::policy::exchange::ClientRequest;
use forebay_http::policy::reuse::ForwardReason;
use forebay_http::policy::update::{HeadEffect, head_effect};
use forebay_http::request::Method;

use super::answer::OriginAnswer;
use super::condition;
use super::outbound::OutboundLine;
use crate::counters::Counter;
use crate::lookup::Stale;
use crate::store::StoreContext;
use crate::transaction::Transaction;

/// A HEAD request on its way to the origin.
pub(super) struct HeadRequest {
    /// The last purge before the origin was asked.
    purge_noted: u64,
}

impl HeadRequest {
    /// Notes that the request goes to the origin; `None` if its response has no effect on stored
    /// responses.
    pub(super) fn begin(transaction: &Transaction<'_>, reason: ForwardReason) -> Option<Self> {
        let is_head = transaction.request.head.method() == Method::Head;
        let is_used = transaction.worker().store_is_used() && condition::is_evaluated(reason);
        (is_head && is_used).then(|| HeadRequest { purge_noted: transaction.store().purge_noted() })
    }

    /// Updates the stored response, or makes it stale.
    pub(super) fn end(self, transaction: &mut Transaction<'_>, answer: &OriginAnswer) {
        let (head, worker) = (&answer.head, transaction.worker());
        if head.status != 200 || answer.received_status != 200 {
            return;
        }
        let (stale, effect) = {
            let Some(stored) = transaction.selected() else { return };
            let (meta, body_bytes) = (&stored.meta, stored.found.body().bytes());
            let fields = head.block.fields();
            let length = head.content_length;
            let effect = head_effect((meta, stored.block()), body_bytes, fields, length);
            (stored.to_stale(), effect)
        };
        match effect {
            HeadEffect::Update if self.update(transaction, &stale, answer).is_some() => {
                worker.count(Counter::HeadUpdates);
            }
            HeadEffect::MakeStale => {
                let (key, variant) = stored_key(transaction);
                transaction.store().soften(key, variant, stale.known);
                worker.count(Counter::HeadOutdated);
            }
            HeadEffect::Update | HeadEffect::None => {}
        }
    }

    /// Updates the stored response. Returns `None` if the result may not be stored, or the stored
    /// response was purged or replaced.
    fn update(
        &self,
        transaction: &Transaction<'_>,
        stale: &Stale,
        answer: &OriginAnswer,
    ) -> Option<()> {
        let line = OutboundLine::new(&transaction.request).ok()?;
        let request = ClientRequest {
            // The stored response is one to GET.
            is_get: true,
            has_body: false,
            fields: transaction.request.head.fields(),
            directives: transaction.request.directives,
        };
        let (hook, route) = (transaction.hook_context(), transaction.route());
        let context = StoreContext { hook, route, request, path_query: line.path_query() };
        let renewed = context.renewed_head(stale, &answer.head.block, &answer.timing())?;
        let head = (&*renewed.head, renewed.times, renewed.tags.as_ref());
        let key = stored_key(transaction);
        let store = transaction.store();
        let is_renewed =
            renewed.is_storable && store.renew(key, stale.known, self.purge_noted, head);
        is_renewed.then_some(())
    }
}

/// The key of the stored response that the transaction has selected.
fn stored_key<'a>(transaction: &'a Transaction<'_>) -> (&'a [u8], Option<&'a [u8]>) {
    let variant = &**transaction.variant;
    (transaction.key, (!variant.is_empty()).then_some(variant))
}
