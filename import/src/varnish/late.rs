//! Subs behind `vcl_recv` that may refuse a request, change its URL, or bypass the cache.
//!
//! Rules decide before the origin is asked. So a request is refused if such a statement may apply
//! to it, whatever the cache and the origin say.

use super::context::{ChangeLog, CondLiteral, Context, ContextReader};
use super::eval::RequestKind;
use super::lexer::VclPlace;
use super::outcome::{Cond, RecvAction, RecvOutcome, RequestRule, RuleAction, SynthAnswer};
use super::source::VclSource;
use super::syntax::{Expr, Statement, StatementKind};

const DEPTH_MAX: usize = 32;
const STEPS_MAX: usize = 10_000;

/// The subs that are followed.
const SUBS: &[&str] = &[
    "vcl_hash",
    "vcl_hit",
    "vcl_miss",
    "vcl_pass",
    "vcl_pipe",
    "vcl_backend_fetch",
    "vcl_deliver",
];

/// Variables that choose what the origin is asked for.
const TARGETS: &[&str] = &[
    "req.url",
    "bereq.url",
    "req.http.host",
    "bereq.http.host",
    "req.backend_hint",
    "bereq.backend",
    "req.method",
    "bereq.method",
];

/// Adds what the subs refuse and pass.
pub(super) fn restrict(source: &VclSource<'_>, kind: RequestKind<'_>, outcome: &mut RecvOutcome) {
    for name in SUBS {
        let pipes = |rule: &RequestRule| rule.action == RuleAction::Pipe;
        let is_piped = outcome.action == RecvAction::Pipe || outcome.rules.iter().any(pipes);
        if *name == "vcl_pipe" && !is_piped {
            continue;
        }
        let mut follower = LateFollower { source, kind, name, steps: 0, outcome };
        follower.run(source.vcl.sub(name), Context::always(), 0);
    }
}

struct LateFollower<'l> {
    source: &'l VclSource<'l>,
    kind: RequestKind<'l>,
    /// The name of the sub.
    name: &'l str,
    steps: usize,
    outcome: &'l mut RecvOutcome,
}

impl LateFollower<'_> {
    /// Returns the requests for which statements behind these apply.
    fn run(&mut self, statements: &[Statement], mut reached: Context, depth: usize) -> Context {
        for statement in statements {
            let place = &statement.place;
            self.steps += 1;
            if depth > DEPTH_MAX || self.steps > STEPS_MAX {
                self.refuse(place, "has too many cases", &Context::always());
                return Context::never();
            }
            if reached.is_never() {
                return reached;
            }
            match &statement.kind {
                StatementKind::If(branches, last) => {
                    reached = self.branches(place, (branches, last), &reached, depth);
                }
                StatementKind::Call(name) => {
                    self.run(self.source.vcl.sub(name), reached.clone(), depth + 1);
                }
                StatementKind::Return(action, _) => {
                    self.returned(place, action, &reached);
                    return Context::never();
                }
                StatementKind::Foreign => self.refuse(place, "is inline C", &reached),
                StatementKind::Set(name, value) => {
                    self.set(place, &name.to_ascii_lowercase(), value, &reached);
                }
                StatementKind::Unset(_) | StatementKind::Do(_) | StatementKind::New(..) => {}
            }
        }
        reached
    }

    fn branches(
        &mut self,
        place: &VclPlace,
        (branches, last): (&[(Expr, Vec<Statement>)], &[Statement]),
        reached: &Context,
        depth: usize,
    ) -> Context {
        let (source, kind) = (self.source, self.kind);
        let log = ChangeLog::default();
        let mut other = reached.clone();
        let mut behind = Context::never();
        for (test, inner) in branches {
            let reader = ContextReader { source, kind, place, log: &log, knows_method: false };
            let (yes, no) = reader.both(test);
            behind = behind.or(&self.run(inner, other.and(&yes), depth + 1));
            other = other.and(&no);
        }
        behind.or(&self.run(last, other, depth + 1))
    }

    fn returned(&mut self, place: &VclPlace, action: &str, reached: &Context) {
        match action {
            "pass" if matches!(self.name, "vcl_hit" | "vcl_miss") => {
                for conds in request_conds(reached) {
                    match conds.is_empty() {
                        true if self.outcome.action == RecvAction::Hash => {
                            self.source.note(
                                place,
                                self.name,
                                "Forebay cannot check this condition, so the requests bypass the \
                                 cache",
                            );
                            self.outcome.action = RecvAction::Pass;
                        }
                        true => {}
                        false => self
                            .outcome
                            .rules
                            .push(RequestRule { conds, action: RuleAction::Bypass }),
                    }
                }
            }
            "restart" if reached.is_of_errors() => self.source.note(
                place,
                "return",
                "return(restart) is left out: docs/origins.md says when requests are sent again",
            ),
            "synth" | "error" | "fail" | "restart" | "abandon" | "vcl" => {
                self.refuse(place, &format!("has return({action})"), reached);
            }
            _ => {}
        }
    }

    fn set(&mut self, place: &VclPlace, name: &str, value: &Expr, reached: &Context) {
        if name == "resp.status" {
            let is_refusal = match value {
                Expr::Number(number) => number.parse::<u16>().map_or(true, |status| status >= 300),
                _ => true,
            };
            if is_refusal && !reached.is_of_errors() {
                self.refuse(place, "sets another status", reached);
            }
        } else if TARGETS.contains(&name) && !is_sorted(value) {
            let message = "asks the origin for something else, so the requests get 503";
            self.source.note(place, name, format!("{} {message}", self.name));
            self.answer(&SynthAnswer::unavailable(), reached);
        }
    }

    fn refuse(&mut self, place: &VclPlace, what: &str, reached: &Context) {
        let name = self.name;
        if self.source.drop_access_rules {
            self.source.note(place, name, format!("{name} {what}; left out"));
            return;
        }
        let message = format!(
            "{name} {what}, which may refuse requests: those for which it may apply get 403; \
             protect them by allow_from or basic_auth (docs/access.md), or use --drop-access-rules"
        );
        self.source.note(place, name, message);
        self.answer(&SynthAnswer::refused(), reached);
    }

    fn answer(&mut self, answer: &SynthAnswer, reached: &Context) {
        for conds in request_conds(reached) {
            if conds.is_empty() {
                if !matches!(self.outcome.action, RecvAction::Answer(_)) {
                    self.outcome.action = RecvAction::Answer(answer.clone());
                }
                return;
            }
            self.outcome
                .rules
                .push(RequestRule { conds, action: RuleAction::Answer(answer.clone()) });
        }
    }
}

/// The conditions of each alternative that a request has before the origin is asked.
fn request_conds(reached: &Context) -> Vec<Vec<(Cond, bool)>> {
    let of = |literals: &Vec<CondLiteral>| {
        literals.iter().flat_map(CondLiteral::request_conds).collect()
    };
    let all: Vec<Vec<_>> = reached.any.iter().map(of).collect();
    // One without conditions stands for all.
    match all.iter().any(Vec::is_empty) {
        true => vec![Vec::new()],
        false => all,
    }
}

/// Whether only the order of parameters changes.
fn is_sorted(value: &Expr) -> bool {
    match value {
        Expr::Call(name, arguments) if name == "std.querysort" => arguments
            .first()
            .is_some_and(|one| matches!(one.name().as_str(), "req.url" | "bereq.url")),
        _ => false,
    }
}
