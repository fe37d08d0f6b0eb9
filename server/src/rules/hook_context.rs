//! The rules of one request, and all values that they can see at a hook.

use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

use forebay_http::request::HeadLimits;
use forebay_http::target::Scheme;
use forebay_rules::apply::{MessageLimits, RequestView, RuledMessage};
use forebay_rules::ast::{AddressKind, CertificatePart, Hook, PortKind};
use forebay_rules::run::{CacheResult, Effects, RuleEnvironment, RunBuffers};

use super::RuleState;
use super::rule_counters::Meter;
use crate::accept::Client;
use crate::clock;
use crate::config::{Config, OriginAddress, RuleSet, ServerSettings};
use crate::key::RouteMatch;
use crate::limits::ORIGIN_LIMITS;
use crate::worker::Worker;

/// The rules of one request, and the values that they see at a hook.
#[derive(Clone, Copy)]
pub(crate) struct HookContext<'a> {
    pub(crate) worker: &'a Rc<Worker>,
    /// `None` in a fetch that may outlive its client.
    pub(crate) client: Option<&'a Client>,
    pub(crate) config: &'a Config,
    pub(crate) rules: &'a RuleSet,
    /// `None` until the request is routed.
    pub(crate) route: Option<RouteMatch<'a>>,
    pub(crate) rule_state: &'a RuleState,
    pub(crate) view: RequestView<'a>,
}

impl<'a> HookContext<'a> {
    /// Creates the context of a request with the rules of its route. Before routing, a request has
    /// the rules of the server.
    #[inline]
    pub(crate) fn new(
        worker: &'a Rc<Worker>,
        client: Option<&'a Client>,
        config: &'a Config,
        route: Option<RouteMatch<'a>>,
        rule_state: &'a RuleState,
        view: RequestView<'a>,
    ) -> HookContext<'a> {
        let rules = config.rules_of(route.map(|route| route.route));
        HookContext { worker, client, config, rules, route, rule_state, view }
    }
}

impl HookContext<'_> {
    /// Whether any rule runs at this hook.
    pub(crate) fn has(&self, hook: Hook) -> bool {
        self.rules.program.has(hook)
    }

    /// Runs the rules of a hook on `message`, and keeps the variables that they set.
    pub(super) fn run(
        &self,
        hook: Hook,
        mut message: RuledMessage<'_, '_>,
        texts: &mut RunBuffers,
    ) -> Effects {
        let mut transaction = self.rule_state.transaction.get();
        let mut session = self.rule_state.session.get();
        let world = World(self);
        let carried = (&mut transaction, &mut session);
        let mut context = message.run_context(&self.view, carried, &world);
        let program = &self.rules.program;
        let mut meter = Meter::new(&self.config.rule_counters, self.rules.first);
        let effects = if self.rule_state.is_inspecting() {
            program.run(hook, &mut context, texts, &mut ())
        } else if meter.samples(hook) {
            program.run(hook, &mut context, texts, &mut meter.timed())
        } else {
            program.run(hook, &mut context, texts, &mut meter)
        };
        self.rule_state.transaction.set(transaction);
        self.rule_state.session.set(session);
        if let Some(dscp) = effects.dscp {
            self.mark(hook, dscp);
        }
        effects
    }

    /// Marks the packets of the client's connection (RFC 2474). Rules that run in an exchange with
    /// the origin have no effect here, because other clients may wait for the same exchange.
    fn mark(&self, hook: Hook, dscp: u8) {
        let is_origin = matches!(hook, Hook::SendRequest | Hook::ReadResponse);
        if let Some(client) = self.client.filter(|_| !is_origin) {
            client.mark(dscp);
        }
    }
}

impl ServerSettings {
    /// Returns the limits on a head that rules have changed. The limits do not depend on the size
    /// of the head before the change.
    pub fn rule_limits(&self) -> MessageLimits {
        MessageLimits::beyond(HeadLimits {
            head_bytes_max: self.head_bytes_max.max(ORIGIN_LIMITS.head_bytes_max),
            field_count_max: self.field_count_max.max(ORIGIN_LIMITS.field_count_max),
            target_bytes_max: self.target_bytes_max,
        })
    }
}

/// The server and the connections, in the form in which rules query them.
struct World<'a>(&'a HookContext<'a>);

impl World<'_> {
    fn local(&self) -> Option<SocketAddr> {
        self.0.rule_state.facts.local
    }

    fn origin(&self) -> Option<&OriginAddress> {
        self.0.route.and_then(|route| route.route.origins.first())
    }
}

impl RuleEnvironment for World<'_> {
    fn address(&self, which: AddressKind) -> Option<IpAddr> {
        match which {
            AddressKind::Client => Some(self.0.rule_state.facts.client),
            AddressKind::Inbound => self.local().map(|local| local.ip()),
            AddressKind::Server => self.0.rule_state.outbound.get().map(|outbound| outbound.server),
            AddressKind::Outbound => {
                self.0.rule_state.outbound.get().map(|outbound| outbound.local)
            }
        }
    }

    fn port(&self, which: PortKind) -> u16 {
        match which {
            PortKind::Remote => self.0.rule_state.facts.peer.port(),
            PortKind::Local => self.local().map_or(0, |local| local.port()),
        }
    }

    fn cache(&self) -> CacheResult {
        self.0.rule_state.cache.get()
    }

    fn now(&self) -> u64 {
        clock::unix_seconds()
    }

    fn random(&self) -> u64 {
        self.0.worker.random()
    }

    fn request_number(&self) -> u64 {
        self.0.rule_state.facts.number
    }

    fn process_id(&self) -> &str {
        &self.0.worker.process_id
    }

    fn transaction_count(&self) -> u64 {
        self.0.rule_state.facts.transaction_count
    }

    fn scheme(&self) -> Scheme {
        self.0.rule_state.scheme()
    }

    fn tls_version(&self) -> &'static str {
        self.0.rule_state.facts.tls_version
    }

    fn client_certificate(&self, part: CertificatePart) -> &str {
        let Some(facts) = &self.0.rule_state.facts.certificate else { return "" };
        match part {
            CertificatePart::Subject => &facts.subject,
            CertificatePart::Issuer => &facts.issuer,
            CertificatePart::Serial => &facts.serial,
            CertificatePart::Fingerprint => &facts.fingerprint,
            CertificatePart::DnsNames => &facts.dns_names,
            CertificatePart::Emails => &facts.emails,
            CertificatePart::Uris => &facts.uris,
            CertificatePart::Addresses => &facts.addresses,
        }
    }

    fn is_http2(&self) -> bool {
        self.0.rule_state.is_http2()
    }

    fn next_hop_scheme(&self) -> Scheme {
        match self.origin() {
            Some(origin) if origin.tls.is_some() => Scheme::Https,
            _ => Scheme::Http,
        }
    }

    fn next_hop_host(&self) -> &str {
        self.origin().map_or("", |origin| &origin.host)
    }

    fn next_hop_port(&self) -> u16 {
        self.origin().map_or(0, |origin| origin.port)
    }

    fn count(&self, counter: u32) {
        if !self.0.rule_state.is_inspecting() {
            self.0.config.rule_counters.count(self.0.rules, counter);
        }
    }
}
