//! The HTTP/2 connections of one origin, which all requests share.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;

use super::connection::{SharedConnection, StreamPlace};
use crate::clock;
use crate::fault::Fault;
use crate::fetch::connect::{ConnectFailure, ReadyConnection};
use crate::fetch::proxy_header::ClientEnds;
use crate::limits::HTTP2_STREAMS_MAX;

/// The HTTP/2 connections of one origin.
pub(in crate::fetch) struct SharedConnections {
    /// The connections that may take further requests, the oldest first.
    open: RefCell<Vec<Rc<SharedConnection>>>,
    /// The connections that are being opened, which other requests wait for.
    opening: RefCell<Vec<SharedOpening>>,
    /// Whether the origin chose HTTP/1.1 when the last connection was opened. Then no request waits
    /// for the connection of another one.
    is_http1: Cell<bool>,
    /// The number of streams that the origin permitted on the last connection.
    streams_max: Cell<usize>,
    is_closed: Cell<bool>,
}

#[derive(Clone)]
struct SharedOpening {
    client: Option<ClientEnds>,
    state: Rc<SharedOpeningState>,
}

#[derive(Default)]
struct SharedOpeningState {
    /// The reason why the connection could not be opened.
    failure: RefCell<Option<ConnectFailure>>,
    ended: Notify,
}

/// The limits of idle connections.
#[derive(Clone, Copy)]
pub(in crate::fetch) struct IdleLimits {
    pub(in crate::fetch) count_max: usize,
    pub(in crate::fetch) ms_max: u64,
}

/// Removes an entry of [`SharedConnections::opening`] when the connection is open, or the request
/// that opens it has gone.
struct OpeningGuard<'a> {
    shared: &'a SharedConnections,
    state: &'a Rc<SharedOpeningState>,
}

impl Drop for OpeningGuard<'_> {
    fn drop(&mut self) {
        let mut opening = self.shared.opening.borrow_mut();
        opening.retain(|one| !Rc::ptr_eq(&one.state, self.state));
        self.state.ended.notify_waiters();
    }
}

impl Default for SharedConnections {
    fn default() -> SharedConnections {
        SharedConnections {
            open: RefCell::default(),
            opening: RefCell::default(),
            is_http1: Cell::default(),
            streams_max: Cell::new(HTTP2_STREAMS_MAX as usize),
            is_closed: Cell::default(),
        }
    }
}

impl SharedConnections {
    /// Returns a stream of a connection that may take a request of `client`: the origin was told
    /// the same addresses, or none. The oldest connections are used first, so that the others can
    /// become idle.
    pub(in crate::fetch) fn take(&self, client: Option<ClientEnds>) -> Option<StreamPlace> {
        let mut open = self.open.borrow_mut();
        open.retain(|connection| connection.is_usable());
        if open.is_empty() {
            self.streams_max.set(HTTP2_STREAMS_MAX as usize);
        }
        let mut usable = open.iter().filter(|connection| connection.client == client);
        usable.find_map(|connection| {
            // An origin that permits no streams for a while may permit some on a new connection.
            self.streams_max.set(connection.streams_max().max(1));
            connection.stream()
        })
    }

    /// Returns the number of streams that the origin permits, as far as it is known.
    pub(in crate::fetch) fn streams_max(&self) -> usize {
        self.streams_max.get()
    }

    /// Opens a connection by `connecting`, or waits until another request has opened one that this
    /// request can share.
    ///
    /// # Errors
    /// The connection, on which the request may have waited, cannot be opened; or
    /// [`Fault::OriginBusy`]: other requests open connections, and none became free in time.
    pub(in crate::fetch) async fn join(
        &self,
        client: Option<ClientEnds>,
        (timeout_ms, idle): (u32, IdleLimits),
        connecting: impl Future<Output = Result<ReadyConnection, ConnectFailure>>,
    ) -> Result<ReadyConnection, ConnectFailure> {
        let deadline_ms = clock::monotonic_ms() + u64::from(timeout_ms);
        while !self.is_http1.get() {
            if let Some(stream) = self.take(client) {
                return Ok(ReadyConnection::Http2(stream));
            }
            let opening = self.opening.borrow().iter().find(|one| one.client == client).cloned();
            let Some(SharedOpening { state, .. }) = opening else { break };
            let left_ms = deadline_ms.saturating_sub(clock::monotonic_ms());
            let ended = timeout(Duration::from_millis(left_ms), state.ended.notified()).await;
            // Several connections were opened in turn, which says nothing about the origin.
            ended.map_err(|_| Fault::OriginBusy)?;
            if let Some(failure) = &*state.failure.borrow() {
                return Err(failure.clone());
            }
        }
        self.open(client, idle, connecting).await
    }

    async fn open(
        &self,
        client: Option<ClientEnds>,
        idle: IdleLimits,
        connecting: impl Future<Output = Result<ReadyConnection, ConnectFailure>>,
    ) -> Result<ReadyConnection, ConnectFailure> {
        let state = Rc::new(SharedOpeningState::default());
        self.opening.borrow_mut().push(SharedOpening { client, state: Rc::clone(&state) });
        let _guard = OpeningGuard { shared: self, state: &state };
        let connected = connecting.await;
        match &connected {
            Ok(ReadyConnection::Http1(_)) => self.is_http1.set(true),
            Ok(ReadyConnection::Http2(stream)) => {
                self.is_http1.set(false);
                if !self.is_closed.get() {
                    self.open.borrow_mut().push(Rc::clone(&stream.connection));
                    self.sweep(idle);
                }
            }
            Err(failure) => *state.failure.borrow_mut() = Some(failure.clone()),
        }
        connected
    }

    /// Closes connections that have ended, or have been idle for too long. If there are too many
    /// idle ones, closes those that have been idle for longest.
    pub(in crate::fetch) fn sweep(&self, idle: IdleLimits) {
        let oldest_ms = clock::monotonic_ms().saturating_sub(idle.ms_max);
        let mut open = self.open.borrow_mut();
        open.retain(|connection| {
            let since_ms = connection.idle_since_ms();
            connection.is_usable() && since_ms.is_none_or(|since_ms| since_ms >= oldest_ms)
        });
        let mut since_ms: Vec<_> = open.iter().filter_map(|one| one.idle_since_ms()).collect();
        if since_ms.len() <= idle.count_max {
            return;
        }
        since_ms.sort_unstable();
        let last = since_ms.get(since_ms.len() - idle.count_max - 1).copied();
        open.retain(|one| one.idle_since_ms().is_none_or(|since_ms| Some(since_ms) > last));
    }

    /// Closes the idle connections.
    pub(in crate::fetch) fn close_idle(&self) {
        self.open.borrow_mut().retain(|connection| connection.idle_since_ms().is_none());
    }

    /// Closes the connections once their streams have ended, and keeps none from now on.
    pub(in crate::fetch) fn close(&self) {
        self.is_closed.set(true);
        self.open.borrow_mut().clear();
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::pin::pin;

    use super::*;
    use crate::poll_once::poll_once;

    #[test]
    fn a_request_that_waits_too_long_for_the_connection_of_another_blames_no_origin() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("an event loop").block_on(async {
            let shared = SharedConnections::default();
            let limits = (10, IdleLimits { count_max: 1, ms_max: 1_000 });
            let mut first = pin!(shared.join(None, limits, pending()));
            assert!(poll_once(first.as_mut()).await.is_none());
            let second = shared.join(None, limits, pending()).await;
            assert_eq!(second.err().map(|failure| failure.fault), Some(Fault::OriginBusy));
        });
    }
}
