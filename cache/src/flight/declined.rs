//! Keys whose last response was not storable ("hit-for-miss"). Requests for them are not collapsed
//! for a while: each would wait for a leader only to fetch for itself afterwards.
//!
//! The table has a fixed number of sets. All variants of a resource share a set. A new key replaces
//! the key of its set that expires first; then one request for the replaced key waits for a leader
//! although this does not help.

/// The number of sets of a shard's table.
pub(super) const SETS: usize = 32;

/// The number of keys of a set.
const WAYS: usize = 4;

/// The bytes of one table.
pub(super) const BYTES: usize = SETS * size_of::<[DeclinedEntry; WAYS]>();

/// The hashes that identify the key of a flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DeclinedKey {
    /// The hash of the primary key.
    pub(super) primary: u64,
    /// The hash of primary key and variant.
    pub(super) flight: u64,
}

#[derive(Clone, Copy, Default)]
struct DeclinedEntry {
    key: DeclinedKey,
    until_ms: u64,
}

/// The declined keys of one shard.
pub(super) struct Declined {
    sets: Box<[[DeclinedEntry; WAYS]]>,
}

impl Declined {
    pub(super) fn new() -> Self {
        Self { sets: vec![[DeclinedEntry::default(); WAYS]; SETS].into_boxed_slice() }
    }

    /// Remembers a key until `until_ms`.
    pub(super) fn remember(&mut self, key: DeclinedKey, until_ms: u64) {
        let set = self.set(key.primary);
        let slot = match set.iter().position(|entry| entry.key == key) {
            Some(own) => own,
            None => (0..WAYS).min_by_key(|&way| set[way].until_ms).unwrap_or(0),
        };
        set[slot] = DeclinedEntry { key, until_ms };
    }

    /// Whether the key is remembered at `now_ms`.
    pub(super) fn contains(&self, key: DeclinedKey, now_ms: u64) -> bool {
        let set = &self.sets[key.primary as usize % SETS];
        set.iter().any(|entry| entry.key == key && now_ms < entry.until_ms)
    }

    /// Forgets all variants of a primary key.
    pub(super) fn forget(&mut self, primary: u64) {
        for entry in self.set(primary).iter_mut().filter(|entry| entry.key.primary == primary) {
            *entry = DeclinedEntry::default();
        }
    }

    fn set(&mut self, primary: u64) -> &mut [DeclinedEntry; WAYS] {
        &mut self.sets[primary as usize % SETS]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(primary: u64, flight: u64) -> DeclinedKey {
        DeclinedKey { primary, flight }
    }

    #[test]
    fn a_variant_is_declined_until_its_time_is_over_or_its_resource_is_forgotten() {
        let mut declined = Declined::new();
        declined.remember(key(7, 1), 100);
        declined.remember(key(7, 2), 50);
        for (key, now_ms, expected) in [
            (key(7, 1), 0, true),
            (key(7, 1), 99, true),
            (key(7, 1), 100, false),
            (key(7, 2), 49, true),
            (key(7, 2), 50, false),
            (key(7, 3), 0, false),
            (key(8, 1), 0, false),
        ] {
            assert_eq!(declined.contains(key, now_ms), expected, "{key:?} at {now_ms}");
        }
        declined.forget(7 + SETS as u64);
        assert!(declined.contains(key(7, 1), 0), "another resource of the same set was forgotten");
        declined.forget(7);
        assert!(!declined.contains(key(7, 1), 0) && !declined.contains(key(7, 2), 0));
    }

    #[test]
    fn a_new_key_replaces_the_key_that_expires_first() {
        let mut declined = Declined::new();
        for flight in 0..WAYS as u64 {
            declined.remember(key(7, flight), 100 + flight);
        }
        declined.remember(key(7, 0), 200);
        declined.remember(key(7, 9), 100);
        let remembered: Vec<u64> =
            (0..10).filter(|&flight| declined.contains(key(7, flight), 0)).collect();
        assert_eq!(remembered, [0, 2, 3, 9]);
    }
}
