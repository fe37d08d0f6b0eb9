//! Who follows a flight, how far each has read, and how to wake each: one waker per reader.

use std::task::{Context, Waker};

/// Names a reader of one flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReaderId(usize);

/// One follower or reader.
pub(super) struct ReaderState {
    /// Bytes of the body that it has read.
    pub(super) offset: u64,
    /// How long the leader of a window waited for it while others waited for the leader.
    pub(super) stalled_ms: u64,
    /// The window went on without it.
    pub(super) cut: bool,
    /// Its client makes it wait, and it can do without what is stored in fragments.
    pub(super) is_aside: bool,
    waker: Option<Waker>,
}

/// All readers of one flight. A place is used again after its reader has left.
#[derive(Default)]
pub(super) struct Readers {
    places: Vec<Option<ReaderState>>,
    free: Vec<usize>,
}

impl Readers {
    /// Adds one at the start of the body.
    pub(super) fn attach(&mut self) -> ReaderId {
        let new = Some(ReaderState {
            offset: 0,
            stalled_ms: 0,
            cut: false,
            is_aside: false,
            waker: None,
        });
        let Some(index) = self.free.pop() else {
            self.places.push(new);
            return ReaderId(self.places.len() - 1);
        };
        self.places[index] = new;
        ReaderId(index)
    }

    /// Takes one out; its waker is dropped by the caller, outside of the lock.
    pub(super) fn detach(&mut self, ReaderId(index): ReaderId) -> Option<ReaderState> {
        let attached = self.places.get_mut(index)?.take();
        if attached.is_some() {
            self.free.push(index);
        }
        attached
    }

    /// One that the window has not left behind.
    pub(super) fn find(&mut self, ReaderId(index): ReaderId) -> Option<&mut ReaderState> {
        self.places.get_mut(index)?.as_mut().filter(|attached| !attached.cut)
    }

    /// Leaves one behind; its waker is to be woken.
    pub(super) fn cut(&mut self, id: ReaderId) -> Option<Waker> {
        let attached = self.find(id)?;
        attached.cut = true;
        attached.waker.take()
    }

    /// Has `cx` woken with the next change. The waker that this replaces is handed back, to be
    /// dropped outside of the lock.
    pub(super) fn wait(&mut self, id: ReaderId, cx: &Context<'_>) -> Option<Waker> {
        let attached = self.find(id)?;
        if attached.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            return None;
        }
        attached.waker.replace(cx.waker().clone())
    }

    /// Takes the wakers of all that wait.
    pub(super) fn take_wakers(&mut self, wakers: &mut Vec<Waker>) {
        let attached = self.places.iter_mut().flatten();
        wakers.extend(attached.filter_map(|attached| attached.waker.take()));
    }

    /// All that the window has not left behind.
    pub(super) fn iter(&self) -> impl Iterator<Item = (ReaderId, &ReaderState)> {
        self.places.iter().enumerate().filter_map(|(index, place)| {
            place.as_ref().filter(|attached| !attached.cut).map(|a| (ReaderId(index), a))
        })
    }

    /// True if nobody is left.
    pub(super) fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// What the one has read that has read least and is not aside.
    pub(super) fn least_needed(&self) -> Option<u64> {
        let here = self.iter().filter(|(_, attached)| !attached.is_aside);
        here.map(|(_, attached)| attached.offset).min()
    }

    /// The one that has read least.
    pub(super) fn slowest(&self) -> Option<(ReaderId, u64)> {
        self.iter().map(|(id, attached)| (id, attached.offset)).min_by_key(|&(_, offset)| offset)
    }
}
