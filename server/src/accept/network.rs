//! The network of a client. All clients of a network share limits as if they were one client.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// The network that a client's address belongs to: a single IPv4 address, or an IPv6 prefix. A host
/// with IPv6 usually has a whole prefix of addresses to choose from (RFC 7934).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ClientNetwork(IpAddr);

impl ClientNetwork {
    /// Returns the network of `address`; `ipv6_bits` is the length of an IPv6 prefix.
    pub(crate) fn of(address: IpAddr, ipv6_bits: u8) -> ClientNetwork {
        ClientNetwork(match address.to_canonical() {
            IpAddr::V6(address) => {
                let host_bits = 128_u32.saturating_sub(u32::from(ipv6_bits));
                let mask = u128::MAX.checked_shl(host_bits).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask))
            }
            v4 => v4,
        })
    }
}

impl fmt::Display for ClientNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_ipv6_prefix_are_one_network_and_ipv4_addresses_are_not() {
        for (first, second, bits, same) in [
            ("2001:db8:0:1::1", "2001:db8:0:1:ffff::2", 64, true),
            ("2001:db8:0:1::1", "2001:db8:0:2::1", 64, false),
            ("2001:db8:0:1::1", "2001:db8:0:2::1", 48, true),
            ("2001:db8::1", "2001:db8::2", 128, false),
            ("192.0.2.1", "192.0.2.2", 64, false),
            ("192.0.2.1", "::ffff:192.0.2.1", 64, true),
            ("::ffff:192.0.2.1", "::ffff:192.0.2.2", 64, false),
        ] {
            let network = |text: &str| ClientNetwork::of(text.parse().expect("an address"), bits);
            assert_eq!(network(first) == network(second), same, "{first} {second} /{bits}");
        }
    }
}
