//! Starting a server: everything that can fail does so before the first connection is accepted.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use forebay_cache::{Store, StoreConfig};
use forebay_shm::{CounterError, CounterFile};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

use super::control::{Control, ControlParts, Hooks};
use super::places::{AdminListener, AdminPlace, runtime_dir};
use super::signals::{self, Signals};
use super::worker_thread::{WorkerStart, WorkerThread};
use super::{cpus, files};
use crate::accept::Listeners;
use crate::clock;
use crate::config::Config;
use crate::counters::COUNTERS;
use crate::fetch::{Hosts, Resolver};
use crate::limits::DECLINED_MS;
use crate::log::LogWriter;

/// A started server: its workers serve; [`Running::run`] serves admin requests and waits.
pub struct Running {
    /// Where clients connect to.
    pub address: SocketAddr,
    /// Where the admin interface is.
    pub admin: AdminPlace,
    control: Control,
    admin_listener: AdminListener,
    event_loop: (Runtime, Signals),
    stop: mpsc::UnboundedReceiver<()>,
    stopper: Stopper,
}

/// Stops a server from another thread, as SIGTERM does.
#[derive(Clone, Debug)]
pub struct Stopper(mpsc::UnboundedSender<()>);

impl Stopper {
    /// Tells the server to stop; it finishes what is under way.
    pub fn stop(&self) {
        // A server that has stopped already needs no telling.
        let _ = self.0.send(());
    }
}

/// Why a server could not start.
#[derive(Debug)]
pub enum StartError {
    /// The address for clients can't be listened on.
    Listen(SocketAddr, io::Error),
    /// The admin interface can't be listened on.
    Admin(String, io::Error),
    /// The counter file can't be made.
    Counters(CounterError),
    /// The cache can't be made.
    Cache(String),
    /// The access log can't be opened.
    AccessLog(io::Error),
    /// A thread or its event loop can't be made.
    Thread(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Listen(address, error) => {
                write!(f, "cannot listen on {address}: {error}")
            }
            StartError::Admin(place, error) => {
                write!(f, "cannot listen for admin requests at {place}: {error}")
            }
            StartError::Counters(error) => write!(f, "cannot make the counter file: {error}"),
            StartError::Cache(error) => write!(f, "cannot make the cache: {error}"),
            StartError::AccessLog(error) => write!(f, "cannot open the access log: {error}"),
            StartError::Thread(error) => write!(f, "cannot start a worker: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

/// Starts a server; the system resolves the names of origins.
///
/// # Errors
/// See [`StartError`]; nothing is left running then.
pub fn start(config: Config, hooks: Hooks) -> Result<Running, StartError> {
    start_with_resolver(config, hooks, Resolver::system())
}

/// Starts a server for which `resolver` resolves the names of origins.
///
/// # Errors
/// See [`StartError`]; nothing is left running then.
pub fn start_with_resolver(
    config: Config,
    hooks: Hooks,
    resolver: Resolver,
) -> Result<Running, StartError> {
    // While there is one thread, the kernel does it at once.
    forebay_sync::bravo::prepare();
    let cpus = cpus::allowed();
    let worker_count = match config.server.workers {
        0 => cpus.len(),
        count => count,
    };
    files::raise_limit(&config.server, worker_count);
    let listen = config.server.listen;
    let listeners =
        Listeners::bind(listen, worker_count).map_err(|error| StartError::Listen(listen, error))?;
    let address = listeners.address;
    let dir = runtime_dir(&config.server.runtime_dir);
    forebay_shm::create_private_dir(&dir).map_err(StartError::Counters)?;
    let counters_path = dir.join(format!("{}.counters", address.port()));
    // One slot for each worker and one for the control thread.
    let counters = CounterFile::create(Some(&counters_path), COUNTERS, worker_count + 1)
        .map_err(StartError::Counters)?;
    let store = Arc::new(make_store(&config)?);
    let hosts = Arc::new(Hosts::new(resolver));
    let log_writer = LogWriter::open(&config.server).map_err(StartError::AccessLog)?;
    let via: Arc<str> = via_name(address).into();
    // Bound last of what can fail, so that a failed start leaves no socket behind.
    let admin_listener = bind_admin(&config, address)?;
    let admin = admin_listener
        .place()
        .map_err(|error| StartError::Admin(config.server.admin.to_string(), error))?;
    let event_loop = signals::event_loop().map_err(StartError::Thread)?;
    let workers = listeners
        .sockets
        .into_iter()
        .enumerate()
        .map(|(index, listener)| {
            WorkerThread::start(WorkerStart {
                index,
                cpu: cpus.get(index % cpus.len()).copied().unwrap_or(0),
                listener,
                config: config.clone(),
                store: Arc::clone(&store),
                hosts: Arc::clone(&hosts),
                counters: counters.slot(index),
                access_log: log_writer.as_ref().map(LogWriter::sender),
                via: Arc::clone(&via),
            })
        })
        .collect::<io::Result<Vec<_>>>()
        .map_err(StartError::Thread)?;
    let (stop_sender, stop) = mpsc::unbounded_channel();
    let control = Control::new(ControlParts {
        config,
        hooks,
        workers,
        store,
        hosts,
        slot: counters.slot(worker_count),
        counters,
        log_writer,
        admin: admin.clone(),
    });
    let stopper = Stopper(stop_sender);
    Ok(Running { address, admin, control, admin_listener, event_loop, stop, stopper })
}

impl Running {
    /// The server's counters, as they are counted.
    pub fn counters(&self) -> CounterFile {
        self.control.counters.clone()
    }

    /// A way to stop this server from another thread.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Serves admin requests and hears signals until the server is told to stop, then waits for
    /// the requests under way. True if all of them finished in time.
    ///
    /// # Errors
    /// The control thread's event loop can't be made.
    pub fn run(self) -> io::Result<bool> {
        let Running { control, admin_listener, event_loop, stop, stopper, .. } = self;
        let finished = control.run(admin_listener, event_loop, stop);
        // Until now, or the channel by which the server is told to stop would close.
        drop(stopper);
        finished
    }
}

fn bind_admin(config: &Config, address: SocketAddr) -> Result<AdminListener, StartError> {
    AdminListener::bind(&config.server, address.port())
        .map_err(|error| StartError::Admin(config.server.admin.to_string(), error))
}

fn make_store(config: &Config) -> Result<Store, StartError> {
    let budget_bytes = config.server.cache_size;
    let growing_percent = u64::from(config.server.growing_percent_max);
    let growing_bytes_max = budget_bytes / 100 * growing_percent;
    let store = StoreConfig {
        growing_bytes_max,
        object_bytes_max: growing_bytes_max,
        declined_ms: DECLINED_MS,
        ..StoreConfig::with_budget(budget_bytes)
    };
    Store::new(store).map_err(|error| StartError::Cache(error.to_string()))
}

/// A name that no other server has, so that a request that comes back is known (RFC 9110 §7.6.3).
fn via_name(address: SocketAddr) -> String {
    use std::hash::{BuildHasher, Hasher};
    let mut random = std::hash::RandomState::new().build_hasher();
    random.write_u64(clock::unix_ms());
    format!("forebay-{:08x}-{}", random.finish() & 0xffff_ffff, address.port())
}
