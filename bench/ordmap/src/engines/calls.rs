//! Maps of one process, which need one call for each key.

use super::Work;
use crate::data::{Asked, Data};

/// A map of one process, with one call for each kind of work.
pub(super) trait Calls {
    fn get(&self, key: &[u8]) -> u64;
    fn range(&self, key: &[u8]) -> u64;
    fn insert(&mut self, data: &Data, asked: &Asked) -> u64;
    fn remove(&self, key: &[u8]) -> u64;
}

/// Does the work for each key, as [`Engine::run`](super::Engine::run) says.
pub(super) fn run_by_calls(
    map: &mut impl Calls,
    work: Work,
    data: &Data,
    asked: &[Asked],
) -> Option<u64> {
    let sum = asked.iter().map(|asked| match work {
        Work::Get | Work::Hold => Some(map.get(&asked.key)),
        Work::Range => Some(map.range(&asked.key)),
        Work::Insert => Some(map.insert(data, asked)),
        Work::Remove => Some(map.remove(&asked.key)),
        Work::Scan | Work::RangeByKey | Work::InsertBatched | Work::RemoveBatched => None,
    });
    sum.reduce(|sum, one| Some(sum?.wrapping_add(one?)))?
}
