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

/// A small random generator (splitmix64), so that a run can be repeated from its seed.
struct Rng(u64);

impl Rng {
    /// From `FOREBAY_SEED`, else from the hasher's random keys; prints it.
    fn of(test: &str) -> Rng {
        use std::hash::{BuildHasher, RandomState};
        let given = std::env::var("FOREBAY_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or_else(|| RandomState::new().hash_one(0) >> 32);
        println!("{test}: FOREBAY_SEED={seed}");
        Rng(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}
