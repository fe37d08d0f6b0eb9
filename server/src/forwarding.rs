//! Request fields that are not forwarded to the origin as the client sent them.

use forebay_http::fields::{FieldId, FieldSet};

/// Fields that are never forwarded: the server writes its own, or sends none.
pub(crate) const REWRITTEN: FieldSet = FieldSet::of(&[
    FieldId::ContentLength,
    FieldId::XForwardedFor,
    FieldId::XForwardedProto,
    FieldId::Via,
]);

/// Fields that only a pass-through forwards. In a fetch for the store they could make the origin
/// send something other than a whole response.
pub(crate) const CONDITIONS: FieldSet = FieldSet::of(&[
    FieldId::IfNoneMatch,
    FieldId::IfModifiedSince,
    FieldId::IfRange,
    FieldId::Range,
    FieldId::Expect,
]);
