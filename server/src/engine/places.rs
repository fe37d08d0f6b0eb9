//! Where a server keeps its admin socket and its counter file.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use tokio::net::{TcpListener, UnixListener};

use crate::config::{AdminAddress, RuntimeDir, ServerSettings};

/// The directory for what lives as long as a server does.
pub fn runtime_dir(setting: &RuntimeDir) -> PathBuf {
    let xdg = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    setting.resolve(xdg.as_deref(), rustix::process::geteuid().as_raw())
}

/// Admin sockets in a runtime directory are named by the port that their server listens on, so
/// that servers with the same settings do not meet, and a client finds the only one.
pub fn admin_socket(runtime_dir: &Path, port: u16) -> PathBuf {
    runtime_dir.join(format!("{port}.admin"))
}

/// Where an admin listener is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminPlace {
    /// A TCP port on loopback.
    Tcp(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
}

impl std::fmt::Display for AdminPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            AdminPlace::Tcp(address) => address.fmt(f),
            AdminPlace::Unix(path) => path.display().fmt(f),
        }
    }
}

/// A bound admin listener, not yet in an event loop.
#[derive(Debug)]
pub(crate) enum AdminListener {
    Tcp(std::net::TcpListener),
    Unix(std::os::unix::net::UnixListener, PathBuf),
}

/// An admin listener in the event loop.
pub(crate) enum AdminAcceptor {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl AdminListener {
    /// Binds what the settings name; `port` is the one that clients use.
    pub(crate) fn bind(settings: &ServerSettings, port: u16) -> io::Result<AdminListener> {
        match &settings.admin {
            AdminAddress::Loopback(address) => {
                let listener = std::net::TcpListener::bind(address)?;
                listener.set_nonblocking(true)?;
                Ok(AdminListener::Tcp(listener))
            }
            AdminAddress::Path(path) => AdminListener::bind_unix(path.clone()),
            AdminAddress::Auto => {
                let dir = runtime_dir(&settings.runtime_dir);
                AdminListener::bind_unix(admin_socket(&dir, port))
            }
        }
    }

    /// A socket that nobody answers at is what a killed server left, and is replaced.
    fn bind_unix(path: PathBuf) -> io::Result<AdminListener> {
        if UnixStream::connect(&path).is_ok() {
            let message = "another server answers at this admin socket";
            return Err(io::Error::new(io::ErrorKind::AddrInUse, message));
        }
        let is_socket = std::fs::symlink_metadata(&path).is_ok_and(|meta| {
            use std::os::unix::fs::FileTypeExt;
            meta.file_type().is_socket()
        });
        if is_socket {
            std::fs::remove_file(&path)?;
        }
        let listener = std::os::unix::net::UnixListener::bind(&path)?;
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        Ok(AdminListener::Unix(listener, path))
    }

    pub(crate) fn place(&self) -> io::Result<AdminPlace> {
        match self {
            AdminListener::Tcp(listener) => Ok(AdminPlace::Tcp(listener.local_addr()?)),
            AdminListener::Unix(_, path) => Ok(AdminPlace::Unix(path.clone())),
        }
    }

    /// Enters the event loop of the calling thread.
    pub(crate) fn enter(self) -> io::Result<AdminAcceptor> {
        match self {
            AdminListener::Tcp(listener) => {
                Ok(AdminAcceptor::Tcp(TcpListener::from_std(listener)?))
            }
            AdminListener::Unix(listener, _) => {
                Ok(AdminAcceptor::Unix(UnixListener::from_std(listener)?))
            }
        }
    }
}
