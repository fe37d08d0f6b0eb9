//! The response of an origin: its checked head, and its body, which arrives in pieces.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use forebay_http::error::OriginError;
use forebay_http::fields::{FieldBlock, Fields};
use forebay_http::policy::exchange::ResponseTiming;
use forebay_http::response::{ResponseHead, origin_trailers};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::timeout;

use super::connect::Connection;
use super::files::FileBody;
use super::group::GroupMember;
use super::http2::Http2Body;
use super::origins::OriginPool;
use super::permits::ExchangePermit;
use super::preempt::{Preempted, SlowWatch};
use super::received_head::lines;
use super::tunnel::SwitchedConnection;
use super::upload::{UploadProgress, wait_for_origin};
use crate::accept::{Client, ClientNetwork};
use crate::clock;
use crate::counters::Counter;
use crate::fault::{Fault, Side};
use crate::limits::{DISCARDED_BYTES_MAX, DISCARDED_MS_MAX, ORIGIN_LIMITS};
use crate::store::BodyDecoder;
use crate::worker::Worker;

/// How long a body has to wait for its client, in total, so that a break does not count as a
/// failure of the origin. Origins give a client that does not read more time than this.
const CLIENT_WAIT_MS: u64 = 2_000;

/// The response of an origin.
pub(crate) struct OriginAnswer {
    /// The head after changes by rules.
    pub(crate) head: ResponseHead,
    /// The fields as they were received, if rules may have changed them.
    pub(super) received: Option<FieldBlock>,
    /// The status as it was received.
    pub(crate) received_status: u16,
    pub(crate) body: OriginBody,
    /// Whether the page of `files_fallback` answers in place of a missing file. Such an answer is
    /// never stored: it must not hide a file that is added later.
    pub(super) is_fallback: bool,
    /// The time at which the request was sent, in seconds since 1970.
    pub(super) request_time: u64,
    /// The time at which the response's head was received, in seconds since 1970.
    pub(crate) response_time: u64,
    /// The connection, if the origin has switched protocols (status 101).
    pub(super) switched: Option<SwitchedConnection>,
}

impl OriginAnswer {
    /// Returns the time at which the response was received, and how old the response was then.
    pub(super) fn timing(&self) -> ResponseTiming {
        ResponseTiming::new(self.head.block.fields(), self.request_time, self.response_time)
    }

    /// Returns the fields as they were received.
    pub(super) fn received_fields(&self) -> Fields<'_> {
        self.received.as_ref().unwrap_or(&self.head.block).fields()
    }
}

/// A piece of an origin's body.
pub(crate) enum OriginPart {
    Data(Bytes),
    /// The end of a whole body, with its trailers if it has any.
    End(Option<FieldBlock>),
}

/// The body of an origin's response. Dropping it before its end closes the connection.
pub(crate) struct OriginBody {
    pub(super) worker: Rc<Worker>,
    /// The origin's authority, for the log.
    pub(super) origin: Rc<str>,
    /// The origin in its group, which learns whether the body is whole; `None` if no origin sends
    /// the body.
    pub(super) in_group: Option<GroupMember>,
    pub(super) source: BodySource,
    /// The connection and its permit, which return to the pool at the end of the body.
    pub(super) permit: Option<ConnectionPermit>,
    pub(super) idle_ms_max: u64,
    /// Whether bytes beyond the end of the body are reported as a fault.
    pub(super) refuses_excess: bool,
    /// The number of bytes that may still be passed on; the rest of the body is cut off.
    pub(super) left_bytes: u64,
    /// The decoder through which the body passes, if its content coding is taken off.
    pub(super) decoder: Option<BodyDecoder>,
    /// How long the body has waited for its client, in milliseconds. A body that is not stored is
    /// read as fast as its client reads, and an origin may end the transfer to a slow client.
    pub(super) client_wait_ms: Rc<Cell<u64>>,
    /// The upload of the request's body, which may still be in progress; `None` if the request has
    /// no content.
    pub(super) upload: Option<UploadProgress>,
}

/// Where the pieces of a body come from.
pub(crate) enum BodySource {
    /// A connection over HTTP/1.1.
    Http1(Incoming),
    Http2(Box<Http2Body>),
    File(FileBody),
    /// A body in memory.
    Memory(Bytes),
}

impl BodySource {
    /// Whether the body broke off with a connection whose end is recorded already.
    fn is_known_loss(&self) -> bool {
        matches!(self, BodySource::Http2(body) if body.is_known_loss())
    }

    /// Returns the next piece, which is never empty.
    async fn next(&mut self) -> Result<OriginPart, Fault> {
        let incoming = match self {
            BodySource::Http1(incoming) => incoming,
            BodySource::Http2(body) => return body.next().await,
            BodySource::File(file) => {
                let piece = file.next().await?;
                return Ok(piece.map_or(OriginPart::End(None), OriginPart::Data));
            }
            BodySource::Memory(bytes) => {
                return Ok(match std::mem::take(bytes) {
                    rest if rest.is_empty() => OriginPart::End(None),
                    rest => OriginPart::Data(rest),
                });
            }
        };
        while let Some(frame) = incoming.frame().await {
            let frame = frame.map_err(|error| body_fault(&error))?;
            match frame.into_data() {
                Ok(data) if data.is_empty() => {}
                Ok(data) => return Ok(OriginPart::Data(data)),
                Err(frame) => {
                    let trailers = frame.into_trailers().ok();
                    let trailers = trailers.map(|fields| checked_trailers(&fields)).transpose()?;
                    return Ok(OriginPart::End(trailers));
                }
            }
        }
        Ok(OriginPart::End(None))
    }
}

/// The connection on which a response arrives, and the permit for its exchange.
pub(super) struct ConnectionPermit {
    /// The connection; `None` if the response is a file, or arrives on a shared connection.
    pub(super) connection: Option<Connection>,
    pub(super) pool: Rc<OriginPool>,
    pub(super) exchange: ExchangePermit,
    /// Whether the connection may take another request afterwards.
    pub(super) is_reusable: bool,
}

/// The pool that issued the permit of a response body, and the client network that holds the
/// permit. `None` once the body has ended.
pub(crate) struct PermittedBy {
    holder: Option<(Rc<OriginPool>, ClientNetwork)>,
    client_wait_ms: Rc<Cell<u64>>,
}

impl PermittedBy {
    /// Runs `work`, which waits for a client. `moved` returns the number of bytes that the client
    /// has taken so far.
    ///
    /// # Errors
    /// The client was slow for some time, and another request waited for the permit.
    pub(crate) async fn holding<T>(
        &self,
        work: impl Future<Output = T>,
        moved: impl Fn() -> u64,
    ) -> Result<T, Preempted> {
        let Some((pool, network)) = &self.holder else { return Ok(work.await) };
        let began_ms = clock::monotonic_ms();
        let done = pool.holding(&mut SlowWatch::new(*network), work, moved).await;
        let took_ms = clock::monotonic_ms().saturating_sub(began_ms);
        self.client_wait_ms.update(|wait_ms| wait_ms.saturating_add(took_ms));
        done
    }

    /// Runs `sending`, which writes to a client.
    ///
    /// # Errors
    /// The errors of `sending`, or [`Fault::GaveWay`] if the client was slow for some time, and
    /// another request waited for the permit.
    pub(crate) async fn sending<T>(
        &self,
        client: &Client,
        sending: impl Future<Output = Result<T, Fault>>,
    ) -> Result<T, Fault> {
        let held = self.holding(sending, || client.sent_bytes()).await;
        held.unwrap_or(Err(Fault::GaveWay))
    }
}

impl OriginBody {
    /// Returns the pool that issued the body's permit, and the network that holds the permit. Both
    /// are absent once the body has ended.
    pub(crate) fn permitted_by(&self) -> PermittedBy {
        let permit = self.permit.as_ref();
        PermittedBy {
            holder: permit.map(|permit| (Rc::clone(&permit.pool), permit.exchange.network())),
            client_wait_ms: Rc::clone(&self.client_wait_ms),
        }
    }

    /// Cuts the body: it ends after `bytes` bytes, and the rest is not read.
    pub(super) fn cut_at(&mut self, bytes: u64) {
        self.left_bytes = bytes;
    }

    /// Takes the body, and leaves an empty one that no origin sends.
    pub(super) fn take(&mut self) -> OriginBody {
        let empty = OriginBody {
            worker: Rc::clone(&self.worker),
            origin: Rc::clone(&self.origin),
            in_group: None,
            source: BodySource::Memory(Bytes::new()),
            permit: None,
            idle_ms_max: self.idle_ms_max,
            refuses_excess: self.refuses_excess,
            left_bytes: u64::MAX,
            client_wait_ms: Rc::default(),
            decoder: None,
            upload: None,
        };
        std::mem::replace(self, empty)
    }

    /// Takes the content coding off the body. None of the body must have been read.
    pub(super) fn decode_with(&mut self, decoder: BodyDecoder) {
        self.decoder = Some(decoder);
    }

    /// Whether the future of [`next`](OriginBody::next) may hold the turn for which other bodies
    /// wait. A caller that waits for a client drops such a future before, and calls `next` again
    /// afterwards. A future of another body may be kept, and continues to read.
    pub(crate) fn takes_turns(&self) -> bool {
        self.decoder.is_some()
    }

    /// Returns the next piece. If the future is dropped, no byte is lost.
    ///
    /// # Errors
    /// The body cannot be decompressed; or the origin stopped sending, closed the connection too
    /// early or sent invalid framing, or it sent more than it announced and the settings refuse
    /// that; or the client did not send the rest of its request. In each case the pieces that were
    /// returned earlier are not a whole body.
    pub(crate) async fn next(&mut self) -> Result<OriginPart, Fault> {
        let part = self.next_part().await.map_err(|fault| self.cause_of(fault));
        if let Err(fault) = part
            && fault.side() == Side::Origin
        {
            let cause = match &mut self.source {
                BodySource::File(file) => file.take_cause(),
                _ => None,
            };
            self.worker.origin_fault(fault, &self.origin, cause.as_deref());
            // The content may come from the users of a site. Neither the content nor a slow client
            // says anything about the origin.
            let is_slow = self.client_wait_ms.get() >= CLIENT_WAIT_MS
                || self.upload.as_ref().is_some_and(UploadProgress::awaits_client);
            let is_other = match fault {
                Fault::OriginCoding(_) => true,
                Fault::OriginBroke => is_slow || self.source.is_known_loss(),
                _ => false,
            };
            if let Some(member) = self.in_group.as_ref().filter(|_| !is_other) {
                member.note_broken_body(&self.worker, &self.origin, fault);
            }
        }
        part
    }

    /// Returns the failure of the upload in place of its consequence: the exchange ends if the
    /// origin does not get the whole request.
    fn cause_of(&self, fault: Fault) -> Fault {
        self.upload.as_ref().and_then(UploadProgress::failure).unwrap_or(fault)
    }

    /// Returns the next piece, decoded if a decoder is set. The trailers of a decoded body are left
    /// out, because they may describe the encoded bytes.
    async fn next_part(&mut self) -> Result<OriginPart, Fault> {
        loop {
            if let Some(decoder) = &mut self.decoder
                && let Some(piece) = decoder.next().await?
            {
                return Ok(OriginPart::Data(piece));
            }
            match (self.next_received().await?, &mut self.decoder) {
                (OriginPart::Data(piece), Some(decoder)) => decoder.feed(piece),
                (OriginPart::End(_), Some(_)) => {
                    self.decoder.take().map_or(Ok(()), BodyDecoder::finish)?;
                    return Ok(OriginPart::End(None));
                }
                (part, None) => return Ok(part),
            }
        }
    }

    async fn next_received(&mut self) -> Result<OriginPart, Fault> {
        if self.left_bytes == 0 {
            // The connection still holds the rest, so it does not return to the pool.
            self.permit = None;
            return Ok(OriginPart::End(None));
        }
        let (limit_ms, late) = (self.idle_ms_max, Fault::OriginIdleTimeout);
        let next = self.source.next();
        match wait_for_origin(next, limit_ms, self.upload.as_ref(), late).await?? {
            OriginPart::Data(mut data) => {
                data.truncate(usize::try_from(self.left_bytes).unwrap_or(usize::MAX));
                self.left_bytes -= data.len() as u64;
                if let BodySource::Http1(_) | BodySource::Http2(_) = self.source {
                    self.worker.count_many(Counter::OriginBytesIn, data.len() as u64);
                }
                Ok(OriginPart::Data(data))
            }
            OriginPart::End(trailers) => self.end(trailers),
        }
    }

    /// Reads the rest of a body that no client gets, so that its connection can take another
    /// request. If the rest is long or late, the connection is closed instead.
    pub(crate) fn discard(mut self) {
        self.decoder = None;
        // Over HTTP/2, dropping the body only resets its stream.
        if !matches!(self.source, BodySource::Http1(_)) {
            return;
        }
        let worker = Rc::clone(&self.worker);
        worker.spawn(async move {
            let limit = Duration::from_millis(DISCARDED_MS_MAX);
            let _ = timeout(limit, self.discard_rest()).await;
        });
    }

    async fn discard_rest(&mut self) {
        let mut bytes = 0;
        while let Ok(OriginPart::Data(piece)) = self.next().await {
            bytes += piece.len();
            if bytes > DISCARDED_BYTES_MAX {
                return;
            }
        }
    }

    fn end(&mut self, trailers: Option<FieldBlock>) -> Result<OriginPart, Fault> {
        if let Some(permit) = self.permit.take() {
            // When hyper returns the end of the body, its connection task has already seen any
            // bytes beyond that end which arrived in the same read. The pool refuses a connection
            // with such bytes.
            let has_excess = |connection: &Connection| connection.link.unasked();
            if self.refuses_excess && permit.connection.as_ref().is_some_and(has_excess) {
                return Err(Fault::OriginAnswer("the origin sent more than it announced"));
            }
            if let Some(connection) = permit.connection
                && permit.is_reusable
            {
                permit.pool.give(connection);
            }
            drop(permit.exchange);
        }
        self.in_group.as_ref().inspect(|member| member.state.ejection.note_whole_body());
        Ok(OriginPart::End(trailers))
    }
}

fn body_fault(error: &hyper::Error) -> Fault {
    if error.is_incomplete_message() {
        return Fault::OriginBroke;
    }
    let source = std::error::Error::source(error);
    let broken =
        source.and_then(|source| source.downcast_ref::<std::io::Error>()).is_some_and(|error| {
            error.kind() != std::io::ErrorKind::InvalidInput
                && error.kind() != std::io::ErrorKind::InvalidData
        });
    if broken { Fault::OriginBroke } else { Fault::OriginAnswer("the origin's body is malformed") }
}

/// The reason why trailers are refused that exceed the limits of a head.
pub(super) const LONG_TRAILERS: &str = "the trailers of the origin's body are too large";

/// Returns the checked trailers of a body.
pub(super) fn checked_trailers(fields: &http::HeaderMap) -> Result<FieldBlock, Fault> {
    origin_trailers(&ORIGIN_LIMITS, lines(fields).iter().copied()).map_err(|error| match error {
        OriginError::HeadTooLarge | OriginError::TooManyFields => {
            Fault::OriginAnswer(LONG_TRAILERS)
        }
        _ => Fault::OriginAnswer("the trailers of the origin's body are malformed"),
    })
}
