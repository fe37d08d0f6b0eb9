//! The server of a run: workers on one store, and their settings.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt::Display;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use forebay_cache::{Selection, Store};
use forebay_shm::CounterFile;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, LocalSet};
use tokio::time::{sleep, timeout};

use super::attack::{
    ABANDONED_MAX, BUSY_HOST, CLOSED, CONNECTIONS_MAX, ORIGIN_CONNECTIONS, ORIGIN_WAIT_MS,
    QUIET_HOST, UNREAD,
};
use super::blame::Scope;
use super::checker::{
    MemoryBudgets, OUTPUT_BYTES, check_soundness, check_store_at_rest, check_worker_at_rest,
    watch_memory,
};
use super::guarded::LISTENERS;
use super::ideal::PendingRemoval;
use super::missed::StoreLedger;
use super::rng::Rng;
use super::run::{REQUEST_MS_MAX, Run};
use super::scenario::{ActKind, Scenario};
use super::wire::{PendingConnections, SimConnector};
use super::world::{ERROR_S, HEURISTIC_PERCENT, STALE_IF_UNREACHABLE_S, URL_COUNT};
use crate::config::Config;
use crate::counters::{COUNTERS, Counter};
use crate::engine::{NewSettings, SettingsSlot, WorkerCommand, work};
use crate::fetch::{Hosts, Resolver};
use crate::log::LogSenders;
use crate::purger::{InlinePurger, PurgeKind, PurgeWork, Purger};
use crate::rate_limits::RateLimiter;
use crate::transport::tls::WorkerTls;
use crate::worker::{Worker, WorkerParts};

/// A running worker.
struct SimWorker {
    worker: Rc<Worker>,
    commands: mpsc::UnboundedSender<WorkerCommand>,
    /// The task in which all tasks of the worker run.
    task: JoinHandle<()>,
}

/// The server of a run: its workers, its purger and its store.
pub(super) struct SimServer {
    store: Store,
    counters: Rc<CounterFile>,
    slots_used: usize,
    purger: Purger,
    limiter: Arc<RateLimiter>,
    purging: JoinHandle<()>,
    /// The task that checks the store's memory.
    watching: JoinHandle<()>,
    origin: PendingConnections,
    idle_ms: u64,
    workers: Vec<SimWorker>,
}

impl SimServer {
    pub(super) fn start(run: &Rc<Run>, origin: PendingConnections) -> SimServer {
        let scenario = &run.scenario;
        let config = config_of(run, 5_000);
        let mut store_config = config.server.store(scenario.worker_count);
        store_config.variants_max = scenario.variants_max;
        let mut seed = [1; 16];
        seed[..8].copy_from_slice(&scenario.seed.to_le_bytes());
        forebay_shm::fix_seed_of_thread(seed);
        let store = Store::open(store_config.clone()).expect("a store");
        let restarts =
            scenario.acts.iter().filter(|act| matches!(act.kind, ActKind::Restart { .. }));
        let slot_count = scenario.worker_count + restarts.count() + 1;
        let counters = CounterFile::create(None, COUNTERS, slot_count).expect("memory");
        let counters = Rc::new(counters);
        let budgets = MemoryBudgets { store: store_config, counters: Rc::clone(&counters) };
        let watching = watch_memory(Rc::clone(run), store.clone(), budgets);
        let watching = tokio::task::spawn_local(watching);
        let read_pressure = {
            let (store, counters) = (store.clone(), counters.clone());
            move || {
                let stats = store.stats();
                use Counter::{GaveWay, HitsContinued, HitsCut, IdleDisplaced};
                let cuts = [HitsCut, GaveWay, HitsContinued, IdleDisplaced];
                let cuts: u64 = cuts.iter().map(|cut| counters.sum(cut.index())).sum();
                cuts + stats.bodies_revoked + stats.readers_cut
            }
        };
        let _ = run.read_pressure.set(Box::new(read_pressure));
        let _ = run.read_ledger.set(read_ledger(store.clone(), Rc::clone(&counters)));
        let (purger, inline) = InlinePurger::new();
        let purging = {
            let (store, slot) = (store.join().expect("a place"), counters.slot(0));
            tokio::task::spawn_local(async move {
                loop {
                    inline.run_pending(&store, &slot);
                    sleep(Duration::from_millis(25)).await;
                }
            })
        };
        let (slots_used, workers) = (1, Vec::new());
        let mut server = SimServer {
            store,
            counters,
            slots_used,
            purger,
            limiter: Arc::new(RateLimiter::new(&config)),
            purging,
            watching,
            origin,
            idle_ms: 5_000,
            workers,
        };
        for index in 0..scenario.worker_count {
            let worker = server.start_worker(run, index);
            server.workers.push(worker);
        }
        server
    }

    fn start_worker(&mut self, run: &Rc<Run>, index: usize) -> SimWorker {
        let scenario = &run.scenario;
        let slot = self.slots_used;
        self.slots_used += 1;
        let connector = SimConnector {
            origin: self.origin.clone(),
            rng: RefCell::new(Rng::of(&[scenario.seed, 3, slot as u64])),
            run: Rc::clone(run),
        };
        let worker = Rc::new(Worker::new(WorkerParts {
            config: config_of(run, self.idle_ms),
            store: self.store.join().expect("a place"),
            purger: self.purger.clone(),
            hosts: Arc::new(Hosts::new(Resolver::system())),
            limiter: Arc::clone(&self.limiter),
            connector: Box::new(connector),
            tls: Rc::new(WorkerTls::new(None)),
            counters: self.counters.slot(slot),
            access_logs: LogSenders::default(),
            process_id: "00000000-0000-4000-8000-000000000000".into(),
            index,
            via: "forebay-simulated".into(),
        }));
        let (commands, received) = mpsc::unbounded_channel();
        let (own, listeners) = (Rc::clone(&worker), vec![run.queues[index].listener()]);
        let task = tokio::task::spawn_local(async move {
            // Aborting this task drops the set, which ends all of the worker's tasks immediately.
            let tasks = LocalSet::new();
            tasks.run_until(work(own, listeners, received)).await;
        });
        let _ = commands.send(WorkerCommand::Accept { further: Vec::new() });
        SimWorker { worker, commands, task }
    }

    /// Returns how often each path was taken, but only for the paths that the server's counters
    /// count.
    pub(super) fn paths(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let sum = |counter: Counter| self.counters.sum(counter.index());
        let stats = self.store.stats();
        let paths = [
            ("hits", sum(Counter::Hits)),
            ("hits not modified", sum(Counter::HitsNotModified)),
            ("hits of a range", sum(Counter::HitsRange)),
            ("hits continued from the origin", sum(Counter::HitsContinued)),
            ("hits cut off", sum(Counter::HitsCut)),
            ("stored bodies copied while they are sent", stats.copied_out),
            ("stored bodies lost while they are sent", stats.bodies_revoked),
            ("validated", sum(Counter::Validated)),
            ("304s that name another variant", sum(Counter::VariantsNamed)),
            ("validated in the background", sum(Counter::BackgroundFetches)),
            ("collapsed", sum(Counter::Collapsed)),
            ("stored", sum(Counter::Stored)),
            ("stale if error", sum(Counter::StaleIfError)),
            ("parts stored", sum(Counter::PartsFetched)),
            ("answers that were not the requested part", sum(Counter::PartsRefused)),
            ("fills aborted", sum(Counter::FillsAborted)),
            ("retries at the origin", sum(Counter::OriginRetries)),
            ("requests sent again to another origin", sum(Counter::OriginFailovers)),
            ("requests hedged", sum(Counter::HedgedRequests)),
            ("hedges that were faster", sum(Counter::HedgesWon)),
            ("origins left out", sum(Counter::OriginEjections)),
            ("origins left out because they were slow", sum(Counter::OriginOutliers)),
            ("responses outdated by HEAD", sum(Counter::OutdatedByHead)),
            ("slow clients", sum(Counter::SlowClients)),
            ("slow clients cut off for other requests", sum(Counter::GaveWay)),
            ("segments reclaimed", stats.segments_freed),
            ("unkeyed fields removed", sum(Counter::UnkeyedFieldsRemoved)),
            ("abandoned fetches stopped", sum(Counter::FetchesAbandoned)),
            ("idle connections displaced", sum(Counter::IdleDisplaced)),
            ("requests over HTTP/2", sum(Counter::Http2Requests)),
            ("streams of HTTP/2 that clients reset", sum(Counter::Http2Resets)),
            ("connections of HTTP/2 that end with an error", sum(Counter::Http2Errors)),
            ("connections not accepted", sum(Counter::AcceptErrors)),
        ];
        paths.into_iter()
    }

    pub(super) fn reload(&mut self, run: &Run, idle_ms: u64) {
        self.idle_ms = idle_ms;
        for worker in &self.workers {
            let config = Some(Box::new(config_of(run, idle_ms)));
            let settings = Arc::new(SettingsSlot::default());
            settings.put(NewSettings {
                config,
                keeps_rule_counts: false,
                tls: None,
                access_logs: None,
                challenges: None,
            });
            let (done, _) = oneshot::channel();
            let _ = worker.commands.send(WorkerCommand::TakeSettings { settings, done });
        }
    }

    pub(super) async fn restart(&mut self, run: &Rc<Run>, index: usize) {
        let gone = self.workers.remove(index);
        run.blame.note(Scope::Worker(index), run.now_ms());
        gone.stop(run).await;
        let worker = self.start_worker(run, index);
        self.workers.insert(index, worker);
    }

    /// Changes all resources at the origin, then purges all of them as an operator would.
    pub(super) fn purge_all(&self, run: &Rc<Run>, is_soft: bool) -> JoinHandle<()> {
        let (run, purger) = (Rc::clone(run), self.purger.clone());
        let urls = 0..URL_COUNT;
        let removals: Vec<_> = urls.clone().map(|url| run.ideal.remove(url, is_soft)).collect();
        let versions: HashMap<usize, usize> = {
            let (mut world, now_ms) = (run.world.borrow_mut(), run.now_ms());
            urls.map(|url| (url, world.change(url, now_ms))).collect()
        };
        tokio::task::spawn_local(async move {
            let work =
                PurgeWork::Purge { kind: PurgeKind::asked(is_soft), counter: Counter::Purged };
            let purged = match purger.ask(vec![Selection::within(b"")], work) {
                Ok(asked) => timeout(Duration::from_millis(REQUEST_MS_MAX), asked.purged()).await,
                Err(error) => Ok(Err(error)),
            };
            match purged {
                Ok(Ok(_)) => {
                    removals.iter().for_each(PendingRemoval::end);
                    run.promise_all(versions, is_soft);
                }
                Ok(Err(error)) => run.fail(format!("a purge failed: {error}")),
                Err(_) => run.fail(format!("a purge took longer than {REQUEST_MS_MAX} ms")),
            }
        })
    }

    /// Checks that the server is at rest, then ends the server. The checks come before the workers
    /// end, because a worker that ends frees everything that it still holds.
    pub(super) async fn end(mut self, run: &Run) {
        if self.counters.sum(Counter::Panics.index()) > 0 {
            run.fail("a task panicked".into());
        }
        if self.purging.is_finished() {
            run.fail("the purger has ended".into());
        }
        for (index, worker) in self.workers.iter().enumerate() {
            check_worker_at_rest(run, index, &worker.worker);
        }
        check_store_at_rest(run, &self.store);
        let in_progress = self.limiter.in_progress().count();
        if in_progress > 0 {
            run.fail(format!("{in_progress} requests still count as in progress at the end"));
        }
        let refused = self.counters.sum(Counter::ConcurrencyLimited.index());
        run.guarded.in_progress.check_refused(run, refused);
        for worker in self.workers.drain(..) {
            worker.stop(run).await;
        }
        for task in [self.purging, self.watching] {
            task.abort();
            let _ = task.await;
        }
        check_store_at_rest(run, &self.store);
        check_soundness(run, &self.store);
    }
}

impl SimWorker {
    async fn stop(self, run: &Run) {
        drop(self.worker);
        self.task.abort();
        match self.task.await {
            Err(error) if error.is_cancelled() => {}
            ended => run.fail(format!("a worker has ended: {ended:?}")),
        }
    }
}

/// Returns a function that reads the counts of the store and of fetches.
fn read_ledger(store: Store, counters: Rc<CounterFile>) -> Box<dyn Fn() -> StoreLedger> {
    Box::new(move || {
        let stats = store.stats();
        let aborted = [Counter::FillsAborted, Counter::FetchesAbandoned];
        let refused =
            [stats.refused_no_room, stats.refused_large, stats.outgrown, stats.not_stored];
        StoreLedger {
            evicted: stats.evicted + stats.pushed_out,
            reclaimed: stats.segments_freed,
            refused: refused.iter().sum(),
            aborted: aborted.iter().map(|counter| counters.sum(counter.index())).sum(),
            retries_refused: counters.sum(Counter::OriginRetriesRefused.index()),
            ejections: counters.sum(Counter::OriginEjections.index()),
            crowded_out: counters.sum(Counter::ConnectionsRefused.index())
                + counters.sum(Counter::IdleDisplaced.index()),
        }
    })
}

/// Returns the configuration of a site for `host`; `origin` contains the lines that name its
/// origins. The addresses of all origins lead to the same simulated origin, but the server does not
/// know that.
fn site(host: &str, origin: impl Display) -> String {
    format!("[[site]]\nname = \"{host}\"\nnames = [\"{host}\"]\n{origin}")
}

/// Returns a configuration with short time limits, because a run lasts about a minute.
fn config_of(run: &Run, idle_ms: u64) -> Config {
    let scenario = &run.scenario;
    let Scenario { cache_bytes, range_unit_bytes, validates_variants, .. } = scenario;
    let [first, second] = LISTENERS;
    let text = format!(
        "cache_size = \"{cache_bytes}\"\n\
         workers = 2\n\
         http2 = true\n\
         listen = [\"{first}\", \"{second}\"]\n\
         head_ms_max = \"2s\"\n\
         idle_ms_max = \"{idle_ms}ms\"\n\
         body_grace_ms = \"8s\"\n\
         origin_connect_ms_max = \"{ORIGIN_WAIT_MS}ms\"\n\
         origin_connections_max = {ORIGIN_CONNECTIONS}\n\
         origin_first_byte_ms_max = \"3s\"\n\
         origin_idle_ms_max = \"3s\"\n\
         origin_pool_idle_ms_max = \"4s\"\n\
         purge_from = [\"10.0.0.0/8\"]\n\
         drop_query = [\"utm_*\"]\n\
         keep_cookies = [\"client\"]\n\
         validate_variants = {validates_variants}\n\
         languages = [\"de\", \"en\", \"fr\"]\n\
         early_hints = true\n\
         stale_if_unreachable_s = {STALE_IF_UNREACHABLE_S}\n\
         range_unit_bytes = \"{range_unit_bytes}\"\n\
         heuristic_percent = {HEURISTIC_PERCENT}\n\
         heuristic_error_s_max = {ERROR_S}\n\
         connections_per_worker_max = {CONNECTIONS_MAX}\n\
         abandoned_fetches_per_network_max = {ABANDONED_MAX}\n\
         output_bytes_max = {OUTPUT_BYTES}\n\
         {site}\
         [[site.route]]\n\
         path_prefix = \"{CLOSED}\"\n\
         cache = false\n\
         [[site.route]]\n\
         path_prefix = \"{UNREAD}\"\n\
         content_of_get = true\n\
         {busy}{quiet}{guarded}",
        site = site("a.test", scenario.origins.settings()),
        busy = site(BUSY_HOST, "origin = \"http://10.0.0.3\"\n"),
        quiet = site(QUIET_HOST, "origin = \"http://10.0.0.4\"\n"),
        guarded = run.guarded.settings(),
    );
    Config::from_toml(&text, "simulated").unwrap_or_else(|errors| panic!("{errors}"))
}
