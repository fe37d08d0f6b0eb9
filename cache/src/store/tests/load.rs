//! Checks of a store beside threads that store, find, purge and evict records: the changes of these
//! threads must not appear as findings.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use forebay_testkit::StopFlag;

use super::*;

const THREADS: u32 = 2;
const KEYS: u64 = 4000;

/// The fewest rounds that each thread makes.
const ROUNDS: u64 = 10_000;

/// The limit of a thread's rounds: a hundred times as many as the checks take.
const STEPS_MAX: u64 = 100 * ROUNDS;

/// The fewest checks that are made during the rounds.
const CHECKS: u64 = 6;

/// A small random generator (xorshift).
struct Rng(u64);

impl Rng {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// Makes a body that repeats its key, so that the body of another key is recognised.
fn body_of(key: &[u8], bytes: usize) -> Vec<u8> {
    key.iter().copied().cycle().take(bytes).collect()
}

fn bytes_for(rng: &mut Rng) -> usize {
    match rng.below(100) {
        0 => 100_000,
        1..10 => 20_000,
        _ => rng.below(3000) as usize,
    }
}

fn store_one(worker: &StoreWorker, key: &[u8], rng: &mut Rng) {
    let has_variants = key.ends_with(b"7");
    let value = format!("v{}", rng.below(3));
    let variant = has_variants.then_some(value.as_bytes());
    let CollapseResult::Leader(leader, _follower) =
        worker.collapse(key, variant.map(selector_list).as_deref(), None, JoinTerms::at(0))
    else {
        return;
    };
    let base =
        variant.map(|value| VariantKey { names: b"accept".to_vec(), variant: value.to_vec() });
    let body = body_of(key, bytes_for(rng));
    let mut cx = Context::from_waker(Waker::noop());
    if let Ok(mut filling) = leader.begin(b"head", base, Some(body.len() as u64), fresh()) {
        for piece in body.chunks(16 * 1024) {
            let _ = filling.poll_room(&mut cx, 0);
            if filling.append(piece).is_err() {
                return;
            }
        }
        filling.finish();
    }
}

fn find_one(worker: &StoreWorker, key: &[u8]) {
    let found = match worker.lookup(key) {
        Lookup::Miss => return,
        Lookup::Record(found) => read(worker, &found),
        Lookup::Base(base) => {
            let found = base.variant(b"v1");
            found.as_ref().and_then(|found| read(worker, found))
        }
    };
    if let Some((_, body)) = found {
        assert!(body == body_of(key, body.len()), "another key's body");
    }
}

/// Does the work of one thread until the thread is told to stop.
fn work(worker: &StoreWorker, seed: u64, stop: &StopFlag, rounds: &AtomicU64) {
    let mut rng = Rng(seed);
    let mut made = 0;
    for _ in (0..ROUNDS).chain(stop.steps(STEPS_MAX)) {
        let key = format!("site\0http\0h\0/{}", rng.below(KEYS));
        match rng.below(10) {
            0..4 => store_one(worker, key.as_bytes(), &mut rng),
            4 => drop(worker.purge(key.as_bytes())),
            _ => find_one(worker, key.as_bytes()),
        }
        worker.turn(NOW, |_| ());
        made += 1;
    }
    rounds.fetch_add(made, Ordering::Relaxed);
}

#[test]
fn a_check_beside_threads_at_work_finds_nothing() {
    let config = StoreConfig { worker_count: THREADS, ..config(16 << 20) };
    let store = Store::open(config).unwrap();
    let stop = Arc::new(StopFlag::default());
    let _guard = stop.guard();
    let rounds = Arc::new(AtomicU64::new(0));
    let workers: Vec<_> = (0..THREADS)
        .map(|number| {
            let (store, stop, rounds) = (store.clone(), stop.clone(), rounds.clone());
            thread::spawn(move || {
                let worker = store.join().unwrap();
                work(&worker, u64::from(number) * 77 + 5, &stop, &rounds);
            })
        })
        .collect();
    let mut checks = 0;
    let mut live_count = 0;
    while checks < CHECKS || workers.iter().any(|worker| !worker.is_finished()) {
        let depth = if checks % 3 == 0 { CheckDepth::Checksums } else { CheckDepth::Headers };
        let report = store.check(depth, |_| ()).unwrap();
        assert!(report.is_sound(), "check {checks}: {report}");
        live_count += report.live_count;
        checks += 1;
        if checks >= CHECKS {
            stop.raise();
        }
    }
    workers.into_iter().for_each(|worker| worker.join().unwrap());
    assert!(live_count > 0 && rounds.load(Ordering::Relaxed) >= ROUNDS);
    let stats = store.stats();
    assert!(stats.segments_freed > 0, "{stats:?}");
    let report = check(&store);
    assert!(report.is_sound(), "{report}");
}
