//! What a request carries from hook to hook.

use std::cell::Cell;
use std::net::{IpAddr, SocketAddr};

use forebay_http::policy::reuse::ForwardReason;
use forebay_rules::ast::HttpControl;
use forebay_rules::run::{CacheResult, RuleVariables, TransactionState};

use crate::accept::Client;
use crate::transport::OriginEnds;

/// A request's way through the hooks. A copy goes with a fetch, which may outlive its client.
#[derive(Clone, Debug)]
pub(crate) struct RuleState {
    pub(super) transaction: Cell<TransactionState>,
    pub(super) session: Cell<RuleVariables>,
    pub(super) cache: Cell<CacheResult>,
    pub(super) outbound: Cell<Option<OriginEnds>>,
    pub(super) facts: RequestFacts,
}

/// What a fetch gives back to the request that it was made for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RuleProgress {
    transaction: TransactionState,
    session: RuleVariables,
    outbound: Option<OriginEnds>,
}

/// What does not change while a request is answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestFacts {
    pub(crate) client: SocketAddr,
    /// Ours, that the client connected to.
    pub(crate) local: Option<SocketAddr>,
    /// Requests on the connection so far, this one included.
    pub(crate) transaction_count: u64,
    /// No other request of this process has it.
    pub(crate) number: u64,
}

impl RuleState {
    /// Of the request that has just come in.
    pub(crate) fn new(client: &Client, has_rules: bool) -> RuleState {
        RuleState {
            transaction: Cell::default(),
            session: Cell::new(client.session.get()),
            cache: Cell::default(),
            outbound: Cell::default(),
            facts: client.facts(has_rules),
        }
    }

    /// The connection keeps what its variables were set to.
    pub(crate) fn end(&self, client: &Client) {
        client.session.set(self.session.get());
    }

    /// The client's address.
    pub(crate) fn peer(&self) -> IpAddr {
        self.facts.client.ip()
    }

    /// What the lookup has found.
    pub(crate) fn forwarded(&self, reason: ForwardReason) {
        self.cache.set(match reason {
            ForwardReason::Bypass | ForwardReason::Method => CacheResult::Skipped,
            ForwardReason::Stale | ForwardReason::Request => CacheResult::HitStale,
            _ => CacheResult::Miss,
        });
    }

    /// What is stored answers.
    pub(crate) fn is_hit(&self) {
        self.cache.set(CacheResult::HitFresh);
    }

    /// What rules have switched off.
    pub(crate) fn is_off(&self, control: HttpControl) -> bool {
        self.transaction.get().controls.of(control) == Some(false)
    }

    /// What rules have switched on.
    pub(crate) fn is_on(&self, control: HttpControl) -> bool {
        self.transaction.get().controls.of(control) == Some(true)
    }

    /// What a fetch has made of its copy.
    pub(crate) fn progress(&self) -> RuleProgress {
        let (transaction, session) = (self.transaction.get(), self.session.get());
        RuleProgress { transaction, session, outbound: self.outbound.get() }
    }

    /// Goes on from there.
    pub(crate) fn resume(&self, progress: RuleProgress) {
        self.transaction.set(progress.transaction);
        self.session.set(progress.session);
        self.outbound.set(progress.outbound);
    }

    /// The request goes out on this connection.
    pub(crate) fn set_outbound(&self, outbound: Option<OriginEnds>) {
        self.outbound.set(outbound);
    }
}
