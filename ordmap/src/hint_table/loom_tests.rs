//! Models in which one thread changes a key while another reads the hint table and the tree.

use std::sync::Arc;

use forebay_sync::atomic::AtomicU64;
use forebay_sync::boxed_words;
use forebay_sync::model::{breaks, fails, holds};
use loom::thread;

use super::{BUCKET_WORDS, HintBucket, HintTable};
use crate::object::loom_tests::{Memory, OWNER};
use crate::object::{ObjectRef, follow, publish};

/// The hash of the only key.
const HASH: u64 = 7;

/// Two reads of the key, in the order of the results.
type Reading = fn(&Scene) -> [ObjectRef; 2];

struct Scene {
    memory: Memory,
    words: Box<[AtomicU64]>,
    first: ObjectRef,
}

impl Scene {
    /// A key with an entry that both the tree and the hint table name.
    fn new() -> Arc<Scene> {
        let (memory, words) = (Memory::new(), boxed_words(BUCKET_WORDS));
        let first = memory.make();
        publish(&memory.slot, first);
        let scene = Scene { memory, words, first };
        scene.bucket().put(first);
        Arc::new(scene)
    }

    fn bucket(&self) -> HintBucket<'_> {
        HintTable::new(&self.words).bucket_of(HASH).unwrap()
    }

    /// Returns the reference in the hint table, after reading its entry if that entry still exists.
    fn asked(&self) -> ObjectRef {
        let named = self.bucket().named().next().unwrap_or(ObjectRef::NONE);
        if !named.is_none() {
            self.memory.read(named);
        }
        named
    }

    fn followed(&self) -> ObjectRef {
        follow(&self.memory.slot)
    }

    /// Replaces the entry in the order that a change uses.
    fn replace(&self) {
        let new = self.memory.make();
        self.bucket().take_out(self.first);
        publish(&self.memory.slot, new);
        self.bucket().put(new);
    }

    fn replace_and_free(&self) {
        self.replace();
        self.memory.allocator(OWNER).release(self.first).unwrap();
    }

    /// Removes the word too late.
    fn replace_late(&self) {
        let new = self.memory.make();
        publish(&self.memory.slot, new);
        self.bucket().take_out(self.first);
    }

    /// Adds the new word before the entry is published.
    fn replace_early(&self) {
        let new = self.memory.make();
        self.bucket().take_out(self.first);
        self.bucket().put(new);
        publish(&self.memory.slot, new);
    }
}

/// Models a reader that reads twice: it must never find the old entry after the new one.
fn read_beside(change: fn(&Scene), reading: Reading) {
    let scene = Scene::new();
    let other = Arc::clone(&scene);
    let writer = thread::spawn(move || change(&other));
    let [before, after] = reading(&scene);
    let is_new = |found: ObjectRef| !found.is_none() && found != scene.first;
    assert!(
        !is_new(before) || after != scene.first,
        "a reader found the old entry after the new one"
    );
    writer.join().unwrap();
    let [followed, asked] = [scene.followed(), scene.asked()];
    assert!(
        asked.is_none() || asked == followed,
        "the hint table names an entry that the tree does not have"
    );
}

fn tree_then_hash(scene: &Scene) -> [ObjectRef; 2] {
    [scene.followed(), scene.asked()]
}

fn hash_then_tree(scene: &Scene) -> [ObjectRef; 2] {
    [scene.asked(), scene.followed()]
}

fn hash_twice(scene: &Scene) -> [ObjectRef; 2] {
    [scene.asked(), scene.asked()]
}

#[test]
fn the_hint_table_names_no_entry_that_the_tree_has_lost() {
    let model = "ordmap: a reader goes through the tree, then asks the hint table";
    let run = || read_beside(Scene::replace, tree_then_hash);
    holds(model, run);
    breaks("ordmap.publish", model, run);
    breaks("ordmap.follow", model, run);
    let model = "ordmap: a word is removed from the hint table after its entry has left";
    fails(model, || read_beside(Scene::replace_late, tree_then_hash));
}

#[test]
fn the_tree_has_every_entry_that_the_hint_table_names() {
    let model = "ordmap: a reader asks the hint table, then goes through the tree";
    let run = || read_beside(Scene::replace, hash_then_tree);
    holds(model, run);
    breaks("ordmap.hint", model, run);
    breaks("ordmap.ask", model, run);
    let model = "ordmap: a word is added to the hint table before its entry is published";
    fails(model, || read_beside(Scene::replace_early, hash_then_tree));
}

#[test]
fn an_entry_that_the_hint_table_names_is_whole() {
    holds("ordmap: an entry leaves and is freed while a reader asks the hint table", || {
        read_beside(Scene::replace_and_free, hash_twice);
    });
}
