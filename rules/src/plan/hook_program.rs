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
    /// Constant lines of names that no other operator touches.
    pub(crate) lines: ConstantLines,
    /// Conditions that are remembered.
    pub(crate) memo_count: usize,
    /// Texts that are kept.
    pub(crate) subject_slot_count: usize,
    /// What texts are compared with, one behind the other.
    pub(crate) texts: Vec<u8>,
    /// Regexes that look at the same text.
    pub(crate) filters: Vec<RegexFilter>,
    /// For each memo the number of its filter, or a number that no filter has.
    pub(crate) filter_of_memo: Vec<u32>,
    /// Fields that some rule may change.
    pub(crate) changed: Vec<FieldName>,
}

/// A rule, or several that run as one.
#[derive(Clone, Debug)]
pub(crate) struct RuleGroup {
    /// Their numbers in the program.
    pub(crate) rules: Range<u32>,
    /// The first of its operations.
    pub(crate) start: u32,
    /// The first group of the next list.
    pub(crate) list_end: u32,
    /// No rule of this list runs after it.
    pub(crate) last: bool,
}

/// No memo, no filter, no kept text.
pub(crate) const NONE: u32 = u32::MAX;

/// Behind the last step of every program: going on there ends the group.
pub(crate) const END: u32 = u32::MAX;

/// One step.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Instruction {
    /// Goes on at `yes` if the condition holds, else at `no`.
    Test {
        test: u32,
        /// Under which it is remembered, or [`NONE`].
        memo: u32,
        /// Under which the text that it looks at is kept, or [`NONE`].
        subject_slot: u32,
        yes: u32,
        no: u32,
    },
    /// The same for a condition that is not remembered and compares a kept text: with this part of
    /// the program's texts.
    Compare {
        test: u32,
        how: Comparison,
        subject_slot: u32,
        start: u32,
        end: u32,
        /// If it holds, a branch of a rule is taken.
        matches: bool,
        yes: u32,
        no: u32,
    },
    /// A branch of a rule is taken.
    Matched,
    /// No rule of this list runs after this group.
    Last,
    Act(u32),
    /// Some of the program's constant lines; goes on at `next`.
    Lines {
        start: u32,
        end: u32,
        next: u32,
    },
    Jump(u32),
    End,
}

/// Many regexes on one text, as one automaton: if that finds nothing, none of them does.
#[derive(Clone, Debug)]
pub(crate) struct RegexFilter {
    pub(crate) set: RegexSet,
    /// Of its regexes.
    pub(crate) memos: Range<usize>,
    /// Says whether the set was asked.
    pub(crate) asked: usize,
}

/// One condition, its `[NOT]` left aside.
#[derive(Clone, Debug)]
pub(crate) struct PlannedCondition {
    pub(crate) subject: Variable,
    pub(crate) matcher: Matcher,
    /// Of a regex, if somebody may want to know what it has found.
    pub(crate) locations: Option<Box<RefCell<CaptureLocations>>>,
}

/// What is done.
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
