//! `forebay check --resolve`: checks the surroundings of a configuration: the names, SRV records
//! and ports of origins, loops to the server itself, and directories.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use forebay_server::config::{
    AccessLog, CacheDir, Config, LogDestination, OriginAddress, OriginService,
};
use forebay_server::dns::{self, DnsServers, ServiceAnswer};
use rustix::fs::{Access, access};
use serde_json::{Value, json};

/// Time for one connection to an origin.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);

/// Number of targets of one service that are tried.
const TARGETS_MAX: usize = 32;

/// Number of addresses of one name that are tried.
const ADDRESSES_MAX: usize = 8;

/// The result of one check.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ResolveCheck {
    pub(super) is_good: bool,
    pub(super) text: String,
}

impl ResolveCheck {
    fn good(text: String) -> ResolveCheck {
        ResolveCheck { is_good: true, text }
    }

    fn bad(text: String) -> ResolveCheck {
        ResolveCheck { is_good: false, text }
    }

    pub(super) fn to_json(&self) -> Value {
        json!({ "ok": self.is_good, "text": self.text })
    }
}

/// Checks each origin once, and the directories.
pub(super) fn check(config: &Config) -> Vec<ResolveCheck> {
    let tls = config.server.listen_tls.0.iter().copied();
    let listeners: Vec<_> = config.server.listen.iter().chain(tls).collect();
    let mut findings = Vec::new();
    let mut seen = BTreeSet::new();
    for of in config.sites.origin_groups() {
        let route = of.route.map(|route| format!(", route {}", route.shown_path()));
        let route = route.unwrap_or_default();
        for member in of.group.configured() {
            let address = &member.address;
            if seen.insert((&address.host, address.port, &address.socket)) {
                let authority = &address.authority;
                let name = format!("site {:?}{route}, origin {authority}", of.site.name);
                let servers = &config.server.dns_servers;
                findings.extend(origin(servers, address, &name, &listeners));
            }
        }
    }
    findings.extend(config.access_logs.iter().filter_map(access_log));
    if let CacheDir::Path(path) = &config.server.cache_dir {
        findings.push(cache_dir(path));
    }
    findings
}

/// Checks the addresses of an origin. An address that cannot be reached is no problem if another
/// one can, because the server tries them all.
fn origin(
    servers: &DnsServers,
    origin: &OriginAddress,
    name: &str,
    listeners: &[SocketAddr],
) -> Vec<ResolveCheck> {
    if let Some(service) = origin.whole_service() {
        return of_service(servers, (origin, service), name, listeners);
    }
    if let Some(path) = &origin.socket {
        return vec![match UnixStream::connect(path) {
            Ok(_) => ResolveCheck::good(format!("{name} accepts connections")),
            Err(error) => ResolveCheck::bad(format!("{name}: cannot connect: {error}")),
        }];
    }
    let addresses: Vec<SocketAddr> = match addresses(servers, origin) {
        Ok(addresses) => addresses.into_iter().take(ADDRESSES_MAX).collect(),
        Err(error) => {
            return vec![ResolveCheck::bad(format!(
                "{name}: the name {} does not resolve: {error}",
                origin.host
            ))];
        }
    };
    if addresses.is_empty() {
        return vec![ResolveCheck::bad(format!("{name}: the name {} has no address", origin.host))];
    }
    let (mut findings, mut failed) = (Vec::new(), Vec::new());
    for address in addresses {
        findings.push(match listeners.iter().find(|listener| is_reached(listener, address)) {
            Some(listener) => ResolveCheck::bad(format!(
                "{name}: {address} is this server itself, which listens on {listener}: each \
                 request would go round in a loop"
            )),
            None => match TcpStream::connect_timeout(&address, CONNECT_LIMIT) {
                Ok(_) => ResolveCheck::good(format!("{name}: {address} accepts connections")),
                Err(error) => {
                    failed.push(format!("{name}: cannot connect to {address}: {error}"));
                    continue;
                }
            },
        });
    }
    let is_reachable = findings.iter().any(|finding: &ResolveCheck| finding.is_good);
    findings.extend(failed.into_iter().map(|text| ResolveCheck { is_good: is_reachable, text }));
    findings
}

/// Asks for the targets of a service, and checks each of them as an origin.
fn of_service(
    servers: &DnsServers,
    (origin, service): (&OriginAddress, &OriginService),
    name: &str,
    listeners: &[SocketAddr],
) -> Vec<ResolveCheck> {
    let bad = |text: &str| vec![ResolveCheck::bad(format!("{name}: {text}"))];
    let (targets, unusable_count) = match dns::service(servers, &service.name) {
        Ok(ServiceAnswer::Targets { targets, unusable_count, .. }) => (targets, unusable_count),
        Ok(ServiceAnswer::Missing) => return bad("the name has no SRV record"),
        Ok(ServiceAnswer::Unavailable) => {
            return bad("the SRV record says that the service is not available");
        }
        Err(error) => return bad(&format!("cannot ask for SRV records: {error}")),
    };
    let mut findings = Vec::new();
    if unusable_count > 0 {
        let text = format!("{name}: {unusable_count} SRV records have no usable target");
        findings.push(ResolveCheck::bad(text));
    }
    for target in targets.iter().take(TARGETS_MAX) {
        let target = origin.of_target(target);
        let name = format!("{name}, target {}", target.authority);
        let checked = self::origin(servers, &target, &name, listeners);
        findings.extend(checked);
    }
    if targets.len() > TARGETS_MAX {
        let text = format!("{name}: {} more targets were not checked", targets.len() - TARGETS_MAX);
        findings.push(ResolveCheck::good(text));
    }
    findings
}

/// Returns the addresses of an origin, which are found as the server finds them.
fn addresses(servers: &DnsServers, origin: &OriginAddress) -> io::Result<Vec<SocketAddr>> {
    let (host, port) = (origin.host.as_str(), origin.port);
    match host.parse::<IpAddr>() {
        Err(_) if servers.resolve(host) => Ok(dns::addresses(servers, host, port)?.addresses),
        _ => Ok((host, port).to_socket_addrs()?.collect()),
    }
}

/// Whether a connection to `address` reaches a server on this machine that listens on `listener`.
fn is_reached(listener: &SocketAddr, address: SocketAddr) -> bool {
    let same_ip = |ip: IpAddr| ip.to_canonical() == address.ip().to_canonical();
    listener.port() == address.port()
        && (same_ip(listener.ip()) || listener.ip().is_unspecified() && is_own(address.ip()))
}

/// Whether the machine has this address. Only an address of its own can be bound.
fn is_own(ip: IpAddr) -> bool {
    ip.is_loopback() || ip.is_unspecified() || UdpSocket::bind((ip, 0)).is_ok()
}

/// Checks that a log can be written: an existing file, or else its directory. `None` for standard
/// output.
fn access_log(destination: &LogDestination) -> Option<ResolveCheck> {
    let AccessLog::File(path) = &destination.log else { return None };
    let found = directory("access_log", path.parent());
    let written = if path.exists() { path.as_path() } else { directory_of(path.parent()) };
    let found = match access(written, Access::WRITE_OK) {
        Err(error) if found.is_good => {
            let path = written.display();
            ResolveCheck::bad(format!("access_log: cannot write to {path}: {error}"))
        }
        _ if path.is_dir() => {
            ResolveCheck::bad(format!("access_log: {} is a directory", path.display()))
        }
        _ => found,
    };
    Some(ResolveCheck { text: format!("{}: {}", destination.at, found.text), ..found })
}

/// Checks the directory of the cache as the start does. If it does not exist, the start makes it,
/// so its parent must exist.
fn cache_dir(path: &Path) -> ResolveCheck {
    if path.symlink_metadata().is_err() {
        return directory("cache_dir", path.parent());
    }
    match forebay_shm::check_private_dir(path) {
        Ok(()) => ResolveCheck::good(format!(
            "cache_dir: the directory {} exists and is closed to other users",
            path.display()
        )),
        Err(error) => ResolveCheck::bad(format!("cache_dir: {error}")),
    }
}

fn directory_of(parent: Option<&Path>) -> &Path {
    parent.filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn directory(setting: &str, dir: Option<&Path>) -> ResolveCheck {
    let dir = directory_of(dir);
    let shown = dir.display();
    let state = dir.metadata().and_then(|metadata| match metadata.is_dir() {
        true => Ok(()),
        false => Err(io::Error::from(io::ErrorKind::NotADirectory)),
    });
    match state {
        Ok(()) => ResolveCheck::good(format!("{setting}: the directory {shown} exists")),
        Err(error) => {
            ResolveCheck::bad(format!("{setting}: cannot use the directory {shown}: {error}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_is_reached_through_its_addresses() {
        let cases = [
            ("127.0.0.1:80", "127.0.0.1:80", true),
            ("127.0.0.1:80", "127.0.0.1:81", false),
            ("127.0.0.1:80", "127.0.0.2:80", false),
            ("0.0.0.0:80", "127.0.0.2:80", true),
            ("[::]:80", "127.0.0.1:80", true),
            ("[::]:80", "[::1]:80", true),
            ("0.0.0.0:80", "192.0.2.1:80", false),
            ("127.0.0.1:80", "[::ffff:127.0.0.1]:80", true),
        ];
        for (listener, address, expected) in cases {
            let parse = |text: &str| text.parse::<SocketAddr>().expect(text);
            let reached = is_reached(&parse(listener), parse(address));
            assert_eq!(reached, expected, "{listener} {address}");
        }
    }
}
