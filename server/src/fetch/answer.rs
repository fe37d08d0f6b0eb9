//! What an origin answers: a checked head, and a body that comes in pieces.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use forebay_http::chunked::is_allowed_trailer;
use forebay_http::fields::{Field, FieldBlock, FieldId};
use forebay_http::response::ResponseHead;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use super::connect::Connection;
use super::origins::OriginPool;
use super::preempt::Preempted;
use crate::accept::Client;
use crate::counters::Counter;
use crate::fault::Fault;
use crate::worker::Worker;

/// An origin's answer.
pub(crate) struct OriginAnswer {
    /// As rules left it.
    pub(crate) head: ResponseHead,
    /// The fields as they came, if rules may have changed them.
    pub(crate) received: Option<FieldBlock>,
    /// Its status as it came.
    pub(crate) received_status: u16,
    pub(crate) body: OriginBody,
    /// When the request was sent, and when its answer's head was here, in unix seconds.
    pub(crate) request_time: u64,
    pub(crate) response_time: u64,
}

/// A piece of an origin's body.
pub(crate) enum OriginPart {
    Data(Bytes),
    /// The body is whole; with its trailers, if it had any.
    End(Option<FieldBlock>),
}

/// The body of an origin's answer. Dropped before its end, it closes the connection.
pub(crate) struct OriginBody {
    pub(crate) worker: Rc<Worker>,
    /// The origin's authority, for the log.
    pub(crate) origin: Rc<str>,
    pub(crate) incoming: Incoming,
    /// Given back to the pool at the end of the body.
    pub(crate) permit_held: Option<ConnectionPermit>,
    pub(crate) idle_ms_max: u64,
}

/// The connection that an answer comes on, and the leave for its exchange.
pub(crate) struct ConnectionPermit {
    pub(crate) connection: Connection,
    pub(crate) pool: Rc<OriginPool>,
    pub(crate) permit: OwnedSemaphorePermit,
}

/// The pool whose permit a body holds, if it does.
pub(crate) struct PermittedBy(Option<Rc<OriginPool>>);

impl PermittedBy {
    /// Does what waits for a client. `moved` grows when the client takes something.
    ///
    /// # Errors
    /// It took nothing for some time, and another request waited for the permit.
    pub(crate) async fn holding<T>(
        &self,
        work: impl Future<Output = T>,
        moved: impl Fn() -> u64,
    ) -> Result<T, Preempted> {
        match &self.0 {
            Some(pool) => pool.holding(work, moved).await,
            None => Ok(work.await),
        }
    }

    /// Sends to a client what waits for it.
    ///
    /// # Errors
    /// Those of `sending`, or [`Fault::GaveWay`].
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
    /// Whose permit it holds; nobody's at its end.
    pub(crate) fn permitted_by(&self) -> PermittedBy {
        PermittedBy(self.permit_held.as_ref().map(|permit_held| Rc::clone(&permit_held.pool)))
    }

    /// The next piece.
    ///
    /// # Errors
    /// The origin stopped sending, closed too early, broke its framing, or sent more than it
    /// announced: in each case what came before is not a whole body.
    pub(crate) async fn next(&mut self) -> Result<OriginPart, Fault> {
        let part = self.next_part().await;
        if let Err(fault) = part {
            self.worker.origin_fault(fault, &self.origin);
        }
        part
    }

    async fn next_part(&mut self) -> Result<OriginPart, Fault> {
        let limit = Duration::from_millis(self.idle_ms_max);
        loop {
            let Ok(frame) = timeout(limit, self.incoming.frame()).await else {
                return Err(Fault::OriginIdleTimeout);
            };
            let Some(frame) = frame else {
                return self.end(None);
            };
            let frame = frame.map_err(|error| body_fault(&error))?;
            match frame.into_data() {
                Ok(data) if data.is_empty() => {}
                Ok(data) => {
                    self.worker.count_many(Counter::OriginBytesIn, data.len() as u64);
                    return Ok(OriginPart::Data(data));
                }
                Err(frame) => {
                    let trailers = frame.into_trailers().ok().map(|fields| trailer_block(&fields));
                    return self.end(trailers);
                }
            }
        }
    }

    fn end(&mut self, trailers: Option<FieldBlock>) -> Result<OriginPart, Fault> {
        if let Some(permit_held) = self.permit_held.take() {
            // The task that drives the connection has read past the end of this body before we
            // could see that end, so more bytes in the same read are known by now.
            if permit_held.connection.link.unasked() {
                return Err(Fault::OriginAnswer("the origin sent more than it announced"));
            }
            permit_held.pool.give(permit_held.connection);
            drop(permit_held.permit);
        }
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

/// Trailers with a meaning of their own in a head are dropped (RFC 9110 §6.5.1).
fn trailer_block(fields: &http::HeaderMap) -> FieldBlock {
    let mut block = FieldBlock::new();
    for (name, value) in fields {
        let name = name.as_str().as_bytes();
        let field = Field { id: FieldId::of(name), name, value: value.as_bytes() };
        if is_allowed_trailer(field) {
            block.push(field.name, field.value);
        }
    }
    block
}
