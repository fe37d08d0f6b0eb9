//! Answers that a route gives in place of its origin: the settings `redirect` and `respond`.

use std::sync::Arc;

use crate::config::setting::{RawValue, Readable, Setting, ValueProblem};
use crate::config::suggest::nearest;
use crate::config::table::RouteSettings;
use crate::limits::{FIXED_ANSWER_BYTES_MAX, MEDIA_TYPE_BYTES_MAX, REDIRECT_BYTES_MAX};

/// The redirect of a route, if it has one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Redirect(Option<Arc<Redirection>>);

/// A status, and the URL to which requests are redirected.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Redirection {
    pub(crate) status: u16,
    parts: Vec<TargetPart>,
}

/// A part of the URL of a redirect.
#[derive(Clone, Debug, PartialEq, Eq)]
enum TargetPart {
    Text(String),
    /// A part of the request's URL. Each occurs once at most, so the length of the result is
    /// limited.
    Placeholder(Placeholder),
}

/// A part of the request's URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Placeholder {
    Path,
    Query,
    Uri,
    Host,
}

/// The placeholders, as they are written.
const PLACEHOLDERS: [(&str, Placeholder); 4] = [
    ("path", Placeholder::Path),
    ("query", Placeholder::Query),
    ("uri", Placeholder::Uri),
    ("host", Placeholder::Host),
];

/// The statuses of redirects (RFC 9110 §15.4).
const REDIRECT_STATUSES: [u16; 5] = [301, 302, 303, 307, 308];

/// The fixed answer of a route, if it has one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FixedAnswer(Option<Arc<FixedMessage>>);

/// A status and a body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FixedMessage {
    pub(crate) status: u16,
    /// The body; if it is empty, an error page of the route may replace it.
    pub(crate) body: Box<str>,
}

/// Value of Content-Type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContentType(pub(crate) Arc<str>);

impl Redirect {
    /// Returns the redirect.
    #[inline]
    pub(crate) fn get(&self) -> Option<&Redirection> {
        self.0.as_deref()
    }
}

impl FixedAnswer {
    /// Returns the answer.
    #[inline]
    pub(crate) fn get(&self) -> Option<&FixedMessage> {
        self.0.as_deref()
    }
}

impl Redirection {
    /// Returns the URL for a request; `None` if the URL has the request's host, but the request has
    /// none (HTTP/1.0). `path_query` begins with `/`.
    pub(crate) fn url(&self, host: Option<&[u8]>, path_query: &[u8]) -> Option<Vec<u8>> {
        let query_at = path_query.iter().position(|byte| *byte == b'?');
        let (path, query) = path_query.split_at(query_at.unwrap_or(path_query.len()));
        let mut url = Vec::new();
        for part in &self.parts {
            match part {
                TargetPart::Text(text) => url.extend_from_slice(text.as_bytes()),
                TargetPart::Placeholder(Placeholder::Path) => url.extend_from_slice(path),
                TargetPart::Placeholder(Placeholder::Query) => url.extend_from_slice(query),
                TargetPart::Placeholder(Placeholder::Uri) => url.extend_from_slice(path_query),
                TargetPart::Placeholder(Placeholder::Host) => {
                    url.extend(host?.iter().map(u8::to_ascii_lowercase));
                }
            }
        }
        Some(url)
    }
}

impl RouteSettings {
    /// Returns the settings that answer requests in place of the origin, each with its name and
    /// whether it is on. A request gets only one of these answers.
    pub(crate) fn answers(&self) -> [(&'static str, bool); 3] {
        [
            ("redirect", self.redirect.0.is_some()),
            ("respond", self.respond.0.is_some()),
            ("files", self.files.get().is_some()),
        ]
    }

    /// Whether every request gets a redirect or a fixed answer.
    pub(crate) fn has_answer(&self) -> bool {
        self.redirect.0.is_some() || self.respond.0.is_some()
    }

    /// Whether every request gets an answer that needs no origin.
    pub(crate) fn needs_no_origin(&self) -> bool {
        self.has_answer() || self.files.get().is_some()
    }
}

impl Readable for Redirect {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        let text = setting.text(raw)?;
        if text == "off" {
            return Ok(Redirect(None));
        }
        if text.len() > REDIRECT_BYTES_MAX {
            return Err(setting.problem(format_args!("is longer than {REDIRECT_BYTES_MAX} bytes")));
        }
        let refused = |hint: String| setting.problem(format_args!("cannot be {text:?}")).hint(hint);
        let (status, url) = text.split_once(' ').ok_or_else(|| {
            let is_url = ["/", "http://", "https://"].iter().any(|start| text.starts_with(start));
            refused(match text.contains(['/', '.']) {
                true if is_url => format!(
                    "write a status in front of the URL: \"302 {text}\"; 301 if it is for ever, \
                     because browsers remember it"
                ),
                true => format!(
                    "write a status and a scheme in front: \"302 https://{text}\", or \"302 \
                     /{text}\" for a path of the same host"
                ),
                false => "write a status and a URL, such as \"302 /new\"".to_owned(),
            })
        })?;
        let status = status.parse().ok().filter(|status| REDIRECT_STATUSES.contains(status));
        let status =
            status.ok_or_else(|| refused("the status is 301, 302, 303, 307 or 308".to_owned()))?;
        let parts = read_parts(url).and_then(|parts| check_beginning(url).map(|()| parts));
        let parts = parts.map_err(refused)?;
        Ok(Redirect(Some(Arc::new(Redirection { status, parts }))))
    }
}

/// Splits a URL into text and placeholders.
///
/// # Errors
/// A hint: the URL has an unknown placeholder, a placeholder twice, or a character that no URL can
/// have.
fn read_parts(url: &str) -> Result<Vec<TargetPart>, String> {
    if let Some(bad) = url.chars().find(|c| !c.is_ascii_graphic() || "\"<>\\^`{|}".contains(*c)) {
        return Err(format!("a URL cannot have the character {bad:?}; percent-encode it"));
    }
    let mut pieces = url.split('$');
    let mut parts = vec![TargetPart::Text(pieces.next().unwrap_or_default().to_owned())];
    for piece in pieces {
        let end = piece.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(piece.len());
        let (name, text) = piece.split_at(end);
        let known = PLACEHOLDERS.iter().find(|(known, _)| *known == name);
        let Some((_, placeholder)) = known else {
            let near = of_nginx(piece).or(nearest(name, PLACEHOLDERS.map(|(known, _)| known)));
            return Err(match near {
                Some(near) => format!("did you mean ${near}?"),
                None => "the placeholders are $path, $query, $uri and $host; write %24 for a \
                         dollar sign"
                    .to_owned(),
            });
        };
        if parts.contains(&TargetPart::Placeholder(*placeholder)) {
            return Err(format!("${name} can be in the URL only once"));
        }
        parts.push(TargetPart::Placeholder(*placeholder));
        parts.push(TargetPart::Text(text.to_owned()));
    }
    Ok(parts)
}

/// Returns the placeholder with the meaning of the variable of nginx with which `piece` begins.
fn of_nginx(piece: &str) -> Option<&'static str> {
    let end = piece.find(|c: char| !c.is_ascii_lowercase() && c != '_');
    match piece.get(..end.unwrap_or(piece.len()))? {
        "request_uri" => Some("uri"),
        "document_uri" => Some("path"),
        "args" | "query_string" => Some("query"),
        "http_host" | "server_name" => Some("host"),
        _ => None,
    }
}

/// Checks that only the operator, not the path of a request, can choose the host of the URL: a URL
/// that begins with `//` names a host.
///
/// # Errors
/// A hint.
fn check_beginning(url: &str) -> Result<(), String> {
    if let Some(path) = url.strip_prefix('/') {
        // A request without a query leaves nothing in the place of `$query`.
        let path = path.strip_prefix("$query").unwrap_or(path);
        return match ["/", "$path", "$uri"].iter().any(|start| path.starts_with(start)) {
            true => Err("a URL that begins with two slashes leads to another host; write \
                         http:// or https:// and the host in front"
                .to_owned()),
            false => Ok(()),
        };
    }
    let Some(rest) = ["https://", "http://"].iter().find_map(|scheme| url.strip_prefix(scheme))
    else {
        return Err(match url.starts_with('$') {
            true => "begin the URL with / or with https:// and a host, such as \
                     \"https://www.example.org$uri\"; a placeholder at the beginning could lead \
                     to another host"
                .to_owned(),
            false => scheme_hint(url)
                .unwrap_or_else(|| format!("write https:// in front of the host: https://{url}")),
        });
    };
    let rest = rest.replace("$host", "host");
    let host = &rest[..rest.find(['/', '?', '#', '$']).unwrap_or(rest.len())];
    let hint = if host.is_empty() {
        "write the host after the scheme, such as \"https://example.org$uri\""
    } else if host.contains('@') {
        "a URL cannot have a user name; leave out the part before @"
    } else if rest[host.len()..].starts_with("$query") {
        "write a path between host and query, such as \"https://example.org/$query\""
    } else {
        return Ok(());
    };
    Err(hint.to_owned())
}

/// Returns the hint for a URL with a scheme that no redirect can have; `None` if it has no scheme.
fn scheme_hint(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let is_scheme = scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
    let near = nearest(&scheme.to_ascii_lowercase(), ["http", "https"]);
    is_scheme.then(|| match near {
        Some(near) => format!("did you mean {near}://{rest}?"),
        None => "the scheme of the URL has to be http or https".to_owned(),
    })
}

impl Readable for FixedAnswer {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        let text = match raw {
            RawValue::Integer(status) => {
                let hint = format!("write \"{status}\", or with a text: \"{status} closed today\"");
                return Err(setting.problem("cannot be a number").hint(hint));
            }
            raw => setting.text(raw)?,
        };
        if text == "off" {
            return Ok(FixedAnswer(None));
        }
        let (status, body) = text.split_once(' ').unwrap_or((text, ""));
        let refused =
            |hint: &str| setting.problem(format_args!("cannot begin with {status:?}")).hint(hint);
        let status = match status.parse::<u16>() {
            Ok(300..=399) => {
                return Err(refused(
                    "for a redirect use `redirect`; the other statuses from 300 to 399 make no \
                     sense as a fixed answer",
                ));
            }
            Ok(205 | 206 | 401 | 405 | 407 | 416 | 426) => {
                return Err(refused(
                    "an answer with this status needs fields that `respond` cannot give",
                ));
            }
            Ok(204) if !body.is_empty() => {
                return Err(refused("an answer with status 204 has no text"));
            }
            Ok(status @ 200..=599) if text.as_bytes()[0] != b'+' => status,
            _ => return Err(refused("the status is a number from 200 to 599")),
        };
        if body.len() > FIXED_ANSWER_BYTES_MAX {
            let long = format_args!("has a text of more than {FIXED_ANSWER_BYTES_MAX} bytes");
            return Err(setting.problem(long));
        }
        Ok(FixedAnswer(Some(Arc::new(FixedMessage { status, body: body.into() }))))
    }
}

impl Readable for ContentType {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        let text = setting.text(raw)?;
        let is_clean = text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
        let has_subtype = text.split_once('/').is_some_and(|(kind, subtype)| {
            !kind.is_empty() && !subtype.is_empty() && !kind.contains(' ')
        });
        match is_clean && has_subtype && text.len() <= MEDIA_TYPE_BYTES_MAX {
            true => Ok(ContentType(text.into())),
            false => Err(setting.problem(format_args!("cannot be {text:?}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::table::{ROUTE, Settings};

    fn redirect(text: &str) -> Result<Redirect, ValueProblem> {
        let setting = ROUTE.iter().find(|setting| setting.name == "redirect").expect("a setting");
        let mut settings = RouteSettings::default();
        settings.set(setting, RawValue::Text(text))?;
        Ok(settings.redirect)
    }

    #[test]
    fn the_parts_of_a_request_replace_the_placeholders() {
        let (host, target) = (Some(&b"A.org"[..]), "/p//q?x=1&y");
        for (text, target, expected) in [
            ("301 https://b.org$path", target, "https://b.org/p//q"),
            ("302 https://b.org/new$query", target, "https://b.org/new?x=1&y"),
            ("303 https://b.org/new$query#top", "/", "https://b.org/new#top"),
            ("307 https://$host$uri", target, "https://a.org/p//q?x=1&y"),
            ("308 http://www.$host:81/a$path$query", target, "http://www.a.org:81/a/p//q?x=1&y"),
            ("301 /new", target, "/new"),
            ("301 /$query", target, "/?x=1&y"),
            ("301 /new$uri", target, "/new/p//q?x=1&y"),
            ("301 https://b.org/%24path", target, "https://b.org/%24path"),
        ] {
            let redirect = redirect(text).expect("it is valid");
            let url = redirect.get().expect("it is on").url(host, target.as_bytes());
            assert_eq!(String::from_utf8_lossy(&url.expect("a host")), expected, "{text}");
        }
        let redirect = redirect("301 https://$host/").expect("it is valid");
        assert_eq!(redirect.get().expect("it is on").url(None, b"/"), None);
    }

    /// A path such as `//evil.example` must not become the host of the URL.
    #[test]
    fn a_request_cannot_choose_the_host_of_a_redirect() {
        for text in [
            "301 $path",
            "301 $uri",
            "301 /$path",
            "301 /$query$path",
            "301 //b.org",
            "301 https://$path",
            "301 https://b.org@$host",
            "301 https:$uri",
            "301 b.org$path",
            "301 https://",
            "301 https://b.org$query",
            "301 https:///$path",
        ] {
            assert!(redirect(text).is_err(), "{text}");
        }
    }
}
