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

/// The size of one table, in bytes.
pub(super) const BYTES: usize = SETS * size_of::<[DeclinedEntry; WAYS]>();

/// The hashes that identify the key of a flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DeclinedKey {
    /// The hash of the primary key.
    pub(super) primary: u64,
    /// The hash of the primary key together with the variant and the group of declined callers.
    pub(super) flight: u64,
}

/// Why the response to a fetch was not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeclineReason {
    /// The body is longer than the longest body that is stored.
    TooLarge,
    /// The caller's own code for the reason.
    Code(u8),
}

/// A declined key: why it is declined, and until when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeclinedUntil {
    /// The reason.
    pub reason: DeclineReason,
    /// The time at which fetches of the key are collapsed again, in milliseconds of the caller's
    /// monotonic clock.
    pub until_ms: u64,
}

/// A declined key in the table. Reason and time share a word, so that an entry takes only 24 bytes.
#[derive(Clone, Copy, Default)]
struct DeclinedEntry {
    key: DeclinedKey,
    /// The time until which the key is declined in the upper bits, and the encoded reason in the
    /// lower bits.
    until: u64,
}

/// The number of bits of an encoded reason.
const REASON_BITS: u32 = 9;

impl DeclinedEntry {
    fn new(key: DeclinedKey, declined: DeclinedUntil) -> DeclinedEntry {
        let until_ms = declined.until_ms.min(u64::MAX >> REASON_BITS);
        let reason = match declined.reason {
            DeclineReason::TooLarge => 0,
            DeclineReason::Code(code) => 1 + u64::from(code),
        };
        DeclinedEntry { key, until: until_ms << REASON_BITS | reason }
    }

    fn until_ms(&self) -> u64 {
        self.until >> REASON_BITS
    }

    fn declined(&self) -> DeclinedUntil {
        let encoded = self.until & ((1 << REASON_BITS) - 1);
        let code = encoded.checked_sub(1).and_then(|code| u8::try_from(code).ok());
        let reason = code.map_or(DeclineReason::TooLarge, DeclineReason::Code);
        DeclinedUntil { reason, until_ms: self.until_ms() }
    }
}

/// The declined keys of one shard.
pub(super) struct Declined {
    sets: Box<[[DeclinedEntry; WAYS]]>,
}

impl Declined {
    pub(super) fn new() -> Self {
        Self { sets: vec![[DeclinedEntry::default(); WAYS]; SETS].into_boxed_slice() }
    }

    /// Remembers a key.
    pub(super) fn remember(&mut self, key: DeclinedKey, declined: DeclinedUntil) {
        let set = self.set(key.primary);
        let slot = match set.iter().position(|entry| entry.key == key) {
            Some(own) => own,
            None => (0..WAYS).min_by_key(|&way| set[way].until_ms()).unwrap_or(0),
        };
        set[slot] = DeclinedEntry::new(key, declined);
    }

    /// Returns why the key is declined at `now_ms`; `None` if it is not.
    pub(super) fn find(&self, key: DeclinedKey, now_ms: u64) -> Option<DeclinedUntil> {
        let mut set = self.sets[key.primary as usize % SETS].iter();
        let entry = set.find(|entry| entry.key == key && now_ms < entry.until_ms())?;
        Some(entry.declined())
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

    fn until(until_ms: u64) -> DeclinedUntil {
        DeclinedUntil { reason: DeclineReason::TooLarge, until_ms }
    }

    #[test]
    fn an_entry_keeps_its_reason_and_its_time() {
        let codes = [0, 7, u8::MAX].map(DeclineReason::Code);
        for reason in codes.into_iter().chain([DeclineReason::TooLarge]) {
            for until_ms in [1, 1 << 40, u64::MAX >> REASON_BITS] {
                let declined = DeclinedUntil { reason, until_ms };
                let entry = DeclinedEntry::new(key(7, 1), declined);
                assert_eq!(entry.declined(), declined);
            }
        }
        assert_eq!(size_of::<DeclinedEntry>(), 24);
        let far = DeclinedEntry::new(key(7, 1), until(u64::MAX));
        assert_eq!(far.declined(), until(u64::MAX >> REASON_BITS));
    }

    #[test]
    fn a_variant_is_declined_until_its_time_is_over_or_its_resource_is_forgotten() {
        let mut declined = Declined::new();
        declined.remember(key(7, 1), until(100));
        declined.remember(key(7, 2), until(50));
        for (key, now_ms, expected) in [
            (key(7, 1), 0, true),
            (key(7, 1), 99, true),
            (key(7, 1), 100, false),
            (key(7, 2), 49, true),
            (key(7, 2), 50, false),
            (key(7, 3), 0, false),
            (key(8, 1), 0, false),
        ] {
            assert_eq!(declined.find(key, now_ms).is_some(), expected, "{key:?} at {now_ms}");
        }
        declined.forget(7 + SETS as u64);
        assert!(
            declined.find(key(7, 1), 0).is_some(),
            "another resource of the same set was forgotten"
        );
        declined.forget(7);
        assert!([1, 2].iter().all(|flight| declined.find(key(7, *flight), 0).is_none()));
    }

    #[test]
    fn a_new_key_replaces_the_key_that_expires_first() {
        let mut declined = Declined::new();
        for flight in 0..WAYS as u64 {
            declined.remember(key(7, flight), until(100 + flight));
        }
        declined.remember(key(7, 0), until(200));
        declined.remember(key(7, 9), until(100));
        let remembered: Vec<u64> =
            (0..10).filter(|&flight| declined.find(key(7, flight), 0).is_some()).collect();
        assert_eq!(remembered, [0, 2, 3, 9]);
    }
}
