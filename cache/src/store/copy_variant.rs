//! Storing a variant once more, for a request that does not select it: the origin has confirmed it
//! for that request too.

use bytes::Bytes;

use super::fill::Leader;
use super::lookup::RecordVersion;
use super::put::RecordTimes;
use super::respond::Response;
use super::selectors::selector_list;
use super::worker::WorkerInner;
use crate::flight::{FlightKey, RenewedHead, VariantKey};
use crate::segment::HeaderKind;
use crate::tags::RecordTags;

/// A stored variant that the origin has confirmed for a request that does not select it.
#[derive(Clone, Copy, Debug)]
pub struct ConfirmedVariant<'a> {
    /// The selector of the variant.
    pub selector: &'a [u8],
    /// The version of the variant.
    pub known: RecordVersion,
    /// The field names of the variant, and the request's selector for them.
    pub copy: &'a VariantKey,
}

impl Leader {
    /// RFC 9111 §4.3.4: renews the head of the variant, and stores a copy that requests like the
    /// caller's select. Followers get the copy.
    ///
    /// # Errors
    /// No copy is stored. The leader is returned, whose followers still wait, and the version of
    /// the variant with the new head; `None` if the variant is not stored any more.
    pub fn validated_variant(
        self,
        confirmed: &ConfirmedVariant<'_>,
        (head, times, tags): (&[u8], RecordTimes, Option<&RecordTags>),
    ) -> Result<(), (Self, Option<RecordVersion>)> {
        let FlightKey { primary, variant, .. } = self.guard.key();
        let list = selector_list(confirmed.selector);
        let (inner, noted) = (&self.inner, self.guard.purge_noted());
        let key = (primary, Some(&*list));
        let Some(sequence) = inner.renew(key, confirmed.known, noted, (head, times, tags)) else {
            return Err((self, None));
        };
        let renewed = RecordVersion { sequence };
        let begun_at = inner.shared.last_sequence();
        let copied = inner.copy_variant(key, renewed, noted, (confirmed.copy, head, times));
        let Some(sequence) = copied else { return Err((self, Some(renewed))) };
        inner.supersede((primary, variant), Some(confirmed.copy), begun_at);
        let head = Bytes::copy_from_slice(head);
        let base = Some(confirmed.copy.clone());
        self.guard.validated(RenewedHead { head, base, sequence: Some(sequence) });
        Ok(())
    }
}

impl WorkerInner {
    /// Stores a copy of a variant under another selector. Returns the sequence of the copy; `None`
    /// if no copy is stored. A body in fragments has one head, so it is not copied.
    fn copy_variant(
        &self,
        (primary, list): (&[u8], Option<&[u8]>),
        version: RecordVersion,
        noted: u64,
        (copy, head, times): (&VariantKey, &[u8], RecordTimes),
    ) -> Option<u64> {
        let (pinned, _) = self.records.find((primary, list), version)?;
        let record = pinned.record();
        if record.header.kind != HeaderKind::Whole {
            return None;
        }
        // The walk of a purge that the fetch has noted may not have reached the variant yet. So
        // each purge since the variant itself was fetched counts for the copy.
        let purge_noted = self.shared.purges.widen(record.header.purge_noted).min(noted);
        let response = Response {
            primary,
            base: Some(copy),
            kind: HeaderKind::Whole,
            tags: record.tags(),
            head,
            body: &[record.body()],
            times,
            begun_at: self.shared.last_sequence(),
            purge_noted,
            queue: self.queue_for(primary, Some(copy)),
        };
        self.put_response(&response).ok()
    }
}
