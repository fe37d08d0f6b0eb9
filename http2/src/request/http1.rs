//! A checked request as an HTTP/1.1 head, with its parts.

use forebay_http::fields::FieldId;
use forebay_http::request::{RequestHeadWriter, RequestParts};

use super::CheckedRequest;

impl CheckedRequest<'_> {
    /// Writes the request as an HTTP/1.1 head, up to the empty line at its end. The caller may add
    /// lines, and ends the head.
    ///
    /// The head has one Host line, made from `:authority` or else from Host, and one Cookie line,
    /// made from all crumbs (RFC 9113 §8.2.3). Its framing is ours: `content-length` if the client
    /// announced a length, or else `transfer-encoding: chunked` if a body may follow. DATA
    /// events carry the body itself, without chunks.
    ///
    /// An extended CONNECT (RFC 8441) becomes a GET with `connection: upgrade`; the server adds the
    /// key of a WebSocket, which such a request does not have (§5). A plain CONNECT remains a
    /// CONNECT, with the authority as its target.
    pub fn write_http1_head<'h>(
        self,
        out: (&'h mut Vec<u8>, &'h mut RequestParts),
    ) -> RequestHeadWriter<'h> {
        let method = if self.protocol().is_some() { b"GET" } else { self.method() };
        let target = if self.path().is_empty() { self.authority() } else { self.path() };
        let mut head = RequestHeadWriter::begin(out, method, target);
        head.field(FieldId::Host, b"host", self.authority());
        if let Some(protocol) = self.protocol() {
            head.field(FieldId::Connection, b"connection", b"upgrade");
            head.field(FieldId::Upgrade, b"upgrade", protocol);
        }
        let mut has_cookie = false;
        for line in self.lines() {
            match line.facts.name.id {
                FieldId::Host | FieldId::ContentLength => {}
                FieldId::Cookie => has_cookie |= !line.value.is_empty(),
                _ if self.protocol().is_some() && is_key(line.name) => {}
                id => head.field(id, line.name, line.value),
            }
        }
        if has_cookie {
            head.field_with(FieldId::Cookie, b"cookie", |text| self.write_cookie(text));
        }
        match self.content_length() {
            Some(length) => {
                let write = |text: &mut Vec<u8>| forebay_http::write::decimal(text, length);
                head.field_with(FieldId::ContentLength, b"content-length", write);
            }
            None if self.has_body() && self.protocol().is_none() => {
                head.field(FieldId::TransferEncoding, b"transfer-encoding", b"chunked");
            }
            None => {}
        }
        head
    }

    /// RFC 9113 §8.2.3: joins the crumbs of a cookie. An empty crumb adds nothing.
    fn write_cookie(self, out: &mut Vec<u8>) {
        let is_crumb = |id, value: &[u8]| id == FieldId::Cookie && !value.is_empty();
        let crumbs = self.lines().filter(|line| is_crumb(line.facts.name.id, line.value));
        for (at, crumb) in crumbs.enumerate() {
            if at > 0 {
                out.extend_from_slice(b"; ");
            }
            out.extend_from_slice(crumb.value);
        }
    }
}

/// Whether a field belongs to the handshake of a WebSocket over HTTP/1.1.
fn is_key(name: &[u8]) -> bool {
    matches!(name, b"sec-websocket-key" | b"sec-websocket-accept")
}
