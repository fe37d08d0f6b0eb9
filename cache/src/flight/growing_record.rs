//! The state of a response that is arriving: its phase and head, its fragments, its readers.
//!
//! The flight's lock guards this state. [`window`](super::window) has the methods for bodies that
//! will not be stored.
//!
//! Invariants:
//! - `phase` changes once, from `Waiting`, and `end` changes once, from `Open`.
//! - The fragments cover the body up to `bytes` without gaps. They start at 0, or, in a window, at
//!   or before the position of the slowest reader. An aborted body has no fragments. If a body is
//!   stored in fragments, the bytes at its start may be missing here if only readers that have
//!   stepped aside still need them.
//! - A reader that waits has read all bytes that have arrived, since each change wakes all readers
//!   that wait.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Waker};

use bytes::Bytes;

use super::declined::DeclineReason;
use super::fragment::Fragment;
use super::leader_guard::RenewedHead;
use super::readers::{ReaderId, Readers};
use super::window::Window;
use crate::store::LongBody;

/// The maximum length of a fragment that is made by joining appended bytes with the small fragments
/// before them. Without joining, an origin that sends byte by byte would cost a fragment's overhead
/// for each byte.
pub(super) const JOINED_BYTES_MAX: u64 = 8 * 1024;

/// The field names and the selector of a variant of a resource. This module does not interpret
/// their bytes. Both are empty for a response that does not vary.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VariantKey {
    /// The field names on which the choice of this variant depends.
    pub names: Vec<u8>,
    /// The selector of this variant: the values that a request has in these fields. Selectors for
    /// different field names are different.
    pub variant: Vec<u8>,
}

/// The properties of a response that are known when its body begins.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) head: Bytes,
    pub(crate) base: Option<VariantKey>,
    /// The length of the body, if it was announced.
    pub(crate) body_bytes: Option<u64>,
}

/// The phase of a flight.
#[derive(Clone)]
pub(super) enum Phase {
    /// The leader has no response yet.
    Waiting,
    /// The body is arriving, or has arrived.
    Growing(Arc<Opening>),
    /// The origin has confirmed the stored record, which has this head.
    Validated(RenewedHead),
    /// The response is not stored, and followers fetch for themselves. The value is the reason, if
    /// the leader gave one.
    Declined(Option<DeclineReason>),
    /// The leader failed. The value is the leader's own code for the reason, if the leader gave
    /// one.
    Failed(Option<u16>),
}

/// Whether more of the body will come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Open,
    Done,
    Aborted,
}

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadEvent {
    /// Bytes were pushed to the reader's buffer.
    Data,
    /// The reader has read the whole body.
    Done,
    /// The flight no longer holds the rest of the body: read it from the store.
    Stored {
        /// The location of the stored body.
        long: LongBody,
        /// The number of bytes that the reader has read.
        offset: u64,
    },
    /// This reader gets no more bytes: cut the connection.
    Aborted,
}

pub(super) struct GrowingRecord {
    pub(super) phase: Phase,
    pub(super) end: End,
    /// The leader's time when bytes of the body last arrived, in milliseconds.
    pub(super) moved_ms: Option<u64>,
    pub(super) fragments: VecDeque<Fragment>,
    /// The number of bytes of the body that have arrived.
    pub(super) bytes: u64,
    /// The sum of the costs of `fragments`.
    pub(super) held_bytes: u64,
    pub(super) readers: Readers,
    /// Present once bytes that all readers have read may be dropped.
    pub(super) window: Option<Window>,
    /// The location of the finished body, if it is stored in fragments.
    pub(super) stored: Option<LongBody>,
    /// Whether the flight was detached from the table, because of a purge.
    pub(super) detached: bool,
    /// The waker of a leader that waits for room in the window.
    pub(super) leader: Option<Waker>,
    /// The waker of a task that waits until the last reader has left.
    pub(super) watcher: Option<Waker>,
}

impl GrowingRecord {
    pub(super) fn new() -> Self {
        Self {
            phase: Phase::Waiting,
            end: End::Open,
            moved_ms: None,
            fragments: VecDeque::new(),
            bytes: 0,
            held_bytes: 0,
            readers: Readers::default(),
            window: None,
            stored: None,
            detached: false,
            leader: None,
            watcher: None,
        }
    }

    /// Returns the phase that holds for a follower that has read nothing yet.
    pub(super) fn phase_for(&mut self, id: ReaderId) -> Phase {
        match &self.phase {
            Phase::Growing(_) if self.end == End::Aborted => Phase::Failed(None),
            // The window has cut this follower off. The follower has sent nothing to its client, so
            // it can still fetch.
            Phase::Growing(_) if self.readers.find(id).is_none() => Phase::Declined(None),
            phase => phase.clone(),
        }
    }

    /// Returns clones of the last fragments, with which the next `bytes` bytes are joined. Each of
    /// these fragments is at most twice as long as all bytes behind it together, so a byte is
    /// copied only a few times.
    pub(super) fn tail(&self, bytes: usize) -> Vec<Bytes> {
        let mut joined_bytes = bytes as u64;
        let mut tail = Vec::new();
        if self.window.is_some() {
            return tail;
        }
        for fragment in self.fragments.iter().rev() {
            let length = fragment.bytes.len() as u64;
            if length > 2 * joined_bytes || length + joined_bytes > JOINED_BYTES_MAX {
                break;
            }
            joined_bytes += length;
            tail.push(fragment.bytes.clone());
        }
        tail.reverse();
        tail
    }

    /// Publishes bytes. The first `repeated_bytes` of them repeat the last bytes of the body so
    /// far.
    pub(super) fn publish(&mut self, bytes: Bytes, repeated_bytes: u64, wakers: &mut Vec<Waker>) {
        debug_assert!(
            repeated_bytes <= self.bytes,
            "only bytes that were published before are repeated"
        );
        debug_assert_eq!(self.end, End::Open, "a body that has ended does not grow");
        let start = self.bytes - repeated_bytes;
        while let Some(last) = self.fragments.pop_back_if(|last| last.start() >= start) {
            self.held_bytes -= last.cost();
        }
        self.bytes = start + bytes.len() as u64;
        let fragment = Fragment { bytes, end: self.bytes };
        self.held_bytes += fragment.cost();
        self.fragments.push_back(fragment);
        self.readers.take_wakers(wakers);
        self.release();
    }

    /// Removes and returns all fragments.
    pub(super) fn take_fragments(&mut self) -> VecDeque<Fragment> {
        self.held_bytes = 0;
        std::mem::take(&mut self.fragments)
    }

    /// Pushes clones of a reader's next bytes to `out`: at most `bytes_max` bytes, but at least
    /// one. Returns `None` if the reader has to wait.
    pub(super) fn read(
        &mut self,
        id: ReaderId,
        bytes_max: u64,
        out: &mut Vec<Bytes>,
    ) -> Option<ReadEvent> {
        let Some(reader) = self.readers.find(id) else {
            return Some(ReadEvent::Aborted);
        };
        reader.is_aside = false;
        let offset = reader.offset;
        if self.end == End::Aborted {
            return Some(ReadEvent::Aborted);
        }
        if offset == self.bytes {
            return (self.end == End::Done).then_some(ReadEvent::Done);
        }
        if let Some(long) = self.stored.filter(|_| offset < self.held_from()) {
            return Some(ReadEvent::Stored { long, offset });
        }
        let end = offset.saturating_add(bytes_max.max(1));
        let read_bytes = self.clone_range(offset..end, out);
        if let Some(reader) = self.readers.find(id) {
            reader.offset = offset + read_bytes;
        }
        // Only a reader whose position was in the first fragment can have kept that fragment from
        // being released.
        if self.fragments.front().is_some_and(|first| offset < first.end) {
            self.release();
        }
        Some(ReadEvent::Data)
    }

    /// The offset in the body of the first byte that is held.
    fn held_from(&self) -> u64 {
        self.fragments.front().map_or(self.bytes, Fragment::start)
    }

    /// Pushes clones of the held bytes of `range` to `out`. Returns the number of bytes.
    pub(super) fn clone_range(&self, range: Range<u64>, out: &mut Vec<Bytes>) -> u64 {
        let first = self.fragments.partition_point(|fragment| fragment.end <= range.start);
        let mut cloned_bytes = 0;
        for fragment in self.fragments.range(first..) {
            let from = range.start.max(fragment.start());
            let to = range.end.min(fragment.end);
            if from >= to {
                break;
            }
            let piece = (from - fragment.start()) as usize..(to - fragment.start()) as usize;
            out.push(fragment.bytes.slice(piece));
            cloned_bytes += to - from;
        }
        cloned_bytes
    }

    /// Registers the reader's waker for the next change, and takes the leader's waker, since the
    /// leader may have to measure how long readers wait. Returns a waker to drop and a waker to
    /// wake, both outside of the lock.
    pub(super) fn wait(
        &mut self,
        id: ReaderId,
        cx: &Context<'_>,
    ) -> (Option<Waker>, Option<Waker>) {
        (self.readers.wait(id, cx), self.leader.take())
    }
}
