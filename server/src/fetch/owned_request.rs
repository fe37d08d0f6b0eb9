//! A request copied out of the input buffer, for a fetch that may outlive its client.

use forebay_http::fields::FieldBlock;
use forebay_http::framing::BodyFraming;
use forebay_http::policy::directives::RequestDirectives;
use forebay_http::policy::exchange::ClientRequest;
use forebay_rules::apply::RequestView;
use forebay_rules::run::Url;

use super::outbound::{OutboundLine, OutboundMessage};
use crate::fault::Fault;
use crate::parse::Request;

/// A copied request.
pub(super) struct OwnedRequest {
    line: OutboundLine,
    fields: FieldBlock,
    framing: BodyFraming,
    /// The URL as the client sent it, for rules.
    original: OwnedUrl,
}

impl OwnedRequest {
    /// Copies a request, and the URL that it had before rules changed it.
    ///
    /// # Errors
    /// See [`OutboundLine::new`].
    pub(super) fn copy(request: &Request<'_>, original: Url<'_>) -> Result<OwnedRequest, Fault> {
        let line = OutboundLine::new(request)?;
        let received = request.head.fields();
        let wire_bytes =
            received.iter().map(|field| field.name.len() + field.value.len() + 4).sum();
        let mut fields = FieldBlock::with_capacity(wire_bytes, received.count());
        received.iter().for_each(|field| fields.push_field(field));
        let (framing, original) = (request.framing, OwnedUrl::copy(original));
        Ok(OwnedRequest { line, fields, framing, original })
    }

    /// Returns the request in the form that an exchange sends.
    pub(super) fn message(&self) -> OutboundMessage<'_> {
        OutboundMessage { line: &self.line, fields: self.fields.fields(), framing: self.framing }
    }

    /// Returns the request as rules see it.
    pub(super) fn view(&self) -> RequestView<'_> {
        RequestView {
            method: self.line.method().as_str().as_bytes(),
            url: Url::new(self.line.authority(), self.path_query()),
            original: self.original.url(),
            fields: self.fields.fields(),
        }
    }

    /// Returns the properties of the request that decide whether its response may be stored.
    pub(super) fn client_request(&self) -> ClientRequest<'_> {
        self.message().client_request()
    }

    /// Returns path and query of the request.
    pub(super) fn path_query(&self) -> &[u8] {
        self.line.path_query()
    }
}

impl<'a> OutboundMessage<'a> {
    /// Returns the properties of the request that decide whether its response may be stored.
    pub(super) fn client_request(&self) -> ClientRequest<'a> {
        ClientRequest {
            is_get: self.line.method() == http::Method::GET,
            has_body: self.has_body(),
            fields: self.fields,
            directives: RequestDirectives::parse(self.fields),
        }
    }
}

/// A copied URL.
#[derive(Clone, Debug, Default)]
struct OwnedUrl {
    host: Box<[u8]>,
    port: Option<u16>,
    path_query: Box<[u8]>,
}

impl OwnedUrl {
    fn copy(url: Url<'_>) -> OwnedUrl {
        let mut path_query = Vec::new();
        url.write_path_query(&mut path_query);
        OwnedUrl { host: url.host.into(), port: url.port, path_query: path_query.into() }
    }

    fn url(&self) -> Url<'_> {
        Url { host: &self.host, port: self.port, ..Url::new(None, &self.path_query) }
    }
}
