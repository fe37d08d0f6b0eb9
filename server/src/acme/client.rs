//! The HTTP client for certificate authorities. Each request has a connection of its own, and
//! limits on its time and on the size of the answer.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use forebay_http::date::parse_date;
use http::header::{CONNECTION, CONTENT_TYPE, HOST, HeaderValue, RETRY_AFTER};
use http::{Request, Response, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::clock;
use crate::limits::{ACME_ANSWER_BYTES_MAX, ACME_HEAD_BYTES_MAX, ACME_REQUEST_MS_MAX};

/// A client for one certificate authority.
#[derive(Clone)]
pub(super) struct CaClient {
    tls: Arc<ClientConfig>,
    /// The time until which the authority asks for no further requests; 0 if it does not.
    retry_at: Arc<AtomicU64>,
}

/// An error of a request, as text.
type RequestError = Box<dyn std::error::Error + Send + Sync>;

impl CaClient {
    /// Creates a client that trusts `roots`.
    ///
    /// # Errors
    /// The TLS library refuses the settings.
    pub(super) fn new(roots: &Arc<RootCertStore>) -> Result<CaClient, String> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(Arc::clone(roots))
            .with_no_client_auth();
        Ok(CaClient { tls: Arc::new(tls), retry_at: Arc::default() })
    }

    /// Returns the Unix time until which the authority has asked to wait (RFC 8555 §6.6), and
    /// forgets it.
    pub(super) fn take_retry_at(&self) -> Option<u64> {
        Some(self.retry_at.swap(0, Ordering::Relaxed)).filter(|time| *time > 0)
    }

    /// Sends a request and reads the answer.
    async fn exchange(
        &self,
        mut request: Request<BodyWrapper<Bytes>>,
    ) -> Result<Response<Full<Bytes>>, RequestError> {
        let uri = std::mem::take(request.uri_mut());
        let authority = uri.authority().filter(|_| uri.scheme_str() == Some("https"));
        let authority = authority.ok_or_else(|| format!("{uri} is not an https URL"))?;
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(host.to_owned())?;
        *request.uri_mut() =
            Uri::try_from(uri.path_and_query().map_or("/", |target| target.as_str()))?;
        let fields = request.headers_mut();
        fields.insert(HOST, HeaderValue::from_str(authority.as_str())?);
        fields.insert(CONNECTION, HeaderValue::from_static("close"));
        let failed = |error| format!("cannot connect to {authority}: {error}");
        let address = (host, authority.port_u16().unwrap_or(443));
        let io = TcpStream::connect(address).await.map_err(failed)?;
        let io = TlsConnector::from(Arc::clone(&self.tls)).connect(name, io).await;
        let io = io.map_err(failed)?;
        let (mut sender, connection) = http1::Builder::new()
            .max_buf_size(ACME_HEAD_BYTES_MAX)
            .handshake::<_, BodyWrapper<Bytes>>(TokioIo::new(io))
            .await?;
        let connection = AbortOnDrop(tokio::spawn(connection));
        let (parts, body) = sender.send_request(request).await?.into_parts();
        if parts.status.is_client_error() || parts.status.is_server_error() {
            self.note_retry_after(parts.headers.get(RETRY_AFTER));
            let kind = parts.headers.get(CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
            // An error without a problem document comes from a proxy, not from the authority.
            if !kind.windows(4).any(|word| word == b"json") {
                return Err(format!("{authority} answers with {}", parts.status).into());
            }
        }
        let body = Limited::new(body, ACME_ANSWER_BYTES_MAX).collect().await?.to_bytes();
        drop(connection);
        Ok(Response::from_parts(parts, Full::new(body)))
    }

    fn note_retry_after(&self, value: Option<&HeaderValue>) {
        let Some(value) = value.map(HeaderValue::as_bytes) else { return };
        let seconds = std::str::from_utf8(value).ok().and_then(|text| text.trim().parse().ok());
        let at = match seconds {
            Some(seconds) => clock::unix_seconds().checked_add(seconds),
            None => parse_date(value),
        };
        self.retry_at.fetch_max(at.unwrap_or(0), Ordering::Relaxed);
    }
}

impl HttpClient for CaClient {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let client = self.clone();
        Box::pin(async move {
            let limit = Duration::from_millis(ACME_REQUEST_MS_MAX);
            match timeout(limit, client.exchange(request)).await {
                Ok(Ok(response)) => Ok(BytesResponse::from(response)),
                Ok(Err(error)) => Err(Error::Other(error)),
                Err(_) => Err(Error::Other("no answer in time".into())),
            }
        })
    }
}

/// Ends a task when it is dropped.
struct AbortOnDrop<T>(tokio::task::JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
