//! The path that the origin gets, if the route leaves a prefix out or adds one, and the reverse for
//! `Location`.
//!
//! Invariant: however an origin reads the path that is sent, it is below the prefix that is added,
//! and no network-path reference (`//host`). Other paths are refused, not repaired.

use forebay_http::path::{every_reading, is_plain};

use crate::config::{OriginAddress, Route};
use crate::fault::Fault;
use crate::limits::PATH_READINGS_BYTES_MAX;

/// Returns path and query for the origin; `None` if they are those of the request, or if files
/// answer it.
///
/// # Errors
/// [`Fault::PathOutsidePrefix`]: an origin might read the path as one that is not below the prefix.
pub(crate) fn sent_path(route: &Route, path_query: &[u8]) -> Result<Option<Vec<u8>>, Fault> {
    let (stripped, added) = (route.stripped_prefix(), route.settings.origin_add_prefix.get());
    let is_same = stripped.is_empty() && added.is_empty() || route.settings.files.get().is_some();
    if is_same || !path_query.starts_with(b"/") {
        return Ok(None);
    }
    rewritten(path_query, stripped.as_bytes(), added.as_bytes())
        .map(Some)
        .ok_or(Fault::PathOutsidePrefix)
}

/// Returns path and query with the prefix `added` in place of `stripped`; `None` if the path is not
/// below `stripped`, or might not be below `added`.
fn rewritten(path_query: &[u8], stripped: &[u8], added: &[u8]) -> Option<Vec<u8>> {
    let end = path_query.iter().position(|byte| *byte == b'?').unwrap_or(path_query.len());
    let (path, query) = path_query.split_at_checked(end)?;
    let rest = path.strip_prefix(stripped)?;
    let is_whole_segment = matches!(rest.first(), None | Some(b'/'));
    if !is_whole_segment || !is_plain(rest) && !stays_below(rest) {
        return None;
    }
    let mut sent = [added, rest].concat();
    if sent.is_empty() {
        sent.push(b'/');
    }
    sent.extend_from_slice(query);
    Some(sent)
}

/// Returns the reference that the client gets in place of a `Location` of `origin`; `None` if it
/// gets the same. Only two forms are certain to mean a path as the origin sees it: a URL with the
/// scheme of the origin and the host that it got in place of the client's, and a path below the
/// prefix that was added.
pub(super) fn client_location(
    route: &Route,
    origin: &OriginAddress,
    location: &[u8],
) -> Option<Vec<u8>> {
    let (stripped, added) = (route.stripped_prefix(), route.settings.origin_add_prefix.get());
    let host = route.settings.origin_host.of(origin);
    let scheme = if origin.tls.is_some() { "https://" } else { "http://" };
    let in_url = host.and_then(|host| below_host(location, scheme, host));
    let path = in_url.or_else(|| (!added.is_empty()).then_some(location))?;
    reversed(path, stripped.as_bytes(), added.as_bytes())
}

/// Returns the part behind the host of a URL with this scheme and host.
fn below_host<'a>(url: &'a [u8], scheme: &str, host: &str) -> Option<&'a [u8]> {
    let (found, rest) = url.strip_prefix(scheme.as_bytes())?.split_at_checked(host.len())?;
    let is_whole = matches!(rest.first(), None | Some(b'/' | b'?' | b'#'));
    (is_whole && found.eq_ignore_ascii_case(host.as_bytes())).then_some(rest)
}

/// Returns a path of the origin, with its query and fragment, and the prefix `stripped` in place of
/// `added`; `None` if the path is not certainly below `added`. A path that is also below `stripped`
/// may already be one for clients. Bytes that a URL cannot have are not rewritten: some clients
/// drop a tab, and `/` followed by a tab and `/host` would become `//host`.
fn reversed(path: &[u8], stripped: &[u8], added: &[u8]) -> Option<Vec<u8>> {
    let rest = path.strip_prefix(added)?;
    let is_for_clients = !stripped.is_empty() && path.starts_with(stripped);
    if is_for_clients || !path.iter().all(u8::is_ascii_graphic) {
        return None;
    }
    let end = rest.iter().position(|byte| matches!(byte, b'?' | b'#')).unwrap_or(rest.len());
    let below = rest.get(..end)?;
    let is_whole_segment = matches!(below.first(), None | Some(b'/'));
    if !is_whole_segment || !is_plain(below) && !stays_below(below) {
        return None;
    }
    let mut reference = [stripped, rest].concat();
    if !reference.starts_with(b"/") {
        reference.insert(0, b'/');
    }
    Some(reference)
}

/// Whether every reading of a path stays below the directory to which it is appended, and none
/// begins with an empty segment.
fn stays_below(rest: &[u8]) -> bool {
    every_reading(rest, &mut Vec::new(), PATH_READINGS_BYTES_MAX, |reading| {
        !reading.path.starts_with(b"//") && !climbs(reading.path)
    })
}

/// Whether a path leads out of its directory by dot segments.
fn climbs(path: &[u8]) -> bool {
    let mut depth = 0_usize;
    path.split(|byte| *byte == b'/').any(|segment| {
        match segment {
            b"" | b"." => {}
            b".." => match depth.checked_sub(1) {
                Some(above) => depth = above,
                None => return true,
            },
            _ => depth += 1,
        }
        false
    })
}

#[cfg(test)]
mod tests {
    use super::{below_host, reversed, rewritten};

    #[test]
    fn a_prefix_takes_the_place_of_another() {
        for (path, stripped, added, expected) in [
            ("/app/a", "/app", "", "/a"),
            ("/app/", "/app", "", "/"),
            ("/app", "/app", "", "/"),
            ("/app?a=/../b", "/app", "", "/?a=/../b"),
            ("/app/a?", "/app", "/v2", "/v2/a?"),
            ("/app", "/app", "/v2", "/v2"),
            ("/app/", "/app", "/v2", "/v2/"),
            ("/a/b", "", "/v2", "/v2/a/b"),
            ("/app/a%2Fb", "/app", "/v2", "/v2/a%2Fb"),
            ("/app/a//b", "/app", "", "/a//b"),
            ("/app/a/../b", "/app", "", "/a/../b"),
            ("/app/caf%C3%A9;x", "/app", "", "/caf%C3%A9;x"),
            ("/app/.well-known/x", "/app", "", "/.well-known/x"),
        ] {
            let found = rewritten(path.as_bytes(), stripped.as_bytes(), added.as_bytes());
            assert_eq!(found.as_deref(), Some(expected.as_bytes()), "{path}");
        }
    }

    #[test]
    fn only_a_reference_to_a_path_of_the_origin_is_reversed() {
        let url = |location: &str| {
            let path = below_host(location.as_bytes(), "http://", "app.internal:81")?;
            reversed(path, b"/app", b"/v2").map(|path| String::from_utf8_lossy(&path).into_owned())
        };
        for (location, expected) in [
            ("http://app.internal:81/v2/x?y#z", Some("/app/x?y#z")),
            ("http://App.Internal:81/v2", Some("/app")),
            ("http://app.internal:81/v2?y", Some("/app?y")),
            ("http://app.internal:81/v21", None),
            ("http://app.internal:81/x", None),
            ("http://app.internal:81/v2/../x", None),
            ("http://app.internal:81/v2//x", None),
            ("http://app.internal:8100/v2/x", None),
            ("http://app.internal/v2/x", None),
            ("https://app.internal:81/v2/x", None),
            ("//app.internal:81/v2/x", None),
        ] {
            assert_eq!(url(location).as_deref(), expected, "{location}");
        }
        let bare = |path: &str| reversed(path.as_bytes(), b"", b"");
        assert_eq!(bare("").as_deref(), Some(&b"/"[..]));
        assert_eq!(bare("?x").as_deref(), Some(&b"/?x"[..]));
        assert_eq!(bare("//evil.test/x"), None, "it would name another host");
        for unsafe_path in ["/\t/evil.test", "/x\u{e9}"] {
            assert_eq!(bare(unsafe_path), None, "{unsafe_path:?}");
        }
        assert_eq!(reversed(b"/v2/app/x", b"/v2/app", b"/v2"), None, "a path for clients");
    }

    #[test]
    fn a_path_that_may_lead_elsewhere_is_refused() {
        for path in [
            "/application",
            "/%61pp/x",
            "/app//host/x",
            "/app/%2Fhost",
            "/app/%252Fhost",
            "/app/\\host",
            "/app/%5Chost",
            "/app/.//host",
            "/app/;/host",
            "/app/../x",
            "/app/%2e%2e/x",
            "/app/%252e%252E/x",
            "/app/..%2fx",
            "/app/..;a/x",
            "/app/a/../../x",
            "/app/a//../../x",
            "/app/..\\x",
            "/app%2Fx",
            "/app/..",
        ] {
            for added in ["", "/v2"] {
                let found = rewritten(path.as_bytes(), b"/app", added.as_bytes());
                assert_eq!(found, None, "{path}");
            }
        }
    }
}
