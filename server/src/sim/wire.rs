//! Connections in memory, behind the traits of `transport/`.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use rustix::io::Errno;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use super::blame::Scope;
use super::flaps::OriginState;
use super::guarded::{self, SECOND_LISTENER_PORT};
use super::rng::Rng;
use super::run::Run;
use crate::config::ListenerNumber;
use crate::transport::{Connecting, Connector, Listener, OriginConnection, OriginEnds, Transport};

/// The address of the origin. For most URLs the server knows no other address.
pub(super) const ORIGIN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 80);

/// The port from which the server connects to an origin that is the only origin of its site. To the
/// origins of a site with several origins, it connects from the ports after this one, in the order
/// of the origins.
pub(super) const FIRST_PORT: u16 = 1024;

/// The port from which the server connects to the first origin of the guarded sites. It connects to
/// the others from the ports after this one.
pub(super) const GUARDED_PORT: u16 = 2048;

/// One direction of a connection, with the bytes that are in transit.
#[derive(Debug, Default)]
struct Pipe {
    bytes: VecDeque<u8>,
    /// Whether the writer has ended the stream.
    has_ended: bool,
    /// Whether the reader has closed its end.
    is_closed: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
    /// The number of bytes that were read.
    read_bytes: u64,
    /// The reads whose times are recorded. For each: the number of bytes that must have been read,
    /// and the cell that receives the time at which they have been read.
    awaited: Vec<(u64, Arrival)>,
}

/// The time at which bytes were read from a connection; `None` if they have not been read.
pub(super) type Arrival = Rc<Cell<Option<Instant>>>;

impl Pipe {
    fn note_read(&mut self, count: usize) {
        self.read_bytes += count as u64;
        let read_bytes = self.read_bytes;
        self.awaited.retain(|(until, arrival)| {
            let is_pending = read_bytes < *until;
            if !is_pending {
                arrival.set(Some(Instant::now()));
            }
            is_pending
        });
    }
}

/// A connection in memory, with both directions.
#[derive(Debug)]
struct Wire {
    /// The two directions. The index of a direction is the side (0 or 1) that writes.
    pipes: [Pipe; 2],
    is_reset: bool,
    room_bytes: usize,
    /// The number of further reads and writes that move at most `step_bytes_max` bytes. It is
    /// limited, because a long body in tiny steps would make the run take too long.
    small_steps: u32,
    step_bytes_max: u64,
    rng: Rng,
}

impl Wire {
    fn wake_all(&mut self) {
        for pipe in &mut self.pipes {
            pipe.reader.take().into_iter().chain(pipe.writer.take()).for_each(Waker::wake);
        }
    }

    fn reset(&mut self) {
        self.is_reset = true;
        self.wake_all();
    }

    fn step_bytes(&mut self) -> usize {
        if self.small_steps == 0 {
            return usize::MAX;
        }
        self.small_steps -= 1;
        self.rng.between(1, self.step_bytes_max) as usize
    }
}

/// One end of a connection.
#[derive(Debug)]
pub(super) struct WireEnd {
    wire: Rc<RefCell<Wire>>,
    side: usize,
    resets: bool,
}

/// Creates a connection, and returns its two ends. The buffer size and the steps derive from `rng`.
pub(super) fn connection(mut rng: Rng) -> (WireEnd, WireEnd) {
    let room_bytes = rng.pick(&[3_000, 20_000, 64_000, 300_000]);
    let step_bytes_max = rng.pick(&[7, 900, 20_000]);
    let small_steps = rng.pick(&[0, 0, 30, 200]);
    let pipes = Default::default();
    let wire = Wire { pipes, is_reset: false, room_bytes, small_steps, step_bytes_max, rng };
    let wire = Rc::new(RefCell::new(wire));
    (
        WireEnd { wire: Rc::clone(&wire), side: 0, resets: false },
        WireEnd { wire, side: 1, resets: false },
    )
}

impl WireEnd {
    pub(super) fn poll_read(
        &self,
        cx: &mut Context<'_>,
        space: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let mut wire = self.wire.borrow_mut();
        if wire.is_reset {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        let step = wire.step_bytes();
        let pipe = &mut wire.pipes[1 - self.side];
        if pipe.bytes.is_empty() {
            if pipe.has_ended || space.is_empty() {
                return Poll::Ready(Ok(0));
            }
            pipe.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let count = pipe.bytes.len().min(space.len()).min(step);
        let (first, second) = pipe.bytes.as_slices();
        let split = first.len().min(count);
        space[..split].copy_from_slice(&first[..split]);
        space[split..count].copy_from_slice(&second[..count - split]);
        pipe.bytes.drain(..count);
        pipe.note_read(count);
        pipe.writer.take().into_iter().for_each(Waker::wake);
        Poll::Ready(Ok(count))
    }

    pub(super) fn poll_write(
        &self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut wire = self.wire.borrow_mut();
        if wire.is_reset {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        let (step, room_bytes) = (wire.step_bytes(), wire.room_bytes);
        let pipe = &mut wire.pipes[self.side];
        if pipe.is_closed || pipe.has_ended {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let count = room_bytes.saturating_sub(pipe.bytes.len()).min(step);
        if count == 0 {
            pipe.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let mut written = 0;
        for slice in slices {
            let taken = slice.len().min(count - written);
            pipe.bytes.extend(&slice[..taken]);
            written += taken;
        }
        pipe.reader.take().into_iter().for_each(Waker::wake);
        Poll::Ready(Ok(written))
    }

    /// Returns a cell that receives the time at which the other side has read all bytes that have
    /// been written so far.
    pub(super) fn arrival(&self) -> Arrival {
        let pipe = &mut self.wire.borrow_mut().pipes[self.side];
        let arrival = Arrival::default();
        pipe.awaited.push((pipe.read_bytes + pipe.bytes.len() as u64, Rc::clone(&arrival)));
        pipe.note_read(0);
        arrival
    }

    /// Ends the stream after the bytes that were written.
    pub(super) fn end(&self) {
        let mut wire = self.wire.borrow_mut();
        let pipe = &mut wire.pipes[self.side];
        pipe.has_ended = true;
        pipe.reader.take().into_iter().for_each(Waker::wake);
    }

    /// Whether the other side has closed or reset the connection.
    pub(super) fn is_closed(&self) -> bool {
        let wire = self.wire.borrow();
        wire.is_reset || wire.pipes[self.side].is_closed
    }

    /// Resets the connection immediately; unread bytes are lost.
    pub(super) fn reset(&self) {
        self.wire.borrow_mut().reset();
    }

    /// Waits for bytes, and reads all that have arrived; returns no bytes at the end of the stream.
    ///
    /// # Errors
    /// The connection was reset.
    pub(super) async fn read(&self) -> io::Result<Vec<u8>> {
        let mut all = Vec::new();
        let mut space = [0; 4096];
        std::future::poll_fn(|cx| {
            loop {
                match self.poll_read(cx, &mut space) {
                    Poll::Ready(Ok(0)) => return Poll::Ready(Ok(())),
                    Poll::Ready(Ok(count)) => all.extend_from_slice(&space[..count]),
                    // If bytes were read before an error, they are returned first.
                    _ if !all.is_empty() => return Poll::Ready(Ok(())),
                    other => return other.map_ok(|_| ()),
                }
            }
        })
        .await?;
        Ok(all)
    }

    /// Writes all of `bytes`.
    ///
    /// # Errors
    /// The connection was reset, or its other end is gone.
    pub(super) async fn write(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let written =
                std::future::poll_fn(|cx| self.poll_write(cx, &[IoSlice::new(bytes)])).await?;
            bytes = &bytes[written..];
        }
        Ok(())
    }
}

impl Drop for WireEnd {
    fn drop(&mut self) {
        let mut wire = self.wire.borrow_mut();
        // As in TCP, closing an end that has not read all bytes resets the connection.
        if self.resets || !wire.pipes[1 - self.side].bytes.is_empty() {
            wire.reset();
        }
        wire.pipes[self.side].has_ended = true;
        wire.pipes[1 - self.side].is_closed = true;
        wire.wake_all();
    }
}

/// The server's end of a client's connection.
struct SimTransport {
    end: RefCell<WireEnd>,
    peer: SocketAddr,
}

impl Transport for SimTransport {
    fn poll_read(&self, cx: &mut Context<'_>, space: &mut [u8]) -> Poll<io::Result<usize>> {
        self.end.borrow().poll_read(cx, space)
    }

    fn read_now(&self, space: &mut [u8]) -> Option<usize> {
        let mut cx = Context::from_waker(Waker::noop());
        match self.end.borrow().poll_read(&mut cx, space) {
            Poll::Ready(read) => read.ok(),
            Poll::Pending => None,
        }
    }

    fn poll_write(&self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        self.end.borrow().poll_write(cx, slices)
    }

    fn poll_shutdown(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.end.borrow().end();
        Poll::Ready(Ok(()))
    }

    fn peer(&self) -> SocketAddr {
        self.peer
    }

    fn listener(&self) -> ListenerNumber {
        let is_second = self.peer.port() == SECOND_LISTENER_PORT;
        ListenerNumber::all().nth(usize::from(is_second)).unwrap_or_default()
    }

    fn local(&self) -> Option<SocketAddr> {
        None
    }

    fn set_dscp(&self, _: u8) {}

    fn reset_on_close(&self) {
        self.end.borrow_mut().resets = true;
    }
}

/// Connections that have not been accepted yet, and the waker of the task that accepts them.
#[derive(Debug, Default)]
struct Backlog {
    waiting: VecDeque<(WireEnd, SocketAddr)>,
    waker: Option<Waker>,
    /// The time until which the worker has no free descriptor for a further connection.
    exhausted_until: Option<Instant>,
}

/// A queue of connections that have not been accepted yet. It outlives the worker that accepts from
/// it.
#[derive(Clone, Debug, Default)]
pub(super) struct PendingConnections(Rc<RefCell<Backlog>>);

impl PendingConnections {
    /// Opens a connection from the address `from`, and returns the end of the opening side.
    pub(super) fn connect(&self, from: SocketAddr, rng: Rng) -> WireEnd {
        let (own, other) = connection(rng);
        let mut backlog = self.0.borrow_mut();
        backlog.waiting.push_back((other, from));
        backlog.waker.take().into_iter().for_each(Waker::wake);
        own
    }

    /// For `ms` milliseconds, leaves the worker no free descriptor for a further connection.
    pub(super) fn exhaust(&self, ms: u64) {
        let until = Instant::now() + Duration::from_millis(ms);
        self.0.borrow_mut().exhausted_until = Some(until);
    }

    fn is_exhausted(&self) -> bool {
        self.0.borrow().exhausted_until.is_some_and(|until| Instant::now() < until)
    }

    /// Takes the next connection; if there is none, wakes the task when one arrives.
    pub(super) fn poll_next(&self, cx: &mut Context<'_>) -> Poll<(WireEnd, SocketAddr)> {
        let mut backlog = self.0.borrow_mut();
        match backlog.waiting.pop_front() {
            Some(waiting) => Poll::Ready(waiting),
            None => {
                backlog.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Returns a listener that accepts from this queue.
    pub(super) fn listener(&self) -> Box<dyn Listener> {
        Box::new(SimListener(self.clone()))
    }
}

struct SimListener(PendingConnections);

fn transport((end, peer): (WireEnd, SocketAddr)) -> Box<dyn Transport> {
    Box::new(SimTransport { end: RefCell::new(end), peer })
}

impl Listener for SimListener {
    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<Box<dyn Transport>>> {
        // As in Linux, the error occurs even if no connection waits.
        if self.0.is_exhausted() {
            return Poll::Ready(Err(Errno::MFILE.into()));
        }
        self.0.poll_next(cx).map(|waiting| Ok(transport(waiting)))
    }

    fn close(self: Box<Self>, accept: &mut dyn FnMut(Box<dyn Transport>)) {
        let waiting = std::mem::take(&mut self.0.0.borrow_mut().waiting);
        waiting.into_iter().for_each(|waiting| accept(transport(waiting)));
    }
}

/// One end of a connection, as a stream for the HTTP client.
pub(super) struct OriginStream(pub(super) WireEnd);

impl AsyncRead for OriginStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let space = buffer.initialize_unfilled();
        let read = self.0.poll_read(cx, space);
        read.map_ok(|count| buffer.advance(count))
    }
}

impl AsyncWrite for OriginStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.poll_write(cx, &[IoSlice::new(bytes)])
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.end();
        Poll::Ready(Ok(()))
    }
}

/// Opens connections to the origin.
pub(super) struct SimConnector {
    pub(super) origin: PendingConnections,
    /// The generator from which the generators of the connections derive.
    pub(super) rng: RefCell<Rng>,
    pub(super) run: Rc<Run>,
}

impl Connector for SimConnector {
    fn connect_socket(&self, _: &Path) -> Connecting {
        Box::pin(async { Err(io::ErrorKind::Unsupported.into()) })
    }

    fn connect(&self, server: SocketAddr) -> Connecting {
        let mut rng = self.rng.borrow_mut();
        let (scenario, now_ms) = (&self.run.scenario, self.run.now_ms());
        let index = scenario.origins.index(server);
        let guarded = guarded::index_of(server);
        let is_down = |index| scenario.origins.state(index, now_ms) == OriginState::Refuses;
        let is_refused = match index {
            Some(index) => is_down(index),
            None if guarded.is_some() => false,
            None => rng.percent(scenario.refused_percent),
        };
        let wire = Rng::of(&[rng.next()]);
        let (origin, run) = (self.origin.clone(), Rc::clone(&self.run));
        Box::pin(async move {
            tokio::task::yield_now().await;
            if is_refused {
                // If the site has several origins, another origin answers, so this is no excuse.
                if index.is_none() {
                    run.blame.note(Scope::Origin, run.now_ms());
                }
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            let port = match (guarded, index) {
                (Some(guarded), _) => GUARDED_PORT + guarded as u16,
                (None, Some(index)) => FIRST_PORT + 1 + index as u16,
                (None, None) => FIRST_PORT,
            };
            let local = SocketAddr::from(([10, 0, 0, 2], port));
            let end = origin.connect(local, wire);
            let ends = OriginEnds { server: server.ip(), local: local.ip() };
            Ok(OriginConnection {
                io: Box::new(OriginStream(end)),
                ends: Some(ends),
                is_http2: false,
            })
        })
    }
}
