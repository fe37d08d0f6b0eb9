//! One worker's thread: its event loop, its accept loop, its commands.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use forebay_cache::Store;
use forebay_shm::CounterSlot;
use forebay_sync::profile::with_known_stack;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, oneshot};
use tokio::task::LocalSet;

use super::attach_store::attach_store;
use super::cpus;
use super::start::StartError;
use crate::accept::accept_connections;
use crate::clock;
use crate::config::Config;
use crate::connection;
use crate::counters::Histogram;
use crate::events::Event;
use crate::fetch::Hosts;
use crate::limits::{BLOCKING_THREADS_MAX, SWEEP_MS};
use crate::log::{LogSender, flush_periodically};
use crate::purger::Purger;
use crate::rules::RuleReport;
use crate::transport::{Listener, TcpConnector, TcpListener};
use crate::worker::{Worker, WorkerParts};

/// What the control thread tells a worker.
pub(crate) enum WorkerCommand {
    /// Accept from now on, from one more socket if there is one.
    Accept { further: Option<std::net::TcpListener> },
    /// Take these settings from now on; `done` hears when they hold.
    Reconfigure { config: Box<Config>, access_log: Option<LogSender>, done: oneshot::Sender<()> },
    /// Say what the header rules have done.
    CountRules { tell: oneshot::Sender<RuleReport> },
    /// Answer from the store, or look at it no more; `done` hears when that holds.
    UseStore { is_used: bool, done: oneshot::Sender<()> },
    /// Accept no more, finish what is under way, at the longest until `deadline_ms`.
    Drain { deadline_ms: u64, queues_are_passed_on: bool },
}

/// Everything that a worker starts with.
pub(crate) struct WorkerStart {
    pub(crate) index: usize,
    pub(crate) cpu: usize,
    pub(crate) listeners: Vec<std::net::TcpListener>,
    pub(crate) config: Config,
    pub(crate) store: Store,
    pub(crate) purger: Purger,
    pub(crate) hosts: Arc<Hosts>,
    pub(crate) counters: CounterSlot,
    pub(crate) access_log: Option<LogSender>,
    pub(crate) process_id: Arc<str>,
    pub(crate) via: Arc<str>,
}

/// The control thread's view of a worker.
pub(crate) struct WorkerThread {
    pub(crate) commands: mpsc::UnboundedSender<WorkerCommand>,
    /// Ends with true if every connection finished in time.
    pub(crate) thread: JoinHandle<bool>,
    is_up: std::sync::mpsc::Receiver<Result<(), StartError>>,
}

impl WorkerThread {
    /// Starts the thread, which accepts nothing before [`WorkerCommand::Accept`].
    ///
    /// # Errors
    /// The thread can't be made.
    pub(crate) fn start(start: WorkerStart) -> io::Result<WorkerThread> {
        let (commands, received) = mpsc::unbounded_channel();
        let (up, is_up) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new().name(format!("worker-{}", start.index)).spawn(
            move || {
                if let Err(error) = cpus::pin_this_thread(start.cpu) {
                    Event::NotPinned.log(&format_args!("CPU {}: {error}", start.cpu));
                }
                let runtime = match event_loop() {
                    Ok(runtime) => runtime,
                    Err(error) => {
                        // Who started this thread hears of it, if anybody does.
                        let _ = up.send(Err(StartError::Thread(error)));
                        return false;
                    }
                };
                let finished = with_known_stack(|| run(&runtime, start, &up, received));
                // Nobody knows how long the system takes for a name, and nobody waits for it now.
                runtime.shutdown_background();
                finished
            },
        )?;
        Ok(WorkerThread { commands, thread, is_up })
    }

    /// Waits until nothing can keep the worker from accepting.
    ///
    /// # Errors
    /// Its event loop can't be made, or a socket can't enter it, or it can't take part in the
    /// store.
    pub(crate) fn wait_until_up(&self) -> Result<(), StartError> {
        let ended = |_| Err(StartError::Thread(io::Error::other("a worker has ended")));
        self.is_up.recv().unwrap_or_else(ended)
    }
}

/// The event loop of the calling thread. Made by the thread itself, it lies in memory of its own:
/// what it writes for every request then shares no cache line with another worker's.
fn event_loop() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().max_blocking_threads(BLOCKING_THREADS_MAX).build()
}

/// The sockets in the event loop of the calling thread.
fn enter(sockets: Vec<std::net::TcpListener>) -> io::Result<Vec<Box<dyn Listener>>> {
    sockets.into_iter().map(TcpListener::register).collect()
}

/// Runs a worker to its end; true if every connection finished in time.
fn run(
    runtime: &Runtime,
    start: WorkerStart,
    up: &std::sync::mpsc::Sender<Result<(), StartError>>,
    commands: mpsc::UnboundedReceiver<WorkerCommand>,
) -> bool {
    let tasks = LocalSet::new();
    // Who started this thread hears of it; if nobody does, there are no commands either.
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
    runtime.block_on(timed(turns, |ns| worker.observe(Histogram::LoopTurn, ns)))
}

/// Tells of each poll of `turns` how many nanoseconds it took. Polled by an event loop, that is
/// what happens between two looks at the sockets.
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

/// Makes a worker that can serve, with the sockets that it accepts from.
async fn prepare(start: WorkerStart) -> Result<(Rc<Worker>, Vec<Box<dyn Listener>>), StartError> {
    let store = attach_store(&start.store).await?;
    let listeners = enter(start.listeners).map_err(StartError::Thread)?;
    let worker = Worker::new(WorkerParts {
        config: start.config,
        store,
        purger: start.purger,
        hosts: start.hosts,
        connector: Box::new(TcpConnector),
        counters: start.counters,
        access_log: start.access_log,
        process_id: start.process_id,
        index: start.index,
        via: start.via,
    });
    Ok((Rc::new(worker), listeners))
}

/// Does what the control thread says, beside what the worker does by itself.
async fn work(
    worker: Rc<Worker>,
    mut listeners: Vec<Box<dyn Listener>>,
    mut commands: mpsc::UnboundedReceiver<WorkerCommand>,
) -> bool {
    let mut accepting = None;
    tokio::task::spawn_local(Rc::clone(&worker).make_room());
    tokio::task::spawn_local(sweep_periodically(Rc::clone(&worker)));
    tokio::task::spawn_local(flush_periodically(Rc::clone(&worker)));
    while let Some(command) = commands.recv().await {
        match command {
            WorkerCommand::Accept { further } => {
                match enter(further.into_iter().collect()) {
                    Ok(further) => listeners.extend(further),
                    // It gets no connections when it is closed; the others go on.
                    Err(error) => Event::AcceptFailed.log(&error),
                }
                let (worker, listeners) = (Rc::clone(&worker), std::mem::take(&mut listeners));
                let accept = accept_connections(worker, listeners, connection::spawn);
                accepting = Some(tokio::task::spawn_local(accept));
            }
            WorkerCommand::Reconfigure { config, access_log, done } => {
                worker.reconfigure(*config, access_log);
                // The control thread may have given up waiting; the settings hold all the same.
                let _ = done.send(());
            }
            WorkerCommand::CountRules { tell } => {
                // Who asked may have gone.
                let _ = tell.send(RuleReport::new(&worker.config()));
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

/// Waits for the accept queue, the connections and the fetches; true if all ended in time.
async fn drained(
    worker: &Worker,
    accepting: Option<tokio::task::JoinHandle<()>>,
    deadline_ms: u64,
) -> bool {
    let mut ticks = tokio::time::interval(Duration::from_millis(SWEEP_MS));
    loop {
        // A connection may have become idle in this turn.
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

/// Ends waits that have lasted too long.
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
        }
    }
}

/// Idle origin connections are looked at once a second.
const ORIGIN_SWEEP_TICKS: u64 = 1000 / SWEEP_MS;

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

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
