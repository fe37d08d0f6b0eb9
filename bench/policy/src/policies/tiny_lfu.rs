//! W-TinyLFU ("TinyLFU: a highly efficient cache admission policy", TOS '17): a window of 1 %, then
//! a two-part LRU. An object that leaves the window stays only if it was requested more often than
//! the victims that it would replace.

use super::links::{Links, List};
use super::sketch::Sketch;
use super::{Policy, Request};
use crate::traces::Trace;

/// The list that a key is in.
type Part = usize;
const WINDOW: Part = 0;
const PROBATION: Part = 1;
const PROTECTED: Part = 2;

pub(super) struct TinyLfu {
    links: Links,
    lists: [List; 3],
    parts: Vec<Option<Part>>,
    bytes: Vec<u32>,
    sketch: Sketch,
    window_bytes_max: u64,
    protected_bytes_max: u64,
    budget_bytes: u64,
}

impl TinyLfu {
    pub(super) fn new(trace: &Trace, budget_bytes: u64) -> Self {
        let keys = trace.bytes.len();
        let window_bytes_max = budget_bytes / 100;
        Self {
            links: Links::new(keys),
            lists: [List::EMPTY; 3],
            parts: vec![None; keys],
            bytes: trace.bytes.clone(),
            sketch: Sketch::new(budget_bytes / trace.mean_bytes().max(1)),
            window_bytes_max,
            protected_bytes_max: (budget_bytes - window_bytes_max) / 5 * 4,
            budget_bytes,
        }
    }

    /// Makes the key the newest of a list, and removes it from its previous list.
    fn put(&mut self, key: u32, part: Part) {
        self.take(key);
        self.parts[key as usize] = Some(part);
        self.links.push(&mut self.lists[part], key, self.bytes[key as usize]);
    }

    fn take(&mut self, key: u32) {
        if let Some(part) = self.parts[key as usize].take() {
            self.links.remove(&mut self.lists[part], key, self.bytes[key as usize]);
        }
    }

    fn touch(&mut self, key: u32, part: Part) {
        if part == WINDOW {
            return self.put(key, WINDOW);
        }
        self.put(key, PROTECTED);
        while self.lists[PROTECTED].bytes > self.protected_bytes_max
            && let Some(oldest) = self.lists[PROTECTED].oldest()
        {
            self.put(oldest, PROBATION);
        }
    }

    /// Admits a key that leaves the window, unless it would replace a victim that was requested at
    /// least as often.
    fn admit(&mut self, candidate: u32) {
        self.put(candidate, PROBATION);
        let estimate = self.sketch.estimate(candidate);
        while self.bytes() > self.budget_bytes {
            let victim = self.lists[PROBATION].oldest().filter(|victim| *victim != candidate);
            let Some(victim) = victim.or(self.lists[PROTECTED].oldest()) else {
                return self.take(candidate);
            };
            if self.sketch.estimate(victim) >= estimate {
                return self.take(candidate);
            }
            self.take(victim);
        }
    }

    fn bytes(&self) -> u64 {
        self.lists.iter().map(|list| list.bytes).sum()
    }
}

impl Policy for TinyLfu {
    fn request(&mut self, request: &Request) -> u32 {
        let Request { key, bytes, .. } = *request;
        self.sketch.note(key);
        if let Some(part) = self.parts[key as usize] {
            self.touch(key, part);
            return bytes;
        }
        if u64::from(bytes) > self.budget_bytes {
            return 0;
        }
        self.put(key, WINDOW);
        while self.lists[WINDOW].bytes > self.window_bytes_max
            && let Some(oldest) = self.lists[WINDOW].oldest()
        {
            self.admit(oldest);
        }
        0
    }
}
