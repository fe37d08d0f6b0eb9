//! The response to a request, before it is sent.

use forebay_cache::{BodyReader, PurgeResult};
use forebay_http::fields::FieldBlock;
use forebay_http::policy::meta::StoredMeta;
use forebay_rules::apply::OwnAnswer;

use crate::fault::Fault;
use crate::fetch::{BodyUpload, OpenTunnel, OriginAnswer};
use crate::lookup::Hit;

/// The response that `respond` returns and `deliver` sends; the same for every version of HTTP.
#[expect(clippy::large_enum_variant, reason = "a box would cost each hit an allocation")]
pub(crate) enum Response<'t> {
    /// A stored response. It borrows from the store, so the task must not wait before sending it.
    Stored(Hit<'t>),
    /// A stored response that the origin has confirmed. It borrows from the store too.
    Confirmed(Box<ConfirmedResponse<'t>>),
    /// A response that is being stored, and is sent as it arrives.
    Growing(Box<GrowingResponse>),
    /// An origin's response that is not stored, and is sent as it arrives.
    Streamed(Box<StreamedResponse<'t>>),
    /// A 101 or the 200 to CONNECT, after which the connection is a tunnel to the origin.
    Tunnel(Box<TunnelResponse>),
    /// A 304 with these fields, in place of an origin's response whose body the client already has.
    NotModified(Box<FieldBlock>),
    /// A response that this server makes itself.
    Synthetic(SyntheticResponse),
}

/// A stored response that the origin has confirmed with a 304 for this request.
pub(crate) struct ConfirmedResponse<'t> {
    pub(crate) hit: Hit<'t>,
    /// The stored head with the changes of the 304, if the result must not be stored.
    pub(crate) head: Option<Vec<u8>>,
    /// Header lines of the 304 that are meant only for this client.
    pub(crate) own_lines: FieldBlock,
}

impl Response<'_> {
    /// Returns the word for the source of the response, for traces.
    pub(crate) fn source(&self) -> &'static str {
        match self {
            Response::Stored(_) => "stored",
            Response::Confirmed(_) => "confirmed",
            Response::Growing(_) => "arriving",
            Response::Streamed(_) => "origin",
            Response::Tunnel(_) => "tunnel",
            Response::NotModified(_) => "not-modified",
            Response::Synthetic(_) => "server",
        }
    }

    /// Returns the metadata of the stored response from which this response is made.
    pub(crate) fn stored_meta(&self) -> Option<&StoredMeta> {
        match self {
            Response::Stored(hit) => Some(&hit.stored.meta),
            Response::Confirmed(confirmed) => Some(&confirmed.hit.stored.meta),
            Response::Growing(growing) => Some(&growing.meta),
            Response::Streamed(_)
            | Response::Tunnel(_)
            | Response::NotModified(_)
            | Response::Synthetic(_) => None,
        }
    }
}

/// A response that is being stored.
pub(crate) struct GrowingResponse {
    pub(crate) reader: BodyReader,
    pub(crate) meta: StoredMeta,
    /// Header lines that are meant only for this client.
    pub(crate) own_lines: FieldBlock,
}

/// An origin's response that is not stored.
pub(crate) struct StreamedResponse<'t> {
    pub(crate) answer: OriginAnswer,
    /// The request's body, if some of it may still have to go to the origin.
    pub(crate) upload: Option<BodyUpload<'t>>,
}

/// The response that announces a tunnel, and the tunnel.
pub(crate) struct TunnelResponse {
    pub(crate) head: TunnelHead,
    pub(crate) tunnel: OpenTunnel,
    /// The bytes that the client has already sent after its request.
    pub(crate) early: Vec<u8>,
}

/// The head of the response after which a connection is a tunnel.
pub(crate) enum TunnelHead {
    /// The 101 of an origin, with the protocol and the end-to-end fields.
    Switched { protocol: Vec<u8>, block: FieldBlock },
    /// The 200 to CONNECT, which has no body and no framing (RFC 9110 §9.3.6).
    Connected,
}

/// A response that this server makes itself.
pub(crate) enum SyntheticResponse {
    /// The error response for a fault.
    Fault(Fault),
    /// A redirect to this `https` URL.
    Redirect(Box<[u8]>),
    /// The redirect of the route, to this URL.
    Moved(Box<[u8]>),
    /// The fixed answer of the route.
    Fixed,
    /// The proof that answers a challenge of a certificate authority.
    AcmeChallenge(Box<str>),
    /// The answer to OPTIONS: the methods that this server supports.
    Options,
    /// The answer to PURGE, with the number of removed responses.
    Purged(PurgeResult),
    /// A response that header rules have made, such as a redirect or a refusal.
    Ruled(Box<OwnAnswer>),
}

impl From<SyntheticResponse> for Response<'_> {
    fn from(response: SyntheticResponse) -> Self {
        Response::Synthetic(response)
    }
}
