//! The state that the rules of a request share, from hook to hook.

use std::cell::Cell;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use forebay_http::target::Scheme;
use forebay_rules::ast::HttpControl;
use forebay_rules::run::{CacheResult, RuleVariables, TransactionState};

use crate::accept::Client;
use crate::transport::OriginEnds;
use crate::x509::CertificateFacts;

/// The state that the rules of one request share, from hook to hook. A fetch gets a copy, because
/// it may outlive its client.
#[derive(Clone, Debug)]
pub(crate) struct RuleState {
    pub(super) transaction: Cell<TransactionState>,
    pub(super) session: Cell<RuleVariables>,
    pub(super) cache: Cell<CacheResult>,
    pub(super) outbound: Cell<Option<OriginEnds>>,
    pub(super) facts: RequestFacts,
}

/// The part of a fetch's state that the request which started the fetch takes over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RuleProgress {
    transaction: TransactionState,
    session: RuleVariables,
    outbound: Option<OriginEnds>,
}

/// The properties of a request that stay the same until it has been answered.
#[derive(Clone, Debug)]
pub(super) struct RequestFacts {
    /// The address at the other end of the connection: the client's, or a proxy's.
    pub(super) peer: SocketAddr,
    /// The address of the client.
    pub(super) client: IpAddr,
    /// The scheme of the request's URL.
    pub(super) scheme: Scheme,
    /// The version of TLS, such as `tls/1.3`; empty without TLS.
    pub(super) tls_version: &'static str,
    /// The certificate that the client has shown, if there are rules.
    pub(super) certificate: Option<Arc<CertificateFacts>>,
    /// Whether the request came over HTTP/2.
    pub(super) is_http2: bool,
    /// The address that the client connected to; `None` if there are no rules.
    pub(super) local: Option<SocketAddr>,
    /// The position of this request among the requests of its connection, counted from 1.
    pub(super) transaction_count: u64,
    /// The number that identifies this request in this process.
    pub(super) number: u64,
    /// Whether no client sent the request, and the server only explains how it would handle it.
    /// Rules then run only to show their effects, and are not counted.
    pub(super) is_inspecting: bool,
}

impl RuleState {
    /// Creates the state of a request that no client sent, and that is only explained.
    pub(crate) fn inspecting(client: IpAddr, scheme: Scheme) -> RuleState {
        RuleState {
            transaction: Cell::default(),
            session: Cell::default(),
            cache: Cell::default(),
            outbound: Cell::default(),
            facts: RequestFacts {
                peer: SocketAddr::new(client, 0),
                client,
                scheme,
                tls_version: "",
                certificate: None,
                is_http2: false,
                local: None,
                transaction_count: 1,
                number: 0,
                is_inspecting: true,
            },
        }
    }

    /// Whether no client sent the request, so that it is only explained.
    pub(super) fn is_inspecting(&self) -> bool {
        self.facts.is_inspecting
    }

    /// Creates the state of a request that has just arrived.
    pub(crate) fn new(client: &Client, has_rules: bool) -> RuleState {
        RuleState {
            transaction: Cell::default(),
            session: Cell::new(client.session.get()),
            cache: Cell::default(),
            outbound: Cell::default(),
            facts: RequestFacts {
                peer: client.canonical_peer(),
                client: client.address(),
                scheme: client.request_scheme(),
                tls_version: match client.tls_info() {
                    Some(info) if has_rules => info.version_tag(),
                    _ => "",
                },
                certificate: match has_rules {
                    true => client.certificate().map(|shown| Arc::clone(&shown.facts)),
                    false => None,
                },
                is_http2: client.transport.is_http2_stream(),
                local: if has_rules { client.local() } else { None },
                transaction_count: client.request_count(),
                number: client.worker.request_number(),
                is_inspecting: false,
            },
        }
    }

    /// Returns the scheme of the request's URL.
    pub(crate) fn scheme(&self) -> Scheme {
        self.facts.scheme
    }

    /// Whether the request came over HTTP/2.
    pub(crate) fn is_http2(&self) -> bool {
        self.facts.is_http2
    }

    /// Stores the session variables in the connection, for its next request.
    pub(crate) fn end(&self, client: &Client) {
        client.session.set(self.session.get());
    }

    /// Returns the address at the other end of the connection: the client's, or a proxy's.
    pub(crate) fn peer(&self) -> IpAddr {
        self.facts.peer.ip()
    }

    /// Returns the number of the request, which is unique in this process.
    pub(crate) fn number(&self) -> u64 {
        self.facts.number
    }

    /// Sets the lookup result that rules see.
    pub(crate) fn set_cache_result(&self, result: CacheResult) {
        self.cache.set(result);
    }

    /// Whether rules have switched `control` off.
    pub(crate) fn is_off(&self, control: HttpControl) -> bool {
        self.transaction.get().controls.of(control) == Some(false)
    }

    /// Whether rules have switched `control` on.
    pub(crate) fn is_on(&self, control: HttpControl) -> bool {
        self.transaction.get().controls.of(control) == Some(true)
    }

    /// Returns the changes that a fetch has made to its copy.
    pub(crate) fn progress(&self) -> RuleProgress {
        let (transaction, session) = (self.transaction.get(), self.session.get());
        RuleProgress { transaction, session, outbound: self.outbound.get() }
    }

    /// Applies the changes that a fetch has made to its copy.
    pub(crate) fn resume(&self, progress: RuleProgress) {
        self.transaction.set(progress.transaction);
        self.session.set(progress.session);
        self.outbound.set(progress.outbound);
    }

    /// Sets the addresses of the connection on which the request is sent to the origin.
    pub(crate) fn set_outbound(&self, outbound: Option<OriginEnds>) {
        self.outbound.set(outbound);
    }
}
