//! What a rule can ask of the world.

use std::net::IpAddr;

use crate::ast::{AddressKind, PortKind};

/// What rules ask of the server that runs them. Every answer is at hand: nothing waits.
pub trait RuleEnvironment {
    /// An address; `None` if there is none (yet).
    fn address(&self, which: AddressKind) -> Option<IpAddr>;
    /// A port of the client's connection.
    fn port(&self, which: PortKind) -> u16;
    /// What the lookup found.
    fn cache(&self) -> CacheResult;
    /// Unix time, in seconds.
    fn now(&self) -> u64;
    /// Any number.
    fn random(&self) -> u64;
    /// A number that no other request of this process has.
    fn request_number(&self) -> u64;
    /// A UUID of this process, as text.
    fn process_id(&self) -> &str;
    /// Requests on this connection so far, this one included.
    fn transaction_count(&self) -> u64;
    /// The origin's name.
    fn next_hop_host(&self) -> &str;
    /// The origin's port.
    fn next_hop_port(&self) -> u16;
    /// A rule counts: the number is that of the counter in its program.
    fn count(&self, counter: u32);
}

/// What the lookup found, in the words of `%{CACHE}`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheResult {
    /// Nothing was looked up yet.
    #[default]
    None,
    /// Nothing is stored.
    Miss,
    /// What is stored has to be validated.
    HitStale,
    /// What is stored answers.
    HitFresh,
    /// The request is not for the cache.
    Skipped,
}

impl CacheResult {
    /// As rules see it.
    pub fn as_str(self) -> &'static str {
        match self {
            CacheResult::None => "none",
            CacheResult::Miss => "miss",
            CacheResult::HitStale => "hit-stale",
            CacheResult::HitFresh => "hit-fresh",
            CacheResult::Skipped => "skipped",
        }
    }
}
