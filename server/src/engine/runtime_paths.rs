//! Paths in the runtime directory: the sockets for admin requests and upgrades, the address of the
//! admin interface, the counter file and the lock profile.

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use tokio::net::{TcpListener, UnixListener};

use crate::config::{AdminAddress, RuntimeDir, ServerSettings};

/// Returns the runtime directory, for files that exist while their server runs.
pub fn runtime_dir(setting: &RuntimeDir) -> PathBuf {
    let xdg = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    setting.resolve(xdg.as_deref(), rustix::process::geteuid().as_raw())
}

/// Returns the path of a server's admin socket. Files in a runtime directory are named after the
/// port of their server. So several servers can share the directory, and a client that does not
/// know the port can still find the server if there is only one.
pub fn admin_socket(runtime_dir: &Path, port: u16) -> PathBuf {
    runtime_dir.join(format!("{port}.admin"))
}

/// Returns the path of the file with the address of a server's admin interface.
pub(super) fn admin_address_file(runtime_dir: &Path, port: u16) -> PathBuf {
    runtime_dir.join(format!("{port}.admin-address"))
}

/// Returns the path of the socket at which a server waits for a process that takes over.
pub fn upgrade_socket(runtime_dir: &Path, port: u16) -> PathBuf {
    runtime_dir.join(format!("{port}.upgrade"))
}

/// Returns the path of a server's counter file.
pub(super) fn counter_file(runtime_dir: &Path, port: u16) -> PathBuf {
    runtime_dir.join(format!("{port}.counters"))
}

/// Returns the path of a server's lock profile.
pub(super) fn lock_profile_file(runtime_dir: &Path, port: u16) -> PathBuf {
    runtime_dir.join(format!("{port}.locks"))
}

/// The name of a Unix socket in the file system. Dropping this value removes the name, unless
/// another process uses the socket.
#[derive(Debug)]
pub(super) struct SocketName {
    path: PathBuf,
    is_ours: Cell<bool>,
}

impl SocketName {
    /// Sets whether this process removes the name when it ends.
    pub(super) fn set_ours(&self, is_ours: bool) {
        self.is_ours.set(is_ours);
    }
}

impl Drop for SocketName {
    fn drop(&mut self) {
        if self.is_ours.get() {
            // The name may have been removed already.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// A bound Unix socket with its name, not yet in an event loop.
#[derive(Debug)]
pub(super) struct UnixSocket {
    pub(super) listener: std::os::unix::net::UnixListener,
    pub(super) name: SocketName,
}

impl UnixSocket {
    /// Binds a socket. If a socket with this path exists but no server answers there, a killed
    /// server has left the socket behind, and it is replaced.
    pub(super) fn bind(path: PathBuf) -> io::Result<UnixSocket> {
        if UnixStream::connect(&path).is_ok() {
            let message = "another server answers at this socket";
            return Err(io::Error::new(io::ErrorKind::AddrInUse, message));
        }
        let is_socket =
            std::fs::symlink_metadata(&path).is_ok_and(|meta| meta.file_type().is_socket());
        if is_socket {
            std::fs::remove_file(&path)?;
        }
        let listener = bind_private(&path)?;
        let name = SocketName { path, is_ours: Cell::new(true) };
        listener.set_nonblocking(true)?;
        Ok(UnixSocket { listener, name })
    }

    /// Wraps a socket that was inherited from another process. That process still owns the name.
    pub(super) fn take_over(
        listener: std::os::unix::net::UnixListener,
        path: PathBuf,
    ) -> io::Result<UnixSocket> {
        listener.set_nonblocking(true)?;
        Ok(UnixSocket { listener, name: SocketName { path, is_ours: Cell::new(false) } })
    }
}

/// Binds a socket to which only its owner may connect, from the first moment on. Does not change
/// the umask for this, because all threads share the umask.
fn bind_private(path: &Path) -> io::Result<std::os::unix::net::UnixListener> {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
    let socket = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    // Linux creates the file with the mode of the socket, less the umask. Other systems may refuse
    // to change the mode of a socket without a file.
    let _ = rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR);
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    // No client can connect before the socket listens.
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o600))?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

/// Connections that wait to be accepted: the same number as in the standard library.
const BACKLOG: i32 = 128;

/// Address of an admin listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminEndpoint {
    /// A TCP port on loopback.
    Tcp(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
}

impl std::fmt::Display for AdminEndpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            AdminEndpoint::Tcp(address) => address.fmt(f),
            AdminEndpoint::Unix(path) => path.display().fmt(f),
        }
    }
}

/// A bound admin listener, not yet in an event loop.
#[derive(Debug)]
pub(super) enum AdminListener {
    Tcp(std::net::TcpListener),
    Unix(UnixSocket),
}

/// An admin listener in the event loop.
pub(crate) enum AdminAcceptor {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl AdminListener {
    /// Binds the endpoint of the settings; `port` is the port for clients.
    pub(super) fn bind(settings: &ServerSettings, port: u16) -> io::Result<AdminListener> {
        match wanted(settings, port) {
            AdminEndpoint::Tcp(address) => {
                let listener = std::net::TcpListener::bind(address)?;
                listener.set_nonblocking(true)?;
                Ok(AdminListener::Tcp(listener))
            }
            AdminEndpoint::Unix(path) => UnixSocket::bind(path).map(AdminListener::Unix),
        }
    }

    /// Takes over the listener of another process; `None` if the settings have another endpoint.
    pub(super) fn take_over(
        passed: OwnedFd,
        settings: &ServerSettings,
        port: u16,
    ) -> io::Result<Option<AdminListener>> {
        let wanted = wanted(settings, port);
        let found = socket2::SockRef::from(&passed).local_addr()?;
        match wanted {
            AdminEndpoint::Tcp(address) if found.as_socket() == Some(address) => {
                let listener = std::net::TcpListener::from(passed);
                listener.set_nonblocking(true)?;
                Ok(Some(AdminListener::Tcp(listener)))
            }
            AdminEndpoint::Unix(path) if found.as_pathname() == Some(&path) => {
                UnixSocket::take_over(passed.into(), path).map(AdminListener::Unix).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Duplicates the listener's descriptor.
    pub(super) fn copy(&self) -> io::Result<OwnedFd> {
        match self {
            AdminListener::Tcp(listener) => Ok(listener.try_clone()?.into()),
            AdminListener::Unix(socket) => Ok(socket.listener.try_clone()?.into()),
        }
    }

    pub(super) fn endpoint(&self) -> io::Result<AdminEndpoint> {
        match self {
            AdminListener::Tcp(listener) => Ok(AdminEndpoint::Tcp(listener.local_addr()?)),
            AdminListener::Unix(socket) => Ok(AdminEndpoint::Unix(socket.name.path.clone())),
        }
    }

    /// Registers the listener with the event loop of the calling thread. Also returns the name of a
    /// Unix socket; dropping the name removes it.
    pub(super) fn enter(self) -> io::Result<(AdminAcceptor, Option<SocketName>)> {
        match self {
            AdminListener::Tcp(listener) => {
                Ok((AdminAcceptor::Tcp(TcpListener::from_std(listener)?), None))
            }
            AdminListener::Unix(UnixSocket { listener, name }) => {
                Ok((AdminAcceptor::Unix(UnixListener::from_std(listener)?), Some(name)))
            }
        }
    }
}

fn wanted(settings: &ServerSettings, port: u16) -> AdminEndpoint {
    match &settings.admin {
        AdminAddress::Loopback(address) => AdminEndpoint::Tcp(*address),
        AdminAddress::Path(path) => AdminEndpoint::Unix(path.clone()),
        AdminAddress::Auto => {
            AdminEndpoint::Unix(admin_socket(&runtime_dir(&settings.runtime_dir), port))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_created_without_permissions_for_others() {
        let dir = forebay_testkit::server::Folder::new();
        let path = dir.path("socket");
        let _listener = bind_private(&path).expect("the folder is ours");
        let mode = std::fs::metadata(&path).expect("bound").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        UnixStream::connect(&path).expect("it listens");
    }
}
