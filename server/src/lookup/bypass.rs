//! Requests that no stored response can answer.

use forebay_http::fields::{FieldId, Fields};
use forebay_http::hop::HopFields;
use forebay_http::policy::conditional::needs_origin;
use forebay_http::policy::reuse::ForwardReason;
use forebay_http::request::Method;

use crate::config::Route;
use crate::parse::Request;

/// What can't be answered from a cache at all.
pub(super) fn bypass(request: &Request<'_>, route: &Route) -> Option<ForwardReason> {
    if !matches!(request.head.method(), Method::Get | Method::Head) {
        return Some(ForwardReason::Method);
    }
    let fields = request.head.fields();
    if !route.settings.cache || request.has_body() || needs_origin(fields) || hides(fields) {
        return Some(ForwardReason::Bypass);
    }
    None
}

/// Does Connection name fields that the origin then does not see? A key made of them would be one
/// that the origin's answer does not belong to.
fn hides(fields: Fields<'_>) -> bool {
    fields.contains(FieldId::Connection) && HopFields::of(fields).is_ok_and(|hop| hop.names_any())
}
