//! Measures the cost of header rules: a run over a head of eight lines, by number and kind of
//! rules.
//!
//! `cargo bench -p forebay-micro --bench rules`; a word after `--` selects a kind. The cost of one
//! more rule is the slope: the difference between two measurements, divided by the difference of
//! their numbers of rules.
#![allow(missing_docs, reason = "criterion's macros make functions without documentation")]

use std::hint::black_box;
use std::net::IpAddr;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use forebay_http::edit::{EditLimits, EditTable, FieldEdit};
use forebay_http::fields::FieldBlock;
use forebay_rules::ast::{AddressKind, Hook, PortKind, RuleScope};
use forebay_rules::plan::Program;
use forebay_rules::run::{
    CacheResult, RuleEnvironment, RuleVariables, RunBuffers, RunContext, RunObserver,
    TransactionState, Url,
};

const HEAD: &[u8] = b"date: Fri, 02 Jan 2026 10:00:00 GMT\r\n\
    content-type: text/plain\r\n\
    last-modified: Fri, 02 Jan 2026 10:00:00 GMT\r\n\
    etag: \"1024\"\r\n\
    cache-control: public, max-age=86400\r\n\
    age: 12\r\n\
    content-length: 1024\r\n\
    cache-status: forebay; hit; ttl=85166\r\n";

/// A value of 101 bytes.
const AGENT: &str = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) \
    Chrome/120.0.0.0 Safari/537.36";

const RULE_COUNTS: &[usize] = &[0, 1, 4, 16, 64, 100, 400];

/// Kinds of rules, each with its condition. `@` is replaced by the number of the rule.
const KINDS: &[(&str, &str)] = &[
    ("constant", "cond %{SEND_RESPONSE_HDR_HOOK}\n"),
    // Each rule has its own condition, which holds.
    ("equal", "cond %{SEND_RESPONSE_HDR_HOOK}\ncond %{CLIENT-HEADER:X-Test} =no-@ [NOT]\n"),
    // All conditions read one field and compare it with different values; none of them holds.
    ("unequal", "cond %{SEND_RESPONSE_HDR_HOOK}\ncond %{CLIENT-HEADER:X-Test} =yes-@\n"),
    // All rules have the same condition, which holds.
    ("same", "cond %{SEND_RESPONSE_HDR_HOOK}\ncond %{CLIENT-HEADER:X-Test} =yes\n"),
    (
        "regex",
        "cond %{SEND_RESPONSE_HDR_HOOK}\ncond %{CLIENT-HEADER:User-Agent} \
         /(bot|spider|crawler)-@[.x]/\n",
    ),
];

struct World;

impl RuleEnvironment for World {
    fn address(&self, _: AddressKind) -> Option<IpAddr> {
        None
    }
    fn port(&self, _: PortKind) -> u16 {
        80
    }
    fn cache(&self) -> CacheResult {
        CacheResult::HitFresh
    }
    fn now(&self) -> u64 {
        0
    }
    fn random(&self) -> u64 {
        0
    }
    fn request_number(&self) -> u64 {
        0
    }
    fn process_id(&self) -> &str {
        ""
    }
    fn transaction_count(&self) -> u64 {
        0
    }
    fn next_hop_host(&self) -> &str {
        ""
    }
    fn next_hop_port(&self) -> u16 {
        0
    }
    fn count(&self, _: u32) {}
}

/// Counts as a server does, so that the figures include the cost of counting.
#[derive(Default)]
struct Counts(Vec<[u64; 3]>);

impl RunObserver for Counts {
    fn end(&mut self, rules: std::ops::Range<u32>, ran: forebay_rules::run::RunReport) {
        let rules = rules.start as usize..rules.end as usize;
        for [runs, matches, bytes] in self.0.get_mut(rules).into_iter().flatten() {
            *runs += 1;
            *matches += u64::from(ran.matched);
            *bytes += u64::from(ran.added_bytes);
        }
    }
}

fn program(condition: &str, rule_count: usize) -> Program {
    let rule = |number: usize| {
        let number = format!("{number:03}");
        condition.replace('@', &number)
            + &format!("set-header X-Rule-{number} value-{number}-abcdef\n")
    };
    let text: String = (0..rule_count).map(rule).collect();
    let read = forebay_rules::read("bench", &text, RuleScope::Server);
    assert!(read.is_usable(), "{:?}", read.diagnostics);
    Program::plan(&[&read.rules])
}

fn client() -> FieldBlock {
    let mut client = FieldBlock::new();
    client.push(b"Host", b"a.example");
    client.push(b"User-Agent", AGENT.as_bytes());
    client.push(b"X-Test", b"yes");
    client
}

fn benches(criterion: &mut Criterion) {
    for (kind, condition) in KINDS {
        let mut group = criterion.benchmark_group(format!("rules/{kind}"));
        for rule_count in RULE_COUNTS {
            let program = program(condition, *rule_count);
            let client = client();
            let mut buffer = Vec::with_capacity(64 * 1024);
            let (mut table, mut texts) = (EditTable::default(), RunBuffers::default());
            let mut watch = Counts(vec![[0; 3]; *rule_count]);
            let mut run = || {
                buffer.clear();
                buffer.extend_from_slice(HEAD);
                let limits = EditLimits::default();
                let mut fields = FieldEdit::new(&mut buffer, 0, &mut table, limits);
                let mut context = RunContext {
                    fields: &mut fields,
                    client: Some(client.fields()),
                    method: b"GET",
                    url: Url::default(),
                    original: Url::default(),
                    status: Some(200),
                    transaction: &mut TransactionState::default(),
                    session: &mut RuleVariables::default(),
                    environment: &World,
                };
                black_box(program.run(Hook::SendResponse, &mut context, &mut texts, &mut watch));
                fields.finish();
                buffer.len()
            };
            let added = run() - HEAD.len();
            let holds = !matches!(*kind, "regex" | "unequal");
            assert_eq!(added, if holds { rule_count * 30 } else { 0 }, "{kind} {rule_count}");
            group.bench_function(BenchmarkId::from_parameter(rule_count), |bencher| {
                bencher.iter(|| black_box(run()));
            });
        }
        group.finish();
    }
}

criterion_group!(rules, benches);
criterion_main!(rules);
