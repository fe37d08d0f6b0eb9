//! A client's request as rules see it.

use forebay_http::authority::Authority;
use forebay_http::fields::Fields;
use forebay_rules::run::Url;

use crate::fetch::Asked;
use crate::parse::Request;

/// The request, lent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestView<'a> {
    pub(crate) method: &'a [u8],
    /// As it stands now.
    pub(crate) url: Url<'a>,
    /// As the client asked it.
    pub(crate) original: Url<'a>,
    pub(crate) fields: Fields<'a>,
}

impl<'a> RequestView<'a> {
    /// Of a request and of the one that it was before rules changed it.
    pub(crate) fn new(request: &Request<'a>, received: &Request<'a>) -> RequestView<'a> {
        RequestView {
            method: request.head.method().as_bytes(),
            url: url_of(request.target.authority, request.target.path_query),
            original: url_of(received.target.authority, received.target.path_query),
            fields: request.head.fields(),
        }
    }

    /// Where no rule will look.
    pub(crate) fn unseen(request: &Request<'a>) -> RequestView<'a> {
        let url = Url::default();
        RequestView { method: b"", url, original: url, fields: request.head.fields() }
    }

    /// Of a request that was copied, and of what it was asked as.
    pub(crate) fn of_copy(asked: &'a Asked, original: &'a OwnedView) -> RequestView<'a> {
        RequestView {
            method: asked.method().as_str().as_bytes(),
            url: url_of(asked.authority(), asked.path_query()),
            original: original.url(),
            fields: asked.fields().fields(),
        }
    }
}

/// The URL that a client asked, copied.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnedView {
    host: Box<[u8]>,
    port: Option<u16>,
    path_query: Box<[u8]>,
}

impl OwnedView {
    /// Copies the URL of a request as it was received.
    pub(crate) fn copy(original: Url<'_>) -> OwnedView {
        let mut path_query = original.path.to_vec();
        if let Some(query) = original.query {
            path_query.push(b'?');
            path_query.extend_from_slice(query);
        }
        OwnedView { host: original.host.into(), port: original.port, path_query: path_query.into() }
    }

    fn url(&self) -> Url<'_> {
        Url { host: &self.host, port: self.port, ..url_of(None, &self.path_query) }
    }
}

fn url_of<'a>(authority: Option<Authority<'a>>, path_query: &'a [u8]) -> Url<'a> {
    let mut parts = path_query.splitn(2, |byte| *byte == b'?');
    Url {
        host: authority.map_or(&b""[..], |authority| authority.host),
        port: authority.and_then(|authority| authority.port),
        path: parts.next().unwrap_or_default(),
        query: parts.next(),
    }
}
