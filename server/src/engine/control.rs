//! The control thread: signals, reloads, purges, and the end.

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use forebay_cache::{Store, StoreWorker};
use forebay_shm::{CounterFile, CounterSlot};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};
use tokio::task::LocalSet;

use super::places::{AdminListener, AdminPlace};
use super::signals::Signals;
use super::worker_thread::{Command, WorkerThread};
use crate::admin;
use crate::clock;
use crate::config::{Config, ConfigErrors};
use crate::counters::Counter;
use crate::events::Event;
use crate::fetch::Hosts;
use crate::limits::{LOG_FINISH_MS_MAX, STORE_SWEEP_MS};
use crate::log::LogWriter;

/// What a server asks of the program that it runs in.
pub struct Hooks {
    /// Reads the configuration anew, for a reload.
    pub load: Box<dyn Fn() -> Result<Config, ConfigErrors>>,
    /// Hears of the configuration that holds now, after a reload.
    pub applied: Box<dyn Fn(&Config)>,
}

/// What the control thread knows.
pub(crate) struct Control {
    config: RefCell<Config>,
    hooks: Hooks,
    workers: RefCell<Vec<WorkerThread>>,
    pub(crate) store: Store,
    /// This thread's part in it, for purges, and to clean up after others.
    pub(crate) store_worker: StoreWorker,
    hosts: Arc<Hosts>,
    pub(crate) counters: CounterFile,
    slot: CounterSlot,
    log_writer: RefCell<Option<LogWriter>>,
    admin: AdminPlace,
    pub(crate) started_ms: u64,
}

/// What a [`Control`] is made of.
pub(crate) struct ControlParts {
    pub(crate) config: Config,
    pub(crate) hooks: Hooks,
    pub(crate) workers: Vec<WorkerThread>,
    pub(crate) store: Store,
    pub(crate) store_worker: StoreWorker,
    pub(crate) hosts: Arc<Hosts>,
    pub(crate) counters: CounterFile,
    pub(crate) slot: CounterSlot,
    pub(crate) log_writer: Option<LogWriter>,
    pub(crate) admin: AdminPlace,
}

/// Why a new configuration is not in use.
#[derive(Debug)]
pub(crate) enum ReloadError {
    /// It has errors.
    Config(ConfigErrors),
    /// These settings can't change while the server runs.
    NeedsRestart(Vec<&'static str>),
    /// Its access log can't be opened.
    AccessLog(io::Error),
}

impl fmt::Display for ReloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReloadError::Config(errors) => errors.fmt(f),
            ReloadError::NeedsRestart(names) => {
                write!(f, "needs a restart to change: {}", names.join(", "))
            }
            ReloadError::AccessLog(error) => write!(f, "cannot open the access log: {error}"),
        }
    }
}

impl Control {
    pub(crate) fn new(parts: ControlParts) -> Control {
        Control {
            config: RefCell::new(parts.config),
            hooks: parts.hooks,
            workers: RefCell::new(parts.workers),
            store: parts.store,
            store_worker: parts.store_worker,
            hosts: parts.hosts,
            counters: parts.counters,
            slot: parts.slot,
            log_writer: RefCell::new(parts.log_writer),
            admin: parts.admin,
            started_ms: clock::monotonic_ms(),
        }
    }

    /// Number of workers.
    pub(crate) fn worker_count(&self) -> usize {
        self.workers.borrow().len()
    }

    /// Calls `read` with the settings that hold now.
    pub(crate) fn with_config<T>(&self, read: impl FnOnce(&Config) -> T) -> T {
        read(&self.config.borrow())
    }

    /// Counts something that no worker does.
    pub(crate) fn count(&self, counter: Counter, amount: u64) {
        self.slot.add(counter.index(), amount);
    }

    /// Runs until told to stop, then stops the workers. True if all requests finished in time.
    pub(super) fn run(
        self,
        admin_listener: AdminListener,
        (runtime, signals): (Runtime, Signals),
        stop: mpsc::UnboundedReceiver<()>,
    ) -> io::Result<bool> {
        let control = Rc::new(self);
        let serving = Rc::clone(&control).serve(admin_listener, signals, stop);
        let finished = LocalSet::new().block_on(&runtime, serving);
        drop(runtime);
        // The counter file stays: it tells what was, also after a crash.
        if let AdminPlace::Unix(path) = &control.admin {
            // Whoever removed it already has done our work.
            let _ = std::fs::remove_file(path);
        }
        finished
    }

    async fn serve(
        self: Rc<Self>,
        admin_listener: AdminListener,
        mut signals: Signals,
        mut stop: mpsc::UnboundedReceiver<()>,
    ) -> io::Result<bool> {
        let acceptor = admin_listener.enter()?;
        tokio::task::spawn_local(admin::serve(Rc::clone(&self), acceptor));
        tokio::task::spawn_local(Rc::clone(&self).sweep_store());
        Event::Started.log(&format_args!("{} workers", self.worker_count()));
        loop {
            tokio::select! {
                _ = signals.terminate.recv() => break,
                _ = signals.interrupt.recv() => break,
                _ = stop.recv() => break,
                _ = signals.hang_up.recv() => {
                    // The event and the counters tell how it went.
                    let _ = self.reload().await;
                }
            }
        }
        Ok(self.stop().await)
    }

    /// Takes back what others had of the store who have died, and checks what they were at.
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
        }
    }

    /// Checks the configuration anew and hands it to every worker; a bad one changes nothing.
    ///
    /// # Errors
    /// See [`ReloadError`].
    pub(crate) async fn reload(&self) -> Result<(), ReloadError> {
        let applied = self.apply_reload().await;
        match &applied {
            Ok(()) => {
                self.count(Counter::Reloads, 1);
                Event::Reloaded.log(&"every worker has it");
            }
            Err(error) => {
                self.count(Counter::ReloadsRefused, 1);
                Event::ReloadRefused.log(error);
            }
        }
        applied
    }

    async fn apply_reload(&self) -> Result<(), ReloadError> {
        let config = (self.hooks.load)().map_err(ReloadError::Config)?;
        let conflicts = self.config.borrow().reload_conflicts(&config);
        if !conflicts.is_empty() {
            let names = conflicts.iter().map(|setting| setting.name).collect();
            return Err(ReloadError::NeedsRestart(names));
        }
        // Opened anew even if nothing changed: log rotation renames the file and then reloads.
        let writer = LogWriter::open(&config.server).map_err(ReloadError::AccessLog)?;
        let mut taken = Vec::new();
        for worker in &*self.workers.borrow() {
            let (done, applied) = oneshot::channel();
            let access_log = writer.as_ref().map(LogWriter::sender);
            let config = Box::new(config.clone());
            let command = Command::Reconfigure { config, access_log, done };
            if worker.commands.send(command).is_ok() {
                taken.push(applied);
            }
        }
        for applied in taken {
            // A worker that ended meanwhile serves nothing by the old settings either.
            let _ = applied.await;
        }
        self.hosts.retain(&config.sites);
        (self.hooks.applied)(&config);
        *self.config.borrow_mut() = config;
        // The old one ends by itself when it has written what it got, however long that takes.
        drop(self.log_writer.replace(writer));
        Ok(())
    }

    async fn stop(&self) -> bool {
        let limit_ms = u64::from(self.config.borrow().server.shutdown_ms_max);
        Event::Stopping.log(&format_args!("at most {limit_ms} ms"));
        let deadline_ms = clock::monotonic_ms() + limit_ms;
        let workers = self.workers.take();
        for worker in &workers {
            // A worker that ended already has nothing under way.
            let _ = worker.commands.send(Command::Drain { deadline_ms });
        }
        let mut finished = true;
        for worker in workers {
            while !worker.thread.is_finished() {
                tokio::time::sleep(STOP_POLL).await;
            }
            finished &= worker.thread.join().unwrap_or(false);
        }
        if let Some(writer) = self.log_writer.take() {
            writer.finish(LOG_FINISH_MS_MAX).await;
        }
        let event = if finished { Event::Stopped } else { Event::DrainTimedOut };
        event.log(&"all workers ended");
        finished
    }
}

/// How long the control thread waits between two looks at its workers while they stop.
const STOP_POLL: Duration = Duration::from_millis(10);
