//! Checks that a route with conditions has the restrictions of those routes that its requests have
//! if they do not meet the conditions. A client could otherwise evade a restriction by a field, a
//! parameter or a cookie that it adds.

use std::ops::Range;

use toml::de::DeTable;

use super::super::error::ProblemSpan;
use super::super::read::Reader;
use super::super::setting::ValueProblem;
use super::super::site::sorted;
use super::super::table::{RouteSettings, Settings};
use super::conditions::share_methods;
use super::{Route, RoutePaths};

/// Settings that restrict the clients of a route, or tell its origin about them, unless they have
/// their defaults.
pub(super) const RESTRICTING: &[&str] = &[
    "allow_from",
    "deny_from",
    "basic_auth",
    "client_certificate",
    "forward_client_certificate",
    "signed_urls",
    "rate_limit",
    "concurrency_limit",
];

impl Reader<'_> {
    /// Reports each route with conditions that lacks a restriction of a route that its requests
    /// would have without it.
    pub(in crate::config) fn check_conditions(
        &mut self,
        sections: &[(Range<usize>, &DeTable<'_>)],
        routes: &[Route],
    ) {
        let sorted = sorted(routes.iter().collect());
        for (index, route) in sorted.iter().enumerate() {
            if route.conditions.is_none() {
                continue;
            }
            let section = route.section.and_then(|index| sections.get(index));
            let Some((_, table)) = section else { continue };
            let Some(paths) = table.get(route.paths.setting().name) else { continue };
            let others = routes_without(index, &sorted).into_iter();
            let mut lost = others.filter_map(|other| Some((other, lost(route, other, table)?)));
            let Some((other, name)) = lost.next() else { continue };
            let message = format!(
                "requests that do not meet these conditions can have the route of {}, which has \
                 another `{name}` than this one",
                other.shown_path().replace(char::is_control, " "),
            );
            let hint = format!(
                "write `{name}` here, too: a request that meets the conditions has only the \
                 settings of this route"
            );
            self.problem(ProblemSpan::Span(paths.span()), ValueProblem::new(message).hint(hint));
        }
    }
}

/// Returns the setting that restricts `other`, but not `route`, whose section is `table`. A setting
/// that the section has is meant to differ.
fn lost(route: &Route, other: &Route, table: &DeTable<'_>) -> Option<&'static str> {
    let restricting = other.settings.differences(&RouteSettings::default());
    let is_lost = |name: &str| match name {
        // The route of the request for a path may store what an origin returns for another.
        "ambiguous_path" => other.refuses_ambiguous(),
        "client_certificate" => other.requires_certificate() && !route.requires_certificate(),
        _ => RESTRICTING.contains(&name) && restricting.iter().any(|one| one.name == name),
    };
    let differing = route.settings.differences(&other.settings).into_iter();
    let mut names = differing.map(|setting| setting.name);
    names.find(|name| !table.contains_key(*name) && is_lost(name))
}

/// Returns the routes that requests of the route at `index` can have if they do not meet its
/// conditions, as far as its paths say which; `sorted` has the order of
/// [`Site::routes`](super::super::site::Site::routes). The method of a request is no choice of its
/// client, so a route with conditions on the method only is compared with the route of the same
/// paths without conditions.
fn routes_without<'r>(index: usize, sorted: &[&'r Route]) -> Vec<&'r Route> {
    let (earlier, rest) = sorted.split_at(index);
    let Some((route, later)) = rest.split_first() else { return Vec::new() };
    let later = later.iter().copied();
    let Some(conditions) = &route.conditions else { return Vec::new() };
    let same = later.clone().filter(|other| other.paths == route.paths);
    if !conditions.have_more_than_methods() {
        return same.filter(|other| other.conditions.is_none()).collect();
    }
    let others = match &route.paths {
        RoutePaths::Matching(_) => {
            let same = until_whole(same);
            match same.last() {
                Some(last) if last.conditions.is_none() => same,
                // Each of these routes may have a path that this expression matches.
                _ => later.filter(|other| is_pattern(other) || other.paths.are_all()).collect(),
            }
        }
        paths => {
            let has_path = |other: &&Route| other.paths.have(paths.text().as_bytes(), false);
            let mut found = until_whole(later.filter(has_path));
            let is_exact = matches!(paths, RoutePaths::Exact(_));
            if is_exact && !found.last().is_some_and(|last| last.is_before_regex) {
                let patterns = earlier.iter().copied().filter(is_pattern);
                found.extend(until_whole(patterns.filter(has_path)));
            }
            found
        }
    };
    let is_met = |other: &&Route| {
        let of_other = other.conditions.as_deref();
        of_other.is_none_or(|of_other| share_methods(conditions, of_other))
    };
    others.into_iter().filter(is_met).collect()
}

fn is_pattern(route: &&Route) -> bool {
    route.paths.are_matching()
}

/// Returns the routes up to the first one without conditions, which every request meets.
fn until_whole<'r>(routes: impl Iterator<Item = &'r Route>) -> Vec<&'r Route> {
    let mut has_whole = false;
    routes
        .take_while(|route| !std::mem::replace(&mut has_whole, route.conditions.is_none()))
        .collect()
}
