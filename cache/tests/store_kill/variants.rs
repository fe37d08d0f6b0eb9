//! A process dies at each step of naming and storing a variant. A purge of the variants comes next,
//! then another process names the purged variant and dies at each step, too. No lookup finds a
//! purged record.
//!
//! A base names at most two variants, and there are three: if it names a new one, it drops another.

use std::path::Path;

use forebay_cache::{
    CollapseResult, JoinTerms, Lookup, RecordTags, RecordTimes, Selection, Store, StoreConfig,
    StoreWorker, VariantKey, selector_list,
};
use forebay_testkit::Rng;
use forebay_testkit::process::Actor;
use forebay_testkit::workers::{kill_some, start};

use crate::points::HAS_CRASH_POINTS;
use crate::scene::{Scene, VARIANTS_MAX, WORKERS, config};

const KEY: &[u8] = b"site\0http\0host\0/varies";

/// The variants, and their tags.
const FIRST: (&str, &str) = ("first", "red");
const SECOND: (&str, &str) = ("second", "blue");
const THIRD: (&str, &str) = ("third", "green");

/// The steps of storing a variant under a base that names two others: first a base that names the
/// new variant is stored, then the variant.
const STEPS: &[&str] = &[
    "store.entered",
    "store.appended",
    "store.replacing",
    "order.leaving",
    "store.unnamed",
    "store.variant",
    "order.entering",
    "store.entered:2",
    "store.appended:2",
    "store.unchecked",
    "store.live",
    "store.variant_stored",
];

/// The steps at which workers die while others store, purge and look.
const WORKER_STEPS: &[&str] = &[
    "order.leaving",
    "purge.resource",
    "store.live",
    "store.replacing",
    "store.unchecked",
    "store.unnamed",
    "store.variant",
    "store.variant_stored",
];

/// How often a worker dies at each step.
const ROUNDS: usize = 8;

/// The worker that dies.
const VICTIM: usize = 2;

/// A purge of the first variant.
type Purge = fn(&StoreWorker);

const PURGES: &[(&str, Purge)] = &[
    ("by tag", |worker| purge_red(worker, false)),
    ("softly by tag", |worker| purge_red(worker, true)),
    ("by key", |worker| _ = worker.purge(KEY).expect("a purge")),
    ("softly by key", |worker| _ = worker.purge_softly(KEY).expect("a purge")),
    ("by prefix", |worker| purge(worker, &Selection::within(b"site\0"), false)),
    ("softly by prefix", |worker| purge(worker, &Selection::within(b"site\0"), true)),
];

fn purge_red(worker: &StoreWorker, is_soft: bool) {
    let red = "red".parse().expect("a tag expression");
    purge(worker, &Selection { within: Vec::new(), tags: Some(red) }, is_soft);
}

fn purge(worker: &StoreWorker, selection: &Selection, is_soft: bool) {
    worker.purge_selected(selection, is_soft, &mut |_| ()).expect("a purge");
}

/// Opens the store in a directory, or creates it.
fn open(dir: &Path) -> Store {
    let path = Some(dir.join("store/region"));
    Store::open(StoreConfig { variants_max: VARIANTS_MAX, path, ..config() }).expect("a store")
}

/// Fetches and stores a variant. Returns whether it is stored.
fn store(worker: &StoreWorker, (value, tag): (&str, &str), body: &str) -> bool {
    let (variant, known) = match worker.lookup(KEY) {
        Lookup::Base(base) => {
            let known = base.variant(value.as_bytes()).map(|found| found.version());
            (Some(selector_list(value.as_bytes())), known)
        }
        Lookup::Miss => (None, None),
        Lookup::Record(_) => panic!("a record without variants"),
    };
    let joined = worker.collapse(KEY, variant.as_deref(), known, JoinTerms::at(0));
    let CollapseResult::Leader(leader, _) = joined else {
        panic!("no leader, although the key has no other fetch");
    };
    let times = RecordTimes { response_time: 1, stale_from: 1_000_000 };
    let base = VariantKey { names: b"accept".to_vec(), variant: value.as_bytes().to_vec() };
    let mut fill = leader.begin(b"head", Some(base), None, times).expect("a fill");
    fill.tag(RecordTags::new([tag.as_bytes()]).expect("a tag"));
    fill.append(body.as_bytes()).expect("a reader or a record");
    fill.finish()
}

/// The body of a variant, and whether the variant was purged softly.
fn find(worker: &StoreWorker, (value, _): (&str, &str)) -> Option<(String, bool)> {
    let Lookup::Base(base) = worker.lookup(KEY) else {
        return None;
    };
    let found = base.variant(value.as_bytes())?;
    Some((String::from_utf8_lossy(found.whole_body()).into_owned(), found.is_soft()))
}

/// Stores the variant that the environment names.
pub(crate) fn run_role(dir: &Path) {
    let value = std::env::var("FOREBAY_VALUE").expect("a value");
    let variants = [FIRST, SECOND, THIRD];
    let variant = variants.into_iter().find(|(known, _)| *known == value).expect("a variant");
    let store_of_all = open(dir);
    assert!(store(&store_of_all.join().expect("a place"), variant, "new"), "{value} is not stored");
}

/// Starts a process that stores a variant and dies at a step.
fn die_storing(dir: &Path, (value, _): (&str, &str), step: &str) {
    let environment = [("FOREBAY_VALUE", value), ("FOREBAY_CRASH_AT", step)];
    Actor::start_with("variant", dir, &environment).end_killed();
}

fn assert_purged(worker: &StoreWorker, case: &str) {
    if let Some((body, is_soft)) = find(worker, FIRST) {
        assert!(body == "new" || is_soft, "{case}: a purged variant is found");
    }
}

/// A process stores the third variant, for which the base drops the first one, and dies at
/// `first_step`. Then comes a purge. Then another process stores the first variant again and dies
/// at `second_step`.
fn die_twice(first_step: &str, (name, purge): (&str, Purge), second_step: &str, sweeps: bool) {
    let case = format!("death at {first_step}, purge {name}, death at {second_step}");
    let dir = tempfile::tempdir().expect("a directory");
    let store_of_all = open(dir.path());
    let worker = store_of_all.join().expect("a place");
    let mend = || {
        assert_eq!(store_of_all.sweep().expect("a sweep"), 1, "{case}");
        worker.mend();
        while worker.turn(0, |_| ()) {}
    };
    assert!(store(&worker, FIRST, "old") && store(&worker, SECOND, "old"), "{case}");
    die_storing(dir.path(), THIRD, first_step);
    if sweeps {
        mend();
    }
    purge(&worker);
    assert_purged(&worker, &case);
    // The base names the other two now, whatever the death and the purge have left.
    assert!(store(&worker, SECOND, "new") && store(&worker, THIRD, "new"), "{case}");
    assert_purged(&worker, &case);
    die_storing(dir.path(), FIRST, second_step);
    assert_purged(&worker, &case);
    mend();
    assert_purged(&worker, &case);
    assert!(store(&worker, FIRST, "new"), "{case}");
    assert_eq!(find(&worker, FIRST), Some(("new".to_owned(), false)), "{case}");
    let report = worker.check_key_index().expect("the key index");
    assert_eq!((report.left_over, report.faults), (0, Vec::new()), "{case}");
}

#[test]
fn a_purged_variant_is_not_found_after_deaths_at_any_two_steps() {
    if !HAS_CRASH_POINTS {
        return;
    }
    for (number, first_step) in STEPS.iter().enumerate() {
        for (other, second_step) in STEPS.iter().enumerate() {
            die_twice(first_step, PURGES[0], second_step, (number + other) % 2 == 0);
        }
    }
}

#[test]
fn no_purge_of_any_kind_leaves_a_variant_that_is_named_again() {
    if !HAS_CRASH_POINTS {
        return;
    }
    for purge in PURGES {
        for first_step in STEPS {
            die_twice(first_step, *purge, "store.variant", true);
        }
    }
}

#[test]
fn workers_killed_while_they_name_variants_serve_nothing_that_was_purged() {
    let mut random = Rng::of("workers_that_name_variants");
    let dir = tempfile::tempdir().expect("a directory");
    let scene = Scene::of_variants(dir.path());
    let mut workers: Vec<_> =
        (0..WORKERS as usize).map(|number| start(dir.path(), number, &mut random, None)).collect();
    if HAS_CRASH_POINTS {
        workers.remove(VICTIM).kill();
        for step in WORKER_STEPS.iter().cycle().take(WORKER_STEPS.len() * ROUNDS) {
            let times = 1 + random.below(6);
            // The second death leaves a variant that the base names and that has no record yet.
            for (step, times) in [(*step, times), ("store.variant", 1)] {
                let crash_at = format!("{step}:{times}");
                start(dir.path(), VICTIM, &mut random, Some(&crash_at)).end_killed();
                scene.wait_for_steps(0, 50);
            }
        }
        workers.insert(VICTIM, start(dir.path(), VICTIM, &mut random, None));
    }
    let sweep = || _ = scene.store.sweep().expect("a sweep");
    kill_some(&mut workers, dir.path(), &mut random, sweep);
    scene.stop(true);
    workers.into_iter().for_each(Actor::end_well);
    scene.check_end("variants");
}
