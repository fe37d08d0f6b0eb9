//! `vcl_backend_response`: lifetimes, compression, responses that are not stored.

use super::eval::{Evaluator, RequestKind, Truth};
use super::lexer::VclPlace;
use super::outcome::{Cond, FieldChange, RequestState};
use super::regex;
use super::request::template;
use super::rulefile;
use super::source::VclSource;
use super::syntax::{Expr, Statement, StatementKind, field_of, seconds};

const DEPTH_MAX: usize = 32;
const STEPS_MAX: usize = 20_000;

/// The field in which rules give this cache a lifetime.
pub(super) const LIFETIME_FIELD: &str = "forebay-cache-control";

/// Fields whose meaning for the cache Varnish has read before the VCL runs.
const LIFETIME: &[&str] = &["cache-control", "expires", "pragma"];

/// Names that Varnish's own end of the sub tests; Forebay does not store such responses either.
const USUAL: &[&str] = &[
    "beresp.ttl",
    "beresp.http.set-cookie",
    "beresp.http.surrogate-control",
    "beresp.http.cache-control",
    "beresp.http.vary",
    "bereq.uncacheable",
    "beresp.http.pragma",
    "beresp.uncacheable",
    "beresp.http.authorization",
];

/// The treatment of the origin's responses.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ResponsePlan {
    pub(super) ttl: Option<u64>,
    pub(super) grace: Option<u64>,
    pub(super) is_uncacheable: bool,
    pub(super) is_abandoned: bool,
    pub(super) gzip: bool,
    pub(super) types: Vec<String>,
    /// Lifetimes on conditions of rules, in their order.
    pub(super) ttl_rules: Vec<(String, u64)>,
    pub(super) changes: Vec<FieldChange>,
    /// Rules of the hook `READ_RESPONSE_HDR_HOOK`, without the hook.
    pub(super) rules: Vec<String>,
    is_over: bool,
}

/// A condition of responses.
pub(super) enum ResponseTest {
    Known(bool),
    /// Responses with these statuses, or all of these and above.
    Status(Vec<u16>, bool),
    /// A field of the response.
    Field(String, String, bool),
    Request(Cond, bool),
    Other,
}

pub(super) struct ResponseReader<'r> {
    source: &'r VclSource<'r>,
    kind: RequestKind<'r>,
    steps: usize,
}

/// Follows `vcl_backend_response` for the responses of a route.
pub(super) fn plan(source: &VclSource<'_>, kind: RequestKind<'_>) -> ResponsePlan {
    let mut reader = ResponseReader { source, kind, steps: 0 };
    let mut plan = ResponsePlan::default();
    reader.run(source.vcl.sub("vcl_backend_response"), &mut plan, 0);
    plan
}

impl ResponseReader<'_> {
    fn run(&mut self, statements: &[Statement], plan: &mut ResponsePlan, depth: usize) {
        for statement in statements {
            self.steps += 1;
            if plan.is_over || depth > DEPTH_MAX || self.steps > STEPS_MAX {
                return;
            }
            let place = &statement.place;
            match &statement.kind {
                StatementKind::Set(name, value) => {
                    self.set(place, &name.to_ascii_lowercase(), value, plan);
                }
                StatementKind::Unset(name) => match field_of(name, "beresp.http.") {
                    Some(field) => change(plan, &field, None),
                    None => self.source.note(place, name, "left out"),
                },
                StatementKind::If(branches, last) => {
                    self.branches(place, (branches, last), plan, depth)
                }
                StatementKind::Call(name) => {
                    self.run(self.source.vcl.sub(name), plan, depth + 1);
                }
                StatementKind::Return(action, _) => {
                    plan.is_over = true;
                    match action.as_str() {
                        "pass" => plan.is_uncacheable = true,
                        "abandon" => plan.is_abandoned = true,
                        "retry" => self.source.note(
                            place,
                            "return",
                            "return(retry) is left out: docs/origins.md says when requests are \
                             sent again",
                        ),
                        _ => {}
                    }
                }
                StatementKind::Do(Expr::Call(name, _)) if name.starts_with("std.") => {}
                StatementKind::Foreign | StatementKind::Do(_) | StatementKind::New(..) => {
                    self.source.note(place, "call", "left out: Forebay has no such function");
                }
            }
        }
    }

    fn branches(
        &mut self,
        place: &VclPlace,
        (branches, last): (&[(Expr, Vec<Statement>)], &[Statement]),
        plan: &mut ResponsePlan,
        depth: usize,
    ) {
        for (test, inner) in branches {
            match self.test(place, test) {
                ResponseTest::Known(true) => return self.run(inner, plan, depth + 1),
                ResponseTest::Known(false) => {}
                decision => {
                    let mut other = plan.clone();
                    self.run(inner, &mut other, depth + 1);
                    other.is_over = false;
                    self.conditional(place, (test, &decision), plan, other);
                }
            }
        }
        self.run(last, plan, depth + 1);
    }

    /// Takes over from `other`, which holds on a condition, as much as Forebay can have.
    fn conditional(
        &self,
        place: &VclPlace,
        (test, decision): (&Expr, &ResponseTest),
        plan: &mut ResponsePlan,
        mut other: ResponsePlan,
    ) {
        let is_unstored = other.is_uncacheable || other.ttl == Some(0);
        let is_new = is_unstored && !plan.is_uncacheable;
        plan.is_abandoned |= other.is_abandoned;
        other.is_abandoned = plan.is_abandoned;
        if is_new && mentions(test).iter().all(|name| USUAL.contains(&name.as_str())) {
            return;
        }
        let cond = decision.rule_line();
        if is_new {
            match cond {
                Some(cond) => plan.rules.push(format!("{cond}set-http-cntl SERVER_NO_STORE on\n")),
                None => {
                    plan.is_uncacheable = true;
                    self.source.note(
                        place,
                        "if",
                        "Forebay cannot check this condition, so no response of these paths is \
                         stored; write a rule (docs/rules.md)",
                    );
                }
            }
            return;
        }
        if let (Some(cond), Some(ttl)) = (&cond, other.ttl)
            && other.ttl != plan.ttl
        {
            plan.ttl_rules.push((cond.clone(), ttl));
            other.ttl = plan.ttl;
        }
        if let Some(cond) = &cond {
            let is_known = |change: &FieldChange| plan.changes.contains(change);
            let new = other.changes.iter().filter(|change| !is_known(change));
            let lines: String = new.clone().map(rulefile::change_lines).collect();
            let is_lifetime = |change: &FieldChange| LIFETIME.contains(&change.name.as_str());
            if !lines.is_empty() && !new.clone().any(is_lifetime) {
                plan.rules.push(format!("{cond}{lines}"));
                other.changes.clone_from(&plan.changes);
            }
        }
        other.rules.clone_from(&plan.rules);
        other.ttl_rules.clone_from(&plan.ttl_rules);
        if other.gzip && !plan.gzip {
            (plan.gzip, other.gzip) = (true, true);
            plan.types = media_types(decision).unwrap_or_default();
            other.types.clone_from(&plan.types);
        }
        other.grace = if is_error(decision) { plan.grace } else { other.grace };
        if other != *plan {
            self.source.note(
                place,
                "if",
                "left out: lifetimes and fields of responses on this condition; see \
                 status_freshness, or write a rule (docs/rules.md)",
            );
        }
    }

    fn set(&self, place: &VclPlace, name: &str, value: &Expr, plan: &mut ResponsePlan) {
        let time = match value {
            Expr::Number(number) => seconds(number).map(|time| time.max(0.0).ceil() as u64),
            _ => None,
        };
        let is_on = value.name() == "true";
        match (name, time) {
            ("beresp.ttl", Some(time)) => {
                plan.ttl = Some(time);
                plan.ttl_rules.clear();
            }
            ("beresp.grace", Some(time)) => plan.grace = Some(time),
            ("beresp.keep" | "beresp.do_stream" | "beresp.storage" | "beresp.storage_hint", _) => {}
            ("beresp.uncacheable", _) => plan.is_uncacheable |= is_on,
            ("beresp.do_gzip", _) => plan.gzip = is_on,
            ("beresp.do_esi", _) if is_on => self.source.note(
                place,
                name,
                "not carried over: Forebay has no ESI, so clients get the pages with their ESI \
                 tags; let the application write whole pages",
            ),
            ("beresp.do_gunzip" | "beresp.do_esi", _) if !is_on => {}
            _ => match (field_of(name, "beresp.http."), template(value)) {
                // They are for bans by expression.
                (Some(field), _) if matches!(field.as_str(), "x-url" | "x-host") => {}
                (Some(field), Some(value)) => change(plan, &field, Some(value)),
                _ => self.source.note(place, name, "left out: the value cannot be carried over"),
            },
        }
    }

    /// The value of a condition.
    pub(super) fn test(&self, place: &VclPlace, test: &Expr) -> ResponseTest {
        use ResponseTest::{Field, Known, Other, Request, Status};
        match test {
            Expr::Not(inner) => match self.test(place, inner) {
                Known(value) => Known(!value),
                Field(name, pattern, positive) => Field(name, pattern, !positive),
                Request(cond, positive) => Request(cond, !positive),
                _ => Other,
            },
            Expr::All(parts) | Expr::Any(parts) => {
                let is_all = matches!(test, Expr::All(_));
                let mut rest = Vec::new();
                for part in parts {
                    match self.test(place, part) {
                        Known(value) if value == is_all => {}
                        Known(value) => return Known(value),
                        other => rest.push(other),
                    }
                }
                join_tests(rest, is_all)
            }
            Expr::Compare(left, symbol, right) if left.name() == "beresp.status" => {
                let Expr::Number(number) = &**right else { return Other };
                match (number.parse::<u16>(), *symbol) {
                    (Ok(status), "==") => Status(vec![status], false),
                    (Ok(status), ">=") => Status(vec![status.max(1)], true),
                    (Ok(status), ">") => Status(vec![status.saturating_add(1)], true),
                    (Ok(600 | 599), "<" | "<=") => Known(true),
                    _ => Other,
                }
            }
            Expr::Compare(left, symbol, right) => {
                let (name, text) = (left.name(), right.text());
                if let (Some(field), Some(text)) = (field_of(&name, "beresp.http."), text) {
                    let pattern = match symbol.ends_with('~') {
                        true if regex::is_linear(&text) => text,
                        false if text.is_empty() => "^$".to_owned(),
                        false => format!("^{}$", regex::literal(&text)),
                        true => return Other,
                    };
                    return Field(field, pattern, !symbol.starts_with('!'));
                }
                self.of_request(place, test)
            }
            Expr::Name(name) => match field_of(name, "beresp.http.") {
                Some(field) => Field(field, ".".to_owned(), true),
                None if name == "bereq.uncacheable" => Known(false),
                None => self.of_request(place, test),
            },
            Expr::Call(..) => self.of_request(place, test),
            _ => Other,
        }
    }

    fn of_request(&self, place: &VclPlace, test: &Expr) -> ResponseTest {
        let state = RequestState::default();
        let evaluator = Evaluator { source: self.source, kind: self.kind, state: &state, place };
        match evaluator.decide(&as_request(test)) {
            Truth::Known(value) => ResponseTest::Known(value),
            Truth::Depends(Cond::Other(..), _) => ResponseTest::Other,
            Truth::Depends(cond, positive) => ResponseTest::Request(cond, positive),
        }
    }
}

impl ResponseTest {
    /// The condition in rules.
    fn rule_line(&self) -> Option<String> {
        match self {
            ResponseTest::Status(list, false) => {
                let list: Vec<_> = list.iter().map(u16::to_string).collect();
                Some(format!("cond %{{STATUS}} ({})\n", list.join(",")))
            }
            ResponseTest::Status(list, true) => {
                Some(format!("cond %{{STATUS}} >{}\n", list.first().map_or(499, |one| one - 1)))
            }
            ResponseTest::Field(name, pattern, positive) => {
                let not = if *positive { "" } else { " [NOT]" };
                Some(format!("cond %{{HEADER:{name}}} {}{not}\n", regex::in_rules(pattern)))
            }
            ResponseTest::Request(cond, positive) => rulefile::cond_line(cond, *positive),
            _ => None,
        }
    }
}

/// The condition with `bereq` in place of `req`.
fn as_request(test: &Expr) -> Expr {
    let renamed = |name: &String| match name.strip_prefix("bereq.") {
        Some(rest) => Expr::Name(format!("req.{rest}")),
        None => Expr::Name(name.clone()),
    };
    match test {
        Expr::Name(name) => renamed(name),
        Expr::Compare(left, symbol, right) => match &**left {
            Expr::Name(name) => Expr::Compare(Box::new(renamed(name)), symbol, right.clone()),
            _ => test.clone(),
        },
        _ => test.clone(),
    }
}

fn join_tests(mut rest: Vec<ResponseTest>, is_all: bool) -> ResponseTest {
    match rest.len() {
        0 => ResponseTest::Known(is_all),
        1 => rest.remove(0),
        _ if !is_all => {
            let mut statuses = Vec::new();
            for one in &rest {
                let ResponseTest::Status(list, false) = one else { return ResponseTest::Other };
                statuses.extend(list);
            }
            ResponseTest::Status(statuses, false)
        }
        _ => ResponseTest::Other,
    }
}

fn is_error(decision: &ResponseTest) -> bool {
    matches!(decision, ResponseTest::Status(list, _) if list.iter().all(|status| *status >= 400))
}

/// The media types of a condition for `Content-Type`.
fn media_types(decision: &ResponseTest) -> Option<Vec<String>> {
    let ResponseTest::Field(field, pattern, true) = decision else { return None };
    if field != "content-type" {
        return None;
    }
    let (literals, _) = regex::expand(pattern, true)?;
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

/// Names in a condition.
fn mentions(test: &Expr) -> Vec<String> {
    match test {
        Expr::Name(_) => vec![test.name()],
        Expr::Not(inner) => mentions(inner),
        Expr::All(parts) | Expr::Any(parts) | Expr::Concat(parts) => {
            parts.iter().flat_map(mentions).collect()
        }
        Expr::Compare(left, _, _) => mentions(left),
        Expr::Call(name, _) => vec![name.clone()],
        _ => vec!["?".to_owned()],
    }
}

fn change(plan: &mut ResponsePlan, field: &str, value: Option<String>) {
    plan.changes.retain(|known| known.name != field);
    plan.changes.push(FieldChange { name: field.to_owned(), value });
}

impl ResponsePlan {
    /// The rules of the plan. Lifetimes are in a field that only this cache reads.
    pub(super) fn rule_text(&self, is_stored: bool) -> String {
        let mut out = String::new();
        let always = self.ttl.filter(|_| !self.ttl_rules.is_empty());
        let always = always.map(|ttl| (String::new(), ttl));
        for (cond, ttl) in always.iter().chain(&self.ttl_rules).filter(|_| is_stored) {
            out.push_str(&format!(
                "cond %{{READ_RESPONSE_HDR_HOOK}}\n{cond}cond %{{HEADER:Cache-Control}} \
                 /no-cache|no-store|private/ [NOT,NOCASE]\nset-header {LIFETIME_FIELD} \
                 \"max-age={ttl}\"\n\n"
            ));
        }
        for rule in self.rules.iter().filter(|_| is_stored) {
            out.push_str(&format!("cond %{{READ_RESPONSE_HDR_HOOK}}\n{rule}\n"));
        }
        for change in self.changes.iter().filter(|change| rulefile::is_free(&change.name)) {
            // With a lifetime of its own, the response is stored whatever these fields say.
            let is_removed = change.value.is_none() && self.ttl.is_some();
            let hook = match LIFETIME.contains(&change.name.as_str()) && !is_removed {
                true => "SEND_RESPONSE_HDR_HOOK",
                false => "READ_RESPONSE_HDR_HOOK",
            };
            out.push_str(&format!("cond %{{{hook}}}\n{}\n", rulefile::change_lines(change)));
        }
        out
    }
}
