//! Entries move to another shard while they are read or changed.
//!
//! A shard is one slot here, which names the entry of the only key, or nothing.

use std::sync::Arc;

use forebay_sync::atomic::AtomicU64;
use forebay_sync::boxed_words;
use forebay_sync::model::{breaks, breaks_within, fails, holds, holds_within};
use loom::sync::Mutex;
use loom::thread;

use super::{ROUTE_ROW_WORDS, RouteRow, RouteTable};
use crate::object::{ObjectRef, follow, publish};

const KEY: &[u8] = b"m";

/// The most preemptions that loom tries in models that write rows twice.
const BOUND: Option<usize> = Some(4);

/// The most attempts of a reader whose every attempt meets a bound that moved.
const TRIES: usize = 4;

struct Scene {
    word: AtomicU64,
    rows: Box<[AtomicU64]>,
    roots: [AtomicU64; 2],
    locks: [Mutex<()>; 2],
}

impl Scene {
    /// A map whose lower shard has the key.
    fn new() -> Arc<Scene> {
        let scene = Scene {
            word: AtomicU64::new(0),
            rows: boxed_words(2 * ROUTE_ROW_WORDS),
            roots: [AtomicU64::new(0), AtomicU64::new(0)],
            locks: [Mutex::new(()), Mutex::new(())],
        };
        scene.put(0, 7);
        Arc::new(scene)
    }

    fn routes(&self) -> RouteTable<'_> {
        RouteTable::new(&self.word, &self.rows)
    }

    fn put(&self, slot: usize, value: u64) {
        publish(&self.roots[slot], ObjectRef::of_word(value));
    }

    fn value(&self, slot: usize) -> u64 {
        follow(&self.roots[slot]).word()
    }

    fn move_bound(&self, bound: &[u8]) {
        let routes = self.routes();
        let version = routes.now().unwrap();
        let row = RouteRow { slot: 1, stamp: version.next_stamp(), bound: bound.to_vec() };
        routes.publish(version, &[row]);
    }

    /// Moves the entry into the other shard by moving this bound over it.
    fn move_entry(&self, from: usize, bound: &[u8]) {
        self.put(1 - from, self.value(from));
        self.move_bound(bound);
        self.put(from, 0);
    }

    /// The value of the key; none if bounds moved at each attempt.
    fn read(&self) -> Option<u64> {
        (0..TRIES).find_map(|_| {
            let (version, slot) = self.routes().find(KEY).unwrap();
            let value = self.value(slot);
            self.routes().is_now(version).then_some(value)
        })
    }

    /// Changes the value under the lock of the shard that has the key.
    fn write(&self, value: u64, looks_again: bool) {
        loop {
            let slot = self.routes().find(KEY).unwrap().1;
            let _guard = self.locks[slot].lock().unwrap();
            if !looks_again || self.routes().find(KEY).unwrap().1 == slot {
                return self.put(slot, value);
            }
        }
    }
}

fn read_beside(mover: fn(&Scene), read: fn(&Scene) -> Option<u64>) {
    let scene = Scene::new();
    let other = Arc::clone(&scene);
    let mover = thread::spawn(move || mover(&other));
    if let Some(value) = read(&scene) {
        assert_eq!(value, 7, "a key that is there all the time is missed");
    }
    mover.join().unwrap();
}

fn moved() {
    read_beside(|scene| scene.move_entry(0, b"b"), Scene::read);
}

/// Removes the entry from its old shard before the bound has moved.
fn moved_early() {
    let mover = |scene: &Scene| {
        scene.put(1, 7);
        scene.put(0, 0);
        scene.move_bound(b"b");
    };
    read_beside(mover, Scene::read);
}

/// Reads without checking that the bounds are unchanged.
fn moved_unasked() {
    let read = |scene: &Scene| Some(scene.value(scene.routes().find(KEY).unwrap().1));
    read_beside(|scene| scene.move_entry(0, b"b"), read);
}

/// Rewrites the copy of the rows that a reader has begun to read.
fn moved_often() {
    let scene = Scene::new();
    scene.move_entry(0, b"b");
    let other = Arc::clone(&scene);
    let mover = thread::spawn(move || {
        other.move_entry(1, b"x");
        other.move_bound(b"y");
    });
    if let Some(value) = scene.read() {
        assert_eq!(value, 7, "a key that is there all the time is missed");
    }
    mover.join().unwrap();
}

/// Models a writer that changes the value while the entry moves, and then reads the value.
fn changed(looks_again: bool) {
    let scene = Scene::new();
    let other = Arc::clone(&scene);
    let mover = thread::spawn(move || {
        let _lower = other.locks[0].lock().unwrap();
        let _upper = other.locks[1].lock().unwrap();
        other.move_entry(0, b"b");
    });
    scene.write(9, looks_again);
    if let Some(value) = scene.read() {
        assert_eq!(value, 9, "the writer reads an old value after its own");
    }
    mover.join().unwrap();
    assert_eq!(scene.read(), Some(9), "a change is lost");
}

#[test]
fn a_reader_misses_nothing_that_moves() {
    let model = "ordmap: an entry moves to another shard while it is read";
    holds(model, moved);
    breaks("ordmap.routed", model, moved);
    breaks("ordmap.route", model, moved);
    fails("ordmap: an entry leaves its shard before the bound has moved", moved_early);
    fails("ordmap: a reader does not ask if a bound has moved", moved_unasked);
}

#[test]
fn a_reader_uses_no_bound_that_is_written_again() {
    let model = "ordmap: bounds move twice while they are read";
    holds_within(BOUND, model, moved_often);
    breaks_within(BOUND, "ordmap.reroute", model, moved_often);
    breaks_within(BOUND, "ordmap.rerouted", model, moved_often);
}

#[test]
fn a_change_goes_where_the_entry_is() {
    holds("ordmap: an entry is changed while it moves", || changed(true));
    let model = "ordmap: a writer does not ask again which shard has the key";
    fails(model, || changed(false));
}
