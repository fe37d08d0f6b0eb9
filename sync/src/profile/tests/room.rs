//! Tests of full tables: an event for which a table has no row is counted in another place.

use super::*;

#[test]
fn sites_without_a_row_go_into_the_row_of_all_others() {
    let profile = profile(ProfilePlan { rows: 4, sites: 8, ..SMALL });
    let mut recorder = Recorder::new();
    for line in 1..=10 {
        visit(profile, &mut recorder, 1, line);
    }
    let reading = read(profile);
    let counts = reading.threads[0].counts;
    assert_eq!((counts.rows_used, counts.rows_rejected), (4, 6));
    assert!(counts.row_collisions > 0);
    let others = total(&reading, 0);
    assert_eq!((others.count, others.holds.iter().sum::<u64>()), (6, 6));
    assert_eq!((1..=10).map(|line| total(&reading, line).count).sum::<u64>(), 4);
}

#[test]
fn sites_without_a_description_keep_their_counts() {
    let profile = profile(ProfilePlan { sites: 2, ..SMALL });
    let mut recorder = Recorder::new();
    for line in 1..=5 {
        visit(profile, &mut recorder, 1, line);
        visit(profile, &mut recorder, 1, line);
    }
    let reading = read(profile);
    assert_eq!(
        (reading.sites.len(), reading.counts.sites_used, reading.counts.sites_rejected),
        (2, 2, 3)
    );
    assert!((1..=5).all(|line| total(&reading, line).count == 2));
}

#[test]
fn waits_without_a_pair_keep_their_lengths() {
    let profile = profile(ProfilePlan { pairs: 2, ..SMALL });
    let mut recorder = Recorder::new();
    for holder in 1..=5 {
        assert!(recorder.begin(profile, || thread(1)));
        let wait = Some(LockWait { since: profile.clock().now(), holder });
        recorder
            .acquired(profile, &Line(5), &Acquisition { wait, ..Acquisition::default() })
            .unwrap();
    }
    let reading = read(profile);
    let counts = reading.threads[0].counts;
    assert_eq!((counts.pairs_used, counts.pairs_rejected), (2, 3));
    assert_eq!(total(&reading, 5).contended_count, 5);
    assert_eq!(reading.threads[0].pairs.len(), 2);
}

#[test]
fn threads_without_a_block_count_lost_attempts_and_look_again() {
    let profile = profile(ProfilePlan { threads: 1, ..SMALL });
    let (mut first, mut second) = (Recorder::new(), Recorder::new());
    visit(profile, &mut first, 1, 5);
    for _ in 0..10 {
        visit(profile, &mut second, 2, 5);
    }
    assert_eq!((total(&read(profile), 5).count, read(profile).counts.lost), (1, 10));
    first.leave(profile);
    for _ in 0..1000 {
        visit(profile, &mut second, 2, 5);
    }
    let reading = read(profile);
    assert_eq!(total(&reading, 5).count + reading.counts.lost, 1011);
    assert!(
        total(&reading, 5).count > 500,
        "the thread did not find the block that was given back"
    );
    assert_eq!(reading.threads[0].owner_count, 2);
}

#[test]
fn text_and_modules_without_room_are_counted() {
    let profile = profile(ProfilePlan { text_bytes: 16, modules: 1, ..SMALL });
    profile.add_module(1, 2, 0, "0123456789");
    profile.add_module(3, 4, 0, "");
    profile.add_module(5, 6, 0, "");
    profile.describe(1, &SiteDescription { name: "0", ..SiteDescription::default() });
    let reading = read(profile);
    assert_eq!((reading.modules.len(), reading.counts.modules_rejected), (1, 2));
    assert_eq!((&*reading.modules[0].path, reading.counts.texts_rejected), ("0123456789", 1));
    assert_eq!(&*reading.sites[&1].name, "");
}

#[test]
fn failed_try_locks_beyond_the_limit_are_counted() {
    let profile = profile(SMALL);
    let mut recorder = Recorder::new();
    for lock in 1..=40 {
        assert!(recorder.begin(profile, || thread(1)));
        recorder.try_failed(profile, &Line(5), lock, 0);
    }
    for lock in 1..=40 {
        recorder
            .acquired(profile, &Line(6), &Acquisition { lock, ..Acquisition::default() })
            .unwrap();
    }
    let reading = read(profile);
    let forgotten = reading.threads[0].counts.tries_forgotten;
    assert_eq!((total(&reading, 5).try_failed_count, forgotten), (40, 24));
    assert_eq!(total(&reading, 5).try_delay_count, 16);
}

#[test]
fn a_plan_has_bounds_and_fits_into_a_byte_limit() {
    assert_eq!(SMALL.fault(), None);
    for (plan, expected) in [
        (ProfilePlan { sites: 15, ..SMALL }, "the number of sites"),
        (ProfilePlan { rows: 0, ..SMALL }, "the number of rows of a thread"),
        (ProfilePlan { pairs: 3, ..SMALL }, "the number of pairs of a thread"),
        (ProfilePlan { threads: 0, ..SMALL }, "the number of threads"),
        (with_stacks(StackPlan { stacks: 3, ..STACKS }), "the number of stacks"),
        (with_stacks(StackPlan { samples: 0, ..STACKS }), "the number of stacks"),
        (with_stacks(StackPlan { frames: 65, ..STACKS }), "the number of stacks"),
        (with_stacks(StackPlan { frames: 0, ..STACKS }), "the number of stacks"),
        (with_stacks(StackPlan { stacks: 1 << 17, ..STACKS }), "the number of stacks"),
        (ProfilePlan { text_bytes: 9, ..SMALL }, "the size of the text"),
        (ProfilePlan { frames: 65, ..SMALL }, "the number of return addresses of a site"),
        (ProfilePlan::MAX, "the size of the profile"),
    ] {
        assert_eq!(plan.fault(), Some(expected), "{plan:?}");
    }
    for bytes in [100_000, 1 << 20, 123_456_789] {
        let plan = SMALL.within(bytes).unwrap();
        assert!(plan.bytes() <= bytes, "{plan:?}");
        let more = ProfilePlan { threads: plan.threads + 2, ..plan };
        assert!(more.bytes() > bytes || plan.threads == ProfilePlan::MAX.threads, "{plan:?}");
    }
    assert_eq!(SMALL.within(1000), None);
    assert!(Profile::new(&words(&SMALL)[1..], SMALL, Clock::SYSTEM, &US).is_none());
}

#[test]
fn threads_take_only_blocks_that_are_there() {
    let profile = Profile::new(words(&SMALL), SMALL, Clock::SYSTEM, &US).unwrap();
    let profile = Box::leak(Box::new(profile.without_blocks()));
    profile.turn(true);
    let mut first = Recorder::new();
    assert!(!first.begin(profile, || thread(1)), "a thread found a block although none is free");
    profile.raise_blocks(1);
    let (mut second, mut third) = (Recorder::new(), Recorder::new());
    assert!(second.begin(profile, || thread(2)) && !third.begin(profile, || thread(3)));
    profile.raise_blocks(0);
    second.leave(profile);
    let mut fourth = Recorder::new();
    assert!(fourth.begin(profile, || thread(4)), "the block that was given back was not found");
    profile.raise_blocks(usize::MAX);
    assert_eq!(profile.blocks(), SMALL.threads as usize);
    assert_eq!(read(profile).threads.len(), 1);
}

fn with_stacks(stacks: StackPlan) -> ProfilePlan {
    ProfilePlan { stacks, ..SMALL }
}
