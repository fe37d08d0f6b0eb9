//! A worker's thread: its event loop, accept loop and commands.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use forebay_cache::Store;
use forebay_shm::CounterSlot;
use forebay_sync::profile::with_known_stack;
use forebay_sync::{LockClass, Mutex};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, oneshot};
use tokio::task::LocalSet;

use super::attach_store::AttachDeadline;
use super::cpus;
use super::start_error::StartError;
use super::watchdog::TurnMark;
use crate::accept::accept_connections;
use crate::acme::Challenges;
use crate::clock;
use crate::config::Config;
use crate::connection;
use crate::counters::Histogram;
use crate::events::Event;
use crate::explain::{ExplainedRequest, Explanation, explain};
use crate::fetch::{Hosts, OriginReport, start_due_checks};
use crate::limits::SWEEP_MS;
use crate::log::{LogSenders, flush_periodically};
use crate::purger::Purger;
use crate::rate_limits::RateLimiter;
use crate::rules::RuleReport;
use crate::site_counts::SiteReport;
use crate::trace::Tracer;
use crate::transport::tls::{TlsAcceptor, TlsListener, WorkerTls};
use crate::transport::{ListenSocket, Listener, TcpConnector, TcpListener};
use crate::worker::{Worker, WorkerParts};

/// A command of the control thread to a worker.
pub(crate) enum WorkerCommand {
    /// Start accepting connections, also from the sockets in `further`.
    Accept { further: Vec<ListenSocket> },
    /// Use the settings in the slot from now on; `done` is signalled once they are in use.
    TakeSettings { settings: Arc<SettingsSlot>, done: oneshot::Sender<()> },
    /// Send the counts of the header rules to `tell`.
    CountRules { tell: oneshot::Sender<RuleReport> },
    /// Send the counts of the sites and of their origins to `tell`.
    CountSites { tell: oneshot::Sender<(SiteReport, OriginReport)> },
    /// Send to `tell` how the request would be answered, and why.
    Explain { request: Box<ExplainedRequest>, tell: oneshot::Sender<Explanation> },
    /// Report the requests that the tracer selects; `done` is signalled once the tracer is
    /// attached.
    AttachTracer { tracer: Arc<Tracer>, done: oneshot::Sender<()> },
    /// Start or stop answering from the store; `done` is signalled afterwards.
    UseStore { is_used: bool, done: oneshot::Sender<()> },
    /// Stop accepting, and finish requests in progress until `deadline_ms`.
    Drain { deadline_ms: u64, queues_are_passed_on: bool },
}

/// Settings that replace those of a worker.
pub(crate) struct NewSettings {
    /// The configuration; `None` leaves it as it is.
    pub(crate) config: Option<Box<Config>>,
    /// Whether the configuration has the rules of the one before it, so that their counts go on.
    pub(crate) keeps_rule_counts: bool,
    /// The settings for TLS; `None` leaves them as they are.
    pub(crate) tls: Option<Box<TlsAcceptor>>,
    /// The access logs of the configuration; `None` leaves them as they are.
    pub(crate) access_logs: Option<LogSenders>,
    /// The answers to the challenges of certificate authorities; `None` leaves them as they are.
    pub(crate) challenges: Option<Arc<Challenges>>,
}

/// The newest settings that a worker has not taken yet. They replace older settings in the slot, so
/// that configurations and open logs do not pile up while a worker is stuck.
pub(crate) struct SettingsSlot(Mutex<Option<NewSettings>>);

impl Default for SettingsSlot {
    fn default() -> SettingsSlot {
        SettingsSlot(Mutex::new(LockClass::Settings, None))
    }
}

impl SettingsSlot {
    /// Puts settings into the slot. If they have no configuration, settings for TLS or access logs,
    /// those that are already in the slot stay there.
    pub(crate) fn put(&self, mut new: NewSettings) {
        let mut slot = self.0.lock();
        let mut old = slot.take();
        if let Some(old) = old.as_mut().filter(|old| old.config.is_some()) {
            new.keeps_rule_counts &= old.keeps_rule_counts;
            if new.config.is_none() {
                new.config = old.config.take();
            }
        }
        if new.tls.is_none() {
            new.tls = old.as_mut().and_then(|old| old.tls.take());
        }
        if new.access_logs.is_none() {
            new.access_logs = old.as_mut().and_then(|old| old.access_logs.take());
        }
        if new.challenges.is_none() {
            new.challenges = old.as_mut().and_then(|old| old.challenges.take());
        }
        *slot = Some(new);
        drop(slot);
        // The lock is released before this, because dropping the sender may end a log's thread, and
        // dropping the configuration runs code of custom filters.
        drop(old);
    }

    fn take(&self) -> Option<NewSettings> {
        self.0.lock().take()
    }
}

/// Everything that a worker's thread needs to start.
pub(crate) struct WorkerStart {
    pub(crate) index: usize,
    pub(crate) cpu: usize,
    pub(crate) listeners: Vec<ListenSocket>,
    pub(crate) config: Config,
    pub(crate) tls: Option<TlsAcceptor>,
    pub(crate) store: Store,
    pub(super) attach: AttachDeadline,
    pub(crate) purger: Purger,
    pub(crate) hosts: Arc<Hosts>,
    pub(crate) limiter: Arc<RateLimiter>,
    pub(crate) counters: CounterSlot,
    pub(crate) access_logs: LogSenders,
    pub(crate) process_id: Arc<str>,
    pub(crate) via: Arc<str>,
}

/// The control thread's handle to a worker.
pub(crate) struct WorkerThread {
    pub(crate) commands: mpsc::UnboundedSender<WorkerCommand>,
    /// The thread; its result is whether every connection finished in time.
    pub(crate) thread: JoinHandle<bool>,
    /// Settings for [`WorkerCommand::TakeSettings`].
    pub(super) settings: Arc<SettingsSlot>,
    /// The count of turns of the worker's event loop.
    pub(super) mark: Arc<TurnMark>,
    is_up: std::sync::mpsc::Receiver<Result<(), StartError>>,
}

impl WorkerThread {
    /// Starts the thread, which accepts no connections before [`WorkerCommand::Accept`].
    ///
    /// # Errors
    /// The thread cannot be created.
    pub(crate) fn start(start: WorkerStart) -> io::Result<WorkerThread> {
        let (commands, received) = mpsc::unbounded_channel();
        let (up, is_up) = std::sync::mpsc::channel();
        let mark = Arc::new(TurnMark::default());
        let own_mark = Arc::clone(&mark);
        let thread = std::thread::Builder::new().name(format!("worker-{}", start.index)).spawn(
            move || {
                if let Err(error) = cpus::pin_this_thread(start.cpu) {
                    Event::NotPinned.log(&format_args!("CPU {}: {error}", start.cpu));
                }
                let runtime = match event_loop() {
                    Ok(runtime) => runtime,
                    Err(error) => {
                        // The starting thread may have given up.
                        let _ = up.send(Err(StartError::Thread(error)));
                        return false;
                    }
                };
                let finished = with_known_stack(|| run(&runtime, start, &up, received, &own_mark));
                own_mark.end();
                finished
            },
        )?;
        Ok(WorkerThread { commands, thread, settings: Arc::default(), mark, is_up })
    }

    /// Waits until the worker is ready to accept.
    ///
    /// # Errors
    /// The worker's event loop cannot be created, a socket cannot be registered with it, or the
    /// worker cannot attach to the store.
    pub(crate) fn wait_until_up(&self) -> Result<(), StartError> {
        let ended =
            |_| Err(StartError::Thread(io::Error::other("a worker ended before it was ready")));
        self.is_up.recv().unwrap_or_else(ended)
    }
}

/// Creates an event loop for the calling thread, which is a worker. Each worker creates its own
/// event loop, so that its memory, which every request writes, shares no cache line with another
/// worker's.
fn event_loop() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// Registers the sockets with the event loop of the calling thread.
fn enter(sockets: Vec<ListenSocket>, tls: &Rc<WorkerTls>) -> io::Result<Vec<Box<dyn Listener>>> {
    let register = |ListenSocket { socket, number, is_tls }| {
        let listener = TcpListener::register(socket, number)?;
        Ok(if is_tls { TlsListener::over(listener, Rc::clone(tls)) } else { listener })
    };
    sockets.into_iter().map(register).collect()
}

/// Runs a worker to its end; returns whether every connection finished in time.
fn run(
    runtime: &Runtime,
    start: WorkerStart,
    up: &std::sync::mpsc::Sender<Result<(), StartError>>,
    commands: mpsc::UnboundedReceiver<WorkerCommand>,
    mark: &TurnMark,
) -> bool {
    let tasks = LocalSet::new();
    // If the starting thread has given up, no commands will follow.
    let (worker, listeners) = match tasks.block_on(runtime, prepare(start)) {
        Ok(prepared) => {
            let _ = up.send(Ok(()));
            prepared
        }
        Err(error) => {
            let _ = up.send(Err(error));
            return false;
        }
    };
    let turns = tasks.run_until(work(Rc::clone(&worker), listeners, commands));
    let tell = |ns| {
        mark.turn();
        worker.observe(Histogram::LoopTurn, ns);
    };
    runtime.block_on(timed(turns, tell))
}

/// Runs `turns`, and reports to `tell` how long each poll takes, in nanoseconds. An event loop
/// polls `turns` once between two polls of the sockets.
async fn timed<T>(turns: impl Future<Output = T>, tell: impl Fn(u64)) -> T {
    let mut turns = std::pin::pin!(turns);
    std::future::poll_fn(|context| {
        let began_ns = clock::monotonic_ns();
        let polled = turns.as_mut().poll(context);
        tell(clock::monotonic_ns().saturating_sub(began_ns));
        polled
    })
    .await
}

/// Creates a worker that is ready to serve, and registers its sockets.
async fn prepare(start: WorkerStart) -> Result<(Rc<Worker>, Vec<Box<dyn Listener>>), StartError> {
    let store = start.attach.attach(&start.store).await?;
    let tls = Rc::new(WorkerTls::new(start.tls));
    let listeners = enter(start.listeners, &tls).map_err(StartError::Thread)?;
    let worker = Worker::new(WorkerParts {
        config: start.config,
        store,
        purger: start.purger,
        hosts: start.hosts,
        limiter: start.limiter,
        connector: Box::new(TcpConnector),
        tls,
        counters: start.counters,
        access_logs: start.access_logs,
        process_id: start.process_id,
        index: start.index,
        via: start.via,
    });
    Ok((Rc::new(worker), listeners))
}

/// Starts the worker's own tasks, then executes commands of the control thread until the drain has
/// ended. Returns whether all connections ended in time.
pub(crate) async fn work(
    worker: Rc<Worker>,
    mut listeners: Vec<Box<dyn Listener>>,
    mut commands: mpsc::UnboundedReceiver<WorkerCommand>,
) -> bool {
    let mut accepting = None;
    worker.spawn(Rc::clone(&worker).make_room());
    worker.spawn(sweep_periodically(Rc::clone(&worker)));
    worker.spawn(flush_periodically(Rc::clone(&worker)));
    while let Some(command) = commands.recv().await {
        match command {
            WorkerCommand::Accept { further } => {
                match enter(further, &worker.tls) {
                    Ok(further) => listeners.extend(further),
                    // The failed socket is closed, so it gets no connections; the worker continues
                    // with its other sockets.
                    Err(error) => Event::AcceptFailed.log(&error),
                }
                let listeners = std::mem::take(&mut listeners);
                let accept = accept_connections(Rc::clone(&worker), listeners, connection::spawn);
                accepting = Some(worker.spawn(accept));
            }
            WorkerCommand::TakeSettings { settings, done } => {
                // The slot is empty if an earlier command has taken its settings.
                if let Some(new) = settings.take() {
                    let NewSettings { config, keeps_rule_counts, tls, access_logs, challenges } =
                        new;
                    challenges.into_iter().for_each(|new| worker.take_challenges(new));
                    worker.apply_settings(config, keeps_rule_counts, access_logs);
                    tls.into_iter().for_each(|tls| worker.tls.replace(*tls));
                }
                // The control thread may have given up waiting; the settings are in use anyway.
                let _ = done.send(());
            }
            WorkerCommand::CountRules { tell } => {
                // The control thread may have given up waiting.
                let _ = tell.send(RuleReport::new(&worker.config()));
            }
            WorkerCommand::CountSites { tell } => {
                let sites = worker.site_counts.report(&worker.config());
                let _ = tell.send((sites, OriginReport::new(&worker)));
            }
            WorkerCommand::Explain { request, tell } => {
                let _ = tell.send(explain(&worker, &request));
            }
            WorkerCommand::AttachTracer { tracer, done } => {
                worker.tracers.add(tracer);
                let _ = done.send(());
            }
            WorkerCommand::UseStore { is_used, done } => {
                worker.use_store(is_used);
                let _ = done.send(());
            }
            WorkerCommand::Drain { deadline_ms, queues_are_passed_on } => {
                worker.drain(queues_are_passed_on);
                return drained(&worker, accepting, deadline_ms).await;
            }
        }
    }
    false
}

/// Waits until the accept loop and all connections have ended. Returns whether they ended in time.
async fn drained(
    worker: &Worker,
    accepting: Option<tokio::task::JoinHandle<()>>,
    deadline_ms: u64,
) -> bool {
    let mut ticks = tokio::time::interval(Duration::from_millis(SWEEP_MS));
    loop {
        // Wakes connections that have become idle since the last tick, so that they end.
        worker.registry.wake_idle();
        let accepts = accepting.as_ref().is_some_and(|task| !task.is_finished());
        if !accepts && worker.registry.count() == 0 {
            return true;
        }
        if clock::monotonic_ms() >= deadline_ms {
            return false;
        }
        ticks.tick().await;
    }
}

/// Enforces the deadlines of connections, runs the maintenance of the store and of idle origin
/// connections, and starts health checks that are due.
async fn sweep_periodically(worker: Rc<Worker>) {
    let mut ticks = tokio::time::interval(Duration::from_millis(SWEEP_MS));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    for tick in 1u64.. {
        ticks.tick().await;
        worker.registry.sweep();
        if worker.turn_store() {
            worker.notify_stored();
        }
        if tick % ORIGIN_SWEEP_TICKS == 0 {
            worker.origins.sweep();
            start_due_checks(&worker);
        }
    }
}

/// Interval of the sweep over idle origin connections and of the search for health checks that are
/// due, in ticks: one second.
const ORIGIN_SWEEP_TICKS: u64 = 1000 / SWEEP_MS;

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use forebay_http::edit::{EditError, FieldName};
    use forebay_rules::filter::{Filter, FilterMessage, Filters};

    use super::*;
    use crate::config::ConfigSource;

    /// A filter that uses the slot when it is dropped.
    struct SlotUser {
        slot: Arc<SettingsSlot>,
        drops: Arc<AtomicUsize>,
    }

    impl Filter for SlotUser {
        fn changes(&self) -> &[FieldName] {
            &[]
        }

        fn run(&self, _: &mut FilterMessage<'_, '_>) -> Result<(), EditError> {
            Ok(())
        }
    }

    impl Drop for SlotUser {
        fn drop(&mut self) {
            assert!(self.slot.0.try_lock().is_some(), "the slot is locked");
            self.drops.fetch_add(1, Relaxed);
        }
    }

    #[test]
    fn a_replaced_configuration_is_dropped_after_the_slot_is_unlocked() {
        let folder = forebay_testkit::server::Folder::new();
        let rules = folder.path("a.rules");
        let rule = "cond %{REMAP_PSEUDO_HOOK}\n    run-plugin slot\n";
        std::fs::write(&rules, rule).expect("the folder is ours");
        let (slot, drops) = (Arc::<SettingsSlot>::default(), Arc::<AtomicUsize>::default());
        let (own_slot, own_drops) = (Arc::clone(&slot), Arc::clone(&drops));
        let filters = Filters::default().with("slot", move |_| {
            Ok(SlotUser { slot: Arc::clone(&own_slot), drops: Arc::clone(&own_drops) })
        });
        let text = format!(
            "[[site]]\nname = 'a'\nnames = ['a']\norigin = 'http://o'\nrules = ['{}']\n",
            rules.display()
        );
        let put = || {
            let source = ConfigSource::Toml { text: &text, file: "f.toml" };
            let config = Config::load_with(source, &[], &filters).expect("it is right");
            let config = Some(Box::new(config));
            slot.put(NewSettings {
                config,
                keeps_rule_counts: false,
                tls: None,
                access_logs: None,
                challenges: None,
            });
        };
        put();
        let first = drops.load(Relaxed);
        put();
        assert!(drops.load(Relaxed) > first, "the first one was not dropped");
        slot.put(NewSettings {
            config: None,
            keeps_rule_counts: true,
            tls: None,
            access_logs: None,
            challenges: None,
        });
        assert!(slot.take().is_some_and(|kept| kept.config.is_some()));
    }

    #[test]
    fn each_turn_of_a_loop_is_timed_and_a_long_one_is_long() {
        const LONG_NS: u64 = 3_000_000;
        let told = RefCell::new(Vec::new());
        let turns = async {
            tokio::task::yield_now().await;
            let began_ns = clock::monotonic_ns();
            while clock::monotonic_ns() - began_ns < LONG_NS {
                std::hint::spin_loop();
            }
            tokio::task::yield_now().await;
            7
        };
        let runtime = event_loop().expect("an event loop");
        assert_eq!(runtime.block_on(timed(turns, |ns| told.borrow_mut().push(ns))), 7);
        let told = told.into_inner();
        assert_eq!(told.len(), 3, "{told:?}");
        assert!(told[1] >= LONG_NS, "{told:?}");
    }
}
