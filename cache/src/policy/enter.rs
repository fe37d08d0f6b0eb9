//! Which queue a record goes to.

use super::Queue;

/// What is known of a key when a record of it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// Nothing.
    Nothing,
    /// It left the small queue not long ago.
    Ghost,
    /// It takes the place of a record.
    Replaces,
}

/// Which queue a new record goes to: main if its key is known to be asked for more than once.
/// What replaces a record was asked for just now, so to be replaced counts as a use.
pub fn enters(known: Known) -> Queue {
    match known {
        Known::Nothing => Queue::Small,
        Known::Ghost | Known::Replaces => Queue::Main,
    }
}
