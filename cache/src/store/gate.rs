//! The gate through which a caller joins a fetch: it compares the store with the result of the
//! caller's lookup.

use super::lookup::RecordVersion;
use super::worker::WorkerInner;
use crate::flight::Gate;
use crate::segment::HeaderKind;

/// The gate of a caller. It compares the record that the caller found with the record that is
/// stored now.
pub(super) struct StoreGate<'a> {
    pub(super) inner: &'a WorkerInner,
    pub(super) primary: &'a [u8],
    pub(super) variant: Option<&'a [u8]>,
    pub(super) known: Option<RecordVersion>,
}

impl Gate for StoreGate<'_> {
    fn note(&self) -> u64 {
        self.inner.shared.purges.noted()
    }

    fn is_current(&self) -> bool {
        let found = match self.inner.records.look(self.primary) {
            None => None,
            Some(pinned) if pinned.record().header.kind != HeaderKind::Base => {
                Some(pinned.record().header.sequence)
            }
            Some(base) => match self.variant {
                // The caller does not know the field names yet. Another lookup returns them.
                None => return false,
                Some(list) => {
                    let known = (list, self.known);
                    return self.inner.records.is_current(self.primary, &base, known);
                }
            },
        };
        found == self.known.map(|known| known.sequence)
    }

    fn may_follow(&self, purge_noted: u64) -> bool {
        let purges = &self.inner.shared.purges;
        // The tags of the response are not known yet.
        !purges.is_newer(purge_noted, self.primary, |purge| purge.may_match(self.primary))
    }
}
