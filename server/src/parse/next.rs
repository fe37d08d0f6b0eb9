//! Reads until the next request head is complete.

use std::future::poll_fn;
use std::task::Poll;

use forebay_http::request::{HeadLimits, parse_request};

use crate::accept::Client;
use crate::buffers::Buffers;
use crate::config::ServerSettings;
use crate::counters::Counter;
use crate::fault::Fault;

/// Waits until a complete request head is at the start of the input, and returns its length.
/// Returns `None` if the client closed the connection, was idle for too long, or is idle while the
/// server drains or needs room for another connection.
///
/// If the input already has a complete head, nothing is read. Before the connection waits for
/// input, all queued responses are sent. While the connection is idle, its buffers are in the
/// worker's pool.
///
/// # Errors
/// The head is malformed or late, or the queued responses could not be sent.
pub(crate) async fn next_head(
    client: &Client,
    slot: &mut Option<Box<Buffers>>,
) -> Result<Option<usize>, Fault> {
    let mut waits_for_head = false;
    loop {
        if let Some(buffers) = slot {
            let limits = head_limits(&client.worker.config().server);
            let parsed = parse_request(buffers.input.bytes(), &limits, &mut buffers.parts)?;
            if let Some(head_bytes) = parsed {
                client.ticket().disarm();
                return Ok(Some(head_bytes));
            }
            client.flush(&mut buffers.queue).await?;
        }
        if read(client, slot, &mut waits_for_head).await? == 0 {
            return Ok(None);
        }
    }
}

/// Returns the limits of a request head.
pub(crate) fn head_limits(settings: &ServerSettings) -> HeadLimits {
    HeadLimits {
        head_bytes_max: settings.head_bytes_max,
        field_count_max: settings.field_count_max,
        target_bytes_max: settings.target_bytes_max,
    }
}

/// Reads once, and returns the number of bytes. Returns 0 if the client closed the connection, was
/// idle for too long, or is idle while the server drains or needs room for another connection.
async fn read(
    client: &Client,
    slot: &mut Option<Box<Buffers>>,
    waits_for_head: &mut bool,
) -> Result<usize, Fault> {
    let ticket = client.ticket();
    let worker = &client.worker;
    let config = worker.config();
    let settings = &config.server;
    poll_fn(|cx| {
        let buffers = slot.get_or_insert_with(|| worker.buffers.take());
        // The space is one byte larger than the longest head, so that the parser notices if a head
        // is too long.
        let bytes_max = settings.head_bytes_max as usize + 1;
        if let Poll::Ready(read) = client.poll_read(cx, buffers.input.space(bytes_max)) {
            if let Ok(count) = read {
                client.note_head(buffers.input.is_empty());
                buffers.input.filled(count);
            }
            ticket.end_idle();
            return Poll::Ready(read);
        }
        let idle = buffers.is_idle();
        let displaced = idle && ticket.is_displaced();
        let closes = displaced || idle && (worker.drained_idle() || ticket.overdue());
        if closes && let Some(count) = client.read_now(buffers.input.space(bytes_max)) {
            client.note_head(buffers.input.is_empty());
            buffers.input.filled(count);
            ticket.end_idle();
            // The time limit of the head begins now; the time limit of the idle connection may
            // already have passed.
            ticket.disarm();
            return Poll::Ready(Ok(count));
        }
        if idle && let Some(buffers) = slot.take() {
            worker.buffers.give(buffers);
        }
        if idle && worker.drained_idle() {
            return Poll::Ready(Ok(0));
        }
        if displaced {
            worker.count(Counter::IdleDisplaced);
            return Poll::Ready(Ok(0));
        }
        if ticket.overdue() {
            return Poll::Ready(overdue(client, idle));
        }
        if idle {
            ticket.begin_idle(u64::from(settings.idle_ms_max));
        }
        if !idle && !*waits_for_head {
            *waits_for_head = true;
            ticket.arm(u64::from(settings.head_ms_max));
        }
        Poll::Pending
    })
    .await
}

fn overdue(client: &Client, idle: bool) -> Result<usize, Fault> {
    if !idle {
        return Err(Fault::HeadTimeout);
    }
    client.worker.count(Counter::IdleTimeouts);
    Ok(0)
}
