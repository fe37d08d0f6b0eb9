//! The standard library's map behind a lock, which is the usual choice for a single process.

use std::collections::BTreeMap;
use std::ops::Bound;
#[allow(clippy::disallowed_types, reason = "the benchmark measures this lock")]
use std::sync::RwLock;

use super::calls::{Calls, run_by_calls};
use super::{Engine, RANGE, Work, heap_bytes};
use crate::data::{Asked, Data, digest};

type Boxed = Box<[u8]>;

pub(crate) struct Locked {
    #[expect(clippy::allow_attributes, reason = "not every version of clippy has this lint")]
    #[allow(clippy::disallowed_types, reason = "the benchmark measures this lock")]
    map: RwLock<BTreeMap<Boxed, Boxed>>,
    value: Vec<u8>,
    heap_before: u64,
}

impl Locked {
    pub(crate) fn new() -> Locked {
        let heap_before = heap_bytes();
        Locked { map: Default::default(), value: Vec::new(), heap_before }
    }
}

impl Calls for Locked {
    fn get(&self, key: &[u8]) -> u64 {
        self.map.read().expect("a thread panicked").get(key).map_or(0, |value| digest(value))
    }

    fn range(&self, key: &[u8]) -> u64 {
        let map = self.map.read().expect("a thread panicked");
        let range = map.range::<[u8], _>((Bound::Included(key), Bound::Unbounded)).take(RANGE);
        range.map(|(_, value)| digest(value)).fold(0, u64::wrapping_add)
    }

    fn insert(&mut self, data: &Data, asked: &Asked) -> u64 {
        data.value(asked.number, &mut self.value);
        let (key, value) = (asked.key[..].into(), self.value[..].into());
        u64::from(self.map.write().expect("a thread panicked").insert(key, value).is_some())
    }

    fn remove(&self, key: &[u8]) -> u64 {
        u64::from(self.map.write().expect("a thread panicked").remove(key).is_some())
    }
}

impl Engine for Locked {
    fn name(&self) -> &'static str {
        "BTreeMap + RwLock"
    }

    fn run(&mut self, work: Work, data: &Data, asked: &[Asked]) -> Option<u64> {
        run_by_calls(self, work, data, asked)
    }

    fn used_bytes(&self) -> u64 {
        heap_bytes() - self.heap_before
    }
}
