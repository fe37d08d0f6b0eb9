//! URLs of rules.

/// The scheme of requests to which a rule applies.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum RuleScheme {
    Plain,
    Tls,
    Both,
}

/// A URL, split into its parts.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct RuleUrl {
    pub(super) scheme: String,
    /// The host; empty if the rule has only a path.
    pub(super) host: String,
    pub(super) port: Option<u16>,
    /// The path without its first slash.
    pub(super) path: String,
    pub(super) has_query: bool,
}

impl RuleUrl {
    /// Splits a URL; `None` if it is malformed. The host may be a regular expression.
    pub(super) fn new(text: &str, has_regex: bool) -> Option<RuleUrl> {
        let (text, has_query) = match text.split_once('?').filter(|_| !has_regex) {
            Some((path, _)) => (path, true),
            None => (text, false),
        };
        if let Some(path) = text.strip_prefix('/') {
            let (scheme, host) = Default::default();
            let path = path.to_owned();
            return Some(RuleUrl { scheme, host, port: None, path, has_query });
        }
        let (scheme, rest) = text.split_once("://")?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (host, port) = match authority.rsplit_once(':') {
            // An expression may have a colon of its own, as in `(?:a|b)`.
            Some((_, port)) if has_regex && port.parse::<u16>().is_err() => (authority, None),
            Some((host, port)) if !port.ends_with(']') => (host, Some(port.parse().ok()?)),
            _ => (authority, None),
        };
        let scheme = scheme.to_ascii_lowercase();
        let host = if has_regex { host.to_owned() } else { host.to_ascii_lowercase() };
        let is_host = |c: char| c.is_ascii_alphanumeric() || ".-_:[]".contains(c);
        let is_valid = has_regex || host.chars().all(is_host);
        is_valid.then(|| RuleUrl { scheme, host, port, path: path.to_owned(), has_query })
    }

    /// The scheme of requests; `None` if it is none of HTTP.
    pub(super) fn requests(&self) -> Option<RuleScheme> {
        match self.scheme.as_str() {
            "" => Some(RuleScheme::Both),
            "http" | "ws" => Some(RuleScheme::Plain),
            "https" | "wss" => Some(RuleScheme::Tls),
            _ => None,
        }
    }

    /// The port, if it is not that of the scheme.
    pub(super) fn own_port(&self) -> Option<u16> {
        let usual = match self.requests() {
            Some(RuleScheme::Tls) => 443,
            _ => 80,
        };
        self.port.filter(|port| *port != usual)
    }

    /// Scheme, host and port, as in the URL of an origin or a redirect.
    pub(super) fn base(&self) -> String {
        let scheme = match self.requests() {
            Some(RuleScheme::Tls) => "https",
            _ => "http",
        };
        let port = self.own_port().map(|port| format!(":{port}")).unwrap_or_default();
        format!("{scheme}://{}{port}", self.host)
    }
}

/// Whether a route can have this path.
pub(super) fn is_route_path(path: &str) -> bool {
    let is_path = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~!$&'()*+,:@".contains(&byte);
    let has_dots = format!("/{path}/").contains("/./") || format!("/{path}/").contains("/../");
    path.bytes().all(is_path) && !path.starts_with('/') && !path.contains("//") && !has_dots
}

/// A regular expression for a text.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if !c.is_ascii_alphanumeric() && !"/-_~!&',:@%".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}
