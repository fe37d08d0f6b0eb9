//! An array of words, wherever it lies.

use crate::atomic::AtomicU64;

/// Words that several threads, or several processes, read and write as atomics.
///
/// Protocols over shared memory are written against this trait. A mapped file is one form of it; a
/// boxed slice is another, and the only one that loom can run, since its atomics cannot lie in
/// mapped memory.
pub trait Words {
    /// How many words there are; never changes.
    fn word_count(&self) -> usize;

    /// The word with this index.
    ///
    /// # Panics
    /// If `index` is not below [`word_count`](Words::word_count). Who has an index from elsewhere,
    /// the memory itself included, checks it first.
    fn word(&self, index: usize) -> &AtomicU64;
}

impl Words for Box<[AtomicU64]> {
    fn word_count(&self) -> usize {
        self.len()
    }

    #[inline]
    fn word(&self, index: usize) -> &AtomicU64 {
        &self[index]
    }
}

impl<W: Words + ?Sized> Words for std::sync::Arc<W> {
    fn word_count(&self) -> usize {
        (**self).word_count()
    }

    #[inline]
    fn word(&self, index: usize) -> &AtomicU64 {
        (**self).word(index)
    }
}

/// `count` words of this process, all zero.
#[must_use]
pub fn boxed_words(count: usize) -> Box<[AtomicU64]> {
    (0..count).map(|_| AtomicU64::new(0)).collect()
}
