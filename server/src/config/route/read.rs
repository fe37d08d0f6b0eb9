//! The paths of a `[[site.route]]` section, which are given by one of three settings.

use std::collections::HashMap;
use std::ops::Range;

use forebay_rules::pattern::PatternCompiler;
use toml::de::DeTable;

use super::super::error::ProblemSpan;
use super::super::read::{Reader, Value, raw};
use super::super::setting::{Readable, Setting, ValueProblem};
use super::super::table::{
    BEFORE_REGEX, ORIGIN, PATH_PREFIX, PATH_REGEX, ROUTE_PATHS, RouteSettings, Settings,
};
use super::paths::{read_prefix, read_regex};
use super::{Route, RoutePaths};
use crate::limits::{PATH_REGEX_CACHE_BYTES_MAX, PATH_REGEXES_MAX, PATH_REGEXES_PER_SITE_MAX};

/// Settings that protect a route, or keep its responses out of the cache. A path must not lose them
/// unnoticed because a regular expression matches it.
const PROTECTING: &[&str] = &[
    "allow_from",
    "deny_from",
    "basic_auth",
    "signed_urls",
    "rate_limit",
    "cache",
    "bypass_cookies",
    "bypass_fields",
    "key_cookies",
    "key_fields",
];

/// The paths of the routes that have been read.
pub(in crate::config) struct RoutesSoFar {
    /// For each path of the current site, with its setting, the offset at which it is first used.
    paths: HashMap<(&'static str, String), usize>,
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
        settings: &RouteSettings,
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
        let place = (setting.name, paths.text().to_owned());
        if let Some(first) = seen.paths.get(&place) {
            self.clash(value, *first, format!("the site has two routes for {:?}", place.1));
            return None;
        }
        seen.paths.insert(place, value.span().start);
        Some(paths)
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
        for route in prefixes.filter(|route| !route.has_all_paths()) {
            let section = route.section.and_then(|index| sections.get(index));
            let Some((_, table)) = section else { continue };
            let Some(path) = table.get(PATH_PREFIX.name) else { continue };
            if table.contains_key(BEFORE_REGEX.name) {
                continue;
            }
            let protects = |name: &str| PROTECTING.contains(&name);
            let differing = |pattern: &Route| {
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
