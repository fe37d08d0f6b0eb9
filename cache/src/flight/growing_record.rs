//! The state of a response that arrives: its phase and head, its fragments, its readers.
//!
//! All of it is plain state behind the flight's lock. [`window`](super::window) has the part for
//! bodies that will not be stored.
//!
//! Invariants:
//! - `phase` leaves `Waiting` once, `end` leaves `Open` once.
//! - The fragments cover the body up to `bytes` without gaps. They start at 0; in a window, at or
//!   before the position of the slowest reader. An aborted body has none. A body that is stored in
//!   fragments may lack a beginning that only readers that have stepped aside still need.
//! - A reader that waits has read everything: each change wakes all readers that wait.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Waker};

use bytes::Bytes;

use super::fragment::Fragment;
use super::leader_guard::RenewedHead;
use super::readers::{ReaderId, Readers};
use super::window::Window;
use crate::store::LongBody;

/// Appended bytes are joined with smaller fragments before them up to this length: an origin that
/// sends byte by byte must not cost a fragment's overhead for each.
pub(super) const JOINED_BYTES_MAX: u64 = 8 * 1024;

/// The names and values that select a variant of a resource, in bytes that are not interpreted
/// here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariantKey {
    /// The names that select a variant; one set of names per resource.
    pub names: Vec<u8>,
    /// The values that select this variant.
    pub variant: Vec<u8>,
}

/// The properties of a response that are known when its body begins.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) head: Bytes,
    pub(crate) base: Option<VariantKey>,
    /// Length of the body, if it was announced.
    pub(crate) body_bytes: Option<u64>,
}

/// The progress of a flight.
#[derive(Clone)]
pub(super) enum Phase {
    /// The leader has no response yet.
    Waiting,
    /// The body is arriving, or has arrived.
    Growing(Arc<Opening>),
    /// The stored record was validated, and has this head.
    Validated(RenewedHead),
    /// Not storable: followers fetch for themselves.
    Declined,
    /// The leader failed, with its own code for the reason, if it gave one.
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
    /// Fragments were handed over.
    Data,
    /// The whole body has been handed over.
    Done,
    /// The rest is no longer held: read it from the store.
    Stored {
        /// Where the body is stored.
        long: LongBody,
        /// Bytes that have been handed over.
        offset: u64,
    },
    /// This reader gets no more: cut the connection.
    Aborted,
}

pub(super) struct GrowingRecord {
    pub(super) phase: Phase,
    pub(super) end: End,
    pub(super) fragments: VecDeque<Fragment>,
    /// Bytes of the body that have arrived.
    pub(super) bytes: u64,
    /// Cost of `fragments`.
    pub(super) held_bytes: u64,
    pub(super) readers: Readers,
    /// Set once bytes that all readers have read may be dropped.
    pub(super) window: Option<Window>,
    /// Where the finished body is, if it is stored in fragments.
    pub(super) stored: Option<LongBody>,
    /// A purge has detached the flight from the table.
    pub(super) detached: bool,
    /// The waker of a leader that waits for room in the window.
    pub(super) leader: Option<Waker>,
}

impl GrowingRecord {
    pub(super) fn new() -> Self {
        Self {
            phase: Phase::Waiting,
            end: End::Open,
            fragments: VecDeque::new(),
            bytes: 0,
            held_bytes: 0,
            readers: Readers::default(),
            window: None,
            stored: None,
            detached: false,
            leader: None,
        }
    }

    /// The phase for a follower that has read nothing yet.
    pub(super) fn phase_for(&mut self, id: ReaderId) -> Phase {
        match &self.phase {
            Phase::Growing(_) if self.end == End::Aborted => Phase::Failed(None),
            // The window cut this follower off. It has sent nothing to its client, so it can still
            // fetch.
            Phase::Growing(_) if self.readers.find(id).is_none() => Phase::Declined,
            phase => phase.clone(),
        }
    }

    /// The last fragments, with which the next `bytes` bytes are joined. Each fragment is at most
    /// twice as long as all bytes behind it together, so a byte is copied a few times at most.
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

    /// Publishes bytes; the first `repeated_bytes` of them repeat the end of the body.
    pub(super) fn publish(&mut self, bytes: Bytes, repeated_bytes: u64, wakers: &mut Vec<Waker>) {
        debug_assert!(repeated_bytes <= self.bytes, "only published bytes are repeated");
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

    /// Takes all fragments out.
    pub(super) fn take_fragments(&mut self) -> VecDeque<Fragment> {
        self.held_bytes = 0;
        std::mem::take(&mut self.fragments)
    }

    /// Hands a reader clones of its next bytes, at most `bytes_max` and at least one. `None` if it
    /// has to wait.
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
        // Only a reader that was in the first fragment can have kept it from being released.
        if self.fragments.front().is_some_and(|first| offset < first.end) {
            self.release();
        }
        Some(ReadEvent::Data)
    }

    /// The offset of the first byte that is held.
    fn held_from(&self) -> u64 {
        self.fragments.front().map_or(self.bytes, Fragment::start)
    }

    /// Pushes clones of the held bytes of `range`. Returns their number.
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
    /// leader may count how long readers wait. Returns a waker to drop and one to wake, both
    /// outside of the lock.
    pub(super) fn wait(
        &mut self,
        id: ReaderId,
        cx: &Context<'_>,
    ) -> (Option<Waker>, Option<Waker>) {
        (self.readers.wait(id, cx), self.leader.take())
    }
}
