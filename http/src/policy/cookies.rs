//! The names of a request's cookies (RFC 6265 §4.2.1).

use crate::bytes::trim_space;
use crate::fields::{FieldId, Fields};

/// Iterates over the names of the cookies of a request. A cookie without `=` is its own name.
pub fn cookie_names(request: Fields<'_>) -> impl Iterator<Item = &[u8]> {
    let cookies = request.all(FieldId::Cookie).flat_map(|line| line.split(|byte| *byte == b';'));
    let names = cookies.filter_map(|cookie| cookie.split(|byte| *byte == b'=').next());
    names.map(trim_space).filter(|name| !name.is_empty())
}
