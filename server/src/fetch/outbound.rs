//! The request to the origin, made from the received request.

use forebay_http::authority::Authority;
use forebay_http::error::RequestError;
use forebay_http::fields::{Field, FieldBlock, FieldId, FieldSet, Fields};
use forebay_http::framing::BodyFraming;
use forebay_http::grpc::is_grpc;
use forebay_http::hop::HopFields;
use forebay_http::policy::accept_encoding::write_accept_encoding;
use forebay_rules::ast::Hook;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Uri, Version};

use super::choose::hash_of;
use super::forwarded_path::ForwardedPath;
use super::sent_path::sent_path;
use super::upload::OutboundBody;
use crate::config::OriginAddress;
use crate::counters::Counter;
use crate::fault::Fault;
use crate::forwarding::{CONDITIONS, REWRITTEN};
use crate::parse::{Request as Received, accepts_trailers};
use crate::rules::HookContext;

/// Method, target and host of a request, in the types of the HTTP client.
pub(super) struct OutboundLine {
    method: Method,
    target: Uri,
    host: Option<HeaderValue>,
}

/// A request after changes by rules, before it is prepared for the origin.
#[derive(Clone, Copy)]
pub(super) struct OutboundMessage<'a> {
    pub(super) line: &'a OutboundLine,
    pub(super) fields: Fields<'a>,
    pub(super) framing: BodyFraming,
}

/// The purpose of a request to the origin, and the fields that it adds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose<'a> {
    /// To pass the client's request through, with its conditions and ranges.
    PassThrough,
    /// To store a whole response. The client's conditions and ranges are left out.
    Fill,
    /// To validate a stored response with these fields (RFC 9111 §4.3.1).
    Validate(&'a FieldBlock),
    /// To store a part of a response: these fields request a range.
    Part(&'a FieldBlock),
    /// To validate a stored response or, if it is no longer valid, to store a part of the new one:
    /// these fields are the conditions and the range.
    ValidateOrPart(&'a FieldBlock),
    /// To get the missing part of a stored response: these fields request a range of the same
    /// version.
    Resume(&'a FieldBlock),
}

impl<'a> Purpose<'a> {
    /// Returns the fields that the purpose adds to those of the client.
    pub(super) fn fields(self) -> Option<&'a FieldBlock> {
        match self {
            Purpose::PassThrough | Purpose::Fill => None,
            Purpose::Validate(fields)
            | Purpose::Part(fields)
            | Purpose::ValidateOrPart(fields)
            | Purpose::Resume(fields) => Some(fields),
        }
    }
}

/// A request that can be sent more than once.
pub(super) struct Outbound<'a> {
    pub(super) message: OutboundMessage<'a>,
    pub(super) purpose: Purpose<'a>,
    /// The context of the rules that change the fields just before they are sent.
    pub(super) hook: HookContext<'a>,
    /// The protocols to which the connection may switch; `None` if it is not allowed to switch.
    pub(super) upgrade: Option<&'a HeaderValue>,
}

impl OutboundLine {
    /// Makes the method, target and host of a received request.
    ///
    /// # Errors
    /// [`Fault::TargetNotForwardable`]: the method, the target or the host cannot be forwarded
    /// unchanged. [`Fault::Request`]: the Connection field names too many fields.
    pub(super) fn new(request: &Received<'_>) -> Result<OutboundLine, Fault> {
        let refused = |_| Fault::TargetNotForwardable;
        HopFields::of(request.head.fields())
            .map_err(|_| Fault::Request(RequestError::TooManyOptions))?;
        let target = match request.is_connect() {
            true => request.head.target(),
            false => request.target.path_query,
        };
        let mut host = Vec::new();
        let host = request.write_host(&mut host).then(|| HeaderValue::from_bytes(&host));
        Ok(OutboundLine {
            method: Method::from_bytes(request.head.method().as_bytes())
                .map_err(|_| Fault::TargetNotForwardable)?,
            target: Uri::try_from(target).map_err(refused)?,
            host: host.transpose().map_err(|_| Fault::TargetNotForwardable)?,
        })
    }

    /// Returns host and port of the request, if the client sent any.
    pub(super) fn authority(&self) -> Option<Authority<'_>> {
        Authority::parse(self.host.as_ref()?.as_bytes())
    }

    /// Returns path and query of the request.
    pub(super) fn path_query(&self) -> &[u8] {
        self.target.path_and_query().map_or("*", |target| target.as_str()).as_bytes()
    }

    /// Returns a hash of host, path and query.
    pub(super) fn hash(&self) -> u64 {
        let host = self.host.as_ref().map_or(&b""[..], HeaderValue::as_bytes);
        hash_of([host, self.path_query()])
    }

    pub(super) fn method(&self) -> &Method {
        &self.method
    }
}

impl OutboundMessage<'_> {
    /// Whether the request has content.
    pub(super) fn has_body(&self) -> bool {
        !matches!(self.framing, BodyFraming::None | BodyFraming::Length(0))
    }

    /// Whether another request may follow on the same connection. No request may follow the content
    /// of a method that gives content no meaning (RFC 9110 §9.3): an origin that does not read such
    /// content would parse it as the next request, and another client would get the response.
    pub(super) fn is_safe_to_follow(&self) -> bool {
        let takes_content = !matches!(
            self.line.method,
            Method::GET | Method::HEAD | Method::DELETE | Method::OPTIONS
        );
        !self.has_body() || takes_content
    }

    /// Whether the request may be sent again if a pooled connection turns out to be dead (RFC 9110
    /// §9.2.2).
    pub(super) fn is_repeatable(&self) -> bool {
        self.line.method.is_idempotent() && !self.has_body()
    }
}

impl Outbound<'_> {
    /// Makes the request for hyper, to be sent to `origin`.
    ///
    /// # Errors
    /// - [`Fault::Rules`]: the rules made an invalid message.
    /// - [`Fault::PathOutsidePrefix`]: the route cannot rewrite the path.
    pub(super) fn request(
        &self,
        origin: &OriginAddress,
        upload: OutboundBody,
    ) -> Result<Request<OutboundBody>, Fault> {
        let mut request = Request::new(upload);
        *request.method_mut() = self.message.line.method.clone();
        *request.uri_mut() = self.target()?;
        *request.version_mut() = Version::HTTP_11;
        *request.headers_mut() = self.run_rules(self.headers(self.host(origin)))?;
        if let Some(protocols) = self.upgrade {
            let upgrade = HeaderValue::from_static("upgrade");
            request.headers_mut().insert(header::CONNECTION, upgrade);
            request.headers_mut().insert(header::UPGRADE, protocols.clone());
        }
        match *request.body() {
            OutboundBody::Stream { length: Some(length), .. } => {
                request.headers_mut().insert(header::CONTENT_LENGTH, length.into());
            }
            // The field is set explicitly, because hyper assumes that a GET has no body.
            OutboundBody::Stream { length: None, .. } => {
                let chunked = HeaderValue::from_static("chunked");
                request.headers_mut().insert(header::TRANSFER_ENCODING, chunked);
            }
            // Some origins insist on the length of an empty body.
            OutboundBody::None if self.states_no_content() => {
                request.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
            }
            OutboundBody::None => {}
        }
        Ok(request)
    }

    /// Whether the request is a call of gRPC. A response that may be stored is never for one.
    pub(super) fn is_grpc(&self) -> bool {
        let method = self.message.line.method.as_str().as_bytes();
        matches!(self.purpose, Purpose::PassThrough) && is_grpc(method, self.message.fields)
    }

    /// Whether the response may have trailers. They belong to one client, like other fields that
    /// concern its connection.
    pub(super) fn accepts_trailers(&self) -> bool {
        !self.is_shared() && accepts_trailers(self.message.fields.first(FieldId::Te))
    }

    /// Whether the request says that its content is empty. A response that other requests may share
    /// does not depend on this.
    fn states_no_content(&self) -> bool {
        !self.is_shared() && self.message.framing == BodyFraming::Length(0)
    }

    /// Returns the target that the origin gets.
    fn target(&self) -> Result<Uri, Fault> {
        let line = self.message.line;
        let sent = match self.hook.route {
            Some(route) => sent_path(route.route, line.path_query())?,
            None => None,
        };
        match sent {
            Some(sent) => Uri::try_from(sent).map_err(|_| Fault::TargetNotForwardable),
            None => Ok(line.target.clone()),
        }
    }

    /// Returns the host that the origin gets. A request without a host has the host of the first
    /// origin in its key, so it is sent with that host, unless a setting says otherwise.
    fn host(&self, origin: &OriginAddress) -> Option<HeaderValue> {
        let route = self.hook.route.map(|route| route.route);
        let of_setting = route.and_then(|route| route.settings.origin_host.of(origin));
        if let Some(host) = of_setting.and_then(|host| HeaderValue::from_str(host).ok()) {
            return Some(host);
        }
        self.message.line.host.clone().or_else(|| {
            let first = route.and_then(|route| route.origins.first())?;
            HeaderValue::from_str(first.own_host()).ok()
        })
    }

    /// Runs the rules of the hook `SendRequest` on the fields.
    fn run_rules(&self, headers: HeaderMap) -> Result<HeaderMap, Fault> {
        if !self.hook.has(Hook::SendRequest) {
            return Ok(headers);
        }
        let mut block = FieldBlock::new();
        for (name, value) in &headers {
            block.push(name.as_str().as_bytes(), value.as_bytes());
        }
        let block = self.hook.send_request(block)?;
        let mut headers = HeaderMap::with_capacity(block.fields().count());
        block.fields().iter().for_each(|field| append(&mut headers, field));
        Ok(headers)
    }

    fn headers(&self, host: Option<HeaderValue>) -> HeaderMap {
        let fields = self.message.fields;
        let mut headers = HeaderMap::with_capacity(fields.count() + 6);
        headers.extend(host.map(|host| (header::HOST, host)));
        // This does not fail: `OutboundLine::new` has checked that Connection does not name too
        // many fields.
        let hop = HopFields::of(fields).unwrap_or_default();
        let codings = self.normal_codings();
        let (mut removes_unkeyed, mut has_codings, mut is_replaced) = (false, false, false);
        let host = self.message.line.host.as_ref();
        let path = ForwardedPath::new(self.hook, fields, host, self.is_shared());
        for mut field in fields.iter().filter(|field| self.forwards(field)) {
            if field.id == FieldId::AcceptEncoding
                && let Some(codings) = &codings
            {
                if has_codings {
                    continue;
                }
                (field.value, has_codings) = (codings, true);
            }
            let is_unkeyed = self.is_unkeyed(&field);
            if path.replaces(&field) {
                is_replaced = true;
                removes_unkeyed |= is_unkeyed;
                continue;
            }
            // Lines that rules have set are always forwarded: a client cannot remove them. Nor can
            // it remove the warning that another server may have got the request twice (RFC 8470
            // §5.1).
            let is_kept = field.is_ruled || field.id == FieldId::EarlyData;
            if is_kept || !hop.contains(field) && !is_unkeyed {
                append(&mut headers, field);
            } else {
                removes_unkeyed |= is_unkeyed;
            }
        }
        if removes_unkeyed {
            self.hook.worker.count(Counter::UnkeyedFieldsRemoved);
        }
        if let Some(fields) = self.purpose.fields() {
            fields.fields().iter().for_each(|field| append(&mut headers, field));
        }
        self.append_max_forwards(&mut headers);
        self.append_via(&mut headers);
        path.append(&mut headers, is_replaced);
        headers
    }

    /// Returns the normal form of Accept-Encoding if requests with equivalent fields may share the
    /// response; the response must not depend on which of these requests comes first.
    fn normal_codings(&self) -> Option<Vec<u8>> {
        let mut codings = Vec::new();
        let has_form = self.is_shared() && write_accept_encoding(self.message.fields, &mut codings);
        has_form.then_some(codings)
    }

    /// Appends the decremented Max-Forwards, if this is an OPTIONS request that has the field (RFC
    /// 9110 §7.6.2).
    fn append_max_forwards(&self, headers: &mut HeaderMap) {
        let left = self.message.fields.only(FieldId::MaxForwards);
        let left = left.and_then(|value| str::from_utf8(value).ok()?.parse::<u32>().ok());
        if let Some(left) = left.filter(|_| self.message.line.method == Method::OPTIONS) {
            headers.insert(header::MAX_FORWARDS, left.saturating_sub(1).into());
        }
    }

    /// Whether the origin may answer this request with this status. A 304 is allowed only if the
    /// request has a condition, and a 206 only if it has a range.
    // RFC: 9110-14.4-2, 9110-15.4.5-3
    pub(super) fn admits(&self, status: u16) -> bool {
        const ASKS_304: FieldSet = FieldSet::of(&[FieldId::IfNoneMatch, FieldId::IfModifiedSince]);
        let fields = self.message.fields;
        match (status, self.purpose) {
            (304, Purpose::PassThrough) => fields.seen().intersects(ASKS_304),
            (206, Purpose::PassThrough) => fields.contains(FieldId::Range),
            (304, purpose) => matches!(purpose, Purpose::Validate(_) | Purpose::ValidateOrPart(_)),
            (206, purpose) => matches!(
                purpose,
                Purpose::Resume(_) | Purpose::Part(_) | Purpose::ValidateOrPart(_)
            ),
            _ => true,
        }
    }

    // RFC: 9111-5.2-1, 9110-13.2.1-3
    fn forwards(&self, field: &Field<'_>) -> bool {
        let conditional = CONDITIONS.contains(field.id);
        let passes_through = matches!(self.purpose, Purpose::PassThrough);
        let rewritten = REWRITTEN.contains(field.id) || field.id == FieldId::Host;
        !rewritten && (passes_through || !conditional)
    }

    /// Whether the field must not be forwarded, because other requests may share the response
    /// although the field is not in the key.
    fn is_unkeyed(&self, field: &Field<'_>) -> bool {
        let route = self.hook.route.map(|route| route.route);
        self.is_shared()
            && route.is_some_and(|route| {
                let settings = &route.settings;
                settings.unkeyed_fields.contains(field.name)
                    && !settings.key_fields.contains(field.name)
            })
    }

    /// Whether the response may be stored, or belongs to a stored response.
    fn is_shared(&self) -> bool {
        !matches!(self.purpose, Purpose::PassThrough)
    }

    /// Appends `Via` (RFC 9110 §7.6.3).
    fn append_via(&self, headers: &mut HeaderMap) {
        for value in self.message.fields.all(FieldId::Via) {
            headers.extend(HeaderValue::from_bytes(value).ok().map(|via| (header::VIA, via)));
        }
        let worker = self.hook.worker;
        let via = match self.hook.rule_state.is_http2() {
            true => &worker.via_line_http2,
            false => &worker.via_line,
        };
        headers.append(header::VIA, via.clone());
    }
}

/// Appends a field, or leaves it out if hyper refuses it. hyper refuses none as long as it and
/// Forebay's parser follow the same RFC for names and values.
fn append(headers: &mut HeaderMap, field: Field<'_>) {
    let name = HeaderName::from_bytes(field.name);
    let value = HeaderValue::from_bytes(field.value);
    if let (Ok(name), Ok(value)) = (name, value) {
        headers.append(name, value);
    }
}
