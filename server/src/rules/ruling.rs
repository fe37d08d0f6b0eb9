//! What the rules of one request see, and the buffers that they work in.

use std::net::{IpAddr, SocketAddr};
use std::sync::LazyLock;

use forebay_http::edit::{EditTable, FieldEdit, FieldName, FieldValue};
use forebay_http::fields::Field;
use forebay_rules::ast::{Address, Hook, PortOf};
use forebay_rules::run::{CacheResult, Effects, Stage, Surroundings, Texts};

use super::response::may_change;
use super::tally::Meter;
use super::{Course, RequestView};
use crate::accept::Client;
use crate::clock;
use crate::config::{Config, OriginAddress, RuleSet};
use crate::worker::Worker;

/// Buffers of the rules of one worker, which run one after the other.
#[derive(Default)]
pub(crate) struct RuleScratch {
    pub(super) table: EditTable,
    pub(super) texts: Texts,
    /// A line that is being put together.
    pub(super) line: Vec<u8>,
}

/// The rules that hold for one request, and what they see of it.
#[derive(Clone, Copy)]
pub(crate) struct Ruling<'a> {
    pub(crate) worker: &'a Worker,
    /// `None` where a fetch goes on by itself.
    pub(crate) client: Option<&'a Client>,
    pub(crate) config: &'a Config,
    pub(crate) rules: &'a RuleSet,
    /// Where the request would go; `None` until its site is known.
    pub(crate) origin: Option<&'a OriginAddress>,
    pub(crate) course: &'a Course,
    pub(crate) view: RequestView<'a>,
}

/// A message that rules are about to change.
pub(super) struct AtHand<'b> {
    pub(super) edit: FieldEdit<'b>,
    pub(super) status: Option<u16>,
    /// Is it the client's request?
    pub(super) is_client_request: bool,
}

static LOCATION: LazyLock<FieldName> =
    LazyLock::new(|| FieldName::parse(b"location").expect("it is a token"));

impl AtHand<'_> {
    /// A response points elsewhere, if its status can be changed.
    fn redirect(&mut self, location: &[u8]) {
        let value = FieldValue::parse(location).filter(|_| self.status.is_some_and(may_change));
        if let Some(value) = value {
            // A head that has no room for it keeps what it has, as with `set-header`.
            let _ = self.edit.set(&LOCATION, value);
        }
    }
}

impl Ruling<'_> {
    /// Is there anything to do at this hook?
    pub(crate) fn has(&self, hook: Hook) -> bool {
        self.rules.program.has(hook)
    }

    /// Is this a field that rules may have set before the request was looked up?
    pub(crate) fn sets(&self, field: &Field<'_>) -> bool {
        [Hook::ReadRequest, Hook::Remap].into_iter().any(|hook| {
            let names = self.rules.program.changed_names(hook);
            names.iter().any(|name| name.as_bytes().eq_ignore_ascii_case(field.name))
        })
    }

    /// Marks the packets of the client's connection (RFC 2474).
    pub(super) fn mark(&self, dscp: u8) {
        if let Some(client) = self.client {
            client.mark(dscp);
        }
    }

    /// Runs the rules of a hook; the second says whether they changed any field.
    pub(super) fn run(
        &self,
        hook: Hook,
        mut at_hand: AtHand<'_>,
        texts: &mut Texts,
    ) -> (Effects, bool) {
        let mut transaction = self.course.transaction.get();
        let mut session = self.course.session.get();
        let mut stage = Stage {
            fields: &mut at_hand.edit,
            client: (!at_hand.is_client_request).then_some(self.view.fields),
            method: self.view.method,
            url: self.view.url,
            original: self.view.original,
            status: at_hand.status,
            transaction: &mut transaction,
            session: &mut session,
            surroundings: &World(self),
        };
        let program = &self.rules.program;
        let mut meter = Meter::new(&self.config.tally, self.rules.first);
        let effects = match meter.samples(hook) {
            false => program.run(hook, &mut stage, texts, &mut meter),
            true => program.run(hook, &mut stage, texts, &mut meter.timed()),
        };
        self.course.transaction.set(transaction);
        self.course.session.set(session);
        let is_response = matches!(hook, Hook::ReadResponse | Hook::SendResponse);
        if let Some(location) = effects.location.as_ref().filter(|_| is_response) {
            at_hand.redirect(texts.get(location));
        }
        let is_changed = at_hand.edit.is_changed();
        at_hand.edit.finish();
        (effects, is_changed)
    }
}

/// The answers of a server to what rules ask of the world.
struct World<'a>(&'a Ruling<'a>);

impl World<'_> {
    fn local(&self) -> Option<SocketAddr> {
        self.0.course.facts.local
    }
}

impl Surroundings for World<'_> {
    fn address(&self, which: Address) -> Option<IpAddr> {
        match which {
            Address::Client => Some(self.0.course.peer()),
            Address::Inbound => self.local().map(|local| local.ip()),
            Address::Server => self.0.course.outbound.get().map(|outbound| outbound.server),
            Address::Outbound => self.0.course.outbound.get().map(|outbound| outbound.local),
        }
    }

    fn port(&self, which: PortOf) -> u16 {
        match which {
            PortOf::Remote => self.0.course.facts.client.port(),
            PortOf::Local => self.local().map_or(0, |local| local.port()),
        }
    }

    fn cache(&self) -> CacheResult {
        self.0.course.cache.get()
    }

    fn now(&self) -> u64 {
        clock::unix_seconds()
    }

    fn random(&self) -> u64 {
        self.0.worker.random()
    }

    fn request_number(&self) -> u64 {
        self.0.course.facts.number
    }

    fn process_id(&self) -> &str {
        &self.0.worker.process_id
    }

    fn transaction_count(&self) -> u64 {
        self.0.course.facts.transaction_count
    }

    fn next_hop_host(&self) -> &str {
        self.0.origin.map_or("", |origin| &origin.host)
    }

    fn next_hop_port(&self) -> u16 {
        self.0.origin.map_or(0, |origin| origin.port)
    }

    fn count(&self, counter: u32) {
        self.0.config.tally.count(self.0.rules, counter);
    }
}
