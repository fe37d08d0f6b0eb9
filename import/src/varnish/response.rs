//! `vcl_backend_response`: lifetimes, compression, responses that are not stored.
//!
//! Prohibitions to store, and short lifetimes, apply to all responses for which the statement may
//! apply; everything else only to those for which it certainly does.

use super::context::{Atom, CondLiteral, Context, ContextReader, LIFETIME};
use super::eval::RequestKind;
use super::lexer::VclPlace;
use super::outcome::FieldChange;
use super::plan::ResponsePlan;
use super::request::template;
use super::source::VclSource;
use super::syntax::{Expr, Statement, StatementKind, field_of, seconds};

const DEPTH_MAX: usize = 32;
const STEPS_MAX: usize = 20_000;
/// Rules of one kind.
const RULES_MAX: usize = 200;

/// Varnish's lifetime of responses that state none, and its grace, in seconds.
const DEFAULT_LIFETIME_S: u64 = 120;
const DEFAULT_GRACE_S: u64 = 10;

/// Follows `vcl_backend_response` for the responses of a route.
pub(super) fn plan(source: &VclSource<'_>, kind: RequestKind<'_>) -> ResponsePlan {
    let mut follower = ResponseFollower { source, kind, steps: 0, plan: ResponsePlan::default() };
    follower.run(source.vcl.sub("vcl_backend_response"), Context::always(), 0);
    follower.plan
}

struct ResponseFollower<'r> {
    source: &'r VclSource<'r>,
    kind: RequestKind<'r>,
    steps: usize,
    plan: ResponsePlan,
}

/// Conditions as lines of rules.
#[derive(Default)]
struct RuleLines {
    any: Vec<String>,
    /// Those of URLs whose query matches an expression for a path.
    in_query: Vec<String>,
    is_exact: bool,
}

impl ResponseFollower<'_> {
    /// Returns the responses for which statements behind these apply.
    fn run(&mut self, statements: &[Statement], mut reached: Context, depth: usize) -> Context {
        for statement in statements {
            self.steps += 1;
            if depth > DEPTH_MAX || self.steps > STEPS_MAX {
                self.plan.is_uncacheable = true;
                return Context::never();
            }
            if reached.is_never() {
                return reached;
            }
            let place = &statement.place;
            match &statement.kind {
                StatementKind::Set(name, value) => {
                    self.set(place, &name.to_ascii_lowercase(), value, &reached);
                }
                StatementKind::Unset(name) => match field_of(name, "beresp.http.") {
                    Some(field) => {
                        let change = FieldChange { name: field, value: None };
                        self.change(place, change, &reached);
                    }
                    None => self.source.note(place, name, "left out"),
                },
                StatementKind::If(branches, last) => {
                    reached = self.branches(place, (branches, last), reached, depth);
                }
                StatementKind::Call(name) => {
                    let inner = self.source.vcl.sub(name);
                    let rest = self.run(inner, reached.clone(), depth + 1);
                    // A plain `return` ends only the sub.
                    reached = match ends_plainly(inner) {
                        true => Context { is_exact: false, ..reached },
                        false => rest,
                    };
                }
                StatementKind::Return(action, _) => {
                    self.returned(place, action, &reached);
                    // Errors of the origin are answered from the store, as far as it has answers.
                    let goes_on = matches!(action.as_str(), "abandon" | "retry");
                    if !goes_on || !reached.is_of_errors() {
                        return Context::never();
                    }
                }
                StatementKind::Do(Expr::Call(name, _)) if name.starts_with("std.") => {}
                StatementKind::Foreign | StatementKind::Do(_) | StatementKind::New(..) => {
                    self.source.note(place, "call", "left out: Forebay has no such function");
                }
            }
        }
        reached
    }

    fn branches(
        &mut self,
        place: &VclPlace,
        (branches, last): (&[(Expr, Vec<Statement>)], &[Statement]),
        reached: Context,
        depth: usize,
    ) -> Context {
        let mut other = reached.clone();
        let mut behind = Context::never();
        let mut all_go_on = true;
        for (test, inner) in branches {
            let (source, kind) = (self.source, self.kind);
            let log = &self.plan.log;
            let (yes, no) =
                ContextReader { source, kind, place, log, knows_method: true }.both(test);
            let into = other.and(&yes);
            if !into.is_never() {
                let rest = self.run(inner, into.clone(), depth + 1);
                all_go_on &= rest == into;
                behind = behind.or(&rest);
            }
            other = other.and(&no);
        }
        let rest = self.run(last, other.clone(), depth + 1);
        if all_go_on && rest == other { reached } else { behind.or(&rest) }
    }

    fn returned(&mut self, place: &VclPlace, action: &str, reached: &Context) {
        match action {
            "pass" | "hit_for_pass" => self.unstore(place, reached, false),
            "deliver" | "" => {}
            "abandon" if reached.is_of_errors() => self.plan.is_abandoned = true,
            "retry" | "restart" if reached.is_of_errors() => self.source.note(
                place,
                "return",
                "return(retry) is left out: docs/origins.md says when requests are sent again",
            ),
            _ => {
                self.plan.is_refused = true;
                self.source.note(
                    place,
                    "return",
                    format!(
                        "return({action}) may refuse the request, and rules cannot do that after \
                         the response, so these paths get 403; or use --drop-access-rules"
                    ),
                );
            }
        }
    }

    /// Does not store the responses.
    fn unstore(&mut self, place: &VclPlace, reached: &Context, is_lifetime_0: bool) {
        if self.plan.is_uncacheable {
            return;
        }
        for literals in &reached.any {
            let is_unstored = |one: &CondLiteral| {
                one.atom == Atom::IsUnstored && one.is_positive && one.is_of_origin()
            };
            if literals.iter().any(is_unstored) {
                continue;
            }
            let known = literals.iter().filter(|one| one.is_of_origin());
            let lines: String = known.filter_map(CondLiteral::lines).collect();
            if lines.is_empty() || self.plan.unstored.len() > RULES_MAX {
                self.plan.is_uncacheable |= !is_lifetime_0 || !reached.is_always();
                if is_lifetime_0 && reached.is_always() {
                    self.plan.lifetime = Some(0);
                    return;
                }
                if !reached.is_always() {
                    self.source.note(
                        place,
                        "if",
                        "Forebay cannot check this condition, so no response of these paths is \
                         stored; write a rule (docs/rules.md)",
                    );
                }
                return;
            }
            let list = match is_lifetime_0 {
                true => &mut self.plan.unstored_by_lifetime,
                false => &mut self.plan.unstored,
            };
            if !list.contains(&lines) {
                list.push(lines);
            }
        }
    }

    fn set(&mut self, place: &VclPlace, name: &str, value: &Expr, reached: &Context) {
        let time = match value {
            Expr::Number(number) => seconds(number).map(|time| time.max(0.0).ceil() as u64),
            _ => None,
        };
        let is_on = value.name() == "true";
        let is_off = value.name() == "false";
        match (name, time) {
            ("beresp.ttl", Some(0)) => self.unstore_by_lifetime(place, reached),
            ("beresp.ttl", Some(time)) => self.lifetime(place, time, reached),
            ("beresp.ttl", None) => {
                self.source.note(
                    place,
                    name,
                    "the value cannot be carried over, so the response is not stored",
                );
                self.plan.log.lifetime = Some(None);
                self.plan.log.may_be_zero = true;
                self.unstore(place, reached, false);
            }
            ("beresp.grace", Some(time)) => {
                let known = self.plan.grace.unwrap_or(DEFAULT_GRACE_S);
                match reached.is_always() {
                    true => self.plan.grace = Some(time),
                    false if reached.is_of_errors() => {}
                    false => self.plan.grace = Some(known.min(time)),
                }
            }
            ("beresp.grace", None) => {
                self.plan.grace = Some(0);
                self.source.note(place, name, "the value cannot be carried over, so it becomes 0");
            }
            ("beresp.keep" | "beresp.do_stream" | "beresp.storage" | "beresp.storage_hint", _) => {}
            ("beresp.uncacheable", _) if is_off => {}
            ("beresp.uncacheable", _) => self.unstore(place, reached, false),
            ("beresp.status", _) => self.status(place, value, reached),
            ("beresp.do_gzip", _) => self.gzip(is_on, reached),
            ("beresp.do_esi", _) if is_on => self.source.note(
                place,
                name,
                "not carried over: Forebay has no ESI, so clients get the pages with their ESI \
                 tags; let the application write whole pages",
            ),
            ("beresp.do_gunzip" | "beresp.do_esi", _) if !is_on => {}
            _ => match field_of(name, "beresp.http.") {
                // They are for bans by expression.
                Some(field) if matches!(field.as_str(), "x-url" | "x-host") => {}
                Some(field) => {
                    match template(value).filter(|_| !self.source.has_changed_field(value)) {
                        Some(value) => {
                            let change = FieldChange { name: field, value: Some(value) };
                            self.change(place, change, reached);
                        }
                        None => {
                            self.plan.log.unknown.push(field.clone());
                            self.plan.log.fields.push(field);
                            self.left_out(place, name);
                        }
                    }
                }
                None => self.source.note(place, name, "left out: the value cannot be carried over"),
            },
        }
    }

    fn left_out(&self, place: &VclPlace, name: &str) {
        self.source.note(place, name, "left out: the value cannot be carried over");
    }

    fn status(&mut self, place: &VclPlace, value: &Expr, reached: &Context) {
        self.plan.log.fields.push("status".to_owned());
        let is_error = match value {
            Expr::Number(number) => number.parse::<u16>().map_or(true, |status| status >= 300),
            _ => true,
        };
        if is_error && !reached.is_of_errors() {
            self.plan.is_refused = true;
            let message = "another status may refuse the request, and rules cannot do that after \
                           the response, so these paths get 403; or use --drop-access-rules";
            return self.source.note(place, "beresp.status", message);
        }
        self.source.note(place, "beresp.status", "left out: the origin's status is sent");
    }

    fn unstore_by_lifetime(&mut self, place: &VclPlace, reached: &Context) {
        self.plan.log.lifetime = Some(reached.is_always().then_some(0));
        self.plan.log.may_be_zero = true;
        self.unstore(place, reached, true);
    }

    fn lifetime(&mut self, place: &VclPlace, lifetime: u64, reached: &Context) {
        let before = self.plan.log.lifetime;
        self.plan.log.lifetime = Some(None);
        if reached.is_always() {
            self.plan.log.lifetime = Some(Some(lifetime));
            self.plan.log.may_be_zero = false;
            self.plan.lifetime = Some(lifetime);
            self.plan.lifetimes.clear();
            self.plan.unstored_by_lifetime.clear();
            self.plan.query_lifetimes.iter_mut().for_each(|(_, time)| *time = lifetime.min(*time));
            return;
        }
        let lines = lines(reached, true, CondLiteral::is_of_origin);
        if lifetime <= DEFAULT_LIFETIME_S
            || self.plan.lifetime.is_some_and(|known| lifetime < known)
        {
            let rules = lines.in_query.iter().map(|line| (line.clone(), lifetime));
            self.plan.query_lifetimes.extend(rules);
        }
        if lines.any.is_empty() {
            self.plan.log.lifetime = before;
            if lines.in_query.is_empty() && lifetime > DEFAULT_LIFETIME_S {
                self.source.note(place, "beresp.ttl", "left out: such a response is not stored");
            }
            return;
        }
        let is_base = self.plan.lifetimes.is_empty() && self.plan.unstored_by_lifetime.is_empty();
        match self.plan.lifetime.filter(|_| is_base) {
            _ if self.plan.lifetimes.len() > RULES_MAX => self.plan.is_uncacheable = true,
            _ if lines.is_exact => {
                self.plan.lifetimes.extend(lines.any.into_iter().map(|line| (line, lifetime)));
            }
            // The shorter lifetime is that of all for which it may be.
            Some(known) if lifetime < known => {
                self.plan.lifetimes.extend(lines.any.into_iter().map(|line| (line, lifetime)));
            }
            Some(_) => self.source.note(
                place,
                "if",
                "left out: a longer lifetime on this condition; see status_freshness, or write a \
                 rule (docs/rules.md)",
            ),
            None => self.unstore(place, reached, false),
        }
    }

    fn change(&mut self, place: &VclPlace, change: FieldChange, reached: &Context) {
        let log = &mut self.plan.log;
        let field = change.name.clone();
        let lines = match reached.is_always() {
            true => RuleLines { any: vec![String::new()], in_query: vec![], is_exact: true },
            false => lines(reached, false, |one| one.is_current(log)),
        };
        log.removed.retain(|known| *known != field);
        log.fields.push(field.clone());
        if reached.is_always() {
            log.unknown.retain(|known| *known != field);
            if change.value.is_none() {
                log.removed.push(field.clone());
            }
        }
        let is_lifetime = LIFETIME.contains(&field.as_str()) && !reached.is_always();
        let has_room = self.plan.changes.len() < RULES_MAX;
        if lines.is_exact && !is_lifetime && has_room {
            let each = lines.any.into_iter().map(|line| (line, change.clone()));
            self.plan.changes.extend(each);
            return;
        }
        log.unknown.push(field);
        self.source.note(
            place,
            "if",
            "left out: a field of responses on this condition; write a rule (docs/rules.md)",
        );
    }

    fn gzip(&mut self, is_on: bool, reached: &Context) {
        if !is_on {
            self.plan.gzip &= !reached.is_always();
            return;
        }
        let types = match reached.any.as_slice() {
            [literals] => literals.iter().find_map(media_types),
            _ => None,
        };
        if !self.plan.gzip {
            self.plan.types = types.unwrap_or_default();
        }
        self.plan.gzip = true;
    }
}

/// Whether a sub may end by a `return` without an action.
fn ends_plainly(statements: &[Statement]) -> bool {
    statements.iter().any(|statement| match &statement.kind {
        StatementKind::Return(action, _) => action.is_empty(),
        StatementKind::If(branches, last) => {
            branches.iter().any(|(_, inner)| ends_plainly(inner)) || ends_plainly(last)
        }
        _ => false,
    })
}

/// The lines of the alternatives, if they are those of all the responses.
fn lines(
    reached: &Context,
    is_of_lifetime: bool,
    is_valid: impl Fn(&CondLiteral) -> bool,
) -> RuleLines {
    let mut found = RuleLines { is_exact: reached.is_exact, ..RuleLines::default() };
    for literals in &reached.any {
        // Such a response is stored only for the time that the origin states, or not at all.
        let is_less = |one: &CondLiteral| {
            matches!(one.atom, Atom::IsUnstored | Atom::IsShort) && one.is_positive
        };
        if is_of_lifetime && literals.iter().any(is_less) {
            continue;
        }
        let mut text = String::new();
        for literal in literals {
            match literal.lines().filter(|_| is_valid(literal)) {
                Some(lines) => text.push_str(&lines),
                // Rules for lifetimes leave out such a response, and so does the cache.
                None if is_of_lifetime && literal.atom == Atom::IsUnstored => {}
                None => found.is_exact = false,
            }
        }
        let is_in_query =
            literals.iter().any(|one| matches!(one.atom, Atom::InQuery(_)) && one.is_positive);
        if is_in_query { found.in_query.push(text) } else { found.any.push(text) }
    }
    found
}

/// The media types of a condition for `Content-Type`.
fn media_types(literal: &CondLiteral) -> Option<Vec<String>> {
    let Atom::Field(field, pattern) = &literal.atom else { return None };
    if field != "content-type" || !literal.is_positive {
        return None;
    }
    let (literals, _) = super::regex::expand(pattern, true)?;
    let types: Option<Vec<_>> = literals
        .iter()
        .map(|literal| match literal.text.as_str() {
            "text" | "text/" => Some("text/*".to_owned()),
            text if text.split('/').filter(|part| !part.is_empty()).count() == 2 => {
                Some(text.to_owned())
            }
            _ => None,
        })
        .collect();
    types
}
