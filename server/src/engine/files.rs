//! The process's limit of open files.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::config::ServerSettings;
use crate::events::Event;

/// Files that are open besides connections: sockets of the control thread, logs, libraries.
const OTHER_FILES: u64 = 64;

/// Raises the soft limit of open files to the hard limit, because shells set the soft limit to
/// 1024, which is less than the settings permit. Warns if the hard limit is too low as well.
pub(super) fn raise_limit(settings: &ServerSettings, worker_count: usize) {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    // A sandbox may forbid the change; then the warning below reports the low limit.
    let _ = setrlimit(Resource::Nofile, raised);
    let per_worker = u64::from(settings.connections_per_worker_max)
        + u64::from(settings.origin_connections_max)
        + u64::from(settings.origin_pool_idle_count_max);
    let needed = per_worker * worker_count as u64 + OTHER_FILES;
    let permitted = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    if permitted < needed {
        let detail = format_args!("{permitted} files, but the settings may need {needed}");
        Event::FewFiles.log(&detail);
    }
}
