//! Running rules allocates nothing on the heap once the buffers have grown. The test covers 100
//! rules with many kinds of conditions and operators, including rules that add and set fields.
//!
//! The counter covers the whole process, so this file holds a single test.

use std::alloc::System;

use forebay_http::{
    edit::{EditLimits, EditTable, FieldEdit},
    fields::FieldBlock,
};
use forebay_rules::{
    ast::{Hook, RuleScope},
    plan::Program,
    read,
    run::{Effects, RuleVariables, RunBuffers, RunContext, TransactionState},
};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[allow(dead_code, reason = "other tests need the rest of it")]
mod common;

#[global_allocator]
static HEAP: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const RUN_COUNT: usize = 1_000;

/// Ten rules. Repeated ten times with different names in place of `@`, they give a hundred rules.
const RULES: &str = "\
cond %{SEND_RESPONSE_HDR_HOOK}
add-header X-Add-@ one
add-header X-Add-@ two
set-header X-Set-@ three
set-header Server forebay-@
cond %{SEND_RESPONSE_HDR_HOOK}
cond %{CLIENT-HEADER:User-Agent} /(Chrome).[0-9]+ (@)?/
set-header X-Agent-@ %{LAST-CAPTURE:1}
cond %{SEND_RESPONSE_HDR_HOOK}
cond %{CLIENT-HEADER:Accept} =text/html [PRE]
cond %{STATUS} =200
set-header X-Html-@ \"%{CLIENT-HEADER:Accept} at %{NOW:YEAR} from %{IP:CLIENT} %{ID:UNIQUE}\"
cond %{SEND_RESPONSE_HDR_HOOK}
cond %{HEADER:Cache-Control} =max-age [MID]
rm-header X-Set-@
cond %{SEND_RESPONSE_HDR_HOOK}
cond %{COOKIE:session} =0123
set-header X-Session-@ %{COOKIE:session}
cond %{SEND_RESPONSE_HDR_HOOK}
cond %{IP:CLIENT} {192.0.2.0/24}
set-status-reason \"For %{CIDR:8}\"
cond %{SEND_RESPONSE_HDR_HOOK}
cond %{URL:PATH} /^p$/
set-state-int8 0 %{STATUS}
cond %{SEND_RESPONSE_HDR_HOOK}
cond %{CLIENT-HEADER:Via} =b,c
set-header Via \"%{CLIENT-HEADER:Via}, @\"
cond %{SEND_RESPONSE_HDR_HOOK}
cond %{CACHE} (hit-fresh,hit-stale)
set-header X-Cache %{CACHE}
else
rm-header X-Cache
cond %{SEND_RESPONSE_HDR_HOOK}
cond %{RANDOM:10} >4
counter lucky-@
";

const HEAD: &[u8] = b"Date: Fri, 02 Jan 2026 10:00:00 GMT\r\nContent-Type: text/plain\r\n\
    Server: origin\r\nCache-Control: max-age=60\r\nX-Set-1: old\r\nVia: a\r\nVia: b\r\n";

#[test]
fn a_run_allocates_nothing() {
    let text: String = (0..10).map(|number| RULES.replace('@', &number.to_string())).collect();
    let list = read("rules", &text, RuleScope::Server);
    assert!(list.is_usable(), "{:?}", list.diagnostics);
    let program = Program::plan(&[&list.rules]);
    assert_eq!(program.rules().len(), 100);
    let mut client = FieldBlock::new();
    for (name, value) in [
        ("Host", "a.example"),
        ("Accept", "text/html,*/*;q=0.8"),
        ("User-Agent", "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/120 Safari"),
        ("Cookie", "a=b; session=0123"),
        ("Via", "b"),
        ("Via", "c"),
    ] {
        client.push(name.as_bytes(), value.as_bytes());
    }
    let world = common::World::default();
    world.counted.borrow_mut().reserve(100);
    let (mut buffer, mut table, mut texts) =
        (Vec::new(), EditTable::default(), RunBuffers::default());
    let mut run = || {
        world.counted.borrow_mut().clear();
        buffer.clear();
        buffer.extend_from_slice(HEAD);
        let mut fields = FieldEdit::new(&mut buffer, 0, &mut table, EditLimits::default());
        let mut context = RunContext {
            fields: &mut fields,
            client: Some(client.fields()),
            method: b"GET",
            url: common::url("http://a.example/p"),
            original: common::url("http://a.example/p"),
            status: Some(200),
            transaction: &mut TransactionState::default(),
            session: &mut RuleVariables::default(),
            environment: &world,
        };
        let effects = program.run(Hook::SendResponse, &mut context, &mut texts, &mut ());
        fields.finish();
        (effects, buffer.len())
    };
    let first: (Effects, usize) = run();
    assert!(first.1 > 1_200 && first.0.reason.is_some(), "the rules do something: {first:?}");
    for _ in 0..20 {
        run();
    }
    let before = HEAP.stats();
    for _ in 0..RUN_COUNT {
        assert_eq!(run().1, first.1);
    }
    let change = HEAP.stats() - before;
    let seen = (change.allocations, change.reallocations);
    assert_eq!(seen, (0, 0), "allocations in {RUN_COUNT} runs");
}
