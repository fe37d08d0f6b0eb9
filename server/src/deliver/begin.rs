//! Begins a delivery: queues the part of a response that needs no wait.

use super::Delivered;
use super::head::HeadContext;
use super::long::LongBodyPart;
use super::origin_error::{queue_growing_error, queue_streamed_error};
use super::stored::{queue_confirmed, queue_stored};
use super::streamed::queue_not_modified_response;
use super::synthetic::queue_synthetic;
use crate::response::{GrowingResponse, Response, StreamedResponse, TunnelResponse};
use crate::send_queue::SendQueue;
use crate::transaction::Transaction;

/// A delivery after [`begin`], which has queued the part of the response that needs no wait.
pub(crate) enum BegunDelivery<'t> {
    /// The whole response is in the queue.
    Queued(Delivered),
    Rest(DeliveryRest<'t>),
}

/// The part of a response that is not in the send queue yet.
pub(crate) enum DeliveryRest<'t> {
    Long(Delivered, LongBodyPart),
    Growing(Box<GrowingResponse>),
    Streamed(Box<StreamedResponse<'t>>),
    Tunnel(Box<TunnelResponse>),
}

/// Queues the part of a response that needs no wait.
pub(crate) fn begin<'t>(
    transaction: &mut Transaction<'_>,
    queue: &mut SendQueue,
    response: Response<'t>,
) -> BegunDelivery<'t> {
    let rest = match response {
        Response::Stored(hit) => {
            // This drops the hit, so that no record stays pinned while the task waits for the
            // client.
            let (delivered, long) = queue_stored(transaction, queue, hit);
            match long.and_then(|long| long.queue_ready(transaction, queue)) {
                None => return BegunDelivery::Queued(delivered),
                Some(long) => DeliveryRest::Long(delivered, long),
            }
        }
        Response::Confirmed(response) => {
            let (delivered, long) = queue_confirmed(transaction, queue, *response);
            match long.and_then(|long| long.queue_ready(transaction, queue)) {
                None => return BegunDelivery::Queued(delivered),
                Some(long) => DeliveryRest::Long(delivered, long),
            }
        }
        Response::Synthetic(response) => {
            let context = HeadContext::of_synthetic(transaction);
            return BegunDelivery::Queued(queue_synthetic(&context, queue, &response));
        }
        Response::NotModified(fields) => {
            let context = HeadContext::of(transaction);
            return BegunDelivery::Queued(queue_not_modified_response(&context, queue, &fields));
        }
        Response::Growing(response) => match queue_growing_error(transaction, queue, response) {
            Ok(delivered) => return BegunDelivery::Queued(delivered),
            Err(response) => DeliveryRest::Growing(response),
        },
        Response::Streamed(response) => match queue_streamed_error(transaction, queue, response) {
            Ok(delivered) => return BegunDelivery::Queued(delivered),
            Err(response) => DeliveryRest::Streamed(response),
        },
        Response::Tunnel(response) => DeliveryRest::Tunnel(response),
    };
    BegunDelivery::Rest(rest)
}
