//! The routes of a site to which lines of `cache.config` lead.

use super::{PathRule, SiteBuilder, enclosing};
use crate::toml::TomlTable;
use crate::trafficserver::cache_control::{self, CacheAction, CacheRule, CacheScope};
use crate::trafficserver::files::ConfigFiles;
use crate::trafficserver::route::{PathChange, PathsOfRoute};
use crate::trafficserver::url::{RuleUrl, escaped, is_route_path};

impl<'b> SiteBuilder<'b> {
    /// Adds routes for the paths to which rules of `cache.config` apply.
    pub(super) fn cache_routes(
        &mut self,
        files: &mut ConfigFiles,
        found: &[PathRule<'b>],
        one: &PathRule<'b>,
    ) {
        let Some(rule) = one.rule.filter(|rule| rule.redirect.is_none()) else { return };
        let change = PathChange::of(rule);
        for cache in &self.context.cache {
            let scope = cache.scope(&rule.to);
            let added = match scope.clone() {
                CacheScope::No | CacheScope::All => continue,
                CacheScope::Unknown => false,
                CacheScope::Prefix(prefix) if change.to.starts_with(&prefix) => {
                    self.amend(&one.path, cache);
                    true
                }
                CacheScope::Prefix(prefix) => {
                    let Some(rest) = prefix.strip_prefix(&change.to) else { continue };
                    let path = format!("{}{rest}", change.from);
                    let owner = enclosing(found, &format!("{path}\u{0}"));
                    let is_own = owner.is_some_and(|owner| owner.path == one.path);
                    if found.iter().any(|other| other.path == path) || !is_own {
                        continue;
                    }
                    self.add_cache_prefix(files, one, cache, path, rule.has_same_path())
                }
                CacheScope::Regex(regex) => {
                    let is_usable = one.path.is_empty() && rule.to.path.is_empty();
                    if is_usable {
                        let mut table = self.table(one);
                        self.fill(files, one, &PathsOfRoute::Regex, &mut table);
                        cache.write(&mut table);
                        self.restrict(cache, &rule.to, &scope, &mut table);
                        self.add_regex(String::new(), false, regex, table);
                    }
                    is_usable
                }
            };
            if !added {
                let message = match cache.action {
                    CacheAction::Never => {
                        "differs: its paths are not certain, so no response of \
                                           the rules is stored"
                    }
                    _ => "left out: its paths are not certain",
                };
                self.context.source.note(&cache.at, "cache.config", message);
                if cache.action == CacheAction::Never {
                    self.amend(&one.path, cache);
                }
            }
        }
    }

    /// Switches the cache off in the route of a line of `cache.config` if another line may forbid
    /// to store its responses, and says so unless the line forbids it, too.
    fn restrict(
        &mut self,
        cache: &CacheRule,
        target: &RuleUrl,
        scope: &CacheScope,
        table: &mut TomlTable,
    ) {
        let is_restricted = cache_control::restrict(&self.context.cache, target, scope, table);
        if is_restricted && cache.action != CacheAction::Never {
            let message = "differs: never-cache of another line may apply to the same paths, so no \
                           response of this line is stored";
            self.context.source.note(&cache.at, "cache.config", message);
        }
    }

    /// Adds a route below that of a rule. Returns whether it has all paths of the prefix.
    fn add_cache_prefix(
        &mut self,
        files: &mut ConfigFiles,
        one: &PathRule<'b>,
        cache: &CacheRule,
        path: String,
        has_same_path: bool,
    ) -> bool {
        let is_whole = path.ends_with('/');
        let is_never = cache.action == CacheAction::Never;
        if !is_route_path(&path) || !is_whole && !has_same_path && is_never {
            return false;
        }
        if self.prefixes.iter().any(|(known, _)| *known == path) {
            self.amend(&path, cache);
            return true;
        }
        let Some(rule) = one.rule else { return false };
        let scope = cache.scope(&rule.to);
        let mut table = self.table(one);
        self.fill(files, one, &PathsOfRoute::Below(path.clone()), &mut table);
        cache.write(&mut table);
        self.restrict(cache, &rule.to, &scope, &mut table);
        if !is_whole && has_same_path {
            let regex = format!("^/{}[^/]", escaped(&path));
            let mut table = self.table(one);
            self.fill(files, one, &PathsOfRoute::Regex, &mut table);
            cache.write(&mut table);
            self.restrict(cache, &rule.to, &scope, &mut table);
            self.add_regex(path.clone(), true, regex, table);
        }
        self.prefixes.push((path, table));
        true
    }

    /// Applies a rule of `cache.config` to a route that is there.
    fn amend(&mut self, path: &str, cache: &CacheRule) {
        for (_, table) in self.prefixes.iter_mut().filter(|(known, _)| known == path) {
            cache.write(table);
        }
        let regexes = self.regexes.iter_mut().filter(|regex| regex.path == path);
        regexes.for_each(|regex| cache.write(&mut regex.table));
    }
}
