//! Random operations, on both maps.

use std::ops::Bound;

use forebay_ordmap::{ExpectedState, Map, Range, Scan};

use crate::journal::{Change, Oracle};
use crate::keys::Keys;
use forebay_testkit::Rng;

pub(crate) struct Play<'m> {
    map: &'m Map<'m>,
    oracle: Oracle,
    keys: Keys,
    random: Rng,
    /// The map grows while this is odd, and shrinks while it is even.
    phase: usize,
    steps: usize,
    /// The number of entries that moved into another shard.
    pub(crate) moved: u64,
}

/// The two ways to visit entries, which must give the same results.
enum Walk<'m> {
    Holding(Range<'m>),
    Copying(Scan<'m>),
}

impl Walk<'_> {
    fn go(&mut self, is_up: bool) -> Option<(Vec<u8>, Vec<u8>)> {
        match self {
            Walk::Holding(range) => {
                let entry = if is_up { range.next() } else { range.previous() }.unwrap()?;
                Some((entry.key().to_vec(), entry.value().to_vec()))
            }
            Walk::Copying(scan) => {
                let pair = if is_up { scan.next() } else { scan.previous() }.unwrap()?;
                Some((pair.0.to_vec(), pair.1.to_vec()))
            }
        }
    }
}

impl<'m> Play<'m> {
    pub(crate) fn new(map: &'m Map<'m>, keys: Keys, random: Rng) -> Play<'m> {
        Play { map, oracle: Oracle::default(), keys, random, phase: 1, steps: 0, moved: 0 }
    }

    /// The changes of the map since the last call.
    pub(crate) fn take_changes(&mut self) -> Vec<Change> {
        self.oracle.take_changes()
    }

    /// Changes that another process made in the map.
    pub(crate) fn follow(&mut self, changes: Vec<Change>) {
        self.oracle.follow(changes);
    }

    pub(crate) fn step(&mut self) {
        self.steps += 1;
        if self.steps.is_multiple_of(1500) {
            self.phase += 1;
        }
        let key = self.keys.any(&mut self.random);
        let removes = if self.phase % 2 == 1 { 15 } else { 55 };
        match self.random.below(100) {
            number if number < removes => self.remove(&key),
            60..70 => self.compare_and_insert(&key),
            70..75 => self.compare_and_remove(&key),
            75..85 => self.look(&key),
            85..90 => self.range(&key),
            90..92 => self.ends(),
            92..94 => self.remove_some(&key),
            _ => self.insert(&key),
        }
        assert_eq!(self.map.len(), self.oracle.len() as u64);
    }

    /// From time to time moves some entries into another shard.
    pub(crate) fn split_or_move(&mut self) {
        let key = self.keys.any(&mut self.random);
        self.moved += match self.random.below(30) {
            0 => self.map.split_at(&key).unwrap(),
            1 | 2 => self.map.move_up(&key).unwrap(),
            3 | 4 => self.map.move_down(&key).unwrap(),
            _ => return,
        };
        assert_eq!(self.map.len(), self.oracle.len() as u64);
    }

    fn value(&mut self) -> Vec<u8> {
        let bytes = match self.random.below(200) {
            0 => 20_000,
            1..5 => 3000,
            _ => self.random.below(70),
        };
        let byte = self.random.below(256) as u8;
        vec![byte; bytes]
    }

    fn insert(&mut self, key: &[u8]) {
        let value = self.value();
        let was_there = self.map.insert(key, &value).unwrap();
        let before = self.oracle.insert(key.to_vec(), value);
        assert_eq!(was_there, before.is_some(), "insert {key:?}");
    }

    fn remove(&mut self, key: &[u8]) {
        let before = self.oracle.remove(key);
        assert_eq!(self.map.remove(key).unwrap(), before.is_some(), "remove {key:?}");
    }

    /// Removes all or some of a run of adjacent keys, together with keys that do not exist, and not
    /// always in order.
    fn remove_some(&mut self, key: &[u8]) {
        let count = 1 + self.random.below(50);
        let behind = self.oracle.range(key.to_vec()..).map(|(key, _)| key.clone());
        let mut keys: Vec<_> = behind.take(count).collect();
        let share = 1 + self.random.below(4);
        let mut number = 0;
        keys.retain(|_| {
            number += 1;
            share == 1 || number % share > 0
        });
        keys.extend((0..self.random.below(3)).map(|_| self.keys.any(&mut self.random)));
        if self.random.below(4) > 0 {
            keys.sort();
        }
        let there = keys.iter().filter(|key| self.oracle.remove(key).is_some()).count();
        let keys: Vec<_> = keys.iter().map(|key| &key[..]).collect();
        assert_eq!(self.map.remove_all(&keys).unwrap(), there as u64, "remove {keys:?}");
    }

    fn compare_and_insert(&mut self, key: &[u8]) {
        let (value, wrong) = (self.value(), self.random.below(3) == 0);
        let before = self.oracle.get(key).cloned();
        let held = self.map.entry(key).unwrap();
        let other = self.map.first().unwrap();
        let (expected, is_right) = match (&before, &held) {
            (None, None) if wrong => (ExpectedState::Value(b"something else"), false),
            (None, None) => (ExpectedState::Absent, true),
            (Some(_), Some(_)) if wrong => (ExpectedState::Absent, false),
            (Some(now), Some(entry)) => match self.random.below(3) {
                0 => (ExpectedState::Value(now), true),
                1 => (ExpectedState::Entry(entry), true),
                _ => {
                    let other = other.as_ref().unwrap();
                    (ExpectedState::Entry(other), other.key() == key)
                }
            },
            _ => panic!("{key:?}: {before:?}, but {held:?}"),
        };
        let is_done = self.map.compare_and_insert(key, expected, &value).unwrap();
        assert_eq!(is_done, is_right, "compare {key:?} with {expected:?}");
        if is_done {
            self.oracle.insert(key.to_vec(), value);
        }
        // Held entries stay as they were.
        assert_eq!(held.as_ref().map(|entry| entry.value().to_vec()), before);
    }

    fn compare_and_remove(&mut self, key: &[u8]) {
        let now = self.oracle.get(key).cloned().unwrap_or_default();
        let expected = if self.random.below(3) == 0 { vec![7; 71] } else { now.clone() };
        let is_right = self.oracle.get(key) == Some(&expected);
        let is_done = self.map.compare_and_remove(key, ExpectedState::Value(&expected)).unwrap();
        assert_eq!(is_done, is_right, "compare {key:?}");
        if is_done {
            self.oracle.remove(key);
        }
    }

    fn look(&mut self, key: &[u8]) {
        let expected = self.oracle.get(key);
        assert_eq!(self.map.get(key).unwrap().as_ref(), expected, "get {key:?}");
        assert_eq!(self.map.contains(key).unwrap(), expected.is_some());
        let mut cursor = self.map.cursor();
        let own = |entry: Option<&forebay_ordmap::Entry<'_>>| {
            entry.map(|entry| (entry.key().to_vec(), entry.value().to_vec()))
        };
        let theirs = |pair: Option<(&Vec<u8>, &Vec<u8>)>| {
            pair.map(|(key, value)| (key.clone(), value.clone()))
        };
        let above = (Bound::Excluded(key.to_vec()), Bound::Unbounded);
        let below = (Bound::Unbounded, Bound::Excluded(key.to_vec()));
        let at_or_above = (Bound::Included(key.to_vec()), Bound::Unbounded);
        let at_or_below = (Bound::Unbounded, Bound::Included(key.to_vec()));
        let oracle = &self.oracle;
        assert_eq!(own(cursor.above(key).unwrap()), theirs(oracle.range(above).next()));
        assert_eq!(own(cursor.below(key).unwrap()), theirs(oracle.range(below).next_back()));
        let found = own(cursor.at_or_above(key).unwrap());
        assert_eq!(found, theirs(oracle.range(at_or_above).next()), "{key:?}");
        let found = own(cursor.at_or_below(key).unwrap());
        assert_eq!(found, theirs(oracle.range(at_or_below).next_back()), "{key:?}");
    }

    /// Visits a range, up or down, while the map changes from time to time.
    fn range(&mut self, key: &[u8]) {
        let other = self.keys.any(&mut self.random);
        let (low, high) = if key <= &other[..] { (key, &other[..]) } else { (&other[..], key) };
        let (low, high) = (low.to_vec(), high.to_vec());
        let is_up = self.random.below(2) == 0;
        let keys = &low[..]..&high[..];
        let mut walk = match self.random.below(2) {
            0 => Walk::Holding(self.map.range(keys)),
            _ => Walk::Copying(self.map.scan(keys)),
        };
        let mut last: Option<Vec<u8>> = None;
        for _ in 0..self.random.below(120) {
            let bounds = match (&last, is_up) {
                (None, _) => (Bound::Included(low.clone()), Bound::Excluded(high.clone())),
                (Some(last), true) => {
                    (Bound::Excluded(last.clone()), Bound::Excluded(high.clone()))
                }
                (Some(last), false) => {
                    (Bound::Included(low.clone()), Bound::Excluded(last.clone()))
                }
            };
            let mut rest = if low < high { Some(self.oracle.range(bounds)) } else { None };
            let expected =
                rest.as_mut().and_then(|rest| if is_up { rest.next() } else { rest.next_back() });
            let expected = expected.map(|(key, value)| (key.clone(), value.clone()));
            let found = walk.go(is_up);
            assert_eq!(found, expected, "after {last:?}, up {is_up}, {low:?}..{high:?}");
            let Some((shown, _)) = found else { return };
            self.change_near(&shown);
            self.split_or_move();
            last = Some(shown);
        }
    }

    fn change_near(&mut self, shown: &[u8]) {
        match self.random.below(12) {
            0 => self.remove(shown),
            1 => self.insert(shown),
            2 => {
                let key = self.keys.any(&mut self.random);
                self.insert(&key);
            }
            3 => {
                let key = self.keys.any(&mut self.random);
                self.remove(&key);
            }
            _ => {}
        }
    }

    fn ends(&mut self) {
        let first = self.map.first().unwrap();
        let expected = self.oracle.first_key_value();
        assert_eq!(first.as_ref().map(|entry| entry.key()), expected.map(|(key, _)| &key[..]));
        let last = self.map.last().unwrap();
        let expected = self.oracle.last_key_value();
        assert_eq!(last.as_ref().map(|entry| entry.key()), expected.map(|(key, _)| &key[..]));
    }

    /// Compares all entries, up and down.
    pub(crate) fn compare_all(&self) {
        let mut range = self.map.range(..);
        for (key, value) in self.oracle.iter() {
            let entry = range.next().unwrap().unwrap();
            assert_eq!((entry.key(), entry.value()), (&key[..], &value[..]));
        }
        assert_eq!(range.next().unwrap(), None);
        let mut scan = self.map.scan(..);
        for (key, value) in self.oracle.iter() {
            assert_eq!(scan.next().unwrap(), Some((&key[..], &value[..])));
        }
        assert_eq!(scan.next().unwrap(), None);
        let mut range = self.map.range(..);
        for (key, value) in self.oracle.iter().rev() {
            let entry = range.previous().unwrap().unwrap();
            assert_eq!((entry.key(), entry.value()), (&key[..], &value[..]));
        }
        assert_eq!(range.previous().unwrap(), None);
    }

    /// Removes all entries, in any order.
    pub(crate) fn empty(&mut self) {
        while !self.oracle.is_empty() {
            let mut keys: Vec<_> = self.oracle.keys().cloned().collect();
            let at = self.random.below(keys.len());
            self.remove(&keys.swap_remove(at));
            if keys.len().is_multiple_of(7) {
                keys.truncate(20);
                keys.iter().for_each(|key| self.remove(key));
            }
        }
    }
}
