//! Runs a program that is assembled by hand.

use std::net::IpAddr;

use forebay_http::edit::{EditLimits, EditTable, FieldEdit, FieldName};

use super::*;
use crate::{
    ast::{
        AddressKind, Branch, BranchStep, Comparison, Condition, ConditionTree, Matcher,
        MessageKind, Operation, Operator, PortKind, Rule, RuleList, Template, TemplatePart,
        Variable,
    },
    diagnostic::RuleSpan,
};

struct World;

impl RuleEnvironment for World {
    fn address(&self, which: AddressKind) -> Option<IpAddr> {
        (which == AddressKind::Client).then(|| "192.0.2.7".parse().expect("an address"))
    }
    fn port(&self, _: PortKind) -> u16 {
        80
    }
    fn cache(&self) -> CacheResult {
        CacheResult::HitFresh
    }
    fn now(&self) -> u64 {
        1_767_225_600
    }
    fn random(&self) -> u64 {
        7
    }
    fn request_number(&self) -> u64 {
        42
    }
    fn process_id(&self) -> &str {
        "p"
    }
    fn transaction_count(&self) -> u64 {
        3
    }
    fn next_hop_host(&self) -> &str {
        "origin.example"
    }
    fn next_hop_port(&self) -> u16 {
        8080
    }
    fn count(&self, _: u32) {}
}

fn name(text: &str) -> FieldName {
    FieldName::parse(text.as_bytes()).expect("a token")
}

fn text(text: &str) -> Template {
    Template { parts: vec![TemplatePart::Text(text.as_bytes().into())] }
}

fn rule(condition: Option<ConditionTree>, operators: Vec<Operator>) -> Rule {
    let step = |operator| {
        BranchStep::Operate(Operation { operator, last: false, at: RuleSpan::default() })
    };
    let steps = operators.into_iter().map(step).collect();
    let branches = vec![Branch { condition, steps }];
    Rule { hook: Hook::Remap, turn: 0, at: RuleSpan::default(), branches, last: false }
}

fn equals(field: &str, value: &str) -> ConditionTree {
    ConditionTree::Leaf(Condition {
        subject: Variable::Header(MessageKind::ClientRequest, name(field)),
        matcher: Matcher::Text {
            how: Comparison::Equal,
            with: value.as_bytes().into(),
            nocase: false,
        },
        negated: false,
        at: RuleSpan::default(),
    })
}

fn run(rules: Vec<Rule>, head: &str) -> String {
    let rules = RuleList { file: "f".into(), rules, counters: Vec::new() };
    let program = Program::plan(&[&rules]);
    let mut buffer = head.as_bytes().to_vec();
    let mut table = EditTable::default();
    let mut fields = FieldEdit::new(&mut buffer, 0, &mut table, EditLimits::default());
    let mut context = RunContext {
        fields: &mut fields,
        client: None,
        method: b"GET",
        url: Url { host: b"a.example", port: None, path: b"/p", query: None },
        original: Url::default(),
        status: None,
        transaction: &mut TransactionState::default(),
        session: &mut RuleVariables::default(),
        environment: &World,
    };
    program.run(Hook::Remap, &mut context, &mut RunBuffers::default(), &mut ());
    fields.finish();
    String::from_utf8(buffer).expect("text")
}

#[test]
fn a_rule_runs_if_its_condition_holds() {
    let set = |field: &str, value: &str| Operator::SetHeader(name(field), text(value));
    let rules = vec![
        rule(None, vec![set("X-A", "1"), set("x-b", "2")]),
        rule(Some(equals("Host", "a")), vec![set("x-b", "3"), Operator::RemoveHeader(name("via"))]),
        rule(Some(equals("Host", "b")), vec![set("x-c", "4")]),
        rule(Some(equals("x-b", "3")), vec![Operator::AddHeader(name("x-b"), text("5"))]),
    ];
    let seen = run(rules, "Host: a\r\nVia: q\r\nx-a: 0\r\nvia: r\r\n");
    assert_eq!(seen, "Host: a\r\nx-a: 1\r\nx-b: 3\r\nx-b: 5\r\n");
}
