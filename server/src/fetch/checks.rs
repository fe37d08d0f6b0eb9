//! Active health checks: each worker periodically sends a request to every origin of a group. An
//! origin whose checks fail is ejected, as it is after failed requests.

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http::header::{HOST, USER_AGENT};
use http::{HeaderValue, Method, Request};
use tokio::time::timeout;

use super::connect::{ConnectTerms, ReadyConnection, connect};
use super::http2::{Http2Request, REFUSED, StreamFailure};
use super::upload::OutboundBody;
use crate::clock;
use crate::config::{Config, HealthCheck, OriginAddress, OriginGroup};
use crate::counters::Counter;
use crate::events::Event;
use crate::fault::Fault;
use crate::interim::InterimQueue;
use crate::limits::HEALTH_CHECKS_MAX;
use crate::worker::Worker;

/// Starts the checks that are due. If too many checks are in progress, the checks of a group start
/// later; the next call begins with the first group that had to wait, so that each has its turn.
pub(crate) fn start_due_checks(worker: &Rc<Worker>) {
    if worker.draining() {
        return;
    }
    let config = worker.config();
    let now_ms = clock::monotonic_ms();
    let groups = || config.sites.origin_groups().enumerate();
    let first = worker.origins.first_check.replace(0);
    for (index, of) in groups().skip(first).chain(groups().take(first)) {
        let Some(check) = &of.group.health else { continue };
        let state = worker.origins.group(of.group);
        let count = of.group.members().len();
        if now_ms < state.check_due_ms.get() {
            continue;
        }
        if worker.origins.check_count.get() + count > HEALTH_CHECKS_MAX {
            worker.origins.first_check.set(index);
            return;
        }
        state.check_due_ms.set(now_ms + check.interval_ms);
        let route = of.route.unwrap_or_else(|| of.site.route(check.path.as_bytes()));
        let connect_ms_max = route.settings.origin_connect_ms_max;
        for index in 0..count {
            worker.origins.check_count.update(|count| count + 1);
            let (worker, config) = (Rc::clone(worker), Rc::clone(&config));
            let group = Arc::clone(of.group);
            let run = CheckRun { worker: Rc::clone(&worker), config, group, connect_ms_max };
            worker.spawn(async move { run.check(index).await });
        }
    }
}

/// A check in progress, which is counted in `Origins::check_count` until it is dropped.
struct CheckRun {
    worker: Rc<Worker>,
    config: Rc<Config>,
    group: Arc<OriginGroup>,
    connect_ms_max: u32,
}

impl Drop for CheckRun {
    fn drop(&mut self) {
        self.worker.origins.check_count.update(|count| count - 1);
    }
}

/// The reason why a check failed.
enum CheckFailure {
    Fault(Fault, Option<String>),
    Status { found: u16, wanted: u16 },
    Late { timeout_ms: u64 },
}

impl fmt::Display for CheckFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CheckFailure::Fault(fault, Some(cause)) => write!(f, "{} ({cause})", fault.reason()),
            CheckFailure::Fault(fault, None) => f.write_str(fault.reason()),
            CheckFailure::Status { found, wanted } => {
                write!(f, "the health check got status {found} instead of {wanted}")
            }
            CheckFailure::Late { timeout_ms } => {
                write!(f, "the health check got no answer in {timeout_ms} ms")
            }
        }
    }
}

impl CheckRun {
    async fn check(&self, index: usize) {
        let Some(check) = &self.group.health else { return };
        let Some(member) = self.group.members().get(index) else { return };
        let limit = Duration::from_millis(check.timeout_ms);
        let asked = timeout(limit, self.ask(&member.address, check)).await;
        let late = |_| Err(CheckFailure::Late { timeout_ms: check.timeout_ms });
        self.worker.count(Counter::OriginChecks);
        match asked.unwrap_or_else(late) {
            Ok(()) => self.note_well(&member.address),
            Err(failure) => self.note_failed(&member.address, check, &failure),
        }
    }

    /// Sends the request of the check on a new connection, and compares the status of the response
    /// with the configured status.
    async fn ask(&self, origin: &OriginAddress, check: &HealthCheck) -> Result<(), CheckFailure> {
        let terms = ConnectTerms {
            settings: &self.config.server,
            timeout_ms: self.connect_ms_max,
            is_switchable: false,
            streams_max: 1,
            client: None,
        };
        let connected = connect(&self.worker, origin, terms).await;
        let connection =
            connected.map_err(|failure| CheckFailure::Fault(failure.fault, failure.cause))?;
        let internal = CheckFailure::Fault(Fault::Internal, None);
        let mut request = Request::new(OutboundBody::None);
        *request.method_mut() = Method::GET;
        let Ok(target) = check.path.parse() else { return Err(internal) };
        let Ok(host) = HeaderValue::from_str(origin.own_host()) else { return Err(internal) };
        *request.uri_mut() = target;
        request.headers_mut().insert(HOST, host);
        request.headers_mut().insert(USER_AGENT, HeaderValue::from_static("forebay-health-check"));
        match status_of(connection, request, origin.tls.is_some()).await? {
            found if found == check.status => Ok(()),
            found => Err(CheckFailure::Status { found, wanted: check.status }),
        }
    }

    fn note_well(&self, origin: &OriginAddress) {
        let health = &self.worker.origins.pool(origin, &self.config.server).health;
        let member = self.worker.origins.group(&self.group).member(origin);
        let was_out = member.ejection.note_check_passed(clock::monotonic_ms());
        let was_down = health.note_reached();
        // One of several origins is back when it is no longer left out.
        if was_out || was_down && self.group.members().len() < 2 {
            let group = self.worker.origins.group(&self.group);
            self.worker.event(Event::OriginBack, &group.name_of(&origin.authority));
        }
    }

    fn note_failed(&self, origin: &OriginAddress, check: &HealthCheck, failure: &CheckFailure) {
        self.worker.count(Counter::OriginChecksFailed);
        let health = &self.worker.origins.pool(origin, &self.config.server).health;
        let unreachable = match failure {
            CheckFailure::Fault(fault, _) if fault.is_unreachable() => Some(*fault),
            _ => None,
        };
        unreachable.inspect(|fault| health.note_unreachable(*fault));
        if self.group.members().len() < 2 {
            return;
        }
        let (now_ms, out_ms) = (clock::monotonic_ms(), check.interval_ms + check.timeout_ms);
        let member = self.worker.origins.group(&self.group).member(origin);
        // One second is added, because due checks are started only once a second.
        let is_new =
            member.ejection.note_check_failed(now_ms, unreachable.is_some(), out_ms + 1000);
        if is_new {
            self.worker.count(Counter::OriginEjections);
            member.counts.note_ejected();
            member.latency.clear();
            let group = self.worker.origins.group(&self.group);
            let name = group.name_of(&origin.authority);
            let detail =
                format_args!("{name}: {failure}; the origin gets no requests until a check passes");
            self.worker.event(Event::OriginDown, &detail);
        }
    }
}

/// Sends the request of a check, and returns the status of the response.
async fn status_of(
    connection: ReadyConnection,
    message: Request<OutboundBody>,
    is_tls: bool,
) -> Result<u16, CheckFailure> {
    let failed = |fault, cause| CheckFailure::Fault(fault, cause);
    match connection {
        ReadyConnection::Http1(mut connection) => {
            let answered = connection.sender.try_send_request(message).await;
            let response = answered.map_err(|_| failed(Fault::OriginBroke, None))?;
            Ok(response.status().as_u16())
        }
        ReadyConnection::Http2(stream) => {
            let interim = &InterimQueue::new();
            let request = Http2Request { message, is_tls, accepts_trailers: false, interim };
            match stream.send(request).await {
                Ok(response) => Ok(response.status().as_u16()),
                Err(StreamFailure::Refused(_)) => Err(failed(Fault::OriginAnswer(REFUSED), None)),
                Err(StreamFailure::Dead { cause, .. }) => {
                    Err(failed(Fault::OriginBroke, Some(cause)))
                }
                Err(StreamFailure::Fault(fault)) => Err(failed(fault, None)),
            }
        }
    }
}
