//! Tests that an observer receives all events, in pairs and with the right sites.
#![expect(clippy::disallowed_types, reason = "the observer's own locks must not be observed")]

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex as PlainMutex, MutexGuard as PlainGuard, PoisonError};
use std::thread;
use std::time::Duration;

use forebay_sync::observe::{self, LockMode, LockSite, LockState, LockUse, Observer};
use forebay_sync::{LockClass, Mutex, RwLock};

/// A time limit that is reached only if a test fails, so that such a test does not hang.
const LONG: Duration = Duration::from_secs(20);

/// An event. Call sites are given as lines of this file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Waiting { holder: Option<u32> },
    Acquired(Way),
    Released { was_wanted: bool },
    TryFailed { holder: Option<u32> },
}

/// The state in which an acquisition found its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Free,
    Held(Option<u32>),
}

/// An observer that records the events, and sends a message when a thread begins to wait.
struct Recorder {
    events: PlainMutex<Vec<(LockUse, Told)>>,
    waits: PlainMutex<Option<Sender<()>>>,
}

static RECORDER: Recorder =
    Recorder { events: PlainMutex::new(Vec::new()), waits: PlainMutex::new(None) };

/// There is one switch in the process, so tests that turn it run one at a time.
static TURN: PlainMutex<()> = PlainMutex::new(());

/// The result of a call, and the line of the call.
macro_rules! at {
    ($call:expr) => {
        ($call, line!())
    };
}

fn locked<T>(mutex: &PlainMutex<T>) -> PlainGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn line(site: LockSite) -> u32 {
    assert_eq!(site.file(), file!(), "a lock that no test of this file took");
    site.line()
}

impl Recorder {
    fn add(&self, lock_use: &LockUse, told: Told) {
        locked(&self.events).push((*lock_use, told));
    }

    fn take(&self) -> Vec<(LockUse, Told)> {
        std::mem::take(&mut locked(&self.events))
    }

    /// Takes all recorded events, each with the source line of the call that tried to acquire the
    /// lock.
    fn lines(&self) -> Vec<(u32, Told)> {
        self.take().into_iter().map(|(lock_use, told)| (line(lock_use.site), told)).collect()
    }
}

impl Observer for Recorder {
    fn waiting(&self, attempt: &LockUse, holder: Option<LockSite>) {
        self.add(attempt, Told::Waiting { holder: holder.map(line) });
        if let Some(sender) = &*locked(&self.waits) {
            sender.send(()).expect("a turn keeps its receiver");
        }
    }

    fn acquired(&self, hold: &LockUse, found: LockState) {
        let way = match found {
            LockState::Free => Way::Free,
            LockState::Held { by } => Way::Held(by.map(line)),
        };
        self.add(hold, Told::Acquired(way));
    }

    fn released(&self, hold: &LockUse, was_wanted: bool) {
        self.add(hold, Told::Released { was_wanted });
    }

    fn try_failed(&self, attempt: &LockUse, holder: Option<LockSite>) {
        self.add(attempt, Told::TryFailed { holder: holder.map(line) });
    }
}

/// Waits for a test's turn with the switch. Initially the switch is off, no events are recorded,
/// and each wait for a lock sends a message to the receiver.
fn turn() -> (PlainGuard<'static, ()>, Receiver<()>) {
    let turn = locked(&TURN);
    // Fails for all tests but the first, which has set the same observer.
    let _ = observe::set(&RECORDER);
    observe::off();
    RECORDER.take();
    let (sender, waits) = channel();
    *locked(&RECORDER.waits) = Some(sender);
    (turn, waits)
}

/// For each hold, in the order of the releases, whether another thread wanted the lock.
fn wanted() -> Vec<bool> {
    let was_wanted = |told| match told {
        Told::Released { was_wanted } => Some(was_wanted),
        _ => None,
    };
    RECORDER.take().into_iter().filter_map(|(_, told)| was_wanted(told)).collect()
}

fn switch(is_on: bool) {
    if is_on { observe::on() } else { observe::off() }
}

fn mutex() -> Mutex<u32> {
    Mutex::new(LockClass::Test, 0)
}

fn rwlock() -> RwLock<u32> {
    RwLock::new(LockClass::Test, 0)
}

/// Takes a lock, calls a function, and releases the lock.
type Hold = fn(&Mutex<u32>, &RwLock<u32>, &dyn Fn());

#[rustfmt::skip] // a table: one case on one line
const HOLDS: &[(&str, LockMode, Hold)] = &[
    ("lock", LockMode::Exclusive, |m, _, call| { let _held = m.lock(); call() }),
    ("try lock", LockMode::Exclusive, |m, _, call| { let _held = m.try_lock(); call() }),
    ("lock for", LockMode::Exclusive, |m, _, call| { let _held = m.try_lock_for(LONG); call() }),
    ("read", LockMode::Shared, |_, l, call| { let _held = l.read(); call() }),
    ("try read", LockMode::Shared, |_, l, call| { let _held = l.try_read(); call() }),
    ("read for", LockMode::Shared, |_, l, call| { let _held = l.try_read_for(LONG); call() }),
    ("write", LockMode::Exclusive, |_, l, call| { let _held = l.write(); call() }),
    ("try write", LockMode::Exclusive, |_, l, call| { let _held = l.try_write(); call() }),
    ("write for", LockMode::Exclusive, |_, l, call| { let _held = l.try_write_for(LONG); call() }),
];

#[test]
fn a_hold_is_reported_whole_or_not_at_all_whenever_the_switch_is_turned() {
    let (_turn, _waits) = turn();
    let (mutex, rwlock) = (mutex(), rwlock());
    let whole = [Told::Acquired(Way::Free), Told::Released { was_wanted: false }];
    for (name, mode, hold) in HOLDS {
        for (before, during) in [(false, false), (false, true), (true, false), (true, true)] {
            switch(before);
            hold(&mutex, &rwlock, &|| switch(during));
            observe::off();
            let (uses, told): (Vec<_>, Vec<_>) = RECORDER.take().into_iter().unzip();
            let expected: &[Told] = if before { &whole } else { &[] };
            assert_eq!(told, expected, "{name}: on is {before}, then {during}");
            for lock_use in &uses {
                assert_eq!(*lock_use, uses[0], "{name}: one hold has two descriptions");
                assert_eq!((lock_use.class, lock_use.mode), (LockClass::Test, *mode), "{name}");
                assert_eq!(lock_use.site.file(), file!(), "{name}: the site is not the caller's");
            }
        }
    }
}

#[test]
fn two_threads_at_a_mutex_are_reported_in_full() {
    let (_turn, waits) = turn();
    let mutex = mutex();
    observe::on();
    let (held, first) = at!(mutex.lock());
    let (tried, waited) = thread::scope(|scope| {
        let other = scope.spawn(|| {
            let (failed, tried) = at!([0; 3].map(|_| mutex.try_lock().is_none()));
            assert_eq!(failed, [true; 3]);
            let (_held, waited) = at!(mutex.lock());
            (tried, waited)
        });
        waits.recv_timeout(LONG).unwrap();
        drop(held);
        other.join().unwrap()
    });
    observe::off();
    let holder = Some(first);
    let told = [
        (first, Told::Acquired(Way::Free)),
        (tried, Told::TryFailed { holder }),
        (tried, Told::TryFailed { holder }),
        (tried, Told::TryFailed { holder }),
        (waited, Told::Waiting { holder }),
        (first, Told::Released { was_wanted: true }),
        (waited, Told::Acquired(Way::Held(holder))),
        (waited, Told::Released { was_wanted: false }),
    ];
    assert_eq!(RECORDER.lines(), told);
}

#[test]
fn a_waiter_still_wants_the_next_hold() {
    let (_turn, waits) = turn();
    let mutex = mutex();
    observe::on();
    let held = mutex.lock();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| drop(mutex.lock()));
            waits.recv_timeout(LONG).unwrap();
        }
        drop(held);
    });
    observe::off();
    assert_eq!(wanted(), [true, true, false]);
}

#[test]
fn a_failed_try_lock_marks_the_lock_as_wanted_until_all_readers_have_left() {
    let (_turn, _waits) = turn();
    let lock = rwlock();
    observe::on();
    let one = lock.read();
    assert!(lock.try_write().is_none());
    let two = lock.read();
    drop(one);
    drop(two);
    drop(lock.read());
    observe::off();
    assert_eq!(wanted(), [true, true, false]);
}

#[test]
fn a_waiting_writer_marks_every_readers_hold_as_wanted_but_not_its_own() {
    let (_turn, waits) = turn();
    let lock = rwlock();
    observe::on();
    let (one, first) = at!(lock.read());
    let (two, second) = at!(lock.read());
    let (tried, waited) = thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let (failed, tried) = at!(lock.try_write().is_none());
            assert!(failed);
            let (_held, waited) = at!(lock.write());
            (tried, waited)
        });
        waits.recv_timeout(LONG).unwrap();
        drop(one);
        drop(two);
        writer.join().unwrap()
    });
    let (_, third) = at!(drop(lock.read()));
    observe::off();
    let holder = Some(second);
    let told = [
        (first, Told::Acquired(Way::Free)),
        (second, Told::Acquired(Way::Free)),
        (tried, Told::TryFailed { holder }),
        (waited, Told::Waiting { holder }),
        (first, Told::Released { was_wanted: true }),
        (second, Told::Released { was_wanted: true }),
        (waited, Told::Acquired(Way::Held(holder))),
        (waited, Told::Released { was_wanted: false }),
        (third, Told::Acquired(Way::Free)),
        (third, Told::Released { was_wanted: false }),
    ];
    assert_eq!(RECORDER.lines(), told);
}

#[test]
fn an_attempt_whose_time_is_over_has_failed() {
    let (_turn, _waits) = turn();
    let (mutex, lock) = (mutex(), rwlock());
    observe::on();
    let (_in_mutex, held) = at!(mutex.lock());
    let (_in_lock, written) = at!(lock.write());
    RECORDER.take();
    let short = Duration::from_millis(1);
    let attempts = [
        (at!(mutex.try_lock_for(short).is_none()), held),
        (at!(lock.try_read_for(short).is_none()), written),
        (at!(lock.try_write_for(short).is_none()), written),
    ];
    observe::off();
    let told = attempts.iter().flat_map(|((has_failed, attempt), holder)| {
        assert!(has_failed);
        let holder = Some(*holder);
        [(*attempt, Told::Waiting { holder }), (*attempt, Told::TryFailed { holder })]
    });
    assert_eq!(RECORDER.lines(), told.collect::<Vec<_>>());
}

#[test]
fn the_site_of_a_hold_that_began_while_off_is_unknown() {
    let (_turn, _waits) = turn();
    let mutex = mutex();
    observe::on();
    drop(mutex.lock());
    observe::off();
    RECORDER.take();
    let held = mutex.lock();
    observe::on();
    let (_, tried) = at!(mutex.try_lock().is_none());
    drop(held);
    let (_, next) = at!(drop(mutex.lock()));
    observe::off();
    let told = [
        (tried, Told::TryFailed { holder: None }),
        (next, Told::Acquired(Way::Free)),
        (next, Told::Released { was_wanted: false }),
    ];
    assert_eq!(
        RECORDER.lines(),
        told,
        "the next hold is reported as wanted because of a silent one"
    );
}

#[test]
fn the_observer_is_set_once() {
    let (_turn, _waits) = turn();
    let refused = observe::set(&RECORDER).unwrap_err();
    assert_eq!(refused.to_string(), "the locks already have an observer or a profile");
}
