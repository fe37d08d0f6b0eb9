//! One thread works on an index. After each step, the whole index is compared with its expected
//! content.
//!
//! The rules do not determine which word is evicted: the index reports the word, and the oracle
//! checks that evicting it was allowed. All other results are known before the step.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use forebay_cache::index::{
    BUCKET_WORDS, Index, IndexHit, IndexKey, InsertError, InsertRequest, KeyHash, PinnedLocation,
    Records, RemovalReason, USE_MAX, UncheckedWord, WordState,
};
use forebay_sync::{Barrier, LineWords};

use super::{Row, index, pins, poor_fingerprint, poor_hash, row};
use forebay_testkit::Rng;

const BUCKETS: usize = 4;
const KEYS: usize = 60;
const FINGERPRINTS: u64 = 5;
const SEGMENTS: usize = 8;
/// A record may get a sequence that is lower by up to this number than its order of insertion
/// implies.
const SEQUENCES_APART: usize = 200;

/// The expected state of a record that a word names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    key: u64,
    sequence: u64,
    state: WordState,
    uses: u8,
}

/// The records by location. The index reads their keys and sequences, the model reads all fields.
#[derive(Default)]
struct Map {
    known: HashMap<u32, Known>,
    /// The records whose removal the index has reported.
    removed: Vec<(u32, RemovalReason)>,
}

struct Memory(Rc<RefCell<Map>>);

impl Records for Memory {
    fn segment_of(&self, location: u32) -> usize {
        location as usize % SEGMENTS
    }

    fn sequence(&self, at: PinnedLocation<'_>) -> u64 {
        self.0.borrow().known[&at.location()].sequence
    }

    fn on_removed(&self, hit: &IndexHit<'_>, reason: RemovalReason) {
        self.0.borrow_mut().removed.push((hit.word().location(), reason));
    }
}

struct Model {
    index: Index<Arc<LineWords>, Memory>,
    map: Rc<RefCell<Map>>,
    row: Row,
    /// Words that are published, but not live yet.
    unchecked: Vec<(UncheckedWord, u32)>,
    next_location: u32,
    rng: Rng,
    evicted_count: usize,
}

fn hash(key: u64) -> KeyHash {
    poor_hash(key, FINGERPRINTS)
}

impl Model {
    fn new(rng: Rng) -> Model {
        let map = Rc::new(RefCell::new(Map::default()));
        let index = index(BUCKETS, Memory(Rc::clone(&map)));
        let row = row(&pins(1, SEGMENTS, Barrier::fence()), 0);
        Model { index, map, row, unchecked: Vec::new(), next_location: 0, rng, evicted_count: 0 }
    }

    fn key(&self, key: u64) -> IndexKey<impl Fn(PinnedLocation<'_>) -> bool + use<>> {
        let map = Rc::clone(&self.map);
        IndexKey::new(hash(key), move |at| map.borrow().known[&at.location()].key == key)
    }

    fn step(&mut self) {
        let key = self.rng.below(KEYS) as u64;
        match self.rng.below(100) {
            0..25 => self.insert(key),
            25..46 => self.make_live(),
            46..50 => self.withdraw(),
            50..75 => self.lookup(key),
            75..80 => self.remove(key),
            80..85 => self.move_to(key),
            85..91 => self.replace(key),
            91..96 => self.reclaim(),
            96 => self.remove_some(),
            _ => self.resolve_duplicates(key),
        }
        self.compare();
    }

    /// The locations of the records of a key whose state fits.
    fn locations(&self, key: u64, fits: impl Fn(WordState) -> bool) -> Vec<u32> {
        let map = self.map.borrow();
        let of_key = map.known.iter().filter(|(_, known)| known.key == key && fits(known.state));
        of_key.map(|(location, _)| *location).collect()
    }

    fn live_location(&self, key: u64) -> Option<u32> {
        let locations = self.locations(key, |state| state == WordState::Live);
        assert!(locations.len() <= 1, "{locations:?} are live at once");
        locations.first().copied()
    }

    fn known(&self, location: u32) -> Known {
        self.map.borrow().known[&location]
    }

    /// Makes a new record, whose sequence may be higher or lower than the sequences of other
    /// records.
    fn new_record(&mut self, key: u64) -> InsertRequest {
        let location = self.next_location;
        self.next_location += 1;
        let sequence =
            SEQUENCES_APART as u64 + u64::from(location) - self.rng.below(SEQUENCES_APART) as u64;
        let known = Known { key, sequence, state: WordState::Unchecked, uses: 0 };
        self.map.borrow_mut().known.insert(location, known);
        InsertRequest { location, size_class: 20, sequence }
    }

    /// Forgets the records whose removal the index has reported, and checks that each was removed
    /// for one of the given reasons. Returns these records.
    fn forget_removed(&mut self, reasons: &[RemovalReason]) -> Vec<Known> {
        let removed = std::mem::take(&mut self.map.borrow_mut().removed);
        let mut gone = Vec::new();
        for (location, reason) in removed {
            assert!(reasons.contains(&reason), "{reason:?} is none of {reasons:?}");
            gone.push(self.forget(location));
            self.evicted_count += usize::from(reason == RemovalReason::Evicted);
        }
        gone
    }

    fn forget(&mut self, location: u32) -> Known {
        self.map.borrow_mut().known.remove(&location).expect("it was there")
    }

    fn insert(&mut self, key: u64) {
        let live =
            self.live_location(key).map(|location| (self.known(location).sequence, location));
        let new = self.new_record(key);
        let rank = (new.sequence, new.location);
        match self.index.insert(&self.row, &self.key(key), &new) {
            Ok(unchecked) => {
                for gone in self.forget_removed(&[RemovalReason::Replaced, RemovalReason::Evicted])
                {
                    assert!(gone.key != key || gone.sequence <= new.sequence);
                }
                self.unchecked.push((unchecked, new.location));
            }
            Err(reason) => {
                self.forget(new.location);
                self.forget_removed(&[]);
                match reason {
                    InsertError::Outdated => assert!(live.is_some_and(|live| live > rank)),
                    InsertError::Full => self.is_full_of(key),
                }
            }
        }
    }

    /// Checks that there are enough words with the fingerprint of the key to fill both of its
    /// buckets. Otherwise a word with another fingerprint could have been evicted.
    fn is_full_of(&self, key: u64) {
        let fingerprint = |key| poor_fingerprint(key, FINGERPRINTS);
        let map = self.map.borrow();
        let others = map.known.values().filter(|known| fingerprint(known.key) == fingerprint(key));
        assert!(others.count() >= 2 * BUCKET_WORDS, "a word could have been evicted");
    }

    fn make_live(&mut self) {
        let Some((unchecked, location)) = self.take_unchecked() else {
            return;
        };
        let known = self.map.borrow().known.get(&location).copied();
        let key = known.map_or(0, |known| known.key);
        let live = self.live_location(key).map(|live| (self.known(live).sequence, live));
        let is_in = self.index.make_live(&self.row, &self.key(key), unchecked);
        let Some(known) = known else {
            return assert!(!is_in, "the word was removed before");
        };
        let stays = live.is_none_or(|live| live < (known.sequence, location));
        assert_eq!(is_in, stays, "{known:?} beside {live:?}");
        if stays {
            self.map.borrow_mut().known.insert(location, Known { state: WordState::Live, ..known });
        } else {
            self.forget(location);
        }
        for gone in self.forget_removed(&[RemovalReason::Replaced]) {
            assert!(gone.key == key && gone.sequence <= known.sequence);
        }
    }

    fn withdraw(&mut self) {
        if let Some((unchecked, location)) = self.take_unchecked() {
            let was_there = self.map.borrow_mut().known.remove(&location).is_some();
            assert_eq!(self.index.withdraw(unchecked), was_there);
        }
    }

    fn take_unchecked(&mut self) -> Option<(UncheckedWord, u32)> {
        let count = self.unchecked.len();
        (count > 0).then(|| self.unchecked.swap_remove(self.rng.below(count)))
    }

    fn lookup(&mut self, key: u64) {
        let expected = self.live_location(key);
        let hit = self.index.lookup(&self.row, &self.key(key));
        assert_eq!(hit.as_ref().map(|hit| hit.at().location()), expected);
        if let (Some(hit), true) = (hit, self.rng.below(2) == 0) {
            self.index.count_use(&hit);
            let mut map = self.map.borrow_mut();
            let known = map.known.get_mut(&hit.at().location()).expect("it is there");
            known.uses = (known.uses + 1).min(USE_MAX);
        }
    }

    fn remove(&mut self, key: u64) {
        let expected = self.locations(key, |_| true);
        assert_eq!(self.index.remove(&self.row, &self.key(key)), expected.len());
        assert_eq!(self.forget_removed(&[RemovalReason::Removed]).len(), expected.len());
    }

    fn remove_some(&mut self) {
        let sequence_max = u64::from(self.next_location).saturating_sub(100);
        let map = Rc::clone(&self.map);
        let count = self.index.remove_where(&self.row, 0..usize::MAX, |hit| {
            map.borrow().known[&hit.at().location()].sequence < sequence_max
        });
        let gone = self.forget_removed(&[RemovalReason::Removed]);
        assert_eq!(gone.len(), count);
        let is_old = |known: &Known| known.sequence < sequence_max;
        assert!(gone.iter().all(is_old) && !self.map.borrow().known.values().any(is_old));
    }

    fn move_to(&mut self, key: u64) {
        let Some(hit) = self.index.lookup(&self.row, &self.key(key)) else {
            return;
        };
        let (from, to, uses) = (hit.at().location(), self.next_location, self.rng.below(4) as u8);
        self.next_location += 1;
        let known = self.known(from);
        self.map.borrow_mut().known.insert(to, Known { uses, ..known });
        assert!(self.index.move_to(&hit, to, uses), "no other thread runs");
        assert!(!self.index.move_to(&hit, to, uses), "the word names another place");
        drop(hit);
        self.forget(from);
    }

    fn replace(&mut self, key: u64) {
        let Some(old) = self.live_location(key).map(|location| self.known(location)) else {
            return;
        };
        let mut new = self.new_record(key);
        new.sequence = old.sequence + self.rng.below(3) as u64 + 1;
        let known = Known { state: WordState::Live, sequence: new.sequence, ..old };
        self.map.borrow_mut().known.insert(new.location, known);
        let hit = self.index.lookup(&self.row, &self.key(key)).expect("it is live");
        assert!(
            self.index.replace(&self.row, &self.key(key), &hit, &new),
            "no record has a higher sequence"
        );
        drop(hit);
        let gone = self.forget_removed(&[RemovalReason::Replaced]);
        assert!(gone.iter().all(|gone| gone.key == key && gone.sequence <= new.sequence));
    }

    /// Removes all records of a random segment, by their locations.
    fn reclaim(&mut self) {
        let segment = self.rng.below(SEGMENTS) as u32;
        let locations: Vec<(u32, Known)> = {
            let map = self.map.borrow();
            let all = map.known.iter().map(|(location, known)| (*location, *known));
            all.filter(|(location, _)| location % SEGMENTS as u32 == segment).collect()
        };
        for (location, known) in locations {
            let hit = self.index.find_location(&self.row, hash(known.key), location);
            assert_eq!(hit.map(|hit| hit.word().uses()), Some(known.uses));
            let word = self.index.remove_location(hash(known.key), location).expect("it is there");
            assert_eq!((word.state(), word.location()), (known.state, location));
            assert_eq!(self.index.remove_location(hash(known.key), location), None);
            self.forget(location);
        }
    }

    fn resolve_duplicates(&mut self, key: u64) {
        let lower = self.live_location(key).map(|live| self.known(live).sequence);
        let Some(hit) = self.index.lookup(&self.row, &self.key(key)) else {
            return;
        };
        assert!(
            self.index.resolve_duplicates(&self.row, &self.key(key), &hit),
            "nothing else is live"
        );
        drop(hit);
        for gone in self.forget_removed(&[RemovalReason::Replaced]) {
            assert!(gone.state == WordState::Unchecked && Some(gone.sequence) <= lower);
        }
    }

    /// Compares the whole index with the whole map, and expects no pin.
    fn compare(&self) {
        let map = self.map.borrow();
        let hits = self.index.hits(&self.row, 0..BUCKETS);
        let found: HashMap<u32, (WordState, u8)> = hits
            .map(|hit| (hit.at().location(), (hit.word().state(), hit.word().uses())))
            .collect();
        let known: HashMap<u32, (WordState, u8)> = map
            .known
            .iter()
            .map(|(location, known)| (*location, (known.state, known.uses)))
            .collect();
        assert_eq!(found, known);
        let words = (0..BUCKETS).flat_map(|bucket| self.index.bucket(bucket));
        assert_eq!(words.filter(|word| !word.is_empty()).count(), known.len());
    }
}

#[test]
fn the_index_behaves_like_a_map() {
    let steps = if cfg!(debug_assertions) { 60_000 } else { 1_000_000 };
    let mut model = Model::new(Rng::of("oracle"));
    for _ in 0..steps {
        model.step();
    }
    assert!(model.evicted_count > steps / 1_000, "too few were evicted: {}", model.evicted_count);
    println!("{steps} steps, {} evicted", model.evicted_count);
}
