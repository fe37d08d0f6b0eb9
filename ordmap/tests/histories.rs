//! Checks that the results that threads saw for a key fit one order of their operations, each at
//! one moment between its beginning and its end (linearizability; the search is Wing and Gong's,
//! with a memory of the sets and values already tried).

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashSet;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread;

use forebay_ordmap::{ExpectedState, Map, MapError, MapOptions, OrdConfig, OrdRegion};
use forebay_testkit::Rng;

const THREADS: usize = 3;
/// The number of operations of each thread; a set of all operations must fit into 128 bits.
const STEPS: usize = 40;
const KEYS: usize = 2;

type Value = Option<u64>;

#[derive(Clone, Copy, Debug)]
enum Step {
    Get { found: Value },
    Hold { found: Value },
    Next { found: Value },
    Insert { new: u64, was_there: bool },
    Remove { was_there: bool },
    Compare { expected: Value, new: u64, is_done: bool },
    CompareRemove { expected: u64, is_done: bool },
}

#[derive(Clone, Copy, Debug)]
struct Event {
    key: usize,
    began: u64,
    ended: u64,
    step: Step,
}

/// The value after a step, if the step can have happened with this value before.
fn after(step: Step, before: Value) -> Option<Value> {
    let (fits, after) = match step {
        Step::Get { found } | Step::Hold { found } | Step::Next { found } => {
            (found == before, before)
        }
        Step::Insert { new, was_there } => (was_there == before.is_some(), Some(new)),
        Step::Remove { was_there } => (was_there == before.is_some(), None),
        Step::Compare { expected, new, is_done } => {
            (is_done == (expected == before), if is_done { Some(new) } else { before })
        }
        Step::CompareRemove { expected, is_done } => {
            (is_done == (before == Some(expected)), if is_done { None } else { before })
        }
    };
    fits.then_some(after)
}

/// Whether one order of the operations explains all results.
fn is_linearizable(events: &[Event]) -> bool {
    assert!(events.len() <= 128);
    let all = (0..events.len()).fold(0_u128, |all, index| all | 1 << index);
    let (mut tried, mut ahead) = (HashSet::new(), vec![(0_u128, None)]);
    while let Some((done, value)) = ahead.pop() {
        if done == all {
            return true;
        }
        if !tried.insert((done, value)) {
            continue;
        }
        let open = || events.iter().enumerate().filter(|(index, _)| done & 1 << index == 0);
        // No operation can come before one that ended before it began.
        let first_end = open().map(|(_, event)| event.ended).min().unwrap_or(u64::MAX);
        for (index, event) in open().filter(|(_, event)| event.began < first_end) {
            if let Some(next) = after(event.step, value) {
                ahead.push((done | 1 << index, next));
            }
        }
    }
    false
}

fn name(key: usize) -> Vec<u8> {
    format!("key{key}").into_bytes()
}

fn number(value: &[u8]) -> u64 {
    u64::from_le_bytes(value.try_into().unwrap())
}

fn take_step(map: &Map<'_>, key: usize, new: u64, random: &mut Rng) -> Step {
    let name = name(key);
    let guess = 1 + random.below(new as usize) as u64;
    let bytes = new.to_le_bytes();
    match random.below(10) {
        0 => Step::Get { found: map.get(&name).unwrap().map(|value| number(&value)) },
        1 => Step::Hold { found: map.entry(&name).unwrap().map(|held| number(held.value())) },
        2 => {
            let mut range = map.range(&name[..]..=&name[..]);
            let found = range.next().unwrap().map(|entry| number(entry.value()));
            Step::Next { found }
        }
        9 => {
            let mut scan = map.scan(&name[..]..=&name[..]);
            Step::Next { found: scan.next().unwrap().map(|(_, value)| number(value)) }
        }
        3 | 4 => Step::Insert { new, was_there: map.insert(&name, &bytes).unwrap() },
        5 => Step::Remove { was_there: map.remove(&name).unwrap() },
        6 => {
            let is_done = map.compare_and_insert(&name, ExpectedState::Absent, &bytes).unwrap();
            Step::Compare { expected: None, new, is_done }
        }
        7 => {
            let expected = ExpectedState::Value(&guess.to_le_bytes());
            let is_done = map.compare_and_insert(&name, expected, &bytes).unwrap();
            Step::Compare { expected: Some(guess), new, is_done }
        }
        _ => {
            let expected = ExpectedState::Value(&guess.to_le_bytes());
            let is_done = map.compare_and_remove(&name, expected).unwrap();
            Step::CompareRemove { expected: guess, is_done }
        }
    }
}

/// Returns the options of a round: two of three maps have a hint table, one of a single bucket, one
/// with room for all entries.
fn options_of(round: usize, shards_max: u32) -> MapOptions {
    let hint_bytes = [0, 64, 4096][round % 64 % 3];
    MapOptions { hint_bytes, shards_max, ..MapOptions::default() }
}

/// Moves entries into another shard, if the map may have several.
fn move_some(map: &Map<'_>, random: &mut Rng) {
    let name = name(random.below(KEYS));
    let moved = match random.below(6) {
        0 => map.split_at(&name),
        1 => map.move_up(&name),
        2 => map.move_down(&name),
        _ => Ok(0),
    };
    assert!(matches!(moved, Ok(_) | Err(MapError::Busy)), "{moved:?}");
}

/// Records the operations of threads that work on few keys, among other keys that come and go.
fn record(region: &OrdRegion, options: MapOptions, round: usize, random: &mut Rng) -> Vec<Event> {
    let (clock, start) = (AtomicU64::new(1), Barrier::new(THREADS));
    let map_name = format!("round {}", round % 64);
    let play = |thread: usize, mut random: Rng| {
        let participant = region.join().unwrap();
        let map = participant.map(&map_name, &options).unwrap();
        let mut events = Vec::new();
        start.wait();
        for step in 0..STEPS {
            let key = random.below(KEYS);
            let new = (1 + step * THREADS + thread) as u64;
            let began = clock.fetch_add(1, SeqCst);
            let step = take_step(&map, key, new, &mut random);
            events.push(Event { key, began, ended: clock.fetch_add(1, SeqCst), step });
            // Splits, joins and replaced nodes around the keys.
            let beside = format!("key{}.{}", random.below(KEYS), random.below(40)).into_bytes();
            let _ =
                if random.below(2) == 0 { map.insert(&beside, b"") } else { map.remove(&beside) };
            move_some(&map, &mut random);
        }
        events
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let random = random.fork();
                scope.spawn(move || play(thread, random))
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn results_of_threads_fit_one_order() {
    check_rounds("results_of_threads_fit_one_order", 1);
}

#[test]
fn results_of_threads_fit_one_order_while_the_map_is_split() {
    check_rounds("results_of_threads_while_the_map_is_split", 4);
}

fn check_rounds(test: &'static str, shards_max: u32) {
    let rounds = std::env::var("FOREBAY_ROUNDS").map_or(150, |rounds| rounds.parse().unwrap());
    let mut random = Rng::of(test);
    let splits_max = 64 * (shards_max - 1);
    let config = OrdConfig { splits_max, hint_bytes: 1 << 20, ..OrdConfig::with_bytes(32 << 20) };
    let region = OrdRegion::anonymous(&config).unwrap();
    for round in 0..rounds {
        let options = options_of(round, shards_max);
        let events = record(&region, options, round, &mut random);
        for key in 0..KEYS {
            let mut of_key: Vec<_> =
                events.iter().filter(|event| event.key == key).copied().collect();
            of_key.sort_by_key(|event| event.began);
            assert!(is_linearizable(&of_key), "round {round}, key {key}: {of_key:#?}");
        }
        let participant = region.join().unwrap();
        let map = participant.map(&format!("round {}", round % 64), &options).unwrap();
        (0..KEYS).for_each(|key| _ = map.remove(&name(key)).unwrap());
        assert!(round < 64 || map.stats().shard_count == u64::from(shards_max));
    }
}

#[test]
fn an_order_that_cannot_be_is_noticed() {
    let event = |began, ended, step| Event { key: 0, began, ended, step };
    let insert = |began, ended| event(began, ended, Step::Insert { new: 1, was_there: false });
    let get = |began, ended, found| event(began, ended, Step::Get { found });
    let cases = [
        (vec![insert(1, 2), get(3, 4, Some(1))], true),
        (vec![insert(1, 2), get(3, 4, None)], false),
        (vec![insert(1, 4), get(2, 3, None), get(5, 6, Some(1))], true),
        (vec![insert(1, 8), get(2, 3, Some(1)), get(4, 5, None)], false),
        (vec![insert(1, 4), insert(2, 3)], false),
    ];
    for (events, expected) in cases {
        assert_eq!(is_linearizable(&events), expected, "{events:?}");
    }
}
