//! Tests of the profile of this crate's locks, with threads whose actions are known.

#[macro_use]
mod recorded;

use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use forebay_sync::profile::{PairTotals, Profile, ProfileSnapshot};
use forebay_sync::{LockClass, Mutex, RwLock, observe};
use recorded::{at, line_of, rwlock, turn};

/// The totals of the pair of a holder's line and a waiter's line of this file.
fn between(reading: &ProfileSnapshot, holder: Option<u32>, waiter: u32) -> PairTotals {
    let mut sum = PairTotals::default();
    for pair in reading.threads.iter().flat_map(|thread| &thread.pairs) {
        let is_it = line_of(reading, pair.holder) == holder
            && line_of(reading, pair.waiter) == Some(waiter);
        if is_it {
            sum.add(&pair.totals);
        }
    }
    sum
}

const LONG: Duration = Duration::from_secs(20);

/// Sleeps for this time, so that another thread begins to wait for a lock: no event shows that the
/// thread waits.
fn pass(time: Duration) {
    let (_sender, receiver) = channel::<()>();
    let _ = receiver.recv_timeout(time);
}

#[test]
fn acquisitions_of_many_threads_are_all_counted() {
    for threads in [1, 2, 8, 64] {
        let turn = turn();
        let (mutex, lock) = (Mutex::new(LockClass::Test, 0), rwlock());
        let mut lines = [0; 3];
        const ROUNDS: u64 = 2_000;
        thread::scope(|scope| {
            let workers: Vec<_> = (0..threads)
                .map(|_| {
                    scope.spawn(|| {
                        let mut lines = [0; 3];
                        for _ in 0..ROUNDS {
                            let (mut guard, line) = at!(mutex.lock());
                            *guard += 1;
                            lines[0] = line;
                            let (read, line) = at!(lock.read());
                            std::hint::black_box(*read);
                            lines[1] = line;
                            drop(read);
                            let (mut write, line) = at!(lock.write());
                            *write += 1;
                            lines[2] = line;
                        }
                        lines
                    })
                })
                .collect();
            for worker in workers {
                lines = worker.join().unwrap();
            }
        });
        let reading = turn.read();
        assert_eq!(reading.counts.lost, turn.lost_before);
        for (line, shared) in lines.into_iter().zip([0, 1, 0]) {
            let total = at(&reading, line);
            assert_eq!(total.count, threads * ROUNDS, "line {line} of {threads} threads");
            assert_eq!(total.shared_count, shared * total.count, "line {line}");
            assert_eq!(total.holds.iter().sum::<u64>(), total.count, "line {line}");
            assert_eq!(total.waits.iter().sum::<u64>(), total.contended_count, "line {line}");
            let waits: u64 = reading
                .threads
                .iter()
                .flat_map(|thread| &thread.pairs)
                .filter(|pair| line_of(&reading, pair.waiter) == Some(line))
                .map(|pair| pair.totals.wait_count)
                .sum();
            assert_eq!(waits, total.contended_count, "line {line} of {threads} threads");
        }
        assert_eq!(*mutex.lock(), threads * ROUNDS);
    }
}

#[test]
fn a_waiter_and_its_holder_are_named_with_their_times() {
    let turn = turn();
    let mutex = Mutex::new(LockClass::Test, 0);
    const HOLD: Duration = Duration::from_millis(60);
    let (held, holder) = at!(mutex.lock());
    let waiter = thread::scope(|scope| {
        let waiter = scope.spawn(|| at!(drop(mutex.lock())).1);
        pass(HOLD);
        drop(held);
        waiter.join().unwrap()
    });
    let reading = turn.read();
    let (hold, wait) = (at(&reading, holder), at(&reading, waiter));
    assert_eq!((hold.count, hold.contended_count, wait.count, wait.contended_count), (1, 0, 1, 1));
    assert!(hold.hold_ns_max >= HOLD.as_nanos() as u64 && hold.wait_ns == 0, "{hold:?}");
    assert!((30_000_000..10_000_000_000).contains(&wait.wait_ns), "{wait:?}");
    let pair = between(&reading, Some(holder), waiter);
    assert_eq!((pair.wait_count, pair.wait_ns, pair.try_failed_count), (1, wait.wait_ns, 0));
    assert_eq!(turn.read().threads.iter().map(|thread| thread.pairs.len()).sum::<usize>(), 1);
}

#[test]
fn failed_tries_are_blamed_on_the_holder_and_delay_until_one_succeeds() {
    let turn = turn();
    let lock = rwlock();
    let (sender, tried) = channel();
    let (held, holder) = at!(lock.read());
    let (failed, first, later) = thread::scope(|scope| {
        let trier = scope.spawn(|| {
            for _ in 0..7 {
                assert!(lock.try_write().is_none());
            }
            let first = line!() - 2;
            sender.send(()).unwrap();
            let (timed, line) = at!(lock.try_write_for(LONG));
            assert!(timed.is_some());
            (7, first, line)
        });
        tried.recv().unwrap();
        pass(Duration::from_millis(30));
        drop(held);
        trier.join().unwrap()
    });
    let reading = turn.read();
    let total = at(&reading, first);
    assert_eq!((total.count, total.try_failed_count, total.contended_count), (0, failed, 0));
    assert_eq!(total.try_delay_count, 1);
    assert!((20_000_000..10_000_000_000).contains(&total.try_delay_ns), "{total:?}");
    let pair = between(&reading, Some(holder), first);
    assert_eq!((pair.try_failed_count, pair.try_delay_ns), (failed, total.try_delay_ns));
    assert_eq!((at(&reading, later).count, at(&reading, later).try_failed_count), (1, 0));
}

#[test]
fn a_wait_that_runs_out_of_time_is_a_wait_and_no_acquisition() {
    let turn = turn();
    let mutex = Mutex::new(LockClass::Test, 0);
    let (held, holder) = at!(mutex.lock());
    let short = Duration::from_millis(15);
    let waiter = thread::scope(|scope| {
        let waiter = scope.spawn(|| at!(assert!(mutex.try_lock_for(short).is_none())).1);
        waiter.join().unwrap()
    });
    drop(held);
    let total = at(&turn.read(), waiter);
    assert_eq!((total.count, total.timed_out_count, total.contended_count), (0, 1, 1));
    assert!(total.wait_ns >= 15_000_000 && total.try_failed_count == 0, "{total:?}");
    assert_eq!(between(&turn.read(), Some(holder), waiter).wait_count, 1);
}

#[test]
fn nothing_is_recorded_while_off_and_a_hold_that_began_before_is_unknown() {
    let turn = turn();
    turn.profile.turn(false);
    assert!(!observe::is_on());
    let (mutex, other) = (Mutex::new(LockClass::Test, 0), Mutex::new(LockClass::Test, 0));
    let held = mutex.lock();
    drop(other.lock());
    assert!(turn.read().threads.is_empty());
    turn.profile.turn(true);
    let waiter = thread::scope(|scope| {
        let trier = scope.spawn(|| at!(assert!(mutex.try_lock().is_none())).1);
        trier.join().unwrap()
    });
    drop(held);
    let reading = turn.read();
    assert_eq!(between(&reading, None, waiter).try_failed_count, 1);
    assert_eq!(reading.threads.iter().map(|thread| thread.rows.len()).sum::<usize>(), 1);
    let (held, line) = at!(mutex.lock());
    turn.profile.turn(false);
    drop(held);
    assert_eq!(
        at(&turn.read(), line).holds.iter().sum::<u64>(),
        1,
        "the end of a hold that began while the profile was on is not recorded"
    );
}

#[test]
fn a_holder_from_before_the_profile_was_turned_on_is_unknown() {
    for turn_on_and_off in
        [(|profile, is_on| Profile::turn(profile, is_on)) as fn(&Profile, bool), |_, is_on| {
            if is_on { observe::on() } else { observe::off() }
        }]
    {
        let turn = turn();
        let (mutex, lock) = (Mutex::new(LockClass::Test, 0), rwlock());
        // The profile is on, then off, then on again: these are two periods.
        turn_on_and_off(turn.profile, false);
        turn_on_and_off(turn.profile, true);
        drop((mutex.lock(), lock.write()));
        turn_on_and_off(turn.profile, false);
        let held = (mutex.lock(), lock.write());
        turn_on_and_off(turn.profile, true);
        let wait = Duration::from_millis(1);
        let lines = thread::scope(|scope| {
            let tries = || {
                let tried = at!(assert!(mutex.try_lock().is_none())).1;
                [tried, at!(assert!(lock.try_read_for(wait).is_none())).1]
            };
            scope.spawn(tries).join().unwrap()
        });
        drop(held);
        let unknown = lines.map(|line| between(&turn.read(), None, line));
        assert_eq!((unknown[0].try_failed_count, unknown[1].wait_count), (1, 1));
        let (held, holder) = at!(mutex.lock());
        let waiter = thread::scope(|scope| {
            let tries = || at!(assert!(mutex.try_lock().is_none())).1;
            scope.spawn(tries).join().unwrap()
        });
        drop(held);
        assert_eq!(between(&turn.read(), Some(holder), waiter).try_failed_count, 1);
    }
}

#[test]
fn a_dropped_lock_leaves_no_delay_to_the_next_one_at_its_address() {
    let turn = turn();
    let mut mutex = Mutex::new(LockClass::Test, 0_u64);
    let mut lock = rwlock();
    let (held, written) = (mutex.lock(), lock.write());
    let tried = at!(assert!(mutex.try_lock().is_none())).1;
    let lines = [tried, at!(assert!(lock.try_read().is_none())).1];
    drop((held, written));
    let addresses = |mutex: &Mutex<u64>, lock: &RwLock<u64>| {
        (std::ptr::from_ref(mutex).addr(), std::ptr::from_ref(lock).addr())
    };
    let before = addresses(&mutex, &lock);
    (mutex, lock) = (Mutex::new(LockClass::Test, 1), rwlock());
    assert_eq!(addresses(&mutex, &lock), before);
    drop((mutex.lock(), lock.read()));
    let reading = turn.read();
    for line in lines {
        let total = at(&reading, line);
        assert_eq!((total.try_failed_count, total.try_delay_count), (1, 0), "line {line}");
    }
}

#[test]
fn a_delay_ends_with_the_acquisition_whether_that_is_sampled_or_not() {
    let turn = turn();
    let mutex = Mutex::new(LockClass::Test, 0);
    let (ended, later) = thread::scope(|scope| {
        let held = mutex.lock();
        let (go, wait) = channel();
        let (failed, has_failed) = channel();
        let (mutex, turn) = (&mutex, &turn);
        let trier = scope.spawn(move || {
            let line = at!(assert!(mutex.try_lock().is_none())).1;
            turn.profile.set_skip(1);
            // This attempt is recorded, so the next one is skipped.
            drop(Mutex::new(LockClass::Test, ()).lock());
            failed.send(()).unwrap();
            wait.recv().unwrap();
            drop(mutex.try_lock().expect("the lock is free"));
            let ended = at(&turn.read(), line);
            drop(mutex.lock());
            (ended, at(&turn.read(), line))
        });
        has_failed.recv().unwrap();
        drop(held);
        go.send(()).unwrap();
        trier.join().unwrap()
    });
    assert_eq!((ended.try_failed_count, ended.try_delay_count), (1, 1), "{ended:?}");
    assert_eq!(later.try_delay_count, 1, "the delay ended twice: {later:?}");
    assert_eq!(later.try_delay_ns, ended.try_delay_ns, "the delay went on: {later:?}");
}

#[test]
fn a_reset_while_threads_work_loses_nothing_that_comes_after() {
    let turn = turn();
    let mutex = Mutex::new(LockClass::Test, 0_u64);
    let line = thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut line = 0;
                    for _ in 0..20_000 {
                        let (mut guard, here) = at!(mutex.lock());
                        (*guard, line) = (*guard + 1, here);
                    }
                    line
                })
            })
            .collect();
        for _ in 0..50 {
            turn.profile.reset(0);
            let total = at(&turn.read(), 0);
            assert!(total.count <= 80_000);
        }
        workers.into_iter().map(|worker| worker.join().unwrap()).max().unwrap()
    });
    assert!(at(&turn.read(), line).count <= 80_000);
    turn.profile.reset(0);
    for _ in 0..3 {
        drop(mutex.lock());
    }
    let reading = turn.read();
    assert_eq!((at(&reading, line).count, reading.threads.len()), (0, 1));
    assert_eq!(reading.threads[0].rows[0].1.count, 3);
}

#[test]
fn ten_thousand_short_threads_are_all_counted() {
    let turn = turn();
    let mutex = Mutex::new(LockClass::Test, 0_u64);
    const THREADS: u64 = 10_000;
    let mut line = 0;
    for _ in 0..THREADS {
        let visit = || {
            let (mut guard, line) = at!(mutex.lock());
            *guard += 1;
            line
        };
        line = thread::scope(|scope| scope.spawn(visit).join().unwrap());
    }
    let reading = turn.read();
    assert_eq!(at(&reading, line).count, THREADS);
    // Some blocks belonged to threads of other tests, so only the sum is known.
    let owners: u64 = reading.threads.iter().map(|thread| thread.owner_count).sum();
    assert_eq!((owners, reading.counts.lost), (THREADS, turn.lost_before));
}

#[test]
fn a_holder_that_was_passed_over_is_unknown_and_not_the_one_before() {
    let turn = turn();
    let (mutex, lock) = (Mutex::new(LockClass::Test, 0), rwlock());
    drop((mutex.lock(), lock.write()));
    drop(lock.read());
    turn.profile.set_skip(1000);
    // The first attempt is recorded, and the next thousand are not.
    drop(mutex.lock());
    let (held, read) = (mutex.lock(), lock.read());
    let lines = thread::scope(|scope| {
        let tries = || {
            let line = at!(assert!(mutex.try_lock().is_none())).1;
            turn.profile.set_skip(0);
            // The thread sees the new setting at its next attempt.
            assert!(mutex.try_lock().is_none());
            [line, at!(assert!(lock.try_write().is_none())).1]
        };
        scope.spawn(tries).join().unwrap()
    });
    drop((held, read));
    let reading = turn.read();
    for line in lines {
        assert_eq!(between(&reading, None, line).try_failed_count, 1, "line {line}");
    }
}

#[test]
fn the_first_observer_or_profile_keeps_the_locks() {
    let _turn = turn();
    struct Nobody;
    impl observe::Observer for Nobody {
        fn waiting(&self, _: &observe::LockUse, _: Option<observe::LockSite>) {}
        fn acquired(&self, _: &observe::LockUse, _: observe::LockState) {}
        fn released(&self, _: &observe::LockUse, _: bool) {}
        fn try_failed(&self, _: &observe::LockUse, _: Option<observe::LockSite>) {}
    }
    assert!(observe::set(&Nobody).is_err());
}

#[test]
fn locks_beyond_the_limit_of_a_thread_are_silent_and_counted() {
    let turn = turn();
    let mutexes: Vec<_> = (0..40).map(|n| Mutex::new(LockClass::Test, n)).collect();
    let (mut held, mut line) = (Vec::new(), 0);
    for mutex in &mutexes {
        let (guard, here) = at!(mutex.lock());
        held.push(guard);
        line = here;
    }
    assert!(mutexes.iter().all(|mutex| mutex.try_lock().is_none()));
    held.rotate_left(7);
    drop(held);
    assert!(mutexes.iter().all(|mutex| mutex.try_lock().is_some()));
    let reading = turn.read();
    assert_eq!(at(&reading, line).count, 31);
    assert_eq!(at(&reading, line).holds.iter().sum::<u64>(), 31);
    assert_eq!(reading.counts.lost - turn.lost_before, 9 + 40, "9 locks, and 40 tries beside them");
}
