//! Sends a 101, or the 200 to CONNECT, to the client, then passes bytes in both directions until
//! both sides have ended, no byte has moved for `tunnel_idle_ms_max`, or the drain closes the
//! tunnel.
//!
//! A side that ends its stream can still receive: the end is passed on, and the other direction
//! gets [`HALF_CLOSED_MS`] more. Each direction reads only once its earlier bytes are written, so
//! it holds at most [`PIECE_BYTES`], and none while it waits for input.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::task::{Context, Poll};

use forebay_http::fields::FieldBlock;
use forebay_http::write;

use super::synthetic::write_date_field;
use super::{DeliverError, Delivered};
use crate::accept::Client;
use crate::clock;
use crate::counters::Counter;
use crate::fetch::{OpenTunnel, OriginTunnel};
use crate::response::{TunnelHead, TunnelResponse};
use crate::send_queue::SendQueue;
use crate::transaction::Transaction;

/// The most bytes that one direction of a tunnel reads at a time: a few packets, and few enough for
/// a buffer on the stack.
const PIECE_BYTES: usize = 8 << 10;

/// Pieces that a direction passes on before other connections get their turn.
const PIECES_PER_TURN: u32 = 8;

/// How long a tunnel may continue after one of its sides has ended.
const HALF_CLOSED_MS: u64 = 10_000;

/// Sends the head and serves the tunnel to its end.
///
/// # Errors
/// The client is gone, or too slow, before the head was sent.
pub(super) async fn deliver_tunnel(
    transaction: &mut Transaction<'_>,
    queue: &mut SendQueue,
    response: TunnelResponse,
) -> Result<Delivered, DeliverError> {
    let TunnelResponse { head, tunnel, early } = response;
    let status = match head {
        TunnelHead::Switched { protocol, block } => {
            write_switch(queue.text(), &block, &protocol);
            transaction.cache_status.fwd_status = Some(101);
            101
        }
        TunnelHead::Connected => {
            // RFC: 9110-9.3.6-4
            write::status_line(queue.text(), 200);
            write_date_field(queue.text());
            queue.text().extend_from_slice(b"\r\n");
            200
        }
    };
    let client = transaction.client;
    client.flush(queue).await.map_err(DeliverError::Midway)?;
    // The client's stream has ended, or no longer carries requests.
    transaction.has_unread_body = true;
    let (idle_ms, drain_ms) = {
        let of_route = &transaction.route().route.settings;
        let drain_ms = transaction.config.server.tunnel_drain_ms_max;
        (u64::from(of_route.tunnel_idle_ms_max), u64::from(drain_ms))
    };
    let mut up = TunnelDirection { pending: early, ..TunnelDirection::default() };
    let mut down = TunnelDirection::default();
    let OpenTunnel { mut origin, .. } = tunnel;
    let limits = TunnelLimits { idle_ms, drain_ms };
    let end = run(client, &mut origin, (&mut up, &mut down), limits).await;
    client.ticket().disarm();
    match end {
        TunnelEnd::Closed => {}
        // RFC 8441 §5: a stream that ends in an orderly way would look complete.
        TunnelEnd::Failed if client.transport.is_http2_stream() => {
            client.transport.reset_on_close();
        }
        TunnelEnd::Failed => {}
        TunnelEnd::Idle => client.worker.count(Counter::TunnelsIdle),
        TunnelEnd::Drained => client.worker.count(Counter::TunnelsDrained),
    }
    transaction.log.note_tunnel(up.moved_bytes);
    Ok(Delivered { status, body_bytes: down.moved_bytes, keep_alive: false })
}

/// Appends the 101. Header rules do not run on interim responses, so they do not run on the 101.
// RFC: 9110-15.2.2-1
fn write_switch(text: &mut Vec<u8>, block: &FieldBlock, protocol: &[u8]) {
    write::status_line(text, 101);
    text.extend_from_slice(b"connection: upgrade\r\n");
    write::field(text, b"upgrade", protocol);
    text.extend_from_slice(block.bytes());
    text.extend_from_slice(b"\r\n");
}

#[derive(Clone, Copy)]
struct TunnelLimits {
    idle_ms: u64,
    drain_ms: u64,
}

/// The reason why a tunnel ended.
enum TunnelEnd {
    /// Both sides have ended, or one side did not end in time after the other.
    Closed,
    /// The connection of one side has failed.
    Failed,
    Idle,
    Drained,
}

/// Bytes that move in one direction.
#[derive(Default)]
struct TunnelDirection {
    /// The bytes that were read and not written.
    pending: Vec<u8>,
    /// Whether the side that sends has ended its stream.
    has_ended: bool,
    /// Whether the end was passed on.
    is_shut: bool,
    moved_bytes: u64,
}

async fn run(
    client: &Client,
    origin: &mut OriginTunnel,
    (up, down): (&mut TunnelDirection, &mut TunnelDirection),
    limits: TunnelLimits,
) -> TunnelEnd {
    let mut drained = pin!(client.worker.tunnels.drained.notified());
    drained.as_mut().enable();
    let mut drained_by_ms =
        client.worker.draining().then(|| clock::monotonic_ms() + limits.drain_ms);
    let (mut active_ms, mut half_closed_ms) = (clock::monotonic_ms(), None);
    poll_fn(|cx| {
        if drained_by_ms.is_none() && drained.as_mut().poll(cx).is_ready() {
            drained_by_ms = Some(clock::monotonic_ms() + limits.drain_ms);
        }
        let moved = (poll_up(cx, client, origin, up), poll_down(cx, client, origin, down));
        let now_ms = clock::monotonic_ms();
        let (Ok(up_moved), Ok(down_moved)) = moved else { return Poll::Ready(TunnelEnd::Failed) };
        if up.is_shut && down.is_shut {
            return Poll::Ready(TunnelEnd::Closed);
        }
        if up_moved || down_moved {
            active_ms = now_ms;
        }
        if up.is_shut || down.is_shut {
            half_closed_ms.get_or_insert(now_ms + HALF_CLOSED_MS);
        }
        let ends = [
            (Some(active_ms + limits.idle_ms), TunnelEnd::Idle),
            (drained_by_ms, TunnelEnd::Drained),
            (half_closed_ms, TunnelEnd::Closed),
        ];
        let ends = ends.into_iter().filter_map(|(at_ms, end)| Some((at_ms?, end)));
        let Some((at_ms, end)) = ends.min_by_key(|(at_ms, _)| *at_ms) else {
            return Poll::Pending;
        };
        if at_ms <= now_ms {
            return Poll::Ready(end);
        }
        client.ticket().arm(at_ms - now_ms);
        Poll::Pending
    })
    .await
}

/// Passes bytes from the client to the origin. Returns whether any bytes moved.
///
/// # Errors
/// One of the connections has failed.
fn poll_up(
    cx: &mut Context<'_>,
    client: &Client,
    origin: &mut OriginTunnel,
    up: &mut TunnelDirection,
) -> Result<bool, ()> {
    let moved = up.pass(
        cx,
        |cx, space| client.poll_read(cx, space).map_err(|_| ()),
        |cx, output| match output {
            TunnelOutput::Bytes(bytes) => written(origin.poll_write(cx, bytes)),
            TunnelOutput::End => origin.poll_shutdown(cx).map_ok(|()| 0).map_err(drop),
        },
    )?;
    match origin.poll_flush(cx) {
        Poll::Ready(Err(_)) => Err(()),
        _ => Ok(moved),
    }
}

/// Passes bytes from the origin to the client; see [`poll_up`].
fn poll_down(
    cx: &mut Context<'_>,
    client: &Client,
    origin: &mut OriginTunnel,
    down: &mut TunnelDirection,
) -> Result<bool, ()> {
    let worker = &client.worker;
    down.pass(
        cx,
        |cx, space| origin.poll_read(cx, space).map_err(drop),
        |cx, output| match output {
            TunnelOutput::Bytes(bytes) => {
                let sent = client.poll_write(cx, bytes).map_err(|_| ())?;
                sent.map(|count| {
                    worker.count_many(Counter::BytesOut, count as u64);
                    Ok(count)
                })
            }
            TunnelOutput::End => client.transport.poll_shutdown(cx).map_ok(|()| 0).map_err(drop),
        },
    )
}

fn written(polled: Poll<io::Result<usize>>) -> Poll<Result<usize, ()>> {
    polled.map(|written| written.ok().filter(|count| *count > 0).ok_or(()))
}

/// The next output of one direction.
enum TunnelOutput<'b> {
    Bytes(&'b [u8]),
    /// The end of the stream.
    End,
}

impl TunnelDirection {
    /// Passes bytes on, and then the end of the stream, until one of the sides has to wait; at most
    /// [`PIECES_PER_TURN`] pieces. Returns whether any bytes moved.
    // RFC: 9110-9.3.6-3
    fn pass(
        &mut self,
        cx: &mut Context<'_>,
        mut read: impl FnMut(&mut Context<'_>, &mut [u8]) -> Poll<Result<usize, ()>>,
        mut write: impl FnMut(&mut Context<'_>, TunnelOutput<'_>) -> Poll<Result<usize, ()>>,
    ) -> Result<bool, ()> {
        let mut has_moved = false;
        for _ in 0..PIECES_PER_TURN {
            while !self.pending.is_empty() {
                let Poll::Ready(count) = write(cx, TunnelOutput::Bytes(&self.pending)) else {
                    return Ok(has_moved);
                };
                let count = count?.min(self.pending.len());
                self.pending.drain(..count);
                self.moved_bytes += count as u64;
                has_moved = true;
            }
            self.pending = Vec::new();
            if self.has_ended {
                if !self.is_shut
                    && let Poll::Ready(shut) = write(cx, TunnelOutput::End)
                {
                    shut?;
                    self.is_shut = true;
                }
                return Ok(has_moved);
            }
            let mut piece = [0; PIECE_BYTES];
            let Poll::Ready(count) = read(cx, &mut piece) else { return Ok(has_moved) };
            let piece = piece.get(..count?).unwrap_or_default();
            self.has_ended = piece.is_empty();
            if self.has_ended {
                continue;
            }
            has_moved = true;
            // Most pieces can be written immediately, and need no memory.
            let written = match write(cx, TunnelOutput::Bytes(piece)) {
                Poll::Ready(count) => count?.min(piece.len()),
                Poll::Pending => 0,
            };
            self.moved_bytes += written as u64;
            self.pending.extend_from_slice(piece.get(written..).unwrap_or_default());
        }
        // This gives other connections their turn.
        cx.waker().wake_by_ref();
        Ok(has_moved)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    #[test]
    fn a_direction_reads_no_further_while_its_bytes_wait() {
        let mut cx = Context::from_waker(Waker::noop());
        let (mut direction, mut read_count) = (TunnelDirection::default(), 0);
        for room in [0, 0, 100, 0] {
            let mut left = room;
            let passed = direction.pass(
                &mut cx,
                |_, space| {
                    read_count += 1;
                    space.fill(read_count);
                    Poll::Ready(Ok(space.len()))
                },
                |_, output| {
                    let TunnelOutput::Bytes(bytes) = output else { panic!("the stream goes on") };
                    let count = bytes.len().min(left);
                    left -= count;
                    if count == 0 { Poll::Pending } else { Poll::Ready(Ok(count)) }
                },
            );
            assert!(passed.is_ok() && direction.pending.len() <= PIECE_BYTES, "{room}");
        }
        assert_eq!((read_count, direction.moved_bytes), (1, 100));
        assert_eq!(direction.pending.len(), PIECE_BYTES - 100);
    }

    #[test]
    fn an_end_is_passed_on_once_all_bytes_are_written() {
        let mut cx = Context::from_waker(Waker::noop());
        let mut direction =
            TunnelDirection { pending: b"early".to_vec(), ..TunnelDirection::default() };
        let (mut inputs, mut written) = (vec![&b""[..], b"late"], Vec::new());
        for _ in 0..2 {
            let passed = direction.pass(
                &mut cx,
                |_, space| {
                    let input = inputs.pop().expect("an ended stream is not read");
                    space[..input.len()].copy_from_slice(input);
                    Poll::Ready(Ok(input.len()))
                },
                |_, output| {
                    let TunnelOutput::Bytes(bytes) = output else {
                        written.extend_from_slice(b"|");
                        return Poll::Ready(Ok(0));
                    };
                    written.push(bytes[0]);
                    Poll::Ready(Ok(1))
                },
            );
            assert!(passed.is_ok());
        }
        assert!(direction.is_shut);
        assert_eq!(written, b"earlylate|");
    }
}
