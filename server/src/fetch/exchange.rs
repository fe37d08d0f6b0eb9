//! One exchange with an origin: a connection, the request, the checked head of its answer.

use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use forebay_http::request::{Method as AskedMethod, Version};
use forebay_http::response::{ResponseHead, origin_head};
use forebay_rules::ast::Hook;
use http::{HeaderMap, Method, Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use super::answer::{ConnectionPermit, OriginAnswer, OriginBody};
use super::connect::{Connection, connect};
use super::interim::InterimQueue;
use super::origins::OriginPool;
use super::outbound::{Outbound, Purpose};
use super::upload::{Upload, UploadProgress};
use crate::clock;
use crate::config::{OriginAddress, ServerSettings};
use crate::counters::{Counter, Histogram};
use crate::fault::{Fault, Side};
use crate::limits::ORIGIN_LIMITS;
use crate::worker::Worker;

/// Everything that one exchange needs.
pub(crate) struct Exchange<'a> {
    pub(crate) worker: &'a Rc<Worker>,
    pub(crate) origin: &'a OriginAddress,
    pub(crate) settings: &'a ServerSettings,
    pub(crate) outbound: Outbound<'a>,
    /// Where the status and fields of interim answers (1xx) go.
    pub(crate) interim: &'a InterimQueue,
}

/// Sends the request and waits for the head of the final answer.
///
/// On a pooled connection that turns out dead, a request is sent once more if none of it went out,
/// or if it may be repeated (RFC 9112 §9.3.1).
///
/// # Errors
/// A [`Fault`] of the origin's side, or [`Fault::OriginBusy`].
pub(crate) async fn exchange(
    exchange: &Exchange<'_>,
    upload: Option<(Upload, UploadProgress)>,
) -> Result<OriginAnswer, Fault> {
    let answered = exchange.run(upload).await;
    if let Err(fault) = answered
        && fault.side() == Side::Origin
    {
        exchange.worker.origin_fault(fault, &exchange.origin.authority);
    }
    answered
}

/// An answer whose head hyper has parsed.
struct Answered {
    response: Response<Incoming>,
    connection: Connection,
    request_time: u64,
}

/// Why there is no answer.
enum Failed {
    /// The connection was closed before a byte of the request went out.
    Unsent(Upload),
    /// The connection was closed before a byte of an answer came.
    Dead,
    Fault(Fault),
}

impl Failed {
    fn fault(self) -> Fault {
        match self {
            Failed::Unsent(_) | Failed::Dead => Fault::OriginBroke,
            Failed::Fault(fault) => fault,
        }
    }
}

impl Exchange<'_> {
    async fn run(&self, upload: Option<(Upload, UploadProgress)>) -> Result<OriginAnswer, Fault> {
        let pool = self.worker.origins.pool(self.origin, self.settings);
        let permit = self.permit(&pool).await?;
        let (upload, progress) = upload.map_or((Upload::None, None), |(u, p)| (u, Some(p)));
        let progress = progress.as_ref();
        let answered = match pool.take() {
            None => self.send(self.connect().await?, upload, progress).await,
            Some(pooled) => {
                self.worker.count(Counter::OriginReused);
                match self.send(pooled, upload, progress).await {
                    Err(Failed::Unsent(upload)) => self.send_again(upload, progress).await,
                    Err(Failed::Dead) if self.outbound.asked.repeatable() => {
                        self.send_again(Upload::None, None).await
                    }
                    answered => answered,
                }
            }
        };
        self.check(answered.map_err(Failed::fault)?, pool, permit)
    }

    async fn send_again(
        &self,
        upload: Upload,
        progress: Option<&UploadProgress>,
    ) -> Result<Answered, Failed> {
        self.worker.count(Counter::OriginRetries);
        let fresh = self.connect().await.map_err(Failed::Fault)?;
        self.send(fresh, upload, progress).await
    }

    async fn permit(&self, pool: &OriginPool) -> Result<OwnedSemaphorePermit, Fault> {
        let limit = Duration::from_millis(u64::from(self.settings.origin_connect_ms_max));
        let permit = timeout(limit, pool.permit()).await;
        permit.ok().flatten().ok_or(Fault::OriginBusy)
    }

    async fn connect(&self) -> Result<Connection, Fault> {
        connect(self.worker, self.origin, self.settings).await
    }

    async fn send(
        &self,
        mut connection: Connection,
        upload: Upload,
        progress: Option<&UploadProgress>,
    ) -> Result<Answered, Failed> {
        let rules = &self.outbound.rules;
        rules.rule_state.set_outbound(connection.ends);
        let mut request =
            self.outbound.request(&self.origin.authority, upload).map_err(Failed::Fault)?;
        forward_interim(&mut request, self.interim.clone());
        self.worker.count(Counter::OriginRequests);
        let request_time = clock::unix_seconds();
        let began_us = clock::monotonic_us();
        let sent = connection.sender.try_send_request(request);
        let response = self.first_byte(sent, progress).await.map_err(Failed::Fault)?;
        match response {
            Ok(response) => {
                let took_us = clock::monotonic_us().saturating_sub(began_us);
                self.worker.observe(Histogram::OriginFirstByte, took_us);
                Ok(Answered { response, connection, request_time })
            }
            Err(error) => Err(failed(error)),
        }
    }

    /// Waits for the head; the time starts anew as long as an upload moves.
    async fn first_byte<T>(
        &self,
        sent: impl Future<Output = T>,
        progress: Option<&UploadProgress>,
    ) -> Result<T, Fault> {
        let limit_ms = u64::from(self.settings.origin_first_byte_ms_max);
        let mut sent = std::pin::pin!(sent);
        let mut wait_ms = limit_ms;
        loop {
            if let Ok(response) = timeout(Duration::from_millis(wait_ms), &mut sent).await {
                return Ok(response);
            }
            let quiet_ms = progress.map_or(limit_ms, UploadProgress::quiet_ms);
            if quiet_ms >= limit_ms {
                return Err(Fault::OriginFirstByteTimeout);
            }
            wait_ms = limit_ms - quiet_ms;
        }
    }

    /// Checks the head by our own rules.
    fn check(
        &self,
        answered: Answered,
        pool: Rc<OriginPool>,
        permit: OwnedSemaphorePermit,
    ) -> Result<OriginAnswer, Fault> {
        let Answered { response, connection, request_time } = answered;
        let mut head = checked_head(&response, self.outbound.asked.method())?;
        if !self.outbound.admits(head.status) {
            return Err(Fault::OriginAnswer("the answer is to a condition or range not sent"));
        }
        let received_status = head.status;
        let rules = &self.outbound.rules;
        let mut received = None;
        if !matches!(self.outbound.purpose, Purpose::Rest(_)) && rules.has(Hook::ReadResponse) {
            received = Some(head.block.clone());
            rules.read_response(&mut head)?;
        }
        Ok(OriginAnswer {
            head,
            received,
            received_status,
            body: OriginBody {
                worker: Rc::clone(self.worker),
                origin: Rc::clone(&pool.authority),
                incoming: response.into_body(),
                permit_held: Some(ConnectionPermit { connection, pool, permit }),
                idle_ms_max: u64::from(self.settings.origin_idle_ms_max),
            },
            request_time,
            response_time: clock::unix_seconds(),
        })
    }
}

fn checked_head(response: &Response<Incoming>, method: &Method) -> Result<ResponseHead, Fault> {
    let version = match response.version() {
        http::Version::HTTP_10 => Version::Http10,
        http::Version::HTTP_11 => Version::Http11,
        _ => {
            return Err(Fault::OriginAnswer("the origin speaks another version of HTTP"));
        }
    };
    let lines = lines(response.headers());
    let method = AskedMethod::of(method.as_str().as_bytes());
    origin_head(response.status().as_u16(), version, method, &ORIGIN_LIMITS, lines.iter().copied())
        .map_err(|error| Fault::OriginAnswer(error.reason()))
}

/// Names and values as they came.
fn lines(headers: &HeaderMap) -> Vec<(&[u8], &[u8])> {
    headers.iter().map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes())).collect()
}

fn failed(mut error: TrySendError<Request<Upload>>) -> Failed {
    if let Some(request) = error.take_message() {
        return Failed::Unsent(request.into_body());
    }
    let error = error.into_error();
    let broken = std::error::Error::source(&error).is_some_and(|s| s.is::<std::io::Error>());
    if error.is_incomplete_message() || error.is_canceled() || error.is_closed() || broken {
        return Failed::Dead;
    }
    if error.is_user() || error.is_body_write_aborted() {
        return Failed::Fault(Fault::RequestBody);
    }
    Failed::Fault(Fault::OriginAnswer("the origin's answer is malformed"))
}

/// Passes interim answers on (RFC 9110 §15.2); a 101 that nobody asked for is no interim answer
/// and comes out as the final one.
fn forward_interim(request: &mut Request<Upload>, queue: InterimQueue) {
    hyper::ext::on_informational(request, move |response| {
        let lines = lines(response.headers());
        let status = response.status().as_u16();
        let lines = lines.iter().copied();
        let head = origin_head(status, Version::Http11, AskedMethod::Get, &ORIGIN_LIMITS, lines);
        if let Ok(head) = head {
            queue.push(head);
        }
    });
}
