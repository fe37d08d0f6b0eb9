//! `listen`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::super::source::NginxSource;
use super::super::syntax::NginxDirective;
use crate::toml::{TomlTable, quote};

/// Addresses that `listen` and `listen_tls` may have, each.
pub(super) const ADDRESSES_MAX: usize = 4;

/// An address of a server.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Listen {
    pub(super) ip: IpAddr,
    pub(super) port: u16,
}

/// The addresses of a server.
#[derive(Default)]
pub(super) struct Ports {
    pub(super) plain: Vec<Listen>,
    pub(super) tls: Vec<Listen>,
    pub(super) is_default: bool,
    /// The addresses at which this is the default server, by its own word.
    pub(super) default_at: Vec<Listen>,
}

impl Listen {
    pub(super) fn address(&self) -> SocketAddr {
        SocketAddr::new(self.ip, self.port)
    }
}

/// Whether two addresses of one port cannot have a socket each.
pub(super) fn overlap(one: Listen, other: Listen) -> bool {
    let is_wide = one.ip.is_unspecified() || other.ip.is_unspecified();
    is_wide && one.ip.is_ipv4() == other.ip.is_ipv4() && one.port == other.port
}

/// Whether only this machine, or its own network, reaches an address.
fn is_internal(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => {
            // 100.64.0.0/10 is shared address space (RFC 6598).
            let is_shared = ip.octets()[0] == 100 && ip.octets()[1] & 0xc0 == 64;
            ip.is_loopback() || ip.is_private() || ip.is_link_local() || is_shared
        }
        IpAddr::V6(ip) => ip.is_loopback() || ip.is_unique_local() || ip.is_unicast_link_local(),
    }
}

impl Ports {
    pub(super) fn all(&self) -> impl Iterator<Item = &Listen> {
        self.plain.iter().chain(&self.tls)
    }

    pub(super) fn has(&self, listen: Listen) -> bool {
        self.all().any(|one| *one == listen)
    }

    /// One of the addresses at which Forebay serves all sites, but nginx not this server, whose
    /// own addresses are all internal.
    pub(super) fn exposed_at(&self, served: &[Listen]) -> Option<Listen> {
        let own: Vec<_> = self.all().map(|one| one.ip).collect();
        let is_hidden = own.iter().all(|ip| is_internal(*ip));
        served.iter().find(|one| is_hidden && !own.contains(&one.ip)).copied()
    }

    pub(super) fn of(source: &NginxSource<'_>, server: &NginxDirective) -> Ports {
        let mut ports = Ports::default();
        let mut list = server.inner().iter().filter(|one| one.name == "listen").peekable();
        let has_list = list.peek().is_some();
        for directive in list {
            let has = |name: &str| directive.args.iter().any(|arg| arg == name);
            if has("proxy_protocol") {
                source.note(
                    directive,
                    "left out: the PROXY protocol is not read; addresses of \
                                        clients are those of the proxy",
                );
            }
            if has("quic") {
                source.note(directive, "left out: HTTP/3 is not supported");
                continue;
            }
            let Some(listen) = parse(directive.arg(0)) else {
                source.note(directive, "left out: `listen` needs an IP address or a port");
                continue;
            };
            if has("default_server") || has("default") {
                ports.is_default = true;
                ports.default_at.push(listen);
            }
            let switched_on =
                server.inner().iter().any(|one| one.name == "ssl" && one.arg(0) == "on");
            let list = if has("ssl") || switched_on { &mut ports.tls } else { &mut ports.plain };
            list.push(listen);
        }
        if !has_list {
            ports.plain.push(Listen { ip: Ipv4Addr::UNSPECIFIED.into(), port: 80 });
        }
        ports
    }
}

fn parse(text: &str) -> Option<Listen> {
    let any = IpAddr::from(Ipv4Addr::UNSPECIFIED);
    if let Ok(port) = text.parse() {
        return Some(Listen { ip: any, port });
    }
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Some(Listen { ip: address.ip(), port: address.port() });
    }
    if let Some(port) = text.strip_prefix("*:") {
        return Some(Listen { ip: any, port: port.parse().ok()? });
    }
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    Some(Listen { ip: bare.parse().ok()?, port: 80 })
}

/// The port of most servers in these lists.
pub(super) fn choose<'p>(all: impl Iterator<Item = &'p Vec<Listen>>) -> Option<u16> {
    let mut counts = BTreeMap::<u16, usize>::new();
    for ports in all {
        let ports: BTreeSet<_> = ports.iter().map(|listen| listen.port).collect();
        ports.into_iter().for_each(|port| *counts.entry(port).or_default() += 1);
    }
    let most = counts.iter().max_by_key(|(port, count)| (**count, std::cmp::Reverse(**port)));
    most.map(|(port, _)| *port)
}

/// Writes `listen` and `listen_tls`. Returns their addresses.
pub(super) fn write(
    source: &NginxSource<'_>,
    servers: &[(&NginxDirective, &Ports)],
    port: Option<u16>,
    top: &mut TomlTable,
) -> Vec<Listen> {
    let shared = shared(servers);
    let plain = match shared.len() {
        0 | 1 => write_one(source, servers, port, top),
        _ => {
            let texts: Vec<_> = shared.iter().map(|one| one.address().to_string()).collect();
            top.texts("listen", &texts);
            shared
        }
    };
    let mut tls: Vec<_> = servers.iter().flat_map(|(_, ports)| &ports.tls).copied().collect();
    tls.sort();
    tls.dedup();
    let wide = tls.clone();
    tls.retain(|one| {
        one.ip.is_unspecified()
            || !wide.iter().any(|other| {
                other.ip.is_unspecified()
                    && other.port == one.port
                    && other.ip.is_ipv4() == one.ip.is_ipv4()
            })
    });
    if let (true, Some((directive, _))) = (tls.len() > ADDRESSES_MAX, servers.first()) {
        source.note(directive, "addresses are left out: `listen_tls` has at most 4");
        tls.truncate(ADDRESSES_MAX);
    }
    if !tls.is_empty() {
        let texts: Vec<_> =
            tls.iter().map(|one| SocketAddr::new(one.ip, one.port).to_string()).collect();
        top.texts("listen_tls", &texts);
    }
    tls.extend(plain);
    tls
}

/// Writes `listen` with one address, and lists the others. Returns the address.
fn write_one(
    source: &NginxSource<'_>,
    servers: &[(&NginxDirective, &Ports)],
    port: Option<u16>,
    top: &mut TomlTable,
) -> Vec<Listen> {
    let mut plain: Vec<IpAddr> = Vec::new();
    for (directive, ports) in servers {
        for listen in &ports.plain {
            if Some(listen.port) != port {
                source.note(
                    directive,
                    format!("port {} is left out: most servers have another one", listen.port),
                );
            } else if !plain.contains(&listen.ip) {
                plain.push(listen.ip);
            }
        }
    }
    // Any address of the machine includes the single ones.
    let any = plain.iter().find(|ip| ip.is_unspecified() && ip.is_ipv4()).copied();
    let widest = plain.iter().min_by_key(|ip| (is_internal(**ip), ip.is_loopback())).copied();
    let chosen = any.or(widest);
    if let (Some(ip), Some(port)) = (chosen, port) {
        top.raw("listen", quote(&SocketAddr::new(ip, port).to_string()));
        let is_left_out = |other: &&IpAddr| {
            **other != ip && (!ip.is_unspecified() || other.is_ipv6() != ip.is_ipv6())
        };
        for other in plain.iter().filter(is_left_out) {
            if let Some((directive, _)) =
                servers.iter().find(|(_, ports)| ports.plain.iter().any(|one| one.ip == *other))
            {
                source.note(directive, format!("the address {other} is left out beside {ip}"));
            }
        }
    }
    chosen.zip(port).map(|(ip, port)| Listen { ip, port }).into_iter().collect()
}

/// The addresses without TLS that all servers without TLS have, if each can have a socket.
fn shared(servers: &[(&NginxDirective, &Ports)]) -> Vec<Listen> {
    let sets = servers.iter().map(|(_, ports)| ports.plain.iter().copied().collect());
    let mut sets = sets.filter(|set: &BTreeSet<Listen>| !set.is_empty());
    let Some(first) = sets.next().filter(|first| sets.all(|other| other == *first)) else {
        return Vec::new();
    };
    let list: Vec<_> = first.into_iter().collect();
    let has_overlap = (1..list.len()).any(|end| {
        let (earlier, rest) = list.split_at(end);
        earlier.iter().any(|one| rest.iter().any(|other| overlap(*one, *other)))
    });
    if has_overlap || list.len() > ADDRESSES_MAX { Vec::new() } else { list }
}
