//! The table of ghosts.

use forebay_cache::evict_segments::ghosts::Trace;

use crate::simulate::mix;

pub(super) struct Ghosts(Vec<u64>);

impl Ghosts {
    pub(super) fn new(words: usize) -> Self {
        Self(vec![0; words])
    }

    pub(super) fn note(&mut self, record: u32) {
        let trace = self.trace(record);
        self.0[trace.word] = trace.noted(self.0[trace.word]);
    }

    pub(super) fn take(&mut self, record: u32) -> bool {
        let trace = self.trace(record);
        let Some(word) = trace.taken(self.0[trace.word]) else {
            return false;
        };
        self.0[trace.word] = word;
        true
    }

    fn trace(&self, record: u32) -> Trace {
        Trace::of(mix(u64::from(record)), self.0.len())
    }
}
