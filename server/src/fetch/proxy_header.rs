//! The header of the PROXY protocol, with which a connection to an origin begins if
//! `origin_proxy_protocol` asks for it (HAProxy, `doc/proxy-protocol.txt`).

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use crate::accept::Client;
use crate::config::{OriginGroup, ProxyProtocol};

/// The addresses at both ends of a client's connection, as the header states them. A connection
/// with this header serves only requests with the same addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClientEnds {
    /// The client's address. The port is 0 if a trusted proxy states the address, because the
    /// client's port is then unknown.
    pub(super) client: SocketAddr,
    /// The address that the client, or the proxy, connected to.
    pub(super) local: SocketAddr,
}

/// The first bytes of a header of version 2.
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";

// The bytes after the signature: the version and the command, then the family and the transport.
const LOCAL: u8 = 0x20;
const PROXY: u8 = 0x21;
const UNSPECIFIED: u8 = 0x00;
const TCP_OVER_IPV4: u8 = 0x11;
const TCP_OVER_IPV6: u8 = 0x21;

impl ClientEnds {
    /// Returns the addresses for the current request of `client`; `None` if no origin of `group`
    /// gets them, or if the system does not know them.
    pub(super) fn of(client: &Client, group: &OriginGroup) -> Option<ClientEnds> {
        let is_sent = |protocol| protocol != ProxyProtocol::Off;
        if !group.addresses().any(|origin| is_sent(origin.proxy_protocol)) {
            return None;
        }
        let (peer, address, local) = (client.canonical_peer(), client.address(), client.local()?);
        let port = if address == peer.ip() { peer.port() } else { 0 };
        Some(ClientEnds { client: SocketAddr::new(address, port), local })
    }

    /// Returns both ends with addresses of one family: those of the client and of this server may
    /// differ if a proxy states the client's.
    fn of_one_family(self) -> (SocketAddr, SocketAddr) {
        let (client, local) = (self.client, self.local);
        if client.is_ipv4() == local.is_ipv4() {
            return (client, local);
        }
        let mapped = |end: SocketAddr| SocketAddr::new(IpAddr::V6(ipv6(end.ip())), end.port());
        (mapped(client), mapped(local))
    }
}

fn ipv6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

/// Returns the header of a connection. Without `ends`, the connection serves no client, and the
/// header says so.
pub(super) fn proxy_header(protocol: ProxyProtocol, ends: Option<ClientEnds>) -> Vec<u8> {
    let ends = ends.map(ClientEnds::of_one_family);
    match (protocol, ends) {
        (ProxyProtocol::Off, _) => Vec::new(),
        (ProxyProtocol::V1, None) => b"PROXY UNKNOWN\r\n".to_vec(),
        (ProxyProtocol::V1, Some((client, local))) => {
            let family = if client.is_ipv4() { "TCP4" } else { "TCP6" };
            let (from, to) = (client.ip(), local.ip());
            let (from_port, to_port) = (client.port(), local.port());
            format!("PROXY {family} {from} {to} {from_port} {to_port}\r\n").into_bytes()
        }
        (ProxyProtocol::V2, ends) => binary_header(ends),
    }
}

#[expect(clippy::big_endian_bytes, reason = "ports and lengths are in network byte order")]
fn binary_header(ends: Option<(SocketAddr, SocketAddr)>) -> Vec<u8> {
    let (command, family, mut addresses) = match ends {
        None => (LOCAL, UNSPECIFIED, Vec::new()),
        Some((client, local)) => match (client.ip(), local.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                (PROXY, TCP_OVER_IPV4, [from.octets(), to.octets()].concat())
            }
            (from, to) => (PROXY, TCP_OVER_IPV6, [ipv6(from).octets(), ipv6(to).octets()].concat()),
        },
    };
    if let Some((client, local)) = ends {
        addresses.extend_from_slice(&client.port().to_be_bytes());
        addresses.extend_from_slice(&local.port().to_be_bytes());
    }
    let mut header = SIGNATURE.to_vec();
    header.extend_from_slice(&[command, family]);
    // Two addresses and two ports have at most 36 bytes.
    header.extend_from_slice(&(addresses.len() as u16).to_be_bytes());
    header.extend_from_slice(&addresses);
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(client: &str, local: &str) -> ClientEnds {
        let parsed = |text: &str| text.parse().expect("an address");
        ClientEnds { client: parsed(client), local: parsed(local) }
    }

    #[test]
    fn version_1_is_a_line_of_text() {
        for (client, local, expected) in [
            ("192.0.2.1:5000", "198.51.100.2:80", "TCP4 192.0.2.1 198.51.100.2 5000 80"),
            ("[2001:db8::1]:5000", "[2001:db8::2]:443", "TCP6 2001:db8::1 2001:db8::2 5000 443"),
            ("192.0.2.1:0", "[2001:db8::2]:80", "TCP6 ::ffff:192.0.2.1 2001:db8::2 0 80"),
            ("[2001:db8::1]:0", "10.0.0.1:80", "TCP6 2001:db8::1 ::ffff:10.0.0.1 0 80"),
        ] {
            let header = proxy_header(ProxyProtocol::V1, Some(ends(client, local)));
            assert_eq!(String::from_utf8(header).unwrap(), format!("PROXY {expected}\r\n"));
        }
        assert_eq!(proxy_header(ProxyProtocol::V1, None), b"PROXY UNKNOWN\r\n");
    }

    #[test]
    fn version_2_has_the_lengths_and_numbers_of_the_specification() {
        let header = |ends| proxy_header(ProxyProtocol::V2, ends);
        let signature = b"\x0D\x0A\x0D\x0A\x00\x0D\x0A\x51\x55\x49\x54\x0A";
        let v4 = header(Some(ends("192.0.2.1:258", "198.51.100.2:80")));
        let expected = b"\x21\x11\x00\x0C\xC0\x00\x02\x01\xC6\x33\x64\x02\x01\x02\x00\x50";
        assert_eq!(v4, [&signature[..], expected].concat());
        let v6 = header(Some(ends("[2001:db8::1]:0", "10.0.0.1:443")));
        let from = b"\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01";
        let to = b"\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\0\0\x01";
        let parts = [&signature[..], b"\x21\x21\x00\x24", from, to, b"\0\0\x01\xBB"];
        assert_eq!(v6, parts.concat());
        assert_eq!(header(None), [&signature[..], b"\x20\x00\x00\x00"].concat());
    }

    #[test]
    fn without_the_protocol_a_connection_has_no_header() {
        for ends in [None, Some(ends("192.0.2.1:1", "192.0.2.2:2"))] {
            assert!(proxy_header(ProxyProtocol::Off, ends).is_empty());
        }
    }
}
