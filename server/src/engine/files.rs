//! The process's limit of open files.

use std::collections::BTreeSet;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::config::Config;
use crate::events::Event;

/// Files that are open besides connections: sockets of the control thread and admin connections,
/// logs, libraries, and the configuration during a reload.
const OTHER_FILES: u64 = 64;

/// Raises the soft limit of open files to the hard limit, because shells set the soft limit to
/// 1024, which is less than the settings permit. Then lowers `connections_per_worker_max` if the
/// limit does not allow it: otherwise clients could take the descriptors that origins, logs,
/// reloads and the admin interface need.
pub(super) fn fit_limit(config: &mut Config, worker_count: usize) {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    // A sandbox may forbid the change; then the low limit applies.
    let _ = setrlimit(Resource::Nofile, raised);
    let permitted = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let origins: BTreeSet<_> = config.sites.iter().map(|site| &site.origin.authority).collect();
    let settings = &config.server;
    let per_origin =
        u64::from(settings.origin_connections_max) + u64::from(settings.origin_pool_idle_count_max);
    let needs = FileNeeds {
        clients: settings.connections_per_worker_max,
        origins: per_origin.saturating_mul(origins.len() as u64),
    };
    let clients = needs.clients_within(permitted, worker_count as u64);
    if clients < needs.clients {
        let detail = format_args!(
            "{permitted} files; connections_per_worker_max is {clients} instead of {}",
            needs.clients
        );
        Event::FewFiles.log(&detail);
        config.server.connections_per_worker_max = clients;
    }
}

/// The connections of one worker that the settings permit.
#[derive(Clone, Copy, Debug)]
struct FileNeeds {
    clients: u32,
    origins: u64,
}

impl FileNeeds {
    /// Returns the number of client connections for which the permitted files suffice. Origins get
    /// at most half of a worker's files, because few sites use all connections that they may.
    fn clients_within(self, permitted: u64, worker_count: u64) -> u32 {
        let per_worker = permitted.saturating_sub(OTHER_FILES) / worker_count.max(1);
        let left = per_worker - self.origins.min(per_worker / 2);
        self.clients.min(u32::try_from(left).unwrap_or(u32::MAX)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_get_the_files_that_nothing_else_needs() {
        // Client connections, origin connections, permitted files, workers; the result.
        let cases = [
            (8192, 320, u64::MAX, 2, 8192),
            (8192, 320, 2 * (8192 + 320) + OTHER_FILES, 2, 8192),
            (8192, 320, 2 * (8192 + 320) + OTHER_FILES - 2, 2, 8191),
            (8192, 320, 1024, 1, 640),
            (8192, 320, 1024, 2, 240),
            (100, 320, 1024, 2, 100),
            (8192, 1_000_000, 1064, 1, 500),
            (8192, 320, 10, 2, 1),
        ];
        for (clients, origins, permitted, workers, expected) in cases {
            let found = FileNeeds { clients, origins }.clients_within(permitted, workers);
            assert_eq!(found, expected, "{clients} {origins} {permitted} {workers}");
        }
    }
}
