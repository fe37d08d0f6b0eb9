//! Tests of the present holds and waits of threads.

use super::*;
use crate::profile::plan::HOLDS_MAX;

/// The recorder of a thread that has a block.
fn recorder(profile: &Profile, tid: u32) -> Recorder {
    let mut recorder = Recorder::new();
    assert!(recorder.begin(profile, || thread(tid)));
    recorder
}

/// Records that the thread acquires a lock.
fn take(profile: &Profile, recorder: &mut Recorder, lock: usize, line: u32) {
    let taken = Acquisition { lock, ..Acquisition::default() };
    recorder.acquired(profile, &Line(line), &taken).expect("a block");
}

fn leave(profile: &Profile, recorder: &mut Recorder, lock: usize) {
    let hold = recorder.find_hold(lock).expect("it is held");
    recorder.released(profile, &hold);
}

fn locks(now: &[LockNow]) -> Vec<(u64, u64)> {
    now.iter().map(|now| (now.lock, now.site)).collect()
}

#[test]
fn the_holder_found_is_the_thread_that_acquired_the_lock_last() {
    let profile = profile(SMALL);
    let (mut one, mut other) = (recorder(profile, 1), recorder(profile, 2));
    assert_eq!(profile.holder_of(64), 0);
    take(profile, &mut one, 64, 5);
    take(profile, &mut one, 128, 6);
    assert_eq!([64, 128, 192].map(|lock| profile.holder_of(lock)), [5, 6, 0]);
    // Several threads hold one lock: readers do, or the first has handed over the release.
    take(profile, &mut other, 64, 7);
    assert_eq!(profile.holder_of(64), 7);
    leave(profile, &mut other, 64);
    assert_eq!(profile.holder_of(64), 5);
    one.leave(profile);
    assert_eq!(profile.holder_of(64), 0, "a thread that has ended counts as the holder");
    let mut next = recorder(profile, 3);
    assert!(
        next.find_hold(64).is_none(),
        "a thread inherited the holds of its block's former owner"
    );
    take(profile, &mut next, 192, 8);
    assert_eq!([64, 192].map(|lock| profile.holder_of(lock)), [0, 8]);
}

#[test]
fn holds_end_in_any_order_and_the_latest_of_a_lock_first() {
    let profile = profile(SMALL);
    let mut recorder = recorder(profile, 1);
    for (lock, line) in [(64, 5), (128, 6), (64, 7), (192, 8)] {
        take(profile, &mut recorder, lock, line);
    }
    let mut counts = Vec::new();
    for lock in [64, 192, 128, 64] {
        leave(profile, &mut recorder, lock);
        let reading = read(profile);
        counts.push([5, 6, 7, 8].map(|line| total(&reading, line).holds.iter().sum::<u64>()));
    }
    assert_eq!(counts, [[0, 0, 1, 0], [0, 0, 1, 1], [0, 1, 1, 1], [1, 1, 1, 1]]);
    assert!(recorder.find_hold(64).is_none());
}

#[test]
fn a_reset_keeps_holds_and_does_not_count_them() {
    let profile = profile(SMALL);
    let mut recorder = recorder(profile, 1);
    take(profile, &mut recorder, 64, 5);
    profile.reset(2_000_000_000);
    assert!(recorder.begin(profile, || thread(1)), "the thread lost its block by a reset");
    assert_eq!(profile.holder_of(64), 5);
    assert_eq!(locks(&read(profile).now[0].holds), [(64, 5)]);
    leave(profile, &mut recorder, 64);
    let reading = read(profile);
    assert_eq!((total(&reading, 5), reading.now[0].holds.len()), (SiteTotals::default(), 0));
}

#[test]
fn the_oldest_hold_is_forgotten_for_one_that_finds_no_room() {
    let profile = profile(SMALL);
    let mut recorder = recorder(profile, 1);
    for lock in 1..=HOLDS_MAX + 1 {
        take(profile, &mut recorder, lock * 64, 5);
    }
    let reading = read(profile);
    assert_eq!((reading.counts.lost, reading.now[0].holds.len()), (1, HOLDS_MAX));
    assert!(recorder.find_hold(64).is_none() && recorder.find_hold(128).is_some());
    assert!(recorder.find_hold((HOLDS_MAX + 1) * 64).is_some());
}

#[test]
fn tools_see_holders_and_waiters_with_their_start_times() {
    let profile = profile(SMALL);
    let (mut one, other) = (recorder(profile, 1), recorder(profile, 2));
    take(profile, &mut one, 64, 5);
    take(profile, &mut one, 128, 6);
    let wait = other.begin_wait(profile, &Line(7), 64);
    assert_eq!(wait.holder, 5);
    let reading = read(profile);
    let [first, second] = &reading.now[..] else { panic!("{:?}", reading.now) };
    assert_eq!((first.tid, &*first.name, first.awaited), (1, "a thread", None));
    assert_eq!(locks(&first.holds), [(64, 5), (128, 6)], "the oldest first");
    assert_eq!((second.tid, second.holds.len()), (2, 0));
    let awaited = second.awaited.unwrap();
    assert_eq!((awaited.lock, awaited.site), (64, 7));
    assert_eq!(reading.sites[&7].line, 7, "a site where a thread only waits lacks its description");
    // In these tests a profile was made one second after the beginning of 1970.
    for since in [first.holds[0].since_unix_ns, awaited.since_unix_ns] {
        assert!((1_000_000_000..100_000_000_000).contains(&since), "{since}");
    }
    other.give_up();
    assert_eq!(read(profile).now[1].awaited, None);
}
