//! The sockets of a server, with their names, and the lock of its cache directory. They are created
//! by this process, or taken over from a running server.

use std::io;
use std::net::TcpListener;

use forebay_shm::DirGuard;

use super::admin_address::AdminAddressFile;
use super::runtime_paths::{AdminListener, UnixSocket, runtime_dir, upgrade_socket};
use super::start_error::StartError;
use super::upgrade::{Handover, InheritedSockets, UpgradeError};
use crate::config::ServerSettings;
use crate::transport::tls::TicketKeys;
use crate::transport::{AllListeners, ListenPlace, Listeners};

/// The sockets of a server and the lock of its cache directory. Dropping them removes the names of
/// sockets that no other process uses.
pub(super) struct ServerResources {
    pub(super) listeners: AllListeners,
    pub(super) ticket_keys: TicketKeys,
    pub(super) sockets: ControlSockets,
    pub(super) guard: Option<DirGuard>,
    pub(super) worker_count: usize,
    /// Whether a running server still uses these resources. It continues to use them if the upgrade
    /// fails.
    pub(super) has_predecessor: bool,
    /// Whether the admin socket was inherited from the running server.
    pub(super) has_its_admin: bool,
}

/// The sockets on which the control thread listens.
pub(super) struct ControlSockets {
    pub(super) admin: AdminListener,
    pub(super) upgrade: UnixSocket,
    /// Leads clients to `admin` until it ends; `None` until the server accepts connections.
    pub(super) admin_address: Option<AdminAddressFile>,
    /// The descriptors that this server sends to a successor over `upgrade`.
    pub(super) handover: Handover,
}

impl ControlSockets {
    fn new(
        listeners: &AllListeners,
        admin: AdminListener,
        upgrade: UnixSocket,
    ) -> io::Result<ControlSockets> {
        let (address, sockets) = (listeners.first.address, listeners.copies()?);
        let handover = Handover { address, sockets, admin: admin.copy()? };
        Ok(ControlSockets { admin, upgrade, admin_address: None, handover })
    }

    /// Makes this process responsible for removing the sockets' names when it ends.
    pub(super) fn own(&self) {
        self.upgrade.name.set_ours(true);
        if let AdminListener::Unix(socket) = &self.admin {
            socket.name.set_ours(true);
        }
    }
}

impl ServerResources {
    /// Binds all sockets and locks the cache directory.
    ///
    /// # Errors
    /// An address, a socket or the cache directory is in use, or the system refuses to open it.
    pub(super) fn bind(
        settings: &ServerSettings,
        worker_count: usize,
    ) -> Result<ServerResources, StartError> {
        let guard = settings.cache_dir.path().map(DirGuard::take).transpose();
        let guard = guard.map_err(StartError::CacheDir)?;
        let (first, further, tls) = settings.listen_places();
        // The first address is bound first, because its port is in the names of the other sockets.
        let first = bind(first, worker_count)?;
        let port = first.address.port();
        let path = upgrade_socket(&runtime_dir(&settings.runtime_dir), port);
        let upgrade = UnixSocket::bind(path.clone())
            .map_err(|error| StartError::UpgradeSocket(path, error))?;
        let admin = bind_admin(settings, port)?;
        let all = |places: Vec<ListenPlace>| -> Result<Vec<_>, _> {
            places.into_iter().map(|place| bind(place, worker_count)).collect()
        };
        let listeners = AllListeners { first, further: all(further)?, tls: all(tls)? };
        let sockets = ControlSockets::new(&listeners, admin, upgrade);
        let sockets = sockets.map_err(StartError::Descriptors)?;
        let (has_predecessor, has_its_admin) = (false, false);
        let ticket_keys = TicketKeys::generate().ok_or_else(no_randomness)?;
        Ok(ServerResources {
            listeners,
            ticket_keys,
            sockets,
            guard,
            worker_count,
            has_predecessor,
            has_its_admin,
        })
    }

    /// Takes over the sockets of a running server, and binds the missing ones.
    ///
    /// # Errors
    /// A socket does not match the settings, or the system refuses to open one.
    pub(super) fn take_over(
        taken: InheritedSockets,
        settings: &ServerSettings,
        worker_count: usize,
    ) -> Result<ServerResources, StartError> {
        let unusable = |error| StartError::Upgrade(UpgradeError::Unusable(error));
        let guard = match (settings.cache_dir.path(), taken.guard) {
            (Some(dir), Some(passed)) => DirGuard::adopt(dir, passed).map(Some),
            (Some(dir), None) => DirGuard::take(dir).map(Some),
            (None, _) => Ok(None),
        };
        let guard = guard.map_err(StartError::CacheDir)?;
        let (first, further, tls) = settings.listen_places();
        let port = first.address.port();
        let mut others = taken.sockets;
        let mut of = |place: ListenPlace| -> Vec<_> {
            let is_there =
                |socket: &mut TcpListener| socket.local_addr().ok() == Some(place.address);
            others.extract_if(.., is_there).collect()
        };
        let first = Listeners::take_over(first, of(first), worker_count).map_err(unusable)?;
        let mut all = |places: Vec<ListenPlace>| -> Result<Vec<_>, StartError> {
            let take = |place| match of(place) {
                // An address that is new in the configuration has no sockets yet.
                own if own.is_empty() => bind(place, worker_count),
                own => Listeners::take_over(place, own, worker_count).map_err(unusable),
            };
            places.into_iter().map(take).collect()
        };
        let listeners = AllListeners { first, further: all(further)?, tls: all(tls)? };
        let path = upgrade_socket(&runtime_dir(&settings.runtime_dir), port);
        let upgrade = UnixSocket::take_over(taken.upgrade, path).map_err(unusable)?;
        let its_admin = AdminListener::take_over(taken.admin, settings, port);
        let its_admin = its_admin.map_err(unusable)?;
        let has_its_admin = its_admin.is_some();
        let admin = match its_admin {
            Some(admin) => admin,
            None => bind_admin(settings, port)?,
        };
        let sockets = ControlSockets::new(&listeners, admin, upgrade);
        let sockets = sockets.map_err(StartError::Descriptors)?;
        let has_predecessor = true;
        Ok(ServerResources {
            listeners,
            ticket_keys: taken.ticket_keys,
            sockets,
            guard,
            worker_count,
            has_predecessor,
            has_its_admin,
        })
    }
}

fn bind(place: ListenPlace, worker_count: usize) -> Result<Listeners, StartError> {
    Listeners::bind(place, worker_count).map_err(|error| StartError::Listen(place.address, error))
}

fn no_randomness() -> StartError {
    StartError::Tls("the system cannot supply random bytes for the ticket keys".to_owned())
}

fn bind_admin(settings: &ServerSettings, port: u16) -> Result<AdminListener, StartError> {
    AdminListener::bind(settings, port)
        .map_err(|error| StartError::Admin(settings.admin.to_string(), error))
}
