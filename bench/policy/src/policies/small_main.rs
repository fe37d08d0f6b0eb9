//! S3-FIFO ("FIFO queues are all you need for cache eviction", SOSP '23), with single objects.

use std::collections::VecDeque;

use super::{Policy, Request};
use crate::traces::Trace;

const USES_MAX: u8 = 3;

#[derive(Clone, Copy, PartialEq)]
enum State {
    Absent,
    Stored,
}

#[derive(Default)]
struct Fifo {
    keys: VecDeque<u32>,
    bytes: u64,
}

pub(super) struct SmallMain {
    small: Fifo,
    main: Fifo,
    ghosts: Ghosts,
    states: Vec<State>,
    uses: Vec<u8>,
    bytes: Vec<u32>,
    promote_uses: u8,
    small_bytes_max: u64,
    budget_bytes: u64,
}

impl SmallMain {
    pub(super) fn new(trace: &Trace, budget_bytes: u64, promote_uses: u8) -> Self {
        let keys = trace.bytes.len();
        let small_bytes_max = budget_bytes / 10;
        Self {
            small: Fifo::default(),
            main: Fifo::default(),
            ghosts: Ghosts::new(keys, budget_bytes - small_bytes_max),
            states: vec![State::Absent; keys],
            uses: vec![0; keys],
            bytes: trace.bytes.clone(),
            promote_uses,
            small_bytes_max,
            budget_bytes,
        }
    }

    fn evict(&mut self) {
        let is_small_due = self.small.bytes > self.small_bytes_max || self.main.keys.is_empty();
        if is_small_due { self.evict_small() } else { self.evict_main() }
    }

    fn evict_small(&mut self) {
        let Some(key) = take(&mut self.small, &self.bytes) else {
            return;
        };
        if self.uses[key as usize] >= self.promote_uses {
            self.uses[key as usize] = 0;
            return put(&mut self.main, key, &self.bytes);
        }
        self.states[key as usize] = State::Absent;
        self.ghosts.note(key, &self.bytes);
    }

    fn evict_main(&mut self) {
        let Some(key) = take(&mut self.main, &self.bytes) else {
            return;
        };
        if self.uses[key as usize] > 0 {
            self.uses[key as usize] -= 1;
            return put(&mut self.main, key, &self.bytes);
        }
        self.states[key as usize] = State::Absent;
    }
}

fn put(queue: &mut Fifo, key: u32, bytes: &[u32]) {
    queue.keys.push_back(key);
    queue.bytes += u64::from(bytes[key as usize]);
}

fn take(queue: &mut Fifo, bytes: &[u32]) -> Option<u32> {
    let key = queue.keys.pop_front()?;
    queue.bytes -= u64::from(bytes[key as usize]);
    Some(key)
}

impl Policy for SmallMain {
    fn request(&mut self, request: &Request) -> u32 {
        let Request { key, bytes, .. } = *request;
        if self.states[key as usize] == State::Stored {
            let uses = &mut self.uses[key as usize];
            *uses = USES_MAX.min(*uses + 1);
            return bytes;
        }
        if u64::from(bytes) > self.budget_bytes {
            return 0;
        }
        let is_ghost = self.ghosts.take(key);
        while self.small.bytes + self.main.bytes + u64::from(bytes) > self.budget_bytes {
            self.evict();
        }
        self.states[key as usize] = State::Stored;
        self.uses[key as usize] = 0;
        put(if is_ghost { &mut self.main } else { &mut self.small }, key, &self.bytes);
        0
    }
}

/// A queue of evicted keys, for as many bytes of objects as the main queue.
struct Ghosts {
    queue: VecDeque<(u32, u32)>,
    /// The number of each key's ghost; zero if it has none.
    numbers: Vec<u32>,
    last: u32,
    bytes: u64,
    bytes_max: u64,
}

impl Ghosts {
    fn new(keys: usize, bytes_max: u64) -> Self {
        Self { queue: VecDeque::new(), numbers: vec![0; keys], last: 0, bytes: 0, bytes_max }
    }

    fn note(&mut self, key: u32, bytes: &[u32]) {
        self.last += 1;
        self.numbers[key as usize] = self.last;
        self.queue.push_back((key, self.last));
        self.bytes += u64::from(bytes[key as usize]);
        while self.bytes > self.bytes_max
            && let Some((key, number)) = self.queue.pop_front()
        {
            self.bytes -= u64::from(bytes[key as usize]);
            if self.numbers[key as usize] == number {
                self.numbers[key as usize] = 0;
            }
        }
    }

    fn take(&mut self, key: u32) -> bool {
        std::mem::take(&mut self.numbers[key as usize]) > 0
    }
}
