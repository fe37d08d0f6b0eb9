//! Runs the flat program of a hook.

use super::{
    Effects, OperatorOutcome, RuleEnvironment, RunBuffers, RunContext, RunObserver, RunReport,
    evaluate::{SubjectValue, evaluate},
    matching::{as_text, captures, compare_text, holds},
    operate::operate,
};
use crate::{
    ast::Matcher,
    plan::{Action, HookProgram, Instruction, NONE, PlannedCondition, RegexFilter, RuleGroup},
};

/// States of a memo: not evaluated, does not hold, holds.
const UNKNOWN: u8 = 0;
const FAILS: u8 = 1;
const HOLDS: u8 = 2;

/// The result of running a group of rules.
#[derive(Default)]
struct GroupResult {
    matched: bool,
    /// Whether no later rule of this list runs.
    last: bool,
    failed_count: u32,
}

pub(super) fn run<S: RuleEnvironment, W: RunObserver>(
    program: &HookProgram,
    context: &mut RunContext<'_, '_, S>,
    buffers: &mut RunBuffers,
    observer: &mut W,
) -> Effects {
    let mut effects = Effects::default();
    buffers.memo.clear();
    buffers.memo.resize(program.memo_count, UNKNOWN);
    buffers.subjects.begin(program.subject_slot_count);
    buffers.conflicts_known = false;
    let mut next = 0;
    while let Some(group) = program.groups.get(next) {
        next += 1;
        observer.begin(group.rules.clone());
        let bytes_before = context.fields.buffer_bytes();
        let progress = run_group(program, group, context, buffers, &mut effects);
        let added_bytes = context.fields.buffer_bytes().saturating_sub(bytes_before) as u32;
        let GroupResult { matched, failed_count, last } = progress;
        observer.end(group.rules.clone(), RunReport { matched, added_bytes, failed_count });
        if last || group.last && matched {
            next = group.list_end as usize;
        }
        if next == group.list_end as usize {
            buffers.captured.clear();
        }
    }
    effects
}

fn run_group<S: RuleEnvironment>(
    program: &HookProgram,
    group: &RuleGroup,
    context: &mut RunContext<'_, '_, S>,
    buffers: &mut RunBuffers,
    effects: &mut Effects,
) -> GroupResult {
    let mut progress = GroupResult::default();
    let mut at = group.start;
    while let Some(instruction) = program.code.get(at as usize) {
        at = match instruction {
            Instruction::Test { test, memo, subject_slot, yes, no } => {
                let Some(test) = program.tests.get(*test as usize) else {
                    break;
                };
                let held = match *memo {
                    NONE => evaluate_test(test, *subject_slot, context, buffers),
                    memo => test_memoized(program, memo, test, *subject_slot, context, buffers),
                };
                if held { *yes } else { *no }
            }
            Instruction::Compare { test, how, subject_slot, start, end, matches, yes, no } => {
                let with = program.texts.get(*start as usize..*end as usize).unwrap_or_default();
                let held = match buffers.subjects.get(*subject_slot) {
                    Some(seen) => compare_text(*how, seen, with, false),
                    None => program
                        .tests
                        .get(*test as usize)
                        .is_some_and(|test| evaluate_test(test, *subject_slot, context, buffers)),
                };
                progress.matched |= held & *matches;
                if held { *yes } else { *no }
            }
            Instruction::Matched => {
                progress.matched = true;
                at + 1
            }
            Instruction::Last => {
                progress.last = true;
                at + 1
            }
            Instruction::Act(action) => {
                if let Some(action) = program.actions.get(*action as usize) {
                    progress.failed_count += act(action, context, buffers, effects);
                }
                at + 1
            }
            Instruction::Lines { start, end, next } => {
                let range = *start as usize..*end as usize;
                progress.failed_count += apply(program, range, context, buffers);
                *next
            }
            Instruction::Jump(to) => *to,
            Instruction::End => break,
        };
    }
    progress
}

fn test_memoized<S: RuleEnvironment>(
    program: &HookProgram,
    memo: u32,
    test: &PlannedCondition,
    subject_slot: u32,
    context: &mut RunContext<'_, '_, S>,
    buffers: &mut RunBuffers,
) -> bool {
    let memo = memo as usize;
    let known = buffers.memo.get(memo).copied().unwrap_or(UNKNOWN);
    if known != UNKNOWN {
        return known == HOLDS;
    }
    let filter = program.filter_of_memo.get(memo).and_then(|at| program.filters.get(*at as usize));
    let held = !filter.is_some_and(|filter| rules_out(filter, test, context, buffers))
        && evaluate_test(test, subject_slot, context, buffers);
    if let Some(place) = buffers.memo.get_mut(memo) {
        *place = if held { HOLDS } else { FAILS };
    }
    held
}

/// Whether the filter rules out all of its regexes. The whole set is evaluated once in a run. If
/// none of its regexes matches, their memos record that; later calls in the run return false.
fn rules_out<S: RuleEnvironment>(
    filter: &RegexFilter,
    test: &PlannedCondition,
    context: &mut RunContext<'_, '_, S>,
    buffers: &mut RunBuffers,
) -> bool {
    let RunBuffers { lookup, captured, value, memo, .. } = buffers;
    let Some(asked) = memo.get_mut(filter.asked).filter(|asked| **asked == UNKNOWN) else {
        return false;
    };
    *asked = HOLDS;
    let seen = as_text(evaluate(&test.subject, context, lookup, captured), value);
    if filter.set.is_match(seen) {
        return false;
    }
    if let Some(memos) = memo.get_mut(filter.memos.clone()) {
        memos.fill(FAILS);
    }
    true
}

/// Tests a condition on the cached text of this slot. If no text is cached, evaluates the subject
/// and caches its text.
fn evaluate_test<S: RuleEnvironment>(
    test: &PlannedCondition,
    subject_slot: u32,
    context: &mut RunContext<'_, '_, S>,
    buffers: &mut RunBuffers,
) -> bool {
    if subject_slot == NONE {
        return test_condition(test, context, buffers, None);
    }
    let RunBuffers { lookup, captured, value, subjects, .. } = buffers;
    if let Some(text) = subjects.get(subject_slot) {
        return holds(&test.matcher, SubjectValue::Text(text), value);
    }
    let seen = evaluate(&test.subject, context, lookup, captured);
    if let SubjectValue::Text(text) = seen {
        subjects.insert(subject_slot, text);
    }
    holds(&test.matcher, seen, value)
}

/// Tests a condition, without its `[NOT]`. Writes the subject's value to `shown`, if given.
pub(super) fn test_condition<S: RuleEnvironment>(
    test: &PlannedCondition,
    context: &mut RunContext<'_, '_, S>,
    buffers: &mut RunBuffers,
    shown: Option<&mut Vec<u8>>,
) -> bool {
    let RunBuffers { lookup, captured, second, value, .. } = buffers;
    let seen = evaluate(&test.subject, context, lookup, captured);
    if let Some(shown) = shown {
        seen.write(shown);
    }
    match (&test.matcher, &test.locations) {
        (Matcher::Regex(regex), Some(locations)) => {
            // The text is copied, because it may be a captured group, which this regex is about to
            // replace.
            second.clear();
            second.extend_from_slice(as_text(seen, value));
            captures(regex, locations, second, captured)
        }
        (matcher, _) => holds(matcher, seen, value),
    }
}

/// Applies a range of the program's constant lines; returns how many exceeded the limits of the
/// head.
fn apply<S>(
    program: &HookProgram,
    range: std::ops::Range<usize>,
    context: &mut RunContext<'_, '_, S>,
    buffers: &mut RunBuffers,
) -> u32 {
    let RunBuffers { conflicts, conflicts_known, .. } = buffers;
    if !*conflicts_known {
        context.fields.find_conflicts(&program.lines, conflicts);
        *conflicts_known = true;
    }
    context.fields.apply_range(&program.lines, range, conflicts)
}

/// Performs an action; returns how many operators failed.
fn act<S: RuleEnvironment>(
    action: &Action,
    context: &mut RunContext<'_, '_, S>,
    buffers: &mut RunBuffers,
    effects: &mut Effects,
) -> u32 {
    match action {
        Action::Line(line) => u32::from(context.fields.apply_line(line).is_err()),
        Action::Operate(operator) => {
            u32::from(operate(operator, context, buffers, effects) == OperatorOutcome::Failed)
        }
    }
}
