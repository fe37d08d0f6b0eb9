//! The addresses to which clients connect.

use std::net::SocketAddr;

use super::setting::{RawValue, Readable, Setting, ValueProblem};
use super::table::{SITE_LISTEN, ServerSettings};
use super::value::listen_hint;
use crate::limits::LISTEN_ADDRESSES_MAX;
use crate::transport::ListenPlace;

/// The addresses to which clients without TLS connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenAddresses {
    /// The address whose port is in the names of the server's files and sockets.
    pub first: SocketAddr,
    /// The other addresses.
    pub further: Vec<SocketAddr>,
}

/// The addresses to which clients with TLS connect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsAddresses(pub Vec<SocketAddr>);

/// The index of a listener's address in [`ServerSettings::addresses`]. It stays the same while a
/// process runs, because a reload cannot change these addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ListenerNumber(u8);

const _: () = assert!(2 * LISTEN_ADDRESSES_MAX <= u8::MAX as usize);

impl ListenAddresses {
    /// Returns all addresses, the first one first.
    pub fn iter(&self) -> impl Iterator<Item = SocketAddr> {
        std::iter::once(self.first).chain(self.further.iter().copied())
    }

    /// Whether a socket at `address` and one of the list take the same port of the same address.
    pub(crate) fn overlaps(&self, address: SocketAddr) -> bool {
        self.contains(address) || self.iter().any(|own| overlap(own, address))
    }

    /// Whether the list has `address`. Port 0 is any free port, so it is never the same one.
    pub(crate) fn contains(&self, address: SocketAddr) -> bool {
        address.port() != 0 && self.iter().any(|own| own == address)
    }
}

impl ListenerNumber {
    /// Returns the numbers of all listeners, in their order.
    pub(crate) fn all() -> impl Iterator<Item = ListenerNumber> {
        (0..).map(ListenerNumber)
    }

    #[inline]
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl ServerSettings {
    /// Returns the addresses of the listeners: those of `listen`, then those of `listen_tls`.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.listen.iter().chain(self.listen_tls.0.iter().copied())
    }

    /// Returns each listener with its address, and whether its clients use TLS.
    pub(crate) fn listeners(&self) -> impl Iterator<Item = (ListenerNumber, SocketAddr, bool)> {
        let plain = self.listen.iter().map(|address| (address, false));
        let all = plain.chain(self.listen_tls.0.iter().map(|address| (*address, true)));
        ListenerNumber::all().zip(all).map(|(number, (address, is_tls))| (number, address, is_tls))
    }

    /// Returns the places of the listening sockets: the first one of `listen`, its further ones,
    /// and those of `listen_tls`.
    pub(crate) fn listen_places(&self) -> (ListenPlace, Vec<ListenPlace>, Vec<ListenPlace>) {
        let all: Vec<_> = self.addresses().collect();
        // `[::]` also takes IPv4 clients, unless another socket is there for them.
        let has_ipv4 = |port| port != 0 && all.iter().any(|it| it.is_ipv4() && it.port() == port);
        let place = |address: SocketAddr| ListenPlace {
            address,
            is_ipv6_only: address.is_ipv6() && has_ipv4(address.port()),
        };
        let further = self.listen.further.iter().copied().map(place).collect();
        (place(self.listen.first), further, self.listen_tls.0.iter().copied().map(place).collect())
    }
}

impl TlsAddresses {
    /// Whether there is no listener for TLS.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Readable for ListenAddresses {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        // One address is usual, and is written without brackets.
        let texts = match raw {
            RawValue::Array(_) => setting.texts(raw)?,
            RawValue::Flag(text) if text.contains(',') => setting.texts(raw)?,
            RawValue::Integer(port) => {
                let hint = listen_hint(&port.to_string());
                return Err(setting.problem("cannot be a number").hint(hint));
            }
            _ => vec![setting.text(raw)?],
        };
        match addresses(&texts, setting, LISTEN_ADDRESSES_MAX)?.split_first() {
            Some((first, further)) => {
                Ok(ListenAddresses { first: *first, further: further.to_vec() })
            }
            None => Err(setting.problem("has no address")),
        }
    }
}

impl Readable for TlsAddresses {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        addresses(&setting.texts(raw)?, setting, LISTEN_ADDRESSES_MAX).map(TlsAddresses)
    }
}

/// Reads the addresses of a site.
pub(super) fn read_site_addresses(raw: RawValue<'_>) -> Result<Vec<SocketAddr>, ValueProblem> {
    let texts = match raw {
        RawValue::Text(text) if !text.is_empty() => vec![text],
        RawValue::Integer(port) => {
            let hint = listen_hint(&port.to_string());
            return Err(SITE_LISTEN.problem("cannot be a number").hint(hint));
        }
        _ => SITE_LISTEN.texts(raw)?,
    };
    let addresses = addresses(&texts, &SITE_LISTEN, 2 * LISTEN_ADDRESSES_MAX)?;
    if addresses.iter().any(|address| address.port() == 0) {
        let problem = SITE_LISTEN.problem("cannot have port 0, which is any free port");
        return Err(problem.hint("give the address a port, here and before the first section"));
    }
    Ok(addresses)
}

/// Whether a socket at one of the addresses takes the port of the other one.
fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let has_all = one.ip().is_unspecified() || other.ip().is_unspecified();
    has_all && one.is_ipv4() == other.is_ipv4() && one.port() == other.port() && one.port() != 0
}

fn addresses(
    texts: &[&str],
    setting: &Setting,
    count_max: usize,
) -> Result<Vec<SocketAddr>, ValueProblem> {
    let addresses = texts.iter().map(|text| SocketAddr::read(RawValue::Text(text), setting));
    let addresses = addresses.collect::<Result<Vec<_>, _>>()?;
    if addresses.len() > count_max {
        return Err(setting.problem(format_args!("has more than {count_max} addresses")));
    }
    for (index, address) in addresses.iter().enumerate() {
        let earlier = addresses.get(..index).unwrap_or_default();
        if address.port() != 0 && earlier.contains(address) {
            return Err(setting.problem(format_args!("has {address} twice")));
        }
        if let Some(other) = earlier.iter().find(|other| overlap(**other, *address)) {
            let problem = setting.problem(format_args!("has both {other} and {address}"));
            let family = if address.is_ipv4() { "IPv4" } else { "IPv6" };
            let all = if other.ip().is_unspecified() { other } else { address };
            return Err(problem
                .hint(format!("{all} is for every {family} address; leave the other one out")));
        }
    }
    Ok(addresses)
}
