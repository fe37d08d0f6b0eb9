//! Fetching for many, and storing what comes: the leader's side.
//!
//! A [`Leader`] becomes a [`Fill`] when the response's head is there. What is appended goes to
//! the readers of the growing record; a body that is too long for one record goes into fragments
//! as it arrives, so that the end of it is not more work than its last piece.

use std::fmt;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;

use super::long::{Division, LongBody, fragment_key};
use super::lookup::RecordVersion;
use super::put::{NotStored, Put, RecordTimes};
use super::respond::Response;
use super::stats::Events;
use super::worker::{StoreWorker, WorkerInner};
use crate::flight::{
    BodyWriter, FillRefused, FlightKey, Follower, Gate, JoinResult, LeaderGuard, NoReaders,
    RenewedHead, VariantKey,
};
use crate::segment::{HeaderKind, SegmentQueue};
use crate::tags::RecordTags;

/// What a caller does who needs a fetch.
#[derive(Debug)]
pub enum CollapseResult {
    /// Nobody fetches this key: give the leader to a task that does, and follow it.
    Leader(Leader, Follower),
    /// Somebody does.
    Follower(Follower),
    /// Meanwhile something was stored, or what the caller knows has left: look up again.
    Stored,
    /// The response is probably not storable: fetch alone.
    Declined,
}

/// Fetches for all followers of a key, in a task of its own. Dropping it without a word means that
/// the fetch has failed.
pub struct Leader {
    inner: Rc<WorkerInner>,
    guard: LeaderGuard,
    known: Option<RecordVersion>,
}

/// A growing record. Dropping it before [`finish`](Fill::finish) aborts it: nothing is stored,
/// and its readers are told.
pub struct Fill {
    inner: Rc<WorkerInner>,
    writer: BodyWriter,
    times: RecordTimes,
    tags: RecordTags,
    queue: SegmentQueue,
    long: Option<LongFill>,
}

/// The fragments of a body that is stored while it arrives. Dropped before the head is stored, it
/// takes them out again.
struct LongFill {
    inner: Rc<WorkerInner>,
    id: u64,
    fragment_bytes: u32,
    count: u32,
    is_stored: bool,
}

/// What a caller knows, held against what is stored now.
struct Current<'a> {
    inner: &'a WorkerInner,
    primary: &'a [u8],
    variant: Option<&'a [u8]>,
    known: Option<RecordVersion>,
}

impl Gate for Current<'_> {
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
                // The caller does not know the names yet: looking up again tells.
                None => return false,
                Some(values) => self.inner.records.variant_sequence(self.primary, &base, values),
            },
        };
        found == self.known.map(|known| known.sequence)
    }

    fn may_follow(&self, purge_noted: u64) -> bool {
        let purges = &self.inner.shared.purges;
        // Which tags it will have is not known.
        !purges.is_newer(purge_noted, |purge| purge.may_match(self.primary))
    }
}

impl StoreWorker {
    /// Collapses a fetch with others of the same key: `primary`, and `variant` if the names are
    /// known. `known` is the stored record that the caller has found and cannot use as it is (it
    /// wants to validate it). It must still be stored: once it is purged, nobody who joins later
    /// may be served what it holds.
    pub fn collapse(
        &self,
        primary: &[u8],
        variant: Option<&[u8]>,
        known: Option<RecordVersion>,
        now_ms: u64,
    ) -> CollapseResult {
        let hash = self.inner.shared.hash(primary).value();
        let gate = Current { inner: &self.inner, primary, variant, known };
        let key = FlightKey { hash, primary, variant };
        match self.inner.shared.flights.join(key, now_ms, &gate) {
            JoinResult::Lead(guard, follower) => CollapseResult::Leader(
                Leader { inner: Rc::clone(&self.inner), guard, known },
                follower,
            ),
            JoinResult::Follow(follower) => CollapseResult::Follower(follower),
            JoinResult::Changed => CollapseResult::Stored,
            JoinResult::Declined => CollapseResult::Declined,
        }
    }

    /// Ends that fetches of a key are not collapsed, because a response turned out storable.
    pub fn forget_declined(&self, primary: &[u8]) {
        self.inner.shared.flights.forget_declined(self.inner.shared.hash(primary).value());
    }
}

impl Leader {
    /// The response is not storable: followers fetch for themselves, and for a while from `now_ms`
    /// the key is not collapsed.
    pub fn decline(self, now_ms: u64) {
        self.guard.decline(now_ms);
    }

    /// This response is not storable, but the next may be: followers fetch for themselves.
    pub fn decline_once(self) {
        self.guard.decline_once();
    }

    /// The fetch has failed, and so have the followers.
    pub fn fail(self) {
        self.guard.fail();
    }

    /// RFC 9111 §4.3.4: the known record is good, with a new head. A record with it takes the known
    /// one's place, if that is still stored; followers hear of it in any case. It keeps its tags,
    /// and gets those that are given. Without a known record, the fetch has failed.
    pub fn validated(self, head: &[u8], times: RecordTimes, tags: Option<&RecordTags>) {
        let Some(known) = self.known else {
            return;
        };
        let FlightKey { primary, variant, .. } = self.guard.key();
        let noted = self.guard.purge_noted();
        let sequence = self.inner.renew((primary, variant), known, noted, (head, times, tags));
        self.guard.validated(RenewedHead { head: Bytes::copy_from_slice(head), sequence });
    }

    /// Begins to store a response. `base` if it has variants, `body_bytes` if its length is known.
    /// It has no tags until [`Fill::tag`] gives it some.
    ///
    /// # Errors
    /// Why it cannot be stored, and the leader back: followers wait for its word.
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
                let tags = RecordTags::none();
                Ok(Fill { inner, writer, times, tags, queue, long: None })
            }
            Err((guard, refused)) => Err((Leader { inner, guard, known }, refused)),
        }
    }
}

impl Fill {
    /// Gives it the tags by which it can be purged. Before anything is appended.
    pub fn tag(&mut self, tags: RecordTags) {
        self.tags = tags;
    }

    /// Waits until more may be appended: at once while the record is to be stored. See
    /// `NoReaders` for the error. To a body that is not going to be stored its slowest reader
    /// sets the pace, for a while: ask again after a part of that time, woken or not. `now_ms` is
    /// the caller's monotonic clock.
    pub fn poll_room(&mut self, cx: &mut Context<'_>, now_ms: u64) -> Poll<Result<(), NoReaders>> {
        self.writer.poll_room(cx, now_ms)
    }

    /// Leaves the slowest reader behind: who waits for room need not wait for it any more.
    pub fn cut_slowest(&mut self) {
        self.writer.cut_slowest();
    }

    /// Publishes a copy of `bytes`; call it after `poll_room`, with at most what a socket gives at
    /// a time.
    ///
    /// # Errors
    /// If nobody listens; what was appended is then lost.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), NoReaders> {
        self.writer.append(bytes)?;
        match self.store_fragments(false) {
            // All of it is still held: it is tried again with what comes next.
            Ok(()) | Err(NotStored::NoRoom) => {}
            Err(_) => self.writer.stop_storing(),
        }
        if !self.writer.is_storing() {
            self.long = None;
        }
        Ok(())
    }

    /// Ends the body. True if the record is stored: not if it became a window, was purged
    /// meanwhile, or is not as long as it was said to be; then its readers are told that it is
    /// broken.
    pub fn finish(self) -> bool {
        self.end(false).unwrap_or(false)
    }

    /// The same, but if there is no room for a long body now, which others may give up soon, it is
    /// given back: its readers wait for the end.
    ///
    /// # Errors
    /// It is not ended yet: try again a little later, or [`finish`](Fill::finish) it.
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

    /// The body turned out longer than its caller wants to store: it goes on to its readers as a
    /// sliding window, and for a while from `now_ms` the key is not collapsed.
    pub fn give_up_storing(&mut self, now_ms: u64) {
        self.writer.give_up_storing(now_ms);
        self.long = None;
    }

    /// Bytes of the body that were appended.
    pub fn bytes(&self) -> u64 {
        self.writer.bytes()
    }

    /// Stores the fragments that are complete; at the end also the last one.
    fn store_fragments(&mut self, is_end: bool) -> Result<(), NotStored> {
        let division = Division::of(self.inner.shared.plan.geometry);
        let known_bytes = self.writer.opening().body_bytes.unwrap_or(0);
        let is_long = known_bytes.max(self.writer.bytes()) > u64::from(division.whole_bytes_max);
        if !is_long || !self.writer.is_storing() {
            return Ok(());
        }
        let fragment_bytes = u64::from(division.fragment_bytes);
        let mut long = self.long.take().unwrap_or_else(|| LongFill::new(&self.inner, division));
        loop {
            let start = u64::from(long.count) * fragment_bytes;
            // The last one may have been shorter.
            let left = self.writer.bytes().saturating_sub(start);
            if left == 0 || left < fragment_bytes && !is_end {
                self.long = Some(long);
                return Ok(());
            }
            let pieces = self.writer.pieces(start..start + left.min(fragment_bytes));
            if let Err(why) = self.put_fragment(&mut long, &pieces) {
                // What is stored stays only if the rest may follow.
                self.long = (why == NotStored::NoRoom).then_some(long);
                return Err(why);
            }
        }
    }

    fn put_fragment(&self, long: &mut LongFill, pieces: &[Bytes]) -> Result<(), NotStored> {
        let body: Vec<&[u8]> = pieces.iter().map(|piece| &piece[..]).collect();
        let put = Put {
            kind: HeaderKind::Fragment,
            key: &fragment_key(long.id, long.count),
            // Its head has them; a purge that is about them takes that out.
            tags: &[],
            head: &[],
            body: &body,
            // It is as fresh as its head, which may be renewed.
            times: RecordTimes { stale_from: u64::MAX, ..self.times },
            purge_noted: self.writer.purge_noted(),
            primary: self.writer.key().primary,
        };
        self.inner.put(&put, self.queue)?;
        long.count += 1;
        Ok(())
    }

    /// Stores the complete record; where its body is, if that is long.
    fn store(&mut self) -> Result<Option<LongBody>, NotStored> {
        self.store_fragments(true)?;
        let bytes = self.writer.bytes();
        let long = self.long.as_ref();
        let long = long.map(|long| LongBody::new(long.id, bytes, long.fragment_bytes));
        let encoded = long.map(|long| long.encode());
        let pieces = if long.is_some() { Vec::new() } else { self.writer.pieces(0..bytes) };
        let body: Vec<&[u8]> = match &encoded {
            Some(encoded) => vec![encoded],
            None => pieces.iter().map(|piece| &piece[..]).collect(),
        };
        let opening = self.writer.opening();
        self.inner.put_response(&Response {
            primary: self.writer.key().primary,
            base: opening.base.as_ref(),
            kind: if long.is_some() { HeaderKind::LongHead } else { HeaderKind::Whole },
            tags: self.tags.as_bytes(),
            head: &opening.head,
            body: &body,
            times: self.times,
            purge_noted: self.writer.purge_noted(),
            queue: self.queue,
        })?;
        if let Some(long) = &mut self.long {
            long.is_stored = true;
        }
        Ok(long)
    }
}

impl LongFill {
    fn new(inner: &Rc<WorkerInner>, division: Division) -> LongFill {
        let id = inner.shared.next_sequence();
        let fragment_bytes = division.fragment_bytes;
        LongFill { inner: Rc::clone(inner), id, fragment_bytes, count: 0, is_stored: false }
    }
}

impl Drop for LongFill {
    fn drop(&mut self) {
        if !self.is_stored {
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
