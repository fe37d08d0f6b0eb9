//! One exchange with an origin: obtains a connection, sends the request, checks the response's
//! head.

use std::cell::Cell;
use std::path::Path;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use forebay_cache::Leader;
use http::{HeaderValue, Request, Response};
use tokio::time::timeout;

use super::answer::{BodySource, OriginAnswer};
use super::connect::{ConnectFailure, ConnectTerms, Connection, ReadyConnection, connect};
use super::failover::{Attempts, ExchangeError};
use super::group::OriginChoice;
use super::http2::{Http2Request, REFUSED, StreamFailure, StreamPlace};
use super::origins::OriginPool;
use super::outbound::{Outbound, OutboundMessage, Purpose};
use super::permits::ExchangePermit;
use super::proxy_header::ClientEnds;
use super::received_head::{HeadReceived, forward_interim};
use super::upload::{OutboundBody, UploadProgress, wait_for_origin};
use crate::accept::ClientNetwork;
use crate::clock;
use crate::config::{Route, RouteSettings, ServerSettings};
use crate::counters::{Counter, Histogram};
use crate::events::Event;
use crate::fault::Fault;
use crate::interim::InterimQueue;
use crate::key::RouteMatch;
use crate::limits::HTTP2_REFUSALS_MAX;
use crate::poll_once::poll_once;
use crate::rules::{HookContext, RuleProgress};
use crate::trace::{RequestStep, Trace};
use crate::transaction::Transaction;
use crate::worker::Worker;

/// The fault for a call of gRPC to an origin that speaks HTTP/1.1, which cannot carry it.
const GRPC_REFUSED: Fault =
    Fault::OriginAnswer("gRPC needs HTTP/2 to the origin: see the setting origin_http2");

/// One exchange with an origin: its request, and the queue for interim responses.
pub(super) struct Exchange<'a> {
    pub(super) outbound: Outbound<'a>,
    pub(super) route: &'a Route,
    pub(super) client: ServedClient,
    interim: &'a InterimQueue,
    /// The leader of the collapsed fetch that needs the exchange; `None` for an exchange that
    /// belongs to no collapsed fetch.
    leader: Option<&'a Leader>,
    pub(super) trace: &'a Trace,
    /// Whether the request has already been sent a second time to one of the origins.
    pub(super) is_repeated: Cell<bool>,
    /// Whether the request gets a connection of its own: the end of a shared one failed it, which
    /// the request may have caused.
    is_alone: Cell<bool>,
    /// Whether a retry of the request was refused and counted.
    pub(super) is_refused: Cell<bool>,
    /// The state of the rules before the exchange. Each attempt begins with it.
    rules_before: RuleProgress,
}

/// The client for which an exchange runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServedClient {
    /// The network whose share of the permits the exchange uses.
    pub(super) network: ClientNetwork,
    /// The addresses that origins with `origin_proxy_protocol` get.
    ends: Option<ClientEnds>,
}

impl ServedClient {
    pub(super) fn of(transaction: &Transaction<'_>) -> ServedClient {
        let client = transaction.client;
        let ends = ClientEnds::of(client, &transaction.route().route.origins);
        ServedClient { network: client.network(), ends }
    }

    /// Returns the value for an exchange that the client has caused, but does not wait for: the
    /// origin does not get the client's address.
    pub(super) fn unattended(self) -> ServedClient {
        ServedClient { ends: None, ..self }
    }
}

impl<'a> Exchange<'a> {
    /// Creates the exchange of a routed request of `client`. Interim responses (1xx) go to
    /// `interim`, and the steps of the exchange to `trace`.
    pub(super) fn new(
        client: ServedClient,
        hook: HookContext<'a>,
        message: OutboundMessage<'a>,
        purpose: Purpose<'a>,
        (interim, trace): (&'a InterimQueue, &'a Trace),
    ) -> Exchange<'a> {
        let route = hook.route.expect("only a routed request goes to an origin");
        let outbound = Outbound { message, purpose, hook, upgrade: None };
        let RouteMatch { route, .. } = route;
        let rules_before = hook.rule_state.progress();
        Exchange {
            outbound,
            route,
            client,
            interim,
            leader: None,
            trace,
            is_repeated: Cell::default(),
            is_alone: Cell::default(),
            is_refused: Cell::default(),
            rules_before,
        }
    }

    /// Makes the exchange tell `leader` when it starts and when it stops waiting for a permit.
    pub(super) fn led_by(self, leader: &'a Leader) -> Exchange<'a> {
        Exchange { leader: Some(leader), ..self }
    }

    /// Makes the exchange ask the origin to switch to one of the protocols.
    pub(super) fn upgrading(self, protocols: Option<&'a HeaderValue>) -> Exchange<'a> {
        Exchange { outbound: Outbound { upgrade: protocols, ..self.outbound }, ..self }
    }

    pub(super) fn worker(&self) -> &'a Rc<Worker> {
        self.outbound.hook.worker
    }

    pub(super) fn settings(&self) -> &'a ServerSettings {
        &self.outbound.hook.config.server
    }

    /// Returns the settings of the route of the request.
    pub(super) fn route_settings(&self) -> &'a RouteSettings {
        &self.route.settings
    }
}

/// Sends the request and waits for the head of the final response.
///
/// If a pooled connection turns out to be closed, the request is sent again on a new connection,
/// provided that none of it was sent before, or that it may be repeated (RFC 9112 §9.3.1). After a
/// reset, this takes a retry from the budget. Under the same conditions, the request goes to the
/// next origin of the route if an origin fails. If no other origin of the route gets requests, a
/// request that may be repeated is sent to the same origin once more.
///
/// # Errors
/// - A [`Fault`] whose side is the origin.
/// - [`Fault::OriginBusy`]: no permit was free in time.
/// - [`Fault::RequestBody`] and [`Fault::TooSlow`]: the client's body broke off or stopped.
/// - [`Fault::PathOutsidePrefix`]: the route cannot rewrite the path.
/// - [`Fault::FilesBusy`], [`Fault::FilesFailed`] and [`Fault::FileChanged`]: a file of the
///   directory that answers in place of an origin could not be opened or read.
/// - [`Fault::Rules`] and [`Fault::Internal`]: bugs.
pub(super) async fn exchange(
    exchange: &Exchange<'_>,
    upload: Option<(OutboundBody, UploadProgress)>,
) -> Result<OriginAnswer, Fault> {
    let answered = match exchange.files() {
        // A request with a body gets its answer without its body being read.
        Some(directory) => Box::pin(exchange.run_on_files(directory)).await,
        None => exchange.run(upload).await,
    };
    if let Err(fault) = &answered {
        exchange.trace.step(|| RequestStep::OriginFailed { fault: fault.reason() });
    }
    answered
}

impl Exchange<'_> {
    /// Returns the directory that answers in place of an origin, if the route has one.
    fn files(&self) -> Option<&Arc<Path>> {
        self.outbound.hook.route.and_then(|route| route.route.settings.files.get())
    }

    /// Sends the request to the chosen origin, after the earlier `attempts`.
    pub(super) async fn attempt(
        &self,
        choice: &OriginChoice<'_>,
        permit: ExchangePermit,
        attempts: &Attempts,
        (upload, progress): (OutboundBody, Option<&UploadProgress>),
    ) -> Result<OriginAnswer, ExchangeError> {
        let pool = &choice.pool;
        if let Some(progress) = progress {
            progress.begin(pool);
        }
        if self.outbound.is_grpc() && !choice.address.may_use_http2() {
            return Err(ExchangeError::Fault(GRPC_REFUSED));
        }
        choice.in_group.state.counts.note_request();
        if choice.leaves_zone {
            self.worker().count(Counter::OriginOutOfZone);
        }
        let answered = self.send_to(choice, attempts, upload, progress).await?;
        let status = answered.response.status().as_u16();
        choice.in_group.state.counts.note_answer(status, answered.took_us);
        self.trace.note_answer(&pool.authority, answered.response.version(), answered.took_us);
        if !self.is_error(status) {
            self.note_answered(choice);
        }
        if self.leaves(attempts, choice, status) {
            return Err(ExchangeError::ErrorStatus);
        }
        // An error is often fast, and a client may send a body slowly.
        if status < 500 && progress.is_none() {
            self.note_latency(choice, answered.took_us);
        }
        self.check(answered, choice, permit, progress).map_err(ExchangeError::Fault)
    }

    /// Sends the request on a pooled connection or a new one. Sends it again if the pooled
    /// connection turns out to be closed, or if the origin refuses the request unprocessed.
    async fn send_to(
        &self,
        choice: &OriginChoice<'_>,
        attempts: &Attempts,
        upload: OutboundBody,
        progress: Option<&UploadProgress>,
    ) -> Result<HeadReceived, ExchangeError> {
        let pooled = self.pooled(choice);
        let mut may_be_closed = pooled.is_some();
        let mut answered = match pooled {
            None => self.send_anew(choice, upload, progress).await,
            Some(pooled) => {
                self.worker().count(Counter::OriginReused);
                self.trace.step(|| RequestStep::Connection { is_new: false });
                self.send(choice, pooled, upload, progress).await
            }
        };
        for repeat in 0..HTTP2_REFUSALS_MAX {
            let is_free = repeat == 0;
            answered = match answered {
                Err(ExchangeError::Unsent(upload, failure))
                    if may_be_closed
                        || failure.fault == Fault::OriginAnswer(REFUSED)
                            && (is_free || !self.is_late(attempts) && self.takes_retry()) =>
                {
                    self.send_again(choice, upload, progress).await
                }
                Err(ExchangeError::Dead { is_reset, .. })
                    if may_be_closed
                        && self.outbound.message.is_repeatable()
                        && (!is_reset || self.takes_retry()) =>
                {
                    if !is_reset {
                        choice.pool.note_closed_reuse();
                    }
                    self.send_again(choice, OutboundBody::None, None).await
                }
                answered => return answered,
            };
            may_be_closed = false;
        }
        answered
    }

    /// Takes a pooled connection that can serve the request. A tunnel gets a connection of its own.
    /// So does a repeated request, unless it shares a connection: on a pooled connection that turns
    /// out dead, it would have to be repeated once more.
    fn pooled(&self, choice: &OriginChoice<'_>) -> Option<ReadyConnection> {
        if self.outbound.upgrade.is_some() {
            return None;
        }
        if self.is_shared(choice)
            && let Some(stream) = choice.pool.shared.take(self.client.ends)
        {
            return Some(ReadyConnection::Http2(stream));
        }
        let pooled = (!self.is_repeated.get()).then(|| choice.pool.take(self.client.ends));
        pooled.flatten().map(ReadyConnection::Http1)
    }

    /// Whether the request may share its connection with other requests.
    fn is_shared(&self, choice: &OriginChoice<'_>) -> bool {
        choice.address.may_use_http2() && self.outbound.upgrade.is_none() && !self.is_alone.get()
    }

    /// Records that the origin has answered.
    fn note_answered(&self, choice: &OriginChoice<'_>) {
        let is_back = choice.in_group.state.ejection.note_answered(clock::monotonic_ms());
        self.note_reached(choice, is_back);
    }

    /// Records that the head of an answer has taken this long, or that it has not arrived in this
    /// time.
    pub(super) fn note_latency(&self, choice: &OriginChoice<'_>, took_us: u64) {
        let (group, authority) = (&self.route.origins, &choice.address.authority);
        choice.in_group.note_latency(self.worker(), group, authority, took_us);
    }

    /// Records that the origin could be reached. A later error on an idle connection does not mean
    /// that the origin cannot be reached. If the route has several origins, only an answer brings
    /// an origin back.
    fn note_reached(&self, choice: &OriginChoice<'_>, is_back: bool) {
        let was_down = choice.pool.health.note_reached();
        if is_back || was_down && !self.has_others() {
            let name = choice.in_group.name(&choice.address.authority);
            self.worker().event(Event::OriginBack, &name);
        }
    }

    async fn send_again(
        &self,
        choice: &OriginChoice<'_>,
        upload: OutboundBody,
        progress: Option<&UploadProgress>,
    ) -> Result<HeadReceived, ExchangeError> {
        self.worker().count(Counter::OriginRetries);
        self.is_repeated.set(true);
        self.send_anew(choice, upload, progress).await
    }

    /// Sends the request on a new connection.
    async fn send_anew(
        &self,
        choice: &OriginChoice<'_>,
        upload: OutboundBody,
        progress: Option<&UploadProgress>,
    ) -> Result<HeadReceived, ExchangeError> {
        match self.connect(choice).await {
            Ok(fresh) => self.send(choice, fresh, upload, progress).await,
            Err(failure) => Err(ExchangeError::Unsent(upload, failure)),
        }
    }

    /// Obtains a permit. If that takes a wait, tells the leader when the wait begins and when it
    /// ends.
    pub(super) async fn permit_in_turn(&self, pool: &OriginPool) -> Result<ExchangePermit, Fault> {
        let mut permit = pin!(self.permit(pool));
        let permit = match poll_once(permit.as_mut()).await {
            Some(permit) => permit,
            None => {
                self.trace.step(|| RequestStep::Wait);
                self.leader.inspect(|leader| leader.set_waits(true));
                permit.await
            }
        };
        // The leader may already have been marked as waiting when the fetch began.
        self.leader.inspect(|leader| leader.set_waits(false));
        permit
    }

    /// Obtains a permit, in a limited time.
    pub(super) async fn permit(&self, pool: &OriginPool) -> Result<ExchangePermit, Fault> {
        let limit = Duration::from_millis(u64::from(self.route_settings().origin_connect_ms_max));
        timeout(limit, pool.permit(self.client.network)).await.map_err(|_| Fault::OriginBusy)
    }

    /// Opens a connection, and records whether that was possible.
    async fn connect(&self, choice: &OriginChoice<'_>) -> Result<ReadyConnection, ConnectFailure> {
        // The large future is boxed: most requests reuse a connection, and need no room for a
        // handshake.
        let terms =
            ConnectTerms { streams_max: choice.pool.shared.streams_max(), ..self.connect_terms() };
        let connecting = Box::pin(connect(self.worker(), choice.address, terms));
        let connected = match self.is_shared(choice) {
            true => {
                let limits = (terms.timeout_ms, choice.pool.idle_limits());
                choice.pool.shared.join(self.client.ends, limits, connecting).await
            }
            false => connecting.await,
        };
        self.note_connected(choice, &connected, false);
        connected
    }

    pub(super) fn connect_terms(&self) -> ConnectTerms<'_> {
        ConnectTerms {
            settings: self.settings(),
            timeout_ms: self.route_settings().origin_connect_ms_max,
            is_switchable: self.outbound.upgrade.is_some(),
            streams_max: 0,
            client: self.client.ends,
        }
    }

    /// Records whether a connection could be opened. `is_back` says whether this shows that an
    /// ejected origin is back.
    pub(super) fn note_connected<T>(
        &self,
        choice: &OriginChoice<'_>,
        connected: &Result<T, ConnectFailure>,
        is_back: bool,
    ) {
        match connected {
            Ok(_) => {
                self.trace.step(|| RequestStep::Connection { is_new: true });
                self.note_reached(choice, is_back);
            }
            Err(ConnectFailure { fault, .. }) if fault.is_unreachable() => {
                choice.pool.health.note_unreachable(*fault);
            }
            Err(_) => {}
        }
    }

    async fn send(
        &self,
        choice: &OriginChoice<'_>,
        connection: ReadyConnection,
        upload: OutboundBody,
        progress: Option<&UploadProgress>,
    ) -> Result<HeadReceived, ExchangeError> {
        let rule_state = self.outbound.hook.rule_state;
        rule_state.resume(self.rules_before);
        rule_state.set_outbound(connection.ends());
        let request = self.outbound.request(choice.address, upload);
        let request = request.map_err(ExchangeError::Fault)?;
        let rule_progress = rule_state.progress();
        self.worker().count(Counter::OriginRequests);
        let request_time = clock::unix_seconds();
        let began_us = clock::monotonic_us();
        let sent = async {
            match connection {
                ReadyConnection::Http1(connection) => self.send_http1(connection, request).await,
                ReadyConnection::Http2(stream) => {
                    let is_tls = choice.address.tls.is_some();
                    self.send_http2(stream, request, is_tls).await
                }
            }
        };
        let limit_ms = u64::from(self.route_settings().origin_first_byte_ms_max);
        let late = Fault::OriginFirstByteTimeout;
        let sent = wait_for_origin(sent, limit_ms, progress, late).await;
        let (response, connection) = sent.map_err(ExchangeError::Fault)??;
        let took_us = clock::monotonic_us().saturating_sub(began_us);
        self.worker().observe(Histogram::OriginFirstByte, took_us);
        let status = response.status().as_u16();
        self.trace.step(|| RequestStep::Origin { status, took_us });
        Ok(HeadReceived { response, connection, request_time, took_us, rule_progress })
    }

    async fn send_http1(
        &self,
        mut connection: Connection,
        mut request: Request<OutboundBody>,
    ) -> ExchangeResult {
        if self.outbound.is_grpc() {
            return Err(ExchangeError::Fault(GRPC_REFUSED));
        }
        forward_interim(&mut request, self.interim.clone());
        let sent = connection.sender.try_send_request(request).await;
        let response = sent.map_err(ExchangeError::of_http1)?.map(BodySource::Http1);
        Ok((response, Some(connection)))
    }

    async fn send_http2(
        &self,
        stream: StreamPlace,
        message: Request<OutboundBody>,
        is_tls: bool,
    ) -> ExchangeResult {
        let accepts_trailers = self.outbound.accepts_trailers();
        let interim = self.interim;
        let request = Http2Request { message, is_tls, accepts_trailers, interim };
        match stream.send(request).await {
            Ok(response) => Ok((response, None)),
            Err(StreamFailure::Refused(upload)) => {
                let failure = Fault::OriginAnswer(REFUSED).into();
                Err(ExchangeError::Unsent(upload, failure))
            }
            // Other requests were in progress, so the end is no sign of an idle connection that the
            // origin has closed.
            Err(StreamFailure::Dead { cause, is_connection, is_known }) => {
                self.is_alone.update(|is_alone| is_alone || is_connection);
                Err(ExchangeError::Dead { cause: Some(cause), is_reset: true, is_known })
            }
            Err(StreamFailure::Fault(fault)) => Err(ExchangeError::Fault(fault)),
        }
    }
}

/// A response and its connection, unless other requests share the connection.
type ExchangeResult = Result<(Response<BodySource>, Option<Connection>), ExchangeError>;
