//! The process's limit on open files.

use std::collections::BTreeSet;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::config::Config;
use crate::events::Event;
use crate::limits::ADMIN_CONNECTIONS_MAX;

/// Files that the process opens besides those of its workers: 17 in a server that has just started,
/// the current and the replaced access logs, and the files that a reload or an upgrade opens.
const PROCESS_FILES: u64 = 32;

/// Files of one worker, not counting connections: seven for its event loop, its listening socket
/// (with the copy for a successor) and its counters; one more if it accepts from a second socket.
const FILES_PER_WORKER: u64 = 8;

/// Raises the soft limit on open files to the hard limit, because shells set the soft limit to
/// 1024, which is less than the settings permit. If that is still too low, reduces
/// `connections_per_worker_max`: otherwise clients could take the descriptors that origins, logs,
/// reloads and the admin interface need. `connections_per_address_max` is reduced in proportion, so
/// that one address still cannot take all connections.
pub(super) fn fit_limit(config: &mut Config, worker_count: usize) {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    // A sandbox may forbid the change; then the low limit applies.
    let _ = setrlimit(Resource::Nofile, raised);
    let permitted = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let addresses = config.sites.iter().flat_map(|site| site.origins.addresses());
    let origins: BTreeSet<_> = addresses.map(|origin| &origin.authority).collect();
    let settings = &config.server;
    let per_origin =
        u64::from(settings.origin_connections_max) + u64::from(settings.origin_pool_idle_count_max);
    let needs = FileNeeds {
        clients: settings.connections_per_worker_max,
        origins: per_origin.saturating_mul(origins.len() as u64),
    };
    let clients = needs.clients_within(permitted, worker_count as u64);
    if clients < needs.clients {
        let one_address = settings.connections_per_address_max;
        let lowered = proportional(one_address, clients, needs.clients);
        let detail = format_args!(
            "{permitted} files; connections_per_worker_max is {clients} instead of {}, and \
             connections_per_address_max is {lowered} instead of {one_address}",
            needs.clients
        );
        Event::FewFiles.log(&detail);
        config.server.connections_per_worker_max = clients;
        config.server.connections_per_address_max = lowered;
    }
}

/// Returns `value` reduced in the proportion of `part` to `whole`, but at least 1.
fn proportional(value: u32, part: u32, whole: u32) -> u32 {
    let share = u64::from(value) * u64::from(part) / u64::from(whole.max(1));
    u32::try_from(share).unwrap_or(value).max(1)
}

/// The numbers of connections of one worker that the settings permit.
#[derive(Clone, Copy, Debug)]
struct FileNeeds {
    clients: u32,
    origins: u64,
}

impl FileNeeds {
    /// Returns the number of client connections for which the permitted files suffice. Origins get
    /// at most half of a worker's files, because few sites use all connections that they may.
    fn clients_within(self, permitted: u64, worker_count: u64) -> u32 {
        let shared = PROCESS_FILES + ADMIN_CONNECTIONS_MAX as u64;
        let of_workers = permitted.saturating_sub(shared) / worker_count.max(1);
        let per_worker = of_workers.saturating_sub(FILES_PER_WORKER);
        let left = per_worker - self.origins.min(per_worker / 2);
        self.clients.min(u32::try_from(left).unwrap_or(u32::MAX)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_get_the_files_that_nothing_else_needs() {
        // Columns: client connections; origin connections; permitted files; workers; the result.
        let all = 32 + 64 + 2 * (8 + 8192 + 320);
        let cases = [
            (8192, 320, u64::MAX, 2, 8192),
            (8192, 320, all, 2, 8192),
            (8192, 320, all - 2, 2, 8191),
            (8192, 320, 1024, 1, 600),
            (8192, 320, 1024, 2, 228),
            (100, 320, 1024, 2, 100),
            (8192, 1_000_000, 1104, 1, 500),
            (8192, 320, 10, 2, 1),
        ];
        for (clients, origins, permitted, workers, expected) in cases {
            let found = FileNeeds { clients, origins }.clients_within(permitted, workers);
            assert_eq!(found, expected, "{clients} {origins} {permitted} {workers}");
        }
    }

    #[test]
    fn one_address_keeps_its_proportion_of_the_connections() {
        let cases = [(4096, 240, 8192, 120), (1, 1, 8192, 1), (8192, 240, 8192, 240)];
        for (value, part, whole, expected) in cases {
            assert_eq!(proportional(value, part, whole), expected, "{value} {part} {whole}");
        }
    }
}
