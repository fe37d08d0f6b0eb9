//! Privileges that the process does without.

use std::sync::Once;

use crate::events::Event;

/// Whether the events of this process were logged.
static LOGGED: Once = Once::new();

/// Gives up the right to gain privileges by starting a program: set-user-ID bits and file
/// capabilities have no effect in this process and its children. Only the calling thread and
/// threads that start later give it up, so a program calls this before it starts any. A process
/// that takes over is not a child, and the sockets are passed to it.
pub fn restrict_privileges() {
    // Linux has refused this to no process since 3.5. The server needs no privilege that this takes
    // away, so it can run without it, too.
    let _ = rustix::thread::set_no_new_privs(true);
}

/// Warns if the process runs as root.
pub(super) fn warn_of_root() {
    LOGGED.call_once(|| {
        if rustix::process::geteuid().is_root() {
            Event::RunsAsRoot.log(&"use a user of its own, with CAP_NET_BIND_SERVICE if needed");
        }
    });
}
