//! An entry moves to another shard, and is changed there, beside who asks the hash in front.
//!
//! A shard is one slot, as in the models beside this one. A word names an entry of the only key:
//! one bit says in which shard it lies. Who moves it dies when the bound has moved.

use std::sync::Arc;

use forebay_sync::atomic::AtomicU64;
use forebay_sync::boxed_words;
use forebay_sync::model::{fails, holds};
use loom::thread;

use super::{ROUTE_ROW_WORDS, RouteRow, RouteTable};
use crate::hint_table::{BUCKET_WORDS, HintBucket, HintTable};
use crate::object::{ObjectRef, follow, publish};

const KEY: &[u8] = b"m";

const OLD: u64 = 7;
const NEW: u64 = 9;
/// It lies in the second shard.
const UPPER: u64 = 16;

struct Scene {
    word: AtomicU64,
    rows: Box<[AtomicU64]>,
    hints: Box<[AtomicU64]>,
    roots: [AtomicU64; 2],
}

impl Scene {
    fn new() -> Arc<Scene> {
        let scene = Scene {
            word: AtomicU64::new(0),
            rows: boxed_words(2 * ROUTE_ROW_WORDS),
            hints: boxed_words(BUCKET_WORDS),
            roots: [AtomicU64::new(0), AtomicU64::new(0)],
        };
        publish(&scene.roots[0], ObjectRef::of_word(OLD));
        scene.bucket().put(ObjectRef::of_word(OLD));
        Arc::new(scene)
    }

    fn routes(&self) -> RouteTable<'_> {
        RouteTable::new(&self.word, &self.rows)
    }

    fn bucket(&self) -> HintBucket<'_> {
        HintTable::new(&self.hints).bucket(KEY).unwrap()
    }

    /// As [`NeighbourShards`](crate::shard::NeighbourShards) do it, or with the word of what moves
    /// still in the hash when the bound has moved.
    fn move_entry(&self, is_taken_out: bool) {
        let entry = follow(&self.roots[0]);
        publish(&self.roots[1], ObjectRef::of_word(entry.word() | UPPER));
        if is_taken_out {
            self.bucket().take_out(entry);
        }
        let version = self.routes().now().unwrap();
        let row = RouteRow { slot: 1, stamp: version.next_stamp(), bound: b"b".to_vec() };
        self.routes().publish(version, &[row]);
    }

    /// Changes the value where it is now.
    fn change(&self) {
        let new = ObjectRef::of_word(NEW | UPPER);
        self.bucket().take_out(follow(&self.roots[1]));
        publish(&self.roots[1], new);
        self.bucket().put(new);
    }

    /// What is found by the tree; nothing, if bounds have moved meanwhile.
    fn followed(&self) -> Option<u64> {
        let (version, slot) = self.routes().find(KEY).unwrap();
        let found = follow(&self.roots[slot]).word();
        self.routes().is_now(version).then_some(found)
    }

    /// What the hash names in a shard.
    fn asked(&self, slot: usize) -> Option<u64> {
        let is_there = |entry: &ObjectRef| usize::from(entry.word() & UPPER != 0) == slot;
        self.bucket().named().find(is_there).map(ObjectRef::word)
    }
}

/// A reader that knew where the key was finds its new value where it is; then it asks the hash for
/// what is in the old place, as if the bound had not moved.
fn asked_where_it_was(is_taken_out: bool) {
    let scene = Scene::new();
    let other = Arc::clone(&scene);
    let mover = thread::spawn(move || {
        other.move_entry(is_taken_out);
        other.change();
    });
    let slot = scene.routes().find(KEY).unwrap().1;
    if scene.followed() == Some(NEW | UPPER)
        && let Some(asked) = scene.asked(slot)
    {
        assert_eq!(asked, NEW | UPPER, "the old value after the new one");
    }
    mover.join().unwrap();
}

#[test]
fn what_has_moved_is_not_named_where_it_was() {
    let model = "ordmap: an entry moves and is changed beside who asks the hash where it was";
    holds(model, || asked_where_it_was(true));
    let model = "ordmap: an entry moves, and the hash goes on naming it where it was";
    fails(model, || asked_where_it_was(false));
}
