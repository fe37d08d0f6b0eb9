//! Keys whose last response was not storable. Their requests are not collapsed for a while: each
//! would wait for a leader only to fetch for itself.
//!
//! A fixed table with one slot per hash: a newer key replaces an older one, which costs one
//! collapsed wait.

/// Slots per shard.
const COUNT: usize = 256;

/// Memory of one table.
pub(super) const BYTES: usize = COUNT * size_of::<DeclinedEntry>();

#[derive(Clone, Copy, Default)]
struct DeclinedEntry {
    hash: u64,
    until_ms: u64,
}

/// The declined keys of one shard.
pub(super) struct Declined {
    slots: Box<[DeclinedEntry]>,
}

impl Declined {
    pub(super) fn new() -> Self {
        Self { slots: vec![DeclinedEntry::default(); COUNT].into_boxed_slice() }
    }

    /// Remembers a key until `until_ms`.
    pub(super) fn remember(&mut self, hash: u64, until_ms: u64) {
        *self.slot(hash) = DeclinedEntry { hash, until_ms };
    }

    /// Whether the key is remembered at `now_ms`.
    pub(super) fn contains(&self, hash: u64, now_ms: u64) -> bool {
        let slot = &self.slots[hash as usize % COUNT];
        slot.hash == hash && now_ms < slot.until_ms
    }

    /// Forgets a key.
    pub(super) fn forget(&mut self, hash: u64) {
        let slot = self.slot(hash);
        if slot.hash == hash {
            *slot = DeclinedEntry::default();
        }
    }

    fn slot(&mut self, hash: u64) -> &mut DeclinedEntry {
        &mut self.slots[hash as usize % COUNT]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_declined_until_its_time_is_over_or_it_is_forgotten() {
        let mut declined = Declined::new();
        declined.remember(7, 100);
        for (hash, now_ms, expected) in
            [(7, 0, true), (7, 99, true), (7, 100, false), (8, 0, false)]
        {
            assert_eq!(declined.contains(hash, now_ms), expected, "{hash} at {now_ms}");
        }
        declined.forget(7 + COUNT as u64);
        assert!(declined.contains(7, 0), "a neighbour in the same slot is another key");
        declined.forget(7);
        assert!(!declined.contains(7, 0));
    }
}
