//! Windows of flow control (RFC 9113 §5.2, §6.9).
//!
//! A send window counts the bytes that the client permits us to send; a change of settings may make
//! it negative. A receive window counts the bytes that the client may still send. Bytes that the
//! server has taken are announced again in one WINDOW_UPDATE once they are half of the window, so a
//! small read does not cost a frame.

use crate::limits::WINDOW_BYTES_MAX;

/// The window would exceed 2^31-1 (RFC 9113 §6.9.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowOverflow;

/// The bytes that the client permits us to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendWindow(i64);

impl SendWindow {
    /// Creates a window.
    pub fn new(bytes: u32) -> SendWindow {
        SendWindow(i64::from(bytes))
    }

    /// Returns the bytes that may be sent now.
    pub fn available(self) -> usize {
        usize::try_from(self.0).unwrap_or(0)
    }

    /// Takes bytes that are sent; the caller has checked that they are available.
    pub fn take(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.available());
        self.0 -= bytes as i64;
    }

    /// Adds an increment, or the difference of two initial windows, which may be negative.
    ///
    /// # Errors
    /// The window would exceed 2^31-1.
    pub fn add(&mut self, bytes: i64) -> Result<(), WindowOverflow> {
        let sum = self.0 + bytes;
        if sum > i64::from(WINDOW_BYTES_MAX) {
            return Err(WindowOverflow);
        }
        self.0 = sum;
        Ok(())
    }
}

/// The bytes that the client may still send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveWindow {
    size: u32,
    left: u32,
    /// The number of bytes that the server has taken and that no WINDOW_UPDATE has announced yet.
    taken: u32,
}

impl ReceiveWindow {
    /// Creates a window of this size.
    pub fn new(size: u32) -> ReceiveWindow {
        ReceiveWindow { size, left: size, taken: 0 }
    }

    /// Notes bytes that the client has sent. Returns false if they exceed the window.
    pub fn receive(&mut self, bytes: u32) -> bool {
        match self.left.checked_sub(bytes) {
            Some(left) => {
                self.left = left;
                true
            }
            None => false,
        }
    }

    /// Notes bytes that the server has taken. Returns the increment of a WINDOW_UPDATE that is due.
    pub fn release(&mut self, bytes: u32) -> Option<u32> {
        // The server cannot take more than it received.
        self.taken = self.taken.saturating_add(bytes).min(self.size - self.left);
        if self.taken == 0 || self.taken < self.size / 2 {
            return None;
        }
        let increment = std::mem::take(&mut self.taken);
        self.left += increment;
        Some(increment)
    }

    /// Notes bytes that the server has taken; a later call of [`ReceiveWindow::release`] announces
    /// them.
    pub fn release_quietly(&mut self, bytes: u32) {
        self.taken = self.taken.saturating_add(bytes).min(self.size - self.left);
    }
}
