//! Least recently used.

use super::links::{Links, List};
use super::{Policy, Request};

pub(super) struct Lru {
    links: Links,
    list: List,
    /// The bytes of each stored key; zero for a key that is not stored.
    stored: Vec<u32>,
    budget_bytes: u64,
}

impl Lru {
    pub(super) fn new(keys: usize, budget_bytes: u64) -> Self {
        Self { links: Links::new(keys), list: List::EMPTY, stored: vec![0; keys], budget_bytes }
    }
}

impl Policy for Lru {
    fn request(&mut self, request: &Request) -> u32 {
        let Request { key, bytes, .. } = *request;
        let found = self.stored[key as usize];
        if found > 0 {
            self.links.remove(&mut self.list, key, bytes);
        }
        if u64::from(bytes) > self.budget_bytes {
            return 0;
        }
        self.links.push(&mut self.list, key, bytes);
        self.stored[key as usize] = bytes;
        while self.list.bytes > self.budget_bytes
            && let Some(oldest) = self.list.oldest()
        {
            let bytes = std::mem::take(&mut self.stored[oldest as usize]);
            self.links.remove(&mut self.list, oldest, bytes);
        }
        found
    }
}
