//! The control thread: handles signals, reloads, purges, upgrades and the stop.

use std::cell::{Cell, OnceCell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use forebay_cache::{Selection, Store, StoreWorker};
use forebay_shm::{CounterError, CounterFile, CounterSlot, DirGuard};
use forebay_sync::profile::with_known_stack;
use tokio::net::UnixListener;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio::task::LocalSet;

use super::acme::AcmeState;
use super::certificates::CertificateWatch;
use super::file_watch::FileWatch;
use super::resources::ControlSockets;
use super::runtime_paths::SocketName;
use super::services::ServiceTable;
use super::signals::Signals;
use super::trial::Trials;
use super::upgrade::{Handover, HandoverOutcome, UpgradeTotals, serve_upgrades};
use super::watchdog::WorkerChange;
use super::worker_group::{LateReplies, StuckWorkers, WorkerGroup};
use super::worker_thread::{WorkerCommand, WorkerThread};
use crate::admin;
use crate::clock;
use crate::config::{Config, ConfigErrors};
use crate::counters::Counter;
use crate::event_queue;
use crate::events::Event;
use crate::explain::{ExplainedRequest, Explanation};
use crate::fetch::{Hosts, OriginReport};
use crate::key::DamagedKey;
use crate::limits::{
    HOUSEKEEPING_MS, LOG_FINISH_MS_MAX, PURGER_FINISH_MS_MAX, STORE_SWEEP_MS, WORKER_END_MS_MAX,
};
use crate::log::{LogLosses, LogWriters, ReplacedLogs};
use crate::purger::{PurgeError, PurgeHandle, PurgeKind, PurgeWork, PurgerThread};
use crate::rate_limits::RateLimiter;
use crate::rules::RuleReport;
use crate::site_counts::SiteReport;
use crate::trace::{TraceEnd, TracePlaces, Tracer};
use crate::transport::ListenSocket;
use crate::transport::tls::TicketKeys;

/// Callbacks into the program that runs the server.
pub struct Hooks {
    /// Reads the configuration again for a reload.
    pub load: Box<dyn Fn() -> Result<Config, ConfigErrors>>,
    /// Called after a successful reload, with the new configuration.
    pub applied: Box<dyn Fn(&Config)>,
}

/// The state of the control thread.
pub(crate) struct Control {
    pub(super) config: RefCell<Config>,
    pub(super) hooks: Hooks,
    pub(super) workers: WorkerGroup,
    pub(crate) store: Store,
    /// The control thread's attachment to the store, for purges and to clean up after dead
    /// processes.
    pub(crate) store_worker: StoreWorker,
    /// Whether requests are answered from the store; false while another process serves from a
    /// store of its own.
    store_is_used: Cell<bool>,
    /// The purge thread, for purges by host, prefix and tags; `None` once the server stops.
    purger: RefCell<Option<PurgerThread>>,
    pub(super) hosts: Arc<Hosts>,
    pub(super) limiter: Arc<RateLimiter>,
    pub(crate) counters: CounterFile,
    slot: CounterSlot,
    pub(super) log_writers: RefCell<LogWriters>,
    pub(super) replaced_logs: ReplacedLogs,
    pub(super) log_losses: Arc<LogLosses>,
    /// The lock that reserves the cache directory for this server.
    pub(super) guard: Option<DirGuard>,
    /// The keys of session tickets, and the time at which they were created or taken over.
    pub(super) ticket_keys: Cell<(TicketKeys, u64)>,
    pub(super) certificate_watch: CertificateWatch,
    pub(super) acme: AcmeState,
    pub(super) file_watch: FileWatch,
    pub(super) trials: Trials,
    pub(super) services: ServiceTable,
    /// The replies of workers that do not use the configuration of the last reload yet.
    pub(super) late_workers: RefCell<LateReplies<()>>,
    /// The reason why there is no lock profile, if creating it failed.
    lock_profile_fault: OnceCell<String>,
    /// The open traces.
    pub(crate) traces: TracePlaces,
    pub(crate) started_ms: u64,
}

/// Everything from which a [`Control`] is made.
pub(crate) struct ControlParts {
    pub(crate) config: Config,
    pub(crate) hooks: Hooks,
    pub(crate) workers: Vec<WorkerThread>,
    pub(crate) store: Store,
    pub(crate) store_worker: StoreWorker,
    pub(crate) purger: PurgerThread,
    pub(crate) hosts: Arc<Hosts>,
    pub(crate) limiter: Arc<RateLimiter>,
    pub(crate) counters: CounterFile,
    pub(crate) slot: CounterSlot,
    pub(crate) log_writers: LogWriters,
    pub(crate) log_losses: Arc<LogLosses>,
    pub(crate) guard: Option<DirGuard>,
    pub(crate) ticket_keys: TicketKeys,
    pub(super) services: ServiceTable,
}

impl Control {
    pub(crate) fn new(parts: ControlParts) -> Control {
        Control {
            config: RefCell::new(parts.config),
            hooks: parts.hooks,
            workers: WorkerGroup::new(parts.workers),
            store: parts.store,
            store_worker: parts.store_worker,
            store_is_used: Cell::new(true),
            purger: RefCell::new(Some(parts.purger)),
            hosts: parts.hosts,
            limiter: parts.limiter,
            counters: parts.counters,
            slot: parts.slot,
            log_writers: RefCell::new(parts.log_writers),
            replaced_logs: ReplacedLogs::default(),
            log_losses: parts.log_losses,
            guard: parts.guard,
            ticket_keys: Cell::new((parts.ticket_keys, clock::monotonic_ms())),
            certificate_watch: CertificateWatch::default(),
            acme: AcmeState::default(),
            file_watch: FileWatch::default(),
            trials: Trials::default(),
            services: parts.services,
            late_workers: RefCell::default(),
            lock_profile_fault: OnceCell::new(),
            traces: TracePlaces::default(),
            started_ms: clock::monotonic_ms(),
        }
    }

    /// Returns the number of workers.
    pub(crate) fn worker_count(&self) -> usize {
        self.workers.count()
    }

    /// Calls `read` with the current configuration.
    pub(crate) fn with_config<T>(&self, read: impl FnOnce(&Config) -> T) -> T {
        read(&self.config.borrow())
    }

    /// Returns the counts of the header rules since the last reload, summed over the workers, and
    /// the workers that are stuck, whose counts are missing.
    pub(crate) async fn rule_report(&self) -> (RuleReport, StuckWorkers) {
        if !self.config.borrow().has_rules() {
            return Default::default();
        }
        let (reports, stuck) =
            self.workers.ask(|tell| WorkerCommand::CountRules { tell }).wait().await;
        (RuleReport::sum(reports), stuck)
    }

    /// Returns the counts of the sites and of their origins, summed over the workers, and the
    /// workers that are stuck, whose counts are missing.
    pub(crate) async fn site_report(&self) -> ((SiteReport, OriginReport), StuckWorkers) {
        let (reports, stuck) =
            self.workers.ask(|tell| WorkerCommand::CountSites { tell }).wait().await;
        let (sites, origins) = reports.into_iter().unzip();
        ((SiteReport::sum(sites), OriginReport::sum(origins)), stuck)
    }

    /// Returns how a worker would answer the request now; `None` if no worker replies.
    pub(crate) async fn explain(&self, request: ExplainedRequest) -> Option<Explanation> {
        let request = Box::new(request);
        let command = |tell| WorkerCommand::Explain { request, tell };
        let (explanations, _) = self.workers.ask_one(command).wait().await;
        explanations.into_iter().next()
    }

    /// Makes the workers report the requests that a tracer selects. Returns the workers that are
    /// stuck, whose requests may be missing.
    pub(crate) async fn attach_tracer(&self, tracer: &Arc<Tracer>) -> StuckWorkers {
        let attach = |done| WorkerCommand::AttachTracer { tracer: Arc::clone(tracer), done };
        let (_, stuck) = self.workers.ask(attach).wait().await;
        stuck
    }

    /// Updates the gauge of open traces.
    pub(crate) fn show_open_traces(&self) {
        self.set_gauge(Counter::TracesOpen, self.traces.open_count() as u64);
    }

    /// Sets a gauge in the control thread's slot.
    pub(super) fn set_gauge(&self, gauge: Counter, value: u64) {
        self.slot.set(gauge.index(), value);
    }

    /// Adds `amount` to a counter in the control thread's slot.
    pub(crate) fn count(&self, counter: Counter, amount: u64) {
        self.slot.add(counter.index(), amount);
    }

    /// Reports that the lock profile could not be created.
    pub(super) fn lock_profile_failed(&self, error: &CounterError) {
        Event::LockProfileFailed.log(error);
        self.count(Counter::LockProfileFailed, 1);
        self.lock_profile_fault.get_or_init(|| error.to_string());
    }

    /// Returns the reason why there is no lock profile, if creating it failed.
    pub(crate) fn lock_profile_fault(&self) -> Option<&str> {
        self.lock_profile_fault.get().map(String::as_str)
    }

    /// Queues a purge, or a count of the selected responses, for the purge thread.
    ///
    /// # Errors
    /// [`PurgeError`] says why the purge thread does not accept it.
    pub(crate) fn purge(
        &self,
        selections: Vec<Selection>,
        work: PurgeWork,
    ) -> Result<PurgeHandle, PurgeError> {
        let purger = self.purger.borrow().as_ref().map(PurgerThread::purger);
        purger.ok_or(PurgeError::Stopping)?.ask(selections, work)
    }

    /// Remembers the kind of the purge with this number.
    pub(crate) fn note_purge(&self, number: u64, kind: PurgeKind) {
        if let Some(purger) = &*self.purger.borrow() {
            purger.purger().kinds().note(number, kind);
        }
    }

    /// Returns the counts that each process passes to its successor.
    pub(super) fn upgrade_totals(&self) -> UpgradeTotals {
        let count = |counter: Counter| self.counters.sum(counter.index());
        let upgrades_failed = count(Counter::UpgradesFailed);
        UpgradeTotals { upgrades: count(Counter::Upgrades), upgrades_failed }
    }

    /// Lets the workers accept connections. `further` has the additional sockets of each worker.
    pub(super) fn accept(&self, further: Vec<Vec<ListenSocket>>) {
        let mut further = further.into_iter();
        self.workers.each(|worker| {
            let further = further.next().unwrap_or_default();
            // Sending fails only if the worker has panicked; the other workers continue.
            let _ = worker.commands.send(WorkerCommand::Accept { further });
        });
    }

    /// Whether requests are answered from the store. If not, a purge by this process does not reach
    /// the responses that the other process serves from its own store.
    pub(crate) fn store_is_used(&self) -> bool {
        self.store_is_used.get()
    }

    /// Makes every worker answer without the store.
    ///
    /// # Errors
    /// Returns the workers that are stuck and may still answer from the store. The other workers
    /// use the store again.
    pub(super) async fn leave_store(&self) -> Result<(), StuckWorkers> {
        self.store_is_used.set(false);
        let leave = |_: &_, done| WorkerCommand::UseStore { is_used: false, done };
        let (_, stuck) = self.workers.tell(leave).wait().await;
        if stuck.is_empty() {
            return Ok(());
        }
        self.return_to_store();
        Err(stuck)
    }

    /// Lets the workers answer from the store again. There is no wait, because a worker that does
    /// so a little later still answers correctly.
    pub(super) fn return_to_store(&self) {
        self.store_is_used.set(true);
        drop(self.workers.tell(|_, done| WorkerCommand::UseStore { is_used: true, done }));
    }

    /// Runs until the process is told to stop, or another process has taken over; then stops the
    /// workers. Returns whether all requests finished in time.
    pub(super) fn run(
        self,
        sockets: ControlSockets,
        (runtime, signals): (Runtime, Signals),
        stop: mpsc::UnboundedReceiver<()>,
    ) -> io::Result<bool> {
        // The counter file stays, so that its numbers can be read after the process has ended or
        // crashed.
        let serve =
            || LocalSet::new().block_on(&runtime, Rc::new(self).serve(sockets, signals, stop));
        with_known_stack(serve)
    }

    async fn serve(
        self: Rc<Self>,
        sockets: ControlSockets,
        signals: Signals,
        stop: mpsc::UnboundedReceiver<()>,
    ) -> io::Result<bool> {
        let (acceptor, admin_name) = sockets.admin.enter()?;
        let upgrades = UnixListener::from_std(sockets.upgrade.listener)?;
        let admin = tokio::task::spawn_local(admin::serve(Rc::clone(&self), acceptor));
        tokio::task::spawn_local(Rc::clone(&self).sweep_store());
        tokio::task::spawn_local(Rc::clone(&self).keep_house());
        let file_watch = tokio::task::spawn_local(Rc::clone(&self).watch_files());
        self.update_acme();
        Event::Started.log(&format_args!("{} workers", self.worker_count()));
        let handed_over = self.wait(upgrades, sockets.handover, (signals, stop)).await;
        file_watch.abort();
        self.stop_acme();
        sockets.upgrade.name.set_ours(handed_over.is_none());
        // The socket's name is removed immediately, because the next server may need it while this
        // one finishes its requests.
        drop(sockets.upgrade.name);
        if handed_over.is_some_and(|handed_over| handed_over.has_admin) {
            admin.abort();
            admin_name.iter().for_each(|name: &SocketName| name.set_ours(false));
        }
        Ok(self.stop(handed_over.is_some()).await)
    }

    /// Waits until this process is told to stop (`None`), or another process has taken over.
    async fn wait(
        self: &Rc<Self>,
        upgrades: UnixListener,
        handover: Handover,
        (mut signals, mut stop): (Signals, mpsc::UnboundedReceiver<()>),
    ) -> Option<HandoverOutcome> {
        let mut giving = std::pin::pin!(serve_upgrades(self, upgrades, handover));
        loop {
            tokio::select! {
                handed_over = &mut giving => return Some(handed_over),
                () = signals.stop.recv() => return None,
                _ = stop.recv() => return None,
                _ = signals.user_1.recv() => self.reopen_logs(),
                _ = signals.user_2.recv() => {
                    Event::SignalIgnored.log(
                        &"SIGUSR2 has no effect; to upgrade, run `forebay serve … --upgrade`",
                    );
                }
                _ = signals.hang_up.recv() => {
                    let control = Rc::clone(self);
                    // An event and a counter report the outcome.
                    tokio::task::spawn_local(async move { drop(control.reload(None).await) });
                }
            }
        }
    }

    /// Periodically frees the resources that dead processes hold in the store, checks the segments
    /// that they had open, and logs damaged records.
    async fn sweep_store(self: Rc<Self>) {
        let mut ticks = tokio::time::interval(Duration::from_millis(STORE_SWEEP_MS));
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut fails = false;
        loop {
            ticks.tick().await;
            let swept = self.store.sweep();
            if let Err(error) = &swept
                && !fails
            {
                Event::StoreUnswept.log(error);
            }
            fails = swept.is_err();
            self.store_worker.mend();
            self.store_worker.report_damaged(|key| Event::RecordDamaged.log(&DamagedKey(key)));
        }
    }

    /// Periodically counts lost log lines, watches the workers and the running trial, replaces old
    /// ticket keys and changed certificates, and asks for the targets of services.
    async fn keep_house(self: Rc<Self>) {
        let mut ticks = tokio::time::interval(Duration::from_millis(HOUSEKEEPING_MS));
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.count_lost();
            self.watch_workers();
            self.rotate_ticket_keys();
            self.watch_certificates();
            self.watch_trial();
            self.update_services();
        }
    }

    /// Counts and reports workers whose event loop no longer turns.
    fn watch_workers(&self) {
        for change in self.workers.watch() {
            match change {
                WorkerChange::Stuck(number) => {
                    self.count(Counter::WorkersStuck, 1);
                    Event::WorkerStuck.log(&format_args!("worker {number}"));
                }
                WorkerChange::Recovered(number) => {
                    Event::WorkerRecovered.log(&format_args!("worker {number}"));
                }
            }
        }
    }

    /// Returns the workers whose event loop does not run.
    pub(crate) fn stuck_workers(&self) -> StuckWorkers {
        self.workers.stuck()
    }

    /// Counts the lines of logs that were lost, and reports lost events.
    fn count_lost(&self) {
        let (dropped, failed) = self.log_losses.take();
        self.count(Counter::LogLinesDropped, dropped);
        self.count(Counter::LogLinesFailed, failed);
        let losses = event_queue::take_losses();
        self.count(Counter::EventsLost, losses.new);
        if losses.to_report > 0 {
            let lost = losses.to_report;
            Event::EventsLost
                .log(&format_args!("{lost} events were lost since the last line of this kind"));
        }
    }

    async fn stop(&self, was_handed_over: bool) -> bool {
        let limit_ms = u64::from(self.config.borrow().server.shutdown_ms_max);
        let event = if was_handed_over { Event::HandedOver } else { Event::Stopping };
        event.log(&format_args!("these requests have at most {limit_ms} ms to finish"));
        self.traces.end_all(match was_handed_over {
            true => TraceEnd::HandedOver,
            false => TraceEnd::Stopping,
        });
        let deadline_ms = clock::monotonic_ms() + limit_ms;
        let workers = self.workers.take();
        for worker in &workers {
            // Sending fails if the worker has ended; then it has no requests in flight.
            let _ = worker
                .commands
                .send(WorkerCommand::Drain { deadline_ms, queues_are_passed_on: was_handed_over });
        }
        let mut finished = true;
        for worker in workers {
            let until_ms = deadline_ms + WORKER_END_MS_MAX;
            while !worker.thread.is_finished() && clock::monotonic_ms() < until_ms {
                tokio::time::sleep(STOP_POLL).await;
            }
            // The thread of a worker that is stuck ends with the process.
            finished &= worker.thread.is_finished() && worker.thread.join().unwrap_or(false);
        }
        if let Some(purger) = self.purger.take() {
            let undone = purger.finish(PURGER_FINISH_MS_MAX, STOP_POLL).await;
            if undone > 0 {
                self.count(Counter::PurgesFailed, undone);
                Event::PurgeFailed
                    .log(&format_args!("{undone} purges had not finished when the server stopped"));
            }
        }
        self.replaced_logs.add(self.log_writers.take());
        self.replaced_logs.finish(LOG_FINISH_MS_MAX).await;
        self.count_lost();
        match finished {
            true => Event::Stopped.log(&"all workers ended"),
            false => Event::DrainTimedOut.log(&"some workers had not finished their requests"),
        }
        // The lines that are left in the queue when the process ends are lost. The counters outlive
        // the process.
        let unwritten = event_queue::finish() as u64;
        self.count(Counter::EventsLost, unwritten + event_queue::take_losses().new);
        finished
    }
}

/// Interval at which the control thread checks its workers while they stop.
const STOP_POLL: Duration = Duration::from_millis(10);
