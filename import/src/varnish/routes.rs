//! Sites and routes: for which paths the VCL treats requests differently.

use super::deliver;
use super::eval::RequestKind;
use super::lexer::VclPlace;
use super::outcome::{Cond, Loss, RecvAction, RecvOutcome, RequestRule, RuleAction, join};
use super::recv::follow;
use super::regex;
use super::response::{self, ResponsePlan};
use super::source::{HostName, PathTest, VclSource};
use super::syntax::Statement;

/// Methods other than GET and HEAD that are told apart.
const METHODS: &[&str] = &["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"];
/// Methods that need no rule.
const KNOWN: &[&str] = &["GET", "HEAD", "PURGE", "BAN"];

/// The treatment of the requests of a site or a route.
#[derive(Clone, PartialEq)]
pub(super) struct Treatment {
    pub(super) outcome: RecvOutcome,
    pub(super) plan: ResponsePlan,
    pub(super) field_rules: String,
}

/// The paths of a route, and their treatment.
pub(super) struct VclRoute {
    pub(super) path: PathTest,
    pub(super) treatment: Treatment,
}

/// A site: its treatment, and that of its routes.
pub(super) struct VclSite {
    pub(super) names: Vec<HostName>,
    pub(super) treatment: Treatment,
    pub(super) routes: Vec<VclRoute>,
    /// The addresses that may purge.
    pub(super) purge_from: Option<Vec<String>>,
}

impl VclSite {
    pub(super) fn is_same(&self, other: &VclSite) -> bool {
        let routes = |site: &VclSite| site.routes.len();
        self.treatment == other.treatment
            && self.purge_from == other.purge_from
            && routes(self) == routes(other)
            && self
                .routes
                .iter()
                .zip(&other.routes)
                .all(|(one, two)| one.path == two.path && one.treatment == two.treatment)
    }
}

/// Follows the VCL for the requests of a site.
pub(super) fn site(source: &VclSource<'_>, host: &HostName, builtin: &[Statement]) -> VclSite {
    let reader = SiteReader { source, host, builtin };
    let treatment = reader.treatment(&[]);
    let mut routes: Vec<VclRoute> = Vec::new();
    let ordered = order(&reader);
    for (index, path) in ordered.iter().enumerate() {
        let path = path.clone();
        let mut holding = vec![path.clone()];
        holding.extend(source.paths.iter().filter(|other| covers(other, &path)).cloned());
        let mut treatment = reader.treatment(&holding);
        let later = ordered[index + 1..]
            .iter()
            .filter(|other| !holding.contains(other) && !are_apart(&path, other));
        for other in later {
            reader.overlap(&mut treatment, &holding, other);
        }
        if path.no_query {
            treatment = reader.without_query(treatment, &path);
        }
        routes.push(VclRoute { path, treatment });
    }
    // A route with the treatment of the site is needed only before one that has its paths, too.
    let mut kept: Vec<VclRoute> = Vec::new();
    for route in routes.into_iter().rev() {
        let is_apart = kept.iter().all(|later| are_apart(&later.path, &route.path));
        if route.treatment != treatment || !is_apart {
            kept.push(route);
        }
    }
    kept.reverse();
    let routes = kept;
    let purge_from = reader.purge_from();
    VclSite { names: vec![host.clone()], treatment, routes, purge_from }
}

struct SiteReader<'s> {
    source: &'s VclSource<'s>,
    host: &'s HostName,
    builtin: &'s [Statement],
}

impl SiteReader<'_> {
    fn outcome(&self, method: &str, paths: &[PathTest]) -> RecvOutcome {
        let kind = RequestKind { method, host: self.host, paths };
        follow(self.source, kind, self.builtin)
    }

    fn treatment(&self, paths: &[PathTest]) -> Treatment {
        let kind = RequestKind { method: "GET", host: self.host, paths };
        let mut outcome = self.methods(paths);
        outcome.rules.retain_mut(simplify);
        Treatment {
            outcome,
            plan: response::plan(self.source, kind),
            field_rules: deliver::rules(self.source, kind),
        }
    }

    /// The treatment of GET, with rules for other methods.
    fn methods(&self, paths: &[PathTest]) -> RecvOutcome {
        let mut all = self.outcome("GET", paths);
        let mut groups: Vec<(Vec<&str>, RecvOutcome)> = Vec::new();
        for method in METHODS {
            let outcome = self.outcome(method, paths);
            match groups.iter_mut().find(|(_, known)| *known == outcome) {
                Some((methods, _)) => methods.push(method),
                None => groups.push((vec![method], outcome)),
            }
        }
        let list = |methods: &[&str]| methods.iter().map(|one| (*one).to_owned()).collect();
        let other = self.outcome("OTHER", paths);
        let in_group: Vec<&str> = groups
            .iter()
            .filter(|(_, outcome)| *outcome == other)
            .flat_map(|(methods, _)| methods.iter().copied())
            .collect();
        groups.retain(|(_, outcome)| *outcome != other);
        for (methods, outcome) in groups {
            let (joined, loss) = join(&Cond::Method(list(&methods)), outcome, all);
            all = joined;
            if let Some(Loss::Origin) = loss {
                let text = "these requests would go to another origin, so they get 503";
                self.source.note(&self.place(), &methods.join(", "), text);
            }
        }
        let rest = METHODS.iter().filter(|one| !in_group.contains(one));
        let known: Vec<&str> = KNOWN.iter().chain(rest).copied().collect();
        join(&Cond::Method(list(&known)), all, other).0
    }

    /// The expression of the path does not match a URL with a query: those get the treatment that
    /// they have without it, as far as rules can tell.
    fn without_query(&self, treatment: Treatment, path: &PathTest) -> Treatment {
        let is_other = |other: &&PathTest| *other != path && !other.no_query && covers(other, path);
        let others: Vec<_> = self.source.paths.iter().filter(is_other).cloned().collect();
        let mut other = self.methods(&others);
        other.rules.retain_mut(simplify);
        let mut joined = join(&Cond::HasQuery, other, treatment.outcome.clone()).0;
        joined.rules.retain_mut(simplify);
        let kind = RequestKind { method: "GET", host: self.host, paths: &others };
        let first = self.source.vcl.sub("vcl_backend_response").first();
        if let Some(first) = first
            && response::plan(self.source, kind) != treatment.plan
            && joined.action == RecvAction::Hash
        {
            self.source.note(
                &first.place,
                "bereq.url",
                format!(
                    "{} matches no URL with a query in Varnish, so these URLs bypass the cache; to \
                     store them, allow a query before the $",
                    path.regex
                ),
            );
            let conds = vec![(Cond::HasQuery, true)];
            joined.rules.push(RequestRule { conds, action: RuleAction::Bypass });
        }
        Treatment { outcome: joined, ..treatment }
    }

    /// Adds rules for paths that another route has, too: they get the treatment of both.
    fn overlap(&self, treatment: &mut Treatment, holding: &[PathTest], other: &PathTest) {
        let mut both = holding.to_vec();
        both.push(other.clone());
        let mut outcome = self.methods(&both);
        outcome.rules.retain_mut(simplify);
        let kind = RequestKind { method: "GET", host: self.host, paths: &both };
        let plan = response::plan(self.source, kind);
        if plan.is_uncacheable && outcome.action == RecvAction::Hash {
            outcome.action = RecvAction::Pass;
        }
        let is_stored =
            treatment.outcome.action == RecvAction::Hash && outcome.action == RecvAction::Hash;
        if is_stored && plan != treatment.plan {
            self.note_paths(other, "have the lifetimes and fields of the first");
        }
        if outcome == treatment.outcome {
            return;
        }
        let cond = match regex::without_slash(&other.regex) {
            Some(regex) => Cond::Path(regex),
            None => Cond::Other(self.place(), format!("req.url ~ {}", other.regex)),
        };
        let (joined, loss) = join(&cond, outcome, treatment.outcome.clone());
        treatment.outcome = joined;
        treatment.outcome.rules.retain_mut(simplify);
        if loss.is_some() {
            self.note_paths(other, "have the stricter treatment of both");
        }
    }

    fn place(&self) -> VclPlace {
        let subs =
            ["vcl_recv", "vcl_backend_response"].map(|name| self.source.vcl.sub(name).first());
        let first = subs.into_iter().flatten().next();
        first.map_or_else(
            || VclPlace { file: "".into(), line: 0, column: 0 },
            |one| one.place.clone(),
        )
    }

    fn note_paths(&self, path: &PathTest, message: &str) {
        let text = format!("paths that match {} and another expression {message}", path.regex);
        self.source.note(&self.place(), "req.url", text);
    }

    fn purge_from(&self) -> Option<Vec<String>> {
        for method in ["PURGE", "BAN"] {
            let outcome = self.outcome(method, &[]);
            if outcome.action != RecvAction::Purge {
                continue;
            }
            let mut lists = outcome.rules.iter().filter_map(|rule| match rule.conds.as_slice() {
                [(Cond::Client(list), false)] => Some(list.clone()),
                _ => None,
            });
            let found = lists.next();
            if found.is_none() {
                let place = self.source.vcl.sub("vcl_recv").first().map(|one| &one.place);
                if let Some(place) = place {
                    self.source.note(
                        place,
                        method,
                        "left out: name the addresses that may purge in purge_from \
                         (docs/purging.md); until then the origin gets these requests",
                    );
                }
                continue;
            }
            return found;
        }
        None
    }
}

/// Requests of other methods bypass the cache anyway.
fn simplify(rule: &mut RequestRule) -> bool {
    if matches!(rule.action, RuleAction::Answer(_)) {
        return true;
    }
    let mut is_for_get = true;
    rule.conds.retain(|(cond, positive)| match cond {
        Cond::Method(list) => {
            let has_get = list.iter().any(|method| method == "GET");
            is_for_get &= has_get == *positive;
            false
        }
        _ => true,
    });
    is_for_get && !rule.conds.is_empty()
}

/// The tests of paths in the order of routes: stricter ones first, and those that are covered by
/// another one before it.
fn order(reader: &SiteReader<'_>) -> Vec<PathTest> {
    let paths = &reader.source.paths;
    let mut ranked: Vec<_> = paths
        .iter()
        .map(|path| {
            let mut holding = vec![path.clone()];
            holding.extend(paths.iter().filter(|other| covers(other, path)).cloned());
            let kind = RequestKind { method: "GET", host: reader.host, paths: &holding };
            let is_stored = !response::plan(reader.source, kind).is_uncacheable;
            let rank = reader.outcome("GET", &holding).rank();
            (rank.min(if is_stored { 3 } else { 2 }), path.clone())
        })
        .collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    let mut ordered: Vec<PathTest> = Vec::new();
    for (_, path) in ranked {
        let before = ordered.iter().position(|known| covers(known, &path) && *known != path);
        ordered.insert(before.unwrap_or(ordered.len()), path);
    }
    ordered
}

/// Whether no path matches both.
fn are_apart(one: &PathTest, other: &PathTest) -> bool {
    let both = (regex::expand(&one.regex, false), regex::expand(&other.regex, false));
    let (Some((one, false)), Some((other, false))) = both else { return false };
    one.iter().all(|left| {
        other.iter().all(|right| match (left.starts && right.starts, left.ends, right.ends) {
            (_, true, _) if left.starts => !right.matches(&left.text),
            (_, _, true) if right.starts => !left.matches(&right.text),
            (true, ..) => {
                !left.text.starts_with(&right.text) && !right.text.starts_with(&left.text)
            }
            _ => false,
        })
    })
}

/// Whether each path that `inner` matches also matches `outer`.
pub(super) fn covers(outer: &PathTest, inner: &PathTest) -> bool {
    if outer.regex == inner.regex {
        return outer != inner;
    }
    let both = (regex::expand(&outer.regex, false), regex::expand(&inner.regex, false));
    let (Some((outer, outer_case)), Some((inner, inner_case))) = both else { return false };
    if outer_case != inner_case {
        return false;
    }
    inner.iter().all(|inside| {
        outer.iter().any(|outside| match (outside.starts, outside.ends) {
            (true, true) => inside.starts && inside.ends && inside.text == outside.text,
            (true, false) => inside.starts && inside.text.starts_with(&outside.text),
            (false, true) => inside.ends && inside.text.ends_with(&outside.text),
            (false, false) => inside.text.contains(&outside.text),
        })
    })
}
