//! The task of one client connection: answers request after request, then ends the connection.

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;

use forebay_http::error::RequestError;
use forebay_http::target::Scheme;
use tokio::task::yield_now;

use crate::accept::{AdmittedConnection, Client};
use crate::buffers::Buffers;
use crate::counters::Counter;
use crate::deliver;
use crate::events::Event;
use crate::fault::Fault;
use crate::flow::{self, AfterResponse, AnswerState};
use crate::http2;
use crate::limits::REQUESTS_PER_TURN_MAX;
use crate::parse::{ResponseForm, next_head};
use crate::transport::tls::{TlsInfo, TlsTransport};
use crate::worker::Worker;

/// Serves an admitted connection in a task of its own.
pub(crate) fn spawn(worker: Rc<Worker>, admitted: AdmittedConnection) {
    let task = run(Rc::clone(&worker), admitted);
    worker.spawn(task);
}

async fn run(worker: Rc<Worker>, admitted: AdmittedConnection) {
    let _open = Open { worker: Rc::clone(&worker) };
    let client = admitted.into_client(Rc::clone(&worker)).await;
    if let Some(tls) = client.transport.tls()
        && !Box::pin(handshake(&client, tls)).await
    {
        return;
    }
    let mut slot = None;
    let end = match client.transport.tls() {
        Some(_) if client.tls_info().is_some_and(TlsInfo::is_http2) => {
            worker.count(Counter::Http2TlsConnections);
            serve_http2(&client, &mut slot).await
        }
        _ => requests(&client, &mut slot).await,
    };
    finish(&client, slot, end).await;
}

/// Ends a connection, and returns its buffers to the worker.
pub(crate) async fn finish(client: &Client, mut slot: Option<Box<Buffers>>, end: End) {
    let worker = &client.worker;
    match end {
        End::Close => {}
        End::Linger => {
            let mut input = slot.take().map(|buffers| buffers.input).unwrap_or_default();
            Box::pin(client.linger(&mut input)).await;
        }
        End::Reset => {
            worker.count(Counter::ResponsesCut);
            client.transport.reset_on_close();
        }
    }
    if let Some(buffers) = slot {
        worker.buffers.give(buffers);
    }
}

/// Runs the TLS handshake of a connection; returns whether it is complete.
async fn handshake(client: &Client, tls: &TlsTransport) -> bool {
    let worker = &client.worker;
    client.ticket().arm(tls.handshake_ms_max());
    let handshaking = worker.tls.handshaking(worker);
    let ended = tls.handshake(client.network(), &|| client.ticket().overdue()).await;
    drop(handshaking);
    client.ticket().disarm();
    match ended {
        // RFC 8737 §3: the handshake proves that this server has the name; the connection ends.
        Ok(info) if info.is_acme_challenge() => {
            worker.count(Counter::AcmeTlsChallenges);
            false
        }
        Ok(info) => {
            worker.count(Counter::TlsHandshakes);
            if info.is_resumed {
                worker.count(Counter::TlsResumed);
            }
            true
        }
        Err(failure) => {
            worker.count(failure.counter());
            let peer = client.canonical_peer().ip();
            worker.event(Event::TlsRefused, &format_args!("{peer}: {failure}"));
            false
        }
    }
}

/// How a connection ends.
pub(crate) enum End {
    /// Close immediately, because there is nothing more to send or to read.
    Close,
    /// Read and discard further input before closing, so that the last response arrives.
    Linger,
    /// Reset the connection, so that the client notices that a response was cut short.
    Reset,
}

async fn requests(client: &Client, slot: &mut Option<Box<Buffers>>) -> End {
    let mut turn_count = 0;
    for served in 1u32.. {
        let next = {
            let mut next = pin!(next_head(client, slot));
            poll_fn(|cx| {
                let polled = next.as_mut().poll(cx);
                if polled.is_pending() {
                    turn_count = 0;
                }
                polled
            })
            .await
        };
        let head_bytes = match next {
            Ok(Some(head_bytes)) => head_bytes,
            Ok(None) => return End::Close,
            Err(fault) if served == 1 && begins_http2(client, slot.as_deref(), fault) => {
                return serve_http2(client, slot).await;
            }
            Err(fault) => return refuse(client, slot, fault).await,
        };
        // The settings are read after the wait for a request, so that a reload applies to every
        // request that arrives after the reload.
        let config = client.worker.config();
        let Some(buffers) = slot else {
            return End::Close;
        };
        client.worker.count(Counter::Requests);
        let full = served >= config.server.requests_per_connection_max;
        if full {
            client.worker.count(Counter::RequestsPerConnectionReached);
        }
        let last = full || client.worker.draining();
        let after = match flow::answer(client, &config, buffers, head_bytes, last) {
            AnswerState::AtOnce(after) => after,
            AnswerState::Later(answer) => answer.await,
        };
        match after {
            Err(_) => return End::Reset,
            // Closing with unread input would reset the connection, and the response might not
            // arrive.
            Ok(AfterResponse::Close) if buffers.input.is_empty() => {
                return flushed(client, buffers, End::Close).await;
            }
            Ok(AfterResponse::Close | AfterResponse::Linger) => {
                return flushed(client, buffers, End::Linger).await;
            }
            Ok(AfterResponse::KeepAlive) => {
                if let Err(fault) = client.flush_before_next(&mut buffers.queue).await {
                    client.worker.fault(fault, client.peer.ip());
                    return End::Reset;
                }
                // Let other connections have their turn, even if more requests wait on this one.
                turn_count += 1;
                if turn_count == REQUESTS_PER_TURN_MAX {
                    turn_count = 0;
                    // The queue is flushed first, because unsent output counts towards the budget
                    // of all connections only while a flush waits.
                    if let Err(fault) = client.flush(&mut buffers.queue).await {
                        client.worker.fault(fault, client.peer.ip());
                        return End::Reset;
                    }
                    yield_now().await;
                }
            }
        }
    }
    End::Close
}

/// Whether a connection whose first bytes are not an HTTP/1.1 request begins with the HTTP/2
/// preface and is allowed to use HTTP/2.
fn begins_http2(client: &Client, buffers: Option<&Buffers>, fault: Fault) -> bool {
    fault == Fault::Request(RequestError::UnsupportedVersion)
        && client.worker.config().server.http2
        && client.scheme == Scheme::Http
        && buffers.is_some_and(|buffers| http2::is_preface(buffers.input.bytes()))
}

async fn serve_http2(client: &Client, slot: &mut Option<Box<Buffers>>) -> End {
    let mut input = Vec::new();
    if let Some(mut buffers) = slot.take() {
        input.extend_from_slice(buffers.input.bytes());
        buffers.input.consume(input.len());
        client.worker.buffers.give(buffers);
    }
    client.ticket().disarm();
    match Box::pin(http2::serve(client, input)).await {
        Ok(()) => End::Linger,
        Err(Fault::ClientGone) => End::Close,
        Err(fault) => {
            client.worker.fault(fault, client.peer.ip());
            End::Reset
        }
    }
}

/// Sends the rest of the queue before the connection ends.
pub(crate) async fn flushed(client: &Client, buffers: &mut Buffers, end: End) -> End {
    match client.flush(&mut buffers.queue).await {
        Ok(()) => end,
        Err(fault) => {
            client.worker.fault(fault, client.peer.ip());
            End::Reset
        }
    }
}

/// Ends a connection whose next request head is invalid or did not arrive in time. Sends an error
/// response, unless the client is gone or a response was cut short.
pub(crate) async fn refuse(client: &Client, slot: &mut Option<Box<Buffers>>, fault: Fault) -> End {
    client.worker.fault(fault, client.peer.ip());
    match fault {
        Fault::ClientGone => return End::Close,
        Fault::TooSlow | Fault::HitCut | Fault::GaveWay => return End::Reset,
        _ => {}
    }
    let buffers = slot.get_or_insert_with(|| client.worker.buffers.take());
    deliver::refuse(client, &mut buffers.queue, fault, ResponseForm::UNKNOWN);
    flushed(client, buffers, End::Linger).await
}

/// Updates the gauge of open connections when a connection ends, even by a panic.
struct Open {
    worker: Rc<Worker>,
}

impl Drop for Open {
    fn drop(&mut self) {
        let count = self.worker.registry.count() as u64;
        self.worker.gauge(Counter::ConnectionsOpen, count);
    }
}
