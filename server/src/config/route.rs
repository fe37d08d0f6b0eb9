//! A route of a site: the paths that it has, with their settings and rules.

mod conditions;
mod paths;
mod read;
mod restrictions;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use forebay_http::request::Method;

pub(crate) use self::conditions::{NamedValue, RouteConditions};
pub(crate) use self::paths::RoutePaths;
pub(super) use self::paths::read_prefix;
pub(super) use self::read::RoutesSoFar;

use super::origins::OriginGroup;
use super::route_origins::RouteOrigins;
use super::rules::NamedFile;
use super::table::{RouteSettings, SiteSettings};
use super::tls::client_auth::{CertificateDemand, ClientAuthMode};
use super::value::AmbiguousPath;

/// Settings and rules for some paths of a site.
#[derive(Clone, Debug)]
pub struct Route {
    /// The paths.
    pub(crate) paths: RoutePaths,
    /// The properties that a request must have beside one of the paths; `None` if there are none.
    pub(crate) conditions: Option<Box<RouteConditions>>,
    /// The number of the route among those of its site that look the same to people, from 1: they
    /// differ in values that may be secrets.
    shown_number: u32,
    /// Whether the route wins over regular expressions that match the same path.
    pub(super) is_before_regex: bool,
    /// The index of the route's section among those of its site in the file; `None` for the route
    /// of `/` if it has no section.
    pub(super) section: Option<usize>,
    /// Settings of these paths.
    pub settings: RouteSettings,
    /// The origins to which the route's requests go: those of the site, or its own.
    pub origins: Arc<OriginGroup>,
    /// The settings of the route's own origins; `None` if it has those of its site.
    pub(super) own_origins: Option<Box<SiteSettings>>,
    /// Whether a request may be refused because of its client: by its address, its certificate, its
    /// password or a limit on requests; or whether its fields about the client's certificate are
    /// replaced.
    is_restricted: bool,
    /// Whether a request needs a verified certificate of its client.
    requires_certificate: bool,
    /// Whether the origin may take the field `Client-Cert` for the certificate of a client, so that
    /// it gets none that a client has made up.
    removes_certificate_fields: bool,
    /// Whether the settings change fields of every response.
    changes_heads: bool,
    /// Whether the route has a list of rate limits of its own, in place of its site's.
    pub(super) has_own_limits: bool,
    /// The same for limits on requests in progress.
    pub(super) has_own_concurrency: bool,
    /// The identities of the counts of `settings.rate_limit`.
    pub(crate) limit_ids: Box<[u64]>,
    /// The identities of the counts of `settings.concurrency_limit`.
    pub(crate) concurrency_ids: Box<[u64]>,
    /// Whether the settings redirect requests or give a fixed answer.
    answers_itself: bool,
    /// The route's number in the configuration.
    pub(crate) number: RouteNumber,
    /// The index of the route's rule set, which includes the rules of the server and of the site.
    pub(super) rule_set: usize,
    /// The rule files of site and route; used only while the configuration is read.
    pub(super) rule_files: Vec<NamedFile>,
}

impl PartialEq for Route {
    fn eq(&self, other: &Route) -> bool {
        (&self.paths, &self.conditions) == (&other.paths, &other.conditions)
            && self.is_before_regex == other.is_before_regex
            && self.settings == other.settings
            && self.rule_set == other.rule_set
            && self.own_origins == other.own_origins
            && self.origins == other.origins
    }
}

/// Identifies a route: the index of its site in the configuration, and the route's index in
/// [`Site::routes`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RouteNumber {
    pub(super) site: u32,
    pub(super) route: u32,
}

impl RouteNumber {
    /// Returns the index of the route in [`Site::routes`].
    pub(crate) fn in_site(self) -> usize {
        self.route as usize
    }
}

impl Route {
    pub(crate) fn new(
        paths: RoutePaths,
        settings: RouteSettings,
        rule_files: Vec<NamedFile>,
    ) -> Route {
        let is_restricted = has_address_list(&settings)
            || settings.basic_auth.users().is_some()
            || settings.signed_urls.keys().is_some()
            || settings.forward_client_certificate
            || !settings.rate_limit.is_empty()
            || !settings.concurrency_limit.is_empty();
        Route {
            is_before_regex: matches!(paths, RoutePaths::Exact(_)),
            paths,
            conditions: None,
            shown_number: 1,
            section: None,
            origins: Arc::default(),
            own_origins: None,
            is_restricted,
            requires_certificate: false,
            removes_certificate_fields: settings.forward_client_certificate,
            changes_heads: settings.hsts.0.is_some() || settings.uses_credentials(),
            has_own_limits: false,
            has_own_concurrency: false,
            limit_ids: Box::default(),
            concurrency_ids: Box::default(),
            answers_itself: settings.https_redirect_port != 0 || settings.has_answer(),
            settings,
            number: RouteNumber::default(),
            rule_set: 0,
            rule_files,
        }
    }

    /// Decides whether requests need a certificate of their client; `mode` is that of the site.
    /// `site_forwards` says whether a route of the site forwards certificates.
    pub(super) fn settle_certificates(&mut self, mode: ClientAuthMode, site_forwards: bool) {
        self.requires_certificate = match self.settings.client_certificate {
            CertificateDemand::Auto => mode == ClientAuthMode::Required,
            CertificateDemand::Required => true,
            CertificateDemand::Off => false,
        };
        self.removes_certificate_fields = mode != ClientAuthMode::Off || site_forwards;
        self.is_restricted |= self.requires_certificate || self.removes_certificate_fields;
        self.changes_heads |= self.requires_certificate;
    }

    /// Whether the origin does not know that its responses are only for some clients.
    pub(crate) fn hides_clients(&self) -> bool {
        let has_hidden = self.requires_certificate && !self.settings.forward_client_certificate;
        self.settings.uses_credentials() || has_hidden
    }

    /// Whether a request needs a verified certificate of its client.
    pub(crate) fn requires_certificate(&self) -> bool {
        self.requires_certificate
    }

    /// Whether the fields of requests that state the certificate of a client are removed.
    pub(crate) fn removes_certificate_fields(&self) -> bool {
        self.removes_certificate_fields
    }

    /// Sets whether the route has lists of its own: of rate limits, and of concurrency limits.
    pub(crate) fn with_own_limits(self, has_own_limits: bool, has_own_concurrency: bool) -> Route {
        Route { has_own_limits, has_own_concurrency, ..self }
    }

    /// Gives the limits of the route the identities of their counts.
    pub(super) fn settle_limits(&mut self, site: &str) {
        let paths = |is_own: bool| if is_own { self.identity() } else { String::new() };
        let (of_rates, of_requests) = (paths(self.has_own_limits), paths(self.has_own_concurrency));
        self.limit_ids = self.settings.rate_limit.identities(site, &of_rates);
        self.concurrency_ids = self.settings.concurrency_limit.identities(site, &of_requests);
    }

    /// Whether the client of a request must be looked at before anything else of the route is
    /// used: it may be refused because of its address, its certificate, its password or a limit on
    /// requests, or the request must not state a certificate of its own.
    #[inline]
    pub(crate) fn is_restricted(&self) -> bool {
        self.is_restricted
    }

    /// Whether the settings of the route change fields of every response.
    #[inline]
    pub(crate) fn changes_heads(&self) -> bool {
        self.changes_heads
    }

    /// Whether the route serves a client with this address; `None` if the address is not known.
    pub(crate) fn admits(&self, address: Option<IpAddr>) -> bool {
        if !has_address_list(&self.settings) {
            return true;
        }
        let Some(address) = address else { return false };
        let RouteSettings { allow_from, deny_from, .. } = &self.settings;
        !deny_from.contains(address) && (allow_from.is_empty() || allow_from.contains(address))
    }

    /// Gives the route origins of its own.
    pub(super) fn with_origins(self, own: Option<RouteOrigins>) -> Route {
        let Some(RouteOrigins { group, settings }) = own else { return self };
        Route { origins: Arc::new(group), own_origins: Some(Box::new(settings)), ..self }
    }

    /// Gives the route the origins of its site if it has none of its own, and its own a key.
    pub(super) fn settle_origins(&mut self, site: &str, of_site: &Arc<OriginGroup>) {
        if self.own_origins.is_none() {
            self.origins = Arc::clone(of_site);
            return;
        }
        let own = OriginGroup::clone(&self.origins);
        self.origins = Arc::new(own.keyed(site, Some(&self.shown_path())));
    }

    /// Whether both routes, which are of one site, get the response for a path from the same place:
    /// they have the same origins, which get the same host and path, or they are one route.
    pub(crate) fn has_source_of(&self, other: &Route) -> bool {
        let (own, others) = (&self.settings, &other.settings);
        let has_files = own.files.get().is_some() || others.files.get().is_some();
        let has_same_origins = !has_files
            && Arc::ptr_eq(&self.origins, &other.origins)
            && own.origin_host == others.origin_host
            && own.origin_add_prefix == others.origin_add_prefix
            && self.stripped_prefix() == other.stripped_prefix();
        self.number == other.number || has_same_origins
    }

    /// Whether the route has origins of its own with TLS.
    pub(super) fn has_own_tls(&self) -> bool {
        let has_tls = self.origins.members.iter().any(|member| member.address.tls.is_some());
        self.own_origins.is_some() && has_tls
    }

    /// Whether the route needs no origins of its site.
    pub(super) fn needs_no_site_origin(&self) -> bool {
        self.own_origins.is_some() || self.settings.needs_no_origin()
    }

    /// Returns the beginning of the paths that the origin does not get, without a slash at its end;
    /// empty if it gets the whole path.
    pub(crate) fn stripped_prefix(&self) -> &str {
        match self.settings.origin_strip_prefix && !self.paths.are_matching() {
            true => self.paths.text().trim_end_matches('/'),
            false => "",
        }
    }

    /// Whether the route redirects requests or gives a fixed answer.
    #[inline]
    pub(crate) fn answers_itself(&self) -> bool {
        self.answers_itself
    }

    /// Whether every path of the site that has no other route belongs to this route.
    pub(super) fn has_all_paths(&self) -> bool {
        self.paths.are_all() && self.conditions.is_none()
    }

    /// Whether requests with the method GET can belong to this route.
    pub(super) fn has_get(&self) -> bool {
        self.conditions.as_deref().is_none_or(|conditions| conditions.have_method(Method::Get))
    }

    /// Whether a request needs parameters in its query to belong to this route.
    pub(super) fn depends_on_query(&self) -> bool {
        self.conditions.as_deref().is_some_and(|conditions| !conditions.query.is_empty())
    }

    /// Whether the stored responses for the URLs of its paths may belong to this route: every GET
    /// request that is no request of an earlier route belongs to it, whatever its fields.
    pub(crate) fn may_store(&self) -> bool {
        self.conditions.as_deref().is_none_or(RouteConditions::permit_storing)
    }

    /// Returns the paths and conditions of the route, for people. Each route of a site has another
    /// text.
    pub fn shown_path(&self) -> String {
        let number = match self.shown_number {
            1 => String::new(),
            number => format!(" ({number})"),
        };
        match &self.conditions {
            Some(conditions) => format!("{}{conditions}{number}", self.paths),
            None => self.paths.to_string(),
        }
    }

    /// Returns the paths and conditions of the route, with values that may be secrets.
    pub(super) fn identity(&self) -> String {
        let conditions = self.conditions.as_deref().map(RouteConditions::identity);
        format!("{}{}", self.paths, conditions.unwrap_or_default())
    }

    /// Numbers those routes of a site that look the same to people.
    pub(super) fn number_alike(routes: &mut [Route]) {
        let mut counts: HashMap<String, u32> = HashMap::new();
        for route in routes.iter_mut().filter(|route| route.conditions.is_some()) {
            let count = counts.entry(route.shown_path()).or_default();
            *count += 1;
            route.shown_number = *count;
        }
    }

    /// Whether the route refuses a path that may belong to it or to another route.
    pub(crate) fn refuses_ambiguous(&self) -> bool {
        self.settings.ambiguous_path == AmbiguousPath::Refuse
    }
}

fn has_address_list(settings: &RouteSettings) -> bool {
    !settings.allow_from.is_empty() || !settings.deny_from.is_empty()
}
