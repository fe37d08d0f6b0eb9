//! A checked request as an HTTP/1.1 head, for the server's parser.

use super::CheckedRequest;

impl CheckedRequest<'_> {
    /// Appends the request as an HTTP/1.1 head, with the empty line at its end.
    ///
    /// The head has one Host line, made from `:authority` or else from Host, and one Cookie line,
    /// made from all crumbs (RFC 9113 §8.2.3). Its framing is ours: `content-length` if the client
    /// announced a length, or else `transfer-encoding: chunked` if a body may follow. DATA
    /// events carry the body itself, without chunks.
    ///
    /// An extended CONNECT (RFC 8441) becomes a GET with `connection: upgrade`; the server adds the
    /// key of a WebSocket, which such a request does not have (§5). A plain CONNECT remains a
    /// CONNECT, with the authority as its target.
    pub fn write_http1_head(self, out: &mut Vec<u8>) {
        let method = if self.protocol().is_some() { b"GET" } else { self.method() };
        let target = if self.path().is_empty() { self.authority() } else { self.path() };
        put(out, &[method, b" ", target, b" HTTP/1.1\r\nhost: ", self.authority(), b"\r\n"]);
        if let Some(protocol) = self.protocol() {
            put(out, &[b"connection: upgrade\r\nupgrade: ", protocol, b"\r\n"]);
        }
        let mut has_cookie = false;
        for (name, value) in self.fields() {
            match name {
                b"host" | b"content-length" => {}
                b"sec-websocket-key" | b"sec-websocket-accept" if self.protocol().is_some() => {}
                b"cookie" => has_cookie = true,
                name => put(out, &[name, b": ", value, b"\r\n"]),
            }
        }
        if has_cookie {
            self.write_cookie(out);
        }
        match self.content_length() {
            Some(length) => {
                out.extend_from_slice(b"content-length: ");
                forebay_http::write::decimal(out, length);
                out.extend_from_slice(b"\r\n");
            }
            None if self.has_body() && self.protocol().is_none() => {
                out.extend_from_slice(b"transfer-encoding: chunked\r\n");
            }
            None => {}
        }
        out.extend_from_slice(b"\r\n");
    }

    /// RFC 9113 §8.2.3: joins the crumbs of a cookie. An empty crumb adds nothing.
    fn write_cookie(self, out: &mut Vec<u8>) {
        let mut separator: &[u8] = b"cookie: ";
        let crumbs = self.fields().filter(|(name, value)| *name == b"cookie" && !value.is_empty());
        for (_, crumb) in crumbs {
            put(out, &[separator, crumb]);
            separator = b"; ";
        }
        if separator == b"; " {
            out.extend_from_slice(b"\r\n");
        }
    }
}

fn put(out: &mut Vec<u8>, texts: &[&[u8]]) {
    for text in texts {
        out.extend_from_slice(text);
    }
}
