//! `return`, and `rewrite` where it is a redirect.

use super::scope::BlockScope;
use super::source::NginxSource;
use super::syntax::NginxDirective;
use crate::toml::TomlTable;

/// Statuses that `respond` cannot have, because their answers need more fields.
const NEED_FIELDS: &[u16] = &[205, 206, 401, 405, 407, 416, 426];

/// The values of variables that are the same for every request of a server.
pub(super) struct Names<'s> {
    /// The scheme, if the server has only one.
    pub(super) scheme: Option<&'static str>,
    pub(super) name: Option<&'s str>,
}

/// Writes the answer of a `return`; `path` is the only one that it answers.
pub(super) fn write_return(
    source: &NginxSource<'_>,
    directive: &NginxDirective,
    scope: &BlockScope<'_>,
    path: Option<&str>,
    names: &Names<'_>,
    route: &mut TomlTable,
) {
    let (status, rest) = match directive.arg(0).parse::<u16>() {
        Ok(status) => (status, directive.args.get(1).map(String::as_str)),
        Err(_) => (302, Some(directive.arg(0))),
    };
    match (status, rest) {
        (301 | 302 | 303 | 307 | 308, Some(url)) => match target(url, names) {
            Some(url) => route.text("redirect", &format!("{status} {url}")),
            None => {
                unavailable(source, directive, route, "the URL has parts that redirect cannot have")
            }
        },
        (444, _) => {
            source.note(directive, "the request is answered with 403; nginx closed the connection");
            route.text("respond", "403");
        }
        (status, _)
            if !(200..=599).contains(&status)
                || (300..400).contains(&status)
                || NEED_FIELDS.contains(&status) =>
        {
            unavailable(source, directive, route, "respond cannot have this status");
        }
        (_, Some(text)) if text.contains('$') => {
            unavailable(source, directive, route, "the text has variables");
        }
        (_, text) => {
            let text = text.unwrap_or_default();
            write_answer(source, directive, (status, text), scope, path, route);
        }
    }
}

fn write_answer(
    source: &NginxSource<'_>,
    directive: &NginxDirective,
    (status, text): (u16, &str),
    scope: &BlockScope<'_>,
    path: Option<&str>,
    route: &mut TomlTable,
) {
    if text.is_empty() {
        return route.text("respond", &status.to_string());
    }
    route.text("respond", &format!("{status} {text}"));
    let media = type_of(scope, path);
    let is_media = |c: char| c.is_ascii_alphanumeric() || "/.+-".contains(c);
    if media.contains('/') && media.chars().all(is_media) {
        route.text("respond_type", media);
    } else {
        source.note(directive, "the answer has the type text/plain");
    }
}

/// The media type of a path by its extension, if it is known, and of other answers.
fn type_of<'s>(scope: &BlockScope<'s>, path: Option<&str>) -> &'s str {
    let name = path.and_then(|path| path.rsplit('/').next()).unwrap_or_default();
    let end = name.rsplit_once('.').map(|(_, end)| end.to_ascii_lowercase());
    let types = scope.one("types").map_or(&[][..], |types| types.inner());
    let has_end = |one: &&NginxDirective| one.args.iter().any(|known| Some(known) == end.as_ref());
    let known = types.iter().find(has_end).map(|one| one.name.as_str());
    known.or(scope.one("default_type").map(|media| media.arg(0))).unwrap_or("text/plain")
}

/// An answer that cannot be carried over is an error, so that no other content takes its place.
pub(super) fn unavailable(
    source: &NginxSource<'_>,
    directive: &NginxDirective,
    route: &mut TomlTable,
    reason: &str,
) {
    source.note(directive, format!("not carried over: {reason}; the requests get 503"));
    write_unavailable(route);
}

/// Writes the answer of a location that is not carried over.
pub(super) fn write_unavailable(route: &mut TomlTable) {
    route.remove("redirect");
    route.text("respond", "503 not carried over from the configuration of nginx");
}

/// The URL in the form of `redirect`.
pub(super) fn target(url: &str, names: &Names<'_>) -> Option<String> {
    let url = placeholders(url, names)?;
    let once =
        ["$uri", "$path", "$query", "$host"].iter().all(|name| url.matches(name).count() <= 1);
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let host_ends = rest.is_none_or(|rest| {
        // Text directly behind a host must begin a path, or a client would choose the host.
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let authority = rest[..end].trim_end_matches("$uri").trim_end_matches("$path");
        let authority = authority.replacen("$host", "h", 1);
        !authority.is_empty() && !authority.contains(['$', '@'])
    });
    let begins = rest.is_some()
        || (url.starts_with('/') && !url.starts_with("//") && !url.starts_with("/$"));
    let is_url =
        url.bytes().all(|byte| (b'!'..=b'~').contains(&byte) && !b"\"<>\\^`{|}".contains(&byte));
    (once && host_ends && begins && is_url).then_some(url)
}

/// Replaces the variables by the placeholders of `redirect`.
fn placeholders(url: &str, names: &Names<'_>) -> Option<String> {
    let mut out = String::new();
    let mut rest = url;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        let whole = &rest[before.len()..];
        let (name, behind) = name_of(after)?;
        rest = behind;
        let value = match name {
            "scheme" => names.scheme?,
            "server_name" => names.name?,
            "host" | "http_host" => "$host",
            "request_uri" => "$uri",
            "uri" | "document_uri" => match query(rest) {
                Some(behind) => {
                    rest = behind;
                    "$uri"
                }
                None => "$path",
            },
            "is_args" => {
                rest = query(whole)?;
                "$query"
            }
            _ => return None,
        };
        out.push_str(value);
        // A letter would become a part of the placeholder's name.
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if value.starts_with('$') && rest.starts_with(is_name) {
            return None;
        }
    }
    out.push_str(rest);
    Some(out)
}

/// The text behind `$is_args$args`.
fn query(text: &str) -> Option<&str> {
    let (first, rest) = name_of(text.strip_prefix('$')?)?;
    let (second, rest) = name_of(rest.strip_prefix('$')?)?;
    (first == "is_args" && matches!(second, "args" | "query_string")).then_some(rest)
}

/// The name of a variable behind its `$`, and the text behind the name.
pub(super) fn name_of(text: &str) -> Option<(&str, &str)> {
    if let Some(text) = text.strip_prefix('{') {
        return text.split_once('}');
    }
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    Some((&text[..end], &text[end..]))
}

/// A `rewrite` that redirects one path, or every path.
pub(super) enum RewriteTarget {
    /// All requests of the block, to this URL with its status.
    All(String),
    /// This path only.
    Path(String, String),
}

/// The redirect that a `rewrite` is, if it is one.
pub(super) fn rewrite(directive: &NginxDirective, names: &Names<'_>) -> Option<RewriteTarget> {
    let status = match directive.arg(2) {
        "permanent" => 301,
        "redirect" => 302,
        _ => return None,
    };
    let (pattern, to) = (directive.arg(0), directive.arg(1));
    // nginx appends the query, unless the replacement ends with a question mark.
    let (to, query) = match to.strip_suffix('?') {
        Some(to) => (to.to_owned(), ""),
        None => (to.to_owned(), "$is_args$args"),
    };
    let whole = match pattern {
        "^" | ".*" | "^.*$" | "^.*" => Some(to.clone()),
        "^(.*)$" | "^(.*)" => Some(to.replace("$1", "$uri")),
        "^/(.*)$" | "^/(.*)" => Some(to.replace("/$1", "$uri")),
        _ => None,
    };
    let url = |to: &str| {
        let url = target(&format!("{to}{query}"), names)?;
        Some(format!("{status} {url}"))
    };
    if let Some(to) = whole {
        return url(&to).map(RewriteTarget::All);
    }
    let path =
        pattern.strip_prefix('^')?.strip_suffix('$')?.replace("\\.", ".").replace("\\-", "-");
    let is_literal = |c: char| c.is_ascii_alphanumeric() || "/-_~".contains(c);
    // A dot that is not escaped stands for any character.
    let dots = pattern.matches('.').count() == pattern.matches("\\.").count();
    if !path.starts_with('/') || !dots || !path.chars().all(|c| c == '.' || is_literal(c)) {
        return None;
    }
    url(&to).map(|url| RewriteTarget::Path(path, url))
}
