//! Compiles the rules of one hook to a flat list of instructions.

use std::collections::HashMap;

use forebay_http::edit::{ConstantLine, ConstantLines, FieldName};

use super::{
    Action, HookProgram, Instruction, NONE, PlannedCondition, RuleGroup,
    common_subexpressions::{assign_subject_slots, fuse_compares},
    constant::constant_line,
    dependence::{DataItem, Dependence, dependence_of, written_by},
    merge::{MergedRule, each_step, merge_rules, test_key},
    peephole::shorten,
    regex_sets::{EvaluationSites, assign_memos},
};
use crate::ast::{self, Branch, BranchStep, ConditionTree, Hook, Operation, Operator, Rule};

/// Compiles the rules of one hook. `captures` says whether any of these rules uses captured groups.
pub(super) fn compile_hook(lists: &[Vec<(u32, Rule)>], hook: Hook, captures: bool) -> HookProgram {
    let at_hook = |list: &'_ Vec<(u32, Rule)>| -> Vec<(u32, Rule)> {
        list.iter().filter(|(_, rule)| rule.hook == hook).cloned().collect()
    };
    let lists: Vec<_> = lists.iter().map(at_hook).collect();
    let mut compiler = HookCompiler { captures, ..HookCompiler::default() };
    lists.iter().for_each(|list| compiler.changed_names(list));
    for list in &lists {
        let first = compiler.program.groups.len();
        for rule in merge_rules(list.iter(), captures) {
            compiler.rule(&rule);
        }
        let end = compiler.program.groups.len() as u32;
        compiler.program.groups[first..].iter_mut().for_each(|group| group.list_end = end);
    }
    compiler.finish()
}

/// A jump target that is not known yet.
#[derive(Clone, Copy)]
struct CodeLabel(u32);

/// Counts of the operators that change the lines of one name.
#[derive(Clone, Copy, Default)]
struct UseCounts {
    /// Number of operators that add a constant line.
    added_count: usize,
    count: usize,
}

#[derive(Default)]
struct HookCompiler {
    program: HookProgram,
    /// Whether any rule uses captured groups.
    captures: bool,
    /// Positions of the labels of the current rule.
    labels: Vec<u32>,
    /// Constant lines of names that no other operator changes, collected from the operators
    /// compiled so far.
    lines: Vec<ConstantLine>,
    /// Number of `lines` that have been emitted.
    emitted_count: usize,
    /// The counts of the operators that change the lines of each name.
    uses: HashMap<DataItem, UseCounts>,
    /// The index of each condition in [`HookProgram::tests`], by the condition's text key.
    tests: HashMap<String, u32>,
    /// How many of the compiled operators change each data item.
    versions: HashMap<DataItem, u32>,
    sites: EvaluationSites,
}

impl HookCompiler {
    fn rule(&mut self, rule: &MergedRule) {
        let start = self.program.code.len();
        self.labels.clear();
        self.branches(&rule.branches, true);
        self.program.code.push(Instruction::End);
        self.resolve(start);
        self.program.groups.push(RuleGroup {
            rules: rule.rules.clone(),
            start: start as u32,
            list_end: 0,
            last: rule.last,
        });
    }

    fn label(&mut self) -> CodeLabel {
        self.labels.push(u32::MAX);
        CodeLabel(self.labels.len() as u32 - 1)
    }

    fn bind(&mut self, label: CodeLabel) {
        self.labels[label.0 as usize] = self.program.code.len() as u32;
    }

    /// Compiles the branches of a rule or of an `if`. Recurses as deep as the parser allows rules
    /// to nest.
    fn branches(&mut self, branches: &[Branch], is_rule: bool) {
        let end = self.label();
        for (index, branch) in branches.iter().enumerate() {
            let (body, next) = (self.label(), self.label());
            if let Some(condition) = &branch.condition {
                self.condition(condition, body, next);
            }
            self.bind(body);
            if is_rule {
                self.program.code.push(Instruction::Matched);
            }
            self.steps(&branch.steps);
            if index + 1 < branches.len() {
                self.program.code.push(Instruction::Jump(end.0));
            }
            self.bind(next);
        }
        self.bind(end);
    }

    /// Compiles a condition that continues at `yes` or at `no`. The right side is a loop instead of
    /// a recursion, because trees grow long to the right.
    fn condition(&mut self, mut tree: &ConditionTree, mut yes: CodeLabel, mut no: CodeLabel) {
        loop {
            match tree {
                ConditionTree::Leaf(test) => return self.test(test, yes, no),
                ConditionTree::Not(inner) => {
                    (yes, no) = (no, yes);
                    tree = inner;
                }
                ConditionTree::And(first, second) => {
                    let both = self.label();
                    self.condition(first, both, no);
                    self.bind(both);
                    tree = second;
                }
                ConditionTree::Or(first, second) => {
                    let other = self.label();
                    self.condition(first, yes, other);
                    self.bind(other);
                    tree = second;
                }
            }
        }
    }

    /// Returns the number of compiled operators that may change the item.
    fn version(&self, item: &DataItem) -> u32 {
        let count_of = |changed| self.versions.get(changed).copied().unwrap_or_default();
        let by_filters =
            if item.is_affected_by(&DataItem::Fields) { count_of(&DataItem::Fields) } else { 0 };
        count_of(item) + by_filters
    }

    fn test(&mut self, test: &ast::Condition, yes: CodeLabel, no: CodeLabel) {
        let (yes, no) = if test.negated { (no, yes) } else { (yes, no) };
        let version = match dependence_of(test, self.captures) {
            Dependence::Volatile => None,
            Dependence::None => Some(0),
            Dependence::On(item) => Some(self.version(&item)),
        };
        let program = &mut self.program;
        let number = *self.tests.entry(test_key(test)).or_insert_with(|| {
            program.tests.push(PlannedCondition::new(test, self.captures));
            program.tests.len() as u32 - 1
        });
        if let Some(version) = version {
            self.sites.entry((number, version)).or_default().push(program.code.len());
        }
        program.code.push(Instruction::Test {
            test: number,
            memo: NONE,
            subject_slot: NONE,
            yes: yes.0,
            no: no.0,
        });
    }

    fn steps(&mut self, steps: &[BranchStep]) {
        for step in steps {
            match step {
                BranchStep::Operate(operation) => self.operation(operation),
                BranchStep::If(branches) => {
                    self.flush();
                    self.branches(branches, false);
                }
            }
        }
        self.flush();
    }

    fn operation(&mut self, operation: &Operation) {
        if let Some(item) = written_by(&operation.operator) {
            *self.versions.entry(item).or_default() += 1;
        }
        match constant_line(&operation.operator) {
            Some(line) if self.is_alone(&line) => self.lines.push(line),
            line => {
                self.flush();
                let operator = || Action::Operate(operation.operator.clone());
                self.act(line.map_or_else(operator, Action::Line));
            }
        }
        if operation.last {
            self.program.code.push(Instruction::Last);
        }
    }

    /// Whether this constant line may be batched with others: for a line that is set, no other
    /// operator changes its field; for a line that is added, all operators that change its field
    /// add constant lines. Then lines of this field that have to be replaced can only come from the
    /// original head.
    fn is_alone(&self, line: &ConstantLine) -> bool {
        let uses = self.uses.get(&DataItem::field(line.name())).copied().unwrap_or_default();
        uses.count == if line.is_set() { 1 } else { uses.added_count }
    }

    /// Emits the pending constant lines.
    fn flush(&mut self) {
        let (start, end) = (self.emitted_count as u32, self.lines.len() as u32);
        if start < end {
            self.emitted_count = self.lines.len();
            let next = self.program.code.len() as u32 + 1;
            self.program.code.push(Instruction::Lines { start, end, next });
        }
    }

    fn act(&mut self, action: Action) {
        self.program.actions.push(action);
        self.program.code.push(Instruction::Act(self.program.actions.len() as u32 - 1));
    }

    /// Replaces labels by positions. All jumps are forward, so every run ends.
    fn resolve(&mut self, start: usize) {
        let labels = &self.labels;
        let resolve = |at: usize, label: &mut u32| {
            *label = labels[*label as usize];
            assert!(*label as usize > at, "the jump at instruction {at} is not forward");
        };
        for (offset, instruction) in self.program.code[start..].iter_mut().enumerate() {
            let at = start + offset;
            match instruction {
                Instruction::Test { yes, no, .. } => {
                    resolve(at, yes);
                    resolve(at, no);
                }
                Instruction::Jump(to) => resolve(at, to),
                Instruction::Compare { .. }
                | Instruction::Matched
                | Instruction::Last
                | Instruction::Act(_)
                | Instruction::Lines { .. }
                | Instruction::End => {}
            }
        }
    }

    fn finish(mut self) -> HookProgram {
        assign_memos(&mut self.program, &self.sites);
        assign_subject_slots(&mut self.program, &self.sites);
        fuse_compares(&mut self.program);
        shorten(&mut self.program.code);
        self.program.lines = ConstantLines::new(self.lines);
        self.program
    }

    fn changed_names(&mut self, list: &[(u32, Rule)]) {
        for (_, rule) in list {
            each_step(&rule.branches, &mut |operation| self.uses_of(&operation.operator));
        }
    }

    fn uses_of(&mut self, operator: &Operator) {
        let Some(item) = written_by(operator) else {
            return;
        };
        let names = match (&item, operator) {
            (DataItem::Field(name), _) => FieldName::parse(name).into_iter().collect(),
            (_, Operator::Filter(call)) => call.filter.changes().to_vec(),
            _ => Vec::new(),
        };
        let is_added = constant_line(operator).is_some_and(|line| !line.is_set());
        for name in names {
            let uses = self.uses.entry(DataItem::field(&name)).or_default();
            uses.count += 1;
            uses.added_count += usize::from(is_added);
            if !self.program.changed.contains(&name) {
                self.program.changed.push(name);
            }
        }
    }
}
