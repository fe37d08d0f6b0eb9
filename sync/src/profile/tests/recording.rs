//! Tests that attempts and holds are recorded.

use super::*;
use crate::profile::recorder::TRY_NS_MAX;

#[test]
fn a_hold_is_counted_at_its_site_with_its_length() {
    let profile = profile(SMALL);
    let mut recorder = Recorder::new();
    let since = profile.clock().now();
    for line in [5, 5, 6, 5] {
        visit(profile, &mut recorder, 1, line);
    }
    let visits_ns = profile.clock().ns_between(since, profile.clock().now());
    let reading = read(profile);
    for (line, count) in [(5, 3), (6, 1)] {
        let total = total(&reading, line);
        assert_eq!((total.count, total.contended_count), (count, 0), "line {line}");
        assert_eq!(total.holds.iter().sum::<u64>(), count, "line {line}");
        assert_eq!(total.waits.iter().sum::<u64>(), 0, "line {line}");
        assert!(total.hold_ns_max <= total.hold_ns && total.hold_ns <= visits_ns, "{total:?}");
    }
    let site = &reading.sites[&5];
    assert_eq!((&*site.name, &*site.place, site.line), ("test", "here.rs", 5));
    let [thread] = &reading.threads[..] else { panic!("{:?}", reading.threads) };
    assert_eq!(
        (thread.tid, &*thread.name, thread.owner_count, thread.is_taken),
        (1, "a thread", 1, true)
    );
    assert_eq!(reading.about.program, "a program");
    assert_eq!((reading.about.pid, reading.about.boot_id), (4711, [7; 16]));
}

#[test]
fn a_wait_names_the_pair_and_has_its_length() {
    let profile = profile(SMALL);
    let mut recorder = Recorder::new();
    let since = profile.clock().now();
    while profile.clock().ns_between(since, profile.clock().now()) < 3_000_000 {}
    assert!(recorder.begin(profile, || thread(1)));
    let wait = LockWait { since, holder: 9 };
    let taken = Acquisition {
        wait: Some(wait),
        is_shared: true,
        has_owner_died: true,
        ..Acquisition::default()
    };
    recorder.acquired(profile, &Line(5), &taken).unwrap();
    recorder.timed_out(profile, &Line(6), 64, wait);
    let reading = read(profile);
    let taken = total(&reading, 5);
    assert_eq!((taken.count, taken.shared_count, taken.owner_died_count), (1, 1, 1));
    let timed_out = total(&reading, 6);
    assert_eq!((timed_out.count, timed_out.timed_out_count, timed_out.try_failed_count), (0, 1, 0));
    for (line, total) in [(5, taken), (6, timed_out)] {
        assert_eq!((total.contended_count, total.waits.iter().sum::<u64>()), (1, 1), "line {line}");
        assert!(total.wait_ns >= 3_000_000 && total.wait_ns_max == total.wait_ns, "{total:?}");
        // This is the bucket from 2 to 4 ms, unless this thread was stopped for long.
        let bucket = total.waits.iter().position(|count| *count == 1).unwrap();
        assert!(bucket_end_ns(bucket).unwrap() > total.wait_ns, "{total:?}");
        assert!(bucket_end_ns(bucket - 1).unwrap() <= total.wait_ns, "{total:?}");
        let pair = reading.threads[0].pairs.iter().find(|pair| pair.waiter == line).unwrap();
        assert_eq!((pair.holder, pair.totals.wait_count), (9, 1), "line {line}");
        assert_eq!(pair.totals.wait_ns, total.wait_ns, "line {line}");
    }
}

#[test]
fn a_hold_ends_when_it_is_said_to_have_ended_and_sleep_is_no_wait() {
    let profile = profile(SMALL);
    let mut recorder = Recorder::new();
    assert!(recorder.begin(profile, || thread(1)));
    let before = profile.clock().now();
    let held = recorder.acquired(profile, &Line(5), &Acquisition::default()).unwrap();
    let left = profile.clock().now();
    while profile.clock().ns_between(left, profile.clock().now()) < 3_000_000 {}
    recorder.released_at(profile, &held, left);
    recorder.slept(profile, &Line(6), left);
    profile.count_lost(2);
    let reading = read(profile);
    let hold = total(&reading, 5);
    assert!(hold.hold_ns <= profile.clock().ns_between(before, left), "{hold:?}");
    assert_eq!(hold.count, 1, "{hold:?}");
    let slept = total(&reading, 6);
    assert!(slept.asleep_ns >= 3_000_000 && slept.asleep_ns_max == slept.asleep_ns, "{slept:?}");
    assert_eq!((slept.asleep_count, slept.wait_ns, slept.count), (1, 0, 0));
    assert_eq!(reading.counts.lost, 2);
}

#[test]
fn failed_try_locks_are_counted_and_their_delay_is_charged_on_acquisition() {
    let profile = profile(SMALL);
    let mut recorder = Recorder::new();
    let (lock, other) = (64, 128);
    for _ in 0..3 {
        assert!(recorder.begin(profile, || thread(1)));
        recorder.try_failed(profile, &Line(5), lock, 9);
    }
    let since = profile.clock().now();
    while profile.clock().ns_between(since, profile.clock().now()) < 2_000_000 {}
    // The thread takes another lock, then this one at another line: the delay counts for the line
    // that failed.
    for (lock, delays) in [(other, 0), (lock, 1), (lock, 1)] {
        assert!(recorder.begin(profile, || thread(1)));
        let taken = Acquisition { lock, ..Acquisition::default() };
        let held = recorder.acquired(profile, &Line(6), &taken).unwrap();
        recorder.released(profile, &held);
        assert_eq!(total(&read(profile), 5).try_delay_count, delays, "lock {lock}");
    }
    let reading = read(profile);
    let failed = total(&reading, 5);
    assert_eq!((failed.count, failed.try_failed_count, failed.contended_count), (0, 3, 0));
    assert!(failed.try_delay_ns >= 2_000_000 && failed.try_delay_ns == failed.try_delay_ns_max);
    assert_eq!(total(&reading, 6).try_delay_ns, 0);
    let [pair] = &reading.threads[0].pairs[..] else { panic!("{:?}", reading.threads) };
    assert_eq!((pair.holder, pair.waiter, pair.totals.try_failed_count), (9, 5, 3));
    assert_eq!(pair.totals.try_delay_ns, failed.try_delay_ns);
}

#[test]
fn a_delay_ends_with_a_lock_that_was_passed_over_and_is_forgotten_when_off() {
    let profile = profile(SMALL);
    let mut recorder = Recorder::new();
    let delays = |recorder: &mut Recorder| {
        let taken = Acquisition { lock: 64, ..Acquisition::default() };
        recorder.acquired(profile, &Line(6), &taken).unwrap();
        let total = total(&read(profile), 5);
        (total.try_delay_count, total.try_delay_ns)
    };
    assert!(recorder.begin(profile, || thread(1)));
    recorder.try_failed(profile, &Line(5), 64, 0);
    recorder.acquired_silently(profile, 128);
    recorder.acquired_silently(profile, 64);
    let (count, ns) = delays(&mut recorder);
    assert_eq!(count, 1, "an acquisition whose attempt was skipped did not end the delay");
    recorder.try_failed(profile, &Line(5), 64, 0);
    profile.turn(false);
    profile.turn(true);
    assert_eq!(
        delays(&mut recorder),
        (1, ns),
        "a delay continued although the profile was off in between"
    );
    recorder.try_failed(profile, &Line(5), 64, 0);
    profile.turn(true);
    assert_eq!(
        delays(&mut recorder).0,
        2,
        "a delay did not count although the profile was on all the time"
    );
}

#[test]
fn a_failed_try_lock_that_is_given_up_charges_no_later_lock_at_its_address() {
    let profile = profile(SMALL);
    let mut recorder = Recorder::new();
    assert!(recorder.begin(profile, || thread(1)));
    let taken = Acquisition { lock: 64, ..Acquisition::default() };
    recorder.try_failed(profile, &Line(5), 64, 0);
    recorder.try_failed(profile, &Line(5), 128, 0);
    recorder.age_tries(TRY_NS_MAX + 1);
    recorder.acquired(profile, &Line(6), &taken).unwrap();
    let reading = read(profile);
    assert_eq!((total(&reading, 5).try_delay_count, total(&reading, 5).try_delay_ns), (0, 0));
    assert_eq!(reading.threads[0].counts.tries_forgotten, 2);
    // The next failure begins a new delay.
    recorder.try_failed(profile, &Line(5), 64, 0);
    recorder.age_tries(TRY_NS_MAX + 1);
    let since = profile.clock().now();
    recorder.try_failed(profile, &Line(5), 64, 0);
    recorder.acquired_silently(profile, 64);
    let delay_ns_max = profile.clock().ns_between(since, profile.clock().now());
    let reading = read(profile);
    let failed = total(&reading, 5);
    assert!(failed.try_delay_count == 1 && failed.try_delay_ns <= delay_ns_max, "{failed:?}");
    assert_eq!((failed.try_failed_count, reading.threads[0].counts.tries_forgotten), (4, 3));
}

#[test]
fn repeated_failed_try_locks_are_one_delay() {
    let profile = profile(SMALL);
    let mut recorder = Recorder::new();
    assert!(recorder.begin(profile, || thread(1)));
    for _ in 0..5 {
        recorder.try_failed(profile, &Line(5), 64, 9);
        recorder.age_tries(TRY_NS_MAX / 2);
    }
    recorder
        .acquired(profile, &Line(6), &Acquisition { lock: 64, ..Acquisition::default() })
        .unwrap();
    let reading = read(profile);
    let failed = total(&reading, 5);
    assert_eq!((failed.try_failed_count, failed.try_delay_count), (5, 1));
    assert!(failed.try_delay_ns >= 5 * (TRY_NS_MAX / 2), "{failed:?}");
    assert_eq!(reading.threads[0].counts.tries_forgotten, 0);
}

#[test]
fn a_destroyed_lock_owes_no_delay() {
    let profile = profile(SMALL);
    let mut recorder = Recorder::new();
    assert!(recorder.begin(profile, || thread(1)));
    recorder.try_failed(profile, &Line(5), 64, 0);
    recorder.destroyed(64);
    let taken = Acquisition { lock: 64, ..Acquisition::default() };
    recorder.acquired(profile, &Line(6), &taken).unwrap();
    assert_eq!(total(&read(profile), 5).try_delay_count, 0);
}

#[test]
fn a_reset_clears_all_counts_and_ignores_holds_that_began_before_it() {
    let profile = profile(SMALL);
    let (mut recorder, mut idle) = (Recorder::new(), Recorder::new());
    visit(profile, &mut idle, 2, 5);
    visit(profile, &mut recorder, 1, 5);
    assert!(recorder.begin(profile, || thread(1)));
    let held = recorder.acquired(profile, &Line(5), &Acquisition::default()).unwrap();
    profile.reset(77);
    assert!(read(profile).threads.is_empty(), "a block of before the reset is shown");
    recorder.released(profile, &held);
    assert!(read(profile).threads.is_empty());
    assert!(recorder.begin(profile, || thread(1)));
    let late = recorder.acquired(profile, &Line(6), &Acquisition::default()).unwrap();
    recorder.released(profile, &held);
    recorder.released(profile, &late);
    let reading = read(profile);
    assert_eq!((total(&reading, 5).count, total(&reading, 5).hold_ns), (0, 0));
    assert_eq!((total(&reading, 6).count, reading.threads.len()), (1, 1));
    assert_eq!((reading.control.generation, reading.control.reset_unix_ns), (2, 77));
}

#[test]
fn a_sample_is_one_of_so_many_and_the_rest_is_counted() {
    let profile = profile(SMALL);
    let mut recorder = Recorder::new();
    visit(profile, &mut recorder, 1, 5);
    profile.set_skip(9);
    for _ in 0..100 {
        visit(profile, &mut recorder, 1, 5);
    }
    let reading = read(profile);
    assert_eq!((total(&reading, 5).count, reading.threads[0].counts.skipped), (11, 90));
    profile.set_skip(1_000_000);
    visit(profile, &mut recorder, 1, 5);
    profile.set_skip(0);
    visit(profile, &mut recorder, 1, 5);
    visit(profile, &mut recorder, 1, 5);
    assert_eq!(total(&read(profile), 5).count, 13, "a thread did not obey the new rate at once");
}

#[test]
fn threads_go_on_in_the_blocks_of_those_that_have_gone() {
    let profile = profile(SMALL);
    for tid in 1..=10_000 {
        let mut recorder = Recorder::new();
        visit(profile, &mut recorder, tid, 5);
        recorder.leave(profile);
        visit(profile, &mut recorder, tid, 5);
    }
    let reading = read(profile);
    assert_eq!(total(&reading, 5).count, 10_000);
    assert_eq!(reading.counts.lost, 10_000, "attempts after `leave` are lost");
    let [block] = &reading.threads[..] else { panic!("{:?}", reading.threads) };
    assert_eq!((block.tid, block.owner_count, block.is_taken), (10_000, 10_000, false));
}

#[test]
fn modules_and_stacks_are_read_as_they_were_described() {
    let words = words(&SMALL);
    let identity = ProcessIdentity { kind: SiteKind::Stacks, ..US };
    let profile = Profile::new(words, SMALL, Clock::SYSTEM, &identity).unwrap();
    let frames = [0x1234, 0x5678, 3, 4, 5];
    let described = SiteDescription {
        name: "mutex",
        lock: 0x77,
        frames: &frames,
        ..SiteDescription::default()
    };
    profile.describe(99, &described);
    profile.add_module(0x1000, 0x2000, 64, "/usr/bin/something");
    let reading = read(&profile);
    let site = &reading.sites[&99];
    assert_eq!((&*site.name, site.lock, &*site.place), ("mutex", 0x77, ""));
    assert_eq!(site.frames, frames[..4], "a site does not have as many frames as the plan allows");
    let [module] = &reading.modules[..] else { panic!("{:?}", reading.modules) };
    assert_eq!((module.start, module.end, module.file_offset), (0x1000, 0x2000, 64));
    assert_eq!(&*module.path, "/usr/bin/something");
    assert_eq!(reading.about.kind, SiteKind::Stacks);
}
