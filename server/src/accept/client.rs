//! One client's connection as the later steps see it: read into buffers, flush an output queue.
//!
//! Every wait has an end: idle time, head time, or the least rate at which a body may move.

use std::future::poll_fn;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll};

use crate::accept::registry::{Registered, Ticket};
use crate::clock;
use crate::counters::Counter;
use crate::fault::Fault;
use crate::limits::{LINGER_BYTES_MAX, LINGER_MS_MAX, OUT_SLICES_MAX};
use crate::out::Out;
use crate::parse::Input;
use crate::socket::Socket;
use crate::worker::Worker;

/// A client's connection.
pub(crate) struct Client {
    pub(crate) socket: Socket,
    pub(crate) worker: Rc<Worker>,
    pub(crate) peer: SocketAddr,
    registered: Registered,
}

/// The least rate at which a body has to move: `grace_ms` and then `rate_min` bytes a second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeastRate {
    pub(crate) grace_ms: u64,
    pub(crate) rate_min: u64,
}

impl LeastRate {
    /// How long after the start `moved_bytes` bytes may have taken, and the next one may take.
    pub(crate) fn allowed_ms(self, moved_bytes: u64) -> u64 {
        match self.rate_min {
            0 => u64::MAX / 2,
            rate => self
                .grace_ms
                .saturating_add(moved_bytes.saturating_mul(1000) / rate),
        }
    }
}

impl Client {
    pub(crate) async fn new(
        socket: Socket,
        worker: Rc<Worker>,
        peer: SocketAddr,
        registered: Registered,
    ) -> Client {
        // A task keeps its waker for life, so that it need not be handed over at every wait.
        registered.set_waker(poll_fn(|cx| Poll::Ready(cx.waker().clone())).await);
        Client {
            socket,
            worker,
            peer,
            registered,
        }
    }

    /// The deadline of the present wait.
    pub(crate) fn ticket(&self) -> &Ticket {
        self.registered.ticket()
    }

    /// The least rate by the present settings.
    pub(crate) fn least_rate(&self) -> LeastRate {
        let config = self.worker.config();
        LeastRate {
            grace_ms: u64::from(config.server.body_grace_ms),
            rate_min: config.server.body_rate_min,
        }
    }

    /// One read into `input`, which holds at most `bytes_max` bytes; `Ready(0)` is the end.
    ///
    /// The caller has armed the ticket, or does so on `Pending`, and asks it whether it is
    /// overdue.
    pub(crate) fn poll_read(
        &self,
        cx: &mut Context<'_>,
        input: &mut Input,
        bytes_max: usize,
    ) -> Poll<Result<usize, Fault>> {
        let space = input.space(bytes_max);
        match self.socket.poll_read(cx, space) {
            Poll::Ready(Ok(count)) => {
                input.filled(count);
                self.worker.count_many(Counter::BytesIn, count as u64);
                Poll::Ready(Ok(count))
            }
            Poll::Ready(Err(_)) => Poll::Ready(Err(Fault::ClientGone)),
            Poll::Pending => Poll::Pending,
        }
    }

    /// Sends all of `out`.
    ///
    /// # Errors
    /// The client is gone, or takes its bytes slower than the least rate.
    pub(crate) async fn flush(&self, out: &mut Out) -> Result<(), Fault> {
        if out.is_empty() {
            return Ok(());
        }
        let mut pace = None;
        let sent = poll_fn(|cx| self.poll_flush(cx, out, &mut pace)).await;
        if pace.is_some() {
            self.ticket().disarm();
        }
        sent
    }

    fn poll_flush(
        &self,
        cx: &mut Context<'_>,
        out: &mut Out,
        pace: &mut Option<Pace>,
    ) -> Poll<Result<(), Fault>> {
        while !out.is_empty() {
            let mut slices = [IoSlice::new(&[]); OUT_SLICES_MAX];
            let count = out.slices(&mut slices);
            let written = self
                .socket
                .poll_write(cx, slices.get(..count).unwrap_or_default());
            match written {
                Poll::Ready(Ok(count)) if count > 0 => {
                    out.consume(count);
                    self.worker.count_many(Counter::BytesOut, count as u64);
                    if let Some(pace) = pace {
                        pace.moved_bytes += count as u64;
                    }
                }
                Poll::Ready(_) => return Poll::Ready(Err(Fault::ClientGone)),
                Poll::Pending => {
                    let pace = pace.get_or_insert_with(|| Pace::new(self.least_rate()));
                    return pace.wait(self.ticket());
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Ends the connection so that the last answer arrives: FIN, then what still comes is read
    /// and thrown away for a while, since a close with unread bytes resets (RFC 9112 §9.6).
    pub(crate) async fn linger(&self, input: &mut Input) {
        self.ticket().arm(LINGER_MS_MAX);
        let mut left = LINGER_BYTES_MAX;
        poll_fn(|cx| {
            if self.ticket().overdue() {
                return Poll::Ready(());
            }
            if self.socket.poll_shutdown(cx).is_pending() {
                return Poll::Pending;
            }
            loop {
                input.consume(usize::MAX >> 1);
                match self.poll_read(cx, input, 0) {
                    Poll::Ready(Ok(count)) if count > 0 && count < left => left -= count,
                    Poll::Ready(_) => return Poll::Ready(()),
                    Poll::Pending => return Poll::Pending,
                }
            }
        })
        .await;
        self.ticket().disarm();
    }
}

/// How far a body has come since it first had to wait.
pub(crate) struct Pace {
    rate: LeastRate,
    since_ms: u64,
    /// Bytes moved since then.
    pub(crate) moved_bytes: u64,
}

impl Pace {
    pub(crate) fn new(rate: LeastRate) -> Pace {
        Pace {
            rate,
            since_ms: clock::monotonic_ms(),
            moved_bytes: 0,
        }
    }

    /// Waits until something moves, at the longest until the least rate is missed.
    pub(crate) fn wait<T>(&self, ticket: &Ticket) -> Poll<Result<T, Fault>> {
        let waited_ms = clock::monotonic_ms() - self.since_ms;
        let allowed_ms = self.rate.allowed_ms(self.moved_bytes);
        if waited_ms >= allowed_ms {
            return Poll::Ready(Err(Fault::TooSlow));
        }
        ticket.arm(allowed_ms - waited_ms);
        Poll::Pending
    }
}
