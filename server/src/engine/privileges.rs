//! Privileges that the process gives up.

use std::sync::Once;

use crate::events::Event;

/// Ensures that a process warns about root only once, even if it starts several servers.
static LOGGED: Once = Once::new();

/// Gives up the right to gain privileges by executing a program: set-user-ID bits and file
/// capabilities have no effect in this process and its children. Only the calling thread and the
/// threads that it starts later give up the right, so a program must call this before it starts any
/// thread. Upgrades still work: a process that takes over is not a child, and the sockets are
/// passed to it.
pub fn restrict_privileges() {
    // Linux has supported this for all processes since 3.5. If it fails, the server runs with the
    // privilege, which it does not need.
    let _ = rustix::thread::set_no_new_privs(true);
}

/// Warns if the process runs as root.
pub(super) fn warn_of_root() {
    LOGGED.call_once(|| {
        if rustix::process::geteuid().is_root() {
            Event::RunsAsRoot
                .log(&"use a separate user, with CAP_NET_BIND_SERVICE for ports below 1024");
        }
    });
}
