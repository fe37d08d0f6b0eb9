//! The followers and readers of a flight: the position and the waker of each.

use std::task::{Context, Waker};

/// The id of a reader within its flight: the index of its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReaderId(usize);

/// The state of one follower or reader.
pub(super) struct ReaderState {
    /// The number of bytes of the body that the reader has read.
    pub(super) offset: u64,
    /// The total time for which the leader of a window waited for this reader while other readers
    /// waited for the leader.
    pub(super) stalled_ms: u64,
    /// Whether the window has cut the reader off.
    pub(super) cut: bool,
    /// Whether the reader has stepped aside: its client stalls, and it will read the rest from the
    /// store if the body is stored in fragments.
    pub(super) is_aside: bool,
    waker: Option<Waker>,
}

/// All readers of one flight. A slot is reused after its reader has left.
#[derive(Default)]
pub(super) struct Readers {
    slots: Vec<Option<ReaderState>>,
    free: Vec<usize>,
}

impl Readers {
    /// Adds a reader at the start of the body.
    pub(super) fn attach(&mut self) -> ReaderId {
        let new = Some(ReaderState {
            offset: 0,
            stalled_ms: 0,
            cut: false,
            is_aside: false,
            waker: None,
        });
        let Some(index) = self.free.pop() else {
            self.slots.push(new);
            return ReaderId(self.slots.len() - 1);
        };
        self.slots[index] = new;
        ReaderId(index)
    }

    /// Removes a reader and returns its state. The caller drops the state, with its waker, outside
    /// of the lock.
    pub(super) fn detach(&mut self, ReaderId(index): ReaderId) -> Option<ReaderState> {
        let attached = self.slots.get_mut(index)?.take();
        if attached.is_some() {
            self.free.push(index);
        }
        attached
    }

    /// The reader with this id, unless it was cut off.
    pub(super) fn find(&mut self, ReaderId(index): ReaderId) -> Option<&mut ReaderState> {
        self.slots.get_mut(index)?.as_mut().filter(|attached| !attached.cut)
    }

    /// Cuts a reader off. Returns its waker, which the caller has to wake outside of the lock.
    pub(super) fn cut(&mut self, id: ReaderId) -> Option<Waker> {
        let attached = self.find(id)?;
        attached.cut = true;
        attached.waker.take()
    }

    /// Registers the task of `cx` to be woken by the next change. Returns the waker that this
    /// replaces, to be dropped outside of the lock.
    pub(super) fn wait(&mut self, id: ReaderId, cx: &Context<'_>) -> Option<Waker> {
        let attached = self.find(id)?;
        if attached.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            return None;
        }
        attached.waker.replace(cx.waker().clone())
    }

    /// Takes the wakers of all readers that wait.
    pub(super) fn take_wakers(&mut self, wakers: &mut Vec<Waker>) {
        let attached = self.slots.iter_mut().flatten();
        wakers.extend(attached.filter_map(|attached| attached.waker.take()));
    }

    /// All readers that were not cut off.
    pub(super) fn iter(&self) -> impl Iterator<Item = (ReaderId, &ReaderState)> {
        self.slots.iter().enumerate().filter_map(|(index, slot)| {
            slot.as_ref().filter(|attached| !attached.cut).map(|a| (ReaderId(index), a))
        })
    }

    /// Whether all readers have left or were cut off.
    pub(super) fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// The lowest position of a reader that has not stepped aside.
    pub(super) fn least_needed(&self) -> Option<u64> {
        let here = self.iter().filter(|(_, attached)| !attached.is_aside);
        here.map(|(_, attached)| attached.offset).min()
    }

    /// The reader with the lowest position, and this position.
    pub(super) fn slowest(&self) -> Option<(ReaderId, u64)> {
        self.iter().map(|(id, attached)| (id, attached.offset)).min_by_key(|&(_, offset)| offset)
    }
}
