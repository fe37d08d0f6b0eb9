//! A run of the simulation: its clock, its acts and its end.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::rc::Rc;
use std::sync::LazyLock;
use std::time::Duration;

use tokio::task::LocalSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::attacked::AttackedLog;
use super::blame::{BlameLog, ECHO_MS, FailedRequest};
use super::flaps::ReceiptLog;
use super::guarded::GuardedSites;
use super::ideal::IdealCache;
use super::missed::{FetchStart, MissedCounts, StoreLedger};
use super::paths::{PURGED_WHILE_FILLING, PathCounts, RunPaths};
use super::rng::Rng;
use super::scenario::{Act, ActKind, Scenario};
use super::server::SimServer;
use super::wire::{PendingConnections, WireEnd};
use super::world::SiteHistory;
use super::{attack, client, guarded, http2_client, origin};
use crate::clock::simulated::{VirtualClocks, step_unix_ms};
use crate::secret::simulated::FixedNumbers;

/// Whether `FOREBAY_TRACE` asks for the events of the runs.
static IS_TRACED: LazyLock<bool> = LazyLock::new(|| std::env::var_os("FOREBAY_TRACE").is_some());

/// The most bytes of an event that are printed: usually its head.
const TRACED_BYTES_MAX: usize = 600;

/// The time of day at which every run begins, in seconds since 1970.
const UNIX_SECONDS: u64 = 1_800_000_000;

/// The time within which the server must come to rest, after the last act and the last client.
const REST_MS: u64 = 20_000;

/// The longest time from the first byte of a request to the last byte of its response, if the
/// client reads without pauses.
pub(super) const REQUEST_MS_MAX: u64 = 40_000;

/// The longest virtual time of a run.
const RUN_MS_MAX: u64 = 600_000;

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    /// The first promise that was broken.
    pub(super) failure: Option<String>,
    /// A hash of all events and bytes that the run traced, with their times.
    pub(super) trace: u64,
    pub(super) answered: u64,
    /// The number of error responses of the server or of the origin, plus the number of connections
    /// without a response.
    pub(super) failed: u64,
    pub(super) paths: PathCounts,
    /// The number of GET and HEAD requests of well-behaved clients that got a response.
    pub(super) requested: u64,
    /// How many of these requests a stored response could have answered, by reason.
    pub(super) missed: MissedCounts,
}

/// The state that all parts of a run share.
pub(super) struct Run {
    pub(super) scenario: Scenario,
    pub(super) world: RefCell<SiteHistory>,
    began: Instant,
    failure: RefCell<Option<String>>,
    trace: Cell<u64>,
    answered: Cell<u64>,
    failed: Cell<u64>,
    pub(super) blame: BlameLog,
    /// The number of retries that the server has refused, and the time of the last one.
    retries_refused: Cell<Option<(u64, u64)>>,
    /// The URLs of the responses that the origin is sending.
    pub(super) arriving: RefCell<Vec<usize>>,
    pub(super) paths: RunPaths,
    pub(super) attacked: AttackedLog,
    pub(super) receipts: ReceiptLog,
    pub(super) guarded: GuardedSites,
    /// The interim responses with a link that the origin has sent: for each, its URL and its time.
    pub(super) origin_hints: RefCell<Vec<(usize, u64)>>,
    /// Reads the value that [`Run::pressure`] returns.
    pub(super) read_pressure: OnceCell<Box<dyn Fn() -> u64>>,
    /// Reads the value that [`Run::ledger`] returns.
    pub(super) read_ledger: OnceCell<Box<dyn Fn() -> StoreLedger>>,
    pub(super) ideal: IdealCache,
    /// The number of GET and HEAD requests of well-behaved clients that got a response.
    pub(super) requested: Cell<u64>,
    /// How many of these requests a stored response could have answered, by reason.
    pub(super) missed: RefCell<MissedCounts>,
    /// For each exchange whose response reached a client, the reason why the response was not
    /// stored; an empty text if it was stored.
    pub(super) exchanges: RefCell<BTreeMap<u64, String>>,
    origin_requests: Cell<u64>,
    pub(super) queues: Vec<PendingConnections>,
}

impl Run {
    pub(super) fn now_ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    /// Whether a disturbance may have made a request for this URL fail.
    pub(super) fn may_have_failed(&self, url: usize, began_ms: u64) -> bool {
        let is_attacked = |act: &Act| {
            let during = act.at_ms..act.at_ms + 2 * attack::ATTACK_MS;
            matches!(act.kind, ActKind::Attack { .. }) && during.contains(&began_ms)
        };
        let failed =
            FailedRequest { url, worker: usize::MAX, is_unsafe: false, has_begun: false, began_ms };
        // Attacks take connections to the origin away from other clients, but only for a while.
        self.blame.excuses(&failed)
            || self.was_retry_refused(began_ms)
            || self.scenario.acts.iter().any(is_attacked)
    }

    /// Whether faults may have made the server consider even the origin that never fails to be
    /// down.
    pub(super) fn has_ejections(&self) -> bool {
        let has_faults = self.scenario.origin_fault_percent > 0;
        self.scenario.origins.count() > 1 && has_faults && self.ledger().ejections > 0
    }

    /// Records a broken promise. Only the first failure of a run is kept.
    pub(super) fn fail(&self, why: String) {
        let at_ms = self.now_ms();
        self.failure.borrow_mut().get_or_insert_with(|| format!("at {at_ms} ms: {why}"));
    }

    /// Records a failure: a request that got an error or no whole response. `failed` lists the
    /// requests that may be to blame. The run fails unless a disturbance excuses one of them.
    pub(super) fn blame(&self, failed: impl IntoIterator<Item = FailedRequest>, why: &str) {
        self.failed.update(|count| count + 1);
        let failed: Vec<FailedRequest> = failed.into_iter().collect();
        let is_excused =
            failed.iter().any(|failed| self.blame.excuses(failed) || self.was_crowded_out(failed));
        let mut failed_times = failed.iter().map(|failed| failed.began_ms);
        if !is_excused && !failed_times.any(|began_ms| self.was_retry_refused(began_ms)) {
            self.fail(format!("{why}, and no disturbance excuses it: {:?}", failed.first()));
        }
    }

    /// Whether a connection may have been refused because of an attack. While a worker accepts no
    /// connections, those of the attackers wait too; then all are accepted at once, and may be more
    /// than a worker may have.
    fn was_crowded_out(&self, failed: &FailedRequest) -> bool {
        let lasted = |act: &Act| match act.kind {
            ActKind::Exhaust { worker, ms } if worker == failed.worker => {
                Some(act.at_ms..=act.at_ms + ms)
            }
            _ => None,
        };
        let has_attack = |during: &RangeInclusive<u64>| {
            let is_during = |act: &Act| match act.kind {
                ActKind::Attack { worker, .. } if worker == failed.worker => {
                    act.at_ms <= *during.end() && act.at_ms + attack::ATTACK_MS >= *during.start()
                }
                _ => false,
            };
            self.scenario.acts.iter().any(is_during)
        };
        let mut exhausted = self.scenario.acts.iter().filter_map(lasted);
        !failed.has_begun
            && self.ledger().crowded_out > 0
            && exhausted.any(|during| during.contains(&failed.began_ms) && has_attack(&during))
    }

    /// Returns how often the server has taken memory or an origin connection away from a client.
    pub(super) fn pressure(&self) -> u64 {
        self.read_pressure.get().map_or(0, |read| read())
    }

    /// Records whether the server has refused a retry since the last call.
    pub(super) fn watch_retries(&self) {
        let count = self.ledger().retries_refused;
        if self.retries_refused.get().is_none_or(|(known, _)| known < count) && count > 0 {
            self.retries_refused.set(Some((count, self.now_ms())));
        }
    }

    /// Whether the server refused a retry during a request or shortly before it.
    fn was_retry_refused(&self, began_ms: u64) -> bool {
        self.watch_retries();
        self.retries_refused.get().is_some_and(|(_, at_ms)| at_ms + ECHO_MS >= began_ms)
    }

    /// Returns the counts of the server's store and fetches.
    pub(super) fn ledger(&self) -> StoreLedger {
        self.read_ledger.get().map_or(StoreLedger::default(), |read| read())
    }

    /// Returns the time and the counts at the beginning of an exchange with the origin that starts
    /// now.
    pub(super) fn fetch_start(&self) -> FetchStart {
        FetchStart { at: Instant::now(), ledger: self.ledger() }
    }

    /// Returns the instant that lies `ms` milliseconds after the start of the run.
    pub(super) fn at(&self, ms: u64) -> Instant {
        self.began + Duration::from_millis(ms)
    }

    /// Records that a purge or an unsafe request was acknowledged: from now on, each URL may be
    /// served only in the given version or a later one.
    pub(super) fn promise_all(
        &self,
        versions: impl IntoIterator<Item = (usize, usize)>,
        is_soft: bool,
    ) {
        let mut world = self.world.borrow_mut();
        for (url, version) in versions {
            world.promise(url, version, is_soft);
            if self.arriving.borrow().contains(&url) {
                self.paths.count(PURGED_WHILE_FILLING);
            }
        }
    }

    /// Adds an event and its time to the hash, which must be the same whenever the seed is played.
    /// If `FOREBAY_TRACE` is set, also prints the event.
    pub(super) fn trace(&self, what: &str, bytes: &[u8]) {
        if *IS_TRACED {
            let shown = &bytes[..bytes.len().min(TRACED_BYTES_MAX)];
            eprintln!("{} ms: {what} {:?}", self.now_ms(), String::from_utf8_lossy(shown));
        }
        let mix =
            |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x0100_0000_01b3).rotate_left(29);
        let fold = |hash: u64, part: &[u8]| {
            let (words, rest) = part.as_chunks();
            let hash = words.iter().fold(hash, |hash, word| mix(hash, u64::from_le_bytes(*word)));
            rest.iter().fold(mix(hash, part.len() as u64), |hash, byte| mix(hash, u64::from(*byte)))
        };
        let parts = [what.as_bytes(), &self.now_ms().to_le_bytes(), bytes];
        self.trace.set(parts.into_iter().fold(self.trace.get(), fold));
    }

    pub(super) fn answered(&self) {
        self.answered.update(|count| count + 1);
    }

    fn outcome(&self, paths: PathCounts) -> Outcome {
        let (answered, failed) = (self.answered.get(), self.failed.get());
        let failure = self.failure.borrow().clone();
        let (requested, missed) = (self.requested.get(), self.missed.borrow().clone());
        Outcome { failure, trace: self.trace.get(), answered, failed, paths, requested, missed }
    }

    /// Opens a client's connection to a worker.
    pub(super) fn connect(&self, worker: usize, from: SocketAddr, number: u64) -> WireEnd {
        self.queues[worker].connect(from, Rng::of(&[self.scenario.seed, 1, number]))
    }

    /// Returns the random numbers for the origin's next response, which differ with each call, and
    /// the percentage of responses that have a fault.
    pub(super) fn origin_request(&self) -> (Rng, u64) {
        let number = self.origin_requests.get();
        self.origin_requests.set(number + 1);
        let rng = Rng::of(&[self.scenario.seed, 2, number]);
        (rng, self.scenario.origin_fault_percent)
    }
}

/// Plays a scenario to its end, in virtual time.
pub(super) fn play(scenario: &Scenario) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("an event loop");
    let tasks = LocalSet::new();
    let outcome = tasks.block_on(&runtime, async {
        let _clocks = VirtualClocks::start(UNIX_SECONDS);
        let _numbers = FixedNumbers::start(scenario.seed);
        let run = new_run(scenario);
        let outcome = timeout(Duration::from_millis(RUN_MS_MAX), play_acts(&run)).await;
        outcome.unwrap_or_else(|_| {
            run.fail("the run does not end".into());
            run.outcome(run.paths.counts())
        })
    });
    drop(tasks);
    outcome
}

fn new_run(scenario: &Scenario) -> Rc<Run> {
    Rc::new(Run {
        scenario: scenario.clone(),
        world: RefCell::default(),
        began: Instant::now(),
        failure: RefCell::default(),
        trace: Cell::new(0xcbf2_9ce4_8422_2325),
        answered: Cell::new(0),
        failed: Cell::new(0),
        blame: BlameLog::default(),
        retries_refused: Cell::default(),
        arriving: RefCell::default(),
        paths: RunPaths::default(),
        attacked: AttackedLog::default(),
        receipts: ReceiptLog::default(),
        guarded: GuardedSites::new(scenario.seed),
        origin_hints: RefCell::default(),
        read_pressure: OnceCell::new(),
        read_ledger: OnceCell::new(),
        ideal: IdealCache::default(),
        requested: Cell::new(0),
        missed: RefCell::default(),
        exchanges: RefCell::default(),
        origin_requests: Cell::new(0),
        queues: (0..scenario.worker_count).map(|_| PendingConnections::default()).collect(),
    })
}

async fn play_acts(run: &Rc<Run>) -> Outcome {
    let origin_queue = PendingConnections::default();
    let origin = tokio::task::spawn_local(origin::serve(Rc::clone(run), origin_queue.clone()));
    let mut server = SimServer::start(run, origin_queue);
    let mut clients = Vec::new();
    for act in &run.scenario.acts {
        sleep_until(run.at(act.at_ms)).await;
        match &act.kind {
            ActKind::Change { url } => _ = run.world.borrow_mut().change(*url, run.now_ms()),
            ActKind::PurgeAll { is_soft } => clients.push(server.purge_all(run, *is_soft)),
            ActKind::ClockStep { ms } => {
                step_unix_ms(*ms);
                run.world.borrow_mut().stepped_ms += ms.unsigned_abs();
            }
            ActKind::Reload { idle_ms } => server.reload(run, *idle_ms),
            ActKind::Exhaust { worker, ms } => run.queues[*worker].exhaust(*ms),
            ActKind::Restart { worker } => server.restart(run, *worker).await,
            ActKind::Attack { worker, attack, network_count } => {
                let attack = (*attack, *network_count);
                clients.extend(attack::start(run, act.number, *worker, attack));
            }
            ActKind::Visit { worker, visit } => {
                clients.extend(guarded::start(run, act.number, *worker, *visit));
            }
            ActKind::Http2 { worker, session } => {
                let client =
                    http2_client::play(Rc::clone(run), act.clone(), *worker, session.clone());
                clients.push(tokio::task::spawn_local(client));
            }
            ActKind::Session { .. } | ActKind::Purge { .. } | ActKind::Silence { .. } => {
                let (run, act) = (Rc::clone(run), act.clone());
                clients.push(tokio::task::spawn_local(async move {
                    client::play(&run, &act).await;
                }));
            }
        }
    }
    for client in clients {
        if let Err(error) = client.await {
            run.fail(format!("a client of the simulation panicked: {error}"));
        }
    }
    sleep(Duration::from_millis(REST_MS)).await;
    let mut paths = run.paths.counts();
    paths.extend(server.paths());
    server.end(run).await;
    if origin.is_finished() {
        run.fail("the origin of the simulation has ended".into());
    }
    origin.abort();
    run.outcome(paths)
}
