//! One worker's thread: its event loop, its accept loop, its commands.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use forebay_cache::Store;
use forebay_shm::CounterSlot;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::LocalSet;

use super::cpus;
use crate::accept::accept_connections;
use crate::clock;
use crate::config::Config;
use crate::connection;
use crate::events::Event;
use crate::fetch::Hosts;
use crate::limits::{BLOCKING_THREADS_MAX, SWEEP_MS};
use crate::log::{LogSender, flush_periodically};
use crate::worker::{Worker, WorkerParts};

/// What the control thread tells a worker.
pub(crate) enum Command {
    /// Take these settings from now on; `done` hears when they hold.
    Reconfigure { config: Box<Config>, access_log: Option<LogSender>, done: oneshot::Sender<()> },
    /// Accept no more, finish what is under way, at the longest until `deadline_ms`.
    Drain { deadline_ms: u64 },
}

/// Everything that a worker starts with.
pub(crate) struct WorkerStart {
    pub(crate) index: usize,
    pub(crate) cpu: usize,
    pub(crate) listener: std::net::TcpListener,
    pub(crate) config: Config,
    pub(crate) store: Arc<Store>,
    pub(crate) hosts: Arc<Hosts>,
    pub(crate) counters: CounterSlot,
    pub(crate) access_log: Option<LogSender>,
    pub(crate) via: Arc<str>,
}

/// The control thread's view of a worker.
pub(crate) struct WorkerThread {
    pub(crate) commands: mpsc::UnboundedSender<Command>,
    /// Ends with true if every connection finished in time.
    pub(crate) thread: JoinHandle<bool>,
}

impl WorkerThread {
    /// Starts the thread.
    ///
    /// # Errors
    /// The thread or its event loop can't be made.
    pub(crate) fn start(start: WorkerStart) -> io::Result<WorkerThread> {
        let (commands, received) = mpsc::unbounded_channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(BLOCKING_THREADS_MAX)
            .build()?;
        let thread = std::thread::Builder::new().name(format!("worker-{}", start.index)).spawn(
            move || {
                if let Err(error) = cpus::pin_this_thread(start.cpu) {
                    Event::NotPinned.log(&format_args!("CPU {}: {error}", start.cpu));
                }
                let finished = LocalSet::new().block_on(&runtime, work(start, received));
                // Nobody knows how long the system takes for a name, and nobody waits for it now.
                runtime.shutdown_background();
                finished
            },
        )?;
        Ok(WorkerThread { commands, thread })
    }
}

async fn work(start: WorkerStart, mut commands: mpsc::UnboundedReceiver<Command>) -> bool {
    let listener = match TcpListener::from_std(start.listener) {
        Ok(listener) => listener,
        Err(error) => {
            Event::AcceptFailed.log(&error);
            return false;
        }
    };
    let worker = Rc::new(Worker::new(WorkerParts {
        config: start.config,
        store: start.store,
        hosts: start.hosts,
        counters: start.counters,
        access_log: start.access_log,
        via: start.via,
    }));
    let accepting = tokio::task::spawn_local(accept_connections(
        Rc::clone(&worker),
        listener,
        connection::spawn,
    ));
    tokio::task::spawn_local(sweep_periodically(Rc::clone(&worker)));
    tokio::task::spawn_local(flush_periodically(Rc::clone(&worker)));
    while let Some(command) = commands.recv().await {
        match command {
            Command::Reconfigure { config, access_log, done } => {
                worker.reconfigure(*config, access_log);
                // The control thread may have given up waiting; the settings hold all the same.
                let _ = done.send(());
            }
            Command::Drain { deadline_ms } => {
                worker.drain();
                return drained(&worker, accepting, deadline_ms).await;
            }
        }
    }
    false
}

/// Waits for the accept queue, the connections and the fetches; true if all ended in time.
async fn drained(
    worker: &Worker,
    accepting: tokio::task::JoinHandle<()>,
    deadline_ms: u64,
) -> bool {
    let mut ticks = tokio::time::interval(Duration::from_millis(SWEEP_MS));
    loop {
        // A connection may have become idle in this turn.
        worker.registry.wake_idle();
        if accepting.is_finished() && worker.registry.count() == 0 {
            return true;
        }
        if clock::monotonic_ms() >= deadline_ms {
            return false;
        }
        ticks.tick().await;
    }
}

/// Ends waits that have lasted too long.
async fn sweep_periodically(worker: Rc<Worker>) {
    let mut ticks = tokio::time::interval(Duration::from_millis(SWEEP_MS));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    for tick in 1u64.. {
        ticks.tick().await;
        worker.registry.sweep();
        if tick % ORIGIN_SWEEP_TICKS == 0 {
            worker.origins.sweep();
        }
    }
}

/// Idle origin connections are looked at once a second.
const ORIGIN_SWEEP_TICKS: u64 = 1000 / SWEEP_MS;
