//! SIEVE ("SIEVE is simpler than LRU", NSDI '24).

use super::links::{Links, List};
use super::{Policy, Request};

pub(super) struct Sieve {
    links: Links,
    list: List,
    /// The bytes of each stored key; zero for a key that is not stored.
    stored: Vec<u32>,
    was_used: Vec<bool>,
    /// The key that the hand examines next. `None` stands for the oldest key.
    hand: Option<u32>,
    budget_bytes: u64,
}

impl Sieve {
    pub(super) fn new(keys: usize, budget_bytes: u64) -> Self {
        Self {
            links: Links::new(keys),
            list: List::EMPTY,
            stored: vec![0; keys],
            was_used: vec![false; keys],
            hand: None,
            budget_bytes,
        }
    }

    fn evict(&mut self) {
        while let Some(key) = self.hand.or(self.list.oldest()) {
            self.hand = self.links.newer(key);
            if !std::mem::take(&mut self.was_used[key as usize]) {
                let bytes = std::mem::take(&mut self.stored[key as usize]);
                return self.links.remove(&mut self.list, key, bytes);
            }
        }
    }
}

impl Policy for Sieve {
    fn request(&mut self, request: &Request) -> u32 {
        let Request { key, bytes, .. } = *request;
        let found = self.stored[key as usize];
        if found > 0 {
            self.was_used[key as usize] = true;
            return found;
        }
        if u64::from(bytes) > self.budget_bytes {
            return 0;
        }
        while self.list.bytes + u64::from(bytes) > self.budget_bytes {
            self.evict();
        }
        self.stored[key as usize] = bytes;
        self.links.push(&mut self.list, key, bytes);
        0
    }
}
