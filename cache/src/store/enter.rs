//! Keeping the order of keys and tags as the index is: an entry comes before the word of its
//! record, and leaves behind it.

use forebay_ordmap::MapError;
use forebay_shm::crash_point;

use super::put::{Appended, NotStored, Put};
use super::reach::Orphans;
use super::stats::Events;
use super::variants::split_variant_key;
use super::worker::Own;
use crate::order::{KEY_BYTES_MAX, Ordered};
use crate::segment::{Kind, Record};

/// How often a record is tried to be entered, with records leaving in between.
const ATTEMPTS_MAX: usize = 64;

/// What of a record is in the order, by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnedOrdered {
    primary: Box<[u8]>,
    has_key: bool,
    sequence: u64,
    tags: Box<[u8]>,
}

/// A record is entered, and about to be published. Dropped when it is, or never will be.
#[must_use = "its entries are swept out"]
pub(crate) struct Entered<'o> {
    own: &'o Own,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.own.shared.entering.end(self.own.part.row());
    }
}

impl OwnedOrdered {
    /// What of a record is in the order; nothing of a fragment, or of a variant without tags.
    pub(crate) fn of(record: &Record<'_>) -> Option<OwnedOrdered> {
        let (primary, has_key) = place_of(record.header.kind, record.key())?;
        let (sequence, tags) = (record.header.sequence, record.tags());
        let ordered = Ordered { primary, has_key, sequence, tags };
        let owned =
            || OwnedOrdered { primary: primary.into(), has_key, sequence, tags: tags.into() };
        (!ordered.is_nowhere()).then(owned)
    }

    pub(crate) fn borrowed(&self) -> Ordered<'_> {
        let OwnedOrdered { primary, has_key, sequence, tags } = self;
        Ordered { primary, has_key: *has_key, sequence: *sequence, tags }
    }
}

/// The primary key of a record, and whether it stands under it; nothing for a fragment.
pub(crate) fn place_of(kind: Kind, key: &[u8]) -> Option<(&[u8], bool)> {
    match kind {
        Kind::Base => Some((key, true)),
        Kind::Whole | Kind::LongHead => Some(match split_variant_key(key) {
            Some((primary, _, _)) => (primary, false),
            None => (key, true),
        }),
        Kind::Fragment | Kind::Filler => None,
    }
}

impl Put<'_> {
    fn ordered(&self, sequence: u64) -> Option<Ordered<'_>> {
        let (primary, has_key) = place_of(self.kind, self.key)?;
        Some(Ordered { primary, has_key, sequence, tags: self.tags })
    }
}

impl Own {
    /// Enters a record that was appended, before its word is published. If there is no room in the
    /// order some records leave, as if there were none in memory.
    pub(crate) fn enter(
        &self,
        put: &Put<'_>,
        appended: &Appended,
    ) -> Result<Option<Entered<'_>>, NotStored> {
        let Some(ordered) = put.ordered(appended.sequence).filter(|o| !o.is_nowhere()) else {
            return Ok(None);
        };
        if ordered.primary.len() > KEY_BYTES_MAX {
            appended.give_up(&self.shared);
            return Err(NotStored::TooLarge);
        }
        self.shared.entering.begin(self.part.row(), appended.sequence);
        let entered = Entered { own: self };
        for _ in 0..ATTEMPTS_MAX {
            match self.order.enter(&ordered) {
                Ok(()) => {
                    crash_point!("store.entered");
                    return Ok(Some(entered));
                }
                Err(MapError::Full) if self.make_room_in_order() => {}
                Err(_) => break,
            }
        }
        Events::one(&self.shared.events.order_refused);
        appended.give_up(&self.shared);
        self.leave_order(&ordered);
        Err(NotStored::NoRoom)
    }

    /// The record was not published: its entries leave.
    pub(crate) fn unenter(&self, put: &Put<'_>, appended: &Appended) {
        if let Some(ordered) = put.ordered(appended.sequence).filter(|o| !o.is_nowhere()) {
            self.leave_order(&ordered);
        }
    }

    /// Takes what named a record out of the order, now that the index does not name it any more.
    pub(crate) fn leave_order(&self, ordered: &Ordered<'_>) {
        if self.order.leave(ordered).is_err() {
            self.shared.note_left();
        }
    }

    /// Lets a segment's worth of records leave; whether some did.
    fn make_room_in_order(&self) -> bool {
        let segments = self.shared.plan.geometry.segment_count();
        let free = self.free_count(segments);
        let mut has_left = false;
        for _ in 0..SLICES_MAX {
            match self.reclaim_towards(free + 1, self.now.get()) {
                super::reclaim::Slice::More => has_left = true,
                _ => break,
            }
            while self.demote_orphans() {}
            if self.free_count(segments) > free {
                break;
            }
        }
        has_left
    }
}

/// Slices of reclaiming in a row: more than a segment takes.
const SLICES_MAX: usize = 4096;

impl Orphans {
    /// What of a record is to leave the order.
    pub(super) fn of_order(record: &Record<'_>) -> Option<Orphans> {
        OwnedOrdered::of(record).map(Orphans::Ordered)
    }
}

impl std::fmt::Debug for Entered<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entered").finish_non_exhaustive()
    }
}
