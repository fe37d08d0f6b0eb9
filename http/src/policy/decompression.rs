//! Decides whether this server can take the content coding off a response for clients that do not
//! accept it. Directives against transforming the response are another question:
//! [`forbids_transforming`](crate::policy::compression::forbids_transforming).

use crate::fields::{FieldBlock, FieldId, Fields};
use crate::policy::etag::WEAK;
use crate::policy::lists::members;

/// RFC 9110 §8.4: returns the content coding of a response if this server can take it off. `None`
/// if the response has no coding or several, and if it is a part of a whole response: the bytes of
/// a part cannot be decoded.
pub fn removable_coding(status: u16, fields: Fields<'_>) -> Option<&[u8]> {
    let mut codings = members(fields.only(FieldId::ContentEncoding)?);
    let coding = codings.next()?;
    (status != 206 && codings.next().is_none()).then_some(coding)
}

/// Makes the strong tag of a 304 weak if the client asked with the weak form of it. The client then
/// has a body whose coding this server took off, and must not take that body for the one that the
/// strong tag names: it could continue it with a range of the other (RFC 9110 §13.1.5).
pub fn keep_tag_weak(request: Fields<'_>, not_modified: &mut FieldBlock) {
    let tag = not_modified.fields().only(FieldId::Etag);
    let Some(tag) = tag.filter(|tag| !tag.starts_with(WEAK)) else { return };
    let weak = [WEAK, tag].concat();
    let is_known = |value: &[u8]| value.windows(weak.len()).any(|part| part == weak);
    if request.all(FieldId::IfNoneMatch).any(is_known) {
        not_modified.remove(|field| field.id == FieldId::Etag);
        not_modified.push(b"etag", &weak);
    }
}
