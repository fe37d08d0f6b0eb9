//! Plans rules: compiles them to a flat program, with all decisions that do not need a request.

mod common_subexpressions;
mod compile;
mod constant;
mod dependence;
mod hook_program;
mod merge;
mod peephole;
mod regex_sets;
mod resolve;

use std::sync::Arc;

use forebay_http::edit::FieldName;

pub(crate) use hook_program::{
    Action, END, HookProgram, Instruction, NONE, PlannedCondition, RegexFilter, RuleGroup,
};

use self::compile::compile_hook;
use crate::ast::{Hook, Rule, RuleList};
use crate::diagnostic::RuleSpan;

/// A program of several lists of rules, ready to run.
///
/// A program has no backward jumps, so its length limits the number of steps of a run. Each worker
/// has its own clone, so that workers do not share the caches of regexes.
#[derive(Clone, Debug, Default)]
pub struct Program {
    programs: [HookProgram; Hook::COUNT],
    infos: Arc<[RuleInfo]>,
    counters: Arc<[String]>,
    /// The rules as they were written, with their indexes in `infos`, by list. `explain` runs them.
    lists: Arc<[Vec<(u32, Rule)>]>,
}

/// The file, span and hook of a rule, and its group: consecutive rules that run and count as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleInfo {
    /// The name of the rule's file.
    pub file: Arc<str>,
    /// The span of the rule's first line.
    pub at: RuleSpan,
    /// The hook at which the rule runs.
    pub hook: Hook,
    /// The index in [`Program::rules`] of the first rule of the group, whose counters count the
    /// whole group.
    pub counted_at: u32,
    /// The number of rules in the group, including this rule; 1 if the rule runs alone.
    pub run_with: u32,
}

impl Program {
    /// Plans the lists of the server, the site and the route. `[L]` ends only its own list.
    pub fn plan(lists: &[&RuleList]) -> Program {
        let mut counters = Vec::new();
        let mut infos = Vec::new();
        let mut captures = [false; Hook::COUNT];
        let turns: Vec<_> =
            (0..Rule::TURNS).flat_map(|turn| lists.iter().map(move |list| (turn, list))).collect();
        let mut planned: Vec<Vec<(u32, Rule)>> = vec![Vec::new(); turns.len()];
        for hook in Hook::ALL {
            for ((turn, list), planned) in turns.iter().zip(&mut planned) {
                let file: Arc<str> = list.file.as_str().into();
                let is_due = |rule: &&Rule| rule.hook == hook && rule.turn == *turn;
                for rule in list.rules.iter().filter(is_due) {
                    let number = infos.len() as u32;
                    let (rule, asks) = resolve::rule(rule, &list.counters, &mut counters);
                    captures[hook as usize] |= asks;
                    let (file, at) = (Arc::clone(&file), rule.at);
                    infos.push(RuleInfo { file, at, hook, counted_at: number, run_with: 1 });
                    planned.push((number, rule));
                }
            }
        }
        let programs = Hook::ALL.map(|hook| compile_hook(&planned, hook, captures[hook as usize]));
        for group in programs.iter().flat_map(|program| &program.groups) {
            let rules = group.rules.start as usize..group.rules.end as usize;
            let run_with = rules.len() as u32;
            for info in &mut infos[rules] {
                (info.counted_at, info.run_with) = (group.rules.start, run_with);
            }
        }
        Program { programs, infos: infos.into(), counters: counters.into(), lists: planned.into() }
    }

    /// Whether any rule runs at this hook.
    pub fn has(&self, hook: Hook) -> bool {
        !self.at(hook).groups.is_empty()
    }

    /// Information about each rule, at the rule's index.
    pub fn rules(&self) -> &[RuleInfo] {
        &self.infos
    }

    /// The name of each counter, at the counter's index.
    pub fn counters(&self) -> &[String] {
        &self.counters
    }

    /// Fields that rules of this hook may change.
    pub fn changed_names(&self, hook: Hook) -> &[FieldName] {
        &self.at(hook).changed
    }

    pub(crate) fn at(&self, hook: Hook) -> &HookProgram {
        &self.programs[hook as usize]
    }

    pub(crate) fn lists(&self) -> &[Vec<(u32, Rule)>] {
        &self.lists
    }
}
