//! An entry moves to another shard and is changed there, while a reader uses the hint table.
//!
//! A shard is one slot, as in the other models of this folder. A word names an entry of the only
//! key; one bit of the word tells in which shard the entry lies. The mover dies after the bound has
//! moved.

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
/// Set if the entry lies in the second shard.
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

    /// Moves the entry as [`NeighbourShards`](crate::shard::NeighbourShards) do, or leaves its word
    /// in the hint table when the bound moves.
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

    /// Changes the value in the new shard.
    fn change(&self) {
        let new = ObjectRef::of_word(NEW | UPPER);
        self.bucket().take_out(follow(&self.roots[1]));
        publish(&self.roots[1], new);
        self.bucket().put(new);
    }

    /// The entry that the tree has; none if a bound moved during the read.
    fn followed(&self) -> Option<u64> {
        let (version, slot) = self.routes().find(KEY).unwrap();
        let found = follow(&self.roots[slot]).word();
        self.routes().is_now(version).then_some(found)
    }

    /// The entry that the hint table names in a shard.
    fn asked(&self, slot: usize) -> Option<u64> {
        let is_there = |entry: &ObjectRef| usize::from(entry.word() & UPPER != 0) == slot;
        self.bucket().named().find(is_there).map(ObjectRef::word)
    }
}

/// Models a reader that knows the old shard of the key. It finds the new value in the new shard;
/// then it asks the hint table for the entry in the old shard, as if the bound had not moved.
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
        assert_eq!(asked, NEW | UPPER, "a reader finds the old value after the new one");
    }
    mover.join().unwrap();
}

#[test]
fn the_hint_table_does_not_name_an_entry_in_its_old_shard() {
    let model = "ordmap: an entry moves and is changed while a reader searches its old shard";
    holds(model, || asked_where_it_was(true));
    let model = "ordmap: an entry moves, and the hint table still names it in its old shard";
    fails(model, || asked_where_it_was(false));
}
