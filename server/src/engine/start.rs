//! Starts a server. Everything that can fail is done before the first connection is accepted.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use forebay_cache::{Store, StoreConfig};
use forebay_shm::{
    CounterFile, DirGuard, GuardError, Opened, ReplacedWhy, UnnamedCounters, UnnamedProfile,
    UnnamedRegion,
};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

use super::admin_address::AdminAddressFile;
use super::attach_store::AttachDeadline;
use super::cgroup::{check_memory, check_memory_beside};
use super::control::{Control, ControlParts, Hooks};
use super::process_names::{process_id, via_name};
use super::reload::config_warnings;
use super::resources::{ControlSockets, ServerResources};
use super::runtime_paths::{AdminEndpoint, counter_file, runtime_dir, upgrade_socket};
use super::services::ServiceTable;
use super::signals::{self, Signals};
use super::start_error::StartError;
use super::upgrade::{Predecessor, Readiness, UpgradeTotals};
use super::worker_thread::{WorkerStart, WorkerThread};
use super::{cpus, files, lock_profile, privileges};
use crate::acme::Challenges;
use crate::config::Config;
use crate::counters::{COUNTERS, Counter};
use crate::event_queue;
use crate::events::Event;
use crate::fetch::{Hosts, Resolver};
use crate::log::LogWriters;
use crate::purger::PurgerThread;
use crate::rate_limits::RateLimiter;
use crate::transport::tls::{TlsAcceptor, acceptor};
use crate::transport::{ListenSocket, Listeners};

/// A started server, whose workers already serve. [`Running::run`] serves admin requests and waits
/// for the end.
pub struct Running {
    /// The address for clients: the first one of `listen`.
    pub address: SocketAddr,
    /// The URLs of all addresses for clients, such as `http://127.0.0.1:8080`.
    pub urls: Vec<String>,
    /// The address of the admin interface.
    pub admin: AdminEndpoint,
    control: Control,
    sockets: ControlSockets,
    event_loop: (Runtime, Signals),
    stop: mpsc::UnboundedReceiver<()>,
    stopper: Stopper,
}

/// Stops a server from another thread, as SIGTERM does.
#[derive(Clone, Debug)]
pub struct Stopper(mpsc::UnboundedSender<()>);

impl Stopper {
    /// Tells the server to stop. It first finishes the requests in progress.
    pub fn stop(&self) {
        // The server may have stopped already.
        let _ = self.0.send(());
    }
}

/// Starts a server. The system's resolver resolves the names of origins.
///
/// # Errors
/// See [`StartError`]; the server does not run then.
pub fn start(config: Config, hooks: Hooks) -> Result<Running, StartError> {
    start_with_resolver(config, hooks, Resolver::system())
}

/// Starts a server for which `resolver` resolves the names of origins.
///
/// # Errors
/// See [`StartError`]; the server does not run then.
pub fn start_with_resolver(
    mut config: Config,
    hooks: Hooks,
    resolver: Resolver,
) -> Result<Running, StartError> {
    let worker_count = prepare(&mut config)?;
    let resources = ServerResources::bind(&config.server, worker_count)?;
    let mut built = PreparedServer::new(config, hooks, resolver, resources)?;
    // The address comes first: a file that a killed server left behind must not be taken for that
    // of this server, which counts as running once its counter file has its name.
    built.running.write_admin_address().map_err(StartError::AdminAddress)?;
    built.counters_name.name().map_err(StartError::Counters)?;
    lock_profile::name(&built.running.control, built.profile_name);
    tell_opened(built.running.control.store.opened());
    built.running.control.accept(built.further);
    Ok(built.running)
}

/// Starts a server that takes over from the running server with the same runtime directory and
/// address. If no such server runs, starts a server in the same way as [`start`].
///
/// # Errors
/// See [`StartError`]; a running server then continues unchanged.
pub fn upgrade(mut config: Config, hooks: Hooks) -> Result<Running, StartError> {
    let worker_count = prepare(&mut config)?;
    let dir = runtime_dir(&config.server.runtime_dir);
    let path = upgrade_socket(&dir, config.server.listen.first.port());
    let met = Predecessor::meet(&path, &config.server).map_err(StartError::Upgrade)?;
    let Some((predecessor, taken)) = met else {
        Event::NobodyToUpgrade.log(&path.display());
        return start(config, hooks).map_err(|error| match error {
            StartError::CacheDir(held @ GuardError::Held { .. }) => StartError::CacheDirKept(held),
            other => other,
        });
    };
    let totals = taken.totals;
    // Without a cache directory the two processes cannot share a cache.
    let has_room = match config.server.cache_dir.path() {
        None => check_memory_beside(&config.server),
        Some(_) => Ok(()),
    };
    let resources =
        has_room.and_then(|()| ServerResources::take_over(taken, &config.server, worker_count));
    let built = resources.and_then(|resources| {
        let has_admin = resources.has_its_admin;
        let built = PreparedServer::new(config, hooks, Resolver::system(), resources)?;
        let shares_store = *built.running.control.store.opened() == Opened::Attached;
        Ok((built, Readiness { has_admin, shares_store }))
    });
    let (built, readiness) = match built {
        Ok(built) => built,
        Err(error) => {
            predecessor.decline(&error);
            return Err(error);
        }
    };
    forebay_shm::crash_point!("upgrade.built");
    predecessor.commit(readiness).map_err(StartError::Upgrade)?;
    Ok(built.take_over(totals))
}

/// Prepares the process before it starts threads; returns the number of workers.
fn prepare(config: &mut Config) -> Result<usize, StartError> {
    // Registering for `membarrier` does not have to wait while the process has only one thread.
    forebay_sync::bravo::prepare();
    check_memory(&config.server)?;
    let worker_count = config.server.worker_count();
    privileges::warn_of_root();
    config_warnings(config);
    files::fit_limit(config, worker_count);
    let dir = runtime_dir(&config.server.runtime_dir);
    forebay_shm::create_private_dir(&dir).map_err(StartError::Counters)?;
    Ok(worker_count)
}

/// A server that is ready to serve, but does not accept connections and has not named its files
/// yet.
struct PreparedServer {
    running: Running,
    counters_name: UnnamedCounters,
    profile_name: Option<UnnamedProfile>,
    /// The cache file, if it is new and has no name yet.
    region_name: Option<UnnamedRegion>,
    /// The additional sockets of each worker, which do not listen yet.
    further: Vec<Vec<ListenSocket>>,
}

impl PreparedServer {
    fn new(
        mut config: Config,
        hooks: Hooks,
        resolver: Resolver,
        resources: ServerResources,
    ) -> Result<PreparedServer, StartError> {
        let has_predecessor = resources.has_predecessor;
        let ServerResources { listeners, ticket_keys, sockets, guard, worker_count, .. } =
            resources;
        let address = listeners.first.address;
        let urls = listeners.urls();
        let runtime_dir = runtime_dir(&config.server.runtime_dir);
        let counters_path = counter_file(&runtime_dir, address.port());
        // One slot for each worker, one for the control thread and one for the purge thread.
        let counters_name = CounterFile::prepare(&counters_path, COUNTERS, worker_count + 2)
            .map_err(StartError::Counters)?;
        let counters = counters_name.file();
        let admin = sockets
            .admin
            .endpoint()
            .map_err(|error| StartError::Admin(config.server.admin.to_string(), error))?;
        // From here on other threads may log events, which must not wait for standard error.
        event_queue::start_writer().map_err(StartError::Thread)?;
        let event_loop = signals::event_loop().map_err(StartError::Thread)?;
        let cache_file = config.server.cache_dir.path().map(|dir| dir.join(REGION_FILE));
        let wanted = StoreConfig { path: cache_file, ..config.server.store(worker_count) };
        // Until the handover, the existing file belongs to the running server.
        let opened = match has_predecessor {
            true => Store::prepare(wanted),
            false => Store::open(wanted).map(|store| (store, None)),
        };
        let (store, region_name) = opened.map_err(StartError::Cache)?;
        let attach = AttachDeadline::begin();
        let store_worker = event_loop.0.block_on(attach.attach(&store))?;
        // Segments that dead processes left open must be checked before lookups can find them.
        store_worker.mend();
        // The profile is optional, so it comes last: it must not use memory that other files need.
        let profile = lock_profile::prepare(&config.server, &runtime_dir, address.port());
        let (joined, purger_attach) = (store.clone(), attach.clone());
        let purger = PurgerThread::start(
            move || purger_loop()?.block_on(purger_attach.attach(&joined)),
            counters.slot(worker_count + 1),
        )?;
        let log_losses = Arc::default();
        let hosts = Arc::new(Hosts::new(resolver));
        let slot = counters.slot(worker_count);
        let count = |counter: Counter, amount| slot.add(counter.index(), amount);
        let services = ServiceTable::at_start(&mut config, &hosts, count);
        let mut parts = ControlParts {
            store,
            purger,
            store_worker,
            hosts,
            limiter: Arc::new(RateLimiter::new(&config)),
            log_writers: LogWriters::open(&config, &log_losses).map_err(StartError::AccessLog)?,
            log_losses,
            workers: Vec::new(),
            slot,
            counters,
            config,
            hooks,
            guard,
            ticket_keys,
            services,
        };
        let (of_workers, further) = listeners.spread(worker_count);
        parts.workers = start_workers(&parts, (address, &attach), of_workers)?;
        let (stop_sender, stop) = mpsc::unbounded_channel();
        let stopper = Stopper(stop_sender);
        let control = Control::new(parts);
        let profile_name = lock_profile::told(&control, profile);
        let running = Running { address, urls, admin, control, sockets, event_loop, stop, stopper };
        Ok(PreparedServer { running, counters_name, profile_name, region_name, further })
    }

    /// Serves in place of a server that has handed over. From here on, failures are logged instead
    /// of ending the process.
    fn take_over(self, totals: UpgradeTotals) -> Running {
        let PreparedServer { mut running, counters_name, profile_name, region_name, further } =
            self;
        // The cache file is named first: a later process must not find the old file, which is no
        // longer up to date.
        if let Some(Err(error)) = region_name.map(UnnamedRegion::name) {
            Event::UpgradeIncomplete.log(&error);
        }
        tell_opened(running.control.store.opened());
        let listening = further.into_iter().map(|mut of_worker| {
            of_worker.retain(|further| {
                let listens = Listeners::listen_further(&further.socket);
                listens.map_err(|error| Event::AcceptFailed.log(&error)).is_ok()
            });
            of_worker
        });
        running.control.accept(listening.collect());
        running.sockets.own();
        if let Err(error) = running.write_admin_address() {
            Event::UpgradeIncomplete.log(&StartError::AdminAddress(error));
        }
        let control = &running.control;
        lock_profile::name(control, profile_name);
        if let Err(error) = counters_name.name() {
            Event::UpgradeIncomplete.log(&error);
        }
        if let Some(Err(error)) = control.guard.as_ref().map(DirGuard::sign) {
            Event::UpgradeIncomplete.log(&error);
        }
        control.count(Counter::Upgrades, totals.upgrades + 1);
        control.count(Counter::UpgradesFailed, totals.upgrades_failed);
        Event::TookOver
            .log(&format_args!("this is upgrade {} since the first start", totals.upgrades + 1));
        running
    }
}

/// Creates the event loop of the purge thread, for attaching it to the store.
fn purger_loop() -> Result<Runtime, StartError> {
    tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(StartError::Thread)
}

/// Starts a thread for each worker, and waits until all of them are ready to accept.
fn start_workers(
    parts: &ControlParts,
    (address, attach): (SocketAddr, &AttachDeadline),
    of_workers: Vec<Vec<ListenSocket>>,
) -> Result<Vec<WorkerThread>, StartError> {
    let cpus = cpus::allowed();
    let via: Arc<str> = via_name(address).into();
    let process_id: Arc<str> = process_id().into();
    let tls = acceptor(&parts.config, &parts.ticket_keys, &Challenges::default())
        .map_err(StartError::Tls)?;
    let start = |(index, listeners): (usize, _)| {
        let started = WorkerThread::start(WorkerStart {
            index,
            tls: tls.as_ref().map(TlsAcceptor::for_worker),
            cpu: cpus.get(index % cpus.len()).copied().unwrap_or(0),
            listeners,
            config: parts.config.clone(),
            store: parts.store.clone(),
            attach: attach.clone(),
            purger: parts.purger.purger(),
            hosts: Arc::clone(&parts.hosts),
            limiter: Arc::clone(&parts.limiter),
            counters: parts.counters.slot(index),
            access_logs: parts.log_writers.senders(),
            process_id: Arc::clone(&process_id),
            via: Arc::clone(&via),
        });
        started.map_err(StartError::Thread)
    };
    let workers = of_workers.into_iter().enumerate().map(start);
    let workers = workers.collect::<Result<Vec<_>, StartError>>()?;
    workers.iter().try_for_each(WorkerThread::wait_until_up)?;
    Ok(workers)
}

impl Running {
    /// Returns the counter file, which the running server updates.
    pub fn counters(&self) -> CounterFile {
        self.control.counters.clone()
    }

    /// Leaves the address of the admin interface for clients.
    fn write_admin_address(&mut self) -> io::Result<()> {
        let dir = self.control.with_config(|config| runtime_dir(&config.server.runtime_dir));
        let written = AdminAddressFile::write(&dir, self.address.port(), &self.admin)?;
        self.sockets.admin_address = Some(written);
        Ok(())
    }

    /// Returns a handle that can stop this server from another thread.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Serves admin requests and handles signals until the server is told to stop, then waits for
    /// requests in progress. Returns whether all of them finished in time.
    ///
    /// # Errors
    /// A socket cannot be registered with the control thread's event loop.
    pub fn run(self) -> io::Result<bool> {
        let Running { control, sockets, event_loop, stop, stopper, .. } = self;
        let finished = control.run(sockets, event_loop, stop);
        // The stopper is kept until here, because the channel closes when the last sender is
        // dropped.
        drop(stopper);
        finished
    }
}

/// Logs whether the cache is warm and, if it is not, why.
fn tell_opened(opened: &Opened) {
    let why = match opened {
        Opened::Created => return Event::CacheOpened.log(&"the cache was created empty"),
        Opened::Attached => return Event::CacheOpened.log(&"the cache was found with its content"),
        Opened::Replaced { why } => why,
    };
    match why {
        ReplacedWhy::OtherBoot => {
            Event::CacheReplaced.log(&"the cache was created before the last boot")
        }
        ReplacedWhy::OtherLayout { found } => {
            Event::CacheReplaced.log(&format_args!(
                "the cache has layout version {found}, which this program cannot read"
            ));
        }
        ReplacedWhy::OtherPlan => {
            Event::CacheReplaced
                .log(&"the cache was created for another size or number of workers");
        }
        ReplacedWhy::Damaged { what, kept } => Event::CacheReplaced.log(&format_args!(
            "the cache is damaged ({what}); {}",
            kept.as_ref().map_or(
                "the old file was removed, because there was no room for it".to_owned(),
                |path| format!("the old file was kept as {}", path.display())
            )
        )),
    }
}

/// The name of the store's file in the cache directory.
pub const REGION_FILE: &str = "store";
