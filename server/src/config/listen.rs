//! The addresses to which clients connect.

use std::net::SocketAddr;

use super::setting::{RawValue, Readable, Setting, ValueProblem};
use super::table::ServerSettings;
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

impl ServerSettings {
    /// Returns the places of the listening sockets: the first one of `listen`, its further ones,
    /// and those of `listen_tls`.
    pub(crate) fn listen_places(&self) -> (ListenPlace, Vec<ListenPlace>, Vec<ListenPlace>) {
        let all: Vec<_> = self.listen.iter().chain(self.listen_tls.0.iter().copied()).collect();
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
        match addresses(&texts, setting)?.split_first() {
            Some((first, further)) => {
                Ok(ListenAddresses { first: *first, further: further.to_vec() })
            }
            None => Err(setting.problem("has no address")),
        }
    }
}

impl Readable for TlsAddresses {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        addresses(&setting.texts(raw)?, setting).map(TlsAddresses)
    }
}

/// Whether a socket at one of the addresses takes the port of the other one.
fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let has_all = one.ip().is_unspecified() || other.ip().is_unspecified();
    has_all && one.is_ipv4() == other.is_ipv4() && one.port() == other.port() && one.port() != 0
}

fn addresses(texts: &[&str], setting: &Setting) -> Result<Vec<SocketAddr>, ValueProblem> {
    let addresses = texts.iter().map(|text| SocketAddr::read(RawValue::Text(text), setting));
    let addresses = addresses.collect::<Result<Vec<_>, _>>()?;
    if addresses.len() > LISTEN_ADDRESSES_MAX {
        return Err(setting.problem(format_args!("has more than {LISTEN_ADDRESSES_MAX} addresses")));
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
