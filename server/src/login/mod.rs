//! Basic authentication (RFC 7617): checks the user name and the password of a request before
//! anything of its route is used.
//!
//! Checking a password takes many milliseconds of a processor by design. So it runs on a thread of
//! its own with low priority, for one password of a worker at a time; the client networks whose
//! passwords wait take turns. A worker remembers the passwords that were right, as keyed hashes.
//! Wrong passwords are not remembered: each costs a check.

mod check;
mod credentials;
mod known;
mod queue;

use aws_lc_rs::hmac;
use forebay_http::fields::{Field, FieldId, is_respelled};
use forebay_http::request::HeadLimits;
use forebay_rules::apply::RequestText;

pub(crate) use check::{LoginCheck, Logins, log_in};
use credentials::Credentials;

use crate::config::Route;
use crate::config::value::PasswordHash;
use crate::fault::Fault;
use crate::parse::Request;
use crate::transport::tls::ClientCertificate;

/// Identifies the hash of a user's password in the file, whether it is that user's own, the user,
/// and the password of a request: a hash of all four with a secret key of the worker. If the user
/// or the hash is no longer in the file, no request has the tag. Whether the hash is the user's own
/// must be part of it, because an unknown user is compared with the hash of another one.
type LoginTag = [u8; 32];

/// The user of a request.
pub(crate) struct Login {
    pub(crate) user: String,
    /// The check of the password; `None` if the password is known to be right.
    pub(crate) check: Option<LoginCheck>,
}

fn tag_of(
    key: &hmac::Key,
    (hash, is_user): (&PasswordHash, bool),
    credentials: &Credentials<'_>,
) -> LoginTag {
    let mut context = hmac::Context::with_key(key);
    context.update(hash.text().as_bytes());
    context.update(&[0, u8::from(is_user)]);
    context.update(credentials.pair());
    let mut tag = LoginTag::default();
    tag.copy_from_slice(context.sign().as_ref());
    tag
}

/// Returns the request without its Authorization field, if the route uses the field itself. Then
/// the request is the same for all users, and so is the response of the origin. The `certificate`
/// becomes its Client-Cert field. On each route of a site that knows certificates of clients, the
/// request has no such field that the client has made up (RFC 9440 §4).
///
/// # Errors
/// [`Fault::Rules`]: rules have made a request that is not valid without the field.
pub(crate) fn with_other_credentials<'a>(
    request: &Request<'a>,
    (route, certificate): (&Route, Option<&ClientCertificate>),
    mut limits: HeadLimits,
    text: &'a mut RequestText,
) -> Result<Option<Request<'a>>, Fault> {
    let (uses_credentials, removes_certificate) =
        (route.settings.uses_credentials(), route.removes_certificate_fields());
    let is_replaced = |field: &Field<'_>| match field.id {
        FieldId::Authorization => uses_credentials,
        FieldId::ClientCert | FieldId::ClientCertChain => removes_certificate,
        FieldId::Other => removes_certificate && is_respelled_certificate(field.name),
        _ => false,
    };
    if certificate.is_none() && !request.head.fields().iter().any(|field| is_replaced(&field)) {
        return Ok(None);
    }
    let value = certificate.map(|certificate| certificate.field_value());
    if let Some(value) = &value {
        // The client's own fields keep all of their room.
        let line_bytes = u32::try_from(value.len() + 32).unwrap_or(u32::MAX);
        limits.head_bytes_max = limits.head_bytes_max.saturating_add(line_bytes);
        limits.field_count_max = limits.field_count_max.saturating_add(1);
    }
    let name = FieldId::ClientCert.name().as_bytes();
    let added = value.as_ref().map(|value| (name, value.as_bytes()));
    let head =
        text.copy_replacing(request.head, is_replaced, added, &limits).map_err(|_| Fault::Rules)?;
    let changed = Request::check(head, request.scheme).map_err(|_| Fault::Rules)?;
    Ok(Some(Request { form: request.form, ..changed }))
}

/// Whether this is the name of a field with a certificate of a client in another spelling, which
/// origins with CGI variables read as the same field.
fn is_respelled_certificate(name: &[u8]) -> bool {
    [FieldId::ClientCert, FieldId::ClientCertChain].iter().any(|id| is_respelled(name, id.name()))
}
