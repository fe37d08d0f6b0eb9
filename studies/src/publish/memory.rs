//! The bytes of a chunk: one thread appends to them while others read the published part.

use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// Memory without a lock, which never moves. The caller guarantees exclusive access where it is
/// needed.
///
/// A slice of read bytes may lie beside bytes that are being written. So the memory as a whole is
/// only a pointer, never a slice. In a model each byte has its own cell, through which loom sees
/// the reads and writes of this byte.
#[derive(Debug)]
pub(super) struct Memory {
    start: NonNull<u8>,
    capacity: usize,
    #[cfg(loom)]
    watched: Box<[loom::cell::UnsafeCell<()>]>,
}

// SAFETY: the memory belongs to this value, and callers guarantee that each access is sound.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    pub(super) fn new(capacity: usize) -> Memory {
        let bytes: Box<[MaybeUninit<u8>]> = Box::new_uninit_slice(capacity);
        Memory {
            start: NonNull::from(Box::leak(bytes)).cast(),
            capacity,
            #[cfg(loom)]
            watched: (0..capacity).map(|_| loom::cell::UnsafeCell::new(())).collect(),
        }
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Copies as many of `bytes` to `offset` as fit. Returns their number.
    ///
    /// # Safety
    /// - No other thread writes at the same time.
    /// - Every read at or after `offset` by any thread is ordered after this write.
    pub(super) unsafe fn write(&self, offset: usize, bytes: &[u8]) -> usize {
        let count = bytes.len().min(self.capacity.saturating_sub(offset));
        self.watch_write(offset, count);
        let from = bytes.as_ptr();
        if count > 0 {
            // SAFETY: `offset` is below the capacity, since there is room.
            let to = unsafe { self.start.add(offset) };
            // SAFETY: `count` bytes fit on both sides, and no other thread accesses them
            // (contract).
            unsafe { to.as_ptr().copy_from_nonoverlapping(from, count) };
        }
        count
    }

    /// Returns the bytes from `from` to `to`.
    ///
    /// # Safety
    /// - These bytes have been written, and the writes are ordered before this call.
    /// - These bytes are not written again while the slice is in use.
    pub(super) unsafe fn read(&self, from: usize, to: usize) -> &[u8] {
        debug_assert!(
            from <= to && to <= self.capacity,
            "bytes {from} to {to} are not inside the chunk"
        );
        self.watch_read(from, to);
        // SAFETY: the pointer stays inside, since bytes up to `to` were written (contract).
        let start = unsafe { self.start.add(from) };
        // SAFETY: the bytes are initialised and not written (contract); the memory lives as long as
        // `self`.
        unsafe { std::slice::from_raw_parts(start.as_ptr(), to - from) }
    }

    #[cfg(not(loom))]
    fn watch_write(&self, _offset: usize, _count: usize) {}

    #[cfg(not(loom))]
    fn watch_read(&self, _from: usize, _to: usize) {}

    #[cfg(loom)]
    fn watch_write(&self, offset: usize, count: usize) {
        self.watched[offset..][..count].iter().for_each(|cell| cell.with_mut(|_| ()));
    }

    #[cfg(loom)]
    fn watch_read(&self, from: usize, to: usize) {
        self.watched[from..to].iter().for_each(|cell| cell.with(|_| ()));
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let bytes = std::ptr::slice_from_raw_parts_mut(self.start.as_ptr(), self.capacity);
        // SAFETY: `new` leaked a box of this size. Bytes need no drop, whether written or not.
        drop(unsafe { Box::from_raw(bytes as *mut [MaybeUninit<u8>]) });
    }
}
