//! A head, its environment, and the effects of rules on both, as text for comparison.

mod world;

use std::{cell::Cell, net::IpAddr};

use forebay_http::{
    edit::{EditLimits, EditTable, FieldEdit},
    fields::FieldBlock,
};
use forebay_rules::{
    ast::{Hook, HttpControl},
    plan::Program,
    run::{
        CacheResult, Effects, RuleVariables, RunBuffers, RunContext, RunObserver, RunReport,
        TransactionState, Url,
    },
};

pub(crate) use world::World;

/// The inputs of a run. They are written as items separated by ` | `: `Name: value` is a line of
/// the head, and `@word value` is another input.
#[derive(Clone, Debug)]
pub(crate) struct Given {
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) client: Option<Vec<(String, String)>>,
    pub(crate) method: String,
    pub(crate) url: String,
    pub(crate) original: String,
    pub(crate) status: Option<u16>,
    pub(crate) now: u64,
    pub(crate) random: u64,
    pub(crate) cache: CacheResult,
    pub(crate) client_address: Option<IpAddr>,
    pub(crate) limits: EditLimits,
}

impl Default for Given {
    fn default() -> Given {
        let world = World::default();
        Given {
            fields: Vec::new(),
            client: None,
            method: "GET".into(),
            url: "http://a.example/p?q=1".into(),
            original: "http://o.example:81/first".into(),
            status: None,
            now: world.now,
            random: 7,
            cache: world.cache,
            client_address: world.client,
            limits: EditLimits::default(),
        }
    }
}

fn field(item: &str) -> (String, String) {
    let (name, value) = item.split_once(':').unwrap_or_else(|| panic!("no field: {item:?}"));
    (name.to_owned(), value.trim().to_owned())
}

impl Given {
    pub(crate) fn parse(text: &str) -> Given {
        let mut given = Given::default();
        for item in text.split(" | ").map(str::trim).filter(|item| !item.is_empty()) {
            let Some(word) = item.strip_prefix('@') else {
                given.fields.push(field(item));
                continue;
            };
            let (word, value) = word.split_once(' ').unwrap_or((word, ""));
            given.set(word, value);
        }
        given
    }

    pub(crate) fn world(&self) -> World {
        World {
            client: self.client_address,
            cache: self.cache,
            now: self.now,
            random: Cell::new(self.random),
            ..World::default()
        }
    }

    fn set(&mut self, word: &str, value: &str) {
        let number = || value.parse().unwrap_or_else(|_| panic!("no number: {value:?}"));
        match word {
            "client" if value.is_empty() => self.client = Some(Vec::new()),
            "client" => self.client.get_or_insert_default().push(field(value)),
            "method" => self.method = value.into(),
            "url" => self.url = value.into(),
            "original" => self.original = value.into(),
            "status" => self.status = Some(number() as u16),
            "now" => self.now = number(),
            "random" => self.random = number(),
            "address" => self.client_address = value.parse().ok(),
            "lines-max" => self.limits.line_count_max = number() as u32,
            "bytes-max" => self.limits.bytes_max = number() as u32,
            "cache" => {
                let all = [
                    CacheResult::None,
                    CacheResult::Miss,
                    CacheResult::HitStale,
                    CacheResult::HitFresh,
                    CacheResult::Skipped,
                ];
                let found = all.into_iter().find(|result| result.as_str() == value);
                self.cache = found.expect("a result of the lookup");
            }
            _ => panic!("unknown word: @{word}"),
        }
    }
}

/// Splits a URL, which must be valid, into its parts.
pub(crate) fn url(text: &str) -> Url<'_> {
    let rest = text.strip_prefix("http://").unwrap_or(text);
    let (authority, target) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()),
        _ => (authority, None),
    };
    let (path, query) = match target.split_once('?') {
        Some((path, query)) => (path, Some(query.as_bytes())),
        None => (target, None),
    };
    Url { host: host.as_bytes(), port, path: path.as_bytes(), query }
}

fn url_text(url: Url<'_>) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let port = url.port.map_or(String::new(), |port| format!(":{port}"));
    let query = url.query.map_or(String::new(), |query| format!("?{}", text(query)));
    format!("http://{}{port}{}{query}", text(url.host), text(url.path))
}

/// An observer that adds up the failures of rules and lists the rules that matched.
#[derive(Debug, Default)]
pub(crate) struct Sum<const DETAILED: bool> {
    pub(crate) failed_count: u32,
    pub(crate) matched: Vec<u32>,
}

impl<const DETAILED: bool> RunObserver for Sum<DETAILED> {
    const DETAILED: bool = DETAILED;

    fn end(&mut self, rules: std::ops::Range<u32>, ran: RunReport) {
        self.failed_count += ran.failed_count;
        if ran.matched {
            self.matched.extend(rules);
        }
    }
}

/// Runs the rules of one hook; returns the results as items like those of [`Given`], fields sorted
/// by name, lines of one name in order.
pub(crate) fn run<const DETAILED: bool>(
    program: &Program,
    hook: Hook,
    given: &Given,
) -> Vec<String> {
    let mut buffer = b"start\r\n".to_vec();
    for (name, value) in &given.fields {
        buffer.extend(format!("{name}: {value}\r\n").bytes());
    }
    let mut client = FieldBlock::new();
    for (name, value) in given.client.iter().flatten() {
        client.push(name.as_bytes(), value.as_bytes());
    }
    let mut table = EditTable::default();
    let mut fields = FieldEdit::new(&mut buffer, 7, &mut table, given.limits);
    let world = given.world();
    let (mut transaction, mut session) = (TransactionState::default(), RuleVariables::default());
    let mut context = RunContext {
        fields: &mut fields,
        client: given.client.as_ref().map(|_| client.fields()),
        method: given.method.as_bytes(),
        url: url(&given.url),
        original: url(&given.original),
        status: given.status,
        transaction: &mut transaction,
        session: &mut session,
        environment: &world,
    };
    let mut texts = RunBuffers::default();
    let mut sum = Sum::<DETAILED>::default();
    let effects = program.run(hook, &mut context, &mut texts, &mut sum);
    fields.finish();
    assert!(buffer.starts_with(b"start\r\n"));
    let mut items = lines(&buffer[7..]);
    items.extend(effect_items(&effects, &texts));
    items.extend(variable_items(&transaction, &session));
    let counted = world.counted.borrow();
    items.extend(counted.iter().map(|at| format!("@count {}", program.counters()[*at as usize])));
    if sum.failed_count > 0 {
        items.push(format!("@failed {}", sum.failed_count));
    }
    items
}

fn lines(bytes: &[u8]) -> Vec<String> {
    let block = FieldBlock::parse(bytes).expect("rules leave a head that reads back");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut lines: Vec<_> =
        block.fields().iter().map(|field| (text(field.name), text(field.value))).collect();
    lines.sort_by_key(|(name, _)| name.to_ascii_lowercase());
    lines.into_iter().map(|(name, value)| format!("{name}: {value}").trim().to_owned()).collect()
}

fn effect_items(effects: &Effects, texts: &RunBuffers) -> Vec<String> {
    let mut items = Vec::new();
    let text = |range| String::from_utf8_lossy(texts.get(range)).into_owned();
    items.extend(effects.status.map(|status| format!("@status {status}")));
    items.extend(effects.reason.as_ref().map(|range| format!("@reason {}", text(range))));
    items.extend(effects.location.as_ref().map(|range| format!("@location {}", text(range))));
    items.extend(effects.body.as_ref().map(|range| format!("@body {}", text(range))));
    assert_eq!(effects.url_changed, texts.url().is_some());
    items.extend(texts.url().map(|url| format!("@url {}", url_text(url))));
    items.extend(effects.dscp.map(|dscp| format!("@dscp {dscp}")));
    items
}

fn variable_items(transaction: &TransactionState, session: &RuleVariables) -> Vec<String> {
    let mut items = Vec::new();
    for (name, state) in [("state", &transaction.state), ("session", session)] {
        if *state != RuleVariables::default() {
            let RuleVariables { flags, int8, int16 } = state;
            items.push(format!("@{name} {flags:x} {int8:?} {int16}"));
        }
    }
    for control in [
        HttpControl::Logging,
        HttpControl::ResponseCacheable,
        HttpControl::RequestCacheable,
        HttpControl::ServerNoStore,
    ] {
        items.extend(transaction.controls.of(control).map(|on| format!("@{control:?} {on}")));
    }
    items
}
