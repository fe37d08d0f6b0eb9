//! A configured origin with its names and routes.

use super::rules::NamedFile;
use super::setting::{RawValue, Readable, Setting, ValueProblem};
use super::table::{NAMES, ORIGIN, RouteSettings};
use crate::limits::HOST_BYTES_MAX;

/// A configured origin with the names it is served under and the routes below them.
#[derive(Clone, Debug, PartialEq)]
pub struct Site {
    /// Name in logs and in keys.
    pub name: String,
    /// Hosts that it serves.
    pub names: Vec<HostPattern>,
    /// Where its responses come from.
    pub origin: OriginAddress,
    /// The longest prefix first; the last one is `/`.
    routes: Vec<Route>,
}

/// Settings for the paths with one prefix.
#[derive(Clone, Debug)]
pub struct Route {
    /// The prefix, which begins with `/`.
    pub path_prefix: String,
    /// Settings of the paths with this prefix.
    pub settings: RouteSettings,
    /// The route's number in the configuration.
    pub(crate) number: RouteNumber,
    /// Index of the route's rule set, which includes the rules of the server and of the site.
    pub(super) rule_set: usize,
    /// Rule files of site and route; used only while the configuration is read.
    rule_files: Vec<NamedFile>,
}

impl PartialEq for Route {
    fn eq(&self, other: &Route) -> bool {
        self.path_prefix == other.path_prefix
            && self.settings == other.settings
            && self.rule_set == other.rule_set
    }
}

/// The number of a site in the order of the configuration, and of a route in [`Site::routes`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RouteNumber {
    pub(super) site: u32,
    pub(super) route: u32,
}

/// A host, or hosts, in lower case.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HostPattern {
    /// This host.
    Exact(String),
    /// Every name that ends in a dot and this text.
    Below(String),
    /// Every host.
    Any,
}

/// The address of an origin.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OriginAddress {
    /// Name or address, in lower case, without the brackets of an IPv6 address.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Host and port as in a URL; the port is left out if it is 80.
    pub authority: String,
}

impl Site {
    /// Returns a site; `fallback` is its route for `/` if `routes` has none.
    pub(crate) fn new(
        name: String,
        names: Vec<HostPattern>,
        origin: OriginAddress,
        mut routes: Vec<Route>,
        fallback: Route,
    ) -> Site {
        if routes.iter().all(|route| route.path_prefix != "/") {
            routes.push(fallback);
        }
        routes.sort_by_key(|route| std::cmp::Reverse(route.path_prefix.len()));
        Site { name, names, origin, routes }
    }

    /// The site that serves every host from one origin, named by the origin's authority.
    pub(crate) fn of_origin(origin: OriginAddress, settings: RouteSettings) -> Site {
        let name = origin.authority.clone();
        let fallback = Route::new("/", settings, Vec::new());
        Site::new(name, vec![HostPattern::Any], origin, Vec::new(), fallback)
    }

    /// The route for a path, with or without query: the longest prefix that matches. A target that
    /// matches none, such as the `*` of OPTIONS, belongs to the route of `/`.
    pub fn route(&self, path: &[u8]) -> &Route {
        let (fallback, others) = self.routes.split_last().expect("a site has the route of /");
        others.iter().find(|route| route.matches(path)).unwrap_or(fallback)
    }

    /// Numbers the routes; `site` is the number of this site.
    pub(super) fn set_numbers(&mut self, site: u32) {
        for (route, of_site) in (0..).zip(&mut self.routes) {
            of_site.number = RouteNumber { site, route };
        }
    }

    /// The rule files of all routes, those of the site included.
    pub(crate) fn rule_files(&self) -> impl Iterator<Item = &NamedFile> {
        self.routes.iter().flat_map(|route| &route.rule_files)
    }

    /// Gives each route the index of the rule set that `plan` makes of its files.
    pub(crate) fn plan_rules(&mut self, mut plan: impl FnMut(&[NamedFile]) -> usize) {
        for route in &mut self.routes {
            route.rule_set = plan(&route.rule_files);
        }
    }

    /// The site's routes, the longest prefix first; the last one is `/`.
    pub fn routes(&self) -> &[Route] {
        &self.routes
    }
}

impl Route {
    pub(crate) fn new(
        path_prefix: &str,
        settings: RouteSettings,
        rule_files: Vec<NamedFile>,
    ) -> Route {
        let number = RouteNumber::default();
        Route { path_prefix: path_prefix.to_owned(), settings, number, rule_set: 0, rule_files }
    }

    /// A prefix matches whole segments: after it the path ends, or a query or a `/` follows.
    fn matches(&self, path: &[u8]) -> bool {
        let prefix = self.path_prefix.as_bytes();
        path.strip_prefix(prefix).is_some_and(|rest| {
            matches!(rest.first(), None | Some(b'/' | b'?')) || prefix.ends_with(b"/")
        })
    }
}

impl HostPattern {
    /// Whether some host matches both.
    pub(crate) fn meets(&self, other: &HostPattern) -> bool {
        use HostPattern::{Any, Below, Exact};
        let is_below = |host: &str, above: &str| {
            host.strip_suffix(above).is_some_and(|front| front.ends_with('.') && front.len() > 1)
        };
        match (self, other) {
            (Any, _) | (_, Any) => true,
            (Exact(one), Exact(other)) => one == other,
            (Exact(host), Below(above)) | (Below(above), Exact(host)) => is_below(host, above),
            (Below(one), Below(other)) => {
                one == other || is_below(one, other) || is_below(other, one)
            }
        }
    }

    /// Reads `example.org`, `*.example.org`, `[::1]` or `*`.
    pub(crate) fn parse(text: &str) -> Result<HostPattern, ValueProblem> {
        if text == "*" {
            return Ok(HostPattern::Any);
        }
        let (below, host) = match text.strip_prefix("*.") {
            Some(host) => (true, host),
            None => (false, text),
        };
        if let Err(why) = check_host(host) {
            return Err(NAMES.problem(format_args!("cannot have {text:?}")).hint(why));
        }
        let host = host.to_ascii_lowercase();
        Ok(if below { HostPattern::Below(host) } else { HostPattern::Exact(host) })
    }
}

impl std::fmt::Display for HostPattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            HostPattern::Exact(host) => f.write_str(host),
            HostPattern::Below(host) => write!(f, "*.{host}"),
            HostPattern::Any => f.write_str("*"),
        }
    }
}

/// A DNS name, an IPv4 address, or an IPv6 address in brackets.
fn check_host(host: &str) -> Result<(), String> {
    if let Some(address) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        let parsed = address.parse::<std::net::Ipv6Addr>();
        return parsed.map(drop).map_err(|_| "only IPv6 addresses have brackets".to_owned());
    }
    if host.is_empty() || host.len() > HOST_BYTES_MAX {
        return Err(format!("a host name has 1 to {HOST_BYTES_MAX} letters"));
    }
    if !host.is_ascii() {
        return Err("write the ASCII form of the name, which begins with xn--".to_owned());
    }
    if host.contains("://") || host.contains('/') {
        return Err("only the host name stands here, without scheme and path".to_owned());
    }
    if host.contains(':') {
        return Err("only the host name stands here, without port; it is served on every port, \
                    and an IPv6 address stands in brackets"
            .to_owned());
    }
    if host.contains('*') {
        return Err("a star can only be the whole first part, as in \"*.example.org\"".to_owned());
    }
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    match host.split('.').all(|label| !label.is_empty() && label.bytes().all(allowed)) {
        true => Ok(()),
        false => Err("a host name has letters, digits and - between single dots".to_owned()),
    }
}

impl OriginAddress {
    /// Reads `http://HOST[:PORT]`; the port is 80 if not given.
    pub(crate) fn parse(url: &str) -> Result<OriginAddress, ValueProblem> {
        let refused = |hint: String| ORIGIN.problem(format_args!("cannot be {url:?}")).hint(hint);
        let (scheme, rest) = match url.split_once("://") {
            Some((scheme, rest)) => (scheme.to_ascii_lowercase(), rest),
            None => return Err(refused(format!("write \"http://{url}\""))),
        };
        if scheme == "https" {
            return Err(refused("TLS to origins is not supported yet".to_owned()));
        }
        if scheme != "http" {
            return Err(refused("the origin has to speak HTTP".to_owned()));
        }
        if rest.contains('@') {
            return Err(refused("a user name or password cannot stand here".to_owned()));
        }
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        if authority.contains(['/', '?', '#']) {
            return Err(refused(
                "leave out the path: requests keep the path they come with".into(),
            ));
        }
        OriginAddress::of_authority(authority).map_err(refused)
    }

    fn of_authority(authority: &str) -> Result<OriginAddress, String> {
        let behind_address = authority.rfind(']').map_or(0, |at| at + 1);
        let (host, port) = match authority[behind_address..].rfind(':') {
            Some(at) => authority.split_at(behind_address + at),
            None => (authority, ""),
        };
        check_host(host)?;
        let port = match port.strip_prefix(':') {
            None => 80,
            Some(digits) => match digits.parse::<u16>() {
                Ok(port) if port != 0 && !digits.starts_with('+') => port,
                _ => return Err("a port is a number from 1 to 65535".to_owned()),
            },
        };
        let in_url = host.to_ascii_lowercase();
        let host = in_url.trim_start_matches('[').trim_end_matches(']').to_owned();
        let authority = if port == 80 { in_url } else { format!("{in_url}:{port}") };
        Ok(OriginAddress { host, port, authority })
    }
}

impl Readable for OriginAddress {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        OriginAddress::parse(setting.text(raw)?)
    }
}

/// Reads `name` of a site.
pub(crate) fn read_name(raw: RawValue<'_>, setting: &Setting) -> Result<String, ValueProblem> {
    let text = setting.text(raw)?;
    if text.len() > HOST_BYTES_MAX || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(setting.problem(format_args!("cannot be {text:?}")));
    }
    Ok(text.to_owned())
}

/// Reads `path_prefix` of a route.
pub(crate) fn read_prefix(raw: RawValue<'_>, setting: &Setting) -> Result<String, ValueProblem> {
    let text = setting.text(raw)?;
    let refused = setting.problem(format_args!("cannot be {text:?}"));
    if !text.starts_with('/') {
        return Err(refused.hint(format!("write \"/{text}\"")));
    }
    if text.contains(['*', '?', '#']) {
        return Err(refused.hint("it is the beginning of a path, without patterns and query"));
    }
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(refused.hint("write it as it stands in a request, percent-encoded"));
    }
    Ok(text.to_owned())
}
