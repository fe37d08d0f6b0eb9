use crate::ast::{Branch, BranchStep, ConditionTree, Hook, Rule, RuleScope};

use super::rules;

/// Shows a tree of conditions as text.
fn show_tree(tree: &ConditionTree) -> String {
    match tree {
        ConditionTree::Leaf(test) if test.negated => format!("!{}", test.at.line),
        ConditionTree::Leaf(test) => test.at.line.to_string(),
        ConditionTree::And(one, other) => format!("({} & {})", show_tree(one), show_tree(other)),
        ConditionTree::Or(one, other) => format!("({} | {})", show_tree(one), show_tree(other)),
        ConditionTree::Not(tree) => format!("!{}", show_tree(tree)),
    }
}

fn show_branches(branches: &[Branch]) -> String {
    let show = |branch: &Branch| {
        let condition = branch.condition.as_ref().map_or_else(|| "*".to_owned(), show_tree);
        let steps: Vec<String> = branch
            .steps
            .iter()
            .map(|step| match step {
                BranchStep::Operate(operation) => {
                    let last = if operation.last { "!" } else { "" };
                    format!("{}{last}", operation.at.line)
                }
                BranchStep::If(branches) => format!("[{}]", show_branches(branches)),
            })
            .collect();
        format!("{condition}: {}", steps.join(" "))
    };
    branches.iter().map(show).collect::<Vec<_>>().join("; ")
}

fn show(rules: &[Rule]) -> Vec<String> {
    rules.iter().map(|rule| show_branches(&rule.branches)).collect()
}

/// Reads lines that are separated by `/`, and shows their rules.
fn shown(lines: &str) -> Vec<String> {
    show(&rules(&lines.replace(" / ", "\n"), RuleScope::Route))
}

const A: &str = "cond %{HEADER:A} =a";

#[test]
fn and_and_or_have_one_precedence_and_nest_to_the_right() {
    for (flags, expected) in [
        (["", "", ""], "(1 & (2 & 3)): 4"),
        (["[AND]", "[OR]", ""], "(1 & (2 | 3)): 4"),
        (["[OR]", "[AND]", ""], "(1 | (2 & 3)): 4"),
        (["[OR]", "[OR]", ""], "(1 | (2 | 3)): 4"),
        (["[NOT,OR]", "", "[NOT]"], "(!1 | (2 & !3)): 4"),
        (["", "", "[OR]"], "(1 & (2 & 3)): 4"),
    ] {
        let lines = flags.map(|flags| format!("{A} {flags}")).join("\n");
        assert_eq!(
            show(&rules(&format!("{lines}\nno-op"), RuleScope::Route)),
            [expected],
            "{flags:?}"
        );
    }
}

#[test]
fn a_group_has_the_flags_of_its_first_line() {
    let (g, end) = ("cond %{GROUP}", "cond %{GROUP:END}");
    for (lines, expected) in [
        (format!("{g} [OR] / {A} / {A} / {end} / {A} / no-op"), "((2 & 3) | 5): 6"),
        (format!("{g} [NOT] / {A} [OR] / {A} / {end} / {A} / no-op"), "(!(2 | 3) & 5): 6"),
        (format!("{A} [OR] / {g} / {A} / {A} / {end} / no-op"), "(1 | (3 & 4)): 6"),
        (format!("{g} / {g} [OR] / {A} / {end} / {A} / {end} / no-op"), "(3 | 5): 7"),
        (format!("{g} [NOT,OR] / {A} / {end} / {A} [NOT] / no-op"), "(!2 | !4): 5"),
    ] {
        assert_eq!(shown(&lines), [expected], "{lines}");
    }
}

#[test]
fn a_condition_after_an_operator_begins_a_rule() {
    for (lines, expected) in [
        ("no-op / no-op".to_owned(), vec!["*: 1 2"]),
        (format!("no-op / {A} / no-op / no-op / {A} / no-op"), vec!["*: 1", "2: 3 4", "5: 6"]),
        (format!("{A} / no-op / else / no-op"), vec!["1: 2; *: 4"]),
        (format!("{A} / else / no-op"), vec!["1: ; *: 3"]),
        (
            format!("{A} / no-op / elif / {A} / {A} / no-op / else / no-op / {A} / no-op"),
            vec!["1: 2; (4 & 5): 6; *: 8", "9: 10"],
        ),
        (
            format!("{A} / if / {A} / no-op / else / no-op / endif / no-op"),
            vec!["1: [3: 4; *: 6] 8"],
        ),
        (format!("if / {A} / if / {A} / no-op / endif / endif"), vec!["*: [2: [4: 5]]"]),
        (format!("{A} / if / {A} / no-op / endif / {A} / no-op"), vec!["1: [3: 4]", "6: 7"]),
        (
            format!("{A} / if / {A} / no-op / elif / {A} / no-op / endif / else / no-op"),
            vec!["1: [3: 4; 6: 7]; *: 10"],
        ),
        ("no-op [L] / no-op [LAST]".to_owned(), vec!["*: 1! 2!"]),
        ("# a comment /   # another / no-op".to_owned(), vec!["*: 3"]),
    ] {
        assert_eq!(shown(&lines), expected, "{lines}");
    }
}

#[test]
fn a_rule_has_its_own_hook_or_the_default_of_its_scope() {
    let text = "no-op\ncond %{SEND_REQUEST_HDR_HOOK}\nno-op\ncond %{TRUE}\nno-op";
    let of = |scope| rules(text, scope).iter().map(|rule| rule.hook).collect::<Vec<_>>();
    assert_eq!(of(RuleScope::Route), [Hook::Remap, Hook::SendRequest, Hook::Remap]);
    let wanted = [Hook::ReadResponse, Hook::SendRequest, Hook::ReadResponse];
    assert_eq!(of(RuleScope::Server), wanted);
}

#[test]
fn cr_lf_ends_a_line() {
    let found = rules("cond %{HEADER:A} =a\r\nset-header A \"b\"\r\n", RuleScope::Route);
    assert_eq!(show(&found), ["1: 2"]);
}

#[test]
fn the_last_flag_of_a_condition_belongs_to_the_rule() {
    let found = rules(&format!("{A} [L]\nno-op\n{A}\nno-op"), RuleScope::Route);
    assert_eq!(found.iter().map(|rule| rule.last).collect::<Vec<_>>(), [true, false]);
    assert_eq!(found.iter().map(|rule| rule.at.line).collect::<Vec<_>>(), [1, 3]);
}
