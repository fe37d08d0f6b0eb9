//! A rule that is still being read.

use crate::{
    ast::{Branch, BranchStep, ConditionTree, Hook},
    check,
    diagnostic::{Diagnostic, Findings, RuleSpan},
    lex::SourceWord,
    limits::{CONDITIONS_PER_RULE_MAX, NESTING_MAX},
    parse::ConditionFlags,
};

/// A rule that is still being read.
pub(super) struct RuleDraft {
    pub(super) hook: Hook,
    pub(super) turn: u8,
    pub(super) at: RuleSpan,
    pub(super) last: bool,
    /// Whether the rule has an error. Such a rule is dropped, and findings that would only follow
    /// from that error are not reported.
    pub(super) broken: bool,
    /// Whether one of the operators has an error. Such a rule is dropped, but its conditions are
    /// still checked.
    pub(super) has_broken_step: bool,
    pub(super) condition_count: usize,
    /// The block of the rule itself, then that of each open `if`.
    pub(super) blocks: Vec<DraftBlock>,
}

/// The branches of a rule or of an `if`.
pub(super) struct DraftBlock {
    pub(super) at: RuleSpan,
    pub(super) branches: Vec<DraftBranch>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum BranchKind {
    If,
    Elif,
    Else,
}

/// A branch that is still being read.
pub(super) struct DraftBranch {
    pub(super) kind: BranchKind,
    pub(super) at: RuleSpan,
    /// The conditions outside of any `%{GROUP}`, then those of each open group.
    pub(super) groups: Vec<ConditionGroup>,
    pub(super) steps: Vec<BranchStep>,
    /// Whether the branch has a step that could not be read.
    pub(super) has_broken: bool,
}

#[derive(Default)]
pub(super) struct ConditionGroup {
    pub(super) at: RuleSpan,
    not: bool,
    or: Option<RuleSpan>,
    /// The members of the group, each with the span of its flag `[OR]`, which joins it with the
    /// next member.
    members: Vec<(ConditionTree, Option<RuleSpan>)>,
}

impl RuleDraft {
    pub(super) fn new((hook, turn): (Hook, u8), at: RuleSpan) -> RuleDraft {
        let blocks = vec![DraftBlock { at, branches: vec![DraftBranch::new(BranchKind::If, at)] }];
        RuleDraft {
            hook,
            turn,
            at,
            last: false,
            broken: false,
            has_broken_step: false,
            condition_count: 0,
            blocks,
        }
    }

    pub(super) fn branch(&mut self) -> Option<&mut DraftBranch> {
        self.blocks.last_mut()?.branches.last_mut()
    }

    pub(super) fn has_steps(&self) -> bool {
        self.blocks
            .iter()
            .flat_map(|block| &block.branches)
            .any(|section| section.has_broken || !section.steps.is_empty())
    }

    pub(super) fn mark_broken(&mut self) {
        self.broken = true;
    }

    pub(super) fn count_condition(&mut self, at: RuleSpan, findings: &mut Findings) {
        self.condition_count += 1;
        if self.condition_count == CONDITIONS_PER_RULE_MAX + 1 {
            let message = format!("a rule may have at most {CONDITIONS_PER_RULE_MAX} conditions");
            let hint = "use a set, (a,b,c), or a range of addresses, {10.0.0.0/8}";
            findings.push(Diagnostic::error(at, message).hint(hint));
        }
        self.broken |= self.condition_count > CONDITIONS_PER_RULE_MAX;
    }

    pub(super) fn add_tree(&mut self, tree: Option<ConditionTree>, or: Option<RuleSpan>) {
        self.broken |= tree.is_none();
        let group = self.branch().and_then(|section| section.groups.last_mut());
        if let (Some(group), Some(tree)) = (group, tree) {
            group.members.push((tree, or));
        }
    }

    pub(super) fn begin_group(
        &mut self,
        operand: Option<&SourceWord>,
        flags: &ConditionFlags,
        at: RuleSpan,
        findings: &mut Findings,
    ) {
        findings.keep(check::group(operand, flags));
        let Some(section) = self.branch() else {
            return;
        };
        let too_deep = section.groups.len() > NESTING_MAX;
        let group =
            ConditionGroup { at, not: flags.not.is_some(), or: flags.or, members: Vec::new() };
        section.groups.push(group);
        if too_deep {
            let message = format!("groups are nested more than {NESTING_MAX} deep");
            findings.push(Diagnostic::error(at, message));
            self.broken = true;
        }
    }

    pub(super) fn end_group(
        &mut self,
        operand: Option<&SourceWord>,
        flags: &ConditionFlags,
        at: RuleSpan,
        findings: &mut Findings,
    ) {
        findings.keep(check::group_end(operand, flags));
        let group = self
            .branch()
            .and_then(|section| if section.groups.len() > 1 { section.groups.pop() } else { None });
        let Some(group) = group else {
            findings.push(Diagnostic::error(at, "%{GROUP:END} without %{GROUP}"));
            self.broken = true;
            return;
        };
        let (not, or, group_at) = (group.not, group.or, group.at);
        let tree = join(group.members, self.broken, findings);
        if tree.is_none() && !self.broken {
            findings.push(Diagnostic::error(group_at, "this group is empty"));
        }
        let tree = tree.map(|tree| if not { ConditionTree::Not(Box::new(tree)) } else { tree });
        self.add_tree(tree, or);
    }

    /// Ends the conditions of the current branch: checks that every group is closed, and that
    /// `elif` has a condition.
    pub(super) fn close_conditions(&mut self, findings: &mut Findings) {
        let broken = self.broken;
        let Some(section) = self.branch() else {
            return;
        };
        let mut found = false;
        for group in section.groups.drain(1..) {
            findings.push(Diagnostic::error(group.at, "this %{GROUP} has no %{GROUP:END}"));
            found = true;
        }
        let empty = section.groups.iter().all(|group| group.members.is_empty());
        let begins = section.steps.is_empty() && !section.has_broken;
        if section.kind == BranchKind::Elif && empty && begins && !found && !broken {
            let problem = Diagnostic::error(section.at, "`elif` has no conditions");
            findings.push(problem.hint("write `else`, or put conditions on the following lines"));
            found = true;
        }
        self.broken |= found;
    }

    /// Ends the innermost block and returns its branches; `None` if no block is open.
    pub(super) fn end_block(&mut self, findings: &mut Findings) -> Option<Vec<Branch>> {
        self.close_conditions(findings);
        let (block, broken) = (self.blocks.pop()?, self.broken);
        let branches = block.branches.into_iter().map(|section| {
            let members = section.groups.into_iter().flat_map(|group| group.members).collect();
            Branch { condition: join(members, broken, findings), steps: section.steps }
        });
        Some(branches.collect())
    }
}

impl DraftBranch {
    pub(super) fn new(kind: BranchKind, at: RuleSpan) -> DraftBranch {
        let groups = vec![ConditionGroup::default()];
        DraftBranch { kind, at, groups, steps: Vec::new(), has_broken: false }
    }
}

/// Joins conditions into a tree; `None` if there are no conditions. AND and OR have the same
/// precedence and nest to the right: `A [AND] B [OR] C` is `A && (B || C)`. An `[OR]` of the last
/// condition is reported only in a rule without errors, because the next condition may be one that
/// could not be read.
fn join(
    members: Vec<(ConditionTree, Option<RuleSpan>)>,
    is_broken: bool,
    findings: &mut Findings,
) -> Option<ConditionTree> {
    let mut members = members.into_iter().rev();
    let (mut tree, or) = members.next()?;
    if let Some(at) = or.filter(|_| !is_broken) {
        let problem = Diagnostic::warning(
            at,
            "[OR] joins a condition with the next one, but no condition follows",
        );
        findings.push(problem);
    }
    for (member, or) in members {
        let (member, rest) = (Box::new(member), Box::new(tree));
        tree = if or.is_some() {
            ConditionTree::Or(member, rest)
        } else {
            ConditionTree::And(member, rest)
        };
    }
    Some(tree)
}
