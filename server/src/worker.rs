//! The state that the tasks of one worker share: settings, store, connections, counters, buffers
//! and origins.
//!
//! A worker is one thread, so its tasks share this state without locks. Only the parts that other
//! threads use too have locks: the store, the addresses of origins, the queues of purges and of log
//! lines. The settings are the worker's own copy, which is replaced between two turns of the event
//! loop.

use std::cell::{Cell, Ref, RefCell};
use std::fmt;
use std::future::Future;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;

use forebay_cache::StoreWorker;
use forebay_http::policy::reason::Reason;
use forebay_rules::apply::RuleScratch;
use forebay_shm::CounterSlot;
use http::HeaderValue;
use tokio::sync::{Notify, Semaphore};

use crate::accept::{ClientNetwork, Registry};
use crate::acme::Challenges;
use crate::buffers::BufferPool;
use crate::clock;
use crate::config::Config;
use crate::counters::{Counter, Histogram, index_of_reason};
use crate::events::{Event, EventBudget};
use crate::fault::{Fault, Side};
use crate::fetch::{AbandonedFetches, Hosts, Origins, TunnelRoom, UploadRoom};
use crate::http2::TurnMemory;
use crate::key::DamagedKey;
use crate::limits::{DRAIN_IDLE_MS, RESOLUTIONS_MAX, UPLOAD_ROOM_BYTES};
use crate::log::{LogOwner, LogSender, LogSenders};
use crate::login::Logins;
use crate::output_budget::OutputBudget;
use crate::purger::Purger;
use crate::rate_limits::RateLimiter;
use crate::site_counts::SiteCounts;
use crate::store::CompressionRoom;
use crate::trace::WorkerTracers;
use crate::transport::Connector;
use crate::transport::tls::WorkerTls;
use crate::watched_task::WatchedTask;

/// One worker's state.
pub(crate) struct Worker {
    config: RefCell<Rc<Config>>,
    pub(crate) store: StoreWorker,
    /// Whether requests are answered from the store; see [`Worker::use_store`].
    store_is_used: Cell<bool>,
    /// Notified when the store has to make room soon; see [`Worker::make_room`].
    store_is_due: Notify,
    /// Queues purges that would take longer than one turn of the event loop should take.
    pub(crate) purger: Purger,
    pub(crate) registry: Rc<Registry>,
    pub(crate) buffers: BufferPool,
    /// Buffers that the HTTP/2 connections use in turn.
    pub(crate) http2_memory: RefCell<TurnMemory>,
    pub(crate) origins: Origins,
    /// Opens connections to origins.
    pub(crate) connector: Box<dyn Connector>,
    /// The TLS connections of clients.
    pub(crate) tls: Rc<WorkerTls>,
    pub(crate) hosts: Arc<Hosts>,
    /// The counts of the rate limits, which all workers share.
    pub(crate) limiter: Arc<RateLimiter>,
    /// The second in which this worker last logged that a rate limit is reached.
    rate_limited_s: Cell<u64>,
    concurrency_limited_s: Cell<u64>,
    /// The permits for resolving names: one for each name that is being resolved.
    pub(crate) resolutions: Arc<Semaphore>,
    /// Room for the first parts of request bodies.
    pub(crate) upload_room: Rc<UploadRoom>,
    pub(crate) tunnels: TunnelRoom,
    /// Room for bodies that are being compressed.
    pub(crate) compressions: CompressionRoom,
    /// Room for bodies that are being decompressed.
    pub(crate) decompressions: CompressionRoom,
    pub(crate) logins: Logins,
    /// The output that waits for clients: send queues, and the responses of HTTP/2 streams.
    pub(crate) output: Rc<OutputBudget>,
    /// Fetches whose clients have all left.
    pub(crate) abandoned: AbandonedFetches,
    /// The client networks of the fetches that validate stale responses in the background.
    pub(crate) background_fetches: RefCell<Vec<ClientNetwork>>,
    counters: CounterSlot,
    pub(crate) site_counts: SiteCounts,
    /// The remainder of each histogram's sum, in thousandths of its unit.
    histogram_rests: [Cell<u64>; Histogram::COUNT],
    events: EventBudget,
    access_logs: RefCell<LogSenders>,
    pub(crate) tracers: WorkerTracers,
    /// Whether `challenges` has answers for requests. Every request reads only this flag.
    pub(crate) has_challenges: Cell<bool>,
    challenges: RefCell<Arc<Challenges>>,
    /// Buffers of the header rules.
    pub(crate) rule_scratch: RefCell<RuleScratch>,
    /// The UUID of the process.
    pub(crate) process_id: Arc<str>,
    randomness: Cell<u64>,
    request_number: Cell<u64>,
    /// This server's name in `Via`, by which it recognises requests that loop back to it.
    pub(crate) via: Arc<str>,
    /// The value of `Via` in requests to origins, for requests that clients sent over HTTP/1.1.
    pub(crate) via_line: HeaderValue,
    /// The value of `Via` in requests to origins, for requests that clients sent over HTTP/2.
    pub(crate) via_line_http2: HeaderValue,
    /// The time at which the drain began, in monotonic milliseconds.
    draining_since_ms: Cell<Option<u64>>,
    /// Whether another process now accepts connections from this worker's listening sockets.
    queues_are_passed_on: Cell<bool>,
    /// Wakes the accept loop, which otherwise wakes only for the next connection.
    accept_waker: RefCell<Option<Waker>>,
}

/// Everything from which a worker is made.
pub(crate) struct WorkerParts {
    pub(crate) config: Config,
    pub(crate) store: StoreWorker,
    pub(crate) purger: Purger,
    pub(crate) hosts: Arc<Hosts>,
    pub(crate) limiter: Arc<RateLimiter>,
    pub(crate) connector: Box<dyn Connector>,
    pub(crate) tls: Rc<WorkerTls>,
    pub(crate) counters: CounterSlot,
    pub(crate) access_logs: LogSenders,
    pub(crate) process_id: Arc<str>,
    /// The worker's number, from 0.
    pub(crate) index: usize,
    pub(crate) via: Arc<str>,
}

/// Returns the value of `Via` for requests that were received with this version of HTTP (RFC 9110
/// §7.6.3).
fn via_line(version: &str, name: &str) -> HeaderValue {
    // The name consists of letters, digits and dashes.
    HeaderValue::from_str(&format!("{version} {name}"))
        .unwrap_or(HeaderValue::from_static("1.1 forebay"))
}

impl Worker {
    pub(crate) fn new(mut parts: WorkerParts) -> Worker {
        let site_counts = SiteCounts::new();
        site_counts.assign(&mut parts.config.sites, None);
        let output = OutputBudget::new(parts.config.server.output_bytes_max);
        Worker {
            config: RefCell::new(Rc::new(parts.config)),
            store: parts.store,
            store_is_used: Cell::new(true),
            store_is_due: Notify::new(),
            purger: parts.purger,
            registry: Rc::default(),
            buffers: BufferPool::default(),
            http2_memory: RefCell::default(),
            origins: Origins::default(),
            connector: parts.connector,
            tls: parts.tls,
            hosts: parts.hosts,
            limiter: parts.limiter,
            rate_limited_s: Cell::new(0),
            concurrency_limited_s: Cell::new(0),
            resolutions: Arc::new(Semaphore::new(RESOLUTIONS_MAX)),
            upload_room: UploadRoom::new(UPLOAD_ROOM_BYTES),
            tunnels: TunnelRoom::default(),
            compressions: CompressionRoom::default(),
            decompressions: CompressionRoom::default(),
            logins: Logins::default(),
            output: Rc::new(output),
            abandoned: AbandonedFetches::default(),
            background_fetches: RefCell::default(),
            counters: parts.counters,
            site_counts,
            histogram_rests: Default::default(),
            events: EventBudget::default(),
            access_logs: RefCell::new(parts.access_logs),
            tracers: WorkerTracers::default(),
            has_challenges: Cell::new(false),
            challenges: RefCell::default(),
            rule_scratch: RefCell::default(),
            process_id: parts.process_id,
            randomness: Cell::new(RandomState::new().build_hasher().finish()),
            // The numbers of each worker come from a separate range.
            request_number: Cell::new((parts.index as u64) << 48),
            via_line: via_line("1.1", &parts.via),
            via_line_http2: via_line("2.0", &parts.via),
            via: parts.via,
            draining_since_ms: Cell::new(None),
            queues_are_passed_on: Cell::new(false),
            accept_waker: RefCell::new(None),
        }
    }

    /// Returns the current settings. A request keeps the settings that it began with.
    pub(crate) fn config(&self) -> Rc<Config> {
        Rc::clone(&self.config.borrow())
    }

    /// Replaces the settings, if there are new ones, for every request that begins from now on.
    /// Also replaces the access logs, if there are new ones; they must be those of the settings.
    pub(crate) fn apply_settings(
        &self,
        config: Option<Box<Config>>,
        keeps_rule_counts: bool,
        access_logs: Option<LogSenders>,
    ) {
        if let Some(mut config) = config {
            if keeps_rule_counts {
                // Requests in progress count in the old copy, which is lost.
                config.rule_counters.copy_from(&self.config().rule_counters);
            }
            self.origins.retain(&config);
            self.site_counts.assign(&mut config.sites, Some(&self.config()));
            self.output.limit_to(config.server.output_bytes_max);
            *self.config.borrow_mut() = Rc::new(*config);
        }
        if let Some(access_logs) = access_logs {
            *self.access_logs.borrow_mut() = access_logs;
        }
    }

    /// Replaces the answers to challenges of certificate authorities.
    pub(crate) fn take_challenges(&self, challenges: Arc<Challenges>) {
        self.has_challenges.set(challenges.has_http());
        *self.challenges.borrow_mut() = challenges;
    }

    /// Returns the content that answers a challenge of a certificate authority at this host and
    /// path; `None` if it is no challenge of the order in progress.
    pub(crate) fn challenge_content(&self, host: &[u8], path_query: &[u8]) -> Option<Box<str>> {
        self.challenges.borrow().http_content(host, path_query).map(Into::into)
    }

    /// Returns the access logs of the current settings.
    pub(crate) fn access_logs(&self) -> Ref<'_, LogSenders> {
        self.access_logs.borrow()
    }

    /// Calls `write` with the access log of a request, unless it is off. If the settings have been
    /// replaced since the request began, this is the log that its site has now, or the log of the
    /// server if the site is gone.
    pub(crate) fn with_access_log(&self, owner: LogOwner<'_>, write: impl FnOnce(&LogSender)) {
        let config = self.config.borrow();
        let site = match Rc::ptr_eq(&config, owner.config) {
            true => owner.site,
            false => owner.site.and_then(|site| config.sites.same_site(site)),
        };
        let number = site.map_or_else(|| config.access_logs.server(), |site| site.log);
        let logs = self.access_logs.borrow();
        if let Some(log) = number.and_then(|number| logs.log(number)) {
            write(log);
        }
    }

    /// Returns a random number for rules. It is predictable, so it must not serve as a secret.
    pub(crate) fn random(&self) -> u64 {
        // SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
        let state = self.randomness.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.randomness.set(state);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns the number that the next request will get.
    pub(crate) fn next_request_number(&self) -> u64 {
        self.request_number.get() + 1
    }

    /// Returns the unique ID of the request with this number.
    pub(crate) fn request_id(&self, number: u64) -> String {
        format!("{}-{number:x}", self.process_id)
    }

    /// Takes the next request number, which is unique in this process.
    pub(crate) fn request_number(&self) -> u64 {
        self.request_number.update(|number| number + 1);
        self.request_number.get()
    }

    /// Sets whether requests are answered from the store from now on. The store is not used while
    /// another process serves from its own store, because purges reach only that other store.
    pub(crate) fn use_store(&self, is_used: bool) {
        self.store_is_used.set(is_used);
    }

    /// Whether requests are answered from the store.
    pub(crate) fn store_is_used(&self) -> bool {
        self.store_is_used.get()
    }

    /// Records that a response was stored. If the store's reserve of free memory is used up, this
    /// wakes [`Worker::make_room`].
    pub(crate) fn notify_stored(&self) {
        if self.store.is_due() {
            self.store_is_due.notify_one();
        }
    }

    /// Runs one slice of the store's maintenance, which may end connections whose bytes the store
    /// revokes, and logs damaged records. Returns whether there is more to do.
    pub(crate) fn turn_store(&self) -> bool {
        let goes_on =
            self.store.turn(clock::unix_seconds(), |connection| self.registry.cut(connection));
        self.store.report_damaged(|key| self.event(Event::RecordDamaged, &DamagedKey(key)));
        goes_on
    }

    /// Makes room in the store whenever it is due, in slices, so that no request waits for long.
    pub(crate) async fn make_room(self: Rc<Self>) {
        loop {
            while self.turn_store() {
                tokio::task::yield_now().await;
            }
            self.store_is_due.notified().await;
        }
    }

    /// Adds 1 to a counter.
    pub(crate) fn count(&self, counter: Counter) {
        self.counters.add(counter.index(), 1);
    }

    /// Counts a response with this reason.
    pub(crate) fn count_reason(&self, reason: Reason) {
        self.counters.add(index_of_reason(reason), 1);
    }

    /// Adds `amount` to a counter.
    pub(crate) fn count_many(&self, counter: Counter, amount: u64) {
        self.counters.add(counter.index(), amount);
    }

    /// Adds a duration to a histogram, in thousandths of the histogram's unit.
    pub(crate) fn observe(&self, histogram: Histogram, thousandths: u64) {
        // The value is rounded up, so that it is above a bound if and only if the duration is. The
        // remainder is kept, so that the sum is exact: most exchanges with a near origin take less
        // than a millisecond.
        let rest = &self.histogram_rests[histogram as usize];
        let sum = rest.get() + thousandths;
        rest.set(sum % 1000);
        let (first, bounds) = (histogram.first_word(), histogram.bounds());
        self.counters.observe(first, bounds, thousandths.div_ceil(1000), sum / 1000);
    }

    /// Shows how many bytes of output wait for clients.
    pub(crate) fn show_waiting_output(&self) {
        self.gauge(Counter::OutputWaiting, self.output.bytes() as u64);
    }

    /// Sets a gauge.
    pub(crate) fn gauge(&self, counter: Counter, value: u64) {
        self.counters.set(counter.index(), value);
    }

    /// Logs an event, unless too many have been logged in this second.
    pub(crate) fn event(&self, event: Event, detail: &dyn fmt::Display) {
        if event.is_wanted() && self.events.take() {
            event.log(detail);
        }
    }

    /// Runs a task of this worker; counts and logs a panic in it.
    pub(crate) fn spawn(
        self: &Rc<Self>,
        task: impl Future<Output = ()> + 'static,
    ) -> tokio::task::JoinHandle<()> {
        tokio::task::spawn_local(WatchedTask::new(self, task))
    }

    /// Counts a fault of the client's side or of our own that ends a request, and logs a fault of
    /// the client's side unless the client is gone. Ignores a fault of the origin's side:
    /// [`Worker::origin_fault`] reports it once, although many clients may share it.
    pub(crate) fn fault(&self, fault: Fault, client: IpAddr) {
        if fault.side() == Side::Origin {
            return;
        }
        if let Some(counter) = fault.counter() {
            self.count(counter);
        }
        let limited = match fault {
            Fault::RateLimited { .. } => Some((Event::RateLimited, &self.rate_limited_s)),
            Fault::ConcurrencyLimited { .. } => {
                Some((Event::ConcurrencyLimited, &self.concurrency_limited_s))
            }
            _ => None,
        };
        if let Some((event, last_s)) = limited {
            // Once a second: a client that does not slow down must not fill the log.
            let now_s = clock::monotonic_ms() / 1000;
            if last_s.replace(now_s) != now_s {
                self.event(event, &client);
            }
        } else if fault.side() == Side::Client && fault != Fault::ClientGone {
            self.event(Event::RequestRefused, &format_args!("{client}: {}", fault.reason()));
        }
    }

    /// Counts and logs a fault of the origin's side, once for each exchange. `cause` contains the
    /// origin's address and the system's error.
    pub(crate) fn origin_fault(&self, fault: Fault, origin: &str, cause: Option<&str>) {
        if let Some(counter) = fault.counter() {
            self.count(counter);
        }
        if let Some(event) = fault.event() {
            let (reason, cause) = (fault.reason(), cause.map(|cause| format!(" ({cause})")));
            self.event(event, &format_args!("{origin}: {reason}{}", cause.unwrap_or_default()));
        }
    }

    /// Begins the drain: each connection ends with its next response, or soon if it stays idle.
    /// Connections in the accept queues are accepted too, unless another process accepts them. Idle
    /// connections to origins are closed, and tunnels get `tunnel_drain_ms_max` to end.
    pub(crate) fn drain(&self, queues_are_passed_on: bool) {
        self.queues_are_passed_on.set(queues_are_passed_on);
        self.draining_since_ms.set(Some(clock::monotonic_ms()));
        if let Some(waker) = self.accept_waker.take() {
            waker.wake();
        }
        self.origins.close_idle();
        self.tunnels.drained.notify_waiters();
    }

    /// Registers the waker of the accept loop, so that the drain can wake it.
    pub(crate) fn set_accept_waker(&self, waker: &Waker) {
        let mut kept = self.accept_waker.borrow_mut();
        match &*kept {
            Some(kept) if kept.will_wake(waker) => {}
            _ => *kept = Some(waker.clone()),
        }
    }

    /// Whether the drain has begun.
    pub(crate) fn draining(&self) -> bool {
        self.draining_since_ms.get().is_some()
    }

    /// Whether another process now accepts the connections in the accept queues.
    pub(crate) fn queues_are_passed_on(&self) -> bool {
        self.queues_are_passed_on.get()
    }

    /// Whether the drain began so long ago that idle connections are closed.
    pub(crate) fn drained_idle(&self) -> bool {
        let since_ms = self.draining_since_ms.get();
        since_ms.is_some_and(|since_ms| clock::monotonic_ms() - since_ms >= DRAIN_IDLE_MS)
    }
}
