//! A DNS client: asks name servers for addresses and for SRV records.
//!
//! It blocks, so it runs on threads that may block, such as those that call the system's resolver.
//! `lookup.rs` finds addresses and targets, `message.rs` writes questions and reads answers,
//! `exchange.rs` sends them, and `servers.rs` knows the name servers.
//!
//! Everything that name servers send may be forged. An answer counts only if it comes from the
//! address and port that was asked, to a port that the system has chosen at random, and has the
//! random number and the question of the request (RFC 5452). Other answers are ignored. Sizes,
//! counts and times have limits.

mod exchange;
mod lookup;
mod message;
mod servers;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;

pub use lookup::{addresses, service};
pub use servers::DnsServers;

/// The addresses of a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundAddresses {
    /// The addresses, in the order in which to try them.
    pub addresses: Vec<SocketAddr>,
    /// How long they are valid, in seconds; `None` if the resolver does not say so.
    pub valid_s: Option<u32>,
}

/// One target of a service (RFC 2782).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceTarget {
    /// The name of the host, in lower case and without a dot at its end.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Targets with a larger number are for the time when those with smaller ones fail.
    pub priority: u16,
    /// The share of the requests, relative to other targets of the same priority.
    pub weight: u16,
}

impl ServiceTarget {
    /// Returns the name of the target as an origin.
    pub(crate) fn authority(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

/// The answer to the question for the targets of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServiceAnswer {
    /// The usable targets in the order of the answer.
    Targets {
        /// The targets.
        targets: Vec<ServiceTarget>,
        /// How long they are valid, in seconds.
        valid_s: u32,
        /// The number of records that name no usable target.
        unusable_count: usize,
    },
    /// The name does not exist, or has no SRV record.
    Missing,
    /// The only record says that the service is not available (RFC 2782: the target is ".").
    Unavailable,
}
