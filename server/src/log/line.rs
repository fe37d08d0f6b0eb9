//! One line of the access log, as JSON or in the combined format.

use std::io::Write;
use std::net::IpAddr;
use std::sync::Arc;

use forebay_http::fields::{FieldId, Fields};
use forebay_http::policy::cache_status::{CacheName, CacheStatus};
use forebay_http::request::{RequestHead, Version};

use crate::accept::Client;
use crate::clock;
use crate::forwarding::request_id;
use crate::limits::TRACE_TEXT_BYTES_MAX;
use crate::terminal::{escaped_json, steers_terminal};
use crate::trace::AnsweredBy;
use crate::transport::tls::TlsInfo;
use crate::x509::CertificateFacts;

/// The format of a line of the access log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineFormat {
    Json,
    /// The `combined` format of Apache and nginx, followed by duration and Cache-Status.
    Combined,
}

/// The log entry of one request and its response.
#[derive(Debug)]
pub(crate) struct AccessEntry {
    time_ms: u64,
    started_us: u64,
    client: IpAddr,
    /// The address of the proxy that forwarded the request; `None` if the client sent it here.
    proxy: Option<IpAddr>,
    request_id: String,
    /// The ID that a trusted proxy has given the request; empty if it has given none.
    proxy_request_id: String,
    /// The user whose password was right, on a route with `basic_auth`.
    user: Option<String>,
    /// The name of the site; `None` if no site serves the request.
    site: Option<String>,
    /// The origin that answered the request, or the fetch that the request started.
    answered: Option<AnsweredBy>,
    method: String,
    host: String,
    target: String,
    version: &'static str,
    referer: String,
    user_agent: String,
    /// The result of the TLS handshake; `None` for a connection without TLS.
    tls: Option<TlsEntry>,
    status: u16,
    body_bytes: u64,
    /// The bytes that the client sent through its tunnel, if the connection became one.
    tunnel_bytes_in: Option<u64>,
    /// The reason why the request did not get the response that it asked for.
    fault: Option<&'static str>,
    cache: String,
    duration_us: u64,
}

/// The facts of a TLS handshake in an entry.
#[derive(Debug)]
struct TlsEntry {
    version: &'static str,
    cipher: &'static str,
    server_name: Option<Box<str>>,
    is_resumed: bool,
    /// The certificate that the client has shown.
    client: Option<Arc<CertificateFacts>>,
}

impl TlsEntry {
    fn of(info: &TlsInfo) -> TlsEntry {
        TlsEntry {
            version: info.version,
            cipher: info.cipher,
            server_name: info.server_name.clone(),
            is_resumed: info.is_resumed,
            client: info.client.as_ref().map(|client| Arc::clone(&client.facts)),
        }
    }
}

impl AccessEntry {
    /// Creates an entry with the properties of the request with this number.
    pub(crate) fn begin(head: RequestHead<'_>, client: &Client, number: u64) -> AccessEntry {
        let fields = head.fields();
        AccessEntry {
            time_ms: clock::unix_ms(),
            started_us: clock::monotonic_us(),
            client: client.address(),
            proxy: client.proxy(),
            request_id: client.worker.request_id(number),
            proxy_request_id: match client.proxy() {
                Some(_) => request_id(fields).unwrap_or_default().to_owned(),
                None => String::new(),
            },
            user: None,
            site: None,
            answered: None,
            method: text(head.method().as_bytes()),
            host: text(fields.first(FieldId::Host).unwrap_or_default()).to_ascii_lowercase(),
            target: text(head.target()),
            version: match head.version() {
                _ if client.transport.is_http2_stream() => "HTTP/2.0",
                Version::Http10 => "HTTP/1.0",
                Version::Http11 => "HTTP/1.1",
            },
            referer: named(fields, b"referer"),
            user_agent: named(fields, b"user-agent"),
            tls: client.tls_info().map(TlsEntry::of),
            status: 0,
            body_bytes: 0,
            tunnel_bytes_in: None,
            fault: None,
            cache: String::new(),
            duration_us: 0,
        }
    }

    /// Adds the properties of the response.
    pub(crate) fn end(
        &mut self,
        status: u16,
        body_bytes: u64,
        (cache, name): (&CacheStatus, &CacheName),
    ) {
        (self.status, self.body_bytes) = (status, body_bytes);
        let mut value = Vec::new();
        cache.write(name, &mut value);
        self.cache = text(&value);
        self.duration_us = clock::monotonic_us().saturating_sub(self.started_us);
    }

    /// Adds the number of bytes that the client sent through its tunnel.
    pub(crate) fn set_tunnel(&mut self, bytes_in: u64) {
        self.tunnel_bytes_in = Some(bytes_in);
    }

    /// Adds the site that serves the request.
    pub(crate) fn set_site(&mut self, name: &str) {
        self.site = Some(name.to_owned());
    }

    /// Adds the origin that has answered.
    pub(crate) fn set_answered(&mut self, answered: Option<AnsweredBy>) {
        self.answered = answered;
    }

    /// Adds the user whose password was right.
    pub(crate) fn set_user(&mut self, user: String) {
        self.user = Some(user);
    }

    /// Adds the reason why the request did not get the response that it asked for.
    pub(crate) fn set_fault(&mut self, reason: &'static str) {
        self.fault = Some(reason);
    }

    /// Appends the entry as a line. Text from clients is escaped, so no client can forge a line.
    pub(crate) fn write(&self, format: LineFormat, lines: &mut Vec<u8>) {
        match format {
            LineFormat::Json => self.write_json(lines),
            LineFormat::Combined => self.write_combined(lines),
        }
        lines.push(b'\n');
    }

    fn write_json(&self, lines: &mut Vec<u8>) {
        lines.extend_from_slice(escaped_json(&self.to_json().to_string()).as_bytes());
    }

    /// Returns the entry as a JSON object.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        let mut entry = serde_json::json!({
            "time_ms": self.time_ms,
            "client": self.client.to_string(),
            "request_id": self.request_id,
            "method": self.method,
            "host": self.host,
            "target": self.target,
            "version": self.version,
            "status": self.status,
            "body_bytes": self.body_bytes,
            "duration_us": self.duration_us,
            "cache": self.cache,
            "referer": self.referer,
            "user_agent": self.user_agent,
        });
        if let Some(proxy) = self.proxy {
            entry["proxy"] = proxy.to_string().into();
            entry["proxy_request_id"] = self.proxy_request_id.as_str().into();
        }
        if let Some(site) = &self.site {
            entry["site"] = site.as_str().into();
        }
        if let Some(AnsweredBy { origin, version, took_us }) = &self.answered {
            entry["origin"] = (**origin).into();
            entry["origin_version"] = format!("{version:?}").into();
            entry["origin_us"] = (*took_us).into();
        }
        if let Some(user) = &self.user {
            entry["user"] = user.as_str().into();
        }
        if let Some(bytes_in) = self.tunnel_bytes_in {
            entry["tunnel_bytes_in"] = bytes_in.into();
        }
        if let Some(fault) = self.fault {
            entry["fault"] = fault.into();
        }
        if let Some(tls) = &self.tls {
            entry["tls_version"] = tls.version.into();
            entry["tls_cipher"] = tls.cipher.into();
            entry["tls_name"] = tls.server_name.as_deref().unwrap_or_default().into();
            entry["tls_resumed"] = tls.is_resumed.into();
            if let Some(client) = &tls.client {
                entry["tls_client_subject"] = client.subject.as_str().into();
                entry["tls_client_issuer"] = client.issuer.as_str().into();
                entry["tls_client_serial"] = client.serial.as_str().into();
                entry["tls_client_fingerprint"] = client.fingerprint.as_str().into();
            }
        }
        entry
    }

    /// Returns the date and the client's address, as the title of the entry in a trace.
    pub(crate) fn title(&self) -> String {
        format!("{} {}", common_log_date(self.time_ms / 1000), self.client)
    }

    /// Returns the time at which the request began, in microseconds of `clock::monotonic_us`.
    pub(crate) fn started_us(&self) -> u64 {
        self.started_us
    }

    /// Sets the time at which the request began.
    pub(crate) fn begin_at(&mut self, started_us: u64) {
        self.started_us = started_us;
    }

    /// Shortens long texts that the client sent, for a trace.
    pub(crate) fn shorten(&mut self) {
        let AccessEntry { method, host, target, referer, user_agent, .. } = self;
        for text in [method, host, target, referer, user_agent] {
            *text = shortened(std::mem::take(text));
        }
    }

    fn write_combined(&self, lines: &mut Vec<u8>) {
        let _ = write!(
            lines,
            "{} - {} [{}] \"{} {} {}\" {} {} \"{}\" \"{}\" {} \"{}\"",
            self.client,
            or_dash(&escaped(self.user.as_deref().unwrap_or_default())),
            common_log_date(self.time_ms / 1000),
            escaped(&self.method),
            escaped(&self.target),
            self.version,
            self.status,
            self.body_bytes,
            or_dash(&escaped(&self.referer)),
            or_dash(&escaped(&self.user_agent)),
            self.duration_us,
            escaped(&self.cache),
        );
    }
}

fn named(fields: Fields<'_>, name: &[u8]) -> String {
    let is_named =
        |id: FieldId, field: &[u8]| id == FieldId::Other && field.eq_ignore_ascii_case(name);
    let mut found = fields.iter().filter(|field| is_named(field.id, field.name));
    found.next().map(|field| text(field.value)).unwrap_or_default()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Cuts a text to the length that a trace keeps.
pub(crate) fn shortened(mut text: String) -> String {
    if text.len() > TRACE_TEXT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(TRACE_TEXT_BYTES_MAX));
        text.push('…');
        text.shrink_to_fit();
    }
    text
}

fn or_dash(text: &str) -> &str {
    if text.is_empty() { "-" } else { text }
}

/// Escapes quotes, backslashes and characters that control a terminal: each of their bytes becomes
/// `\xNN`, as in Apache and nginx.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if character == '"' || character == '\\' || steers_terminal(character) {
            let mut bytes = [0; 4];
            for byte in character.encode_utf8(&mut bytes).bytes() {
                escaped.push_str(&format!("\\x{byte:02X}"));
            }
        } else {
            escaped.push(character);
        }
    }
    escaped
}

/// Formats a time as `10/Oct/2000:13:55:36 +0000`, always in UTC.
fn common_log_date(unix_seconds: u64) -> String {
    let date = forebay_http::date::write_date(unix_seconds);
    let date = String::from_utf8_lossy(&date);
    // In IMF-fixdate every part has a fixed position: `Tue, 10 Oct 2000 13:55:36 GMT`.
    let part = |range: std::ops::Range<usize>| date.get(range).unwrap_or_default().to_owned();
    format!("{}/{}/{}:{} +0000", part(5..7), part(8..11), part(12..16), part(17..25))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> AccessEntry {
        AccessEntry {
            time_ms: 971_186_136_123,
            started_us: 0,
            client: [127, 0, 0, 1].into(),
            proxy: None,
            request_id: "id-1".to_owned(),
            proxy_request_id: String::new(),
            user: None,
            site: None,
            answered: None,
            method: "GET".to_owned(),
            host: "example.org".to_owned(),
            target: "/a\"b\\c".to_owned(),
            version: "HTTP/1.1",
            referer: String::new(),
            user_agent: "evil\n127.0.0.1 - - forged".to_owned(),
            tls: None,
            status: 200,
            body_bytes: 12,
            tunnel_bytes_in: None,
            fault: None,
            cache: "forebay; hit; ttl=3".to_owned(),
            duration_us: 42,
        }
    }

    #[test]
    fn no_input_can_forge_a_line() {
        for format in [LineFormat::Json, LineFormat::Combined] {
            let mut lines = Vec::new();
            entry().write(format, &mut lines);
            let newlines = lines.iter().filter(|byte| **byte == b'\n').count();
            assert_eq!(newlines, 1, "{format:?}");
        }
    }

    #[test]
    fn the_combined_line_has_the_form_that_log_tools_expect() {
        let mut lines = Vec::new();
        entry().write(LineFormat::Combined, &mut lines);
        assert_eq!(
            String::from_utf8_lossy(&lines),
            "127.0.0.1 - - [10/Oct/2000:13:55:36 +0000] \"GET /a\\x22b\\x5Cc HTTP/1.1\" 200 12 \
             \"-\" \"evil\\x0A127.0.0.1 - - forged\" 42 \"forebay; hit; ttl=3\"\n"
        );
    }

    #[test]
    fn no_input_steers_the_terminal_that_shows_the_log() {
        let agent = "a\u{9b}2J\u{85}b\u{202e}c\u{2066}\u{7f}\u{1b}[m";
        for (format, expected) in [
            (LineFormat::Json, r"a\u009b2J\u0085b\u202ec\u2066\u007f\u001b[m"),
            (LineFormat::Combined, r"a\xC2\x9B2J\xC2\x85b\xE2\x80\xAEc\xE2\x81\xA6\x7F\x1B[m"),
        ] {
            let mut lines = Vec::new();
            AccessEntry { user_agent: agent.to_owned(), ..entry() }.write(format, &mut lines);
            let line = String::from_utf8(lines).expect("UTF-8");
            assert!(line.contains(expected), "{format:?}: {line:?}");
            assert!(!line.trim_end().chars().any(steers_terminal), "{format:?}: {line:?}");
        }
    }

    #[test]
    fn the_json_line_reads_back() {
        let mut lines = Vec::new();
        entry().write(LineFormat::Json, &mut lines);
        let value: serde_json::Value = serde_json::from_slice(&lines).expect("valid JSON");
        assert_eq!(value["target"], "/a\"b\\c");
        assert_eq!(value["status"], 200);
    }
}
