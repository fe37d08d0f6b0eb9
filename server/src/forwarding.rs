//! Fields of a request that do not go to the origin as the client sent them.

use forebay_http::fields::{FieldId, FieldSet};

/// Fields that the server writes itself, or leaves out.
pub(crate) const REWRITTEN: FieldSet = FieldSet::of(&[
    FieldId::ContentLength,
    FieldId::XForwardedFor,
    FieldId::XForwardedProto,
    FieldId::Via,
]);

/// Fields that would make the origin send less than a whole response.
pub(crate) const CONDITIONS: FieldSet = FieldSet::of(&[
    FieldId::IfNoneMatch,
    FieldId::IfModifiedSince,
    FieldId::IfRange,
    FieldId::Range,
    FieldId::Expect,
]);
