//! The name servers: those of the setting `dns_servers`, or those of the system.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::limits::DNS_SERVERS_MAX;

/// The file in which the system has its name servers: see resolv.conf(5).
const SYSTEM_FILE: &str = "/etc/resolv.conf";

const PORT: u16 = 53;

/// The value of the setting `dns_servers`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DnsServers(Vec<SocketAddr>);

impl DnsServers {
    /// Reads addresses with or without a port.
    ///
    /// # Errors
    /// The first text that is no address.
    pub(crate) fn parse<'a>(texts: &[&'a str]) -> Result<DnsServers, &'a str> {
        let parse = |text: &&'a str| {
            let address = text.parse().ok();
            address.or_else(|| Some(SocketAddr::new(text.parse().ok()?, PORT))).ok_or(*text)
        };
        texts.iter().map(parse).collect::<Result<_, _>>().map(DnsServers)
    }

    /// Whether the setting names servers that are asked for the addresses of this host. The names
    /// of this machine are not in DNS (RFC 6761 §6.3).
    pub fn resolve(&self, host: &str) -> bool {
        let is_local = host == "localhost" || host.ends_with(".localhost");
        !self.0.is_empty() && !is_local
    }

    /// Returns the servers to ask. Those of the system are read each time, because the file may
    /// change.
    pub(super) fn get(&self) -> Vec<SocketAddr> {
        match self.0.is_empty() {
            false => self.0.clone(),
            true => of_file(&fs::read_to_string(SYSTEM_FILE).unwrap_or_default()),
        }
    }
}

/// Returns the servers that the text of the file names; the machine itself if it names none.
pub(super) fn of_file(text: &str) -> Vec<SocketAddr> {
    let addresses = text.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let is_server = words.next() == Some("nameserver");
        words.next().filter(|_| is_server)?.parse::<IpAddr>().ok()
    });
    let servers: Vec<_> =
        addresses.take(DNS_SERVERS_MAX).map(|ip| SocketAddr::new(ip, PORT)).collect();
    match servers.is_empty() {
        true => vec![(Ipv4Addr::LOCALHOST, PORT).into()],
        false => servers,
    }
}
