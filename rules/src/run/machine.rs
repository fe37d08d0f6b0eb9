//! Running the flat program.

use super::{
    Effects, OperatorOutcome, RuleEnvironment, RunBuffers, RunContext, RunObserver, RunReport,
    look::{Seen, look},
    matching::{as_text, captures, compare_text, holds},
    operate::operate,
};
use crate::{
    ast::Matcher,
    plan::{Action, Filter, Group, NONE, Op, Part, Test},
};

/// A condition was not looked at yet, does not hold, holds.
const UNKNOWN: u8 = 0;
const FAILS: u8 = 1;
const HOLDS: u8 = 2;

/// What a group does to the run.
#[derive(Default)]
struct Progress {
    matched: bool,
    /// No rule of this list runs after this group.
    last: bool,
    failed_count: u32,
}

pub(super) fn run<S: RuleEnvironment, W: RunObserver>(
    part: &Part,
    context: &mut RunContext<'_, '_, S>,
    buffers: &mut RunBuffers,
    observer: &mut W,
) -> Effects {
    let mut effects = Effects::default();
    buffers.memo.clear();
    buffers.memo.resize(part.memo_count, UNKNOWN);
    buffers.kept.begin(part.sight_count);
    buffers.conflicts_known = false;
    let mut next = 0;
    while let Some(group) = part.groups.get(next) {
        next += 1;
        observer.begin(group.rules.clone());
        let bytes_before = context.fields.buffer_bytes();
        let progress = run_group(part, group, context, buffers, &mut effects);
        let added_bytes = context.fields.buffer_bytes().saturating_sub(bytes_before) as u32;
        let Progress { matched, failed_count, last } = progress;
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
    part: &Part,
    group: &Group,
    context: &mut RunContext<'_, '_, S>,
    buffers: &mut RunBuffers,
    effects: &mut Effects,
) -> Progress {
    let mut progress = Progress::default();
    let mut at = group.start;
    while let Some(op) = part.code.get(at as usize) {
        at = match op {
            Op::Test { test, memo, sight, yes, no } => {
                let Some(test) = part.tests.get(*test as usize) else {
                    break;
                };
                let held = match *memo {
                    NONE => test_now(test, *sight, context, buffers),
                    memo => remembered(part, memo, test, *sight, context, buffers),
                };
                if held { *yes } else { *no }
            }
            Op::Compare { test, how, sight, start, end, matches, yes, no } => {
                let with = part.texts.get(*start as usize..*end as usize).unwrap_or_default();
                let held = match buffers.kept.get(*sight) {
                    Some(seen) => compare_text(*how, seen, with, false),
                    None => part
                        .tests
                        .get(*test as usize)
                        .is_some_and(|test| test_now(test, *sight, context, buffers)),
                };
                progress.matched |= held & *matches;
                if held { *yes } else { *no }
            }
            Op::Matched => {
                progress.matched = true;
                at + 1
            }
            Op::Last => {
                progress.last = true;
                at + 1
            }
            Op::Act(action) => {
                if let Some(action) = part.actions.get(*action as usize) {
                    progress.failed_count += act(action, context, buffers, effects);
                }
                at + 1
            }
            Op::Lines { start, end, next } => {
                let some = *start as usize..*end as usize;
                progress.failed_count += apply(part, some, context, buffers);
                *next
            }
            Op::Jump(to) => *to,
            Op::End => break,
        };
    }
    progress
}

fn remembered<S: RuleEnvironment>(
    part: &Part,
    memo: u32,
    test: &Test,
    sight: u32,
    context: &mut RunContext<'_, '_, S>,
    buffers: &mut RunBuffers,
) -> bool {
    let memo = memo as usize;
    let known = buffers.memo.get(memo).copied().unwrap_or(UNKNOWN);
    if known != UNKNOWN {
        return known == HOLDS;
    }
    let filter = part.filter_of_memo.get(memo).and_then(|at| part.filters.get(*at as usize));
    let held = !filter.is_some_and(|filter| rules_out(filter, test, context, buffers))
        && test_now(test, sight, context, buffers);
    if let Some(place) = buffers.memo.get_mut(memo) {
        *place = if held { HOLDS } else { FAILS };
    }
    held
}

/// Asks once whether any regex of the filter matches; if none does, all of them are known.
fn rules_out<S: RuleEnvironment>(
    filter: &Filter,
    test: &Test,
    context: &mut RunContext<'_, '_, S>,
    buffers: &mut RunBuffers,
) -> bool {
    let RunBuffers { sight, captured, value, memo, .. } = buffers;
    let Some(asked) = memo.get_mut(filter.asked).filter(|asked| **asked == UNKNOWN) else {
        return false;
    };
    *asked = HOLDS;
    let seen = as_text(look(&test.subject, context, sight, captured), value);
    if filter.set.is_match(seen) {
        return false;
    }
    if let Some(memos) = memo.get_mut(filter.memos.clone()) {
        memos.fill(FAILS);
    }
    true
}

/// Looks at the text that is kept under this number, or at the subject itself.
fn test_now<S: RuleEnvironment>(
    test: &Test,
    number: u32,
    context: &mut RunContext<'_, '_, S>,
    buffers: &mut RunBuffers,
) -> bool {
    if number == NONE {
        return look_at(test, context, buffers, None);
    }
    let RunBuffers { sight, captured, value, kept, .. } = buffers;
    if let Some(text) = kept.get(number) {
        return holds(&test.matcher, Seen::Text(text), value);
    }
    let seen = look(&test.subject, context, sight, captured);
    if let Seen::Text(text) = seen {
        kept.keep(number, text);
    }
    holds(&test.matcher, seen, value)
}

/// Does the condition, its `[NOT]` left aside, hold now? What was looked at is shown in `shown`.
pub(super) fn look_at<S: RuleEnvironment>(
    test: &Test,
    context: &mut RunContext<'_, '_, S>,
    buffers: &mut RunBuffers,
    shown: Option<&mut Vec<u8>>,
) -> bool {
    let RunBuffers { sight, captured, second, value, .. } = buffers;
    let seen = look(&test.subject, context, sight, captured);
    if let Some(shown) = shown {
        seen.write(shown);
    }
    match (&test.matcher, &test.locations) {
        (Matcher::Regex(regex), Some(locations)) => {
            // The text may be what the last regex captured, which this one is about to replace.
            second.clear();
            second.extend_from_slice(as_text(seen, value));
            captures(regex, locations, second, captured)
        }
        (matcher, _) => holds(matcher, seen, value),
    }
}

/// Applies some of the program's constant lines; how many found no room.
fn apply<S>(
    part: &Part,
    some: std::ops::Range<usize>,
    context: &mut RunContext<'_, '_, S>,
    buffers: &mut RunBuffers,
) -> u32 {
    let RunBuffers { conflicts, conflicts_known, .. } = buffers;
    if !*conflicts_known {
        context.fields.find_conflicts(&part.lines, conflicts);
        *conflicts_known = true;
    }
    context.fields.apply_range(&part.lines, some, conflicts)
}

/// How many operators failed.
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
