//! crossbeam's skip list, for readers and writers of one process, without a lock.

use std::ops::Bound;

use crossbeam_skiplist::SkipMap;

use super::calls::{Calls, run_by_calls};
use super::{Engine, RANGE, Work, heap_bytes};
use crate::data::{Asked, Data, digest};

type Boxed = Box<[u8]>;

pub(crate) struct Skiplist {
    map: SkipMap<Boxed, Boxed>,
    value: Vec<u8>,
    heap_before: u64,
}

impl Skiplist {
    pub(crate) fn new() -> Skiplist {
        let heap_before = heap_bytes();
        Skiplist { map: SkipMap::new(), value: Vec::new(), heap_before }
    }
}

impl Calls for Skiplist {
    fn get(&self, key: &[u8]) -> u64 {
        self.map.get(key).map_or(0, |entry| digest(entry.value()))
    }

    fn range(&self, key: &[u8]) -> u64 {
        let range = self.map.range::<[u8], _>((Bound::Included(key), Bound::Unbounded)).take(RANGE);
        range.map(|entry| digest(entry.value())).fold(0, u64::wrapping_add)
    }

    /// The skip list does not report whether the key existed.
    fn insert(&mut self, data: &Data, asked: &Asked) -> u64 {
        data.value(asked.number, &mut self.value);
        self.map.insert(asked.key[..].into(), self.value[..].into());
        0
    }

    fn remove(&self, key: &[u8]) -> u64 {
        u64::from(self.map.remove(key).is_some())
    }
}

impl Engine for Skiplist {
    fn name(&self) -> &'static str {
        "crossbeam-skiplist"
    }

    fn run(&mut self, work: Work, data: &Data, asked: &[Asked]) -> Option<u64> {
        run_by_calls(self, work, data, asked)
    }

    fn used_bytes(&self) -> u64 {
        heap_bytes() - self.heap_before
    }
}
