//! The flat program of one hook.

use std::{cell::RefCell, ops::Range};

use forebay_http::edit::{ConstantLine, ConstantLines, FieldName};
use regex::bytes::{CaptureLocations, RegexSet};

use crate::ast::{self, Comparison, Matcher, Operator, Variable};

/// The program of one hook.
#[derive(Clone, Debug, Default)]
pub(crate) struct HookProgram {
    pub(crate) groups: Vec<RuleGroup>,
    pub(crate) code: Vec<Instruction>,
    pub(crate) tests: Vec<PlannedCondition>,
    pub(crate) actions: Vec<Action>,
    /// Constant lines of names that no other operator changes.
    pub(crate) lines: ConstantLines,
    /// Number of memoized conditions.
    pub(crate) memo_count: usize,
    /// Number of subjects whose text is cached.
    pub(crate) subject_slot_count: usize,
    /// Constants of comparisons, concatenated.
    pub(crate) texts: Vec<u8>,
    /// Sets of regexes on the same subject.
    pub(crate) filters: Vec<RegexFilter>,
    /// The index of each memo's filter, or [`NONE`].
    pub(crate) filter_of_memo: Vec<u32>,
    /// Fields that some rule may change.
    pub(crate) changed: Vec<FieldName>,
}

/// A rule, or several rules that run as one.
#[derive(Clone, Debug)]
pub(crate) struct RuleGroup {
    /// The indexes of these rules in [`Program::rules`](super::Program::rules).
    pub(crate) rules: Range<u32>,
    /// The index of the first instruction.
    pub(crate) start: u32,
    /// The index of the first group of the next list.
    pub(crate) list_end: u32,
    /// Whether no later rule of this list runs if this rule matches.
    pub(crate) last: bool,
}

/// The index that stands for no memo, no filter or no slot.
pub(crate) const NONE: u32 = u32::MAX;

/// A position beyond the end of every program. A jump to it ends the group.
pub(crate) const END: u32 = u32::MAX;

/// One instruction of a program.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Instruction {
    /// Jumps to `yes` if the condition holds, else to `no`.
    Test {
        test: u32,
        /// The index of the condition's memo, or [`NONE`].
        memo: u32,
        /// The index of the slot that caches the text of the condition's subject, or [`NONE`].
        subject_slot: u32,
        yes: u32,
        no: u32,
    },
    /// Like `Test`, for a condition without a memo that compares a cached text with the range
    /// `start..end` of the program's constants.
    Compare {
        test: u32,
        how: Comparison,
        subject_slot: u32,
        start: u32,
        end: u32,
        /// Whether the instruction also records a match, as `Matched` does, if the condition holds.
        matches: bool,
        yes: u32,
        no: u32,
    },
    /// Records that a branch of a rule is taken.
    Matched,
    /// Records that no later rule of this list runs after this group.
    Last,
    Act(u32),
    /// Applies a range of the program's constant lines and jumps to `next`.
    Lines {
        start: u32,
        end: u32,
        next: u32,
    },
    Jump(u32),
    End,
}

/// Several regexes on one subject, combined into one automaton. If the automaton does not match,
/// none of the regexes matches.
#[derive(Clone, Debug)]
pub(crate) struct RegexFilter {
    pub(crate) set: RegexSet,
    /// The indexes of the regexes' memos.
    pub(crate) memos: Range<usize>,
    /// The index of the memo that records whether the set has been evaluated.
    pub(crate) asked: usize,
}

/// One condition, without its `[NOT]`.
#[derive(Clone, Debug)]
pub(crate) struct PlannedCondition {
    pub(crate) subject: Variable,
    pub(crate) matcher: Matcher,
    /// Capture buffers of a regex, if any rule uses captured groups.
    pub(crate) locations: Option<Box<RefCell<CaptureLocations>>>,
}

/// An action of an instruction.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    Line(ConstantLine),
    Operate(Operator),
}

impl PlannedCondition {
    pub(crate) fn new(test: &ast::Condition, captures: bool) -> PlannedCondition {
        let locations = match &test.matcher {
            Matcher::Regex(regex) if captures => {
                Some(Box::new(RefCell::new(regex.capture_locations())))
            }
            _ => None,
        };
        PlannedCondition { subject: test.subject.clone(), matcher: test.matcher.clone(), locations }
    }
}
