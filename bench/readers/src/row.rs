//! The data that the locks protect: a few words that change together.

/// Four words that are always equal, except during a write by another thread.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Row([u64; 4]);

impl Row {
    /// Changes the row as a writer does: adds one to each word.
    #[inline]
    pub(crate) fn advance(&mut self) {
        self.0.iter_mut().for_each(|word| *word += 1);
    }

    /// Returns how often the row was advanced, or `None` if it was read during a write.
    #[inline]
    pub(crate) fn count(&self) -> Option<u64> {
        let [first, rest @ ..] = self.0;
        rest.iter().all(|word| *word == first).then_some(first)
    }
}
