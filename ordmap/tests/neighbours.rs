//! Checks that the next key that a reader finds was the next key at some moment during its call,
//! while keys come and go at both sides of the bounds between shards, and the bounds move.
//!
//! Two writers insert and remove keys in a known order, in turns: each begins when the change
//! before its own is visible, though that call may not have returned yet. So for each moment the
//! test knows two changes between which it lies, and the next key after each of them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;

use forebay_ordmap::{Map, MapError, MapOptions, OrdConfig, OrdRegion};
use forebay_testkit::Rng;
use forebay_testkit::StopFlag;

/// The number of keys that come and go.
const KEYS: usize = 12;

/// The length of a long value. No more than two entries with such values move in one batch.
const LONG: usize = 20 << 10;
const SHORT: usize = 8;

/// The number of other keys at each side of the keys that come and go. They are changed all the
/// time. When a shard is split, the upper side and the upper half of the keys that come and go move
/// into the other shard.
const BELOW: usize = 50;
const ABOVE: usize = 26;

/// The number of changes of a writer before the other writer's turn.
const RUN: usize = 8;

/// The largest number of steps, for each change, of a thread that reads or disturbs: a hundred
/// times the usual number.
const STEPS_MAX: u64 = 200;

/// The most times that a waiting writer checks whether it is its turn.
const LOOKS_MAX: u64 = 50_000_000;

const WRITERS: usize = 2;
const READERS: usize = 2;

fn key_of(number: usize) -> Vec<u8> {
    format!("m{number:02}").into_bytes()
}

fn below(number: usize) -> Vec<u8> {
    format!("a{number:02}").into_bytes()
}

fn above(number: usize) -> Vec<u8> {
    format!("z{number:02}").into_bytes()
}

/// The number of a key that comes and goes; `None` for other keys.
fn number_of(key: &[u8]) -> Option<usize> {
    let digits = key.strip_prefix(b"m")?;
    Some(std::str::from_utf8(digits).unwrap().parse().unwrap())
}

/// Changes in order, and the keys that exist after each.
struct History {
    value_bytes: usize,
    /// The key that comes or goes.
    changes: Vec<usize>,
    /// The keys that exist before the first change and after each change, with a bit for each key.
    states: Vec<u32>,
    /// How many changes have begun, and how many are visible to all.
    begun: AtomicUsize,
    seen: AtomicUsize,
    /// Raised when a thread panics, since the other threads would wait for that thread.
    failure: StopFlag,
}

/// How a reader finds the next key.
#[derive(Clone, Copy, Debug)]
struct Way {
    is_up: bool,
    may_equal: bool,
}

impl History {
    /// Initially all keys exist. Later one or two keys exist: one key is inserted and another one
    /// is removed, every other time across a bound.
    fn new(count: usize, value_bytes: usize, random: &mut Rng) -> History {
        let (mut changes, mut states) = (Vec::new(), vec![(1 << KEYS) - 1]);
        for state in 0..count {
            let is_there = |key: &usize| states[state] & 1 << key != 0;
            let comes = (0..KEYS).filter(is_there).count() == 1;
            let those: Vec<_> = (0..KEYS).filter(|key| is_there(key) != comes).collect();
            let key = those[random.below(those.len())];
            changes.push(key);
            states.push(states[state] ^ 1 << key);
        }
        let [begun, seen] = [(); 2].map(|()| AtomicUsize::new(0));
        let failure = StopFlag::default();
        History { value_bytes, changes, states, begun, seen, failure }
    }

    fn steps_max(&self) -> u64 {
        STEPS_MAX * self.changes.len() as u64
    }

    fn has(&self, state: usize, key: usize) -> bool {
        self.states[state] & 1 << key != 0
    }

    fn insert(&self, map: &Map<'_>, key: usize) -> bool {
        map.insert(&key_of(key), &vec![key as u8; self.value_bytes]).unwrap()
    }

    /// Makes this writer's share of the changes, each once the previous change is visible.
    fn write(&self, map: &Map<'_>, writer: usize) {
        let is_ours = |index: &usize| index / RUN % WRITERS == writer;
        for index in (0..self.changes.len()).filter(is_ours) {
            if let Some(last) = index.checked_sub(1).map(|last| self.changes[last]) {
                let is_visible = |_| {
                    thread::yield_now();
                    self.begun.load(SeqCst) == index
                        && map.contains(&key_of(last)).unwrap() == self.has(index, last)
                };
                assert!(self.failure.steps(LOOKS_MAX).any(is_visible), "another thread failed");
            }
            self.seen.store(index, SeqCst);
            self.begun.store(index + 1, SeqCst);
            let key = self.changes[index];
            let was_there = if self.has(index + 1, key) {
                self.insert(map, key)
            } else {
                map.remove(&key_of(key)).unwrap()
            };
            assert_eq!(was_there, self.has(index, key), "change {index}");
        }
    }

    /// The key next to `from` after this many changes.
    fn next(&self, state: usize, from: usize, way: Way) -> Option<usize> {
        let is_next = |key: &usize| self.has(state, *key) && (way.may_equal || *key != from);
        if way.is_up { (from..KEYS).find(is_next) } else { (0..=from).rev().find(is_next) }
    }

    /// Checks that the next key that a reader finds was the next one.
    fn check(&self, from: usize, way: Way, find: impl FnOnce() -> Option<usize>) -> Option<usize> {
        let before = self.seen.load(SeqCst);
        let found = find();
        let after = self.begun.load(SeqCst);
        let mut was = (before..=after).map(|state| self.next(state, from, way));
        assert!(
            was.any(|was| was == found),
            "from {from} {way:?}, after {before} to {after} changes: {found:?}"
        );
        found
    }
}

fn number_shown(key: &[u8], value: &[u8]) -> Option<usize> {
    let number = number_of(key)?;
    assert!(value.iter().all(|byte| *byte == number as u8));
    Some(number)
}

/// Visits some keys by a cursor.
fn walk(map: &Map<'_>, history: &History, from: usize, way: Way) {
    let mut cursor = map.cursor();
    let key = key_of(from);
    let mut at = history.check(from, way, || {
        let found = match (way.is_up, way.may_equal) {
            (true, true) => cursor.at_or_above(&key),
            (true, false) => cursor.above(&key),
            (false, true) => cursor.at_or_below(&key),
            (false, false) => cursor.below(&key),
        };
        found.unwrap().and_then(|entry| number_shown(entry.key(), entry.value()))
    });
    let way = Way { may_equal: false, ..way };
    while let Some(from) = at {
        at = history.check(from, way, || {
            let next = if way.is_up { cursor.next() } else { cursor.previous() };
            next.unwrap().and_then(|entry| number_shown(entry.key(), entry.value()))
        });
    }
}

/// Does the same as [`walk`] by a scan.
fn scan(map: &Map<'_>, history: &History, from: usize, is_up: bool) {
    let key = key_of(from);
    let mut scan = if is_up { map.scan(&key[..]..) } else { map.scan(..=&key[..]) };
    let (mut at, mut way) = (Some(from), Way { is_up, may_equal: true });
    while let Some(from) = at {
        at = history.check(from, way, || {
            let next = if is_up { scan.next() } else { scan.previous() };
            next.unwrap().and_then(|(key, value)| number_shown(key, value))
        });
        way.may_equal = false;
    }
}

fn read(map: &Map<'_>, history: &History, random: &mut Rng) {
    for _ in history.failure.steps(history.steps_max()) {
        if history.begun.load(SeqCst) == history.changes.len() {
            break;
        }
        let (from, is_up) = (random.below(KEYS), random.below(2) == 0);
        match random.below(2) {
            0 => walk(map, history, from, Way { is_up, may_equal: random.below(2) == 0 }),
            _ => scan(map, history, from, is_up),
        }
        thread::yield_now();
    }
}

/// Changes the other keys, and moves bounds among all keys.
fn disturb(map: &Map<'_>, random: &mut Rng) {
    let (below, above) = (below(random.below(BELOW)), above(random.below(ABOVE)));
    match random.below(3) {
        0 => map.remove(&below).unwrap(),
        1 => map.insert(&below, b"").unwrap(),
        _ => map.insert(&above, b"").unwrap(),
    };
    let key = key_of(random.below(KEYS));
    let moved = match random.below(12) {
        0 => map.split_at(&key),
        1 => map.move_up(&key),
        2 => map.move_down(&key),
        _ => Ok(0),
    };
    assert!(matches!(moved, Ok(_) | Err(MapError::Busy)), "{moved:?}");
    thread::yield_now();
}

fn check_histories(test: &'static str, shards_max: u32, value_bytes: usize) {
    let changes = std::env::var("FOREBAY_CHANGES").map_or(8000, |count| count.parse().unwrap());
    let mut random = Rng::of(test);
    let config = OrdConfig { splits_max: shards_max - 1, ..OrdConfig::with_bytes(32 << 20) };
    let region = OrdRegion::anonymous(&config).unwrap();
    let options = MapOptions { shards_max, ..MapOptions::default() };
    let history = History::new(changes, value_bytes, &mut random);
    let participant = region.join().unwrap();
    let map = participant.map("map", &options).unwrap();
    (0..BELOW).for_each(|number| _ = map.insert(&below(number), b"").unwrap());
    (0..KEYS).for_each(|key| _ = history.insert(&map, key));
    (0..ABOVE).for_each(|number| _ = map.insert(&above(number), b"").unwrap());
    map.split_at(&above(0)).unwrap();
    let (start, stop) = (Barrier::new(WRITERS + READERS + 1), StopFlag::default());
    let play = |run: &mut dyn FnMut(&Map<'_>)| {
        let participant = region.join().unwrap();
        let map = participant.map("map", &options).unwrap();
        let _guard = history.failure.panic_guard();
        start.wait();
        run(&map);
    };
    thread::scope(|scope| {
        let (play, history, stop) = (&play, &history, &stop);
        for mut random in [(); READERS].map(|()| random.fork()) {
            scope.spawn(move || play(&mut |map| read(map, history, &mut random)));
        }
        let mut random = random.fork();
        scope.spawn(move || {
            play(&mut |map| {
                stop.steps(history.steps_max()).for_each(|_| disturb(map, &mut random))
            });
        });
        let write = |writer| move || play(&mut |map| history.write(map, writer));
        let writers: Vec<_> = (0..WRITERS).map(|writer| scope.spawn(write(writer))).collect();
        let ended: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        stop.raise();
        ended.into_iter().for_each(Result::unwrap);
    });
    let report = participant.check().unwrap();
    assert!(report.is_sound(), "{report}");
    assert_eq!(map.stats().shard_count, u64::from(shards_max));
}

#[test]
fn a_next_key_was_next_during_the_call() {
    check_histories("a_next_key_was_next", 1, SHORT);
}

#[test]
fn a_next_key_was_next_while_the_map_is_split() {
    check_histories("a_next_key_was_next_while_the_map_is_split", 4, LONG);
}

#[test]
fn a_next_key_was_next_across_a_bound() {
    check_histories("a_next_key_was_next_across_a_bound", 2, SHORT);
}

/// The first entry above the bound is as long as possible. The shard below the bound is written all
/// the time, at the bound and elsewhere.
#[test]
fn a_scan_comes_over_a_bound_beside_which_others_write() {
    const CROSSINGS: usize = 50;
    /// The largest number of changes: a hundred times as many as during all crossings.
    const CHANGES_MAX: u64 = 5_000_000;
    let config = OrdConfig { splits_max: 1, ..OrdConfig::with_bytes(32 << 20) };
    let region = OrdRegion::anonymous(&config).unwrap();
    let options = MapOptions { shards_max: 2, ..MapOptions::default() };
    let participant = region.join().unwrap();
    let map = participant.map("map", &options).unwrap();
    let long = vec![b'v'; 1 << 20];
    (0..100).for_each(|number| _ = map.insert(&key_of(number), b"").unwrap());
    map.insert(b"n", &long).unwrap();
    assert_eq!(map.split_at(b"n"), Ok(1));
    let stop = StopFlag::default();
    thread::scope(|scope| {
        let _guard = stop.guard();
        scope.spawn(|| {
            let participant = region.join().unwrap();
            let map = participant.map("map", &options).unwrap();
            for number in stop.steps(CHANGES_MAX).map(|step| step as usize % 99) {
                map.insert(&key_of(number), b"again").unwrap();
                map.remove(&key_of(98)).unwrap();
            }
        });
        let crossed: Vec<_> = (0..CROSSINGS)
            .map(|_| {
                let mut scan = map.scan(&key_of(99)[..]..);
                scan.next().unwrap();
                scan.next().map(|next| next.map(|(key, value)| (key.to_vec(), value == long)))
            })
            .collect();
        assert_eq!(crossed, vec![Ok(Some((b"n".to_vec(), true))); CROSSINGS]);
    });
}
