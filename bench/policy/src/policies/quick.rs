//! The crate `quick_cache`, unchanged.

use std::hash::{BuildHasherDefault, Hasher};

use quick_cache::Weighter;
use quick_cache::unsync::{Cache, DefaultLifecycle};

use super::{Policy, Request};
use crate::traces::Trace;

/// A hash for keys that are numbers. It need not be strong, and without a seed the same run gives
/// the same figures.
#[derive(Default)]
struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }

    fn write_u32(&mut self, value: u32) {
        self.0 = crate::simulate::mix(self.0 ^ u64::from(value));
    }
}

/// Weighs an entry by its value, which is the length of the object.
#[derive(Clone)]
struct Bytes;

impl Weighter<u32, u32> for Bytes {
    fn weight(&self, _: &u32, bytes: &u32) -> u64 {
        u64::from(*bytes)
    }
}

pub(super) struct Quick {
    cache: Cache<u32, u32, Bytes, BuildHasherDefault<Mix>>,
}

impl Quick {
    pub(super) fn new(trace: &Trace, budget_bytes: u64) -> Self {
        let objects = budget_bytes / trace.mean_bytes().max(1);
        let cache = Cache::with(
            objects as usize,
            budget_bytes,
            Bytes,
            BuildHasherDefault::default(),
            DefaultLifecycle::default(),
        );
        Self { cache }
    }
}

impl Policy for Quick {
    fn request(&mut self, request: &Request) -> u32 {
        if let Some(bytes) = self.cache.get(&request.key) {
            return *bytes;
        }
        self.cache.insert(request.key, request.bytes);
        0
    }
}
