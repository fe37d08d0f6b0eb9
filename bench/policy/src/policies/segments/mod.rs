//! The store's policy: segments that are drained as a whole. All decisions are those of
//! `forebay_cache::policy`.

mod config;
mod costs;
mod ghosts;
mod pool;
mod records;

use forebay_cache::policy::{KeyHistory, queue_for};

pub(crate) use config::{Config, Division};
pub(crate) use costs::Costs;

use self::ghosts::Ghosts;
use self::pool::Pool;
use self::records::Records;
use super::{Policy, Request};
use crate::traces::Trace;

/// The number of requests between two samples of the budget's use.
const COUNTED_EVERY: u32 = 50_000;

/// A cache of segments.
pub(crate) struct Segments {
    pool: Pool,
    ghosts: Ghosts,
    config: Config,
}

impl Segments {
    pub(crate) fn new(trace: &Trace, budget_bytes: u64, config: Config) -> Self {
        let segment_bytes = budget_bytes / u64::from(config.segments);
        let records = Records::new(&trace.bytes, &config.division(segment_bytes));
        Self {
            pool: Pool::new(records, segment_bytes, config),
            ghosts: Ghosts::new(budget_bytes, &config),
            config,
        }
    }

    /// Stores a record that was fetched.
    fn insert(&mut self, record: u32, request: &Request) {
        let known = match self.pool.found(record) {
            Some(_) if self.config.inherits => KeyHistory::Replacement,
            _ if self.ghosts.take(record) => KeyHistory::Ghost,
            _ => KeyHistory::Unknown,
        };
        let queue = queue_for(known);
        let worker = request.now % self.config.workers;
        self.pool.remove(record);
        self.pool.insert(record, queue, worker, request, &mut self.ghosts);
    }
}

impl Policy for Segments {
    fn request(&mut self, request: &Request) -> u32 {
        let mut found = 0;
        let records = self.pool.records.of(request.key);
        // A long body is of no use without its head, so all of it is fetched again.
        let is_fetched = request.is_stale || self.pool.found(records.start).is_none();
        for record in records {
            match self.pool.found(record) {
                Some(_) if !is_fetched => {
                    self.pool.touch(record);
                    found += self.pool.records.body_bytes(record);
                }
                _ => self.insert(record, request),
            }
        }
        if request.now.is_multiple_of(COUNTED_EVERY) {
            self.pool.count_shares(request.now);
        }
        // The head of a long body is stored in addition to the object's bytes.
        found.min(request.bytes)
    }

    fn costs(&self) -> Option<Costs> {
        Some(self.pool.costs)
    }
}
