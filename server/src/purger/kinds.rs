//! The kinds of the last purges, by number. The store does not record why a purge was made, so each
//! process remembers this for its own purges.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Why and how responses were purged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum PurgeKind {
    /// An operator or a PURGE request removed the responses.
    Hard,
    /// An operator or a PURGE request made the responses stale.
    Soft,
    /// An unsafe request invalidated the responses.
    Invalidation,
}

impl PurgeKind {
    const ALL: [PurgeKind; 3] = [PurgeKind::Hard, PurgeKind::Soft, PurgeKind::Invalidation];

    /// The kind of a purge that was asked for.
    pub(crate) fn asked(is_soft: bool) -> PurgeKind {
        if is_soft { PurgeKind::Soft } else { PurgeKind::Hard }
    }

    /// The word for the kind.
    pub(crate) fn word(self) -> &'static str {
        match self {
            PurgeKind::Hard => "hard",
            PurgeKind::Soft => "soft",
            PurgeKind::Invalidation => "invalidation",
        }
    }
}

/// The kinds of the last purges of this process, in a table. The index of a purge's slot is the
/// number of the purge modulo the length of the table, so a later purge replaces an earlier one.
#[derive(Debug)]
pub(crate) struct PurgeKinds(Box<[AtomicU64]>);

/// The number of purges whose kind is remembered, which takes 8 KiB. The store itself remembers at
/// most this number of purges.
const PURGE_KINDS_MAX: usize = 1_024;

/// How many low bits of a slot contain the kind of a purge; the bits above contain its number.
const KIND_BITS: u32 = 2;
const KIND_MASK: u64 = (1 << KIND_BITS) - 1;

impl Default for PurgeKinds {
    fn default() -> Self {
        // The store numbers purges from 1 on, so a zero is an empty slot.
        PurgeKinds((0..PURGE_KINDS_MAX).map(|_| AtomicU64::new(0)).collect())
    }
}

impl PurgeKinds {
    /// Remembers the kind of the purge with this number.
    pub(crate) fn note(&self, number: u64, kind: PurgeKind) {
        self.slot(number).store(number << KIND_BITS | kind as u64, Relaxed);
    }

    /// Returns the kind of the purge with this number; `None` if another process made the purge, or
    /// if too many purges followed it.
    pub(crate) fn of(&self, number: u64) -> Option<PurgeKind> {
        let slot = self.slot(number).load(Relaxed);
        let is_own = number > 0 && slot >> KIND_BITS == number;
        PurgeKind::ALL.get((slot & KIND_MASK) as usize).copied().filter(|_| is_own)
    }

    fn slot(&self, number: u64) -> &AtomicU64 {
        &self.0[(number % PURGE_KINDS_MAX as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kinds_of_the_last_purges_are_known() {
        let kinds = PurgeKinds::default();
        let last = PURGE_KINDS_MAX as u64;
        assert_eq!((kinds.of(0), kinds.of(last)), (None, None));
        let all = [PurgeKind::Hard, PurgeKind::Soft, PurgeKind::Invalidation];
        for (number, kind) in (1..=last + 1).zip(all.into_iter().cycle()) {
            kinds.note(number, kind);
            assert_eq!(kinds.of(number), Some(kind), "{number}");
        }
        assert_eq!(kinds.of(1), None, "the slot of this purge has a later one");
        assert_eq!(kinds.of(2), Some(PurgeKind::Soft));
        assert_eq!(kinds.of(last + 2), None, "this purge was made by another process");
    }
}
