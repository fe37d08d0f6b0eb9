//! The treatment of a request, and how the treatments of two branches join.

use std::collections::BTreeSet;

use super::lexer::VclPlace;

/// The cookies that the origin gets.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Cookies {
    #[default]
    All,
    /// Those with these names; a name may end in `*`.
    Only(Vec<String>),
    None,
    /// Changed in a way that Forebay does not know.
    Changed,
}

/// A change of a request on its way to the origin.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FieldChange {
    pub(super) name: String,
    /// The value, as rules write it; `None` removes the field.
    pub(super) value: Option<String>,
}

/// The request as the VCL has changed it so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct RequestState {
    pub(super) cookies: Cookies,
    pub(super) sort_query: bool,
    pub(super) drop_query: BTreeSet<String>,
    pub(super) backend: Option<String>,
    pub(super) host: Option<String>,
    pub(super) fields: Vec<FieldChange>,
    pub(super) grace: Option<u64>,
}

/// An answer that Varnish makes itself.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SynthAnswer {
    pub(super) status: u16,
    /// The URL with `$uri` and `$host`.
    pub(super) location: Option<String>,
    pub(super) body: String,
    pub(super) media: Option<String>,
}

impl SynthAnswer {
    pub(super) fn unavailable() -> SynthAnswer {
        SynthAnswer { status: 503, location: None, body: String::new(), media: None }
    }

    pub(super) fn refused() -> SynthAnswer {
        SynthAnswer { status: 403, location: None, body: String::new(), media: None }
    }
}

/// The end of `vcl_recv`.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum RecvAction {
    Hash,
    Pass,
    Pipe,
    Purge,
    Answer(SynthAnswer),
}

/// A property of a request that is known only when it arrives.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cond {
    /// The field is there.
    Field(String),
    FieldIs(String, String),
    FieldMatches(String, String),
    HasQuery,
    Query(String),
    /// An expression for the path without its first slash.
    Path(String),
    Method(Vec<String>),
    Client(Vec<String>),
    /// A condition that rules cannot have.
    Other(VclPlace, String),
}

impl Cond {
    /// The value of the condition if the other one has this value; `None` if that is not enough.
    pub(super) fn follows(&self, known: &Cond, value: bool) -> Option<bool> {
        if self == known {
            return Some(value);
        }
        match (self, known, value) {
            (Cond::Field(name), Cond::FieldIs(other, _) | Cond::FieldMatches(other, _), true)
                if name == other =>
            {
                Some(true)
            }
            (Cond::FieldIs(name, _) | Cond::FieldMatches(name, _), Cond::Field(other), false)
                if name == other =>
            {
                Some(false)
            }
            (Cond::Query(_), Cond::HasQuery, false) => Some(false),
            _ => None,
        }
    }

    /// Whether it is about this field.
    pub(super) fn is_about(&self, field: &str) -> bool {
        matches!(self, Cond::Field(name) | Cond::FieldIs(name, _) | Cond::FieldMatches(name, _)
            if name == field)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum RuleAction {
    Bypass,
    Answer(SynthAnswer),
    Pipe,
}

/// An action on conditions, all of which must hold; `false` negates one.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RequestRule {
    pub(super) conds: Vec<(Cond, bool)>,
    pub(super) action: RuleAction,
}

/// The treatment of the requests of a route.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RecvOutcome {
    pub(super) action: RecvAction,
    pub(super) state: RequestState,
    pub(super) rules: Vec<RequestRule>,
}

/// A join that loses something.
pub(super) enum Loss {
    /// An access rule on a condition that rules cannot have.
    Access,
    /// Requests bypass the cache.
    Cache,
    /// Requests for which another origin, host or query applies.
    Origin,
    /// Only fields of requests.
    Fields,
}

impl RecvOutcome {
    pub(super) fn new(action: RecvAction, state: RequestState) -> RecvOutcome {
        RecvOutcome { action, state, rules: Vec::new() }
    }

    /// How strict the treatment is: 0 refuses requests, 3 stores all responses.
    pub(super) fn rank(&self) -> u8 {
        let answers = |rule: &RequestRule| matches!(rule.action, RuleAction::Answer(_));
        match self.action {
            RecvAction::Answer(_) => 0,
            _ if self.rules.iter().any(answers) => 1,
            RecvAction::Pass | RecvAction::Pipe | RecvAction::Purge => 2,
            RecvAction::Hash => 3,
        }
    }

    fn has_bypass_for_cookies(&self) -> bool {
        self.rules.iter().any(|rule| {
            rule.action == RuleAction::Bypass
                && rule.conds == [(Cond::Field("cookie".to_owned()), true)]
        })
    }
}

/// Joins the treatments of requests for which the condition holds and does not hold.
pub(super) fn join(
    cond: &Cond,
    mut yes: RecvOutcome,
    mut no: RecvOutcome,
) -> (RecvOutcome, Option<Loss>) {
    if yes == no {
        return (yes, None);
    }
    if let Cond::Other(_, shown) = cond {
        if shown.starts_with("req.url") {
            unite_queries(&mut yes.state, &mut no.state);
        }
        return join_unknown(yes, no);
    }
    let (mut yes_state, mut no_state) = (yes.state.clone(), no.state.clone());
    if matches!(cond, Cond::Query(_) | Cond::HasQuery) {
        unite_queries(&mut yes_state, &mut no_state);
    }
    let split = split(&yes.action, &no.action);
    let mut rules = rules_of_both(cond, &yes, &no, split.as_ref());
    let on = |side: bool, action| RequestRule { conds: vec![(cond.clone(), side)], action };
    if let Some((side, action)) = split {
        let is_answer = matches!(action, RuleAction::Answer(_));
        let kept = if side { &no } else { &yes };
        let lost = !is_answer && differs_for_origin(&yes_state, &no_state);
        // A request that gets an answer needs no rule of its own for anything else.
        if is_answer {
            rules.retain(|rule| rule.conds.first() != Some(&(cond.clone(), side)));
        }
        rules.insert(0, on(side, action));
        if lost {
            rules.insert(0, on(side, RuleAction::Answer(SynthAnswer::unavailable())));
        }
        let state = if side { no_state } else { yes_state };
        let outcome = RecvOutcome { action: kept.action.clone(), state, rules };
        return (outcome, lost.then_some(Loss::Origin));
    }
    let mut loss = None;
    if differs_for_origin(&yes_state, &no_state) {
        rules.insert(0, on(true, RuleAction::Answer(SynthAnswer::unavailable())));
        loss = Some(Loss::Origin);
    } else if yes_state.fields != no_state.fields {
        loss = Some(Loss::Fields);
    }
    let mut state = no_state;
    if state.cookies != yes_state.cookies && yes.action == RecvAction::Hash {
        // A side on which every cookie bypasses the cache stores responses without cookies only.
        if no.has_bypass_for_cookies() || *cond == Cond::Field("cookie".to_owned()) {
            state.cookies = yes_state.cookies;
        } else if !yes.has_bypass_for_cookies() {
            rules.insert(0, on(true, RuleAction::Bypass));
            loss = loss.or(Some(Loss::Cache));
        }
    }
    (RecvOutcome { action: no.action, state, rules }, loss)
}

/// The rules of both sides; those of one side get the condition.
fn rules_of_both(
    cond: &Cond,
    yes: &RecvOutcome,
    no: &RecvOutcome,
    split: Option<&(bool, RuleAction)>,
) -> Vec<RequestRule> {
    let common = yes.rules.iter().filter(|rule| no.rules.contains(rule));
    let mut rules: Vec<_> = common.cloned().collect();
    let common_count = rules.len();
    for (side, outcome) in [(true, yes), (false, no)] {
        for rule in &outcome.rules {
            if rules[..common_count].contains(rule) {
                continue;
            }
            // Requests of the other side are answered before, or bypass the cache anyway.
            let is_free = match split {
                Some((other, RuleAction::Answer(_))) => *other != side,
                Some((other, _)) => *other != side && !matches!(rule.action, RuleAction::Answer(_)),
                None => false,
            };
            if is_free {
                rules.push(rule.clone());
                continue;
            }
            let own = (cond.clone(), side);
            let others = rule.conds.iter().filter(|known| **known != own).cloned();
            let conds = [own.clone()].into_iter().chain(others).collect();
            rules.push(RequestRule { conds, action: rule.action.clone() });
        }
    }
    rules
}

/// The side that becomes a rule, with its action; the other one decides action and state.
fn split(yes: &RecvAction, no: &RecvAction) -> Option<(bool, RuleAction)> {
    if yes == no {
        return None;
    }
    match (yes, no) {
        (RecvAction::Answer(answer), _) => Some((true, RuleAction::Answer(answer.clone()))),
        (_, RecvAction::Answer(answer)) => Some((false, RuleAction::Answer(answer.clone()))),
        // `purge_from` answers 403 to all others.
        (RecvAction::Purge, _) => Some((false, RuleAction::Answer(SynthAnswer::refused()))),
        (_, RecvAction::Purge) => Some((true, RuleAction::Answer(SynthAnswer::refused()))),
        (RecvAction::Pipe, _) => Some((true, RuleAction::Pipe)),
        (_, RecvAction::Pipe) => Some((false, RuleAction::Pipe)),
        (RecvAction::Pass, RecvAction::Hash) => Some((true, RuleAction::Bypass)),
        (RecvAction::Hash, RecvAction::Pass) => Some((false, RuleAction::Bypass)),
        _ => None,
    }
}

/// A parameter is removed only from queries that have it, whatever the condition says.
fn unite_queries(one: &mut RequestState, other: &mut RequestState) {
    one.drop_query.extend(other.drop_query.iter().cloned());
    other.drop_query.clone_from(&one.drop_query);
    let sorts = one.sort_query || other.sort_query;
    (one.sort_query, other.sort_query) = (sorts, sorts);
}

/// Whether an origin would get other requests.
fn differs_for_origin(one: &RequestState, other: &RequestState) -> bool {
    one.backend != other.backend
        || one.host != other.host
        || one.drop_query != other.drop_query
        || one.sort_query != other.sort_query
}

/// Joins on a condition that Forebay cannot check: the stricter side applies to all requests.
fn join_unknown(yes: RecvOutcome, no: RecvOutcome) -> (RecvOutcome, Option<Loss>) {
    let answers = |outcome: &RecvOutcome| outcome.rank() <= 1;
    if answers(&yes) || answers(&no) {
        let both = yes.rules.iter().all(|rule| no.rules.contains(rule))
            && no.rules.iter().all(|rule| yes.rules.contains(rule))
            && !matches!(yes.action, RecvAction::Answer(_))
            && !matches!(no.action, RecvAction::Answer(_));
        if !both {
            let answer = RecvAction::Answer(SynthAnswer::refused());
            return (RecvOutcome::new(answer, no.state), Some(Loss::Access));
        }
    }
    if differs_for_origin(&yes.state, &no.state) {
        let answer = RecvAction::Answer(SynthAnswer::unavailable());
        return (RecvOutcome::new(answer, no.state), Some(Loss::Origin));
    }
    let mut rules = no.rules;
    rules.extend(yes.rules.into_iter().filter(|rule| !rules.contains(rule)).collect::<Vec<_>>());
    if yes.action != no.action || yes.state.cookies != no.state.cookies {
        return (
            RecvOutcome { action: RecvAction::Pass, state: no.state, rules },
            Some(Loss::Cache),
        );
    }
    let loss = (yes.state.fields != no.state.fields).then_some(Loss::Fields);
    (RecvOutcome { action: no.action, state: no.state, rules }, loss)
}
