//! Tests of the policy's decisions, case by case and over random histories.

mod draining;
mod histories;
mod remembering;
mod turns;

use super::*;

const RULES: EvictionRules = EvictionRules::STORE;

fn choice(queue: Queue, cause: DrainCause) -> Victim {
    Victim { segment: 0, queue, cause }
}

fn seen(uses: u8, bytes: u64) -> DrainRecord {
    DrainRecord { uses, bytes, is_stale: false }
}

#[test]
fn a_record_of_a_requested_key_enters_main() {
    let cases = [
        (KeyHistory::Unknown, Queue::Small),
        (KeyHistory::Ghost, Queue::Main),
        (KeyHistory::Replacement, Queue::Main),
    ];
    for (known, queue) in cases {
        assert_eq!(queue_for(known), queue, "{known:?}");
    }
}
