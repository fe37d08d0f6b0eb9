//! The heads of an origin's responses: checks them by rules that are stricter than hyper's, runs
//! header rules on them, and forwards interim responses.

use std::rc::Rc;

use forebay_http::fields::{FieldBlock, FieldId};
use forebay_http::framing::BodyFraming;
use forebay_http::request::{Method as RequestMethod, Version};
use forebay_http::response::{ResponseHead, origin_head, switch_head};
use forebay_rules::ast::Hook;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};

use super::answer::{BodySource, ConnectionPermit, OriginAnswer, OriginBody};
use super::connect::Connection;
use super::exchange::Exchange;
use super::group::OriginChoice;
use super::origins::OriginPool;
use super::outbound::Purpose;
use super::permits::ExchangePermit;
use super::sent_path::client_location;
use super::tunnel::SwitchedConnection;
use super::upload::{OutboundBody, UploadProgress};
use crate::clock;
use crate::config::{OriginAddress, OriginExcess};
use crate::fault::Fault;
use crate::interim::InterimQueue;
use crate::limits::ORIGIN_LIMITS;
use crate::rules::RuleProgress;

/// A response whose head a library has parsed.
pub(super) struct HeadReceived {
    pub(super) response: Response<BodySource>,
    /// The connection, unless other requests share it.
    pub(super) connection: Option<Connection>,
    pub(super) request_time: u64,
    /// The time in microseconds from sending the request until the head arrived.
    pub(super) took_us: u64,
    /// The state that the rules left when the request was sent.
    pub(super) rule_progress: RuleProgress,
}

impl Exchange<'_> {
    /// Runs the rules for received heads. Returns the fields as they were received, if rules may
    /// have changed them. The rest of a body that broke off continues a response whose head has
    /// already been ruled.
    ///
    /// # Errors
    /// [`Fault::Rules`]: the rules have made a head that is not valid.
    pub(super) fn run_response_rules(
        &self,
        head: &mut ResponseHead,
    ) -> Result<Option<FieldBlock>, Fault> {
        let hook = &self.outbound.hook;
        if matches!(self.outbound.purpose, Purpose::Resume(_)) || !hook.has(Hook::ReadResponse) {
            return Ok(None);
        }
        let received = head.block.clone();
        hook.read_response(head)?;
        Ok(Some(received))
    }

    /// Checks the head by rules that are stricter than hyper's, then runs header rules on it.
    pub(super) fn check(
        &self,
        answered: HeadReceived,
        choice: &OriginChoice<'_>,
        permit: ExchangePermit,
        upload: Option<&UploadProgress>,
    ) -> Result<OriginAnswer, Fault> {
        let pool = Rc::clone(&choice.pool);
        if let Some(wanted) = self.outbound.upgrade
            && answered.response.status() == StatusCode::SWITCHING_PROTOCOLS
        {
            return self.switched(answered, wanted, &pool);
        }
        let HeadReceived { response, connection, request_time, rule_progress, .. } = answered;
        // Rules for another attempt may have run since.
        self.outbound.hook.rule_state.resume(rule_progress);
        // hyper would send the next request on the connection as HTTP/1.0.
        let is_http_11 = response.version() == http::Version::HTTP_11;
        let mut head = checked_head(&response, self.outbound.message.line.method())?;
        if !self.outbound.admits(head.status) {
            return Err(Fault::OriginAnswer(
                "the origin answered a condition or range that was not sent",
            ));
        }
        self.reverse_location(&mut head, choice.address);
        let source = body_of(response, &mut head, self.outbound.is_grpc());
        let received_status = head.status;
        let received = self.run_response_rules(&mut head)?;
        Ok(OriginAnswer {
            head,
            received,
            received_status,
            body: OriginBody {
                worker: Rc::clone(self.worker()),
                origin: Rc::clone(&pool.authority),
                in_group: Some(choice.in_group.clone()),
                source,
                permit: Some(ConnectionPermit {
                    connection,
                    pool,
                    exchange: permit,
                    is_reusable: is_http_11
                        && self.outbound.upgrade.is_none()
                        && self.outbound.message.is_safe_to_follow(),
                }),
                idle_ms_max: u64::from(self.route_settings().origin_idle_ms_max),
                refuses_excess: self.route_settings().origin_excess == OriginExcess::Refuse,
                left_bytes: u64::MAX,
                decoder: None,
                client_wait_ms: Rc::default(),
                upload: upload.cloned(),
            },
            is_fallback: false,
            request_time,
            response_time: clock::unix_seconds(),
            switched: None,
        })
    }

    /// Writes a `Location` that names a path as the origin sees it in the form for clients.
    fn reverse_location(&self, head: &mut ResponseHead, origin: &OriginAddress) {
        let Some(location) = head.block.fields().only(FieldId::Location) else { return };
        if let Some(location) = client_location(self.route, origin, location) {
            head.block.remove(|field| field.id == FieldId::Location);
            head.block.push(b"location", &location);
        }
    }

    /// Checks the head of a 101. Like other interim responses, it is not changed by rules.
    fn switched(
        &self,
        answered: HeadReceived,
        wanted: &HeaderValue,
        pool: &OriginPool,
    ) -> Result<OriginAnswer, Fault> {
        let HeadReceived { response, connection, request_time, .. } = answered;
        if response.version() != http::Version::HTTP_11 {
            return Err(Fault::OriginAnswer("the origin switched protocols over HTTP/1.0"));
        }
        let lines = lines(response.headers());
        let switch = switch_head(wanted.as_bytes(), &ORIGIN_LIMITS, lines.iter().copied())
            .map_err(|error| Fault::OriginAnswer(error.reason()))?;
        let io = connection.and_then(|connection| connection.switched).ok_or(Fault::Internal)?;
        let framing = BodyFraming::None;
        let head = ResponseHead { status: 101, framing, content_length: None, block: switch.block };
        Ok(OriginAnswer {
            head,
            received: None,
            received_status: 101,
            body: OriginBody {
                worker: Rc::clone(self.worker()),
                origin: Rc::clone(&pool.authority),
                in_group: None,
                source: response.into_body(),
                permit: None,
                idle_ms_max: 0,
                refuses_excess: false,
                left_bytes: 0,
                decoder: None,
                client_wait_ms: Rc::default(),
                upload: None,
            },
            is_fallback: false,
            request_time,
            response_time: clock::unix_seconds(),
            switched: Some(SwitchedConnection { protocol: switch.protocol, io }),
        })
    }
}

/// Returns the body of a response. A body over HTTP/2 has a certain end even if its length is not
/// declared, and a head may end its stream. A call of gRPC ends with trailers, for which the client
/// needs a framing that has room for them.
fn body_of(response: Response<BodySource>, head: &mut ResponseHead, is_grpc: bool) -> BodySource {
    let mut source = response.into_body();
    if let BodySource::Http2(body) = &mut source {
        match head.framing {
            BodyFraming::None => body.forbid_content(),
            BodyFraming::UntilClose if body.is_empty() => head.framing = BodyFraming::Length(0),
            BodyFraming::UntilClose => head.framing = BodyFraming::Chunked,
            BodyFraming::Length(_) if is_grpc && !body.is_empty() => {
                head.framing = BodyFraming::Chunked;
            }
            BodyFraming::Length(_) | BodyFraming::Chunked => {}
        }
    }
    source
}

fn checked_head(response: &Response<BodySource>, method: &Method) -> Result<ResponseHead, Fault> {
    let version = match response.version() {
        http::Version::HTTP_10 => Version::Http10,
        // The fields have the same meaning in HTTP/2, whose framing the library has removed.
        http::Version::HTTP_11 | http::Version::HTTP_2 => Version::Http11,
        _ => {
            return Err(Fault::OriginAnswer(
                "the origin answers in a version of HTTP other than 1.0, 1.1 and 2",
            ));
        }
    };
    let lines = lines(response.headers());
    let method = RequestMethod::of(method.as_str().as_bytes());
    origin_head(response.status().as_u16(), version, method, &ORIGIN_LIMITS, lines.iter().copied())
        .map_err(|error| Fault::OriginAnswer(error.reason()))
}

/// Returns the names and values of the fields.
pub(super) fn lines(headers: &HeaderMap) -> Vec<(&[u8], &[u8])> {
    headers.iter().map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes())).collect()
}

/// Forwards interim responses (RFC 9110 §15.2) to `queue`. A 101 is not forwarded here, because
/// hyper returns it as the final response.
// RFC: 9110-15.2-2, 9110-15.2-3
pub(super) fn forward_interim(request: &mut Request<OutboundBody>, queue: InterimQueue) {
    hyper::ext::on_informational(request, move |response| {
        let head = interim_head(response.status(), response.headers());
        head.into_iter().for_each(|head| queue.push(head));
    });
}

/// Returns the checked head of an interim response; `None` if it is malformed.
pub(super) fn interim_head(status: StatusCode, fields: &HeaderMap) -> Option<ResponseHead> {
    let (status, lines) = (status.as_u16(), lines(fields));
    let lines = lines.iter().copied();
    origin_head(status, Version::Http11, RequestMethod::Get, &ORIGIN_LIMITS, lines).ok()
}
