//! The counts of a pair of magazines.

use std::ops::AddAssign;

/// Plain numbers of one worker, or the sum of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MagazineCounts {
    /// Items asked for.
    pub takes: u64,
    /// Items given back.
    pub gives: u64,
    /// Magazines exchanged with the depot: how often its lock was taken with success.
    pub exchanges: u64,
    /// Takes that found no item, so that a new one was made.
    pub made: u64,
    /// Given items that found no place and were dropped.
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
