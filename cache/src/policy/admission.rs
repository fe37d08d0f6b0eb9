//! The queue that a new record enters.

use super::Queue;

/// The history of a key, when the store stores a record of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyHistory {
    /// Nothing is known.
    Unknown,
    /// The key left the small queue recently.
    Ghost,
    /// The record replaces another one.
    Replacement,
}

/// The queue of a new record: main if its key is known to be requested more than once. A replaced
/// record was requested just now, so replacement counts as a use.
pub fn queue_for(known: KeyHistory) -> Queue {
    match known {
        KeyHistory::Unknown => Queue::Small,
        KeyHistory::Ghost | KeyHistory::Replacement => Queue::Main,
    }
}
