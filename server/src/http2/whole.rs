//! Responses that are ready at once.

use forebay_http::framing::BodyFraming;
use forebay_http2::StreamKey;
use forebay_http2::connection::ServerConnection;
use forebay_http2::error::ErrorCode;

use super::head::{ResponseKind, encode_head};
use super::memory::TurnMemory;
use crate::send_queue::SendQueue;

/// The progress of a whole response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SentWhole {
    /// The work on the stream is over, and the queue is empty.
    Ended,
    /// The head was sent. The body is still in the queue, and was offered to the connection.
    Later,
}

/// Sends the response in `queue` to a stream. A short body is sent with its head if the windows
/// permit it, because the order of short responses matters little. A longer one has its turn by the
/// priority of its stream.
pub(super) fn send_whole(
    connection: &mut ServerConnection,
    (key, kind): (StreamKey, ResponseKind),
    queue: &mut SendQueue,
    memory: &mut TurnMemory,
) -> SentWhole {
    let TurnMemory { out, block, .. } = memory;
    block.clear();
    let sent = try_send(connection, (key, kind), queue, block, out);
    if sent == Some(SentWhole::Later) {
        return SentWhole::Later;
    }
    if sent.is_none() {
        connection.reset(key, ErrorCode::InternalError, out);
    }
    queue.clear();
    connection.end_work(key, out);
    SentWhole::Ended
}

/// Returns `None` if the response is not one that this server writes, or the stream is gone.
fn try_send(
    connection: &mut ServerConnection,
    (key, kind): (StreamKey, ResponseKind),
    queue: &mut SendQueue,
    block: &mut Vec<u8>,
    out: &mut Vec<u8>,
) -> Option<SentWhole> {
    let text = queue.front_text();
    let head = encode_head(text, kind, block).ok()??;
    if head.status < 200 {
        return None;
    }
    let length = match head.framing {
        BodyFraming::None => 0,
        BodyFraming::Length(length) => length,
        BodyFraming::Chunked | BodyFraming::UntilClose => return None,
    };
    let (_, body) = text.split_at_checked(head.text_bytes)?;
    if length == 0 {
        connection.send_head(key, block, true, out).ok()?;
        return Some(SentWhole::Ended);
    }
    let is_short = body.len() as u64 == length;
    if is_short && connection.send_whole(key, (block, body), out).ok()? {
        return Some(SentWhole::Ended);
    }
    queue.consume(head.text_bytes);
    if queue.len() as u64 != length {
        return None;
    }
    connection.send_head(key, block, false, out).ok()?;
    connection.offer_data(key, length, true, out).ok()?;
    Some(SentWhole::Later)
}
