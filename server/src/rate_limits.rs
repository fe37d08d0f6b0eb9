//! The rate limits of routes (`rate_limit`): counts that all workers share, and the fields of a
//! response that tells of a limit. `concurrency.rs` has the limits on requests in progress.
//!
//! Only requests of routes with a limit come here. Requests that are answered from the store count
//! like others. The table of counts has a fixed size and no lock; see [`RateTable`].

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

use forebay_http::write;
use forebay_sync::concurrency::ConcurrencyTable;
use forebay_sync::rates::{RateDecision, RateTable};

use crate::accept::{Client, ClientNetwork};
use crate::clock;
use crate::config::{Config, LimitScope, RateLimit, Route};
use crate::counters::Counter;
use crate::fault::Fault;
use crate::limits::{CONCURRENCY_ENTRIES, RATE_LIMITS_MAX};
use crate::parse::Request;

/// The counts of the rate limits of all routes.
pub(crate) struct RateLimiter {
    /// Made with the first configuration that has a rate limit.
    table: OnceLock<RateTable>,
    /// The requests in progress. Made with the first configuration that limits them.
    in_progress: OnceLock<ConcurrencyTable>,
    entry_count: usize,
    /// Random for each process, so that no client can choose keys that share a set of the table.
    hasher: RandomState,
    /// The time at which the clock of the table began.
    began_us: u64,
}

/// The client that a limit counts.
#[derive(Hash)]
enum LimitedClient<'a> {
    Network(ClientNetwork),
    All,
    Value(&'a [u8]),
}

impl RateLimiter {
    /// Makes a limiter that has counted nothing.
    pub(crate) fn new(config: &Config) -> RateLimiter {
        let limiter = RateLimiter {
            table: OnceLock::new(),
            in_progress: OnceLock::new(),
            entry_count: config.server.rate_limit_entries as usize,
            hasher: RandomState::new(),
            began_us: clock::monotonic_us(),
        };
        limiter.prepare(config);
        limiter
    }

    /// Makes the tables that a configuration needs, so that no request has to wait for them.
    pub(crate) fn prepare(&self, config: &Config) {
        if config.sites.have_rate_limits() {
            self.table();
        }
        if config.sites.have_concurrency_limits() {
            self.in_progress();
        }
    }

    /// Returns the counts of requests in progress.
    pub(crate) fn in_progress(&self) -> &ConcurrencyTable {
        self.in_progress.get_or_init(|| ConcurrencyTable::new(CONCURRENCY_ENTRIES))
    }

    /// Returns the key of the requests that count together with this one for the limit with this
    /// identity.
    pub(crate) fn key_of(
        &self,
        id: u64,
        scope: &LimitScope,
        client: &Client,
        request: &Request<'_>,
    ) -> u64 {
        self.hasher.hash_one((id, limited_client(scope, client, request)))
    }

    fn table(&self) -> &RateTable {
        self.table.get_or_init(|| RateTable::new(self.entry_count))
    }

    /// Counts a request against the limits of its route.
    ///
    /// A request that exceeds one of the limits counts against none, unless other workers count at
    /// the same moment. So a client that is refused by its address cannot fill the table with
    /// values of a field.
    ///
    /// # Errors
    /// [`Fault::RateLimited`]: the request exceeds a limit.
    pub(crate) fn check(
        &self,
        client: &Client,
        route: &Route,
        request: &Request<'_>,
    ) -> Result<(), Fault> {
        let now_us = clock::monotonic_us().saturating_sub(self.began_us);
        let table = self.table();
        let limits = route.settings.rate_limit.all();
        let mut keys = [0; RATE_LIMITS_MAX];
        for ((key, id), limit) in keys.iter_mut().zip(&route.limit_ids).zip(limits) {
            *key = self.key_of(*id, &limit.scope, client, request);
        }
        if limits.len() > 1 {
            let waits = keys.iter().zip(limits);
            let waits = waits.map(|(key, limit)| table.wait_us(*key, limit.rate, now_us));
            // The request would be admitted after the longest wait.
            if let Some((index, wait_us)) = waits.enumerate().max_by_key(|(_, wait_us)| *wait_us) {
                refuse_if(index, wait_us)?;
            }
        }
        for (index, (key, limit)) in keys.iter().zip(limits).enumerate() {
            match table.take(*key, limit.rate, now_us) {
                RateDecision::Admitted { replaces: false } => {}
                RateDecision::Admitted { replaces: true } => {
                    client.worker.count(Counter::RateLimitEntriesReplaced);
                }
                RateDecision::Refused { wait_us } => refuse_if(index, wait_us)?,
            }
        }
        Ok(())
    }
}

fn refuse_if(index: usize, wait_us: u64) -> Result<(), Fault> {
    if wait_us == 0 {
        return Ok(());
    }
    // A route has few limits, and no limit makes a client wait for longer than a day.
    let limit = u8::try_from(index).unwrap_or(u8::MAX);
    let wait_s = u32::try_from(wait_us.div_ceil(1_000_000)).unwrap_or(u32::MAX);
    Err(Fault::RateLimited { limit, wait_s })
}

/// Returns the client that a limit counts. A limit by a field counts the client network of a
/// request that does not have exactly one line with a value: a client could repeat a line to get
/// another limit, and it is not known which of the lines the origin believes.
fn limited_client<'a>(
    scope: &LimitScope,
    client: &Client,
    request: &Request<'a>,
) -> LimitedClient<'a> {
    match scope {
        LimitScope::Network => LimitedClient::Network(client.network()),
        LimitScope::Route => LimitedClient::All,
        LimitScope::Field(name) => {
            let fields = request.head.fields().iter();
            let mut lines = fields.filter(|line| line.name.eq_ignore_ascii_case(name.as_bytes()));
            match (lines.next(), lines.next()) {
                (Some(line), None) if !line.value.is_empty() => LimitedClient::Value(line.value),
                _ => LimitedClient::Network(client.network()),
            }
        }
    }
}

/// Appends the fields that tell a client of the limit that it has reached: Retry-After (RFC 9110
/// §10.2.3), RateLimit-Policy and RateLimit (draft-ietf-httpapi-ratelimit-headers-11 §3, §4).
pub(crate) fn write_limit_fields(text: &mut Vec<u8>, limit: &RateLimit, wait_s: u32) {
    write::number_field(text, b"retry-after", u64::from(wait_s));
    // A name is a token or a field name, so it needs no escape in a string of a structured field.
    let RateLimit { name, count, period_s, .. } = limit;
    let policy = format!("\"{name}\";q={count};w={period_s}");
    write::field(text, b"ratelimit-policy", policy.as_bytes());
    write::field(text, b"ratelimit", format!("\"{name}\";r=0;t={wait_s}").as_bytes());
}
