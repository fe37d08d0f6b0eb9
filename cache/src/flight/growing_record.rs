//! A response on its way: what is known of it, the fragments that have arrived, who reads them.
//!
//! All of it is plain state behind the flight's lock; [`window`](super::window) has the part that
//! concerns a body that will not be stored.
//!
//! Invariants:
//! - `phase` leaves `Waiting` once, `end` leaves `Open` once.
//! - The fragments cover the body up to `bytes` without gaps; they start at 0, or in a window at
//!   or before what the slowest reader has read. There are none of an aborted body. Of one that is
//!   stored in fragments, what only readers need that are aside is missing at the beginning.
//! - Whoever waits has read all that there is: each change wakes all that wait.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Waker};

use bytes::Bytes;

use super::fragment::Fragment;
use super::lead::RenewedHead;
use super::readers::{ReaderId, Readers};
use super::window::Window;
use crate::store::LongBody;

/// Appended bytes are joined with smaller fragments before them up to this length: an origin that
/// sends byte by byte must not cost a fragment's overhead for each.
pub(super) const JOINED_BYTES_MAX: u64 = 8 * 1024;

/// What a response says about its variants, in bytes that are not interpreted here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariantKey {
    /// The names that select a variant; one set of names per resource.
    pub names: Vec<u8>,
    /// The values that select this variant.
    pub variant: Vec<u8>,
}

/// What is known of a response when its body begins.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) head: Bytes,
    pub(crate) base: Option<VariantKey>,
    /// Length of the body, if it was promised.
    pub(crate) body_bytes: Option<u64>,
}

/// How far a flight has come.
#[derive(Clone)]
pub(super) enum Phase {
    /// Nothing is known yet.
    Waiting,
    /// The body is arriving, or has arrived.
    Growing(Arc<Opening>),
    /// What is stored is good, with this head.
    Validated(RenewedHead),
    /// Not storable: followers fetch for themselves.
    Declined,
    /// The leader failed.
    Failed,
}

/// Whether more of the body will come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Open,
    Done,
    Aborted,
}

/// What a reader finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadEvent {
    /// Fragments were handed over.
    Data,
    /// All of the body has been handed over.
    Done,
    /// What comes now is stored, and to be taken from there.
    Stored {
        /// Where.
        long: LongBody,
        /// How much has been handed over.
        offset: u64,
    },
    /// The rest will not come, at least not to this reader: cut the connection.
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
    /// Set once it is certain that the body will not be stored.
    pub(super) window: Option<Window>,
    /// Where a body is that is done and stored in fragments.
    pub(super) stored: Option<LongBody>,
    /// A purge has taken the flight out of the table.
    pub(super) detached: bool,
    /// The leader, waiting for room in the window.
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

    /// The phase as one follower has to see it who has read nothing yet.
    pub(super) fn phase_for(&mut self, id: ReaderId) -> Phase {
        match &self.phase {
            Phase::Growing(_) if self.end == End::Aborted => Phase::Failed,
            // The window has gone on without it, but it has sent nothing: it can still fetch.
            Phase::Growing(_) if self.readers.find(id).is_none() => Phase::Declined,
            phase => phase.clone(),
        }
    }

    /// The last fragments that `bytes` more are to be joined with. Each is at most twice as long
    /// as what follows it, so a byte is copied a few times at most.
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

    /// Publishes bytes that begin with the last `repeated_bytes` of what is there already.
    pub(super) fn publish(&mut self, bytes: Bytes, repeated_bytes: u64, wakers: &mut Vec<Waker>) {
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

    /// Takes out all that is held.
    pub(super) fn take_fragments(&mut self) -> VecDeque<Fragment> {
        self.held_bytes = 0;
        std::mem::take(&mut self.fragments)
    }

    /// Hands a reader clones of what it has not read, at most `bytes_max` and at least one byte.
    /// None: it has to wait.
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
        let read_bytes = self.lend(offset..end, out);
        if let Some(reader) = self.readers.find(id) {
            reader.offset = offset + read_bytes;
        }
        // Only who was in the first fragment can have been what it is kept for.
        if self.fragments.front().is_some_and(|first| offset < first.end) {
            self.release();
        }
        Some(ReadEvent::Data)
    }

    /// Where what is held begins.
    fn held_from(&self) -> u64 {
        self.fragments.front().map_or(self.bytes, Fragment::start)
    }

    /// Pushes clones of what is held of `range`, and says how many bytes that are.
    pub(super) fn lend(&self, range: Range<u64>, out: &mut Vec<Bytes>) -> u64 {
        let first = self.fragments.partition_point(|fragment| fragment.end <= range.start);
        let mut lent_bytes = 0;
        for fragment in self.fragments.range(first..) {
            let from = range.start.max(fragment.start());
            let to = range.end.min(fragment.end);
            if from >= to {
                break;
            }
            let piece = (from - fragment.start()) as usize..(to - fragment.start()) as usize;
            out.push(fragment.bytes.slice(piece));
            lent_bytes += to - from;
        }
        lent_bytes
    }

    /// Has a reader woken with the next change, and the leader, who may count how long it lets
    /// readers wait. Returns what is to be dropped and what is to be woken outside of the lock.
    pub(super) fn wait(
        &mut self,
        id: ReaderId,
        cx: &Context<'_>,
    ) -> (Option<Waker>, Option<Waker>) {
        (self.readers.wait(id, cx), self.leader.take())
    }
}
