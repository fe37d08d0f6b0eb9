//! How the treatments of two branches join.

use super::outcome::{
    Cond, FieldChange, Loss, RecvAction, RecvOutcome, RequestRule, RequestState, RuleAction,
    SynthAnswer,
};

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
    if matches!(cond, Cond::Url(_) | Cond::HasQuery) {
        unite_queries(&mut yes_state, &mut no_state);
    }
    let split = split(&yes.action, &no.action);
    let mut rules = rules_of_both(cond, &yes, &no, split.as_ref());
    if !matches!(split, Some((_, RuleAction::Answer(_)))) {
        rules.extend(split_fields(cond, &mut yes_state, &mut no_state));
    }
    let on = |side: bool, action| RequestRule { conds: vec![(cond.clone(), side)], action };
    if let Some((side, action)) = split {
        let is_answer = matches!(action, RuleAction::Answer(_));
        let kept = if side { &no } else { &yes };
        let lost = !is_answer && differs_for_origin(&yes_state, &no_state);
        // A request that gets an answer needs no rule of its own except for other answers.
        let mut first: Vec<RequestRule> = Vec::new();
        if is_answer {
            let is_own = |rule: &RequestRule| rule.conds.first() == Some(&(cond.clone(), side));
            (first, rules) = rules.into_iter().partition(is_own);
            first.retain(|rule| matches!(rule.action, RuleAction::Answer(_)));
        }
        first.push(on(side, action));
        first.append(&mut rules);
        rules = first;
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
                Some((other, _)) => {
                    *other != side && matches!(rule.action, RuleAction::Bypass | RuleAction::Pipe)
                }
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

/// Rules for the fields that only one side changes.
fn split_fields(cond: &Cond, yes: &mut RequestState, no: &mut RequestState) -> Vec<RequestRule> {
    let common: Vec<_> =
        no.fields.iter().filter(|change| yes.fields.contains(change)).cloned().collect();
    let mut rules = Vec::new();
    for (side, state) in [(true, yes), (false, no)] {
        let own = state.fields.iter().filter(|change| !common.contains(change));
        rules.extend(own.map(|change| RequestRule {
            conds: vec![(cond.clone(), side)],
            action: RuleAction::Change(change.clone()),
        }));
        state.fields.clone_from(&common);
    }
    rules
}

/// Removes the fields that may differ between both sides: a client must not write them, and no
/// request gets those of others. Returns whether there are any.
fn remove_fields(yes: &mut RecvOutcome, no: &mut RecvOutcome) -> bool {
    let mut removed: Vec<String> = Vec::new();
    for (one, other) in [(&*yes, &*no), (&*no, &*yes)] {
        let own = one.state.fields.iter().filter(|change| !other.state.fields.contains(change));
        removed.extend(own.map(|change| change.name.clone()));
        for rule in one.rules.iter().filter(|rule| !other.rules.contains(rule)) {
            if let RuleAction::Change(change) = &rule.action {
                removed.push(change.name.clone());
            }
        }
    }
    removed.sort();
    removed.dedup();
    for outcome in [yes, no] {
        outcome.rules.retain(|rule| {
            !matches!(&rule.action, RuleAction::Change(change) if removed.contains(&change.name))
        });
        outcome.state.fields.retain(|change| !removed.contains(&change.name));
        let none = removed.iter().map(|name| FieldChange { name: name.clone(), value: None });
        outcome.state.fields.extend(none);
    }
    !removed.is_empty()
}

/// Whether the first treatment refuses and bypasses at least what the second does, with the same
/// origin and fields.
pub(super) fn is_as_strict(one: &RecvOutcome, other: &RecvOutcome) -> bool {
    let (state, of_other) = (&one.state, &other.state);
    let is_stored = one.action == RecvAction::Hash;
    !matches!(other.action, RecvAction::Answer(_) | RecvAction::Purge)
        && (one.action == other.action || one.action == RecvAction::Pass)
        && other.rules.iter().all(|rule| one.rules.contains(rule))
        && state.backend == of_other.backend
        && state.host == of_other.host
        && state.fields == of_other.fields
        && (!is_stored || state.cookies == of_other.cookies || one.has_bypass_for_cookies())
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
pub(super) fn differs_for_origin(one: &RequestState, other: &RequestState) -> bool {
    one.backend != other.backend
        || one.host != other.host
        || one.drop_query != other.drop_query
        || one.sort_query != other.sort_query
}

/// The treatment if requests on one side of the condition are not served.
pub(super) fn without(cond: &Cond, side: bool, mut outcome: RecvOutcome) -> RecvOutcome {
    let action = RuleAction::Answer(SynthAnswer::unavailable());
    outcome.rules.insert(0, RequestRule { conds: vec![(cond.clone(), side)], action });
    outcome
}

/// Joins on a condition that Forebay cannot check: the stricter side applies to all requests.
fn join_unknown(mut yes: RecvOutcome, mut no: RecvOutcome) -> (RecvOutcome, Option<Loss>) {
    let answers = |outcome: &RecvOutcome| outcome.rank() <= 1;
    let purges = |outcome: &RecvOutcome| outcome.action == RecvAction::Purge;
    if purges(&yes) != purges(&no) {
        let answer = RecvAction::Answer(SynthAnswer::refused());
        return (RecvOutcome::new(answer, no.state), Some(Loss::Access));
    }
    if answers(&yes) || answers(&no) {
        let both = yes.rules.iter().all(|rule| no.rules.contains(rule))
            && no.rules.iter().all(|rule| yes.rules.contains(rule))
            && !matches!(yes.action, RecvAction::Answer(_))
            && !matches!(no.action, RecvAction::Answer(_));
        let is_other = |rule: &RequestRule| matches!(rule.action, RuleAction::Answer(_));
        let both = both
            || !matches!(yes.action, RecvAction::Answer(_))
                && !matches!(no.action, RecvAction::Answer(_))
                && yes
                    .rules
                    .iter()
                    .filter(|rule| is_other(rule))
                    .eq(no.rules.iter().filter(|rule| is_other(rule)));
        if !both {
            let answer = RecvAction::Answer(SynthAnswer::refused());
            return (RecvOutcome::new(answer, no.state), Some(Loss::Access));
        }
    }
    if differs_for_origin(&yes.state, &no.state) {
        let answer = RecvAction::Answer(SynthAnswer::unavailable());
        return (RecvOutcome::new(answer, no.state), Some(Loss::Origin));
    }
    let is_removed = remove_fields(&mut yes, &mut no);
    let mut rules = no.rules;
    rules.extend(yes.rules.into_iter().filter(|rule| !rules.contains(rule)).collect::<Vec<_>>());
    if yes.action != no.action || yes.state.cookies != no.state.cookies {
        return (
            RecvOutcome { action: RecvAction::Pass, state: no.state, rules },
            Some(Loss::Cache),
        );
    }
    let loss = is_removed.then_some(Loss::Fields);
    (RecvOutcome { action: no.action, state: no.state, rules }, loss)
}
