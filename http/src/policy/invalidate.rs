//! Invalidation by unsafe requests (RFC 9111 §4.4).

use crate::authority::Authority;
use crate::fields::{FieldId, Fields};
use crate::target::Scheme;

/// Whether a response invalidates stored responses: the method is unsafe (or unknown), and the
/// request succeeded. It then invalidates the target URI, and the URIs that [`invalidated_targets`]
/// returns.
// RFC: 9111-4.4-1, 9110-15-1
pub fn invalidates(is_safe: bool, status: u16) -> bool {
    !is_safe && matches!(status, 200..=399)
}

/// The URI of a request, split for resolving references against it.
#[derive(Clone, Copy, Debug)]
pub struct TargetUri<'a> {
    /// The scheme: `http` or `https`.
    pub scheme: Scheme,
    /// Host and optional port.
    pub authority: Authority<'a>,
    /// Path and query, beginning with `/`.
    pub path_query: &'a [u8],
}

/// Returns path and query of those URIs in Location and Content-Location that have the target's
/// origin.
///
/// RFC 9111 §4.4: a URI of another origin is not invalidated; otherwise one site could empty the
/// cache of another.
pub fn invalidated_targets(
    target: TargetUri<'_>,
    response: Fields<'_>,
) -> impl Iterator<Item = Vec<u8>> {
    [FieldId::Location, FieldId::ContentLocation]
        .into_iter()
        .filter_map(move |id| resolve(target, response.only(id)?))
}

/// RFC 3986 §5.2: resolves a reference to path and query. Returns `None` if the reference has
/// another origin than the target or contains bytes that are invalid in a URI.
// RFC: 9111-4.4-2
pub fn resolve(target: TargetUri<'_>, reference: &[u8]) -> Option<Vec<u8>> {
    if !reference.iter().all(|byte| matches!(byte, 0x21..=0x7e)) {
        return None;
    }
    let (reference, _fragment) = split_before(reference, |byte| byte == b'#');
    let rest = match scheme_of(reference) {
        None => reference,
        // A reference such as `http:path`, without an authority, has no meaning in HTTP.
        Some((scheme, rest)) if is_scheme(target.scheme, scheme) && rest.starts_with(b"//") => rest,
        Some(_) => return None,
    };
    let Some(rest) = rest.strip_prefix(b"//") else {
        return Some(resolve_path(target.path_query, rest));
    };
    let (authority, path_query) = split_before(rest, |byte| matches!(byte, b'/' | b'?'));
    let authority = Authority::parse(authority)?;
    let is_same = authority.is_same(target.authority, target.scheme.default_port());
    is_same.then(|| resolve_path(b"/", path_query))
}

/// Returns the scheme and the text after its colon (RFC 3986 §3.1).
fn scheme_of(reference: &[u8]) -> Option<(&[u8], &[u8])> {
    let is_end = |byte: u8| matches!(byte, b':' | b'/' | b'?');
    let (scheme, rest) = split_before(reference, is_end);
    let is_scheme = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
    let is_valid = scheme.first()?.is_ascii_alphabetic() && scheme.iter().all(is_scheme);
    Some((scheme, rest.strip_prefix(b":").filter(|_| is_valid)?))
}

fn is_scheme(scheme: Scheme, name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(match scheme {
        Scheme::Http => b"http",
        Scheme::Https => b"https",
    })
}

/// RFC 3986 §5.2.2 and §5.2.3: resolves the part of a reference after the authority.
fn resolve_path(base: &[u8], reference: &[u8]) -> Vec<u8> {
    let is_query = |byte: u8| byte == b'?';
    let (base_path, base_query) = split_before(base, is_query);
    let (path, query) = split_before(reference, is_query);
    let mut resolved = if path.is_empty() {
        base_path.to_vec()
    } else if path.starts_with(b"/") {
        remove_dot_segments(path)
    } else {
        let directory = base_path.iter().rposition(|byte| *byte == b'/');
        let directory = base_path.get(..directory.unwrap_or(0)).unwrap_or_default();
        remove_dot_segments(&[directory, b"/", path].concat())
    };
    if resolved.is_empty() {
        resolved.push(b'/');
    }
    let is_same_document = path.is_empty() && query.is_empty();
    resolved.extend_from_slice(if is_same_document { base_query } else { query });
    resolved
}

/// RFC 3986 §5.2.4: resolves `.` and `..` in a path that begins with a slash.
fn remove_dot_segments(path: &[u8]) -> Vec<u8> {
    let mut resolved = Vec::with_capacity(path.len());
    let mut segments = path.split(|byte| *byte == b'/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        if segment == b".." {
            let parent = resolved.iter().rposition(|byte| *byte == b'/');
            resolved.truncate(parent.unwrap_or(0));
        }
        if segment != b".." && segment != b"." {
            resolved.push(b'/');
            resolved.extend_from_slice(segment);
        } else if is_last {
            resolved.push(b'/');
        }
    }
    resolved
}

/// Splits before the first byte that fits. If no byte fits, the second part is empty.
fn split_before(bytes: &[u8], fits: impl Fn(u8) -> bool) -> (&[u8], &[u8]) {
    let at = bytes.iter().position(|byte| fits(*byte));
    bytes.split_at_checked(at.unwrap_or(bytes.len())).unwrap_or_default()
}
