//! Stored bodies that lack fragments: a range request stored a part of the body, or fragments were
//! evicted. The missing fragments are fetched in units, which concurrent requests share.

use std::ops::Range;

use bytes::Bytes;

use super::fill::{CollapseResult, Leader};
use super::gate::StoreGate;
use super::long::{Division, FRAGMENTS_MAX, LongBody, fragment_key, fragments_in};
use super::put::RecordTimes;
use super::respond::Response;
use super::worker::{StoreWorker, WorkerInner};
use crate::flight::{
    BodyReader, DeclinedUntil, FlightKey, Gate, JoinTerms, RenewedHead, VariantKey,
};
use crate::segment::HeaderKind;
use crate::tags::RecordTags;

/// The most fragments that are looked up to find the first that is missing, which takes about 100
/// µs.
const SOUGHT_MAX: usize = 1024;

/// The gate of a caller that needs a missing fragment.
struct FragmentGate<'a> {
    inner: &'a WorkerInner,
    key: &'a [u8],
}

impl Gate for FragmentGate<'_> {
    fn note(&self) -> u64 {
        self.inner.shared.purges.noted()
    }

    fn is_current(&self) -> bool {
        self.inner.records.look(self.key).is_none()
    }

    fn may_follow(&self, _purge_noted: u64) -> bool {
        // A purge removes the head, and no later request finds the fragments. A request that has
        // begun to send the body may go on.
        true
    }
}

impl StoreWorker {
    /// The length of a unit of about `unit_bytes`: a whole number of fragments.
    pub fn whole_unit_bytes(&self, unit_bytes: u64) -> u64 {
        let fragment_bytes = Division::of(self.inner.shared.plan.geometry).fragment_bytes;
        u64::from(fragments_in(unit_bytes, fragment_bytes)) * u64::from(fragment_bytes)
    }

    /// Returns a description of a body of `bytes` bytes of which no fragment is stored; `None` if
    /// the body is too long.
    pub fn empty_long_body(&self, bytes: u64) -> Option<LongBody> {
        let fragment_bytes = Division::of(self.inner.shared.plan.geometry).fragment_bytes;
        let is_short = bytes / u64::from(fragment_bytes) < FRAGMENTS_MAX;
        is_short.then(|| LongBody::new(self.inner.shared.next_sequence(), bytes, fragment_bytes))
    }

    /// Returns the first missing fragment among the first 1024 of `numbers`. The others are not
    /// looked up.
    pub fn first_missing(&self, long: &LongBody, mut numbers: Range<u32>) -> Option<u32> {
        let sought = numbers.by_ref().take(SOUGHT_MAX);
        sought.into_iter().find(|number| !self.has_fragment(long, *number))
    }

    /// Returns the first run of missing fragments among `numbers`, if it begins in the first 1024.
    pub fn missing_run(&self, long: &LongBody, numbers: Range<u32>) -> Option<Range<u32>> {
        let first = self.first_missing(long, numbers.clone())?;
        let next = (first + 1..numbers.end).find(|number| self.has_fragment(long, *number));
        Some(first..next.unwrap_or(numbers.end))
    }

    /// Whether a fragment is stored. This does not check the fragment's content.
    fn has_fragment(&self, long: &LongBody, number: u32) -> bool {
        let records = &self.inner.records;
        let key = fragment_key(long.id(), number);
        records.index.lookup(&records.pins, &records.key(&key)).is_some()
    }

    /// Declines a key, so that its requests are not collapsed, whether for the whole response or
    /// for a part. A caller does this after the origin has answered a request for a missing part
    /// with another version of the response.
    pub fn decline_all(&self, primary: &[u8], variant: Option<&[u8]>, declined: DeclinedUntil) {
        let hash = self.inner.shared.hash(primary).value();
        let key = FlightKey { hash, primary, variant, is_part: true };
        self.inner.shared.flights.decline_all(key, declined);
    }

    /// Collapses the fetch of a unit of a stored body with other fetches of the unit. `wanted` is
    /// the fragment of the unit that the caller has not found.
    pub fn collapse_fragments(
        &self,
        long: &LongBody,
        unit: &Range<u32>,
        wanted: u32,
        terms: JoinTerms,
    ) -> CollapseResult {
        let primary = fragment_key(long.id(), unit.start);
        let hash = self.inner.shared.hash(&primary).value();
        let gate = FragmentGate { inner: &self.inner, key: &fragment_key(long.id(), wanted) };
        let key = FlightKey { hash, primary: &primary, variant: None, is_part: true };
        self.join_flight(key, terms, &gate, None)
    }
}

impl Leader {
    /// Whether a body of this length is too large to be fetched whole: it would take a large part
    /// of the room for growing records, or does not fit into that room.
    pub fn is_large(&self, bytes: u64) -> bool {
        self.guard.is_large(bytes)
    }

    /// Stores the head of a response whose body is `long`, of which no fragment needs to be stored
    /// yet. Followers and later callers find the response.
    ///
    /// # Errors
    /// The response is not stored: it was purged, another response was stored since the leader
    /// began, the whole response is arriving, or there is no room. The leader is returned, whose
    /// followers still wait.
    pub fn store_partial(
        self,
        head: &[u8],
        base: Option<&VariantKey>,
        long: &LongBody,
        (times, tags): (RecordTimes, &RecordTags),
    ) -> Result<(), Self> {
        let (inner, known) = (&self.inner, self.known);
        let FlightKey { primary, variant, .. } = self.guard.key();
        // A whole response that arrives, or was stored in the meantime, is worth more than a
        // partial one.
        let is_current = StoreGate { inner, primary, variant, known }.is_current();
        if !is_current || inner.shared.flights.is_whole_arriving(self.guard.key()) {
            return Err(self);
        }
        let begun_at = inner.shared.last_sequence();
        let stored = self.inner.put_response(&Response {
            primary,
            base,
            kind: HeaderKind::LongHead,
            tags: tags.as_bytes(),
            head,
            body: &[&long.encode()],
            times,
            begun_at,
            purge_noted: self.guard.purge_noted(),
            queue: self.inner.queue_for(primary, base),
        });
        match stored {
            Ok(sequence) => {
                inner.supersede((primary, variant), base, begun_at);
                let head = Bytes::copy_from_slice(head);
                let base = base.cloned();
                self.guard.validated(RenewedHead { head, base, sequence: Some(sequence) });
                Ok(())
            }
            Err(_) => Err(self),
        }
    }
}

/// Reads fragments of a stored body while they arrive.
#[derive(Debug)]
pub struct FragmentReader {
    /// Reads the fragments as one body.
    pub reader: BodyReader,
    /// The range of bytes of the stored body that arrives.
    pub bytes: Range<u64>,
}

impl FragmentReader {
    /// Makes a reader from the reader of a flight that [`StoreWorker::collapse_fragments`] has
    /// joined; `None` if the flight is of another kind.
    pub fn new(reader: BodyReader) -> Option<FragmentReader> {
        let start = u64::from_le_bytes(reader.head().try_into().ok()?);
        let end = start.checked_add(reader.body_bytes()?)?;
        Some(FragmentReader { reader, bytes: start..end })
    }
}
