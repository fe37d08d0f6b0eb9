//! The data that the locks protect: a few words that change together.

/// Four words that are always equal, unless one thread reads while another writes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Row([u64; 4]);

impl Row {
    /// A writer's change: one more in each word.
    #[inline]
    pub(crate) fn advance(&mut self) {
        self.0.iter_mut().for_each(|word| *word += 1);
    }

    /// How often it was advanced; `None` if it was read during a write.
    #[inline]
    pub(crate) fn count(&self) -> Option<u64> {
        let [first, rest @ ..] = self.0;
        rest.iter().all(|word| *word == first).then_some(first)
    }
}
