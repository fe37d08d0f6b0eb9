//! From rules to a flat program: what can be decided before the first request is decided here.

mod change;
mod compile;
mod filter;
mod merge;
mod resolve;

use std::{cell::RefCell, ops::Range, sync::Arc};

use forebay_http::edit::{ConstantLine, ConstantLines, FieldName};
use regex::bytes::{CaptureLocations, RegexSet};

use crate::{
    ast::{self, Hook, Matcher, Operator, Rule, Rules, Variable},
    diagnostic::At,
};

/// Rules of several lists, ready to run.
///
/// It has no way back in it: every jump leads on, so its length bounds a run. A worker has a clone
/// of its own, so that no two share what a regex keeps between searches.
#[derive(Clone, Debug, Default)]
pub struct Program {
    parts: [Part; Hook::COUNT],
    infos: Arc<[RuleInfo]>,
    counters: Arc<[String]>,
    /// The rules as they were written, with their numbers, by list: for `explain`.
    lists: Arc<[Vec<(u32, Rule)>]>,
}

/// Where a rule of a program comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleInfo {
    /// The file's name.
    pub file: Arc<str>,
    /// Its first line.
    pub at: At,
    /// Where it runs.
    pub hook: Hook,
}

/// The program of one hook.
#[derive(Clone, Debug, Default)]
pub(crate) struct Part {
    pub(crate) groups: Vec<Group>,
    pub(crate) code: Vec<Op>,
    pub(crate) tests: Vec<Test>,
    pub(crate) actions: Vec<Action>,
    /// Conditions that are remembered.
    pub(crate) memo_count: usize,
    /// Regexes that look at the same text.
    pub(crate) filters: Vec<Filter>,
    /// For each memo the number of its filter, or a number that no filter has.
    pub(crate) filter_of_memo: Vec<u32>,
    changed: Vec<FieldName>,
}

/// A rule, or several that run as one.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// Their numbers in the program.
    pub(crate) rules: Range<u32>,
    /// The first of its operations.
    pub(crate) start: u32,
    /// The first group of the next list.
    pub(crate) list_end: u32,
    /// No rule of this list runs after it.
    pub(crate) last: bool,
}

/// One step.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    /// Goes on at `yes` if the condition holds, else at `no`.
    Test {
        test: u32,
        memo: Option<u32>,
        yes: u32,
        no: u32,
    },
    /// A branch of a rule is taken.
    Matched,
    /// No rule of this list runs after this group.
    Last,
    Act(u32),
    Jump(u32),
    End,
}

/// Many regexes on one text, as one automaton: if that finds nothing, none of them does.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    pub(crate) set: RegexSet,
    /// Of its regexes.
    pub(crate) memos: Range<usize>,
    /// Says whether the set was asked.
    pub(crate) asked: usize,
}

/// One condition, its `[NOT]` left aside.
#[derive(Clone, Debug)]
pub(crate) struct Test {
    pub(crate) subject: Variable,
    pub(crate) matcher: Matcher,
    /// Of a regex, if somebody may want to know what it has found.
    pub(crate) locations: Option<RefCell<CaptureLocations>>,
}

/// What is done.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    Lines(ConstantLines),
    Line(ConstantLine),
    Operate(Operator),
}

impl Test {
    pub(crate) fn new(test: &ast::Test, captures: bool) -> Test {
        let locations = match &test.matcher {
            Matcher::Regex(regex) if captures => Some(RefCell::new(regex.capture_locations())),
            _ => None,
        };
        Test { subject: test.subject.clone(), matcher: test.matcher.clone(), locations }
    }
}

impl Program {
    /// Puts lists together: the server's, the site's, the route's. `[L]` ends only its own list.
    pub fn plan(lists: &[&Rules]) -> Program {
        let mut counters = Vec::new();
        let mut infos = Vec::new();
        let mut captures = [false; Hook::COUNT];
        let mut planned: Vec<Vec<(u32, Rule)>> = vec![Vec::new(); lists.len()];
        for hook in Hook::ALL {
            for (list, planned) in lists.iter().zip(&mut planned) {
                let file: Arc<str> = list.file.as_str().into();
                for rule in list.rules.iter().filter(|rule| rule.hook == hook) {
                    let number = infos.len() as u32;
                    let (rule, asks) = resolve::rule(rule, &list.counters, &mut counters);
                    captures[hook as usize] |= asks;
                    infos.push(RuleInfo { file: Arc::clone(&file), at: rule.at, hook });
                    planned.push((number, rule));
                }
            }
        }
        let parts = Hook::ALL.map(|hook| compile::part(&planned, hook, captures[hook as usize]));
        Program { parts, infos: infos.into(), counters: counters.into(), lists: planned.into() }
    }

    /// Is there a rule for this hook?
    pub fn has(&self, hook: Hook) -> bool {
        !self.at(hook).groups.is_empty()
    }

    /// Its rules; their place here is their number.
    pub fn rules(&self) -> &[RuleInfo] {
        &self.infos
    }

    /// Names of the counters that it counts, by their numbers.
    pub fn counters(&self) -> &[String] {
        &self.counters
    }

    /// Fields that rules of this hook may change.
    pub fn changed_names(&self, hook: Hook) -> &[FieldName] {
        &self.at(hook).changed
    }

    /// Steps that a run of this hook takes at most.
    pub fn step_count_max(&self, hook: Hook) -> usize {
        self.at(hook).code.len()
    }

    pub(crate) fn at(&self, hook: Hook) -> &Part {
        &self.parts[hook as usize]
    }

    pub(crate) fn lists(&self) -> &[Vec<(u32, Rule)>] {
        &self.lists
    }
}

#[cfg(test)]
mod tests;
