//! The questions for addresses and for the targets of a service.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::thread;

use super::exchange::exchange;
use super::message::{DnsQuestion, QuestionKind, RecordData};
use super::{DnsServers, FoundAddresses, ServiceAnswer};

/// Asks for the addresses of a host.
///
/// # Errors
/// No server has an answer, or the name has no address. If only one of the two questions has an
/// answer, its addresses are valid for the shortest time.
pub fn addresses(servers: &DnsServers, host: &str, port: u16) -> io::Result<FoundAddresses> {
    let servers = servers.get();
    let ask = |kind| exchange(&servers, &DnsQuestion { name: host, kind });
    // Both questions are asked at once, so that a resolution takes no longer than the slower one.
    let (v4, v6) = thread::scope(|scope| {
        let other = thread::Builder::new().name("resolver".to_owned());
        let other = other.spawn_scoped(scope, || ask(QuestionKind::Aaaa));
        let v4 = ask(QuestionKind::A);
        let v6 = other.and_then(|other| {
            other.join().unwrap_or_else(|_| Err(io::Error::other("the resolver panicked")))
        });
        (v4, v6)
    });
    let (mut found, mut valid_s, mut error) = (Vec::new(), u32::MAX, None);
    for answer in [v6, v4] {
        match answer {
            Ok(answer) => {
                for record in answer.records {
                    if let RecordData::Address(ip) = record {
                        found.push(SocketAddr::new(ip, port));
                        valid_s = valid_s.min(answer.valid_s);
                    }
                }
            }
            Err(failed) => error = Some(failed),
        }
    }
    if let Some(error) = error {
        // The addresses of the other family, which may be known from before, are better than those
        // that this machine cannot reach.
        if !found.iter().copied().any(has_way_to) {
            return Err(error);
        }
        valid_s = 0;
    }
    if found.is_empty() {
        return Err(io::Error::other("the name has no address"));
    }
    // A stable sort: addresses that this machine cannot reach come last (RFC 6724 §6, rule 1).
    found.sort_by_cached_key(|address| !has_way_to(*address));
    Ok(FoundAddresses { addresses: found, valid_s: Some(valid_s) })
}

/// Whether the machine has a route to the address. Nothing is sent.
fn has_way_to(address: SocketAddr) -> bool {
    let any: IpAddr = match address.is_ipv4() {
        true => IpAddr::from([0; 4]),
        false => IpAddr::from([0; 16]),
    };
    UdpSocket::bind((any, 0)).and_then(|socket| socket.connect(address)).is_ok()
}

/// Asks for the targets of a service.
///
/// # Errors
/// No server has an answer.
pub fn service(servers: &DnsServers, name: &str) -> io::Result<ServiceAnswer> {
    let answer = exchange(&servers.get(), &DnsQuestion { name, kind: QuestionKind::Srv })?;
    let (mut targets, mut unusable_count, mut is_refused) = (Vec::new(), 0, false);
    for record in answer.records {
        match record {
            RecordData::Target(target) => targets.push(target),
            RecordData::NoTarget => is_refused = true,
            RecordData::UnusableTarget => unusable_count += 1,
            RecordData::Address(_) => {}
        }
    }
    Ok(match targets.is_empty() && unusable_count == 0 {
        true if is_refused => ServiceAnswer::Unavailable,
        true => ServiceAnswer::Missing,
        false => ServiceAnswer::Targets { targets, valid_s: answer.valid_s, unusable_count },
    })
}
