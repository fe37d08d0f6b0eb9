//! What the policy decides, case by case, and what stays true over random histories.

mod draining;
mod histories;
mod remembering;
mod turns;

use super::*;

const RULES: Rules = Rules::STORE;

fn choice(queue: Queue, cause: Cause) -> Choice {
    Choice { place: 0, queue, cause }
}

fn seen(uses: u8, bytes: u64) -> Seen {
    Seen { uses, bytes, is_stale: false }
}

#[test]
fn what_is_known_to_be_wanted_enters_main() {
    let cases = [
        (Known::Nothing, Queue::Small),
        (Known::Ghost, Queue::Main),
        (Known::Replaces, Queue::Main),
    ];
    for (known, queue) in cases {
        assert_eq!(enters(known), queue, "{known:?}");
    }
}
