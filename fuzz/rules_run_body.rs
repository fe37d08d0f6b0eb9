//! Properties of every accepted rule file, run at every hook: the body of the fuzz target
//! `rules_run`. A violated property panics.

#[path = "../rules/tests/common/world.rs"]
mod world;

use forebay_http::{
    edit::{EditLimits, EditTable, FieldEdit, FieldName, FieldValue},
    fields::FieldBlock,
};
use forebay_rules::{
    ast::{Hook, RuleScope},
    plan::Program,
    read,
    run::{
        RuleVariables, RunBuffers, RunContext, RunLimits, RunObserver, RunReport, TransactionState,
        Url,
    },
};
use world::World;

const HEAD: &str = "Host: a.example\nA: 1\nX-A:  two words \nVia: b\nvia: c\nCookie: k=1; j=2\n\
    Cache-Control: max-age=1\nContent-Type: text/html\n";

/// Limits that no run reaches, so that the order in which lines are added does not matter.
const WIDE: EditLimits = EditLimits { bytes_max: 1 << 28, line_count_max: 1 << 20 };

const TIGHT: EditLimits = EditLimits { bytes_max: 512, line_count_max: 12 };
const SMALL: RunLimits =
    RunLimits { value_bytes_max: 48, target_bytes_max: 32, body_bytes_max: 64 };

#[derive(Default)]
struct Failures<const DETAILED: bool>(u32);

impl<const DETAILED: bool> RunObserver for Failures<DETAILED> {
    const DETAILED: bool = DETAILED;

    fn end(&mut self, _: std::ops::Range<u32>, ran: RunReport) {
        self.0 += ran.failed_count;
    }
}

/// Checks rule programs. The input is a rule file, optionally followed by a NUL and the lines of a
/// head. The head is valid after any rules, and the flat program has the same effects as running
/// the rules one by one.
pub(crate) fn rules_run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (text, head) = text.split_once('\0').unwrap_or((&text, HEAD));
    let lines: Option<String> = head.lines().take(32).map(line).collect();
    let head = lines.or_else(|| HEAD.lines().map(line).collect()).unwrap_or_default();
    for scope in [RuleScope::Server, RuleScope::Route] {
        let found = read("fuzz", text, scope);
        if !found.is_usable() {
            continue;
        }
        let program = Program::plan(&[&found.rules, &found.rules]);
        for hook in Hook::ALL {
            let flat = run::<false>(&program, hook, &head, WIDE, RunLimits::default());
            let stepwise = run::<true>(&program, hook, &head, WIDE, RunLimits::default());
            assert_eq!(flat, stepwise, "{hook:?}");
            run::<false>(&program, hook, &head, TIGHT, SMALL);
            run::<true>(&program, hook, &head, TIGHT, SMALL);
        }
    }
}

/// Writes a line in the form in which the server writes parsed lines.
fn line(line: &str) -> Option<String> {
    let (name, value) = line.split_once(':')?;
    FieldName::parse(name.as_bytes())?;
    let value = FieldValue::parse(value.as_bytes())?;
    Some(format!("{name}: {}\r\n", str::from_utf8(value.as_bytes()).ok()?))
}

/// The result of the rules: field lines sorted by name, then all other effects.
fn run<const DETAILED: bool>(
    program: &Program,
    hook: Hook,
    head: &str,
    limits: EditLimits,
    run_limits: RunLimits,
) -> Vec<String> {
    let mut buffer = head.as_bytes().to_vec();
    let mut table = EditTable::default();
    let mut fields = FieldEdit::new(&mut buffer, 0, &mut table, limits);
    let client = FieldBlock::parse(b"Host: c.example\r\nA: 2\r\nCookie: k=2\r\n")
        .expect("the client's head parses");
    let is_early = matches!(hook, Hook::ReadRequest | Hook::Remap);
    let url = |path, query| Url { host: b"a.example", port: Some(81), path, query };
    let (mut transaction, mut session) = (TransactionState::default(), RuleVariables::default());
    let mut context = RunContext {
        fields: &mut fields,
        client: (!is_early).then(|| client.fields()),
        method: b"GET",
        url: url(b"/p/a.html", Some(b"k=1&j=2")),
        original: url(b"/", None),
        status: (!is_early).then_some(404),
        transaction: &mut transaction,
        session: &mut session,
        environment: &World::default(),
    };
    let (mut texts, mut failures) = (RunBuffers::new(run_limits), Failures::<DETAILED>::default());
    let effects = program.run(hook, &mut context, &mut texts, &mut failures);
    fields.finish();
    let mut items = lines(&buffer);
    assert!(items.len() <= head.lines().count().max(limits.line_count_max as usize));
    assert!(buffer.len() <= head.len().max(limits.bytes_max as usize));
    for range in [&effects.reason, &effects.location, &effects.body].into_iter().flatten() {
        let made = texts.get(range);
        let is_body = effects.body.as_ref() == Some(range);
        assert!(is_body || !made.iter().any(|byte| is_control(*byte)), "{made:?}");
        assert!(made.len() <= run_limits.body_bytes_max as usize);
        items.push(format!("{made:?}"));
    }
    if let Some(url) = texts.url() {
        let parts = [url.host, url.path, url.query.unwrap_or_default()];
        assert!(parts.iter().all(|part| part.iter().all(u8::is_ascii_graphic)), "{url:?}");
        items.push(format!("{url:?}"));
    }
    let effects = (effects.status, effects.dscp, effects.url_changed, failures.0);
    items.push(format!("{effects:?} {transaction:?} {session:?}"));
    items
}

fn is_control(byte: u8) -> bool {
    byte != b'\t' && byte.is_ascii_control()
}

fn lines(bytes: &[u8]) -> Vec<String> {
    let block = FieldBlock::parse(bytes).expect("the head parses again after the rules");
    let mut lines: Vec<_> = block
        .fields()
        .iter()
        .map(|field| {
            assert!(!field.value.iter().any(|byte| is_control(*byte)), "{:?}", field.value);
            let name = field.name.escape_ascii().to_string().to_ascii_lowercase();
            (name, field.value.escape_ascii().to_string())
        })
        .collect();
    lines.sort_by(|one, other| one.0.cmp(&other.0));
    lines.into_iter().map(|(name, value)| format!("{name}: {value}")).collect()
}
