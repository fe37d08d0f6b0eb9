//! Early hints: links of a stored page that a browser can follow while the page is validated.

use forebay_http::policy::early_hints::{hints, takes_hints};

use crate::counters::Counter;
use crate::interim::InterimQueue;
use crate::lookup::Stale;
use crate::transaction::Transaction;

/// Sends a browser an early hint (103) with the links of the stored page that is being validated,
/// if the setting `early_hints` of the route asks for it.
pub(crate) fn hint(transaction: &Transaction<'_>, stale: Option<&Stale>) {
    let Some(stale) = stale.filter(|_| transaction.route().route.settings.early_hints) else {
        return;
    };
    let request = &transaction.request;
    let is_for_all = !request.directives.is_authorized || stale.meta.permits_authorized;
    if stale.meta.status != 200 || !is_for_all || !takes_hints(request.head.fields()) {
        return;
    }
    let links = hints(stale.block());
    if !links.bytes().is_empty() {
        transaction.worker().count(Counter::EarlyHints);
        transaction.interim().push(InterimQueue::early_hints(links));
    }
}
