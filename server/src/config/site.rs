//! A configured origin with its names and routes.

use std::borrow::Borrow;
use std::net::SocketAddr;
use std::sync::Arc;

use forebay_http::path::PathReading;

use super::access_logs::LogNumber;
use super::lists::ConnectPorts;
use super::origins::OriginGroup;
use super::route::{Route, RouteNumber, RoutePaths};
use super::rules::NamedFile;
use super::setting::{RawValue, Setting, ValueProblem};
use super::table::{NAMES, RouteSettings, SiteSettings};
use super::tls::CertificateSet;
use super::tls::client_auth::ClientAuthMode;
use crate::limits::HOST_BYTES_MAX;

/// The origins of one service, the host names under which they are served, and their routes.
#[derive(Clone, Debug, PartialEq)]
pub struct Site {
    /// The name of the site in logs and in keys of stored responses.
    pub name: String,
    /// The hosts that the site serves.
    pub names: Vec<HostPattern>,
    /// The only addresses at which the site is served; empty if it is served at every address that
    /// other sites leave to it.
    pub listen: Vec<SocketAddr>,
    /// The origins to which the requests of those routes go that have none of their own.
    pub origins: Arc<OriginGroup>,
    /// The settings from which the parts of the site were made.
    pub(super) settings: SiteSettings,
    /// The access log of the site's requests; `None` if it is off.
    pub(crate) log: Option<LogNumber>,
    /// The site's own certificates; if `None`, the site uses those of the configuration.
    pub certificates: Option<Arc<CertificateSet>>,
    /// The identity of the certificates that serve the site's names; 0 if there are none.
    pub(crate) certificates_id: u64,
    /// The site's routes: first those with a regular expression, in the order of the file, then
    /// paths and prefixes, the longest first. Routes of the same paths are neighbours: those with
    /// conditions, in the order of the file, then the one without. The last route has the prefix
    /// `/` and no conditions.
    routes: Vec<Route>,
    /// The number of routes with a regular expression.
    regex_count: usize,
    /// Whether a route has conditions beside its paths.
    has_conditions: bool,
    /// Whether a route has conditions on the query.
    has_query_conditions: bool,
}

/// A pattern that matches one host or many, in lower case.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HostPattern {
    /// Only this host.
    Exact(String),
    /// Every host that ends in a dot followed by this text.
    Below(String),
    /// Every host.
    Any,
}

impl Site {
    /// Creates a site; `fallback` becomes its route for `/` if `routes` has none.
    pub(crate) fn new(
        name: String,
        names: Vec<HostPattern>,
        origins: OriginGroup,
        mut routes: Vec<Route>,
        fallback: Route,
    ) -> Site {
        if !routes.iter().any(Route::has_all_paths) {
            routes.push(fallback);
        }
        let mut routes = sorted(routes);
        Route::number_alike(&mut routes);
        let origins = Arc::new(origins.keyed(&name, None));
        for route in &mut routes {
            route.settle_origins(&name, &origins);
            route.settle_limits(&name);
        }
        Site {
            name,
            names,
            listen: Vec::new(),
            origins,
            settings: SiteSettings::default(),
            log: None,
            certificates: None,
            certificates_id: 0,
            regex_count: routes.iter().filter(|route| route.paths.are_matching()).count(),
            has_conditions: routes.iter().any(|route| route.conditions.is_some()),
            has_query_conditions: routes.iter().any(Route::depends_on_query),
            routes,
        }
    }

    /// Gives the site the settings from which its parts were made.
    pub(super) fn with_settings(mut self, settings: SiteSettings) -> Site {
        let forwards = self.routes.iter().any(|route| route.settings.forward_client_certificate);
        for route in &mut self.routes {
            route.settle_certificates(settings.tls_client_auth, forwards);
        }
        Site { settings, ..self }
    }

    /// Whether clients are asked for certificates.
    pub(super) fn asks_for_certificates(&self) -> bool {
        self.settings.tls_client_auth != ClientAuthMode::Off
    }

    /// Returns the problem with routes that require certificates for which no client is asked, if
    /// there is one.
    pub(super) fn problem_with_certificates(&self) -> Option<ValueProblem> {
        let requires = self.routes.iter().any(Route::requires_certificate);
        (requires && !self.asks_for_certificates()).then(|| {
            let text = "`client_certificate` needs `tls_client_auth`";
            let hint = "write tls_client_auth = \"optional\" and tls_client_ca = [\"FILE.pem\"] in \
                        the [[site]], or before the first section";
            ValueProblem::new(text).hint(hint)
        })
    }

    /// Creates a site that serves every host from `origins`. Its name is the authority of the first
    /// origin.
    pub(crate) fn of_origins(origins: OriginGroup, settings: RouteSettings) -> Site {
        let first = origins.first().expect("the flag --origin has a URL");
        let name = match &first.tls {
            // A response stored for one scheme must not be used for the other.
            Some(_) => format!("https://{}", first.authority),
            None => first.authority.clone(),
        };
        let fallback = Route::new(RoutePaths::below("/"), settings, Vec::new());
        Site::new(name, vec![HostPattern::Any], origins, Vec::new(), fallback)
    }

    /// Returns the route that has every path and no conditions.
    pub(crate) fn route_of_all_paths(&self) -> &Route {
        self.routes.last().expect("every site has a route for /")
    }

    /// Returns the ports to which clients may open tunnels by CONNECT.
    pub(crate) fn connect_ports(&self) -> &ConnectPorts {
        &self.settings.connect_ports
    }

    /// Returns the route of a path, which may include a query. This is the route with exactly the
    /// path, else the first regular expression that matches, else the longest prefix. If the
    /// longest prefix has `before_regex`, no regular expression is tried. A target that is no path,
    /// such as the `*` of OPTIONS, belongs to the route of `/`.
    ///
    /// If the requests for the path can have several routes, this is the one whose responses may be
    /// stored.
    pub fn route(&self, path: &[u8]) -> &Route {
        self.route_of_reading(PathReading { path, is_decoded: false }, Route::may_store)
    }

    /// Returns the route for one reading of a path, that is, for one way in which an origin may
    /// interpret the path. `meets` tells whether the request meets the conditions of a route.
    #[inline]
    pub(crate) fn route_of_reading(
        &self,
        reading: PathReading<'_>,
        meets: impl Fn(&Route) -> bool,
    ) -> &Route {
        let PathReading { path, is_decoded } = reading;
        let (fallback, others) = self.routes.split_last().expect("every site has a route for /");
        let (patterns, plain) = others.split_at(self.regex_count);
        let matches = |route: &&Route| route.paths.have(path, is_decoded) && meets(route);
        let found = plain.iter().find(matches).unwrap_or(fallback);
        match patterns.is_empty() || found.is_before_regex {
            true => found,
            false => patterns.iter().find(matches).unwrap_or(found),
        }
    }

    /// Whether a route of the site has conditions beside its paths, so that requests for one URL
    /// can have several routes.
    pub(crate) fn has_conditions(&self) -> bool {
        self.has_conditions
    }

    /// Returns the routes with one reading of a path that depend on the query, too.
    pub(crate) fn query_routes<'a>(
        &'a self,
        PathReading { path, is_decoded }: PathReading<'a>,
    ) -> impl Iterator<Item = &'a Route> {
        let routes = if self.has_query_conditions { &self.routes[..] } else { &[] };
        let depending = routes.iter().filter(|route| route.depends_on_query());
        depending.filter(move |route| route.paths.have(path, is_decoded))
    }

    /// Returns the reasons why a request for a path has this route, unless the paths of the route
    /// say so.
    pub(crate) fn reasons_for(&self, route: &Route, path: &[u8]) -> Vec<String> {
        let of_paths = self.reason_of_paths(route).map(str::to_owned);
        let of_conditions = match route.conditions {
            Some(_) => Some("the request meets the conditions of this route".to_owned()),
            None => self.unmet(route, path).map(|other| {
                format!("the request does not meet the conditions of {}", other.shown_path())
            }),
        };
        of_paths.into_iter().chain(of_conditions).collect()
    }

    /// Returns the first route of a path that comes before `route`, and whose conditions the
    /// requests of `route` do not meet.
    fn unmet(&self, route: &Route, path: &[u8]) -> Option<&Route> {
        let earlier = self.routes.get(..route.number.route as usize)?.iter();
        let mut earlier =
            earlier.filter(|one| !(route.is_before_regex && one.paths.are_matching()));
        earlier.find(|one| one.paths.have(path, false))
    }

    /// Returns the reason that follows from the path alone, if the site has regular expressions.
    fn reason_of_paths(&self, route: &Route) -> Option<&'static str> {
        let has_patterns = self.regex_count > 0;
        has_patterns.then_some(match route.paths {
            RoutePaths::Exact(_) => "a single path wins over regular expressions",
            RoutePaths::Matching(_) => "this is the first regular expression that matches",
            RoutePaths::Below(_) if route.is_before_regex => {
                "the longest prefix wins, because it has before_regex"
            }
            RoutePaths::Below(_) => "no regular expression matches; this is the longest prefix",
        })
    }

    /// Sets the numbers of the routes; `site` is the index of this site in the configuration.
    pub(super) fn set_numbers(&mut self, site: u32) {
        for (route, of_site) in (0..).zip(&mut self.routes) {
            of_site.number = RouteNumber { site, route };
        }
    }

    /// Replaces the groups of origins of the site and of its routes for which `change` returns
    /// another one. Returns whether there are any.
    pub(super) fn change_origins(
        &mut self,
        change: impl Fn(&OriginGroup) -> Option<OriginGroup>,
    ) -> bool {
        let mut has_changed = false;
        if let Some(changed) = change(&self.origins) {
            self.origins = Arc::new(changed);
            has_changed = true;
        }
        for route in &mut self.routes {
            match route.own_origins {
                None => route.origins = Arc::clone(&self.origins),
                Some(_) => {
                    if let Some(changed) = change(&route.origins) {
                        route.origins = Arc::new(changed);
                        has_changed = true;
                    }
                }
            }
        }
        has_changed
    }

    /// Returns the rule files of all routes, including the files of the site.
    pub(crate) fn rule_files(&self) -> impl Iterator<Item = &NamedFile> {
        self.routes.iter().flat_map(|route| &route.rule_files)
    }

    /// Gives each route the index of a rule set, which `plan` returns for the route's files.
    pub(crate) fn plan_rules(&mut self, mut plan: impl FnMut(&[NamedFile]) -> usize) {
        for route in &mut self.routes {
            route.rule_set = plan(&route.rule_files);
        }
    }

    /// Returns the site's routes. The last route has the prefix `/`.
    pub fn routes(&self) -> &[Route] {
        &self.routes
    }
}

/// Returns routes in the order of [`Site::routes`].
pub(super) fn sorted<R: Borrow<Route>>(routes: Vec<R>) -> Vec<R> {
    // Regular expressions keep the order of the file, in which the first of several routes of the
    // same expression counts.
    let position = |route: &Route| match route.paths.are_matching() {
        true => routes.iter().position(|other| other.borrow().paths == route.paths),
        false => None,
    };
    let rank = |route: &Route| (route.paths.rank(), position(route), route.conditions.is_none());
    let ranks: Vec<_> = routes.iter().map(|route| rank(route.borrow())).collect();
    let mut ranked: Vec<_> = ranks.into_iter().zip(routes).collect();
    ranked.sort_by(|(rank, _), (other, _)| rank.cmp(other));
    ranked.into_iter().map(|(_, route)| route).collect()
}

impl HostPattern {
    /// Whether any host matches both patterns.
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
            let names: Vec<_> = text.split([' ', ',']).filter(|name| !name.is_empty()).collect();
            let why = match names.len() {
                0 | 1 => why,
                _ => format!("write each name in quotes of its own: {names:?}"),
            };
            return Err(NAMES.problem(format_args!("cannot contain {text:?}")).hint(why));
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

/// Checks that `host` is a DNS name, an IPv4 address, or an IPv6 address in brackets.
pub(super) fn check_host(host: &str) -> Result<(), String> {
    if let Some(address) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        let parsed = address.parse::<std::net::Ipv6Addr>();
        return parsed.map(drop).map_err(|_| "only an IPv6 address can be in brackets".to_owned());
    }
    if host.is_empty() || host.len() > HOST_BYTES_MAX {
        return Err(format!("a host name has 1 to {HOST_BYTES_MAX} characters"));
    }
    if !host.is_ascii() {
        return Err(format!(
            "write the ASCII form of the name, which begins with xn--; `idn2 {host}` prints it"
        ));
    }
    if host.contains("://") || host.contains('/') {
        let bare = host.split_once("://").map_or(host, |(_, rest)| rest);
        let bare = bare.split(['/', ':']).next().unwrap_or_default();
        return Err(format!("write only the host name, without a scheme or a path: {bare:?}"));
    }
    if host.contains(':') {
        return Err(match host.split_once(':') {
            Some((name, port))
                if name.contains(|c: char| c.is_ascii_alphanumeric())
                    && port.bytes().all(|byte| byte.is_ascii_digit()) =>
            {
                format!("write {name:?}: without `listen`, the site is served on every port")
            }
            _ if host.parse::<std::net::Ipv6Addr>().is_ok() => {
                format!("write an IPv6 address in brackets: \"[{host}]\"")
            }
            _ => "a host name has no colons; an IPv6 address is in brackets".to_owned(),
        });
    }
    if host == "_" {
        return Err("for requests that no other site takes, write \"*\"".to_owned());
    }
    if host.starts_with('~') {
        return Err(
            "a name is no regular expression; \"*.example.org\" is every name below one".to_owned()
        );
    }
    if let Some(name) = host.strip_prefix('.').filter(|name| !name.starts_with('.')) {
        return Err(format!("write both \"{name}\" and \"*.{name}\""));
    }
    if host.contains('*') {
        return Err(
            "a * can only be the whole first part of the name, as in \"*.example.org\"".to_owned()
        );
    }
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    match host.split('.').all(|label| !label.is_empty() && label.bytes().all(allowed)) {
        true => Ok(()),
        false => Err("a host name has letters, digits, - and _ between single dots".to_owned()),
    }
}

/// Reads the `name` of a site.
pub(crate) fn read_name(raw: RawValue<'_>, setting: &Setting) -> Result<String, ValueProblem> {
    let text = setting.text(raw)?;
    if text.len() > HOST_BYTES_MAX || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(setting.problem(format_args!("cannot be {text:?}")));
    }
    Ok(text.to_owned())
}
