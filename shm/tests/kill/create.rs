//! Ten processes open a region at the same time over various files, and some of them die.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use super::points::HAS_CRASH_POINTS;
use super::random::Random;
use super::shared::{Shared, fresh, names_beside};
use forebay_testkit::process::Actor;

const PROCESSES: usize = 10;
/// The number of rounds: few under ThreadSanitizer, which is slow and does not see other processes.
const ROUNDS: u64 = if cfg!(tsan) { 1 } else { 6 };

type Before = (&'static str, fn(&Path), &'static str);

/// The existing file of a case, and the report of the process that makes the region.
const BEFORES: &[Before] = &[
    ("nothing", |_| {}, "Created"),
    ("a region", |path| drop(Shared::open(path)), "Attached"),
    ("something else", |path| replace(path, |bytes| bytes[0] ^= 1), "Replaced"),
    ("another layout", |path| replace(path, |bytes| bytes[8] ^= 2), "Replaced"),
    (
        "a left-over",
        |path| std::fs::rename(make(path), path.with_file_name("region.new")).unwrap(),
        "Created",
    ),
];

fn make(path: &Path) -> &Path {
    drop(Shared::open(path));
    path
}

fn replace(path: &Path, change: fn(&mut [u8])) {
    let mut bytes = std::fs::read(make(path)).unwrap();
    change(&mut bytes);
    std::fs::write(path, bytes).unwrap();
}

/// The reports of the processes: how each opened a region, and which region.
fn opened_by(actors: &mut [Actor]) -> Vec<Vec<String>> {
    let said = actors.iter_mut().filter_map(Actor::hear);
    said.map(|text| text.split(' ').map(str::to_owned).collect()).collect()
}

fn start_all(path: &Path, crash_at: &[&str]) -> Vec<Actor> {
    let start = |number: usize| match crash_at.get(number) {
        Some(point) => Actor::start_with("open", path, &[("FOREBAY_CRASH_AT", point)]),
        None => Actor::start("open", path),
    };
    let mut actors: Vec<_> = (0..PROCESSES).map(start).collect();
    for actor in &mut actors {
        assert_eq!(actor.hear().as_deref(), Some("ready"));
    }
    actors
}

#[test]
fn ten_processes_that_open_at_once_get_one_region() {
    for (case, before, maker) in BEFORES {
        for round in 0..ROUNDS {
            let case = format!("{case}, round {round}");
            let (_dir, path) = fresh();
            before(&path);
            let mut actors = start_all(&path, &[]);
            actors.iter_mut().for_each(Actor::go);
            let opened = opened_by(&mut actors);
            assert_eq!(opened.len(), PROCESSES, "{case}");
            let distinct = |field: usize| {
                opened.iter().map(|said| &said[field]).collect::<BTreeSet<_>>().len()
            };
            assert_eq!((distinct(1), distinct(2)), (1, PROCESSES), "{case}: {opened:?}");
            let made = opened.iter().filter(|said| said[0] == *maker).count();
            let expected = if *maker == "Attached" { PROCESSES } else { 1 };
            assert_eq!(made, expected, "{case}: {opened:?}");
            actors.into_iter().for_each(Actor::end_well);
            let names = names_beside(&path);
            let is_left = |name: &String| !["region", "region.damaged"].contains(&name.as_str());
            assert!(!names.iter().any(is_left), "{case}: {names:?}");
            Shared::open(&path).assert_nothing_is_left(&case);
        }
    }
}

#[test]
fn those_who_live_get_one_region_whoever_dies_while_making_it() {
    let points = ["region.dir_locked", "region.file_made", "region.written", "region.named"];
    let mut random = Random(7);
    for round in 0..ROUNDS {
        let (_dir, path) = fresh();
        let crash_at = if round % 2 == 0 { &points[..] } else { &[] };
        let mut actors = start_all(&path, crash_at);
        actors.iter_mut().for_each(Actor::go);
        for actor in actors.drain(..random.below(4) as usize) {
            actor.ends_within(Duration::from_micros(random.below(2000)));
            drop(actor);
        }
        let opened = opened_by(&mut actors);
        assert!(opened.len() >= PROCESSES - points.len(), "round {round}: {opened:?}");
        let seeds: BTreeSet<_> = opened.iter().map(|said| &said[1]).collect();
        assert_eq!(seeds.len(), 1, "round {round}: {opened:?}");
        drop(actors);
        let shared = Shared::open(&path);
        shared.sweep();
        shared.assert_nothing_is_left(&format!("round {round}"));
        assert_eq!(names_beside(&path), ["region"], "round {round}");
    }
}

#[test]
fn a_region_that_is_of_no_use_makes_room_for_the_next_one() {
    let (_dir, path) = fresh();
    let mut actor = Actor::start("tight", &path);
    let said = actor.hear();
    actor.end_well();
    match said.as_deref() {
        Some("done") => {}
        Some(reason) => println!("skipped: {reason}"),
        None => panic!("a process ended before its work was done"),
    }
}

#[test]
fn who_dies_after_making_room_left_nothing() {
    if !HAS_CRASH_POINTS {
        return;
    }
    let (_dir, path) = fresh();
    replace(&path, |bytes| bytes[0] ^= 1);
    let crash = [("FOREBAY_CRASH_AT", "region.cleared")];
    Actor::start_with("open_too_large", &path, &crash).end_killed();
    assert_eq!(names_beside(&path), [""; 0]);
    Shared::open(&path).assert_nothing_is_left("cleared");
}

#[test]
fn limits_and_lost_rights_are_errors() {
    for role in ["limited", "become_nobody"] {
        let (_dir, path) = fresh();
        Actor::start(role, &path).end_well();
    }
}
