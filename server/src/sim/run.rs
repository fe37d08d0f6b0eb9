//! A run: clock, acts, the end.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use tokio::task::LocalSet;
use tokio::time::{Instant, sleep, sleep_until};

use super::rng::Rng;
use super::scenario::{ActKind, Scenario};
use super::server::SimServer;
use super::wire::{PendingConnections, WireEnd};
use super::world::SiteHistory;
use super::{client, origin};
use crate::clock::simulated::{VirtualClocks, step_unix_ms};
use crate::counters::Counter;

/// When runs begin, in Unix seconds.
const UNIX_SECONDS: u64 = 1_800_000_000;

/// After the last act and the last client, everything comes to rest within this time.
const REST_MS: u64 = 20_000;

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    /// The first promise that was broken.
    pub(super) failure: Option<String>,
    /// A hash of all bytes that clients got, and when.
    pub(super) trace: u64,
    pub(super) answered: u64,
    pub(super) hits: u64,
}

/// The state that all parts of a run share.
pub(super) struct Run {
    pub(super) scenario: Scenario,
    pub(super) world: RefCell<SiteHistory>,
    began: Instant,
    failure: RefCell<Option<String>>,
    trace: Cell<u64>,
    answered: Cell<u64>,
    origin_requests: Cell<u64>,
    pub(super) queues: Vec<PendingConnections>,
}

impl Run {
    pub(super) fn now_ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    /// A promise is broken.
    pub(super) fn fail(&self, why: String) {
        let at_ms = self.now_ms();
        self.failure.borrow_mut().get_or_insert_with(|| format!("at {at_ms} ms: {why}"));
    }

    pub(super) fn fail_if_calm(&self, why: &str) {
        if self.scenario.is_calm() {
            self.fail(why.into());
        }
    }

    /// Notes something that has to be the same in every run of the seed.
    pub(super) fn trace(&self, what: &str, bytes: &[u8]) {
        let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        let time = self.now_ms().to_le_bytes();
        let all = what.as_bytes().iter().chain(&time).chain(bytes);
        self.trace.set(all.fold(self.trace.get(), fold));
    }

    pub(super) fn answered(&self) {
        self.answered.update(|count| count + 1);
    }

    /// A client's connection to a worker.
    pub(super) fn connect(&self, worker: usize, from: SocketAddr, number: u64) -> WireEnd {
        self.queues[worker].connect(from, Rng::of(&[self.scenario.seed, 1, number]))
    }

    /// The numbers of the next response of the origin, and how often one has a fault.
    pub(super) fn origin_request(&self) -> (Rng, u64) {
        let number = self.origin_requests.get();
        self.origin_requests.set(number + 1);
        let rng = Rng::of(&[self.scenario.seed, 2, number]);
        (rng, self.scenario.origin_fault_percent)
    }
}

/// Plays a scenario.
pub(super) fn play(scenario: &Scenario) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("an event loop");
    let tasks = LocalSet::new();
    let outcome = tasks.block_on(&runtime, async {
        let _clocks = VirtualClocks::start(UNIX_SECONDS);
        run(scenario).await
    });
    drop(tasks);
    outcome
}

async fn run(scenario: &Scenario) -> Outcome {
    let run = Rc::new(Run {
        scenario: scenario.clone(),
        world: RefCell::default(),
        began: Instant::now(),
        failure: RefCell::default(),
        trace: Cell::new(0xcbf2_9ce4_8422_2325),
        answered: Cell::new(0),
        origin_requests: Cell::new(0),
        queues: (0..scenario.worker_count).map(|_| PendingConnections::default()).collect(),
    });
    let origin_queue = PendingConnections::default();
    let origin = tokio::task::spawn_local(origin::serve(Rc::clone(&run), origin_queue.clone()));
    let mut server = SimServer::start(&run, origin_queue);
    let mut clients = Vec::new();
    for act in &scenario.acts {
        sleep_until(run.began + Duration::from_millis(act.at_ms)).await;
        match &act.kind {
            ActKind::Change { url } => _ = run.world.borrow_mut().change(*url, run.now_ms()),
            ActKind::PurgeAll { is_soft } => clients.push(server.purge_all(&run, *is_soft)),
            ActKind::ClockStep { ms } => {
                step_unix_ms(*ms);
                run.world.borrow_mut().stepped_ms += ms.unsigned_abs();
            }
            ActKind::Reload { idle_ms } => server.reload(*idle_ms),
            ActKind::Restart { worker } => server.restart(&run, *worker).await,
            ActKind::Session { .. }
            | ActKind::Purge { .. }
            | ActKind::Post { .. }
            | ActKind::Silence { .. } => {
                let (run, act) = (Rc::clone(&run), act.clone());
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
    let hits = server.counters.sum(Counter::Hits.index());
    server.end(&run).await;
    origin.abort();
    let failure = run.failure.borrow().clone();
    Outcome { failure, trace: run.trace.get(), answered: run.answered.get(), hits }
}
