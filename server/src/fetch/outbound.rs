//! The request that goes to the origin, made from the one that came.

use forebay_http::authority::Authority;
use forebay_http::error::RequestError;
use forebay_http::fields::{Field, FieldBlock, FieldId, FieldSet};
use forebay_http::hop::HopFields;
use forebay_rules::apply::RequestView;
use forebay_rules::ast::Hook;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Uri, Version};

use super::upload::Upload;
use crate::fault::Fault;
use crate::parse::Request as Received;
use crate::rules::{HookContext, OwnedUrl, RuleState, view_of_copy};

/// What a client asked, copied from its buffer: it outlives the client where a fetch does.
pub(crate) struct OwnedRequest {
    method: Method,
    target: Uri,
    host: Option<HeaderValue>,
    fields: FieldBlock,
    pub(crate) rule_state: RuleState,
    /// The URL as the client asked it, for rules.
    original: OwnedUrl,
    pub(crate) has_body: bool,
}

/// Why the origin is asked.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose<'a> {
    /// The client's own exchange, forwarded as it stands.
    Forward,
    /// To store a whole response: the client's conditions and ranges stay behind.
    Fill,
    /// To validate a stored response with these fields (RFC 9111 §4.3.1).
    Validate(&'a FieldBlock),
    /// For the rest of a response whose beginning was stored, with these fields: a range of this
    /// version and no other.
    Rest(&'a FieldBlock),
}

/// A request that is ready to be sent, as often as it takes.
pub(crate) struct Outbound<'a> {
    pub(crate) asked: &'a OwnedRequest,
    pub(crate) purpose: Purpose<'a>,
    /// What is added to `Via`.
    pub(crate) via: &'a HeaderValue,
    /// The rules that have the last word about its fields.
    pub(crate) rules: HookContext<'a>,
}

/// Fields that never go from the received head as they are: each is written anew, or left out.
pub(crate) const REWRITTEN: FieldSet = FieldSet::of(&[
    FieldId::ContentLength,
    FieldId::XForwardedFor,
    FieldId::XForwardedProto,
    FieldId::Via,
]);

/// Fields that would make the origin answer less than a whole response.
pub(crate) const CONDITIONS: FieldSet = FieldSet::of(&[
    FieldId::IfNoneMatch,
    FieldId::IfModifiedSince,
    FieldId::IfRange,
    FieldId::Range,
    FieldId::Expect,
]);

impl OwnedRequest {
    /// Copies a received request.
    ///
    /// # Errors
    /// [`Fault::TargetNotForwardable`]: the target can't be written as a URI.
    pub(crate) fn copy(
        request: &Received<'_>,
        ruling: &HookContext<'_>,
    ) -> Result<OwnedRequest, Fault> {
        let refused = |_| Fault::TargetNotForwardable;
        HopFields::of(request.head.fields())
            .map_err(|_| Fault::Request(RequestError::TooManyOptions))?;
        let received = request.head.fields();
        let wire_bytes =
            received.iter().map(|field| field.name.len() + field.value.len() + 4).sum();
        let mut fields = FieldBlock::with_capacity(wire_bytes, received.count());
        received.iter().for_each(|field| fields.push_field(field));
        let mut host = Vec::new();
        let host = request.write_host(&mut host).then(|| HeaderValue::from_bytes(&host));
        Ok(OwnedRequest {
            method: Method::from_bytes(request.head.method().as_bytes())
                .map_err(|_| Fault::TargetNotForwardable)?,
            target: Uri::try_from(request.target.path_query).map_err(refused)?,
            host: host.transpose().map_err(|_| Fault::TargetNotForwardable)?,
            fields,
            rule_state: ruling.rule_state.clone(),
            original: OwnedUrl::copy(ruling.view.original),
            has_body: request.has_body(),
        })
    }

    /// What rules see of it.
    pub(crate) fn view(&self) -> RequestView<'_> {
        view_of_copy(self, &self.original)
    }

    /// Host and port that the client asked for, if it named any.
    pub(crate) fn authority(&self) -> Option<Authority<'_>> {
        Authority::parse(self.host.as_ref()?.as_bytes())
    }

    /// Path and query.
    pub(crate) fn path_query(&self) -> &[u8] {
        self.target.path_and_query().map_or("*", |target| target.as_str()).as_bytes()
    }

    /// The fields as received.
    pub(crate) fn fields(&self) -> &FieldBlock {
        &self.fields
    }

    /// Is it a GET without a body, whose answer may be stored?
    pub(crate) fn is_get(&self) -> bool {
        self.method == Method::GET
    }

    /// May the request be sent again if a pooled connection turns out dead (RFC 9110 §9.2.2)?
    pub(crate) fn repeatable(&self) -> bool {
        self.method.is_idempotent() && !self.has_body
    }

    /// The method, as hyper names it.
    pub(crate) fn method(&self) -> &Method {
        &self.method
    }
}

impl Outbound<'_> {
    /// The request for hyper; `authority` is the origin's, for a client that named no host.
    ///
    /// # Errors
    /// [`Fault::Rules`]
    pub(crate) fn request(
        &self,
        authority: &str,
        upload: Upload,
    ) -> Result<Request<Upload>, Fault> {
        let mut request = Request::new(upload);
        *request.method_mut() = self.asked.method.clone();
        *request.uri_mut() = self.asked.target.clone();
        *request.version_mut() = Version::HTTP_11;
        *request.headers_mut() = self.ruled(self.headers(authority))?;
        match *request.body() {
            Upload::Stream { length: Some(length), .. } => {
                request.headers_mut().insert(header::CONTENT_LENGTH, length.into());
            }
            // Said outright, since hyper takes a GET for one without a body.
            Upload::Stream { length: None, .. } => {
                let chunked = HeaderValue::from_static("chunked");
                request.headers_mut().insert(header::TRANSFER_ENCODING, chunked);
            }
            Upload::None => {}
        }
        Ok(request)
    }

    /// Rules have the last word.
    fn ruled(&self, headers: HeaderMap) -> Result<HeaderMap, Fault> {
        if !self.rules.has(Hook::SendRequest) {
            return Ok(headers);
        }
        let mut block = FieldBlock::new();
        for (name, value) in &headers {
            block.push(name.as_str().as_bytes(), value.as_bytes());
        }
        let block = self.rules.send_request(block)?;
        let mut headers = HeaderMap::with_capacity(block.fields().count());
        block.fields().iter().for_each(|field| append(&mut headers, field));
        Ok(headers)
    }

    fn headers(&self, authority: &str) -> HeaderMap {
        let fields = self.asked.fields.fields();
        let mut headers = HeaderMap::with_capacity(fields.count() + 6);
        let host = self.asked.host.clone().or_else(|| HeaderValue::from_str(authority).ok());
        headers.extend(host.map(|host| (header::HOST, host)));
        // `OwnedRequest::copy` has seen that Connection names no more than it may.
        let hop = HopFields::of(fields).unwrap_or_default();
        for field in fields.iter().filter(|field| self.forwards(field)) {
            // What rules have set is not the client's to take away.
            if !hop.contains(field) || self.rules.sets(&field) {
                append(&mut headers, field);
            }
        }
        if let Purpose::Validate(conditions) | Purpose::Rest(conditions) = self.purpose {
            conditions.fields().iter().for_each(|field| append(&mut headers, field));
        }
        self.append_max_forwards(&mut headers);
        self.append_path(&mut headers);
        headers
    }

    /// One hop less for an OPTIONS that counts them (RFC 9110 §7.6.2).
    fn append_max_forwards(&self, headers: &mut HeaderMap) {
        let left = self.asked.fields.fields().only(FieldId::MaxForwards);
        let left = left.and_then(|value| str::from_utf8(value).ok()?.parse::<u32>().ok());
        if let Some(left) = left.filter(|_| self.asked.method == Method::OPTIONS) {
            headers.insert(header::MAX_FORWARDS, left.saturating_sub(1).into());
        }
    }

    /// May the answer have this status? 304 answers a condition, 206 and 416 a range.
    pub(super) fn admits(&self, status: u16) -> bool {
        const ASKS_304: FieldSet = FieldSet::of(&[FieldId::IfNoneMatch, FieldId::IfModifiedSince]);
        let asked = self.asked.fields.fields();
        match (status, self.purpose) {
            (304, Purpose::Forward) => asked.seen().intersects(ASKS_304),
            (206, Purpose::Forward) => asked.contains(FieldId::Range),
            (304, purpose) => matches!(purpose, Purpose::Validate(_)),
            (206, purpose) => matches!(purpose, Purpose::Rest(_)),
            _ => true,
        }
    }

    fn forwards(&self, field: &Field<'_>) -> bool {
        let conditional = CONDITIONS.contains(field.id);
        let forward = matches!(self.purpose, Purpose::Forward);
        let rewritten = REWRITTEN.contains(field.id) || field.id == FieldId::Host;
        !rewritten && (forward || !conditional)
    }

    /// Where the request has been: `Via` (RFC 9110 §7.6.3) and the customary address list.
    fn append_path(&self, headers: &mut HeaderMap) {
        for value in self.asked.fields.fields().all(FieldId::Via) {
            headers.extend(HeaderValue::from_bytes(value).ok().map(|via| (header::VIA, via)));
        }
        headers.append(header::VIA, self.via.clone());
        let mut addresses = String::new();
        for value in self.asked.fields.fields().all(FieldId::XForwardedFor) {
            addresses.push_str(&String::from_utf8_lossy(value));
            addresses.push_str(", ");
        }
        addresses.push_str(&self.asked.rule_state.peer().to_string());
        if let Ok(value) = HeaderValue::from_str(&addresses) {
            headers.insert(X_FORWARDED_FOR, value);
        }
        // What the client says of it is not believed: a page made for another scheme would be
        // stored.
        headers.insert(X_FORWARDED_PROTO, HeaderValue::from_static("http"));
    }
}

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Both sides' rules for names and values are the same RFC's, so nothing is lost here; if hyper
/// were stricter than our parser, the field would be left out rather than forwarded wrong.
fn append(headers: &mut HeaderMap, field: Field<'_>) {
    let name = HeaderName::from_bytes(field.name);
    let value = HeaderValue::from_bytes(field.value);
    if let (Ok(name), Ok(value)) = (name, value) {
        headers.append(name, value);
    }
}
