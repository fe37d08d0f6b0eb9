//! The environment that rules can query.

use std::net::IpAddr;

use forebay_http::target::Scheme;

use crate::ast::{AddressKind, CertificatePart, PortKind};

/// The environment of rules: the server that runs them. Every method returns without waiting.
pub trait RuleEnvironment {
    /// Returns an address; `None` if it does not exist or is not known yet.
    fn address(&self, which: AddressKind) -> Option<IpAddr>;
    /// Returns a port of the client's connection.
    fn port(&self, which: PortKind) -> u16;
    /// Returns the result of the cache lookup.
    fn cache(&self) -> CacheResult;
    /// Returns the Unix time, in seconds.
    fn now(&self) -> u64;
    /// Returns a random number.
    fn random(&self) -> u64;
    /// Returns the serial number of this request in this process.
    fn request_number(&self) -> u64;
    /// Returns a UUID of this process, as text.
    fn process_id(&self) -> &str;
    /// Returns the number of requests that this connection has received, including this request.
    fn transaction_count(&self) -> u64;
    /// Returns the scheme of the client's connection.
    fn scheme(&self) -> Scheme {
        Scheme::Http
    }
    /// Returns the version of TLS of the client's connection, such as `tls/1.3`; empty without TLS.
    fn tls_version(&self) -> &'static str {
        ""
    }
    /// Returns a part of the client's verified certificate; empty if it has shown none.
    fn client_certificate(&self, _: CertificatePart) -> &str {
        ""
    }
    /// Whether the client's connection uses HTTP/2.
    fn is_http2(&self) -> bool {
        false
    }
    /// Returns the scheme of the origin's URL.
    fn next_hop_scheme(&self) -> Scheme {
        Scheme::Http
    }
    /// Returns the host name of the origin.
    fn next_hop_host(&self) -> &str;
    /// Returns the port of the origin.
    fn next_hop_port(&self) -> u16;
    /// Adds 1 to a counter, given by its index in the program.
    fn count(&self, counter: u32);
}

/// The result of the cache lookup, as `%{CACHE}` shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheResult {
    /// The lookup has not taken place yet.
    #[default]
    None,
    /// No response is stored that answers the request.
    Miss,
    /// The stored response must be validated.
    HitStale,
    /// The stored response answers the request.
    HitFresh,
    /// The request bypasses the cache.
    Skipped,
}

impl CacheResult {
    /// Returns the value of `%{CACHE}`.
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
