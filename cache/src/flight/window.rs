//! A body that will not be stored slides through: it holds what its readers have not read, up to
//! a limit; its leader waits for the slowest of them, and goes on without one that makes the
//! others wait too long.

use std::task::{Context, Poll, Waker};

use super::growing_record::GrowingRecord;
use super::readers::ReaderId;

/// The limits of a sliding body.
pub(super) struct Window {
    /// The leader waits while this much is held. One byte (that is: while anything is held) after
    /// the budget had no room for the last append.
    pub(super) bytes_max: u64,
    /// Who makes the leader wait, and since when it was last asked.
    stall: Option<(ReaderId, u64)>,
}

impl Window {
    pub(super) fn new(bytes_max: u64) -> Self {
        Self { bytes_max, stall: None }
    }
}

/// What the leader finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// It may append.
    Free,
    /// Nobody reads.
    Nobody,
}

impl GrowingRecord {
    /// Drops what all readers have read, if the body is a sliding one. If it is stored, those that
    /// are aside don't count.
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

    /// The leader's waker if what it waits for has come.
    pub(super) fn leader_to_wake(&mut self) -> Option<Waker> {
        if self.has_room() || self.readers.is_empty() { self.leader.take() } else { None }
    }

    fn has_room(&self) -> bool {
        self.window.as_ref().is_none_or(|window| self.held_bytes < window.bytes_max)
    }

    /// Whether the leader may append; if not, it is woken when it may.
    pub(super) fn poll_room(&mut self, cx: &Context<'_>, now_ms: u64) -> Poll<Room> {
        if self.window.is_some() && self.readers.is_empty() {
            return Poll::Ready(Room::Nobody);
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

    /// Charges the time since the leader was last told to wait to the reader that it waited for.
    /// True if that reader's time is up: it is left behind.
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

    /// Leaves the slowest reader behind; whether there was one.
    pub(super) fn cut_slowest(&mut self, wakers: &mut Vec<Waker>) -> bool {
        let Some((slowest, _)) = self.readers.slowest() else {
            return false;
        };
        wakers.extend(self.readers.cut(slowest));
        self.release();
        true
    }

    /// The slowest reader, if another has read everything and waits.
    fn stalling(&self) -> Option<ReaderId> {
        let (slowest, offset) = self.readers.slowest()?;
        let others_wait = self.readers.iter().any(|(_, reader)| reader.offset == self.bytes);
        (others_wait && offset < self.bytes).then_some(slowest)
    }
}
