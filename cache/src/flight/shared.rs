//! One flight: a fetch, its followers, and the growing record behind its lock.
//!
//! A flight, its key and its readers are not charged to the budget: there are no more of them than
//! requests in progress, and they count as memory of those requests.
//!
//! Wakers are woken and dropped after the lock is released. Both run foreign code, which may call
//! back into the flight.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use forebay_sync::{LockClass, Mutex};

use super::flights::{FlightKey, JoinTerms};
use super::growing_record::{End, GrowingRecord, Phase, ReadEvent};
use super::readers::ReaderId;
use super::window::{Room, Window};
use crate::store::LongBody;

pub(super) struct Flight {
    /// The hash of the primary key, which chooses the shard.
    hash: u64,
    /// The hash of primary key and variant, by which the shard finds the flight.
    pub(super) flight_hash: u64,
    primary: Box<[u8]>,
    variant: Option<Box<[u8]>>,
    is_part: bool,
    /// Whether the response may be for the leader alone: see
    /// [`JoinTerms::is_personal`](super::flights::JoinTerms::is_personal).
    pub(super) is_personal: bool,
    /// The purge number that the gate returned when the leader began.
    pub(super) purge_noted: u64,
    /// The leader's monotonic time when it began, in milliseconds.
    began_ms: u64,
    /// Whether the leader waits for its turn to ask the origin. Only a hint for callers that join,
    /// which publishes no data.
    waits: AtomicBool,
    /// Whether a follower got its response without reading the body.
    is_served: AtomicBool,
    growing: Mutex<GrowingRecord>,
}

impl Flight {
    pub(super) fn new(
        key: FlightKey<'_>,
        flight_hash: u64,
        purge_noted: u64,
        terms: &JoinTerms,
    ) -> Self {
        Self {
            hash: key.hash,
            flight_hash,
            primary: key.primary.into(),
            variant: key.variant.map(Into::into),
            is_part: key.is_part,
            is_personal: terms.is_personal,
            purge_noted,
            began_ms: terms.now_ms,
            waits: AtomicBool::new(false),
            is_served: AtomicBool::new(false),
            growing: Mutex::new(LockClass::Flight, GrowingRecord::new()),
        }
    }

    pub(super) fn key(&self) -> FlightKey<'_> {
        let variant = self.variant.as_deref();
        FlightKey { hash: self.hash, primary: &self.primary, variant, is_part: self.is_part }
    }

    /// Changes the state, then wakes the tasks that wait for the change.
    fn change<T>(&self, change: impl FnOnce(&mut GrowingRecord, &mut Vec<Waker>) -> T) -> T {
        let mut wakers = Vec::new();
        let result = change(&mut self.growing.lock(), &mut wakers);
        wakers.into_iter().for_each(Waker::wake);
        result
    }

    /// Sets the phase that followers wait for. Only the first call has an effect.
    pub(super) fn settle(&self, phase: Phase) {
        self.change(|growing, wakers| {
            if let Phase::Waiting = growing.phase {
                growing.phase = phase;
                growing.readers.take_wakers(wakers);
            }
        });
    }

    /// Whether no bytes of an unfinished body have arrived for `stalled_ms`. If nothing of the body
    /// has arrived, the time counts from the first call.
    pub(super) fn is_stalled(&self, now_ms: u64, stalled_ms: u64) -> bool {
        let mut growing = self.growing.lock();
        if !matches!(growing.phase, Phase::Growing(_)) || growing.end != End::Open {
            return false;
        }
        let moved_ms = *growing.moved_ms.get_or_insert(now_ms);
        now_ms.saturating_sub(moved_ms) >= stalled_ms
    }

    /// Sets whether the leader waits for its turn to ask the origin.
    pub(super) fn set_waits(&self, waits: bool) {
        self.waits.store(waits, Relaxed);
    }

    /// Whether the leader waits for its turn to ask the origin.
    pub(super) fn waits_for_turn(&self) -> bool {
        self.waits.load(Relaxed) && !self.has_arrived()
    }

    /// Records that a follower got its response without reading the body.
    pub(super) fn serve(&self) {
        self.is_served.store(true, Relaxed);
    }

    /// Whether the response's head has arrived.
    pub(super) fn has_arrived(&self) -> bool {
        !matches!(self.growing.lock().phase, Phase::Waiting)
    }

    /// Whether any follower or reader has not left.
    pub(super) fn has_followers(&self) -> bool {
        !self.growing.lock().readers.is_empty()
    }

    /// Whether a follower got its response without reading the body.
    pub(super) fn was_served(&self) -> bool {
        self.is_served.load(Relaxed)
    }

    /// Polls until the last follower or reader has left.
    pub(super) fn poll_unfollowed(&self, cx: &Context<'_>) -> Poll<()> {
        let mut growing = self.growing.lock();
        if growing.readers.is_empty() {
            return Poll::Ready(());
        }
        if growing.watcher.as_ref().is_some_and(|watcher| watcher.will_wake(cx.waker())) {
            return Poll::Pending;
        }
        let replaced = growing.watcher.replace(cx.waker().clone());
        drop(growing);
        drop(replaced);
        Poll::Pending
    }

    /// Ends the body. Only the first call has an effect. If the body is aborted, its fragments are
    /// dropped.
    pub(super) fn end(&self, end: End) {
        let unread = self.change(|growing, wakers| {
            if growing.end == End::Open {
                growing.end = end;
                growing.readers.take_wakers(wakers);
            }
            if growing.end == End::Aborted { growing.take_fragments() } else { VecDeque::new() }
        });
        drop(unread);
    }

    /// Records that the flight was removed from the table because of a purge. With the next append,
    /// the body becomes a window.
    pub(super) fn detach(&self) {
        self.growing.lock().detached = true;
    }

    pub(super) fn is_detached(&self) -> bool {
        self.growing.lock().detached
    }

    /// Makes the body a window. The caller has removed the flight from the table.
    pub(super) fn slide(&self, window_bytes: u64) {
        let mut growing = self.growing.lock();
        growing.window = Some(Window::new(window_bytes));
        growing.release();
    }

    /// Records the location of the finished body, which is stored in fragments. Readers that
    /// stepped aside continue there.
    pub(super) fn stored(&self, long: LongBody) {
        self.growing.lock().stored = Some(long);
    }

    /// Sets how many bytes the window may hold.
    pub(super) fn set_window(&self, bytes_max: u64) {
        if let Some(window) = &mut self.growing.lock().window {
            window.bytes_max = bytes_max;
        }
    }

    /// Clones of the last fragments, with which the next `bytes` bytes are joined.
    pub(super) fn tail(&self, bytes: usize) -> Vec<Bytes> {
        self.growing.lock().tail(bytes)
    }

    /// Publishes bytes. The first `repeated_bytes` of them repeat the last bytes of the body so
    /// far. Returns false if the body is a window without readers.
    pub(super) fn publish(&self, bytes: Bytes, repeated_bytes: u64, now_ms: u64) -> bool {
        self.change(|growing, wakers| {
            growing.moved_ms = Some(now_ms);
            growing.publish(bytes, repeated_bytes, wakers);
            growing.window.is_none() || !growing.readers.is_empty()
        })
    }

    /// Polls for room to append. Also returns whether a reader was cut off.
    pub(super) fn poll_room(
        &self,
        cx: &Context<'_>,
        now_ms: u64,
        wait_ms_max: u64,
    ) -> (Poll<Room>, bool) {
        self.change(|growing, wakers| {
            let cut = growing.count_stall(now_ms, wait_ms_max, wakers);
            (growing.poll_room(cx, now_ms), cut)
        })
    }

    /// Cuts off the slowest reader. Returns whether there was one.
    pub(super) fn cut_slowest(&self) -> bool {
        self.change(|growing, wakers| growing.cut_slowest(wakers))
    }

    /// The sum of the costs of the fragments that are held.
    #[cfg(test)]
    pub(super) fn held_bytes(&self) -> u64 {
        self.growing.lock().held_bytes
    }

    /// Clones of the held bytes of a part of the body.
    pub(super) fn pieces(&self, range: Range<u64>) -> Vec<Bytes> {
        let mut pieces = Vec::new();
        self.growing.lock().clone_range(range, &mut pieces);
        pieces
    }
}

/// The registration of a follower or reader in a flight. Dropping it leaves the flight.
pub(super) struct FollowerHandle {
    flight: Arc<Flight>,
    id: ReaderId,
}

impl FollowerHandle {
    pub(super) fn new(flight: &Arc<Flight>) -> Self {
        let id = flight.growing.lock().readers.attach();
        Self { flight: Arc::clone(flight), id }
    }

    /// Polls for a phase other than `Waiting`.
    pub(super) fn poll_phase(&self, cx: &Context<'_>) -> Poll<Phase> {
        let mut growing = self.flight.growing.lock();
        let phase = growing.phase_for(self.id);
        if !matches!(phase, Phase::Waiting) {
            return Poll::Ready(phase);
        }
        let replaced = growing.readers.wait(self.id, cx);
        drop(growing);
        drop(replaced);
        Poll::Pending
    }

    /// Polls for bytes that this reader has not read.
    pub(super) fn poll_read(
        &self,
        cx: &Context<'_>,
        bytes_max: u64,
        out: &mut Vec<Bytes>,
    ) -> Poll<ReadEvent> {
        let mut growing = self.flight.growing.lock();
        let event = growing.read(self.id, bytes_max, out);
        let (replaced, leader) = match event {
            Some(_) => (None, growing.leader_to_wake()),
            None => growing.wait(self.id, cx),
        };
        drop(growing);
        drop(replaced);
        leader.into_iter().for_each(Waker::wake);
        event.map_or(Poll::Pending, Poll::Ready)
    }
}

impl FollowerHandle {
    /// The leader's monotonic time when it began, in milliseconds.
    pub(super) fn began_ms(&self) -> u64 {
        self.flight.began_ms
    }

    /// Whether the response may be for the leader alone.
    pub(super) fn is_personal(&self) -> bool {
        self.flight.is_personal
    }

    /// See [`Flight::serve`].
    pub(super) fn serve(&self) {
        self.flight.serve();
    }

    /// Lets the flight drop bytes that only this reader still needs, once the body is stored in
    /// fragments. This lasts until the reader reads again.
    pub(super) fn step_aside(&self) {
        let mut growing = self.flight.growing.lock();
        if let Some(reader) = growing.readers.find(self.id) {
            reader.is_aside = true;
            growing.release();
        }
    }
}

impl Drop for FollowerHandle {
    fn drop(&mut self) {
        let mut growing = self.flight.growing.lock();
        let left = growing.readers.detach(self.id);
        debug_assert!(left.is_some(), "a follower's handle is registered until it is dropped");
        growing.release();
        let leader = growing.leader_to_wake();
        let watcher = growing.readers.is_empty().then(|| growing.watcher.take()).flatten();
        drop(growing);
        drop(left);
        leader.into_iter().chain(watcher).for_each(Waker::wake);
    }
}
