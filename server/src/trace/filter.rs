//! The filter of a tracer: a host and the prefix of a path.

use std::fmt;

use forebay_http::authority::Authority;
use forebay_http::fields::FieldId;
use forebay_http::request::RequestHead;
use forebay_http::target::Scheme;

use crate::key::{is_path_query, split_url};
use crate::limits::TRACE_FILTER_BYTES_MAX;

/// Selects requests by the URL that the client sent. Host and path are optional.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct TraceFilter {
    host: Option<FilterHost>,
    /// The prefix of path and query.
    path: String,
}

#[derive(Debug, PartialEq, Eq)]
struct FilterHost {
    host: String,
    /// The port, unless it is the default port of a scheme.
    port: Option<u16>,
    /// The scheme, which the filter shows in its text. A filter selects the requests of both
    /// schemes.
    scheme: Scheme,
}

/// The reason why a filter is refused, and the invalid argument.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FilterError {
    pub(crate) argument: &'static str,
    pub(crate) text: String,
}

impl TraceFilter {
    /// Creates a filter from the prefix of a URL.
    ///
    /// # Errors
    /// The URL is malformed or too long.
    pub(crate) fn of_url(url: &str) -> Result<TraceFilter, FilterError> {
        check_length("prefix", url)?;
        let url = split_url(url.as_bytes()).map_err(|text| FilterError::new("prefix", text))?;
        let path = String::from_utf8_lossy(url.path_query).into_owned();
        Ok(TraceFilter { host: Some(FilterHost::of(url.authority, url.scheme)), path })
    }

    /// Creates a filter from a host and the prefix of a path.
    ///
    /// # Errors
    /// The host or the path is malformed or too long.
    pub(crate) fn of_parts(
        host: Option<&str>,
        path: Option<&str>,
    ) -> Result<TraceFilter, FilterError> {
        let host = host.map(|text| {
            check_length("host", text)?;
            let authority = Authority::parse(text.as_bytes());
            let authority = authority.ok_or(FilterError::new("host", "write HOST or HOST:PORT"))?;
            Ok(FilterHost::of(authority, Scheme::Http))
        });
        let path = path.unwrap_or_default();
        check_length("path", path)?;
        if !path.is_empty() && !is_path_query(path.as_bytes()) {
            let text = "a path begins with / and is ASCII without blanks, control characters and #";
            return Err(FilterError::new("path", text));
        }
        Ok(TraceFilter { host: host.transpose()?, path: path.to_owned() })
    }

    /// Whether the filter selects a request with this head. The request may be invalid.
    pub(super) fn selects(&self, head: RequestHead<'_>) -> bool {
        let (authority, path) = match split_url(head.target()) {
            Ok(url) => (Some(url.authority), url.path_query),
            Err(_) => {
                (head.fields().first(FieldId::Host).and_then(Authority::parse), head.target())
            }
        };
        let has_host = match &self.host {
            None => true,
            Some(host) => authority.is_some_and(|authority| host.is_of(authority)),
        };
        has_host && path.starts_with(self.path.as_bytes())
    }
}

/// Describes the requests that the filter selects.
impl fmt::Display for TraceFilter {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            None if self.path.is_empty() => out.write_str("all requests"),
            None => write!(out, "requests of any host for {}…", self.path),
            Some(FilterHost { host, port, scheme }) => {
                let port = port.map_or(String::new(), |port| format!(":{port}"));
                write!(out, "{}://{host}{port}{}…", scheme.as_str(), self.path)
            }
        }
    }
}

impl FilterHost {
    fn of(authority: Authority<'_>, scheme: Scheme) -> FilterHost {
        let host = String::from_utf8_lossy(authority.host).into_owned();
        FilterHost { host, port: port_of(authority), scheme }
    }

    fn is_of(&self, authority: Authority<'_>) -> bool {
        self.port == port_of(authority) && authority.host.eq_ignore_ascii_case(self.host.as_bytes())
    }
}

/// Returns the port of an authority; `None` if it is the default port of a scheme, because a filter
/// selects the requests of both schemes.
fn port_of(authority: Authority<'_>) -> Option<u16> {
    let defaults = [Scheme::Http.default_port(), Scheme::Https.default_port()];
    authority.port.filter(|port| !defaults.contains(port))
}

impl FilterError {
    fn new(argument: &'static str, text: impl Into<String>) -> FilterError {
        FilterError { argument, text: text.into() }
    }
}

fn check_length(argument: &'static str, text: &str) -> Result<(), FilterError> {
    match text.len() <= TRACE_FILTER_BYTES_MAX {
        true => Ok(()),
        false => {
            let text = format!("a filter has at most {TRACE_FILTER_BYTES_MAX} bytes");
            Err(FilterError::new(argument, text))
        }
    }
}

#[cfg(test)]
mod tests {
    use forebay_http::request::{HeadLimits, RequestParts, parse_request};

    use super::*;

    const LIMITS: HeadLimits =
        HeadLimits { head_bytes_max: 4096, field_count_max: 8, target_bytes_max: 4096 };

    fn selects(filter: &TraceFilter, target: &str, host: &str) -> bool {
        let text = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let mut parts = RequestParts::default();
        let parsed = parse_request(text.as_bytes(), &LIMITS, &mut parts).expect("a head");
        assert_eq!(parsed, Some(text.len()));
        filter.selects(parts.head(text.as_bytes()))
    }

    #[test]
    fn a_filter_selects_by_host_and_by_the_beginning_of_the_path() {
        let url = |url| TraceFilter::of_url(url).expect(url);
        let parts = |host, path| TraceFilter::of_parts(host, path).expect("it is right");
        for (filter, target, host, expected) in [
            (TraceFilter::default(), "*", "", true),
            (url("http://A.org/n"), "/news?x", "a.org", true),
            (url("http://A.org/n"), "/x", "a.org", false),
            (url("http://A.org/n"), "/news", "b.org", false),
            (url("http://a.org"), "/", "a.org:80", true),
            (url("http://a.org"), "/", "a.org:8080", false),
            (url("http://a.org:8080"), "/x", "A.org:8080", true),
            (url("http://a.org/x"), "http://a.org/xy", "b.org", true),
            (url("http://a.org/x"), "http://b.org/xy", "a.org", false),
            (parts(Some("a.org"), None), "*", "a.org", true),
            (parts(Some("a.org"), None), "/", "a b", false),
            (parts(None, Some("/n")), "/news", "b.org", true),
            (parts(None, Some("/n")), "/", "b.org", false),
        ] {
            assert_eq!(selects(&filter, target, host), expected, "{filter} {target} {host}");
        }
    }

    #[test]
    fn a_malformed_or_long_filter_is_refused_with_its_argument() {
        let long = format!("/{}", "x".repeat(TRACE_FILTER_BYTES_MAX));
        for (host, path, argument, part) in [
            (Some("a b"), None, "host", "HOST:PORT"),
            (Some(""), None, "host", "HOST:PORT"),
            (None, Some("news"), "path", "begins with /"),
            (None, Some("/a b"), "path", "blanks"),
            (None, Some(long.as_str()), "path", "at most 2048 bytes"),
            (Some(long.as_str()), None, "host", "at most 2048 bytes"),
        ] {
            let bad = TraceFilter::of_parts(host, path).expect_err(part);
            assert!(bad.argument == argument && bad.text.contains(part), "{bad:?}");
        }
        for (url, part) in [("a.org", "http://"), ("http://a b/", "host"), (&long, "at most")] {
            let bad = TraceFilter::of_url(url).expect_err(part);
            assert!(bad.argument == "prefix" && bad.text.contains(part), "{bad:?}");
        }
    }
}
