//! Models of leases during a reclaim, and of the repair of a change while a reader reads.

use std::sync::Arc;

use forebay_sync::atomic::{AtomicU64, Relaxed};
use forebay_sync::leases::{LeaseRow, Leases};
use forebay_sync::model::{breaks, breaks_within, fails, fails_within, holds, holds_within};
use forebay_sync::{Barrier, LineWords, boxed_words};
use loom::thread;

use super::intent::{PendingChange, SlotLocation, is_idle, repair};
use super::limbo::Limbo;
use super::words::{ROOT, ShardWords, words_needed};
use crate::object::loom_tests::{Memory, OWNER};
use crate::object::{EntryKind, EntryLengths, ObjectRef, ObjectView, follow, publish};

/// The most preemptions that loom tries. A reclaim has too many steps to try all interleavings.
const BOUND: Option<usize> = Some(3);

type Row = LeaseRow<Arc<LineWords>>;

struct Scene {
    memory: Memory,
    words: Box<[AtomicU64]>,
    leases: Leases<Arc<LineWords>>,
}

impl Scene {
    fn new() -> Arc<Scene> {
        let leases = Leases::new(Arc::new(LineWords::new(1)), 1, 1, Barrier::fence()).unwrap();
        Arc::new(Scene { memory: Memory::new(), words: boxed_words(words_needed(1)), leases })
    }

    fn shard(&self) -> ShardWords<'_> {
        ShardWords(&self.words)
    }

    fn limbo(&self) -> Limbo<'_> {
        Limbo::new(self.memory.allocator(OWNER), self.shard())
    }

    fn row(&self) -> Row {
        // SAFETY: in each model the row has one owner.
        unsafe { self.leases.row(0) }.unwrap()
    }

    fn root(&self) -> &AtomicU64 {
        self.shard().word(ROOT)
    }

    /// Leases the entry that the root names, and reads it without another check.
    fn hold(&self, row: &Row) {
        let named = follow(self.root());
        if named.is_none() {
            return;
        }
        let Ok(object) = self.memory.view().begin(named) else { return };
        if let Ok(_lease) = row.take(named.word(), || object.is_same()) {
            let Ok(lengths) = EntryLengths::of(&object, EntryKind::Entry) else { return };
            let key = lengths.key_words(&object)[0].load(Relaxed);
            assert_eq!(key, named.word(), "a leased entry was written again");
        }
    }

    /// Removes the entry, and writes into its memory if it was freed.
    fn reclaim(&self, reclaim: fn(&Scene)) {
        let old = follow(self.root());
        publish(self.root(), ObjectRef::NONE);
        self.limbo().push(old).unwrap();
        reclaim(self);
        if !self.memory.allocator(OWNER).is_taken(old) {
            publish(self.root(), self.memory.make());
        }
    }
}

fn held_and(reclaim: fn(&Scene)) {
    let scene = Scene::new();
    publish(scene.root(), scene.memory.make());
    let other = Arc::clone(&scene);
    let reclaimer = thread::spawn(move || other.reclaim(reclaim));
    let row = scene.row();
    scene.hold(&row);
    reclaimer.join().unwrap();
}

fn held_and_reclaimed() {
    held_and(|scene| _ = scene.limbo().reclaim(&scene.leases).unwrap());
}

/// Frees without raising the generation before it reads the leases.
fn held_and_raised_late() {
    held_and(|scene| {
        let old = ObjectRef::of_word(scene.shard().limbo()[0].load(Relaxed));
        scene.leases.barrier();
        if !scene.leases.is_leased(old.word()) {
            scene.memory.allocator(OWNER).release(old).unwrap();
        }
    });
}

/// Models a reader that marks an entry while the entry is freed and its chunk divided again, so
/// that another object with the same first word lies there.
fn marked_by(mark: fn(&ObjectView<'_>, &Row)) {
    let scene = Scene::new();
    let first = scene.memory.make();
    publish(scene.root(), first);
    let other = Arc::clone(&scene);
    let writer = thread::spawn(move || {
        let header = other.memory.first_word(first);
        other.limbo().push(first).unwrap();
        publish(other.root(), ObjectRef::NONE);
        other.limbo().reclaim(&other.leases).unwrap();
        if !other.memory.allocator(OWNER).is_taken(first) {
            other.memory.divide_into_one_with(header);
            return Some(header);
        }
        None
    });
    let row = scene.row();
    if let Ok(object) = scene.memory.view().begin(first)
        && object.is_same()
    {
        mark(&object, &row);
    }
    if let Some(written) = writer.join().unwrap() {
        assert_eq!(scene.memory.first_word(first), written, "a mark changed another object");
    }
}

/// Models a writer that dies before or after it publishes. Its successor repairs and writes again,
/// beside a reader.
fn repaired(is_published: bool) {
    let scene = Scene::new();
    let first = scene.memory.make();
    publish(scene.root(), first);
    let other = Arc::clone(&scene);
    let writers = thread::spawn(move || {
        let (allocator, shard) = (other.memory.allocator(OWNER), other.shard());
        let mut change = PendingChange::begin(allocator, shard);
        let new = change.make_for_model().unwrap();
        change.retire(first).unwrap();
        change.die_for_model(SlotLocation::Root, new, is_published);
        assert!(!is_idle(shard));
        repair(allocator, shard).unwrap();
        assert!(is_idle(shard));
        // An unlinked entry waits for leases.
        other.limbo().reclaim(&other.leases).unwrap();
        let named = if is_published { new } else { first };
        assert_eq!(follow(other.root()), named);
        assert!(allocator.is_taken(named), "an entry that the root names was freed");
        let lost = if is_published { first } else { new };
        assert!(!allocator.is_taken(lost), "an entry that nothing names was not freed");
        // The freed memory is used again.
        let again = other.memory.make();
        publish(other.root(), again);
    });
    let named = follow(scene.root());
    scene.memory.read(named);
    writers.join().unwrap();
}

/// Checks that a reader that finds the same even turn before and after has seen one state: the last
/// one that was published before that turn began.
fn turned() {
    let scene = Scene::new();
    publish(scene.root(), ObjectRef::of_word(1));
    let other = Arc::clone(&scene);
    let writer = thread::spawn(move || {
        for new in [2, 3] {
            other.shard().begin_turn();
            publish(other.root(), ObjectRef::of_word(new));
            other.shard().end_turn();
        }
    });
    let turn = scene.shard().turn();
    let (first, second) = (follow(scene.root()), follow(scene.root()));
    if scene.shard().is_turn(turn) {
        assert_eq!(
            (first.word(), first),
            (turn / 2 + 1, second),
            "a reader saw another state than that of its turn"
        );
    }
    writer.join().unwrap();
}

/// A shard that a reader passes, initially empty, and the slot of the first entry in the next
/// shard.
struct Passed {
    words: Box<[AtomicU64]>,
    first: AtomicU64,
}

const FIRST: ObjectRef = ObjectRef::of_word(1);
const SECOND: ObjectRef = ObjectRef::of_word(2);
const BETWEEN: ObjectRef = ObjectRef::of_word(3);

impl Passed {
    fn shard(&self) -> ShardWords<'_> {
        ShardWords(&self.words)
    }

    fn change(&self, to: ObjectRef) {
        self.shard().begin_turn();
        publish(self.shard().word(ROOT), to);
        self.shard().end_turn();
    }
}

/// Models a writer that inserts an entry into a shard that a reader has passed, and then removes
/// the first entry of the next shard. So the second entry of the next shard is never the next entry
/// for the reader. The reader checks that the passed shard `is_still` empty.
fn passed(is_still: impl Fn(ShardWords<'_>, u64) -> bool) {
    let words = boxed_words(words_needed(1));
    let scene = Arc::new(Passed { words, first: AtomicU64::new(FIRST.word()) });
    let other = Arc::clone(&scene);
    let writer = thread::spawn(move || {
        other.change(BETWEEN);
        publish(&other.first, SECOND);
        publish(&other.first, FIRST);
        other.change(ObjectRef::NONE);
    });
    let turn = scene.shard().turn();
    if follow(scene.shard().word(ROOT)).is_none() {
        let next = follow(&scene.first);
        if is_still(scene.shard(), turn) {
            assert_eq!(next, FIRST, "the reader found an entry that was never the next one");
        }
    }
    writer.join().unwrap();
}

#[test]
fn a_shard_that_is_passed_stays_empty() {
    let model = "ordmap: something comes into an empty shard that a reader passes";
    let is_still = || passed(|shard, turn| shard.is_empty_since(turn));
    holds(model, is_still);
    for name in ["ordmap.turning", "ordmap.look", "ordmap.publish", "ordmap.follow"] {
        breaks(name, model, is_still);
    }
    fails("ordmap: a reader asks only if a shard that it passed is empty again", || {
        passed(|shard, _| follow(shard.word(ROOT)).is_none());
    });
}

#[test]
fn in_a_turn_nothing_is_published() {
    let model = "ordmap: a reader walks while something is published";
    holds(model, turned);
    for name in ["ordmap.turn", "ordmap.look", "ordmap.publish", "ordmap.follow"] {
        breaks(name, model, turned);
    }
}

#[test]
fn a_leased_entry_is_not_freed() {
    let model = "ordmap: an entry is leased while it is reclaimed";
    holds_within(BOUND, model, held_and_reclaimed);
    breaks_within(BOUND, "leases.take", model, held_and_reclaimed);
    breaks_within(BOUND, "leases.reclaim", model, held_and_reclaimed);
    let model = "ordmap: an entry's generation is raised after the leases are read";
    fails_within(BOUND, model, held_and_raised_late);
}

#[test]
fn a_mark_hits_nothing_but_what_was_read() {
    let model = "ordmap: an entry is marked as used while its chunk is divided again";
    holds_within(BOUND, model, || marked_by(|object, row| object.mark(row)));
    fails_within(BOUND, "ordmap: an entry is marked without a lease", || {
        marked_by(|object, _| object.set_used(true));
    });
}

#[test]
fn a_change_of_a_dead_writer_is_repaired_while_one_reads() {
    holds_within(BOUND, "ordmap: repaired, it had published", || repaired(true));
    holds_within(BOUND, "ordmap: repaired, it had not published", || repaired(false));
}
