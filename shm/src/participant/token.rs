//! What proves to a lock that somebody takes part in its region, or is dead there.

use std::fmt;

use super::table::ParticipantId;

/// Which region, among all that this machine has: two mappings of one file have the same.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RegionId {
    /// Not to be shown: hashes of keys begin with it.
    seed: [u8; 16],
}

impl RegionId {
    /// The region with this seed, which is random in each.
    pub const fn of_seed(seed: [u8; 16]) -> RegionId {
        RegionId { seed }
    }
}

impl fmt::Debug for RegionId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("RegionId")
    }
}

/// A participant that is dead, and being swept: only a sweep makes one, and has it for as long.
#[derive(Debug)]
pub struct Dead {
    id: ParticipantId,
    region: RegionId,
}

impl Dead {
    /// The sweeper found its byte free and holds it now.
    pub(crate) fn new(id: ParticipantId, region: RegionId) -> Dead {
        Dead { id, region }
    }

    /// Which participant it was.
    pub fn id(&self) -> ParticipantId {
        self.id
    }

    /// Where it took part.
    pub fn region(&self) -> RegionId {
        self.region
    }
}
