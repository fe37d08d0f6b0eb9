//! The path of a file below its directory, from the path of a URL.

/// The path of a file or a directory below the directory of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FilePath {
    /// The decoded path of the URL, from its first `/` on.
    decoded: Vec<u8>,
    /// Where the path below the directory begins in `decoded`.
    begin: usize,
    /// Whether the path ends in `/`.
    pub(super) is_directory: bool,
}

/// The reason why a path names no file. The answer is a 404.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathRefusal {
    /// The target is not a path.
    NoPath,
    /// A percent sign is not followed by two hexadecimal digits.
    Encoding,
    /// A part between two slashes is empty, or has a character that no file name should have.
    Segment,
    /// A part begins with a dot: `.` and `..` lead elsewhere, and names such as `.git` are hidden.
    Dot,
    /// The path does not begin with the prefix that `files_strip_prefix` removes.
    Prefix,
}

impl PathRefusal {
    /// Returns the reason for people.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            PathRefusal::NoPath => "the target has no path",
            PathRefusal::Encoding => "the path has a malformed percent-encoding",
            PathRefusal::Segment => {
                "the path has //, a backslash, an encoded slash or a control character"
            }
            PathRefusal::Dot => "a part of the path begins with a dot",
            PathRefusal::Prefix => "the path does not begin with the path of the route",
        }
    }
}

/// The only name with a dot at its beginning that is served, and only as the first part of a path:
/// RFC 8615 reserves it for files that clients look for.
const WELL_KNOWN: &[u8] = b".well-known";

impl FilePath {
    /// Decodes the path of a target once, and checks each part between two slashes. If `prefix` is
    /// set, it is left out of the path below the directory.
    pub(crate) fn of(path_query: &[u8], prefix: Option<&[u8]>) -> Result<FilePath, PathRefusal> {
        let path = path_query.split(|byte| *byte == b'?').next().unwrap_or_default();
        let parts = path.strip_prefix(b"/").ok_or(PathRefusal::NoPath)?;
        let mut decoded = Vec::with_capacity(path.len());
        let mut parts = parts.split(|byte| *byte == b'/').enumerate().peekable();
        let mut is_directory = false;
        while let Some((index, part)) = parts.next() {
            decoded.push(b'/');
            if part.is_empty() && parts.peek().is_none() {
                is_directory = true;
                break;
            }
            let begin = decoded.len();
            decode(part, &mut decoded)?;
            check_part(decoded.get(begin..).unwrap_or_default(), index == 0)?;
        }
        let begin = match prefix {
            None => 1,
            Some(prefix) => begin_below(&decoded, prefix).ok_or(PathRefusal::Prefix)?,
        };
        Ok(FilePath { decoded, begin, is_directory })
    }

    /// Returns the path below the directory, without a slash at its end; empty for the directory
    /// itself.
    pub(super) fn below(&self) -> &[u8] {
        let below = self.decoded.get(self.begin..).unwrap_or_default();
        below.strip_suffix(b"/").unwrap_or(below)
    }

    /// Returns the path below the directory, for people.
    pub(crate) fn shown(&self) -> String {
        let slash = if self.is_directory && !self.below().is_empty() { "/" } else { "" };
        format!("{}{slash}", self.below().escape_ascii())
    }

    /// Returns the URL path of this path with a slash at its end, percent-encoded. The path of a
    /// URL never begins with two slashes here, so it cannot be read as a host.
    pub(super) fn with_slash(&self) -> Vec<u8> {
        let mut url = Vec::with_capacity(self.decoded.len() + 1);
        for byte in &self.decoded {
            match byte {
                b'/' | b'-' | b'.' | b'_' | b'~' => url.push(*byte),
                byte if byte.is_ascii_alphanumeric() => url.push(*byte),
                byte => url.extend_from_slice(format!("%{byte:02X}").as_bytes()),
            }
        }
        url.push(b'/');
        url
    }
}

/// Returns where the path below `prefix` begins. The prefix ends at the end of a part.
fn begin_below(decoded: &[u8], prefix: &[u8]) -> Option<usize> {
    let rest = decoded.strip_prefix(prefix)?;
    match rest.first() {
        None => Some(decoded.len()),
        Some(b'/') if !prefix.ends_with(b"/") => Some(prefix.len() + 1),
        Some(_) => prefix.ends_with(b"/").then_some(prefix.len()),
    }
}

fn decode(part: &[u8], into: &mut Vec<u8>) -> Result<(), PathRefusal> {
    let mut bytes = part.iter();
    while let Some(byte) = bytes.next() {
        if *byte != b'%' {
            into.push(*byte);
            continue;
        }
        let mut digit = || {
            let digit = bytes.next().and_then(|digit| char::from(*digit).to_digit(16));
            digit.and_then(|digit| u8::try_from(digit).ok()).ok_or(PathRefusal::Encoding)
        };
        into.push((digit()? << 4) | digit()?);
    }
    Ok(())
}

fn check_part(part: &[u8], is_first: bool) -> Result<(), PathRefusal> {
    let is_bad = |byte: &u8| byte.is_ascii_control() || matches!(byte, b'/' | b'\\');
    if part.is_empty() || part.iter().any(is_bad) {
        return Err(PathRefusal::Segment);
    }
    match part.starts_with(b".") && !(is_first && part == WELL_KNOWN) {
        true => Err(PathRefusal::Dot),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_decoded_once_and_stays_below_its_directory() {
        use PathRefusal::{Dot, Encoding, NoPath, Segment};
        for (target, expected) in [
            ("/", Ok(("", true))),
            ("/a", Ok(("a", false))),
            ("/a/", Ok(("a", true))),
            ("/a/b.html?x=/../y", Ok(("a/b.html", false))),
            ("/a%20b/%C3%A9", Ok(("a b/\u{e9}", false))),
            ("/a%252e", Ok(("a%2e", false))),
            ("/%252e%252e/x", Ok(("%2e%2e/x", false))),
            ("/.well-known/acme", Ok((".well-known/acme", false))),
            ("/%2ewell-known/acme", Ok((".well-known/acme", false))),
            ("/a...", Ok(("a...", false))),
            ("*", Err(NoPath)),
            ("", Err(NoPath)),
            ("//", Err(Segment)),
            ("//etc/passwd", Err(Segment)),
            ("/a//b", Err(Segment)),
            ("/a%2fb", Err(Segment)),
            ("/a%2Fb", Err(Segment)),
            ("/a\\b", Err(Segment)),
            ("/..%5cb", Err(Segment)),
            ("/a%5c..%5cb", Err(Segment)),
            ("/a%00", Err(Segment)),
            ("/a%00.html", Err(Segment)),
            ("/a%0a", Err(Segment)),
            ("/a%7f", Err(Segment)),
            ("/..", Err(Dot)),
            ("/../x", Err(Dot)),
            ("/a/../x", Err(Dot)),
            ("/./x", Err(Dot)),
            ("/%2e%2e/x", Err(Dot)),
            ("/.%2E/x", Err(Dot)),
            ("/%2e./x", Err(Dot)),
            ("/.git/config", Err(Dot)),
            ("/a/.htaccess", Err(Dot)),
            ("/a/.well-known/x", Err(Dot)),
            ("/.well-known/../x", Err(Dot)),
            ("/...", Err(Dot)),
            ("/a%", Err(Encoding)),
            ("/a%2", Err(Encoding)),
            ("/a%g0", Err(Encoding)),
            ("/a%+1", Err(Encoding)),
        ] {
            let path = FilePath::of(target.as_bytes(), None);
            let found = path.as_ref().map(|path| (path.below(), path.is_directory));
            let found = found.map_err(|refusal| *refusal);
            let expected = expected.map(|(below, is_directory)| (below.as_bytes(), is_directory));
            assert_eq!(found, expected, "{target}");
        }
    }

    #[test]
    fn the_prefix_of_the_route_is_left_out() {
        for (target, prefix, expected) in [
            ("/static/a", "/static/", Some("a")),
            ("/static/", "/static/", Some("")),
            ("/static", "/static/", None),
            ("/static/a/b", "/static", Some("a/b")),
            ("/static", "/static", Some("")),
            ("/static/", "/static", Some("")),
            ("/statics", "/static", None),
            ("/a", "/static", None),
            ("/a", "/", Some("a")),
            ("/caf%C3%A9/a", "/caf\u{e9}", Some("a")),
        ] {
            let path = FilePath::of(target.as_bytes(), Some(prefix.as_bytes()));
            let below = path.as_ref().ok().map(FilePath::below);
            assert_eq!(below, expected.map(str::as_bytes), "{target} {prefix}");
        }
    }

    #[test]
    fn a_redirect_to_a_directory_is_encoded() {
        let path = FilePath::of(b"/a%20b/%3f%C3%A9", None).expect("a path");
        assert_eq!(path.with_slash(), b"/a%20b/%3F%C3%A9/");
    }
}
