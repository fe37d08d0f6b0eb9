//! `listen`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::super::source::NginxSource;
use super::super::syntax::NginxDirective;
use crate::toml::{TomlTable, quote};

/// Addresses that `listen_tls` may have.
const TLS_MAX: usize = 4;

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
    /// One of the addresses at which Forebay serves all sites, but nginx not this server, whose
    /// own addresses are all internal.
    pub(super) fn exposed_at(&self, served: &[Listen]) -> Option<Listen> {
        let own: Vec<_> = self.plain.iter().chain(&self.tls).map(|one| one.ip).collect();
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
            ports.is_default |= has("default_server") || has("default");
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
    let mut plain: Vec<IpAddr> = Vec::new();
    let mut tls: Vec<Listen> = Vec::new();
    for (directive, ports) in servers {
        for listen in &ports.plain {
            if Some(listen.port) != port {
                source.note(
                    directive,
                    format!("port {} is left out: `listen` has one port", listen.port),
                );
            } else if !plain.contains(&listen.ip) {
                plain.push(listen.ip);
            }
        }
        tls.extend(&ports.tls);
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
                source.note(
                    directive,
                    format!("the address {other} is left out: `listen` has one address"),
                );
            }
        }
    }
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
    if let (true, Some((directive, _))) = (tls.len() > TLS_MAX, servers.first()) {
        source.note(directive, "addresses are left out: `listen_tls` has at most 4");
        tls.truncate(TLS_MAX);
    }
    if !tls.is_empty() {
        let texts: Vec<_> =
            tls.iter().map(|one| SocketAddr::new(one.ip, one.port).to_string()).collect();
        top.texts("listen_tls", &texts);
    }
    let served = chosen.zip(port).map(|(ip, port)| Listen { ip, port });
    tls.extend(served);
    tls
}
