//! The bytes of a chunk: written by one thread at one end while others read what it has published.

use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// Memory without a lock, which never moves. The caller guarantees exclusive access where it is
/// needed.
///
/// A slice of it lies beside bytes that are being written, so there is no slice of the whole, only
/// a pointer. In a model each byte has a cell of its own, which shows loom its readers and writers.
#[derive(Debug)]
pub(super) struct Memory {
    start: NonNull<u8>,
    capacity: usize,
    #[cfg(loom)]
    watched: Box<[loom::cell::UnsafeCell<()>]>,
}

// SAFETY: the memory belongs to this value; each access is one that the caller has made safe.
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

    /// Copies as many of `bytes` to `offset` as there is room for; returns how many.
    ///
    /// # Safety
    /// - No other thread writes now.
    /// - No thread reads at or behind `offset`, now or later, but by an order that puts it after
    ///   this write.
    pub(super) unsafe fn write(&self, offset: usize, bytes: &[u8]) -> usize {
        let count = bytes.len().min(self.capacity.saturating_sub(offset));
        self.watch_write(offset, count);
        let from = bytes.as_ptr();
        if count > 0 {
            // SAFETY: `offset` is below the capacity, since there is room.
            let to = unsafe { self.start.add(offset) };
            // SAFETY: `count` bytes fit on both sides, and no other thread is there (contract).
            unsafe { to.as_ptr().copy_from_nonoverlapping(from, count) };
        }
        count
    }

    /// The bytes from `from` to `to`.
    ///
    /// # Safety
    /// - They have been written, in an order that puts this after the writes.
    /// - They are not written again while the slice is in use.
    pub(super) unsafe fn read(&self, from: usize, to: usize) -> &[u8] {
        debug_assert!(from <= to && to <= self.capacity, "outside of the chunk");
        self.watch_read(from, to);
        // SAFETY: inside, since bytes up to `to` were written (contract).
        let start = unsafe { self.start.add(from) };
        // SAFETY: initialised and left alone (contract); the memory lives as long as `self`.
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
        // SAFETY: `new` leaked a box of this size; bytes need no drop, written or not.
        drop(unsafe { Box::from_raw(bytes as *mut [MaybeUninit<u8>]) });
    }
}
