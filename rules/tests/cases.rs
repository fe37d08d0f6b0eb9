//! Runs every case of `tests/cases`: rules, inputs and expected results.
//!
//! A file holds blocks separated by empty lines. A block is the text of a rule file (a `#` line at
//! its beginning says what it shows), then pairs of lines: `> inputs` and `< expected results`;
//! `common` describes the items in them. A first line `: HOOK` puts the rules into the server's
//! list and runs that hook; without it the rules are a route's and run at the remap hook. Each case
//! is run by the flat program and step by step. Rules may run the filter `put NAME VALUE`.

mod common;

use std::{fs, path::Path};

use common::{Given, run};
use forebay_http::edit::{EditError, FieldName, FieldValue};
use forebay_rules::{
    ast::{Hook, RuleScope},
    filter::{Filter, FilterMessage, Filters},
    plan::Program,
    read_with,
};

/// The least number of cases: if fewer are found, some files are missing.
const CASE_COUNT_MIN: usize = 150;

/// A filter that sets one field. It also sets STATE-FLAG:0, unless the field was already present.
struct Put([FieldName; 1], String);

impl Put {
    fn new(arguments: &[&str]) -> Result<Put, String> {
        let [name, value] = arguments else {
            return Err("a name and a value".to_owned());
        };
        let name = FieldName::parse(name.as_bytes()).ok_or("no name")?;
        Ok(Put([name], (*value).to_owned()))
    }
}

impl Filter for Put {
    fn changes(&self) -> &[FieldName] {
        &self.0
    }

    fn run(&self, message: &mut FilterMessage<'_, '_>) -> Result<(), EditError> {
        let [name] = &self.0;
        if message.fields.find(name).is_none() {
            message.state.flags |= 1;
        }
        let value = FieldValue::parse(self.1.as_bytes()).expect("a value");
        message.fields.set(name, value).map(|_| ())
    }
}

#[test]
fn every_case_has_its_expected_result() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let (mut problems, mut case_count) = (Vec::new(), 0);
    let mut files: Vec<_> = fs::read_dir(folder)
        .expect("the folder of cases")
        .map(|file| file.expect("a file").path())
        .collect();
    files.sort();
    for path in files {
        let text = fs::read_to_string(&path).expect("a text");
        let mut line = 1;
        for block in text.split("\n\n") {
            let shown = format!("{}:{line}", path.display());
            case_count += check_block(block, &shown, &mut problems);
            line += block.lines().count() + 1;
        }
    }
    assert!(
        problems.is_empty(),
        "{} of {case_count} cases:\n{}",
        problems.len(),
        problems.join("\n")
    );
    assert!(case_count >= CASE_COUNT_MIN, "only {case_count} cases");
}

fn check_block(block: &str, shown: &str, problems: &mut Vec<String>) -> usize {
    let (scope, hook) = match block.lines().find_map(|line| line.strip_prefix(": ")) {
        None => (RuleScope::Route, Hook::Remap),
        Some("READ_REQUEST") => (RuleScope::Server, Hook::ReadRequest),
        Some("SEND_REQUEST") => (RuleScope::Server, Hook::SendRequest),
        Some("READ_RESPONSE") => (RuleScope::Server, Hook::ReadResponse),
        Some("SEND_RESPONSE") => (RuleScope::Server, Hook::SendResponse),
        Some(other) => panic!("{shown}: no hook is called {other:?}"),
    };
    let filters = Filters::default().with("put", Put::new);
    let is_rule = |line: &&str| !line.starts_with([':', '>', '<']);
    let text: Vec<_> = block.lines().filter(is_rule).collect();
    let mut program = Program::default();
    // In a block, lines of dashes separate several lists, in order.
    let lists: Vec<_> = text
        .split(|line| line.starts_with("----"))
        .map(|lines| read_with(shown, &lines.join("\n"), scope, &filters))
        .collect();
    match lists.iter().find(|list| !list.is_usable()) {
        Some(list) => problems.push(format!("{shown}: refused: {:?}", list.diagnostics)),
        None => program = Program::plan(&lists.iter().map(|list| &list.rules).collect::<Vec<_>>()),
    }
    let of = |mark: &'static str| {
        block.lines().filter_map(move |line| line.strip_prefix(mark).map(str::trim))
    };
    assert_eq!(of(">").count(), of("<").count(), "{shown}");
    for (input, expected) in of(">").zip(of("<")) {
        let given = Given::parse(input);
        let flat = run::<false>(&program, hook, &given).join(" | ");
        let stepwise = run::<true>(&program, hook, &given).join(" | ");
        for (how, seen) in [("flat", flat), ("step by step", stepwise)] {
            if seen != expected {
                problems.push(format!("{shown} {how}\n  > {input}\n  < {expected}\n    {seen}"));
            }
        }
    }
    of(">").count()
}
