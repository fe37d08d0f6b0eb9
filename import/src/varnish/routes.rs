//! Sites and routes: for which paths the VCL treats requests differently.

use std::collections::BTreeSet;

use super::deliver;
use super::eval::{OTHER_METHOD, RequestKind};
use super::join::join;
use super::late;
use super::lexer::VclPlace;
use super::outcome::{Cond, Loss, RecvAction, RecvOutcome, RequestRule, RuleAction, SynthAnswer};
use super::plan::ResponsePlan;
use super::recv::follow;
use super::regex;
use super::response;
use super::source::{HostName, VclSource};
use super::syntax::Statement;
use super::url::{PathTest, QueryEffect};

/// Methods that purge, if `purge_from` is set.
const PURGES: &[&str] = &["PURGE", "BAN"];

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
    let mut reader = SiteReader { source, host, builtin, has_purge: false };
    let purge_from = reader.purge_from();
    reader.has_purge = purge_from.is_some();
    let treatment = reader.treatment(&[], &[]);
    let mut routes: Vec<VclRoute> = Vec::new();
    let mut ordered = order(&reader);
    // Of two tests with the same expression, the route of the first one has all paths.
    let mut seen = BTreeSet::new();
    ordered.retain(|path| seen.insert(path.regex.clone()));
    for (index, path) in ordered.iter().enumerate() {
        let path = path.clone();
        let mut holding = vec![path.clone()];
        holding.extend(source.paths.iter().filter(|other| covers(other, &path)).cloned());
        // Paths of routes before this one never get here.
        let later = ordered[index + 1..].iter();
        let open: Vec<_> = later
            .filter(|other| !holding.contains(other) && !are_apart(&path, other))
            .cloned()
            .collect();
        let treatment = reader.treatment(&holding, &open);
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
    VclSite { names: vec![host.clone()], treatment, routes, purge_from }
}

struct SiteReader<'s> {
    source: &'s VclSource<'s>,
    host: &'s HostName,
    builtin: &'s [Statement],
    /// Whether `purge_from` decides about PURGE and BAN.
    has_purge: bool,
}

impl SiteReader<'_> {
    fn outcome(&self, method: &str, (paths, open): (&[PathTest], &[PathTest])) -> RecvOutcome {
        let kind = RequestKind { method, host: self.host, paths, open, is_original: true };
        follow(self.source, kind, self.builtin)
    }

    fn treatment(&self, paths: &[PathTest], open: &[PathTest]) -> Treatment {
        let kind = RequestKind { method: "GET", host: self.host, paths, open, is_original: false };
        let mut outcome = self.methods((paths, open));
        late::restrict(self.source, kind, &mut outcome);
        outcome.rules.retain_mut(simplify);
        let plan = response::plan(self.source, kind);
        self.restrict_queries(kind, &plan, &mut outcome);
        if plan.is_refused && !self.source.drop_access_rules {
            outcome = RecvOutcome::new(RecvAction::Answer(SynthAnswer::refused()), outcome.state);
        }
        Treatment { outcome, plan, field_rules: deliver::rules(self.source, kind) }
    }

    /// With a query, an expression for the path may not match: those responses are not stored if
    /// they would have another plan.
    fn restrict_queries(
        &self,
        kind: RequestKind<'_>,
        plan: &ResponsePlan,
        outcome: &mut RecvOutcome,
    ) {
        let fails = |path: &&PathTest| match &path.query {
            QueryEffect::None => false,
            QueryEffect::Never => true,
            QueryEffect::Decides { unless, .. } => *unless,
        };
        let Some(first) = self.source.vcl.sub("vcl_backend_response").first() else { return };
        for path in kind.paths.iter().filter(fails) {
            let others: Vec<_> =
                kind.paths.iter().filter(|other| *other != path).cloned().collect();
            let other = response::plan(self.source, RequestKind { paths: &others, ..kind });
            let is_refused = other.is_refused && !self.source.drop_access_rules;
            if other == *plan || outcome.action != RecvAction::Hash && !is_refused {
                continue;
            }
            let mut conds = vec![(Cond::HasQuery, true)];
            if let QueryEffect::Decides { whole: Some(whole), .. } = &path.query {
                conds.push((Cond::Url(whole.clone()), false));
            }
            let text = format!(
                "{} does not match URLs with other queries in Varnish, so these URLs bypass the \
                 cache; to store them, allow a query before the $",
                path.regex
            );
            self.source.note(&first.place, "bereq.url", text);
            let action = match is_refused {
                true => RuleAction::Answer(SynthAnswer::refused()),
                false => RuleAction::Bypass,
            };
            outcome.rules.push(RequestRule { conds, action });
        }
    }

    /// The treatment of GET, with rules for other methods.
    fn methods(&self, paths: (&[PathTest], &[PathTest])) -> RecvOutcome {
        let mut all = self.outcome("GET", paths);
        let mut groups: Vec<(Vec<&str>, RecvOutcome)> = Vec::new();
        let methods = self.source.methods.iter().map(String::as_str);
        let is_own =
            |method: &&str| *method != "GET" && !(self.has_purge && PURGES.contains(method));
        let methods: Vec<&str> = methods.filter(is_own).collect();
        for method in &methods {
            let mut outcome = self.outcome(method, paths);
            if outcome.action == RecvAction::Purge {
                outcome.action = RecvAction::Answer(SynthAnswer::refused());
            }
            match groups.iter_mut().find(|(_, known)| *known == outcome) {
                Some((methods, _)) => methods.push(method),
                None => groups.push((vec![method], outcome)),
            }
        }
        let list = |methods: &[&str]| methods.iter().map(|one| (*one).to_owned()).collect();
        let other = self.outcome(OTHER_METHOD, paths);
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
        let mut known = vec!["GET"];
        known.extend(methods.iter().filter(|one| !in_group.contains(one)));
        if self.has_purge {
            known.extend(PURGES);
        }
        join(&Cond::Method(list(&known)), all, other).0
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

    /// The addresses that may purge.
    fn purge_from(&self) -> Option<Vec<String>> {
        let first = self.source.vcl.sub("vcl_recv").first().map(|one| &one.place)?;
        for method in PURGES {
            let outcome = self.outcome(method, (&[], &[]));
            if outcome.action != RecvAction::Purge {
                continue;
            }
            let answers = |rule: &&RequestRule| matches!(rule.action, RuleAction::Answer(_));
            let rules: Vec<_> = outcome.rules.iter().filter(answers).collect();
            match rules.as_slice() {
                [] => {
                    self.source.note(
                        first,
                        method,
                        "the VCL lets every client purge; here only this machine may: name the \
                         addresses in purge_from (docs/purging.md)",
                    );
                    return Some(vec!["127.0.0.1".to_owned(), "::1".to_owned()]);
                }
                [one] => {
                    if let [(Cond::Client(list), false)] = one.conds.as_slice() {
                        return Some(list.clone());
                    }
                }
                _ => {}
            }
            self.source.note(
                first,
                method,
                "left out: name the addresses that may purge in purge_from (docs/purging.md); \
                 until then these requests get 403",
            );
        }
        None
    }
}

/// Requests of other methods bypass the cache anyway.
fn simplify(rule: &mut RequestRule) -> bool {
    if matches!(rule.action, RuleAction::Answer(_) | RuleAction::Change(_)) {
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
            let (method, host) = ("GET", reader.host);
            let kind = RequestKind { method, host, paths: &holding, open: &[], is_original: false };
            let is_stored = !response::plan(reader.source, kind).is_uncacheable;
            let rank = reader.outcome("GET", (&holding, &[])).rank();
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
