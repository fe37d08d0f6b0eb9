//! Locks of C libraries, behind lock_api.

#[cfg(feature = "ck")]
mod ck;
mod pthread;
mod raw;

#[cfg(feature = "ck")]
pub(crate) use ck::Ck;
pub(crate) use pthread::Pthread;
use raw::Raw;

/// The functions of a lock.
///
/// # Safety
/// - `INIT` is an open lock, and an open lock may move.
/// - The functions keep writers out while another thread reads or writes, and readers out while
///   another thread writes. They order memory accordingly, and any thread may call them.
pub(crate) unsafe trait Functions {
    /// The lock's own memory.
    type State;

    const INIT: Self::State;

    /// # Safety
    /// - `state` points to a lock that is alive, and that does not move while it is used or held.
    ///   This applies to all functions below.
    unsafe fn read(state: *mut Self::State);

    /// # Safety
    /// - The conditions of `read` hold.
    unsafe fn try_read(state: *mut Self::State) -> bool;

    /// # Safety
    /// - The conditions of `read` hold, and the calling thread reads.
    unsafe fn end_read(state: *mut Self::State);

    /// # Safety
    /// - The conditions of `read` hold.
    unsafe fn write(state: *mut Self::State);

    /// # Safety
    /// - The conditions of `read` hold.
    unsafe fn try_write(state: *mut Self::State) -> bool;

    /// # Safety
    /// - The conditions of `read` hold, and the calling thread writes.
    unsafe fn end_write(state: *mut Self::State);
}
