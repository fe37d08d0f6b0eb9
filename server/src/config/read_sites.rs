//! The `[[site]]` and `[[site.route]]` sections of a file.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::error::ProblemSpan;
use super::files::FilesDirectory;
use super::origins::{Balance, OriginGroup};
use super::read::{Reader, Value, find, raw};
use super::route::{Route, RoutePaths, RoutesSoFar};
use super::route_origins::{is_origin_key, origin_settings};
use super::rules::{NamedFile, named_files};
use super::setting::{Setting, ValueProblem};
use super::site::{HostPattern, Site, read_name};
use super::table::{
    self, BALANCE, NAME, NAMES, ORIGIN, PER_SITE, ROUTE, ROUTE_ONLY, RULES, RouteSettings,
    ServerSettings, Settings, SiteSettings,
};
use super::tls::PlaceOf;
use super::tls::client_auth::unused_authorities;
use super::value::{FixedAnswer, Redirect};
use crate::limits::ROUTES_PER_SITE_MAX;

/// For each site name and each host pattern, the offset at which it is first used; and the
/// routes that have been read.
#[derive(Default)]
struct FirstUses {
    site_names: HashMap<String, usize>,
    /// The hosts at each address that a site names, and those of sites without `listen`.
    hosts: HashMap<(Option<SocketAddr>, HostPattern), usize>,
    routes: RoutesSoFar,
}

/// The settings at the top of the file, and their positions there.
#[derive(Clone, Copy)]
pub(super) struct SiteDefaults<'a> {
    pub(super) server: &'a ServerSettings,
    pub(super) site: &'a SiteSettings,
    pub(super) route: &'a RouteSettings,
    pub(super) places: &'a HashMap<&'static str, ProblemSpan>,
}

/// The values of a site that its routes inherit.
#[derive(Clone, Copy)]
struct SiteValues<'a> {
    settings: &'a RouteSettings,
    rules: &'a [NamedFile],
    /// The settings of the site's origins, and their positions.
    origins: (&'a SiteSettings, PlaceOf<'a>),
}

impl Reader<'_> {
    /// Reads the sites of all files; `values` has the `site` of each file that has one.
    pub(crate) fn sites(&mut self, values: &[&Value<'_>], defaults: SiteDefaults<'_>) -> Vec<Site> {
        if values.is_empty() && self.has_unknown_section {
            return Vec::new();
        }
        let has_tables =
            |value: &&Value<'_>| value.get_ref().as_array().is_none_or(|array| !array.is_empty());
        if !values.iter().any(has_tables) {
            let problem = ValueProblem::new("there is no [[site]], so there is nothing to serve")
                .hint(
                    "write [[site]], and below it the lines name = \"shop\", names = \
                     [\"example.org\"], origin = \"http://127.0.0.1:3000\"",
                );
            self.problem(ProblemSpan::File, problem);
            return Vec::new();
        }
        let mut seen = FirstUses::default();
        let tables: Vec<_> =
            values.iter().flat_map(|value| self.tables(value, "[[site]]")).collect();
        let read = tables.into_iter().filter_map(|section| {
            let header = section.0.clone();
            Some((header, self.site(section, defaults, &mut seen)?))
        });
        let sites: Vec<_> = read.collect();
        self.check_served(&sites, defaults.server);
        sites.into_iter().map(|(_, site)| site).collect()
    }

    /// Returns the tables of a `[[section]]`, each with its span; reports values that are not
    /// tables.
    fn tables<'v, 'i>(
        &mut self,
        value: &'v Value<'i>,
        section: &str,
    ) -> Vec<(Range<usize>, &'v DeTable<'i>)> {
        let Some(array) = value.get_ref().as_array() else {
            let problem = ValueProblem::new(format!("this has to be a {section} section"))
                .hint(format!("write {section}, with two brackets on each side"));
            self.problem(ProblemSpan::Span(value.span()), problem);
            return Vec::new();
        };
        let mut tables = Vec::new();
        for element in array.iter() {
            match element.get_ref().as_table() {
                Some(table) => tables.push((element.span(), table)),
                None => self.problem(
                    ProblemSpan::Span(element.span()),
                    ValueProblem::new(format!("this has to be a {section} section")),
                ),
            }
        }
        tables
    }

    fn site(
        &mut self,
        (header, table): (Range<usize>, &DeTable<'_>),
        defaults: SiteDefaults<'_>,
        seen: &mut FirstUses,
    ) -> Option<Site> {
        let mut settings = defaults.route.clone();
        let mut own = defaults.site.clone();
        let (mut rules, earlier) = (Vec::new(), self.problem_count());
        for (key, value) in table.iter() {
            if let Some(setting) = find(PER_SITE.iter(), key.get_ref()) {
                let read = own.set(setting, raw(value.get_ref()));
                self.keep_at(value.span(), read);
                continue;
            }
            match (find(ROUTE.iter(), key.get_ref()), &**key.get_ref()) {
                (Some(setting), _) => {
                    let read = settings.set(setting, raw(value.get_ref()));
                    self.keep_at(value.span(), read);
                }
                (None, "name" | "names" | "listen" | "origin" | "balance" | "route") => {}
                (None, "rules") => rules = named_files(self, &RULES, value),
                (None, _) => {
                    let known = table::SITE.iter().chain(PER_SITE).chain(ROUTE);
                    let known = known.map(|setting| setting.name).chain(["rules", "route"]);
                    self.unknown(key, value, "of a site", known);
                }
            }
        }
        if let Some(value) = table.get("access_log") {
            self.note_log(&own.access_log, ProblemSpan::Span(value.span()));
        }
        self.settle_answers(table, &mut settings);
        let has_unread = self.problem_count() > earlier;
        let name = self.needed(table, &NAME, &header).and_then(|value| self.name(value, seen));
        let listen = self.site_listen(table.get("listen"), defaults.server);
        let names = self.needed(table, &NAMES, &header);
        let names = names.map(|value| self.names(value, listen.as_deref(), seen));
        let at = |name| table.get(name).map(|value: &Value<'_>| ProblemSpan::Span(value.span()));
        let inherited_at = |name| at(name).or_else(|| defaults.places.get(name).cloned());
        let placed = (&own, &inherited_at as PlaceOf<'_>);
        let outer = SiteValues { settings: &settings, rules: &rules, origins: placed };
        let routes = table.get("route").map(|value| self.routes(value, outer, seen));
        let routes = routes.unwrap_or_default();
        let needs_none = (has_unread && has_answer(table)) || needs_no_origin(&routes, &settings);
        let origins = match table.get(ORIGIN.name) {
            None if needs_none => Some(OriginGroup::default()),
            _ => self.needed(table, &ORIGIN, &header).and_then(|value| {
                // An invalid `balance` must not hide errors of the origins.
                let balance = self.of_table(table, &BALANCE, Balance::default());
                let origins = self.origins(value, balance.unwrap_or_default())?;
                self.check_origin_terms((&origins, &routes), &own, &at);
                self.equip_origins(origins, &own, &inherited_at)
            }),
        };
        let fallback = Route::new(RoutePaths::below("/"), settings, rules);
        let certificates = match Self::uses_acme(table, &own) {
            true => self.acme_certificates(table, (&name, &names), placed, defaults),
            false => self.certificates(&own, &at, &inherited_at),
        };
        let mut site = Site::new(name?, names?, origins?, routes, fallback).with_settings(own);
        site.listen = listen?;
        site.certificates = certificates;
        self.check_client_certificates(&site, &header, table);
        if let Some(problem) = site.connect_ports().problem_with(site.route_of_all_paths()) {
            let at = at("connect_ports").or(at(ORIGIN.name));
            self.problem(at.unwrap_or(ProblemSpan::Span(header)), problem);
        }
        Some(site)
    }

    /// Reports settings about the certificates of clients that have no effect, and routes that need
    /// certificates for which no client is asked. The section of the site is `table` at `header`.
    fn check_client_certificates(
        &mut self,
        site: &Site,
        header: &Range<usize>,
        table: &DeTable<'_>,
    ) {
        let authorities = table.get("tls_client_ca").map(|value| value.span());
        if let Some(span) = authorities.filter(|_| !site.asks_for_certificates())
            && !table.contains_key("tls_client_auth")
        {
            self.problem(ProblemSpan::Span(span), unused_authorities());
        }
        if let Some(problem) = site.problem_with_certificates() {
            let span = certificate_demand(table).unwrap_or(header.clone());
            self.problem(ProblemSpan::Span(span), problem);
        }
    }

    /// Applies the one of `redirect`, `respond` and `files` that this section has, in place of
    /// those of outer sections. The fields that outer sections give their `respond` do not belong
    /// to this one.
    fn settle_answers(&mut self, table: &DeTable<'_>, settings: &mut RouteSettings) {
        let given: Vec<_> = settings
            .answers()
            .into_iter()
            .filter(|(_, is_on)| *is_on)
            .filter_map(|(name, _)| Some((name, table.get(name)?.span())))
            .collect();
        if let [(one, _), (other, span), ..] = &given[..] {
            let problem =
                ValueProblem::new(format!("`{one}` and `{other}` are in the same section"));
            let hint = "a request gets one answer, so leave one of them out";
            self.problem(ProblemSpan::Span(span.clone()), problem.hint(hint));
        }
        let Some((name, _)) = given.first() else { return };
        if *name != "redirect" {
            settings.redirect = Redirect::default();
        }
        if *name != "files" {
            settings.files = FilesDirectory::default();
        }
        if *name != "respond" {
            settings.respond = FixedAnswer::default();
            return;
        }
        let RouteSettings { respond_type, respond_retry_after_s, .. } = RouteSettings::default();
        if !table.contains_key("respond_type") {
            settings.respond_type = respond_type;
        }
        if !table.contains_key("respond_retry_after_s") {
            settings.respond_retry_after_s = respond_retry_after_s;
        }
    }

    /// Returns a required value of the section that begins at `header`, or reports that it is
    /// missing.
    pub(super) fn needed<'v, 'i>(
        &mut self,
        table: &'v DeTable<'i>,
        setting: &Setting,
        header: &Range<usize>,
    ) -> Option<&'v Value<'i>> {
        let value = table.get(setting.name);
        if value.is_none() {
            let problem = ValueProblem::new(format!("`{}` is missing here", setting.name));
            self.problem(
                ProblemSpan::Span(header.clone()),
                problem.expected(setting.kind.expected()),
            );
        }
        value
    }

    fn name(&mut self, value: &Value<'_>, seen: &mut FirstUses) -> Option<String> {
        let name = self.keep_at(value.span(), read_name(raw(value.get_ref()), &NAME))?;
        if let Some(first) = seen.site_names.get(&name) {
            self.clash(value, *first, format!("two sites have the name {name:?}"));
            return None;
        }
        seen.site_names.insert(name.clone(), value.span().start);
        Some(name)
    }

    /// Reports a value that has already occurred at the offset `first`.
    pub(super) fn clash(&mut self, value: &Value<'_>, first: usize, message: String) {
        let hint = format!("the first use is at {}", self.sources.position(first));
        self.problem(ProblemSpan::Span(value.span()), ValueProblem::new(message).hint(hint));
    }

    /// Reads the names of a site that is served at the addresses `listen`; `None` if these are
    /// not known.
    fn names(
        &mut self,
        value: &Value<'_>,
        listen: Option<&[SocketAddr]>,
        seen: &mut FirstUses,
    ) -> Vec<HostPattern> {
        let Some(array) = value.get_ref().as_array().filter(|array| !array.is_empty()) else {
            let problem = match value.get_ref() {
                DeValue::Array(_) => NAMES.problem("is empty: the site would never be used"),
                DeValue::String(name) => {
                    NAMES.problem("is not an array").hint(format!("write [{:?}]", &**name))
                }
                _ => NAMES.problem("is not an array"),
            };
            self.problem(ProblemSpan::Span(value.span()), problem);
            return Vec::new();
        };
        let elements = array.iter();
        elements.filter_map(|element| self.host(element, listen, seen)).collect()
    }

    fn host(
        &mut self,
        value: &Value<'_>,
        listen: Option<&[SocketAddr]>,
        seen: &mut FirstUses,
    ) -> Option<HostPattern> {
        let text = NAMES.text(raw(value.get_ref()));
        let pattern = self.keep_at(value.span(), text.and_then(HostPattern::parse))?;
        let places: Vec<_> = match listen {
            None => Vec::new(),
            Some([]) => vec![None],
            Some(addresses) => addresses.iter().copied().map(Some).collect(),
        };
        for place in places {
            let at = (place, pattern.clone());
            if let Some(first) = seen.hosts.get(&at) {
                let place = place.map(|address| format!(" at {address}")).unwrap_or_default();
                self.clash(value, *first, format!("a site already serves `{pattern}`{place}"));
                return None;
            }
            seen.hosts.insert(at, value.span().start);
        }
        Some(pattern)
    }

    fn routes(
        &mut self,
        value: &Value<'_>,
        outer: SiteValues<'_>,
        seen: &mut FirstUses,
    ) -> Vec<Route> {
        let tables = self.tables(value, "[[site.route]]");
        if let Some((span, _)) = tables.get(ROUTES_PER_SITE_MAX) {
            let problem = format!("a site has at most {ROUTES_PER_SITE_MAX} routes");
            self.problem(ProblemSpan::Span(span.clone()), ValueProblem::new(problem));
        }
        seen.routes.begin_site();
        let sections = tables.iter().take(ROUTES_PER_SITE_MAX).enumerate();
        let routes = sections.filter_map(|(index, section)| {
            let mut route = self.route(section.clone(), outer, &mut seen.routes)?;
            route.section = Some(index);
            Some(route)
        });
        let mut routes: Vec<_> = routes.collect();
        // The checks compare what the settings mean for this site.
        let (of_site, _) = outer.origins;
        routes.iter_mut().for_each(|route| {
            route.settle_certificates(of_site.tls_client_auth, false);
        });
        self.check_overlaps(&tables, &routes);
        self.check_conditions(&tables, &routes);
        routes
    }

    fn route(
        &mut self,
        (header, table): (Range<usize>, &DeTable<'_>),
        outer: SiteValues<'_>,
        seen: &mut RoutesSoFar,
    ) -> Option<Route> {
        let mut settings = outer.settings.clone();
        let mut rules = outer.rules.to_vec();
        let is_own = |key: &str| find(ROUTE_ONLY.iter(), key).is_some();
        let is_read_later = |key: &str| is_own(key) || is_origin_key(key);
        for (key, value) in table.iter().filter(|(key, _)| !is_read_later(key.get_ref())) {
            if key.get_ref() == RULES.name {
                rules.extend(named_files(self, &RULES, value));
                continue;
            }
            let Some(setting) = find(ROUTE.iter(), key.get_ref()) else {
                let own = ROUTE.iter().chain(ROUTE_ONLY).chain([&RULES, &ORIGIN, &BALANCE]);
                let own = own.chain(origin_settings()).map(|setting| setting.name);
                self.unknown(key, value, "of a route", own);
                continue;
            };
            let read = settings.set(setting, raw(value.get_ref()));
            self.keep_at(value.span(), read);
        }
        self.settle_answers(table, &mut settings);
        let origins = self.route_origins(table, outer.origins);
        if origins.is_some() {
            self.settle_origin(table, &mut settings);
        }
        let conditions = self.conditions(table, &mut settings);
        let of_paths = (&settings, conditions.as_deref());
        let paths = self.route_paths(&header, table, of_paths, seen)?;
        let mut route = Route::new(paths, settings, rules)
            .with_own_limits(
                table.contains_key("rate_limit"),
                table.contains_key("concurrency_limit"),
            )
            .with_origins(origins);
        route.conditions = conditions;
        Some(self.before_regex(table, route))
    }
}

/// Returns the position of `client_certificate` in a site or in one of its routes.
fn certificate_demand(site: &DeTable<'_>) -> Option<Range<usize>> {
    const NAME: &str = "client_certificate";
    let routes = site.get("route").and_then(|routes| routes.get_ref().as_array());
    let tables = routes.into_iter().flat_map(|routes| routes.iter());
    let tables = tables.filter_map(|route| route.get_ref().as_table());
    let is_required = |value: &&Value<'_>| value.get_ref().as_str() == Some("required");
    let found = tables.chain([site]).filter_map(|table| table.get(NAME)).find(is_required);
    found.map(|value| value.span())
}

/// Whether the section has `redirect`, `respond` or `files`, with any value.
fn has_answer(table: &DeTable<'_>) -> bool {
    ["redirect", "respond", "files"].iter().any(|name| table.contains_key(*name))
}

/// Whether every route answers its requests itself or has origins of its own; `fallback` has the
/// settings of the route for `/` if `routes` has none.
fn needs_no_origin(routes: &[Route], fallback: &RouteSettings) -> bool {
    let has_fallback = routes.iter().any(Route::has_all_paths);
    routes.iter().all(Route::needs_no_site_origin) && (has_fallback || fallback.needs_no_origin())
}
