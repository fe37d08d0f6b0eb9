//! The paths of a `[[site.route]]` section, which are given by one of three settings.

use std::collections::HashMap;
use std::ops::Range;

use forebay_http::request::Method;
use forebay_rules::pattern::PatternCompiler;
use toml::de::DeTable;

use super::super::error::ProblemSpan;
use super::super::read::{Reader, Value, raw};
use super::super::setting::{Readable, Setting, ValueProblem};
use super::super::table::{
    BEFORE_REGEX, METHODS, ORIGIN, PATH_PREFIX, PATH_REGEX, ROUTE_PATHS, RouteSettings, Settings,
    WITH_COOKIES, WITH_FIELDS, WITH_QUERY,
};
use super::conditions::{read_methods, read_named};
use super::paths::{read_prefix, read_regex};
use super::restrictions::RESTRICTING;
use super::{Route, RouteConditions, RoutePaths};
use crate::limits::{PATH_REGEX_CACHE_BYTES_MAX, PATH_REGEXES_MAX, PATH_REGEXES_PER_SITE_MAX};

/// Settings beside [`RESTRICTING`] that protect a route, answer its requests without its origin, or
/// keep its responses out of the cache. A path must not lose them unnoticed because a regular
/// expression matches it.
const PROTECTING: &[&str] = &[
    "https_redirect_port",
    "respond",
    "redirect",
    "files",
    "purge_from",
    "cache",
    "bypass_cookies",
    "bypass_fields",
    "key_cookies",
    "key_fields",
];

/// The paths of the routes that have been read.
pub(in crate::config) struct RoutesSoFar {
    /// For each setting and path of the current site, the conditions of its routes and the offsets
    /// at which they begin.
    paths: HashMap<(&'static str, String), Vec<(RouteConditions, usize)>>,
    /// The number of regular expressions of the current site.
    site_regex_count: usize,
    /// The number of regular expressions of all sites.
    regex_count: usize,
    compiler: PatternCompiler,
}

impl Default for RoutesSoFar {
    fn default() -> RoutesSoFar {
        RoutesSoFar {
            paths: HashMap::new(),
            site_regex_count: 0,
            regex_count: 0,
            compiler: PatternCompiler::with_cache(PATH_REGEX_CACHE_BYTES_MAX),
        }
    }
}

impl RoutesSoFar {
    /// Begins the routes of another site.
    pub(in crate::config) fn begin_site(&mut self) {
        self.paths.clear();
        self.site_regex_count = 0;
    }
}

impl Reader<'_> {
    /// Reads the paths of the route whose section begins at `header`.
    pub(in crate::config) fn route_paths(
        &mut self,
        header: &Range<usize>,
        table: &DeTable<'_>,
        (settings, conditions): (&RouteSettings, Option<&RouteConditions>),
        seen: &mut RoutesSoFar,
    ) -> Option<RoutePaths> {
        let given = |setting: &'static Setting| Some((setting, table.get(setting.name)?));
        let given: Vec<_> = ROUTE_PATHS.iter().filter_map(given).collect();
        if let [(one, value), (other, _), ..] = &given[..] {
            let (one, other) = (one.name, other.name);
            let problem =
                ValueProblem::new(format!("`{one}` and `{other}` are in the same section"));
            let hint = "a route has one path, one prefix or one regular expression; leave one of \
                        them out";
            self.problem(ProblemSpan::Span(value.span()), problem.hint(hint));
            return None;
        }
        let Some((setting, value)) = given.first().copied() else {
            let problem = ValueProblem::new("a route needs `path_prefix`, `path` or `path_regex`");
            let hint = "for the paths below /api, write path_prefix = \"/api\"";
            self.problem(ProblemSpan::Span(header.clone()), problem.hint(hint));
            return None;
        };
        let paths = match setting.name {
            name if name == PATH_REGEX.name => self.path_regex(value, settings, seen)?,
            name => {
                let read = read_prefix(raw(value.get_ref()), setting);
                let path = self.keep_at(value.span(), read)?;
                if name == PATH_PREFIX.name {
                    RoutePaths::below(&path)
                } else {
                    RoutePaths::exact(&path)
                }
            }
        };
        let conditions = conditions.cloned().unwrap_or_default();
        let routes = seen.paths.entry((setting.name, paths.text().to_owned())).or_default();
        let takes_all = |(other, _): &&(RouteConditions, usize)| {
            other.are_empty() == conditions.are_empty() && conditions.imply(other)
        };
        match routes.iter().find(takes_all) {
            Some((other, first)) => {
                self.unused(value, (other, *first), &conditions, paths.text());
                None
            }
            None => {
                routes.push((conditions, value.span().start));
                Some(paths)
            }
        }
    }

    /// Reports a route whose requests all have the earlier route of the same paths at `first`.
    fn unused(
        &mut self,
        value: &Value<'_>,
        (earlier, first): (&RouteConditions, usize),
        conditions: &RouteConditions,
        paths: &str,
    ) {
        if earlier.imply(conditions) {
            let message = format!("the site has two routes for {paths:?}{conditions}");
            return self.clash(value, first, message);
        }
        let message = format!(
            "no request can have this route: each meets the conditions of {paths:?}{earlier}, \
             which comes first"
        );
        let hint = format!(
            "write this section before the one at {}, which then takes the other requests",
            self.sources.position(first)
        );
        self.problem(ProblemSpan::Span(value.span()), ValueProblem::new(message).hint(hint));
    }

    /// Reads the conditions of a route. If requests for one URL can differ in whether they meet the
    /// conditions, the route does not store responses.
    pub(in crate::config) fn conditions(
        &mut self,
        table: &DeTable<'_>,
        settings: &mut RouteSettings,
    ) -> Option<Box<RouteConditions>> {
        let mut conditions = RouteConditions::default();
        if let Some(value) = table.get(METHODS.name) {
            let read = read_methods(raw(value.get_ref()));
            conditions.methods = self.keep_at(value.span(), read).unwrap_or_default();
        }
        for (setting, list) in [
            (&WITH_FIELDS, &mut conditions.fields),
            (&WITH_QUERY, &mut conditions.query),
            (&WITH_COOKIES, &mut conditions.cookies),
        ] {
            if let Some(value) = table.get(setting.name) {
                let read = read_named(raw(value.get_ref()), setting);
                *list = self.keep_at(value.span(), read).unwrap_or_default();
                let elements = value.get_ref().as_array().into_iter().flatten();
                for (one, element) in list.iter_mut().zip(elements) {
                    one.is_hidden = self.reference_in(&element.span()).is_some();
                }
            }
        }
        if conditions.permit_storing() {
            return (!conditions.are_empty()).then(|| Box::new(conditions));
        }
        if let Some(value) = table.get("cache").filter(|_| settings.cache) {
            let (problem, hint) = match conditions.have_method(Method::Get) {
                true => (
                    "a route with `with_fields`, `with_query` or `with_cookies` cannot store \
                     responses",
                    "leave `cache` out: all requests for a URL must find the same stored response",
                ),
                false => (
                    "a route whose `methods` do not have GET cannot store responses",
                    "leave `cache` out, or write \"GET\" in `methods`",
                ),
            };
            let at = ProblemSpan::Span(value.span());
            self.problem(at, ValueProblem::new(problem).hint(hint));
        }
        settings.cache = false;
        Some(Box::new(conditions))
    }

    /// Reads `before_regex` of a route.
    pub(in crate::config) fn before_regex(
        &mut self,
        table: &DeTable<'_>,
        mut route: Route,
    ) -> Route {
        let Some(value) = table.get(BEFORE_REGEX.name) else { return route };
        let read = bool::read(raw(value.get_ref()), &BEFORE_REGEX);
        let is_before = self.keep_at(value.span(), read).unwrap_or_default();
        match route.paths {
            RoutePaths::Below(_) => route.is_before_regex = is_before,
            _ => self.problem(
                ProblemSpan::Span(value.span()),
                ValueProblem::new("`before_regex` is only for routes with `path_prefix`")
                    .hint("leave it out"),
            ),
        }
        route
    }

    /// Checks that each section with a prefix says whether it wins over regular expressions, if
    /// that matters: a client could evade the route's restrictions by the end of a path.
    pub(in crate::config) fn check_overlaps(
        &mut self,
        sections: &[(Range<usize>, &DeTable<'_>)],
        routes: &[Route],
    ) {
        let patterns: Vec<_> = routes.iter().filter(|route| route.paths.are_matching()).collect();
        let prefixes = routes.iter().filter(|route| matches!(route.paths, RoutePaths::Below(_)));
        for route in prefixes.filter(|route| !route.paths.are_all()) {
            let section = route.section.and_then(|index| sections.get(index));
            let Some((_, table)) = section else { continue };
            let Some(path) = table.get(PATH_PREFIX.name) else { continue };
            if table.contains_key(BEFORE_REGEX.name) {
                continue;
            }
            let differing = |pattern: &Route| {
                let answer_get = route.has_get() && pattern.has_get();
                let protects = |name: &str| match name {
                    "cache" => answer_get,
                    "client_certificate" => {
                        route.requires_certificate() != pattern.requires_certificate()
                    }
                    name => RESTRICTING.contains(&name) || PROTECTING.contains(&name),
                };
                let settings = route.settings.differences(&pattern.settings).into_iter();
                let setting = settings.map(|setting| setting.name).find(|name| protects(name));
                let has_other_origin = route.origins != pattern.origins;
                setting.or(has_other_origin.then_some(ORIGIN.name))
            };
            let found = patterns.iter().find_map(|pattern| Some((pattern, differing(pattern)?)));
            let Some((pattern, setting)) = found else { continue };
            let message = format!(
                "`path_regex` '{}' may match paths of this route, which has another `{setting}`",
                pattern.paths.text().replace(char::is_control, " "),
            );
            let hint = "write `before_regex = true`, so that this prefix wins, or `before_regex = \
                        false`, so that the regular expression wins";
            let at = ProblemSpan::Span(path.span());
            self.problem(at, ValueProblem::new(message).hint(hint));
        }
    }

    fn path_regex(
        &mut self,
        value: &Value<'_>,
        settings: &RouteSettings,
        seen: &mut RoutesSoFar,
    ) -> Option<RoutePaths> {
        seen.site_regex_count += 1;
        seen.regex_count += 1;
        let too_many = match (seen.site_regex_count, seen.regex_count) {
            (count, _) if count == PATH_REGEXES_PER_SITE_MAX + 1 => {
                format!("a site has at most {PATH_REGEXES_PER_SITE_MAX} routes with `path_regex`")
            }
            (_, count) if count == PATH_REGEXES_MAX + 1 => {
                format!("all sites together have at most {PATH_REGEXES_MAX} `path_regex`")
            }
            _ => String::new(),
        };
        if !too_many.is_empty() {
            let hint = "join several into one, as in (jpg|png)";
            self.problem(ProblemSpan::Span(value.span()), ValueProblem::new(too_many).hint(hint));
        }
        if seen.site_regex_count > PATH_REGEXES_PER_SITE_MAX || seen.regex_count > PATH_REGEXES_MAX
        {
            return None;
        }
        let read = read_regex(raw(value.get_ref()), &mut seen.compiler);
        let regex = self.keep_at(value.span(), read)??;
        let strips_files = settings.files_strip_prefix && settings.files.get().is_some();
        for (name, strips) in [
            ("files_strip_prefix", strips_files),
            ("origin_strip_prefix", settings.origin_strip_prefix),
        ] {
            if strips {
                let text = format!("`{name}` needs a prefix, and a regular expression has none");
                let hint = format!("set `{name} = false` in this route, or use `path_prefix`");
                self.problem(ProblemSpan::Span(value.span()), ValueProblem::new(text).hint(hint));
            }
        }
        Some(RoutePaths::Matching(regex))
    }
}
