//! A response on its way: what is known of it, the fragments that have arrived, who reads them.
//!
//! All of it is plain state behind the flight's lock; [`window`](crate::window) has the part that
//! concerns a body that will not be stored.
//!
//! Invariants:
//! - `phase` leaves `Waiting` once, `end` leaves `Open` once.
//! - The fragments cover the body up to `bytes` without gaps; they start at 0, or in a window at
//!   or before what the slowest reader has read.
//! - Whoever waits has read all that there is: each change wakes all that wait.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Waker};

use bytes::Bytes;

use crate::readers::{ReaderId, Readers};
use crate::record::{Fragment, Record};
use crate::resource::Base;
use crate::window::Window;

/// Appended bytes are joined with smaller fragments before them up to this length: an origin that
/// sends byte by byte must not cost a fragment's overhead for each.
const JOINED_BYTES_MAX: u64 = 8 * 1024;

/// What is known of a response when its body begins.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) head: Bytes,
    pub(crate) base: Option<Base>,
    pub(crate) body_bytes: Option<u64>,
}

/// How far a flight has come.
#[derive(Clone)]
pub(crate) enum Phase {
    /// Nothing is known yet.
    Waiting,
    /// The body is arriving, or has arrived.
    Growing(Arc<Opening>),
    /// The stored record is good, with this head.
    Validated(Arc<Record>),
    /// Not storable: followers fetch for themselves.
    Declined,
    /// The leader failed.
    Failed,
}

/// Whether more of the body will come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
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
    /// The rest will not come, at least not to this reader: cut the connection.
    Aborted,
}

pub(crate) struct Growing {
    pub(crate) phase: Phase,
    pub(crate) end: End,
    pub(crate) fragments: VecDeque<Fragment>,
    /// Bytes of the body that have arrived.
    pub(crate) bytes: u64,
    /// Cost of `fragments`.
    pub(crate) held_bytes: u64,
    pub(crate) readers: Readers,
    /// Set once it is certain that the body will not be stored.
    pub(crate) window: Option<Window>,
    /// A purge has taken the flight out.
    pub(crate) detached: bool,
    /// The leader, waiting for room in the window.
    pub(crate) leader: Option<Waker>,
}

impl Growing {
    pub(crate) fn new() -> Self {
        Self {
            phase: Phase::Waiting,
            end: End::Open,
            fragments: VecDeque::new(),
            bytes: 0,
            held_bytes: 0,
            readers: Readers::default(),
            window: None,
            detached: false,
            leader: None,
        }
    }

    /// The phase as one follower has to see it who has read nothing yet.
    pub(crate) fn phase_for(&mut self, id: ReaderId) -> Phase {
        match &self.phase {
            Phase::Growing(_) if self.end == End::Aborted => Phase::Failed,
            // The window has gone on without it, but it has sent nothing: it can still fetch.
            Phase::Growing(_) if self.readers.find(id).is_none() => Phase::Declined,
            phase => phase.clone(),
        }
    }

    /// The last fragments that `bytes` more are to be joined with. Each is at most twice as long
    /// as what follows it, so a byte is copied a few times at most.
    pub(crate) fn tail(&self, bytes: usize) -> Vec<Bytes> {
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
    pub(crate) fn publish(&mut self, bytes: Bytes, repeated_bytes: u64, wakers: &mut Vec<Waker>) {
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

    /// Hands a reader clones of what it has not read, at most `bytes_max` and at least one byte.
    /// None: it has to wait.
    pub(crate) fn read(
        &mut self,
        id: ReaderId,
        bytes_max: u64,
        out: &mut Vec<Bytes>,
    ) -> Option<ReadEvent> {
        let Some(offset) = self.readers.find(id).map(|reader| reader.offset) else {
            return Some(ReadEvent::Aborted);
        };
        if self.end == End::Aborted {
            return Some(ReadEvent::Aborted);
        }
        if offset == self.bytes {
            return (self.end == End::Done).then_some(ReadEvent::Done);
        }
        let read_bytes = self.copy_out(offset, bytes_max.max(1), out);
        if let Some(reader) = self.readers.find(id) {
            reader.offset = offset + read_bytes;
        }
        // Only who was in the first fragment can have been what it is kept for.
        if self.fragments.front().is_some_and(|first| offset < first.end) {
            self.release();
        }
        Some(ReadEvent::Data)
    }

    fn copy_out(&self, offset: u64, bytes_max: u64, out: &mut Vec<Bytes>) -> u64 {
        let first = self.fragments.partition_point(|fragment| fragment.end <= offset);
        let mut read_bytes = 0;
        for fragment in self.fragments.range(first..) {
            let left_bytes = bytes_max - read_bytes;
            if left_bytes == 0 {
                break;
            }
            let from = (offset + read_bytes - fragment.start()) as usize;
            let to = fragment.bytes.len().min(from.saturating_add(left_bytes as usize));
            out.push(fragment.bytes.slice(from..to));
            read_bytes += (to - from) as u64;
        }
        read_bytes
    }

    /// Has a reader woken with the next change, and the leader, who may count how long it lets
    /// readers wait. Returns what is to be dropped and what is to be woken outside of the lock.
    pub(crate) fn wait(
        &mut self,
        id: ReaderId,
        cx: &Context<'_>,
    ) -> (Option<Waker>, Option<Waker>) {
        (self.readers.wait(id, cx), self.leader.take())
    }
}
