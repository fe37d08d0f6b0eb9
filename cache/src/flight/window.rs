//! A sliding window: the form of a body that will not be stored. It holds the bytes that some
//! reader has not read, up to a limit. The leader waits for the slowest reader, and cuts off a
//! reader that makes the others wait too long.

use std::task::{Context, Poll, Waker};

use super::growing_record::GrowingRecord;
use super::readers::ReaderId;

/// The limit of a window, and the wait of its leader.
pub(super) struct Window {
    /// The leader waits while at least this many bytes are held. It is 1 after an append for which
    /// the budget had no room: then the leader waits while anything is held.
    pub(super) bytes_max: u64,
    /// The reader for which the leader waits, and the time of the leader's last poll.
    stall: Option<(ReaderId, u64)>,
}

impl Window {
    pub(super) fn new(bytes_max: u64) -> Self {
        Self { bytes_max, stall: None }
    }
}

/// Whether the leader may append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// There is room.
    Free,
    /// There are no readers.
    NoReaders,
}

impl GrowingRecord {
    /// If the body is a window, drops bytes that all readers have read. Once the body is stored,
    /// readers that have stepped aside do not count.
    pub(super) fn release(&mut self) {
        if self.window.is_none() {
            return;
        }
        let least = match self.stored {
            Some(_) => self.readers.least_needed(),
            None => self.readers.slowest().map(|(_, offset)| offset),
        };
        let least = least.unwrap_or(self.bytes);
        while let Some(first) = self.fragments.pop_front_if(|first| first.end <= least) {
            self.held_bytes -= first.cost();
        }
    }

    /// Takes the leader's waker if the leader can continue: there is room, or there are no readers.
    pub(super) fn leader_to_wake(&mut self) -> Option<Waker> {
        if self.has_room() || self.readers.is_empty() { self.leader.take() } else { None }
    }

    fn has_room(&self) -> bool {
        self.window.as_ref().is_none_or(|window| self.held_bytes < window.bytes_max)
    }

    /// Polls for room to append. Registers the leader's waker if it has to wait.
    pub(super) fn poll_room(&mut self, cx: &Context<'_>, now_ms: u64) -> Poll<Room> {
        if self.window.is_some() && self.readers.is_empty() {
            return Poll::Ready(Room::NoReaders);
        }
        if self.has_room() {
            return Poll::Ready(Room::Free);
        }
        let stalling = self.stalling();
        if let Some(window) = &mut self.window {
            window.stall = stalling.map(|id| (id, now_ms));
        }
        self.leader = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Adds the time since the leader's last poll to the reader for which it waited. If the
    /// reader's total exceeds the limit, cuts the reader off and returns true.
    pub(super) fn count_stall(
        &mut self,
        now_ms: u64,
        wait_ms_max: u64,
        wakers: &mut Vec<Waker>,
    ) -> bool {
        let stall = self.window.as_mut().and_then(|window| window.stall.take());
        let Some((id, since_ms)) = stall else {
            return false;
        };
        let Some(reader) = self.readers.find(id) else {
            return false;
        };
        reader.stalled_ms += now_ms.saturating_sub(since_ms);
        if reader.stalled_ms <= wait_ms_max {
            return false;
        }
        wakers.extend(self.readers.cut(id));
        self.release();
        true
    }

    /// Cuts off the slowest reader. Returns whether there was one.
    pub(super) fn cut_slowest(&mut self, wakers: &mut Vec<Waker>) -> bool {
        let Some((slowest, _)) = self.readers.slowest() else {
            return false;
        };
        wakers.extend(self.readers.cut(slowest));
        self.release();
        true
    }

    /// The slowest reader, if another reader has read everything and waits for it.
    fn stalling(&self) -> Option<ReaderId> {
        let (slowest, offset) = self.readers.slowest()?;
        let others_wait = self.readers.iter().any(|(_, reader)| reader.offset == self.bytes);
        (others_wait && offset < self.bytes).then_some(slowest)
    }
}
