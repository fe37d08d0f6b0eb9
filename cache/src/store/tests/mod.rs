//! Tests of the store, mostly through its public interface.

mod basics;
mod copies;
mod counts;
mod damage;
mod document;
mod load;
mod past_purge;
mod promises;
mod reader;
mod select;
mod side_by_side;
mod slow;
mod soft;
mod uses;
mod verify;

use std::task::{Context, Poll, Waker};

use super::variants::{BaseBody, write_key_of};
use crate::{
    CheckDepth, CollapseResult, Fill, FindingSeverity, JoinTerms, Leader, Lookup, RecordTimes,
    Store, StoreConfig, StoreReport, StoreWorker, StoredRecord, VariantKey, selector_list,
};

/// The time at which everything in these tests happens, in Unix seconds.
const NOW: u64 = 1_000_000;

fn config(budget_bytes: u64) -> StoreConfig {
    StoreConfig::with_budget(budget_bytes)
}

fn open(budget_bytes: u64) -> (Store, StoreWorker) {
    let store = Store::open(config(budget_bytes)).unwrap();
    let worker = store.join().unwrap();
    (store, worker)
}

fn check(store: &Store) -> StoreReport {
    let mut last = None;
    let report = store.check(CheckDepth::Checksums, |progress| last = Some(progress)).unwrap();
    let last = last.expect("the check reported its progress");
    assert_eq!(last.done, last.total);
    report
}

/// Asserts that a store that no thread uses has no fault and no wrong count.
fn assert_sound(store: &Store) {
    let report = check(store);
    let wrong = report.findings.iter().any(|finding| finding.severity() != FindingSeverity::Note);
    assert!(!wrong, "{report}");
}

fn fresh() -> RecordTimes {
    RecordTimes { response_time: NOW as u32, stale_from: NOW + 3600 }
}

fn lead(worker: &StoreWorker, key: &[u8], variant: Option<&[u8]>) -> Leader {
    let list = variant.map(selector_list);
    match worker.collapse(key, list.as_deref(), None, JoinTerms::at(0)) {
        CollapseResult::Leader(leader, _) => leader,
        other => panic!("{other:?}"),
    }
}

fn fill(leader: Leader, head: &[u8], base: Option<VariantKey>, body: &[u8]) -> bool {
    let mut filling = leader.begin(head, base, Some(body.len() as u64), fresh()).unwrap();
    append(&mut filling, body);
    filling.finish()
}

fn append(filling: &mut Fill, body: &[u8]) {
    let mut cx = Context::from_waker(Waker::noop());
    for piece in body.chunks(16 * 1024) {
        assert_eq!(filling.poll_room(&mut cx, 0), Poll::Ready(Ok(())));
        filling.append(piece).unwrap();
    }
}

/// Stores a response without variants.
fn put(worker: &StoreWorker, key: &[u8], head: &[u8], body: &[u8]) -> bool {
    fill(lead(worker, key, None), head, None, body)
}

/// The head and the body of the record that is stored under a key.
fn get(worker: &StoreWorker, key: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    match worker.lookup(key) {
        Lookup::Miss => None,
        Lookup::Record(found) => read(worker, &found),
        Lookup::Base(_) => panic!("the key has a base"),
    }
}

/// The key under which the base of a resource has a variant.
fn variant_key(worker: &StoreWorker, primary: &[u8], value: &[u8]) -> Option<Vec<u8>> {
    let hash = worker.inner.shared.wide_hash(value);
    let pinned = worker.inner.records.look(primary)?;
    let id = BaseBody::decode(pinned.record().body())?.id_of(&hash)?;
    let mut key = Vec::new();
    write_key_of(&mut key, primary, &id);
    Some(key)
}

fn read(worker: &StoreWorker, found: &StoredRecord<'_>) -> Option<(Vec<u8>, Vec<u8>)> {
    let head = found.head().to_vec();
    let mut body = Vec::new();
    match found.body() {
        crate::StoredBody::Whole(bytes) => {
            let lent = found.pin_body(0..bytes as u32, 0);
            body.extend_from_slice(lent.bytes(&worker.send_guard()).unwrap());
        }
        crate::StoredBody::Long(long) => {
            for number in long.fragments(0..long.bytes()) {
                let part = long.part_of(number, &(0..long.bytes()));
                let lent = worker.pin_fragment(&long, number, part, 0)?;
                body.extend_from_slice(lent.bytes(&worker.send_guard()).unwrap());
            }
        }
    }
    Some((head, body))
}
