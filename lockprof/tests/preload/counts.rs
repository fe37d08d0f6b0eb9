//! Tests that the counts in a profile are exact.

use std::time::Instant;

use crate::scene::{Scene, by_kind, compare};

/// Runs a closure. Returns its result, and the time that it took, in nanoseconds.
#[allow(clippy::disallowed_methods, reason = "recorded times are compared with the time of a run")]
fn timed<T>(run: impl FnOnce() -> T) -> (T, u64) {
    let start = Instant::now();
    let result = run();
    (result, u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX))
}

#[test]
fn every_way_to_take_a_lock_is_counted_exactly() {
    let Some(scene) = Scene::compile("locks.c") else { return };
    for (case, n) in [
        ("plain", "10000000"),
        ("tries", "2"),
        ("timed", "10"),
        ("waits", "20"),
        ("recursive", "100"),
        ("checking", "100"),
        ("robust", "20"),
        ("conditions", "50"),
        ("rwlocks", "100"),
        ("spinlocks", "100"),
        ("c11", "5"),
        ("reuse", "100000"),
    ] {
        let reading = scene.compare(&[case, n]);
        assert_eq!(reading.counts.lost, 0, "{case}");
    }
}

#[test]
fn every_number_of_threads_is_counted_exactly() {
    let Some(scene) = Scene::compile("locks.c") else { return };
    for n in ["1", "2", "8", "64"] {
        let reading = scene.compare(&["threads", n]);
        assert_eq!(reading.counts.lost, 0, "{n} threads");
    }
}

#[test]
fn locks_of_cpp_are_counted_exactly() {
    let Some(scene) = Scene::compile("cpp.cc") else { return };
    let reading = scene.compare(&["2000"]);
    assert_eq!(reading.counts.lost, 0);
}

#[test]
fn a_failed_try_is_charged_with_the_delay_until_the_lock_was_got() {
    let Some(scene) = Scene::compile("locks.c") else { return };
    let (reading, run_ns) = timed(|| scene.compare(&["tries", "20"]));
    let mutex = by_kind(&reading)["mutex"];
    // The delay spans five sleeps of 20 ms, and lies within the run of the program.
    assert!((100_000_000..=run_ns).contains(&mutex.try_delay_ns), "{mutex:?} in {run_ns} ns");
    assert_eq!((mutex.try_delay_ns_max, mutex.wait_ns), (mutex.try_delay_ns, 0), "{mutex:?}");
}

#[test]
fn only_threads_that_found_the_lock_held_count_as_waiting() {
    let Some(scene) = Scene::compile("locks.c") else { return };
    let (reading, run_ns) = timed(|| scene.compare(&["waits", "50"]));
    let mutex = by_kind(&reading)["mutex"];
    // Three times, one thread held the lock for 50 ms while another wanted it.
    assert_eq!((mutex.contended_count, mutex.count), (3, 6), "{mutex:?}");
    // The waits come one after another, within the run of the program.
    assert!((60_000_000..=run_ns).contains(&mutex.wait_ns), "{mutex:?} in {run_ns} ns");
    assert!(mutex.hold_ns >= 150_000_000, "{mutex:?}");
    let pairs: Vec<_> = reading.threads.iter().flat_map(|thread| &thread.pairs).collect();
    let [pair] = pairs[..] else { panic!("{pairs:?}") };
    assert!(reading.sites.contains_key(&pair.holder) && pair.holder != pair.waiter, "{pair:?}");
    assert_eq!((pair.totals.wait_count, pair.totals.wait_ns), (3, mutex.wait_ns), "{pair:?}");
}

#[test]
fn a_reader_that_stays_is_known_after_another_of_its_place_has_left() {
    let Some(scene) = Scene::compile("locks.c") else { return };
    let reading = scene.compare(&["readers", "20"]);
    let pairs: Vec<_> = reading.threads.iter().flat_map(|thread| &thread.pairs).collect();
    let [pair] = pairs[..] else { panic!("{pairs:?}") };
    assert_eq!(&*reading.sites[&pair.holder].name, "rwlock, reading");
    assert_eq!(pair.totals.try_failed_count, 20);
}

#[test]
fn a_lock_that_was_got_by_an_attempt_that_is_passed_over_ends_delays_and_has_no_known_holder() {
    let Some(scene) = Scene::compile("locks.c") else { return };
    let mut command = scene.command(&["sampled", "1000"]);
    let (output, run_ns) = timed(|| scene.run(command.env("LOCKPROF_SKIP", "1")));
    let reading = scene.take("profile");
    compare(&output, &reading, "sampled");
    let mutex = by_kind(&reading)["mutex"];
    // The delay ends before the sleep of 1 s, so both together fit into the run of the program.
    assert!(
        mutex.try_delay_ns + 1_000_000_000 <= run_ns,
        "the sleep counts as a delay: {mutex:?} in {run_ns} ns"
    );
    let pairs = reading.threads.iter().flat_map(|thread| &thread.pairs);
    let mut known: Vec<_> =
        pairs.map(|pair| (pair.holder != 0, pair.totals.try_failed_count)).collect();
    known.sort();
    assert_eq!(known, [(false, 1), (true, 1)]);
}

#[test]
fn a_hold_lasts_until_the_outermost_unlock() {
    let Some(scene) = Scene::compile("locks.c") else { return };
    let mutex = by_kind(&scene.compare(&["recursive", "1"]))["mutex"];
    assert!(mutex.hold_ns_max >= 20_000_000, "{mutex:?}");
}

#[test]
fn a_timed_wait_counts_as_a_wait() {
    let Some(scene) = Scene::compile("locks.c") else { return };
    let mutex = by_kind(&scene.compare(&["timed", "20"]))["mutex"];
    assert_eq!(mutex.contended_count, 6, "{mutex:?}");
    assert!(mutex.wait_ns >= 110_000_000, "{mutex:?}");
    assert!(mutex.try_delay_ns >= 90_000_000, "{mutex:?}");
}

#[test]
fn holds_beyond_the_limit_of_a_thread_are_counted_as_lost() {
    let Some(scene) = Scene::compile("locks.c") else { return };
    let reading = scene.compare(&["many", "100"]);
    assert_eq!(reading.counts.lost, 69);
}
