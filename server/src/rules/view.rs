//! A client's request as rules see it.

use forebay_rules::apply::RequestView;
use forebay_rules::run::Url;

use crate::fetch::OwnedRequest;
use crate::parse::Request;

/// Of a request and of the one that it was before rules changed it.
pub(crate) fn view_of<'a>(request: &Request<'a>, received: &Request<'a>) -> RequestView<'a> {
    RequestView {
        method: request.head.method().as_bytes(),
        url: Url::new(request.target.authority, request.target.path_query),
        original: Url::new(received.target.authority, received.target.path_query),
        fields: request.head.fields(),
    }
}

/// Where no rule will look.
pub(crate) fn unseen<'a>(request: &Request<'a>) -> RequestView<'a> {
    let url = Url::default();
    RequestView { method: b"", url, original: url, fields: request.head.fields() }
}

/// Of a request that was copied, and of what it was asked as.
pub(crate) fn view_of_copy<'a>(asked: &'a OwnedRequest, original: &'a OwnedUrl) -> RequestView<'a> {
    RequestView {
        method: asked.method().as_str().as_bytes(),
        url: Url::new(asked.authority(), asked.path_query()),
        original: original.url(),
        fields: asked.fields().fields(),
    }
}

/// The URL that a client asked, copied.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnedUrl {
    host: Box<[u8]>,
    port: Option<u16>,
    path_query: Box<[u8]>,
}

impl OwnedUrl {
    /// Copies the URL of a request as it was received.
    pub(crate) fn copy(original: Url<'_>) -> OwnedUrl {
        let mut path_query = Vec::new();
        original.write_path_query(&mut path_query);
        OwnedUrl { host: original.host.into(), port: original.port, path_query: path_query.into() }
    }

    fn url(&self) -> Url<'_> {
        Url { host: &self.host, port: self.port, ..Url::new(None, &self.path_query) }
    }
}
