//! The reasons why a server could not start, with messages for the user.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use forebay_cache::OpenError;
use forebay_shm::{CounterError, GuardError, JoinError};

use super::cgroup::MemoryLimit;
use super::upgrade::UpgradeError;
use crate::limits::PROGRAM_BYTES;

/// The reason why a server could not start.
#[derive(Debug)]
pub enum StartError {
    /// The server cannot listen on the address for clients.
    Listen(SocketAddr, io::Error),
    /// The server cannot listen on the address or socket of the admin interface.
    Admin(String, io::Error),
    /// The server cannot listen on the socket for upgrades.
    UpgradeSocket(PathBuf, io::Error),
    /// A running server refuses to hand over, or its sockets are unusable.
    Upgrade(UpgradeError),
    /// The descriptor of a socket cannot be duplicated.
    Descriptors(io::Error),
    /// The file with the address of the admin interface cannot be written.
    AdminAddress(io::Error),
    /// The counter file cannot be created.
    Counters(CounterError),
    /// The cache directory cannot be used.
    CacheDir(GuardError),
    /// The cache directory belongs to another server, from which this process cannot take over.
    CacheDirKept(GuardError),
    /// The cache cannot be created.
    Cache(OpenError),
    /// A thread cannot attach to the cache.
    Join(JoinError),
    /// The access log cannot be opened.
    AccessLog(io::Error),
    /// The cache does not fit into the memory limit of the process.
    Memory {
        /// The setting `cache_size`, in bytes.
        cache_size: u64,
        /// The limit.
        limit: MemoryLimit,
    },
    /// A second cache does not fit beside the memory that is in use.
    MemoryInUse {
        /// The setting `cache_size`, in bytes.
        cache_size: u64,
        /// Memory in use by the control group.
        used_bytes: u64,
        /// The limit.
        limit: MemoryLimit,
    },
    /// The settings for TLS cannot be used.
    Tls(String),
    /// A thread or its event loop cannot be created.
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
            StartError::UpgradeSocket(path, error) => {
                write!(f, "cannot listen for upgrades at {}: {error}", path.display())
            }
            StartError::Upgrade(error) => write!(f, "cannot take over: {error}"),
            StartError::Descriptors(error) => write!(f, "cannot duplicate a socket: {error}"),
            StartError::AdminAddress(error) => {
                write!(f, "cannot write the file with the address of the admin interface: {error}")
            }
            StartError::Counters(error) => write!(f, "cannot create the counter file: {error}"),
            StartError::CacheDir(error @ GuardError::Held { .. }) => {
                write!(
                    f,
                    "cannot use the cache directory {error}, or take over \
                     with `--upgrade`"
                )
            }
            StartError::CacheDirKept(error) => write!(
                f,
                "cannot use the cache directory {error}; its server has another `runtime_dir` or \
                 `listen`, or has handed over and is finishing its requests"
            ),
            StartError::CacheDir(error) => write!(f, "cannot use the cache directory {error}"),
            StartError::Cache(error) => write!(f, "cannot create the cache: {error}"),
            StartError::Join(error) => write!(f, "cannot attach to the cache: {error}"),
            StartError::AccessLog(error) => write!(f, "cannot open the access log: {error}"),
            StartError::Memory { cache_size, limit } => write!(
                f,
                "cache_size ({} MiB) and {} MiB for the program exceed the memory limit of {} MiB \
                 in {}; lower cache_size, or raise the limit",
                cache_size >> 20,
                PROGRAM_BYTES >> 20,
                limit.bytes >> 20,
                limit.file.display()
            ),
            StartError::MemoryInUse { cache_size, used_bytes, limit } => write!(
                f,
                "a second cache of {} MiB and {} MiB for the program do not fit beside {} MiB in \
                 use, under the memory limit of {} MiB in {}; stop the running server and start \
                 this one, or raise the limit",
                cache_size >> 20,
                PROGRAM_BYTES >> 20,
                used_bytes >> 20,
                limit.bytes >> 20,
                limit.file.display()
            ),
            StartError::Tls(why) => write!(f, "cannot use TLS: {why}"),
            StartError::Thread(error) => write!(f, "cannot start a thread: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> StartError {
        StartError::Thread(error)
    }
}
