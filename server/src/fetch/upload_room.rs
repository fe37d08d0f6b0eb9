//! The memory for the first parts of request bodies, shared between client networks.
//!
//! Room is taken as bytes arrive. A network may take more room only while the room that is left is
//! at least as large as the room that the network holds. So a single network leaves at least a half
//! of the memory, and two networks together leave at least a quarter.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use crate::accept::ClientNetwork;

/// The memory of one worker for the first parts of request bodies.
#[derive(Debug)]
pub(crate) struct UploadRoom {
    left_bytes: Cell<u64>,
    taken_bytes: RefCell<HashMap<ClientNetwork, u64>>,
}

/// A handle for the room that the first part of one body has taken. Dropping it releases the room.
#[derive(Debug)]
pub(super) struct TakenRoom {
    room: Rc<UploadRoom>,
    network: ClientNetwork,
    bytes: u64,
}

impl UploadRoom {
    /// Creates the room: `bytes` bytes of memory.
    pub(crate) fn new(bytes: u64) -> Rc<UploadRoom> {
        let taken_bytes = RefCell::default();
        Rc::new(UploadRoom { left_bytes: Cell::new(bytes), taken_bytes })
    }

    /// Returns a handle with which a body from a client in `network` can take room. It has taken
    /// none yet.
    pub(super) fn enter(self: &Rc<Self>, network: ClientNetwork) -> TakenRoom {
        TakenRoom { room: Rc::clone(self), network, bytes: 0 }
    }
}

impl TakenRoom {
    /// Takes room for `bytes` more bytes. Returns false if the network is not allowed to take that
    /// much.
    pub(super) fn take(&mut self, bytes: u64) -> bool {
        let mut all_taken = self.room.taken_bytes.borrow_mut();
        let taken = all_taken.get(&self.network).copied().unwrap_or(0);
        let Some(left) = self.room.left_bytes.get().checked_sub(bytes) else { return false };
        if taken + bytes > left {
            return false;
        }
        self.room.left_bytes.set(left);
        all_taken.insert(self.network, taken + bytes);
        self.bytes += bytes;
        true
    }
}

impl Drop for TakenRoom {
    fn drop(&mut self) {
        self.room.left_bytes.update(|left| left + self.bytes);
        let mut all_taken = self.room.taken_bytes.borrow_mut();
        if let Some(taken) = all_taken.get_mut(&self.network) {
            *taken -= self.bytes;
            if *taken == 0 {
                all_taken.remove(&self.network);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_network_leaves_half_of_the_room_to_the_others() {
        let network = |number: u8| ClientNetwork::of([192, 0, 2, number].into(), 64);
        let room = UploadRoom::new(120);
        let (mut first, mut second) = (room.enter(network(1)), room.enter(network(1)));
        assert!(first.take(40) && second.take(20));
        assert!(!first.take(1) && !second.take(1), "one network has half of the room");
        let mut other = room.enter(network(2));
        assert!(other.take(30) && !other.take(1));
        drop(first);
        assert!(second.take(20) && !second.take(50) && !other.take(121));
        drop((second, other));
        assert_eq!((room.left_bytes.get(), room.taken_bytes.borrow().len()), (120, 0));
    }
}
