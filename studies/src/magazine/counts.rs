//! The counts of a pair of magazines.

use std::ops::AddAssign;

/// The counts of one worker, or the sum of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MagazineCounts {
    /// The number of items that were requested.
    pub takes: u64,
    /// The number of items that were given back.
    pub gives: u64,
    /// The number of magazines that were exchanged with the depot, each under its lock.
    pub exchanges: u64,
    /// The number of requests that found no free item and made a new one.
    pub made: u64,
    /// The number of given items that were dropped because all magazines were full.
    pub dropped: u64,
}

impl AddAssign for MagazineCounts {
    fn add_assign(&mut self, other: MagazineCounts) {
        self.takes += other.takes;
        self.gives += other.gives;
        self.exchanges += other.exchanges;
        self.made += other.made;
        self.dropped += other.dropped;
    }
}
