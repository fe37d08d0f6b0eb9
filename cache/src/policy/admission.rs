//! Which queue a record goes to.

use super::Queue;

/// What is known of a key when a record of it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyHistory {
    /// Nothing.
    Unknown,
    /// It left the small queue not long ago.
    Ghost,
    /// It takes the place of a record.
    Replacement,
}

/// Which queue a new record goes to: main if its key is known to be asked for more than once.
/// What replaces a record was asked for just now, so to be replaced counts as a use.
pub fn queue_for(known: KeyHistory) -> Queue {
    match known {
        KeyHistory::Unknown => Queue::Small,
        KeyHistory::Ghost | KeyHistory::Replacement => Queue::Main,
    }
}
