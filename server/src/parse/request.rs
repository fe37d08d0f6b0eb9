//! A checked request: a head, and the properties that follow from the head alone, without settings
//! or cache.

use forebay_http::authority::Authority;
use forebay_http::fields::FieldId;
use forebay_http::framing::{BodyFraming, expects_continue, keeps_alive, request_framing};
use forebay_http::policy::directives::RequestDirectives;
use forebay_http::request::{Method, RequestHead, Version};
use forebay_http::target::{Scheme, Target, TargetForm, request_target};

use crate::fault::Fault;

/// A checked request.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) head: RequestHead<'a>,
    /// The scheme of the request's URL.
    pub(crate) scheme: Scheme,
    pub(crate) target: Target<'a>,
    pub(crate) framing: BodyFraming,
    /// Whether the client sends its body only after a 100 (RFC 9110 §10.1.1).
    pub(crate) expects_continue: bool,
    pub(crate) directives: RequestDirectives,
    pub(crate) form: ResponseForm,
}

/// The properties of a request that determine the form of its response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResponseForm {
    /// Whether the response has no body, because the method is HEAD.
    pub(crate) head_only: bool,
    pub(crate) version: Version,
    /// Whether the client wants to keep the connection open (RFC 9112 §9.3).
    pub(crate) keep_alive: bool,
    /// Whether the client accepts trailers (RFC 9110 §10.1.4).
    pub(crate) trailers: bool,
}

impl ResponseForm {
    /// The form of a response to a request that could not be parsed.
    pub(crate) const UNKNOWN: ResponseForm = ResponseForm {
        head_only: false,
        version: Version::Http11,
        keep_alive: false,
        trailers: false,
    };
}

impl<'a> Request<'a> {
    /// Checks the target, the framing and the expectation of a request whose connection has
    /// `scheme`.
    ///
    /// # Errors
    /// The request is ambiguous, or needs a feature that this server does not have.
    pub(crate) fn check(head: RequestHead<'a>, scheme: Scheme) -> Result<Request<'a>, Fault> {
        let target = request_target(head)?;
        if let TargetForm::Absolute(target) = target.form
            && target != scheme
        {
            // A URI with `https` promises encryption, but the response would be sent unencrypted.
            return Err(Fault::NoSite);
        }
        let framing = request_framing(head)?;
        let expects_continue = expects_continue(head)?;
        let fields = head.fields();
        let form = ResponseForm {
            head_only: head.method() == Method::Head,
            version: head.version(),
            keep_alive: keeps_alive(head.version(), fields),
            trailers: fields.contains(FieldId::Te) && accepts_trailers(fields.first(FieldId::Te)),
        };
        let directives = RequestDirectives::parse(fields);
        Ok(Request { head, scheme, target, framing, expects_continue, directives, form })
    }

    /// Whether the request announces a body that has, or may have, at least one byte.
    pub(crate) fn has_body(&self) -> bool {
        !matches!(self.framing, BodyFraming::None | BodyFraming::Length(0))
    }

    /// Whether the request asks for a tunnel to its site (RFC 9110 §9.3.6).
    pub(crate) fn is_connect(&self) -> bool {
        self.target.form == TargetForm::Authority
    }

    /// Appends host and port in the form in which they are forwarded: the host in lower case, and
    /// the port only if it is not the default. Returns false if the request has no host (HTTP/1.0).
    pub(crate) fn write_host(&self, out: &mut Vec<u8>) -> bool {
        let Some(authority) = self.target.authority else {
            return false;
        };
        out.extend(authority.host.iter().map(u8::to_ascii_lowercase));
        if let Some(port) = explicit_port(authority, self.scheme) {
            out.push(b':');
            forebay_http::write::decimal(out, u64::from(port));
        }
        true
    }
}

/// Returns the port; `None` if it is the default port of the scheme.
pub(crate) fn explicit_port(authority: Authority<'_>, scheme: Scheme) -> Option<u16> {
    authority.port.filter(|port| *port != scheme.default_port())
}

/// Whether a field TE says that its sender accepts trailers.
pub(crate) fn accepts_trailers(te: Option<&[u8]>) -> bool {
    te.unwrap_or_default()
        .split(|byte| *byte == b',')
        .any(|coding| coding.trim_ascii().eq_ignore_ascii_case(b"trailers"))
}
