//! The appender of a thread: one open segment in each queue.
//!
//! Invariants:
//! - An open segment is sealed, or given back unused, before its thread leaves the store.
//! - The word of an appended record becomes live or is withdrawn before the next append, so a
//!   segment can be sealed at any time between two calls.

#![allow(unsafe_code)]

use std::cell::RefCell;
use std::sync::Arc;

use forebay_shm::{Area, crash_point};

use super::shared::Shared;
use super::worker::OwnRow;
use crate::segment::{AppendError, Location, OpenSegment, SegmentQueue};

/// The open segments that one thread appends to.
#[derive(Debug)]
pub(crate) struct Appender {
    shared: Arc<Shared>,
    /// The row of the participant that owns the segments.
    row: OwnRow,
    small: RefCell<OpenQueue>,
    main: RefCell<OpenQueue>,
}

#[derive(Debug, Default)]
struct OpenQueue {
    open: Option<OpenSegment<Area>>,
    /// The segment that was opened last. The search for a free segment begins behind it.
    previous: Option<u32>,
}

/// Why nothing was appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueError {
    /// No segment of the queue is open.
    NotOpen,
    /// The record does not fit into the rest of the segment: seal the segment, and open another
    /// one.
    Full,
    /// The record fits into no segment.
    TooLarge,
}

impl Appender {
    pub(crate) fn new(shared: &Arc<Shared>, row: OwnRow) -> Appender {
        let (small, main) = (RefCell::default(), RefCell::default());
        Appender { shared: Arc::clone(shared), row, small, main }
    }

    /// Calls `append` with the open segment of a queue. Returns the location and the size of the
    /// record. Its bytes count as live from now on.
    pub(crate) fn append(
        &self,
        queue: SegmentQueue,
        append: impl Fn(&mut OpenSegment<Area>) -> Result<Location, AppendError>,
    ) -> Result<(Location, u64), QueueError> {
        let mut queue = self.queue(queue).borrow_mut();
        let open = queue.open.as_mut().ok_or(QueueError::NotOpen)?;
        let before = open.filled_bytes();
        let location = append(open).map_err(|why| match why {
            AppendError::Full => QueueError::Full,
            AppendError::Impossible(_) => QueueError::TooLarge,
        })?;
        debug_assert!(open.filled_bytes() > before, "an appended record takes room in its segment");
        let record_bytes = u64::from(open.filled_bytes() - before);
        self.shared.segments.table().add_live_bytes(open.segment(), record_bytes);
        crash_point!("store.appended");
        Ok((location, record_bytes))
    }

    /// Whether this thread has an open segment in a queue.
    pub(crate) fn is_open(&self, queue: SegmentQueue) -> bool {
        self.queue(queue).borrow().open.is_some()
    }

    /// Opens a free segment in a queue that has none open. Returns false if none is free.
    pub(crate) fn claim(&self, queue: SegmentQueue) -> bool {
        let mut open_queue = self.queue(queue).borrow_mut();
        assert!(open_queue.open.is_none(), "a queue has at most one open segment");
        // SAFETY: the row is this participant's, and it seals open segments before it leaves.
        let open =
            unsafe { self.shared.segments.claim(self.row.number(), queue, open_queue.previous) };
        let Some(open) = open else {
            return false;
        };
        open_queue.previous = Some(open.segment());
        open_queue.open = Some(open);
        true
    }

    /// Seals the open segment of a queue, or gives it back if it is unused. Does nothing if no
    /// segment is open.
    pub(crate) fn seal(&self, queue: SegmentQueue) {
        let open = self.queue(queue).borrow_mut().open.take();
        let Some(open) = open else {
            return;
        };
        if let Err(open) = open.give_back() {
            // Only the owner changes the state of an open segment. So sealing fails only if another
            // process has damaged the state word. Then this thread must not seal the segment.
            // SAFETY: all words of its records are live or withdrawn: see the invariants.
            let _ = unsafe { open.seal(self.shared.next_order()) };
        }
    }

    fn queue(&self, queue: SegmentQueue) -> &RefCell<OpenQueue> {
        match queue {
            SegmentQueue::Small => &self.small,
            SegmentQueue::Main => &self.main,
        }
    }
}
