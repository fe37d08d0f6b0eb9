//! Assembles parsed lines into rules, branches, nested `if`s and groups of conditions.

use crate::{
    ast::{BranchStep, ConditionTree, Hook, Rule, RuleScope},
    check::{self, ConditionLine, OperatorChecker, OperatorLine},
    diagnostic::{Diagnostic, Findings, RuleSpan},
    filter::Filters,
    lex::SourceWord,
    limits::{NESTING_MAX, RULES_PER_FILE_MAX},
    parse::{ConditionFlags, LineKind, OperatorFlags, ParsedLine},
    pattern::PatternCompiler,
};

use super::draft::{BranchKind, DraftBlock, DraftBranch, RuleDraft};

/// The rules read so far, and the draft of the current one.
pub(crate) struct RuleAssembler<'f> {
    scope: RuleScope,
    checker: OperatorChecker<'f>,
    regexes: PatternCompiler,
    rules: Vec<Rule>,
    rule_count: usize,
    draft: Option<RuleDraft>,
}

impl<'f> RuleAssembler<'f> {
    pub(crate) fn new(scope: RuleScope, filters: &'f Filters) -> RuleAssembler<'f> {
        let (checker, regexes) =
            (OperatorChecker { counters: Vec::new(), filters }, PatternCompiler::default());
        RuleAssembler { scope, checker, regexes, rules: Vec::new(), rule_count: 0, draft: None }
    }

    /// Adds a parsed line to the current rule, or starts the next rule with it.
    pub(crate) fn add(&mut self, line: ParsedLine, findings: &mut Findings) {
        let at = line.at;
        match line.kind {
            LineKind::Condition { variable, operand, flags } => {
                let flags = ConditionFlags::parse(flags.as_ref(), findings);
                if check::is_hook(&variable) {
                    self.begin_at_hook(&variable, operand, &flags, at, findings);
                } else {
                    self.add_condition(&variable, operand, &flags, at, findings);
                }
            }
            LineKind::BrokenCondition => {
                self.make_room(at, findings);
                self.draft(at, findings).broken = true;
            }
            LineKind::Operator { name, arguments, flags } => {
                let flags = OperatorFlags::parse(flags.as_ref(), findings);
                let hook = self.draft(at, findings).hook;
                let operator =
                    OperatorLine { hook, name: &name, words: &arguments, flags: &flags, at };
                let step = self.checker.operator(&operator, findings);
                self.add_step(step.map(BranchStep::Operate), at, findings);
            }
            LineKind::BrokenOperator => self.add_step(None, at, findings),
            LineKind::Else => self.begin_branch(BranchKind::Else, at, findings),
            LineKind::Elif => self.begin_branch(BranchKind::Elif, at, findings),
            LineKind::If => self.begin_if(at, findings),
            LineKind::Endif => self.end_if(at, findings),
        }
    }

    /// Returns the rules and the names of their counters.
    pub(crate) fn finish(mut self, findings: &mut Findings) -> (Vec<Rule>, Vec<String>) {
        self.end_rule(findings);
        (self.rules, self.checker.counters)
    }

    /// Returns the current draft, or starts one at the default hook.
    fn draft(&mut self, at: RuleSpan, findings: &mut Findings) -> &mut RuleDraft {
        if self.draft.is_none() {
            self.count_rule(at, findings);
        }
        let hook = match self.scope {
            RuleScope::Server => Hook::ReadResponse,
            RuleScope::Route => Hook::Remap,
        };
        self.draft.get_or_insert_with(|| RuleDraft::new((hook, check::FIRST_TURN), at))
    }

    fn count_rule(&mut self, at: RuleSpan, findings: &mut Findings) {
        self.rule_count += 1;
        if self.rule_count == RULES_PER_FILE_MAX + 1 {
            let message = format!("a file may have at most {RULES_PER_FILE_MAX} rules");
            findings.push(Diagnostic::error(at, message).hint("split it into two files"));
        }
    }

    fn begin_at_hook(
        &mut self,
        variable: &SourceWord,
        operand: Option<SourceWord>,
        flags: &ConditionFlags,
        at: RuleSpan,
        findings: &mut Findings,
    ) {
        let depth = self.draft.as_ref().map_or(1, |draft| draft.blocks.len());
        if depth > 1 {
            findings.push(Diagnostic::error(variable.at, "a hook cannot be inside `if`"));
            return self.draft(at, findings).mark_broken();
        }
        self.end_rule_without_operators(variable.at, findings);
        self.end_rule(findings);
        self.count_rule(at, findings);
        let hook = findings.keep(check::hook(variable, operand.as_ref(), flags, self.scope));
        let mut draft = RuleDraft::new(hook.unwrap_or((Hook::SendResponse, 0)), at);
        draft.broken = hook.is_none();
        self.draft = Some(draft);
    }

    /// Reports the current rule if it has no operator when a hook begins the next rule. A hook is
    /// the first condition of its rule, so the lines before it must form a whole rule.
    fn end_rule_without_operators(&mut self, at: RuleSpan, findings: &mut Findings) {
        let Some(draft) = &mut self.draft else {
            return;
        };
        if !draft.has_steps() && !draft.broken {
            let line = draft.at.line;
            let message =
                format!("the rule in line {line} has no operator, but another rule begins");
            let hint = "a hook must be the first condition of its rule; a rule has only one hook";
            findings.push(Diagnostic::error(at, message).hint(hint));
            draft.broken = true;
        }
    }

    /// Prepares the draft for a condition. A condition that follows an operator starts a new rule,
    /// except inside `if`, where this is an error.
    fn make_room(&mut self, at: RuleSpan, findings: &mut Findings) {
        let Some(draft) = &mut self.draft else {
            return;
        };
        let in_if = draft.blocks.len() > 1;
        let Some(section) = draft.branch() else {
            return;
        };
        let has_steps = !section.steps.is_empty() || section.has_broken;
        if !in_if && has_steps {
            self.end_rule(findings);
        } else if has_steps {
            let problem =
                Diagnostic::error(at, "a condition cannot follow an operator inside `if`");
            findings.push(
                problem.hint(
                    "write `elif` for another case, or a nested `if` for a further condition",
                ),
            );
            draft.broken = true;
        } else if section.kind == BranchKind::Else {
            let problem = Diagnostic::error(at, "`else` cannot have conditions");
            findings.push(problem.hint("write `elif` instead of `else`"));
            draft.broken = true;
        }
    }

    fn add_condition(
        &mut self,
        variable: &SourceWord,
        operand: Option<SourceWord>,
        flags: &ConditionFlags,
        at: RuleSpan,
        findings: &mut Findings,
    ) {
        self.make_room(at, findings);
        let draft = self.draft(at, findings);
        draft.count_condition(at, findings);
        if flags.last.is_some() && draft.blocks.len() > 1 {
            let problem = Diagnostic::error(
                flags.last.unwrap_or(at),
                "[L] cannot stand on a condition inside `if`",
            );
            findings
                .push(problem.hint("put [L] on a condition of the rule itself, or on an operator"));
        }
        draft.last |= flags.last.is_some();
        match variable.as_str() {
            "GROUP" => draft.begin_group(operand.as_ref(), flags, at, findings),
            "GROUP:END" => draft.end_group(operand.as_ref(), flags, at, findings),
            _ => {
                let hook = draft.hook;
                let operand = operand.as_ref();
                let line = ConditionLine { hook, name: variable, operand, flags, at };
                let tree = check::condition(&line, &mut self.regexes, findings);
                self.draft(at, findings).add_tree(tree.map(ConditionTree::Leaf), flags.or);
            }
        }
    }

    /// Adds a step to the current branch; `None` stands for a step that could not be read.
    fn add_step(&mut self, step: Option<BranchStep>, at: RuleSpan, findings: &mut Findings) {
        let draft = self.draft(at, findings);
        draft.close_conditions(findings);
        draft.has_broken_step |= step.is_none();
        if let Some(section) = draft.branch() {
            section.has_broken |= step.is_none();
            section.steps.extend(step);
        }
    }

    fn begin_branch(&mut self, kind: BranchKind, at: RuleSpan, findings: &mut Findings) {
        let Some(draft) = &mut self.draft else {
            let word = if kind == BranchKind::Else { "else" } else { "elif" };
            let message = format!("`{word}` has no rule before it");
            findings.push(Diagnostic::error(at, message));
            self.draft(at, findings).broken = true;
            return;
        };
        draft.close_conditions(findings);
        if draft.branch().is_some_and(|section| section.kind == BranchKind::Else) {
            findings.push(Diagnostic::error(at, "a branch after `else` is never reached"));
            draft.broken = true;
        }
        if let Some(block) = draft.blocks.last_mut() {
            block.branches.push(DraftBranch::new(kind, at));
        }
    }

    fn begin_if(&mut self, at: RuleSpan, findings: &mut Findings) {
        let draft = self.draft(at, findings);
        draft.close_conditions(findings);
        if draft.blocks.len() == NESTING_MAX + 1 {
            let message = format!("`if` is nested more than {NESTING_MAX} deep");
            findings.push(Diagnostic::error(at, message));
            draft.broken = true;
        }
        draft.blocks.push(DraftBlock { at, branches: vec![DraftBranch::new(BranchKind::If, at)] });
    }

    fn end_if(&mut self, at: RuleSpan, findings: &mut Findings) {
        let closes = self.draft.as_ref().is_some_and(|draft| draft.blocks.len() > 1);
        let draft = self.draft(at, findings);
        if !closes {
            findings.push(Diagnostic::error(at, "`endif` without `if`"));
            return draft.mark_broken();
        }
        let step = draft.end_block(findings).map(BranchStep::If);
        self.add_step(step, at, findings);
    }

    fn end_rule(&mut self, findings: &mut Findings) {
        let Some(mut draft) = self.draft.take() else {
            return;
        };
        while draft.blocks.len() > 1 {
            if let Some(block) = draft.blocks.pop() {
                findings.push(Diagnostic::error(block.at, "this `if` has no `endif`"));
                draft.broken = true;
            }
        }
        let has_steps = draft.has_steps();
        let branches = draft.end_block(findings);
        if !has_steps && !draft.broken {
            let problem =
                Diagnostic::warning(draft.at, "this rule has no operator, so it does nothing");
            return findings.push(problem);
        }
        let branches = branches.filter(|_| !draft.broken);
        if draft.has_broken_step {
            check::check_branches(&branches.unwrap_or_default(), findings);
        } else if let Some(branches) = branches
            && self.rules.len() < RULES_PER_FILE_MAX
        {
            let RuleDraft { hook, turn, at, last, .. } = draft;
            self.rules.push(Rule { hook, turn, at, branches, last });
        }
    }
}
