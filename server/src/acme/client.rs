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
use http::response::Parts;
use http::{Method, Request, Response, StatusCode, Uri};
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
use crate::limits::{
    ACME_ANSWER_BYTES_MAX, ACME_HEAD_BYTES_MAX, ACME_PAUSE_S, ACME_REQUEST_MS_MAX,
    ACME_RETRY_AFTER_S_MAX,
};

/// A client for one certificate authority.
#[derive(Clone)]
pub(super) struct CaClient {
    tls: Arc<ClientConfig>,
    /// The time until which the authority asks for no further requests; 0 if it does not.
    retry_at: Arc<AtomicU64>,
    /// The time until which the authority gets no requests, whatever the site, because it cannot be
    /// reached or is overloaded.
    paused_until: Arc<AtomicU64>,
    /// The length of such a pause if the authority does not ask for another one, in seconds.
    pause_s: u64,
}

/// An error of a request, as text.
type RequestError = Box<dyn std::error::Error + Send + Sync>;

impl CaClient {
    /// Creates a client that trusts `roots`. `retry_ms` is the time after a failed order.
    ///
    /// # Errors
    /// The TLS library refuses the settings.
    pub(super) fn new(roots: &Arc<RootCertStore>, retry_ms: u64) -> Result<CaClient, String> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(Arc::clone(roots))
            .with_no_client_auth();
        Ok(CaClient {
            tls: Arc::new(tls),
            retry_at: Arc::default(),
            paused_until: Arc::default(),
            pause_s: (retry_ms / 1000).clamp(1, *ACME_PAUSE_S.start()),
        })
    }

    /// Returns for how many seconds the authority gets no requests.
    pub(super) fn pause_left_s(&self) -> u64 {
        let left = self.paused_until.load(Ordering::Relaxed).saturating_sub(clock::unix_seconds());
        // The clock may have been ahead.
        if left > *ACME_PAUSE_S.end() { 0 } else { left }
    }

    fn pause(&self, asked_s: Option<u64>) {
        let wait = asked_s.unwrap_or(0).clamp(self.pause_s, *ACME_PAUSE_S.end());
        self.paused_until.store(clock::unix_seconds() + wait, Ordering::Relaxed);
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
    ) -> Result<(Parts, Bytes), RequestError> {
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
        let body = Limited::new(body, ACME_ANSWER_BYTES_MAX).collect().await?.to_bytes();
        drop(connection);
        Ok((parts, body))
    }

    /// Checks an answer, because the ACME library cannot cope with every answer, and notes when the
    /// authority asks to wait. `is_get` is true for requests without a signature.
    fn checked(
        &self,
        is_get: bool,
        (mut parts, body): (Parts, Bytes),
    ) -> Result<Response<Full<Bytes>>, RequestError> {
        // The library adds the time to the present one, and panics if the sum is too large.
        let asked_s = parts.headers.remove(RETRY_AFTER).as_ref().and_then(retry_after_s);
        if let Some(asked_s) = asked_s {
            parts.headers.insert(RETRY_AFTER, HeaderValue::from(asked_s));
        }
        let status = parts.status;
        if status.is_client_error() || status.is_server_error() {
            let at = asked_s.map_or(0, |asked_s| clock::unix_seconds() + asked_s);
            self.retry_at.fetch_max(at, Ordering::Relaxed);
            let kind = parts.headers.get(CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
            // An error without a problem document comes from a proxy, not from the authority. The
            // library does not look at the status of a directory.
            let is_unexpected = is_get || !kind.windows(4).any(|word| word == b"json");
            let is_overloaded =
                matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
            if is_overloaded || (is_unexpected && status.is_server_error()) {
                self.pause(asked_s);
            }
            if is_unexpected {
                return Err(format!("the authority answers with {status}").into());
            }
        } else if is_get {
            check_directory(&body)?;
        }
        Ok(Response::from_parts(parts, Full::new(body)))
    }
}

/// Returns the seconds that an answer asks to wait, as far as an authority can put off the next
/// request (RFC 9110 §10.2.3).
fn retry_after_s(value: &HeaderValue) -> Option<u64> {
    let value = value.as_bytes();
    let seconds = std::str::from_utf8(value).ok().and_then(|text| text.trim().parse().ok());
    let at = || Some(parse_date(value)?.saturating_sub(clock::unix_seconds()));
    Some(seconds.or_else(at)?.min(ACME_RETRY_AFTER_S_MAX))
}

/// Checks the URLs of an authority's directory (RFC 8555 §7.1.1): the ACME library expects valid
/// ones. Other content passes.
fn check_directory(body: &[u8]) -> Result<(), RequestError> {
    const URLS: &[&str] = &["newNonce", "newAccount", "newOrder", "renewalInfo"];
    let Ok(directory) = serde_json::from_slice::<serde_json::Value>(body) else { return Ok(()) };
    for name in URLS {
        let Some(url) = directory[name].as_str() else { continue };
        let is_https = Uri::try_from(url).is_ok_and(|url| url.scheme_str() == Some("https"));
        if !is_https {
            return Err(format!("the directory has {name} {url:?}, which is no https URL").into());
        }
    }
    Ok(())
}

impl HttpClient for CaClient {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let client = self.clone();
        Box::pin(async move {
            let limit = Duration::from_millis(ACME_REQUEST_MS_MAX);
            let is_get = request.method() == Method::GET;
            let answer = match timeout(limit, client.exchange(request)).await {
                Ok(answer) => answer,
                Err(_) => Err("no answer in time".into()),
            };
            match answer {
                Ok(answer) => {
                    let checked = client.checked(is_get, answer).map_err(Error::Other)?;
                    Ok(BytesResponse::from(checked))
                }
                Err(error) => {
                    client.pause(None);
                    Err(Error::Other(error))
                }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn client() -> CaClient {
        CaClient::new(&Arc::new(RootCertStore::empty()), 600_000).expect("a client")
    }

    fn answer(status: u16, retry_after: &str, body: &'static str) -> (Parts, Bytes) {
        let kind = if body.starts_with('{') { "application/problem+json" } else { "text/html" };
        let builder = Response::builder().status(status).header(CONTENT_TYPE, kind);
        let response = builder.header(RETRY_AFTER, retry_after).body(()).expect("a response");
        (response.into_parts().0, Bytes::from_static(body.as_bytes()))
    }

    #[test]
    fn an_authority_cannot_ask_for_more_than_a_day() {
        for (value, expected) in [
            ("5", Some("5")),
            ("18446744073709551615", Some("86400")),
            ("99999999999999999999999", None),
            ("Fri, 31 Dec 9999 23:59:59 GMT", Some("86400")),
            ("Fri, 31 Dec 1999 23:59:59 GMT", Some("0")),
            ("soon", None),
        ] {
            let checked = client().checked(false, answer(200, value, "{}")).expect("it passes");
            let found = checked.headers().get(RETRY_AFTER).map(|found| found.to_str().unwrap());
            assert_eq!(found, expected, "{value}");
        }
    }

    #[test]
    fn a_directory_has_https_urls() {
        for (body, is_good) in [
            (r#"{"newNonce": "https://a.org/nonce"}"#, true),
            (r#"{"newNonce": "https://a.org/no nce"}"#, false),
            (r#"{"newNonce": ""}"#, false),
            (r#"{"newOrder": "http://a.org/order"}"#, false),
            ("no JSON", true),
            (r#"{"suggestedWindow": {}}"#, true),
        ] {
            let checked = client().checked(true, answer(200, "0", body));
            assert_eq!(checked.is_ok(), is_good, "{body}");
        }
    }

    #[test]
    fn only_an_overloaded_authority_gets_no_requests_of_other_sites() {
        for (status, retry_after, body, least, most) in [
            (200, "100", "{}", 0, 0),
            (400, "100", "{}", 0, 0),
            (404, "100", "<html>", 0, 0),
            (429, "100", "{}", 99, 100),
            (503, "1", "{}", 59, 60),
            (503, "86400", "{}", 3_599, 3_600),
            (502, "", "<html>", 59, 60),
        ] {
            let client = client();
            let _ = client.checked(false, answer(status, retry_after, body));
            let left = client.pause_left_s();
            assert!((least..=most).contains(&left), "{status} {retry_after}: {left}");
        }
    }
}
