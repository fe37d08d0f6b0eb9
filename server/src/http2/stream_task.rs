//! The work on the streams of a connection.
//!
//! The work on a stream runs in the connection's own task until it has to wait, which most hits
//! never do: then the same work takes the next stream, and needs no new memory. If it has to wait,
//! it continues as a task of its own, and ends with its stream.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use forebay_http::error::RequestError;

use super::pipe::StreamPipe;
use super::shared::SharedState;
use crate::accept::{AdmittedConnection, Client, StreamPermit, Ticket};
use crate::buffers::Buffers;
use crate::connection::{self, End};
use crate::counters::Counter;
use crate::flow::{self, AfterResponse, AnswerState};
use crate::watched_task::poll_guarded;
use crate::worker::Worker;

/// The work on one stream after the other.
pub(super) struct StreamTask {
    pipe: Rc<StreamPipe>,
    ticket: Rc<Ticket>,
    work: Pin<Box<dyn Future<Output = ()>>>,
}

impl StreamTask {
    /// Creates the work on the streams of the connection of `client`.
    pub(super) fn new(client: &Client, shared: &Rc<SharedState>) -> StreamTask {
        let pipe = StreamPipe::new(Rc::clone(shared), (client.peer, client.local()));
        let admitted = AdmittedConnection::of_streams(client, pipe.transport());
        let ticket = admitted.ticket();
        let work = Box::pin(run(Rc::clone(&client.worker), admitted, Rc::clone(&pipe)));
        StreamTask { pipe, ticket, work }
    }

    /// The pipe of the current stream.
    pub(super) fn pipe(&self) -> &Rc<StreamPipe> {
        &self.pipe
    }

    /// Works on the stream as far as possible without waiting. Returns whether the work goes on;
    /// otherwise the response was handed over, or the work has ended.
    pub(super) fn poll(&mut self, worker: &Rc<Worker>, cx: &mut Context<'_>) -> bool {
        poll_guarded(worker, self.work.as_mut(), cx).is_pending() && !self.pipe.is_whole()
    }

    /// Continues in a task of its own.
    pub(super) fn spawn(self, worker: &Rc<Worker>, permit: StreamPermit) {
        let StreamTask { ticket, mut work, pipe } = self;
        pipe.note_spawned();
        let mut has_waker = false;
        worker.spawn(async move {
            let _permit = permit;
            poll_fn(|cx| {
                if !std::mem::replace(&mut has_waker, true) {
                    ticket.set_waker(cx.waker().clone());
                }
                work.as_mut().poll(cx)
            })
            .await;
        });
    }
}

/// Serves streams until a response cannot be handed over as a whole.
async fn run(worker: Rc<Worker>, admitted: AdmittedConnection, pipe: Rc<StreamPipe>) {
    let client = admitted.into_client(Rc::clone(&worker)).await;
    let mut slot = None;
    let end = loop {
        // The connection polls this future again when it has a request.
        let head = poll_fn(|_| {
            if !pipe.has_head() {
                return Poll::Pending;
            }
            let buffers = slot.get_or_insert_with(|| worker.buffers.take());
            pipe.take_head(buffers).map_or(Poll::Pending, Poll::Ready)
        });
        let head = head.await;
        client.begin_stream(*head.as_ref().unwrap_or(&0));
        if let Some(end) = serve(&client, &mut slot, &pipe, head).await {
            break end;
        }
        if let Some(buffers) = slot.take() {
            worker.buffers.give(buffers);
        }
    };
    connection::finish(&client, slot, end).await;
}

/// Serves one stream. Returns how it ends, or `None` if its response was handed over.
async fn serve(
    client: &Client,
    slot: &mut Option<Box<Buffers>>,
    pipe: &StreamPipe,
    head: Result<usize, RequestError>,
) -> Option<End> {
    let head_bytes = match head {
        Ok(head_bytes) => head_bytes,
        Err(error) => return Some(connection::refuse(client, slot, error.into()).await),
    };
    let config = client.worker.config();
    let Some(buffers) = slot else {
        return Some(End::Close);
    };
    client.worker.count(Counter::Requests);
    let (after, is_at_once) = match flow::answer(client, &config, buffers, head_bytes, false) {
        AnswerState::AtOnce(after) => (after, true),
        AnswerState::Later(answer) => {
            // The work begins only in a task of its own, in a later turn. So a client that resets
            // the stream at once causes no request to the origin (CVE-2023-44487).
            poll_fn(|_| if pipe.is_spawned() { Poll::Ready(()) } else { Poll::Pending }).await;
            if pipe.is_reset() {
                return Some(End::Close);
            }
            (answer.await, false)
        }
    };
    let is_whole = is_at_once && matches!(after, Ok(AfterResponse::KeepAlive));
    if is_whole && pipe.hand_over(&mut buffers.queue) {
        return None;
    }
    Some(match after {
        Err(_) => End::Reset,
        Ok(AfterResponse::KeepAlive | AfterResponse::Close) => {
            connection::flushed(client, buffers, End::Close).await
        }
        Ok(AfterResponse::Linger) => connection::flushed(client, buffers, End::Linger).await,
    })
}
