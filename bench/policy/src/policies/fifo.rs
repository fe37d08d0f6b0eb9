//! First in, first out.

use std::collections::VecDeque;

use super::{Policy, Request};

pub(super) struct Fifo {
    queue: VecDeque<u32>,
    /// The bytes of each stored key; zero for a key that is not stored.
    stored: Vec<u32>,
    bytes: u64,
    budget_bytes: u64,
}

impl Fifo {
    pub(super) fn new(keys: usize, budget_bytes: u64) -> Self {
        Self { queue: VecDeque::new(), stored: vec![0; keys], bytes: 0, budget_bytes }
    }
}

impl Policy for Fifo {
    fn request(&mut self, request: &Request) -> u32 {
        let Request { key, bytes, .. } = *request;
        let found = self.stored[key as usize];
        if found > 0 || u64::from(bytes) > self.budget_bytes {
            return found;
        }
        self.stored[key as usize] = bytes;
        self.bytes += u64::from(bytes);
        self.queue.push_back(key);
        while self.bytes > self.budget_bytes
            && let Some(oldest) = self.queue.pop_front()
        {
            self.bytes -= u64::from(std::mem::take(&mut self.stored[oldest as usize]));
        }
        0
    }
}
