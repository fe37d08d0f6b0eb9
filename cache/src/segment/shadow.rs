//! The bytes of segments in a model. loom's words cannot be borrowed as bytes. So each word has a
//! byte image, which can be borrowed, and a cell, which reports every borrow and every write to
//! loom.

use std::cell::UnsafeCell;
use std::fmt;

pub(super) struct ByteShadow {
    image: Box<[UnsafeCell<[u8; 8]>]>,
    watched: Box<[forebay_sync::atomic::UnsafeCell<()>]>,
}

// SAFETY: loom runs one thread at a time, and `watched` tells it of each access.
unsafe impl Send for ByteShadow {}
// SAFETY: as above.
unsafe impl Sync for ByteShadow {}

impl ByteShadow {
    pub(super) fn new(word_count: usize) -> ByteShadow {
        ByteShadow {
            image: (0..word_count).map(|_| UnsafeCell::new([0; 8])).collect(),
            watched: (0..word_count).map(|_| forebay_sync::atomic::UnsafeCell::new(())).collect(),
        }
    }

    /// Records a read of `count` words from `first` on; returns the address of the first.
    pub(super) fn read(&self, first: usize, count: usize) -> *const u8 {
        let words = first..first + count;
        self.watched[words.clone()].iter().for_each(|cell| cell.with(|_| ()));
        self.image[words].as_ptr().cast()
    }

    /// Records a write of words from `first` on.
    pub(super) fn write(&self, first: usize, words: &[[u8; 8]]) {
        for (index, word) in words.iter().enumerate() {
            self.watched[first + index].with_mut(|_| ());
            // SAFETY: no other thread reads or writes now: loom has just checked that.
            unsafe { *self.image[first + index].get() = *word };
        }
    }
}

impl fmt::Debug for ByteShadow {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} words", self.image.len())
    }
}
