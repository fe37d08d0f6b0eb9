//! The cookies of a request (RFC 6265 §4.2.1).

use crate::bytes::trim_space;
use crate::fields::{FieldId, Fields};

/// Iterates over the names of the cookies of a request. A cookie without `=` is its own name.
pub fn cookie_names(request: Fields<'_>) -> impl Iterator<Item = &[u8]> {
    cookies(request).map(name_of).filter(|name| !name.is_empty())
}

/// Appends the cookies whose names `keeps` accepts, in their order, as the value of one line.
pub fn write_kept_cookies(request: Fields<'_>, keeps: impl Fn(&[u8]) -> bool, out: &mut Vec<u8>) {
    let kept = cookies(request).filter(|cookie| !cookie.is_empty() && keeps(name_of(cookie)));
    for (index, cookie) in kept.enumerate() {
        if index > 0 {
            out.extend_from_slice(b"; ");
        }
        out.extend_from_slice(cookie);
    }
}

fn cookies(request: Fields<'_>) -> impl Iterator<Item = &[u8]> {
    let lines = request.all(FieldId::Cookie);
    lines.flat_map(|line| line.split(|byte| *byte == b';')).map(trim_space)
}

fn name_of(cookie: &[u8]) -> &[u8] {
    trim_space(cookie.split(|byte| *byte == b'=').next().unwrap_or_default())
}
