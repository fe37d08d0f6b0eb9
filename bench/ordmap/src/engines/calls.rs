//! Maps of one process, asked call by call.

use super::Work;
use crate::data::Data;

/// A map of one process, which has a call for each piece of work and no other form.
pub(super) trait Calls {
    fn get(&self, key: &[u8]) -> u64;
    fn range(&self, key: &[u8]) -> u64;
    fn insert(&mut self, data: &Data, number: u32) -> u64;
    fn remove(&self, key: &[u8]) -> u64;
}

/// Does the work for each number, as [`Engine::run`](super::Engine::run) says.
pub(super) fn run_by_calls(
    map: &mut impl Calls,
    work: Work,
    data: &Data,
    numbers: &[u32],
) -> Option<u64> {
    let key = |number: &u32| &data.keys[*number as usize][..];
    let sum = numbers.iter().map(|number| match work {
        Work::Get | Work::Hold => Some(map.get(key(number))),
        Work::Range => Some(map.range(key(number))),
        Work::Insert => Some(map.insert(data, *number)),
        Work::Remove => Some(map.remove(key(number))),
        Work::Scan | Work::RangeByKey | Work::InsertBatched | Work::RemoveBatched => None,
    });
    sum.reduce(|sum, one| Some(sum?.wrapping_add(one?)))?
}
