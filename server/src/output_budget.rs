//! The memory of one worker for output that its clients have not read (`output_bytes_max`).

use std::cell::Cell;

use crate::limits::OUTPUT_SHARE_BYTES_MIN;

/// The number of bytes that wait for clients, and their limit.
#[derive(Debug)]
pub(crate) struct OutputBudget {
    bytes: Cell<usize>,
    bytes_max: Cell<u64>,
}

impl OutputBudget {
    pub(crate) fn new(bytes_max: u64) -> OutputBudget {
        OutputBudget { bytes: Cell::new(0), bytes_max: Cell::new(bytes_max) }
    }

    /// Replaces the limit, after a reload of the settings.
    pub(crate) fn limit_to(&self, bytes_max: u64) {
        self.bytes_max.set(bytes_max);
    }

    /// Whether the memory is used up, so that each connection may add only little.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes.get() as u64 >= self.bytes_max.get()
    }

    /// Returns the number of bytes that a connection may queue for its client: unlimited until the
    /// memory is used up, then small.
    pub(crate) fn share(&self) -> usize {
        if self.is_full() { OUTPUT_SHARE_BYTES_MIN } else { usize::MAX }
    }

    /// Returns the number of bytes that wait.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.get()
    }

    /// Counts bytes that wait for a client.
    pub(crate) fn add(&self, bytes: usize) {
        self.bytes.update(|waiting| waiting + bytes);
    }

    /// Undoes [`OutputBudget::add`].
    pub(crate) fn remove(&self, bytes: usize) {
        self.bytes.update(|waiting| waiting - bytes);
    }
}
