//! Step seven: sends the response to the client.
//!
//! Only this step appends to a client's send queue. [`begin`] takes a
//! [`Response`](crate::response::Response) of any kind and queues the part that needs no wait,
//! which for most hits is all of it; [`finish`] sends the rest. The last bytes stay in the queue,
//! so that the responses to several requests that arrived together are sent in one write.

mod begin;
mod chunks;
mod growing;
mod head;
mod long;
mod multipart;
mod origin_error;
mod relay;
mod stored;
mod streamed;
mod synthetic;
mod tunnel;

pub(crate) use begin::{BegunDelivery, DeliveryRest, begin};
pub(crate) use relay::relay_interim;

use forebay_http::framing::BodyFraming;

use crate::accept::Client;
use crate::counters::Counter;
use crate::fault::Fault;
use crate::parse::ResponseForm;
use crate::response::SyntheticResponse;
use crate::send_queue::SendQueue;
use crate::transaction::Transaction;

use growing::deliver_growing;
use head::HeadContext;
use long::deliver_long;
use streamed::deliver_streamed;
use synthetic::queue_synthetic;
use tunnel::deliver_tunnel;

/// The outcome of a response that was sent, or whose last bytes are in the send queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivered {
    pub(crate) status: u16,
    pub(crate) body_bytes: u64,
    /// Whether the client's connection stays open after the response.
    pub(crate) keep_alive: bool,
}

/// The reason why a response was not sent as a whole.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DeliverError {
    /// No byte of the response has been sent, so another response can be sent instead.
    Before(Fault),
    /// A part of the response has been sent, so the connection must be reset.
    Midway(Fault),
}

/// Sends the part of a response that [`begin`] did not queue; its last bytes stay in the queue.
///
/// # Errors
/// The client is gone or too slow, or the rest of the response cannot be obtained.
pub(crate) async fn finish(
    transaction: &mut Transaction<'_>,
    queue: &mut SendQueue,
    rest: DeliveryRest<'_>,
) -> Result<Delivered, DeliverError> {
    match rest {
        DeliveryRest::Long(delivered, long) => {
            deliver_long(transaction, queue, long).await?;
            Ok(delivered)
        }
        DeliveryRest::Growing(response) => {
            Box::pin(deliver_growing(transaction, queue, *response)).await
        }
        DeliveryRest::Streamed(response) => {
            Box::pin(deliver_streamed(transaction, queue, *response)).await
        }
        DeliveryRest::Tunnel(response) => {
            Box::pin(deliver_tunnel(transaction, queue, *response)).await
        }
    }
}

/// Asserts that a whole body has as many bytes as its framing announces. If it had fewer, the
/// client would take the next response for the rest of this body.
fn assert_whole(framing: BodyFraming, delivered: &Delivered) {
    if let BodyFraming::Length(length) = framing {
        assert_eq!(
            delivered.body_bytes, length,
            "a whole body has the length that its head states"
        );
    }
}

/// Queues the error response for a fault that ended the transaction of a request.
pub(crate) fn deliver_fault(
    transaction: &Transaction<'_>,
    queue: &mut SendQueue,
    fault: Fault,
) -> Delivered {
    let context = HeadContext::of_synthetic(transaction);
    queue_synthetic(&context, queue, &SyntheticResponse::Fault(fault))
}

/// Counts and queues the error response to a request that is refused before it has a transaction.
pub(crate) fn refuse(
    client: &Client,
    queue: &mut SendQueue,
    fault: Fault,
    form: ResponseForm,
) -> Delivered {
    client.worker.count(Counter::FaultsSent);
    let context = HeadContext::without_transaction(form);
    queue_synthetic(&context, queue, &SyntheticResponse::Fault(fault))
}
