//! Servers at addresses of their own, which become sites with `listen`.

use std::collections::BTreeSet;

use super::super::fields;
use super::super::source::NginxSource;
use super::ports::{ADDRESSES_MAX, Listen, Ports, overlap};
use super::{NginxServer, https_redirect};
use crate::toml::TomlTable;

/// Writes `listen` and `listen_tls`, and gives each server its addresses and hosts. Returns
/// `false`, and does nothing, if all servers can have the same addresses, or if the addresses or
/// hosts cannot be carried over as they are.
pub(super) fn separate(
    source: &NginxSource<'_>,
    servers: &mut [NginxServer<'_>],
    top: &mut TomlTable,
) -> bool {
    let plain = all(servers, |ports| &ports.plain);
    let tls = all(servers, |ports| &ports.tls);
    if !fits(servers, &plain, &tls) || !differ(servers, &[&plain[..], &tls].concat()) {
        return false;
    }
    write("listen", &plain, top);
    write("listen_tls", &tls, top);
    let everyone: Vec<_> =
        (0..servers.len()).filter(|index| has_every_host(source, servers, *index)).collect();
    for (index, server) in servers.iter_mut().enumerate() {
        if everyone.contains(&index) {
            server.names.push("*".to_owned());
        }
        if server.names.is_empty() {
            source.note(server.directive, "left out: it has no name that can be carried over");
        }
        server.listen = server.ports.all().map(Listen::address).collect();
        server.listen.dedup();
    }
    true
}

fn all(servers: &[NginxServer<'_>], list: fn(&Ports) -> &Vec<Listen>) -> Vec<Listen> {
    let all: BTreeSet<_> = servers.iter().flat_map(|server| list(&server.ports)).copied().collect();
    all.into_iter().collect()
}

fn write(name: &str, addresses: &[Listen], top: &mut TomlTable) {
    let texts: Vec<_> = addresses.iter().map(|one| one.address().to_string()).collect();
    match &texts[..] {
        [] => {}
        [only] if name == "listen" => top.text(name, only),
        _ => top.texts(name, &texts),
    }
}

/// Whether Forebay can listen at these addresses, and each host has one server at each of them.
fn fits(servers: &[NginxServer<'_>], plain: &[Listen], tls: &[Listen]) -> bool {
    let addresses = [plain, tls].concat();
    let has_overlap = addresses.iter().enumerate().any(|(index, one)| {
        addresses.iter().skip(index + 1).any(|other| one == other || overlap(*one, *other))
    });
    let mut taken = BTreeSet::new();
    let is_unique = servers.iter().all(|server| {
        let own: BTreeSet<_> = server.ports.all().copied().collect();
        let mut hosts = own.iter().flat_map(|at| server.names.iter().map(move |name| (*at, name)));
        !own.is_empty() && hosts.all(|host| taken.insert(host))
    });
    plain.len() <= ADDRESSES_MAX && tls.len() <= ADDRESSES_MAX && !has_overlap && is_unique
}

/// Whether it matters at which addresses a server is served.
fn differ(servers: &[NginxServer<'_>], addresses: &[Listen]) -> bool {
    let sets = |list: fn(&Ports) -> &Vec<Listen>| {
        let lists = servers.iter().map(|server| list(&server.ports)).filter(|one| !one.is_empty());
        let sets: BTreeSet<BTreeSet<_>> = lists.map(|one| one.iter().copied().collect()).collect();
        sets.len()
    };
    let mut names = BTreeSet::new();
    let mut with_content = servers.iter().filter(|server| https_redirect(server).is_none());
    sets(|ports| &ports.plain) > 1
        || sets(|ports| &ports.tls) > 1
        || servers.iter().any(|server| server.ports.exposed_at(addresses).is_some())
        || with_content.any(|server| server.names.iter().any(|name| !names.insert(name)))
}

/// Whether a server gets every other host at each of its addresses, and can safely keep them. nginx
/// drops a final dot of a host; Forebay takes such a name for another host, which must not evade a
/// restriction.
fn has_every_host(source: &NginxSource<'_>, servers: &[NginxServer<'_>], index: usize) -> bool {
    let server = &servers[index];
    let is_default = |at: &&Listen| {
        let at_address = || servers.iter().enumerate().filter(|(_, one)| one.ports.has(**at));
        let explicit = at_address().find(|(_, one)| one.ports.default_at.contains(at));
        explicit.or_else(|| at_address().next()).is_some_and(|(default, _)| default == index)
    };
    let (of_default, others): (Vec<&Listen>, Vec<&Listen>) =
        server.ports.all().partition(is_default);
    let Some(first) = of_default.first() else { return false };
    let mut neighbours = servers
        .iter()
        .enumerate()
        .filter(|(other, one)| *other != index && server.ports.all().any(|at| one.ports.has(*at)));
    let is_safe = server.has_no_content() || !neighbours.any(|(_, one)| one.restricts_others());
    let keeps_host = server.names.is_empty() || fields::pass_host(source, &server.scope);
    let is_kept = others.is_empty() && is_safe && keeps_host;
    if !is_kept {
        source.note(
            server.directive,
            format!(
                "nginx serves every unknown host at {} by this server; Forebay answers them with \
                 421",
                first.address()
            ),
        );
    }
    is_kept
}
