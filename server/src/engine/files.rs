//! The process's limit on open files.

use std::collections::BTreeSet;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::config::{Config, Site};
use crate::events::Event;
use crate::fetch::pool_key;
use crate::limits::{ADMIN_CONNECTIONS_MAX, HEALTH_CHECKS_MAX};

/// Files that the process opens besides those of its workers: 17 in a server that has just started,
/// the current and the replaced access log, and the files that a reload or an upgrade opens.
const PROCESS_FILES: u64 = 32;

/// Files of each access log after the first: the current one, the one that a reload opens, and two
/// replaced ones, which are still being written.
const FILES_PER_LOG: u64 = 4;

/// Files of one worker, not counting connections and listening sockets: five for its event loop and
/// its counters, and one more if it accepts from a second socket of an address.
const FILES_PER_WORKER: u64 = 6;

/// Files of one worker for each address on which the server listens: a socket, and its copy for a
/// successor.
const FILES_PER_ADDRESS: u64 = 2;

/// Raises the soft limit on open files to the hard limit, because shells set the soft limit to
/// 1024, which is less than the settings permit. If that is still too low, reduces
/// `connections_per_worker_max` and `tunnels_per_worker_max`: otherwise clients could take the
/// descriptors that origins, logs, reloads and the admin interface need. The limits for one address
/// are reduced in proportion, so that one address still cannot take all connections or tunnels.
pub(super) fn fit_limit(config: &mut Config, worker_count: usize) {
    if let Some(change) = lower_limits(config, worker_count) {
        Event::FewFiles.log(&change);
    }
}

/// As [`fit_limit`], but reports nothing. Returns a text about the changes, if there are any.
pub(super) fn lower_limits(config: &mut Config, worker_count: usize) -> Option<String> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    // A sandbox may forbid the change; then the low limit applies.
    let _ = setrlimit(Resource::Nofile, raised);
    let permitted = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    // Origins at one address that differ in their terms of TLS have separate pools.
    let pools: BTreeSet<_> = config.sites.origin_addresses().map(pool_key).collect();
    let pool_count = pools.len();
    let checks = if config.sites.origin_groups().any(|of| of.group.health.is_some()) {
        HEALTH_CHECKS_MAX as u64
    } else {
        0
    };
    let routes = || config.sites.iter().flat_map(Site::routes);
    let directories: BTreeSet<_> =
        routes().filter_map(|route| route.settings.files.get()).cloned().collect();
    let has_tunnels = routes().any(|route| !route.settings.upgrade_protocols.is_empty())
        || config.sites.iter().any(|site| !site.connect_ports().is_empty());
    let settings = &mut config.server;
    let per_origin =
        u64::from(settings.origin_connections_max) + u64::from(settings.origin_pool_idle_count_max);
    let clients = settings.connections_per_worker_max;
    let needs = FileNeeds {
        logs: config.access_logs.iter().len() as u64,
        addresses: (settings.listen.iter().count() + settings.listen_tls.0.len()) as u64,
        clients,
        tunnels: if has_tunnels { settings.tunnels_per_worker_max.min(clients) } else { 0 },
        origins: per_origin
            .saturating_mul((pool_count + directories.len()) as u64)
            .saturating_add(checks),
    };
    let (clients, tunnels) = needs.clients_within(permitted, worker_count as u64);
    let mut lowered = Vec::new();
    if clients < needs.clients {
        lowered.push(lower(
            ("connections_per_worker_max", &mut settings.connections_per_worker_max, clients),
            ("connections_per_address_max", &mut settings.connections_per_address_max),
        ));
    }
    if tunnels < needs.tunnels {
        lowered.push(lower(
            ("tunnels_per_worker_max", &mut settings.tunnels_per_worker_max, tunnels),
            ("tunnels_per_address_max", &mut settings.tunnels_per_address_max),
        ));
    }
    (!lowered.is_empty()).then(|| {
        format!(
            "the limit is {permitted} open files; {}; raise the limit (`ulimit -n`)",
            lowered.join("; ")
        )
    })
}

/// Reduces the limit `in_all` to `value`, and the limit for one address in proportion. Each limit
/// is passed with the name of its setting. Returns a text about the change.
fn lower(
    (name, in_all, value): (&str, &mut u32, u32),
    (address_name, one_address): (&str, &mut u32),
) -> String {
    let (before, address_before) = (*in_all, *one_address);
    *in_all = value;
    *one_address = proportional(address_before, value, before);
    format!(
        "{name} is {value} instead of {before}, and {address_name} is {one_address} instead of \
         {address_before}"
    )
}

/// Returns `value` reduced in the proportion of `part` to `whole`, but at least 1 unless it is 0.
fn proportional(value: u32, part: u32, whole: u32) -> u32 {
    let share = u64::from(value) * u64::from(part) / u64::from(whole.max(1));
    u32::try_from(share).unwrap_or(value).max(1).min(value)
}

/// The numbers of connections of one worker that the settings permit.
#[derive(Clone, Copy, Debug)]
struct FileNeeds {
    /// The access logs.
    logs: u64,
    /// The addresses on which the server listens.
    addresses: u64,
    clients: u32,
    /// The tunnels. Each is one of the client connections, and needs a connection to an origin too.
    tunnels: u32,
    /// The connections to origins, not counting those of tunnels, and the files of routes.
    origins: u64,
}

impl FileNeeds {
    /// Returns the numbers of client connections and of tunnels for which the permitted files
    /// suffice. Origins get at most half of a worker's files, because few sites use all connections
    /// that they may.
    fn clients_within(self, permitted: u64, worker_count: u64) -> (u32, u32) {
        let further_logs = FILES_PER_LOG * self.logs.saturating_sub(1);
        let shared = PROCESS_FILES + ADMIN_CONNECTIONS_MAX as u64 + further_logs;
        let of_workers = permitted.saturating_sub(shared) / worker_count.max(1);
        let per_worker =
            of_workers.saturating_sub(FILES_PER_WORKER + FILES_PER_ADDRESS * self.addresses);
        let left = per_worker - self.origins.min(per_worker / 2);
        let wanted = u64::from(self.clients) + u64::from(self.tunnels);
        if wanted <= left {
            return (self.clients, self.tunnels);
        }
        let clients = (u64::from(self.clients) * left / wanted).max(1);
        let tunnels = left.saturating_sub(clients).min(u64::from(self.tunnels));
        (clients as u32, tunnels as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_get_the_files_that_nothing_else_needs() {
        // Columns: client connections; tunnels; origin connections; permitted files; workers; the
        // resulting client connections and tunnels.
        let all = 32 + 64 + 2 * (8 + 8192 + 320);
        let cases = [
            (8192, 0, 320, u64::MAX, 2, (8192, 0)),
            (8192, 0, 320, all, 2, (8192, 0)),
            (8192, 0, 320, all - 2, 2, (8191, 0)),
            (8192, 0, 320, 1024, 1, (600, 0)),
            (8192, 0, 320, 1024, 2, (228, 0)),
            (100, 0, 320, 1024, 2, (100, 0)),
            (8192, 0, 1_000_000, 1104, 1, (500, 0)),
            (8192, 0, 320, 10, 2, (1, 0)),
            (8192, 4096, 320, all + 2 * 4096, 2, (8192, 4096)),
            (8192, 4096, 320, all + 2 * 4095, 2, (8191, 4096)),
            (8192, 4096, 320, 1024, 1, (400, 200)),
            (1000, 1000, 320, 1024, 1, (300, 300)),
            (8192, 4096, 320, 10, 2, (1, 0)),
        ];
        for (clients, tunnels, origins, permitted, workers, expected) in cases {
            let needs = FileNeeds { logs: 1, addresses: 1, clients, tunnels, origins };
            let found = needs.clients_within(permitted, workers);
            assert_eq!(found, expected, "{needs:?} {permitted} {workers}");
        }
        let needs = FileNeeds { logs: 0, addresses: 8, clients: 8192, tunnels: 0, origins: 320 };
        assert_eq!(needs.clients_within(1024, 1), (586, 0), "listening sockets need files too");
        let needs = FileNeeds { logs: 101, ..needs };
        assert_eq!(needs.clients_within(1024, 1), (253, 0), "logs need files too");
    }

    #[test]
    fn one_address_keeps_its_proportion_of_the_connections() {
        let cases =
            [(4096, 240, 8192, 120), (1, 1, 8192, 1), (0, 1, 8192, 0), (8192, 240, 8192, 240)];
        for (value, part, whole, expected) in cases {
            assert_eq!(proportional(value, part, whole), expected, "{value} {part} {whole}");
        }
    }
}
