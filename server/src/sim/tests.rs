//! Seeds played, and one played again.

use super::run::{Outcome, play};
use super::scenario::Scenario;

/// Seeds that a test plays, if `FOREBAY_SEEDS` says nothing else; `scripts/simulate` plays more.
const SEED_COUNT: u64 = 30;

fn number_of(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number")))
}

/// Plays a seed; a failure is shortened and told with the command that repeats it.
fn play_seed(seed: u64) -> Outcome {
    let scenario = Scenario::of(seed);
    let outcome = play(&scenario);
    let Some(failure) = &outcome.failure else {
        return outcome;
    };
    eprintln!("seed {seed} fails {failure}");
    let short = match std::env::var_os("FOREBAY_SHORTEN") {
        Some(no) if no == "0" => scenario,
        _ => scenario.shortened(|shorter| play(shorter).failure.is_some()),
    };
    eprintln!("so do these acts of it, {:?}:", play(&short).failure);
    short.acts.iter().for_each(|act| eprintln!("  {act:?}"));
    panic!(
        "seed {seed} fails {failure}; again:\n  \
         FOREBAY_SEED={seed} cargo test -p forebay-server --lib sim::tests::seeds_keep_all_promises"
    );
}

#[test]
fn seeds_keep_all_promises() {
    if let Some(seed) = number_of("FOREBAY_SEED") {
        println!("{:?}", play_seed(seed));
        return;
    }
    let first = number_of("FOREBAY_FIRST_SEED").unwrap_or(0);
    let count = number_of("FOREBAY_SEEDS").unwrap_or(SEED_COUNT);
    let (mut answered, mut hits) = (0, 0);
    for seed in first..first + count {
        let outcome = play_seed(seed);
        answered += outcome.answered;
        hits += outcome.hits;
    }
    println!("{count} seeds from {first} on: {answered} responses, {hits} hits");
    assert!(answered > 10 * count && hits > count, "too little happens");
}

#[test]
fn two_runs_of_a_seed_are_equal_to_the_byte() {
    for seed in 0..6 {
        let scenario = Scenario::of(seed);
        let (first, second) = (play(&scenario), play(&scenario));
        assert_eq!(first, second, "seed {seed}");
    }
}
