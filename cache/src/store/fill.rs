//! The leader's side of collapsed fetches: storing the response that a fetch returns.
//!
//! A [`Leader`] becomes a [`Fill`] when the response's head has arrived. Appended bytes go to the
//! readers of the growing record. A body that is too long for one record is stored in fragments
//! while it arrives, so that only its last fragment and the head are stored at its end.

use std::fmt;
use std::ops::Range;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;

use super::gate::StoreGate;
use super::long::{Division, LongBody, fragment_key};
use super::lookup::RecordVersion;
use super::put::{NotStored, Put, RecordTimes};
use super::respond::Response;
use super::stats::Events;
use super::worker::{StoreWorker, WorkerInner};
use crate::flight::{
    BodyWriter, DeclineReason, DeclinedUntil, FillRefused, FlightKey, Follower, FollowerWatch,
    Gate, JoinPreview, JoinResult, JoinTerms, LeaderGuard, NoReaders, RenewedHead, VariantKey,
};
use crate::segment::{HeaderKind, SegmentQueue};
use crate::tags::RecordTags;

/// The role of a caller that needs a fetch.
#[derive(Debug)]
pub enum CollapseResult {
    /// There is no fetch to follow. Give the leader to a task that fetches, and wait with the
    /// follower.
    Leader(Leader, Follower),
    /// There is a fetch to follow: wait with the follower.
    Follower(Follower),
    /// The store has changed since the caller's lookup: look up again.
    Stored,
    /// The response is probably not storable: fetch without collapsing.
    Declined(DeclinedUntil),
}

/// The leader of a collapsed fetch, which a task of its own owns. Dropping it fails the fetch for
/// all its followers.
pub struct Leader {
    pub(super) inner: Rc<WorkerInner>,
    pub(super) guard: LeaderGuard,
    pub(super) known: Option<RecordVersion>,
}

/// A growing record that the leader fills. Dropping it before [`finish`](Fill::finish) aborts the
/// record: nothing is stored, and the readers learn that.
pub struct Fill {
    inner: Rc<WorkerInner>,
    writer: BodyWriter,
    times: RecordTimes,
    /// The sequence of the last insert when the response began to arrive.
    begun_at: u64,
    tags: RecordTags,
    queue: SegmentQueue,
    long: Option<LongFill>,
}

/// The fragments of a long body that is stored while it arrives. If this is dropped before the head
/// is stored, the stored fragments are removed.
struct LongFill {
    inner: Rc<WorkerInner>,
    id: u64,
    fragment_bytes: u32,
    /// The number of the first fragment that arrives.
    first: u32,
    /// The number of fragments that are stored.
    count: u32,
    /// The stored body whose missing fragments arrive; `None` if a whole body arrives.
    part_of: Option<LongBody>,
    is_stored: bool,
}

impl StoreWorker {
    /// Collapses a fetch with other fetches of the same key: `primary`, and `variant`, which is the
    /// list of the request's selectors if the resource's sets of field names are known. `known` is
    /// the stored record that the caller found and wants to validate, or `None` if it found no
    /// record. The fetch is collapsed only if the store has not changed since: after a record is
    /// purged, no later caller may get its contents. With
    /// [`JoinPolicy::Arrived`](crate::JoinPolicy::Arrived) the caller follows only a fetch whose
    /// response has arrived; otherwise it leads beside other leaders of the key.
    pub fn collapse(
        &self,
        primary: &[u8],
        variant: Option<&[u8]>,
        known: Option<RecordVersion>,
        terms: JoinTerms,
    ) -> CollapseResult {
        let hash = self.inner.shared.hash(primary).value();
        let gate = StoreGate { inner: &self.inner, primary, variant, known };
        let key = FlightKey { hash, primary, variant, is_part: terms.is_part };
        self.join_flight(key, terms, &gate, known)
    }

    /// Joins a flight, as the leader of a new one or as a follower.
    pub(super) fn join_flight(
        &self,
        key: FlightKey<'_>,
        terms: JoinTerms,
        gate: &impl Gate,
        known: Option<RecordVersion>,
    ) -> CollapseResult {
        match self.inner.shared.flights.join(key, terms, gate) {
            JoinResult::Lead(guard, follower) => CollapseResult::Leader(
                Leader { inner: Rc::clone(&self.inner), guard, known },
                follower,
            ),
            JoinResult::Follow(follower) => CollapseResult::Follower(follower),
            JoinResult::Changed => CollapseResult::Stored,
            JoinResult::Declined(declined) => CollapseResult::Declined(declined),
        }
    }

    /// Returns the result that a call of [`collapse`](Self::collapse) would have, and changes
    /// nothing.
    pub fn preview_collapse(
        &self,
        primary: &[u8],
        variant: Option<&[u8]>,
        known: Option<RecordVersion>,
        terms: JoinTerms,
    ) -> JoinPreview {
        let hash = self.inner.shared.hash(primary).value();
        let gate = StoreGate { inner: &self.inner, primary, variant, known };
        let key = FlightKey { hash, primary, variant, is_part: terms.is_part };
        self.inner.shared.flights.preview(key, terms, &gate)
    }

    /// Lets fetches of a key be collapsed again, after one of its responses was storable.
    pub fn forget_declined(&self, primary: &[u8]) {
        self.inner.shared.flights.forget_declined(self.inner.shared.hash(primary).value());
    }
}

impl Leader {
    /// Sets whether the leader waits for its turn to ask the origin. While it does, callers that
    /// may ask the origin without waiting do not follow it: see [`JoinTerms::has_turn`].
    pub fn set_waits(&self, waits: bool) {
        self.guard.set_waits(waits);
    }

    /// Returns a watch on the followers of this fetch.
    pub fn watch_followers(&self) -> FollowerWatch {
        self.guard.watch_followers()
    }

    /// Removes the record that was `known` in [`StoreWorker::collapse`], if it is still stored. A
    /// leader calls this if the origin's response shows that the record is outdated.
    pub fn forget_known(&self) {
        let Some(known) = self.known else { return };
        let FlightKey { primary, variant, .. } = self.guard.key();
        self.inner.forget(primary, variant, known);
    }

    /// Ends the fetch of a response that is not storable. Followers fetch for themselves, and
    /// fetches of the key are not collapsed for a while from `now_ms`.
    pub fn decline(self, now_ms: u64, reason: DeclineReason) {
        self.guard.decline(now_ms, reason);
    }

    /// Ends the fetch of a response that is not storable, although the next response may be.
    /// Followers fetch for themselves, and later fetches of the key are collapsed.
    pub fn decline_once(self, reason: DeclineReason) {
        self.guard.decline_once(reason);
    }

    /// Fails the fetch for all followers, which get `code`: the caller's code for the reason.
    pub fn fail(self, code: u16) {
        self.guard.fail(code);
    }

    /// RFC 9111 §4.3.4: the origin has confirmed the known record, with a new head. If that record
    /// is still stored and no newer purge matches it, a record with the new head replaces it.
    /// Followers get the new head in any case. The new record keeps the old tags, and `tags` are
    /// added. Without a known record, the fetch fails.
    pub fn validated(self, head: &[u8], times: RecordTimes, tags: Option<&RecordTags>) {
        let Some(known) = self.known else { return };
        let FlightKey { primary, variant, .. } = self.guard.key();
        let noted = self.guard.purge_noted();
        let sequence = self.inner.renew((primary, variant), known, noted, (head, times, tags));
        let head = Bytes::copy_from_slice(head);
        self.guard.validated(RenewedHead { head, base: None, sequence });
    }

    /// Begins to store a response. `base` is given if the response has variants, and `body_bytes`
    /// if the length of its body is known. The record has no tags until [`Fill::tag`] sets them.
    ///
    /// # Errors
    /// Returns the reason if the response cannot be stored, and the leader, whose followers still
    /// wait.
    pub fn begin(
        self,
        head: &[u8],
        base: Option<VariantKey>,
        body_bytes: Option<u64>,
        times: RecordTimes,
    ) -> Result<Fill, (Self, FillRefused)> {
        let Leader { inner, guard, known } = self;
        let queue = inner.queue_for(guard.key().primary, base.as_ref());
        match guard.begin(head, base, body_bytes) {
            Ok(writer) => {
                let (tags, begun_at) = (RecordTags::none(), inner.shared.last_sequence());
                Ok(Fill { inner, writer, times, begun_at, tags, queue, long: None })
            }
            Err((guard, refused)) => Err((Leader { inner, guard, known }, refused)),
        }
    }

    /// Begins to store some missing fragments of a stored body. The leader comes from
    /// [`StoreWorker::collapse_fragments`]. Followers read the fragments as one body, whose head is
    /// the position of its first byte in the stored body: see
    /// [`FragmentReader`](crate::FragmentReader).
    ///
    /// # Errors
    /// Returns the reason if the fragments cannot be stored, and the leader, whose followers still
    /// wait.
    pub fn begin_fragments(
        self,
        long: LongBody,
        numbers: Range<u32>,
    ) -> Result<Fill, (Self, FillRefused)> {
        let bytes = long.bytes_of_all(&numbers);
        let head = bytes.start.to_le_bytes();
        let times = RecordTimes::default();
        let mut fill = self.begin(&head, None, Some(bytes.end - bytes.start), times)?;
        let new = LongFill::new(&fill.inner, long.id(), long.fragment_bytes());
        let part = fill.long.insert(new);
        (part.first, part.part_of) = (numbers.start, Some(long));
        Ok(fill)
    }
}

impl Fill {
    /// Sets the tags by which the record can be purged. Call it before the first append.
    pub fn tag(&mut self, tags: RecordTags) {
        self.tags = tags;
    }

    /// Polls for room to append. A record that is to be stored always has room. A body that is not
    /// stored any more waits for its slowest reader, for a limited time: poll again after a part of
    /// that time, even without a wakeup. `now_ms` is the caller's monotonic clock. The error is
    /// [`NoReaders`].
    pub fn poll_room(&mut self, cx: &mut Context<'_>, now_ms: u64) -> Poll<Result<(), NoReaders>> {
        self.writer.poll_room(cx, now_ms)
    }

    /// Cuts off the slowest reader, so that the leader does not wait for it.
    pub fn cut_slowest(&mut self) {
        self.writer.cut_slowest();
    }

    /// Publishes a copy of `bytes`. Call it after `poll_room`, with no more than one read of a
    /// socket.
    ///
    /// # Errors
    /// The body has no readers and will not be stored; the bytes are lost.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), NoReaders> {
        self.writer.append(bytes)?;
        match self.store_fragments(false) {
            // The growing record still holds all bytes, so the next append tries again.
            Ok(()) | Err(NotStored::NoRoom) => {}
            Err(_) => self.writer.stop_storing(),
        }
        if !self.writer.is_storing() {
            self.long = None;
        }
        Ok(())
    }

    /// Ends the body. Returns whether the record is stored. It is not stored if the body became a
    /// window, if a purge matched it or a later response was stored while it arrived, if there is
    /// no room, or if it does not have its announced length. In the last case its readers are told
    /// that the body is incomplete.
    pub fn finish(self) -> bool {
        self.end(false).unwrap_or(false)
    }

    /// Like [`finish`](Fill::finish), but returns the fill if a long body finds no room now, since
    /// segments may become free soon. Until then the readers wait for the end of the body.
    ///
    /// # Errors
    /// There is no room now, and the body has not ended: try again a little later, or
    /// [`finish`](Fill::finish) it.
    pub fn try_finish(self) -> Result<bool, Box<Fill>> {
        self.end(true)
    }

    fn end(mut self, may_wait: bool) -> Result<bool, Box<Fill>> {
        if !self.writer.is_complete() {
            return Ok(false);
        }
        let stored = match self.writer.is_storing().then(|| self.store()) {
            Some(Ok(stored)) => Some(stored),
            Some(Err(NotStored::NoRoom)) if may_wait && self.long.is_some() => {
                return Err(Box::new(self));
            }
            Some(Err(_)) | None => None,
        };
        let events = &self.inner.shared.events;
        Events::one(if stored.is_some() { &events.inserted } else { &events.not_stored });
        self.writer.finish(stored.flatten());
        Ok(stored.is_some())
    }

    /// Gives up storing the body because it is longer than the longest body that is stored. Readers
    /// get the rest through a sliding window. For a while from `now_ms`, fetches of the key are not
    /// collapsed.
    pub fn give_up_storing(&mut self, now_ms: u64) {
        self.writer.give_up_storing(now_ms);
        self.long = None;
    }

    /// Gives up storing a body that arrives too slowly. Readers get the rest through a sliding
    /// window.
    pub fn stop_storing(&mut self) {
        self.writer.stop_storing();
        self.long = None;
    }

    /// Whether the body is still to be stored. A body that passes through a window is not.
    pub fn is_storing(&self) -> bool {
        self.writer.is_storing()
    }

    /// The number of bytes of the body that were appended.
    pub fn bytes(&self) -> u64 {
        self.writer.bytes()
    }

    /// Stores the fragments that are complete, and at the end of the body also the last one.
    fn store_fragments(&mut self, is_end: bool) -> Result<(), NotStored> {
        let division = Division::of(self.inner.shared.plan.geometry);
        let known_bytes = self.writer.opening().body_bytes.unwrap_or(0);
        let is_long = self.long.is_some()
            || known_bytes.max(self.writer.bytes()) > u64::from(division.whole_bytes_max);
        if !self.writer.is_storing() {
            // A caller that must not follow this fetch can detach its flight at any time, and then
            // no more fragments are stored. A body that lacks fragments must not get a head.
            return if is_end { Err(NotStored::Outdated) } else { Ok(()) };
        }
        if !is_long {
            return Ok(());
        }
        let new = || {
            let id = self.inner.shared.next_sequence();
            LongFill::new(&self.inner, id, division.fragment_bytes)
        };
        let mut long = self.long.take().unwrap_or_else(new);
        let fragment_bytes = u64::from(long.fragment_bytes);
        // Bytes behind a part of a stored body must not replace the fragments that follow.
        let bytes_max = if long.part_of.is_some() { known_bytes } else { u64::MAX };
        loop {
            let start = u64::from(long.count) * fragment_bytes;
            // The last fragment may be shorter.
            let left = self.writer.bytes().min(bytes_max).saturating_sub(start);
            if left == 0 || left < fragment_bytes && !is_end {
                self.long = Some(long);
                return Ok(());
            }
            let pieces = self.writer.pieces(start..start + left.min(fragment_bytes));
            if let Err(why) = self.put_fragment(&mut long, &pieces) {
                // The stored fragments are kept only if the rest can be stored later.
                self.long = (why == NotStored::NoRoom).then_some(long);
                return Err(why);
            }
        }
    }

    fn put_fragment(&self, long: &mut LongFill, pieces: &[Bytes]) -> Result<(), NotStored> {
        let body: Vec<&[u8]> = pieces.iter().map(|piece| &piece[..]).collect();
        let put = Put {
            kind: HeaderKind::Fragment,
            key: &fragment_key(long.id, long.first + long.count),
            // The head record has the tags. A purge by tag removes the head.
            tags: &[],
            head: &[],
            body: &body,
            // A fragment is as fresh as its head, which may be renewed.
            times: RecordTimes { stale_from: u64::MAX, ..self.times },
            purge_noted: self.writer.purge_noted(),
            primary: self.writer.key().primary,
        };
        self.inner.put(&put, self.queue)?;
        long.count += 1;
        debug_assert!(!long.is_stored, "all fragments are stored before their head");
        Ok(())
    }

    /// Stores the complete record, or the rest of the missing fragments. Returns the location of
    /// the body if it is stored in fragments.
    pub(super) fn store(&mut self) -> Result<Option<LongBody>, NotStored> {
        self.store_fragments(true)?;
        let bytes = self.writer.bytes();
        let long = self.long.as_ref();
        if let Some(stored) = long.and_then(|long| long.part_of) {
            return Ok(Some(stored));
        }
        if let Some(long) = long {
            let count = bytes.div_ceil(u64::from(long.fragment_bytes));
            assert_eq!(u64::from(long.count), count, "a head is stored after all its fragments");
        }
        let long = long.map(|long| LongBody::new(long.id, bytes, long.fragment_bytes));
        let encoded = long.map(|long| long.encode());
        let pieces = if long.is_some() { Vec::new() } else { self.writer.pieces(0..bytes) };
        let body: Vec<&[u8]> = match &encoded {
            Some(encoded) => vec![encoded],
            None => pieces.iter().map(|piece| &piece[..]).collect(),
        };
        let opening = self.writer.opening();
        let _sequence = self.inner.put_response(&Response {
            primary: self.writer.key().primary,
            base: opening.base.as_ref(),
            kind: if long.is_some() { HeaderKind::LongHead } else { HeaderKind::Whole },
            tags: self.tags.as_bytes(),
            head: &opening.head,
            body: &body,
            times: self.times,
            begun_at: self.begun_at,
            purge_noted: self.writer.purge_noted(),
            queue: self.queue,
        })?;
        let FlightKey { primary, variant, .. } = self.writer.key();
        self.inner.supersede((primary, variant), opening.base.as_ref(), self.begun_at);
        if let Some(long) = &mut self.long {
            long.is_stored = true;
        }
        Ok(long)
    }
}

impl LongFill {
    fn new(inner: &Rc<WorkerInner>, id: u64, fragment_bytes: u32) -> LongFill {
        LongFill {
            inner: Rc::clone(inner),
            id,
            fragment_bytes,
            first: 0,
            count: 0,
            part_of: None,
            is_stored: false,
        }
    }
}

impl Drop for LongFill {
    fn drop(&mut self) {
        // A fragment of a stored body is of use even if the next one did not arrive.
        if !self.is_stored && self.part_of.is_none() {
            self.inner.records.remove_fragments(self.id, self.count);
        }
    }
}

impl fmt::Debug for Leader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leader").field("guard", &self.guard).finish_non_exhaustive()
    }
}

impl fmt::Debug for Fill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fill").field("writer", &self.writer).finish_non_exhaustive()
    }
}
