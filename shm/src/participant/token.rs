//! Tokens that prove to a lock that a participant belongs to its region, or is dead there.

use std::fmt;

use super::table::ParticipantId;

/// The identity of a region on this machine. All mappings of one file have the same identity.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RegionId {
    /// The seed is secret, since the hashes of keys depend on it.
    seed: [u8; 16],
}

impl RegionId {
    /// The identity of the region with this seed. Each region has a random seed.
    pub const fn of_seed(seed: [u8; 16]) -> RegionId {
        RegionId { seed }
    }
}

impl fmt::Debug for RegionId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("RegionId")
    }
}

/// A participant that is dead and being swept. Only a sweep makes a `Dead`, for the duration of the
/// clean-up.
#[derive(Debug)]
pub struct Dead {
    id: ParticipantId,
    region: RegionId,
}

impl Dead {
    /// Makes the token. Only a sweeper calls this, after it has found the participant's byte
    /// unlocked and has locked it.
    pub(crate) fn new(id: ParticipantId, region: RegionId) -> Dead {
        Dead { id, region }
    }

    /// The id of the participant.
    pub fn id(&self) -> ParticipantId {
        self.id
    }

    /// The region to which the participant belonged.
    pub fn region(&self) -> RegionId {
        self.region
    }
}
