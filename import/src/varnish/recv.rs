//! `vcl_recv`, followed for one kind of requests at a time.

use super::answer;
use super::eval::{Evaluator, RequestKind, Truth};
use super::join::{differs_for_origin, is_as_strict, join, without};
use super::lexer::VclPlace;
use super::outcome::{
    Cond, Cookies, Loss, RecvAction, RecvOutcome, RequestRule, RequestState, RuleAction,
    SynthAnswer,
};
use super::request;
use super::source::VclSource;
use super::syntax::{Expr, Statement, StatementKind};

/// Statements that one kind of requests may pass. Each condition that is not known doubles those
/// behind it.
const STEPS_MAX: usize = 10_000;
/// Statements that all kinds of requests together may pass.
const ALL_STEPS_MAX: usize = 2_000_000;
/// Longest chain of conditions that follow one another, in each of which the next one is decided.
const DEPTH_MAX: usize = 1000;

/// Rules that the requests of one route may need.
const RULES_MAX: usize = 256;

/// Varnish's own end of `vcl_recv`.
pub(super) const BUILTIN: &str = r#"
sub vcl_recv {
    if (req.method != "GET" && req.method != "HEAD" && req.method != "PUT" &&
        req.method != "POST" && req.method != "TRACE" && req.method != "OPTIONS" &&
        req.method != "DELETE" && req.method != "PATCH") { return (pass); }
    if (req.method != "GET" && req.method != "HEAD") { return (pass); }
    if (req.http.Authorization || req.http.Cookie) { return (pass); }
    return (hash);
}
"#;

/// Statements that follow, and those behind them.
struct Rest<'r> {
    statements: &'r [Statement],
    /// The number of calls around the statements.
    calls: usize,
    next: Option<&'r Rest<'r>>,
}

/// What to do when a condition is decided.
enum Goal<'g> {
    Run(Rest<'g>),
    /// Further conditions, all of which must hold (`true`), or one of which must.
    Test(&'g [Expr], bool, &'g Goal<'g>, &'g Goal<'g>),
}

/// Follows the VCL.
pub(super) struct RecvFollower<'f> {
    source: &'f VclSource<'f>,
    kind: RequestKind<'f>,
    builtin: &'f [Statement],
    steps: usize,
    has_too_many: bool,
    depth: usize,
    /// Conditions that are decided around the statement.
    assumed: Vec<(Cond, bool)>,
}

/// The treatment of a kind of requests.
pub(super) fn follow(
    source: &VclSource<'_>,
    kind: RequestKind<'_>,
    builtin: &[Statement],
) -> RecvOutcome {
    let mut follower = RecvFollower {
        source,
        kind,
        builtin,
        steps: 0,
        has_too_many: false,
        depth: 0,
        assumed: Vec::new(),
    };
    let own = source.vcl.sub("vcl_recv");
    let last = Rest { statements: follower.builtin, calls: 0, next: None };
    let first = Rest { statements: own, calls: 0, next: Some(&last) };
    let outcome = follower.run(&first, RequestState::default());
    let steps = source.steps.get().saturating_add(follower.steps);
    source.steps.set(steps);
    match own.first() {
        Some(first) if follower.has_too_many => {
            follower.refuse(&first.place, "vcl_recv", "has too many cases")
        }
        _ => outcome,
    }
}

impl RecvFollower<'_> {
    fn run(&mut self, rest: &Rest<'_>, mut state: RequestState) -> RecvOutcome {
        let mut rest = Rest { statements: rest.statements, calls: rest.calls, next: rest.next };
        loop {
            let Some((statement, behind)) = rest.statements.split_first() else {
                let Some(next) = rest.next else { return self.end(RecvAction::Hash, state) };
                rest = Rest { statements: next.statements, calls: next.calls, next: next.next };
                continue;
            };
            rest.statements = behind;
            self.steps += 1;
            let is_over = self.steps > STEPS_MAX || self.source.steps.get() > ALL_STEPS_MAX;
            if is_over || self.depth > DEPTH_MAX || rest.calls > 32 {
                self.has_too_many = true;
            }
            if self.has_too_many {
                return RecvOutcome::new(RecvAction::Pass, state);
            }
            match &statement.kind {
                StatementKind::If(branches, last) => {
                    return self.branches(&statement.place, (branches, last), &rest, state);
                }
                StatementKind::Return(action, _) if action.is_empty() => {
                    let Some(next) = caller(&rest) else {
                        return self.end(RecvAction::Hash, state);
                    };
                    rest = Rest { statements: next.statements, calls: next.calls, next: next.next };
                }
                StatementKind::Return(action, arguments) => {
                    return self.returned(&statement.place, action, arguments, state);
                }
                StatementKind::Call(name) => {
                    let inner = self.source.vcl.sub(name);
                    let calls = rest.calls + 1;
                    let next = Rest { statements: inner, calls, next: Some(&rest) };
                    return self.run(&next, state);
                }
                StatementKind::Foreign => {
                    return self.refuse(&statement.place, "C{", "is inline C");
                }
                StatementKind::Do(call) if self.purges(call) => {
                    return RecvOutcome::new(RecvAction::Purge, state);
                }
                StatementKind::Set(_, Expr::Call(name, _)) if name.contains("purge") => {
                    return RecvOutcome::new(RecvAction::Purge, state);
                }
                StatementKind::New(..) => {}
                _ => {
                    if let Err(request::Untold) =
                        request::apply(self.source, self.kind.host, statement, &mut state)
                    {
                        return RecvOutcome::new(
                            RecvAction::Answer(SynthAnswer::unavailable()),
                            state,
                        );
                    }
                }
            }
        }
    }

    fn purges(&self, call: &Expr) -> bool {
        matches!(call, Expr::Call(name, _) if matches!(name.as_str(), "ban" | "std.ban"))
            || matches!(call, Expr::Call(name, _)
                if name.starts_with("xkey.") || name.contains("purge"))
    }

    fn branches(
        &mut self,
        place: &VclPlace,
        (branches, last): (&[(Expr, Vec<Statement>)], &[Statement]),
        rest: &Rest<'_>,
        state: RequestState,
    ) -> RecvOutcome {
        let Some(((test, inner), others)) = branches.split_first() else {
            return self
                .run(&Rest { statements: last, calls: rest.calls, next: Some(rest) }, state);
        };
        let yes = Goal::Run(Rest { statements: inner, calls: rest.calls, next: Some(rest) });
        if others.is_empty() {
            let no = Goal::Run(Rest { statements: last, calls: rest.calls, next: Some(rest) });
            return self.test(place, test, &yes, &no, state);
        }
        let kind = StatementKind::If(others.to_vec(), last.to_vec());
        let chain = [Statement { place: place.clone(), kind }];
        let no = Goal::Run(Rest { statements: &chain, calls: rest.calls, next: Some(rest) });
        self.test(place, test, &yes, &no, state)
    }

    fn goal(&mut self, place: &VclPlace, goal: &Goal<'_>, state: RequestState) -> RecvOutcome {
        match goal {
            Goal::Run(rest) => {
                self.depth += 1;
                let outcome = self.run(rest, state);
                self.depth -= 1;
                outcome
            }
            Goal::Test(parts, all, yes, no) => match (parts.split_first(), all) {
                (None, true) => self.goal(place, yes, state),
                (None, false) => self.goal(place, no, state),
                (Some((first, parts)), true) => {
                    self.test(place, first, &Goal::Test(parts, true, yes, no), no, state)
                }
                (Some((first, parts)), false) => {
                    self.test(place, first, yes, &Goal::Test(parts, false, yes, no), state)
                }
            },
        }
    }

    fn test(
        &mut self,
        place: &VclPlace,
        test: &Expr,
        yes: &Goal<'_>,
        no: &Goal<'_>,
        state: RequestState,
    ) -> RecvOutcome {
        match test {
            Expr::Not(inner) => return self.test(place, inner, no, yes, state),
            Expr::All(parts) => {
                return self.goal(place, &Goal::Test(parts, true, yes, no), state);
            }
            Expr::Any(parts) => {
                return self.goal(place, &Goal::Test(parts, false, yes, no), state);
            }
            _ => {}
        }
        let evaluator = Evaluator { source: self.source, kind: self.kind, state: &state, place };
        match evaluator.decide(test) {
            Truth::Known(true) => self.goal(place, yes, state),
            Truth::Known(false) => self.goal(place, no, state),
            Truth::Depends(cond, positive) => {
                let (yes, no) = if positive { (yes, no) } else { (no, yes) };
                self.depends(place, (&cond, None), state, &mut |follower, holds, state| {
                    follower.goal(place, if holds { yes } else { no }, state)
                })
            }
            Truth::Guarded(guard, otherwise, inner) => {
                let Truth::Depends(inner, positive) = *inner else {
                    return self.refuse(place, "if", "cannot be read");
                };
                let (is, is_not) = if positive { (yes, no) } else { (no, yes) };
                let without = if otherwise { yes } else { no };
                let of_guard = (&guard, Some(false));
                self.depends(place, of_guard, state, &mut |follower, holds, state| {
                    if !holds {
                        return follower.goal(place, without, state);
                    }
                    let inner = (&inner, Some(otherwise == positive));
                    follower.depends(place, inner, state, &mut |follower, holds, state| {
                        follower.goal(place, if holds { is } else { is_not }, state)
                    })
                })
            }
        }
    }

    /// Follows both sides of a condition. The requests of one side, if it is the usual one, keep
    /// their origin.
    fn depends(
        &mut self,
        place: &VclPlace,
        (cond, usual): (&Cond, Option<bool>),
        state: RequestState,
        follow: &mut dyn FnMut(&mut Self, bool, RequestState) -> RecvOutcome,
    ) -> RecvOutcome {
        let known = self.assumed.iter().find_map(|(known, value)| cond.follows(known, *value));
        if let Some(value) = known {
            return follow(self, value, state);
        }
        let is_guarded = self.assumed.last() == Some(&(Cond::HasQuery, true));
        self.assumed.push((cond.clone(), true));
        let yes = follow(self, true, state.clone());
        self.assumed.pop();
        self.assumed.push((cond.clone(), false));
        let no = follow(self, false, state);
        self.assumed.pop();
        // Expressions for paths rarely mean queries, and none of these requests gets more.
        if is_guarded && matches!(cond, Cond::Url(_)) && is_as_strict(&no, &yes) {
            return no;
        }
        if let Some(side) = usual.filter(|_| differs_for_origin(&yes.state, &no.state)) {
            let is_known = !matches!(cond, Cond::Other(..));
            let answers = |one: &RecvOutcome| matches!(one.action, RecvAction::Answer(_));
            if is_known && !answers(&yes) && !answers(&no) {
                let outcome = without(cond, !side, if side { yes } else { no.clone() });
                return self.join_noted(place, cond, (outcome, no), Some(Loss::Origin));
            }
        }
        let (outcome, loss) = join(cond, yes, no.clone());
        self.has_too_many |= outcome.rules.len() > RULES_MAX;
        self.join_noted(place, cond, (outcome, no), loss)
    }

    /// Notes a loss; without access rules, the requests are served.
    fn join_noted(
        &self,
        place: &VclPlace,
        cond: &Cond,
        (outcome, no): (RecvOutcome, RecvOutcome),
        loss: Option<Loss>,
    ) -> RecvOutcome {
        let shown = match cond {
            Cond::Other(_, shown) => format!("Forebay cannot check {shown}"),
            _ => "on this condition".to_owned(),
        };
        match loss {
            None => {}
            Some(Loss::Access) if self.source.drop_access_rules => {
                self.source.note(place, "if", format!("an access rule is left out: {shown}"));
                return match no.rank() {
                    0 => RecvOutcome::new(RecvAction::Pass, no.state),
                    _ => no,
                };
            }
            Some(Loss::Access) => self.source.note(
                place,
                "if",
                format!(
                    "{shown}, and it may refuse requests, so they get 403; protect them by \
                     allow_from or basic_auth (docs/access.md), or use --drop-access-rules"
                ),
            ),
            Some(Loss::Cache) => self.source.note(
                place,
                "if",
                format!("{shown}, so the requests bypass the cache; see bypass_cookies and rules"),
            ),
            Some(Loss::Origin) => self.source.note(
                place,
                "if",
                format!(
                    "{shown}: requests would go to another origin, host or query, so they get \
                     503; write a route or a site for them (docs/origins.md)"
                ),
            ),
            Some(Loss::Fields) => self.source.note(
                place,
                "if",
                format!(
                    "{shown}: these fields of requests are removed; write a rule (docs/rules.md)"
                ),
            ),
        }
        outcome
    }

    fn refuse(&self, place: &VclPlace, directive: &str, message: &str) -> RecvOutcome {
        let state = RequestState::default();
        if self.source.drop_access_rules {
            self.source.note(place, directive, format!("{message}; left out"));
            return RecvOutcome::new(RecvAction::Pass, state);
        }
        self.source.note(
            place,
            directive,
            format!("{message}, and may refuse requests, so they get 403"),
        );
        RecvOutcome::new(RecvAction::Answer(SynthAnswer::refused()), state)
    }

    fn returned(
        &self,
        place: &VclPlace,
        action: &str,
        arguments: &[Expr],
        state: RequestState,
    ) -> RecvOutcome {
        let unavailable = RecvAction::Answer(SynthAnswer::unavailable());
        let action = match action {
            "hash" | "lookup" => RecvAction::Hash,
            "pass" | "hash_for_pass" => RecvAction::Pass,
            "pipe" => RecvAction::Pipe,
            "purge" => RecvAction::Purge,
            "synth" | "error" => {
                let host = state.host.clone();
                RecvAction::Answer(answer::of_synth(self.source, place, arguments, host.as_deref()))
            }
            "fail" => unavailable,
            _ => {
                let advice = "has no counterpart; the requests get 503";
                self.source.note(place, "return", format!("return({action}) {advice}"));
                unavailable
            }
        };
        self.end(action, state)
    }

    /// Varnish sends only the filtered cookies to the origin and stores the response for all. If
    /// the filter is not known, no request with cookies may cause such a response.
    fn end(&self, action: RecvAction, state: RequestState) -> RecvOutcome {
        let is_changed =
            matches!(state.cookies, Cookies::Fewer | Cookies::Other) && action == RecvAction::Hash;
        let mut outcome = RecvOutcome::new(action, state);
        if is_changed {
            let conds = vec![(Cond::Field("cookie".to_owned()), true)];
            outcome.rules.push(RequestRule { conds, action: RuleAction::Bypass });
        }
        outcome
    }
}

/// The statements behind the call of the sub.
fn caller<'r>(rest: &Rest<'r>) -> Option<&'r Rest<'r>> {
    let mut next = rest.next;
    while let Some(found) = next {
        if found.calls < rest.calls {
            return Some(found);
        }
        next = found.next;
    }
    None
}
