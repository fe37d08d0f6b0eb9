//! Tests of samples: the call stacks of some waits and failed try-locks.

use super::*;
use crate::profile::stack::walk;

/// A site of a test that has callers.
struct Way {
    line: u32,
    callers: &'static [u64],
}

impl ProfiledSite for Way {
    fn key(&self) -> u64 {
        self.line.into()
    }

    fn describe(&self) -> SiteDescription<'_> {
        SiteDescription { name: "test", ..SiteDescription::default() }
    }

    fn callers(&self, out: &mut [u64]) -> usize {
        let count = out.len().min(self.callers.len());
        out[..count].copy_from_slice(&self.callers[..count]);
        count
    }
}

const FIRST: Way = Way { line: 5, callers: &[0x1000, 0x2000] };
const SECOND: Way = Way { line: 5, callers: &[0x1000, 0x3000] };
const LONG: Way = Way { line: 6, callers: &[1, 2, 3, 4, 5, 6] };

fn wait(profile: &Profile, recorder: &mut Recorder, way: &Way, holder: u64) {
    assert!(recorder.begin(profile, || thread(1)));
    let wait = Some(LockWait { since: profile.clock().now(), holder });
    let taken = Acquisition { lock: 64, wait, ..Acquisition::default() };
    let held = recorder.acquired(profile, way, &taken).expect("a block");
    recorder.released(profile, &held);
}

/// The time lost on this call stack at a line, to any holder.
fn by_way_of(reading: &ProfileSnapshot, line: u64, callers: &[u64]) -> PairTotals {
    let mut sum = PairTotals::default();
    for sample in reading.threads.iter().flat_map(|thread| &thread.samples) {
        let stack = &reading.stacks[&sample.stack];
        assert_eq!(stack.site, sample.waiter);
        if stack.site == line && stack.frames == callers {
            sum.add(&sample.totals);
        }
    }
    sum
}

#[test]
fn samples_of_every_event_add_up_to_the_totals_of_the_site() {
    let profile = profile(SMALL);
    profile.set_stack_sample(1);
    let mut recorder = Recorder::new();
    for (way, holder) in [(&FIRST, 9), (&FIRST, 0), (&SECOND, 9), (&FIRST, 9), (&LONG, 0)] {
        wait(profile, &mut recorder, way, holder);
    }
    recorder.try_failed(profile, &SECOND, 64, 9);
    recorder.timed_out(profile, &FIRST, 65, LockWait { since: profile.clock().now(), holder: 9 });
    let since = profile.clock().now();
    while profile.clock().ns_between(since, profile.clock().now()) < 1_000_000 {}
    for lock in [64, 65] {
        assert!(recorder.begin(profile, || thread(1)));
        let taken = Acquisition { lock, ..Acquisition::default() };
        let held = recorder.acquired(profile, &LONG, &taken).expect("a block");
        recorder.released(profile, &held);
    }
    let reading = read(profile);
    let (first, second) =
        (by_way_of(&reading, 5, FIRST.callers), by_way_of(&reading, 5, SECOND.callers));
    assert_eq!((first.wait_count, first.try_failed_count), (4, 0));
    assert_eq!((second.wait_count, second.try_failed_count), (1, 1));
    // Longer call stacks are cut off.
    assert_eq!(by_way_of(&reading, 6, &LONG.callers[..4]).wait_count, 1);
    let place = total(&reading, 5);
    assert_eq!(first.wait_ns + second.wait_ns, place.wait_ns);
    assert_eq!(first.wait_ns_max.max(second.wait_ns_max), place.wait_ns_max);
    assert_eq!(first.try_delay_ns + second.try_delay_ns, place.try_delay_ns);
    assert!(first.try_delay_ns >= 1_000_000 && second.try_delay_ns >= 1_000_000, "{first:?}");
    let holders: Vec<u64> = reading.threads[0]
        .samples
        .iter()
        .filter(|sample| sample.waiter == 5)
        .map(|sample| sample.holder)
        .collect();
    assert_eq!((holders.len(), reading.counts.stacks_used), (3, 3), "{holders:?}");
}

#[test]
fn sites_count_the_same_whether_stacks_are_taken_or_not() {
    let counts = [0, 1].map(|every| {
        let profile = profile(SMALL);
        profile.set_stack_sample(every);
        let mut recorder = Recorder::new();
        for way in [&FIRST, &SECOND, &LONG, &FIRST] {
            wait(profile, &mut recorder, way, 9);
            recorder.try_failed(profile, way, 65, 9);
        }
        let reading = read(profile);
        let of = |line| {
            let total = total(&reading, line);
            (total.count, total.contended_count, total.try_failed_count)
        };
        (reading.sites.len(), reading.threads[0].pairs.len(), of(5), of(6))
    });
    assert_eq!(counts[0], counts[1]);
    assert_eq!(counts[0], (2, 2, (3, 3, 3), (1, 1, 1)));
}

#[test]
fn one_stack_in_n_is_taken_and_none_if_n_is_zero() {
    for (every, expected) in [(0, 0), (1, 12), (3, 4), (5, 3), (100, 1)] {
        let profile = profile(SMALL);
        profile.set_stack_sample(every);
        let mut recorder = Recorder::new();
        for _ in 0..12 {
            wait(profile, &mut recorder, &FIRST, 9);
        }
        let reading = read(profile);
        assert_eq!(reading.control.stack_sample, every);
        let taken = by_way_of(&reading, 5, FIRST.callers).wait_count;
        assert_eq!(taken, expected, "one of {every}");
        assert_eq!(total(&reading, 5).contended_count, 12);
        // A thread obeys a new rate immediately.
        profile.set_stack_sample(1);
        wait(profile, &mut recorder, &FIRST, 9);
        assert_eq!(by_way_of(&read(profile), 5, FIRST.callers).wait_count, expected + 1);
        profile.set_stack_sample(0);
        wait(profile, &mut recorder, &FIRST, 9);
        assert_eq!(by_way_of(&read(profile), 5, FIRST.callers).wait_count, expected + 1);
    }
}

#[test]
fn samples_without_room_are_counted_and_sites_stay_exact() {
    let stacks = StackPlan { stacks: 2, frames: 4, samples: 4 };
    let profile = profile(ProfilePlan { stacks, ..SMALL });
    profile.set_stack_sample(1);
    let mut recorder = Recorder::new();
    for _ in 0..2 {
        for callers in [&[1][..], &[2], &[3], &[4], &[5], &[6]] {
            wait(profile, &mut recorder, &Way { line: 5, callers }, 9);
        }
    }
    let reading = read(profile);
    let thread = &reading.threads[0];
    assert_eq!((thread.counts.samples_used, thread.counts.samples_rejected), (4, 4));
    assert_eq!((reading.counts.stacks_used, reading.counts.stacks_rejected), (2, 2));
    assert!(thread.counts.sample_collisions > 0 && reading.counts.stack_collisions > 0);
    assert_eq!((thread.samples.len(), reading.stacks.len()), (4, 2));
    // Samples without a stack still have their site and their counts.
    assert!(
        thread.samples.iter().all(|sample| sample.waiter == 5 && sample.totals.wait_count == 2)
    );
    assert_eq!(total(&reading, 5).contended_count, 12);

    let without = super::profile(ProfilePlan { stacks: StackPlan::NONE, ..SMALL });
    without.set_stack_sample(1);
    wait(without, &mut Recorder::new(), &FIRST, 9);
    let reading = read(without);
    assert!(reading.stacks.is_empty() && reading.threads[0].samples.is_empty());
    assert_eq!(total(&reading, 5).contended_count, 1);
}

#[test]
fn a_reset_clears_samples_and_keeps_the_stack_table() {
    let profile = profile(SMALL);
    profile.set_stack_sample(1);
    let mut recorder = Recorder::new();
    wait(profile, &mut recorder, &FIRST, 9);
    profile.reset(0);
    wait(profile, &mut recorder, &SECOND, 9);
    let reading = read(profile);
    assert_eq!(by_way_of(&reading, 5, FIRST.callers).wait_count, 0);
    assert_eq!(by_way_of(&reading, 5, SECOND.callers).wait_count, 1);
    assert_eq!((reading.stacks.len(), reading.threads[0].counts.samples_used), (2, 1));
}

#[test]
fn a_walk_ends_where_there_is_no_frame() {
    // There are three frames. The last names the first as the next frame.
    let mut stack = [0_usize; 12];
    let base = stack.as_ptr().expose_provenance();
    let at = |index: usize| base + index * size_of::<usize>();
    (stack[2], stack[3]) = (at(6), 0x7001);
    (stack[6], stack[7]) = (at(8), 0x7002);
    (stack[8], stack[9]) = (at(2), 0x7003);
    let mut out = [0; 8];
    for (frame, end, expected) in [
        (at(2), at(12), &[0x7001, 0x7002, 0x7003][..]),
        (at(2), at(10), &[0x7001, 0x7002, 0x7003]),
        (at(2), at(9), &[0x7001, 0x7002]),
        (at(6), at(12), &[0x7002, 0x7003]),
        (at(2) + 1, at(12), &[]),
        (at(0) - 64, at(12), &[]),
        (usize::MAX - 7, at(12), &[]),
        (0, at(12), &[]),
    ] {
        // SAFETY: the range lies in the array, which lives until after the call.
        let count = unsafe { walk(frame, base..end, &mut out) };
        assert_eq!(&out[..count], expected, "frame at {:#x}", frame.wrapping_sub(base));
        // SAFETY: as above.
        assert_eq!(unsafe { walk(frame, base..end, &mut out[..1]) }, expected.len().min(1));
    }
    std::hint::black_box(&stack);
}
