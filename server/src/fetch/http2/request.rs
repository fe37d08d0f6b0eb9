//! Sends a request on a stream, and waits for the head of its response.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use http::header::{self, HeaderName, HeaderValue};
use http::uri::{Authority, Scheme, Uri};
use http::{Request, Response, Version};
use http_body::Body;
use tokio::sync::oneshot;

use super::body::Http2Body;
use super::connection::StreamPlace;
use super::failure::{StreamFailure, is_refusal, lasting_fault};
use super::upload::StreamUpload;
use crate::counters::Counter;
use crate::fault::Fault;
use crate::fetch::answer::BodySource;
use crate::fetch::received_head::interim_head;
use crate::fetch::upload::OutboundBody;
use crate::interim::InterimQueue;

/// A request for a stream.
pub(in crate::fetch) struct Http2Request<'a> {
    /// The request in the form for HTTP/1.1.
    pub(in crate::fetch) message: Request<OutboundBody>,
    /// Whether the connection uses TLS.
    pub(in crate::fetch) is_tls: bool,
    /// Whether the client accepts trailers.
    pub(in crate::fetch) accepts_trailers: bool,
    /// The queue for interim responses.
    pub(in crate::fetch) interim: &'a InterimQueue,
}

/// The fields that must not be in a message of HTTP/2 (RFC 9113 §8.2.2), and `TE`, of which only
/// one value may.
const CONNECTION_FIELDS: [HeaderName; 6] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

impl StreamPlace {
    /// Sends the request, and returns the response once its head has arrived. The rest of the
    /// request's body is sent by a task of its own.
    pub(in crate::fetch) async fn send(
        self,
        request: Http2Request<'_>,
    ) -> Result<Response<BodySource>, StreamFailure> {
        let connection = &self.connection;
        let worker = &connection.worker;
        let interim = request.interim;
        let (head, body) = request.into_head().map_err(StreamFailure::Fault)?;
        let sent = connection.sender.borrow().clone().send_request(head, body.is_end_stream());
        let (mut response, stream) = match sent {
            Ok(sent) => sent,
            Err(error) => {
                connection.note_error(&error);
                self.note_complete();
                return Err(StreamFailure::Refused(body));
            }
        };
        worker.count(Counter::OriginHttp2Requests);
        let mut upload = StreamUpload::new(body, stream);
        let mut is_uploaded = false;
        let answered = poll_fn(|cx| {
            is_uploaded = is_uploaded || upload.poll(cx).is_ready();
            while let Poll::Ready(Some(Ok(head))) = response.poll_informational(cx) {
                let head = interim_head(head.status(), head.headers());
                head.into_iter().for_each(|head| interim.push(head));
            }
            Pin::new(&mut response).poll(cx)
        });
        match answered.await {
            Ok(response) => {
                let (stop, stopped) = oneshot::channel();
                if !is_uploaded {
                    worker.spawn(upload.finish(stopped));
                }
                let may_have_content = true;
                Ok(response.map(|stream| {
                    BodySource::Http2(Box::new(Http2Body {
                        stream,
                        unreleased_bytes: 0,
                        is_known_loss: false,
                        place: Some(self),
                        may_have_content,
                        _upload: stop,
                    }))
                }))
            }
            Err(error) => Err(self.failed(&error, upload)),
        }
    }

    fn failed(&self, error: &h2::Error, upload: StreamUpload) -> StreamFailure {
        let connection = &self.connection;
        // The crate ends a connection on which it has reset too many streams itself, so these
        // resets count.
        if !(error.is_library() && error.is_reset()) {
            self.note_complete();
        }
        connection.note_error(error);
        let dead = || StreamFailure::Dead {
            cause: connection.cause(error),
            is_connection: !error.is_reset(),
            is_known: connection.note_lost(error),
        };
        if is_refusal(error) {
            connection.worker.count(Counter::OriginHttp2Refused);
            return upload.into_whole().map_or_else(dead, StreamFailure::Refused);
        }
        lasting_fault(error).map_or_else(dead, StreamFailure::Fault)
    }
}

impl Http2Request<'_> {
    /// Returns the head in the form for HTTP/2 (RFC 9113 §8.3.1), and the body.
    fn into_head(self) -> Result<(Request<()>, OutboundBody), Fault> {
        let refused = |_| Fault::TargetNotForwardable;
        let (mut parts, body) = self.message.into_parts();
        let host = parts.headers.remove(header::HOST).ok_or(Fault::TargetNotForwardable)?;
        for name in CONNECTION_FIELDS {
            parts.headers.remove(name);
        }
        if self.accepts_trailers {
            parts.headers.insert(header::TE, HeaderValue::from_static("trailers"));
        }
        let mut uri = parts.uri.into_parts();
        uri.scheme = Some(if self.is_tls { Scheme::HTTPS } else { Scheme::HTTP });
        uri.authority = Some(Authority::try_from(host.as_bytes()).map_err(refused)?);
        parts.uri = Uri::from_parts(uri).map_err(|_| Fault::TargetNotForwardable)?;
        parts.version = Version::HTTP_2;
        Ok((Request::from_parts(parts, ()), body))
    }
}
