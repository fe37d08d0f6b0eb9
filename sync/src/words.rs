//! Arrays of atomic words, on the heap or in mapped memory.

use crate::atomic::AtomicU64;

/// Words that several threads, or several processes, read and write as atomics.
///
/// Protocols over shared memory are written against this trait. Words in a mapped file implement
/// the trait, and so does a boxed slice. Only a boxed slice can be part of a loom model, since
/// loom's atomics cannot lie in mapped memory.
pub trait Words {
    /// The number of words, which never changes.
    fn word_count(&self) -> usize;

    /// The word with this index.
    ///
    /// Panics if `index` is not below [`word_count`](Words::word_count). So a caller checks an
    /// index that it read from shared memory or received from outside.
    fn word(&self, index: usize) -> &AtomicU64;

    /// All words in order. Every call returns the same words.
    fn all(&self) -> &[AtomicU64];
}

impl Words for Box<[AtomicU64]> {
    fn word_count(&self) -> usize {
        self.len()
    }

    #[inline]
    fn word(&self, index: usize) -> &AtomicU64 {
        &self[index]
    }

    #[inline]
    fn all(&self) -> &[AtomicU64] {
        self
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

    #[inline]
    fn all(&self) -> &[AtomicU64] {
        (**self).all()
    }
}

/// Returns `count` words on the heap of this process, all zero.
#[must_use]
pub fn boxed_words(count: usize) -> Box<[AtomicU64]> {
    (0..count).map(|_| AtomicU64::new(0)).collect()
}

/// The number of words in a line. Words of different owners lie on different lines, so that the
/// owners do not slow each other down.
///
/// A line is two cache lines of the processor, since the processor fetches cache lines in pairs. In
/// a model a line is one word.
pub const LINE_WORDS: usize = if cfg!(loom) { 1 } else { 16 };

#[derive(Debug)]
#[cfg_attr(not(loom), repr(C, align(128)))]
#[cfg_attr(loom, repr(transparent))]
struct WordLine([AtomicU64; LINE_WORDS]);

/// Words on the heap of this process, in whole lines that contain nothing else.
#[derive(Debug)]
pub struct LineWords(Box<[WordLine]>);

impl LineWords {
    /// Makes at least `count` words, all zero. The number is rounded up to whole lines.
    #[must_use]
    pub fn new(count: usize) -> LineWords {
        let line = |_| WordLine(std::array::from_fn(|_| AtomicU64::new(0)));
        LineWords((0..count.div_ceil(LINE_WORDS)).map(line).collect())
    }
}

impl Words for LineWords {
    fn word_count(&self) -> usize {
        self.0.len() * LINE_WORDS
    }

    #[inline]
    fn word(&self, index: usize) -> &AtomicU64 {
        &self.0[index / LINE_WORDS].0[index % LINE_WORDS]
    }

    #[allow(unsafe_code)]
    fn all(&self) -> &[AtomicU64] {
        // SAFETY: a line is `LINE_WORDS` words and nothing else (asserted below), so in a slice of
        // lines the words lie one behind another; they live as long as the box.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), self.0.len() * LINE_WORDS) }
    }
}

const _: () = assert!(size_of::<WordLine>() == LINE_WORDS * size_of::<AtomicU64>());
