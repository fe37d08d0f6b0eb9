//! Resolves the messages that variables name at a hook, and the numbers of counters.

use crate::ast::{
    Branch, BranchStep, ConditionTree, Hook, MessageKind, Operator, Rule, Template, TemplatePart,
    Variable,
};

/// Returns the rule, with messages resolved for its hook and counters numbered for the program, and
/// whether the rule uses captured groups.
pub(super) fn rule(rule: &Rule, names: &[String], counters: &mut Vec<String>) -> (Rule, bool) {
    let mut rule = rule.clone();
    let mut resolve = HookResolver { hook: rule.hook, names, counters, asks_for_captures: false };
    resolve.branches(&mut rule.branches);
    let asks_for_captures = resolve.asks_for_captures;
    (rule, asks_for_captures)
}

struct HookResolver<'r> {
    hook: Hook,
    names: &'r [String],
    counters: &'r mut Vec<String>,
    asks_for_captures: bool,
}

impl HookResolver<'_> {
    /// Recurses as deep as the parser allows rules to nest.
    fn branches(&mut self, branches: &mut [Branch]) {
        for branch in branches {
            if let Some(condition) = &mut branch.condition {
                self.condition(condition);
            }
            for step in &mut branch.steps {
                match step {
                    BranchStep::If(branches) => self.branches(branches),
                    BranchStep::Operate(operation) => self.operator(&mut operation.operator),
                }
            }
        }
    }

    fn condition(&mut self, mut tree: &mut ConditionTree) {
        loop {
            match tree {
                ConditionTree::Leaf(test) => return self.variable(&mut test.subject),
                ConditionTree::Not(inner) => tree = inner,
                ConditionTree::And(first, second) | ConditionTree::Or(first, second) => {
                    self.condition(first);
                    tree = second;
                }
            }
        }
    }

    fn operator(&mut self, operator: &mut Operator) {
        match operator {
            Operator::SetHeader(_, value)
            | Operator::AddHeader(_, value)
            | Operator::AddCookie(_, value)
            | Operator::SetCookie(_, value)
            | Operator::SetDestination { value, .. }
            | Operator::SetRedirect { location: value, .. }
            | Operator::SetReason(value)
            | Operator::SetBody(value)
            | Operator::SetInt8(_, _, value)
            | Operator::SetInt16(_, value) => self.template(value),
            Operator::Counter(number) => *number = self.counter(*number),
            _ => {}
        }
    }

    fn template(&mut self, template: &mut Template) {
        for part in &mut template.parts {
            if let TemplatePart::Variable(variable) = part {
                self.variable(variable);
            }
        }
    }

    fn variable(&mut self, variable: &mut Variable) {
        self.asks_for_captures |= matches!(variable, Variable::LastCapture(_));
        let Variable::Header(message, _) = variable else {
            return;
        };
        *message = match (*message, self.hook) {
            // Before another message exists, the client's request is the current one.
            (_, Hook::ReadRequest | Hook::Remap) => MessageKind::AtHand,
            (MessageKind::ServerRequest, Hook::SendRequest) => MessageKind::AtHand,
            (MessageKind::AtHand, _) => MessageKind::AtHand,
            // The request to the origin is not kept after the response has arrived.
            (MessageKind::ClientRequest | MessageKind::ServerRequest, _) => {
                MessageKind::ClientRequest
            }
        };
    }

    /// Returns the index in the program of a file's counter. Adds the counter if the program has
    /// none of this name.
    fn counter(&mut self, number: u32) -> u32 {
        let name = self.names.get(number as usize).map(String::as_str).unwrap_or_default();
        let known = self.counters.iter().position(|counter| counter == name);
        let index = known.unwrap_or_else(|| {
            self.counters.push(name.to_owned());
            self.counters.len() - 1
        });
        index as u32
    }
}
