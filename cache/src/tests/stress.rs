//! Many threads at once on a few keys: what may never be seen, and that everybody comes to an end.

use std::future::poll_fn;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use super::*;

const THREADS: u64 = 8;
const ROUNDS: u64 = 1500;
const KEYS: u64 = 12;

struct Shared {
    store: Arc<Store>,
    /// The next version; a leader takes one when it has become leader.
    version: AtomicU64,
    /// By key: what has a lower version began before a purge that is over.
    floors: Vec<AtomicU64>,
    /// How often somebody followed another's fetch.
    followed: AtomicU64,
    start: Barrier,
}

/// Checks that a response is whole, of this key, and began after the last purge that was over when
/// the request began.
fn expect(key: u64, floor: u64, head: &[u8], body: &[u8]) {
    let (found_key, rest) = head.split_first_chunk::<8>().unwrap();
    let version = u64::from_le_bytes(*rest.first_chunk().unwrap());
    assert_eq!(u64::from_le_bytes(*found_key), key, "a stranger's response");
    assert!(version >= floor, "version {version} of {key} began before the purge at {floor}");
    assert!(body == content(version, body.len()), "version {version} of {key} is mixed");
    let length = u64::from_le_bytes(*rest.last_chunk().unwrap());
    assert_eq!(length, body.len() as u64, "version {version} of {key} is cut");
}

impl Shared {
    fn request(&self, key: u64, rng: &mut Rng) {
        let primary = key.to_le_bytes();
        let floor = self.floors[key as usize].load(SeqCst);
        let mut known = None;
        if let Lookup::Record(record) = self.store.lookup(&primary) {
            expect(key, floor, record.head(), &body_of(&record));
            if rng.below(4) > 0 {
                return;
            }
            known = Some(record);
        }
        match self.store.join(&primary, None, known.as_ref(), 0) {
            Join::Stored | Join::Declined => {}
            Join::Follower(follower) => {
                self.followed.fetch_add(1, Relaxed);
                follow_to_end(key, floor, follower);
            }
            Join::Leader(leader, follower) => {
                self.fetch(key, leader, known, rng);
                follow_to_end(key, floor, follower);
            }
        }
    }

    fn fetch(&self, key: u64, leader: Leader, known: Option<Arc<Record>>, rng: &mut Rng) {
        let version = self.version.fetch_add(1, SeqCst);
        match (rng.below(20), known) {
            (0, _) => return leader.fail(),
            (1, _) => return leader.decline_once(),
            (2, _) => return drop(leader),
            // A merged head keeps the version of the body that it belongs to.
            (3..12, Some(known)) => return leader.validated(known.head()),
            _ => {}
        }
        let body = content(version, rng.size(30_000) as usize);
        let head = [key, version, body.len() as u64].map(u64::to_le_bytes).concat();
        let Ok(mut filling) = leader.begin(&head, None, None) else {
            return;
        };
        // Let the others in while the flight is open, even where threads take turns.
        thread::yield_now();
        for part in body.chunks(rng.size(4000).max(100) as usize) {
            if filling.append(part).is_err() || rng.below(200) == 0 {
                return;
            }
            thread::yield_now();
        }
        filling.finish();
    }

    fn purge(&self, key: u64) {
        let floor = self.version.load(SeqCst);
        self.store.purge(&key.to_le_bytes());
        self.floors[key as usize].fetch_max(floor, SeqCst);
    }

    fn work(&self, mut rng: Rng) {
        self.start.wait();
        for _ in 0..ROUNDS {
            let key = rng.below(KEYS);
            match rng.below(40) {
                0 | 1 => self.purge(key),
                2 => drop(self.store.stats()),
                _ => self.request(key, &mut rng),
            }
        }
    }
}

fn follow_to_end(key: u64, floor: u64, mut follower: Follower) {
    match block_on(poll_fn(|cx| follower.poll_outcome(cx))) {
        Outcome::Growing(reader) => {
            let head = reader.head().to_vec();
            if let Some(body) = block_on(read_all(reader)) {
                expect(key, floor, &head, &body);
            }
        }
        Outcome::Validated(record) => expect(key, floor, record.head(), &body_of(&record)),
        Outcome::Declined | Outcome::Failed => {}
    }
}

#[test]
fn threads_never_see_strangers_mixtures_or_what_was_purged() {
    let mut rng = Rng::from_environment("stress");
    // The second budget is so small that most of what is stored is evicted soon.
    for budget_bytes in [8 << 20, 96 * 1024] {
        let floors = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
        let store = store(config(budget_bytes));
        let (version, followed) = (AtomicU64::new(1), AtomicU64::new(0));
        let start = Barrier::new(THREADS as usize);
        let shared = Shared { store, version, floors, followed, start };
        thread::scope(|scope| {
            for _ in 0..THREADS {
                let (shared, rng) = (&shared, Rng(rng.next()));
                scope.spawn(move || shared.work(rng));
            }
        });
        check_at_rest(&shared.store);
        let (followed, inserted) = (shared.followed.into_inner(), shared.store.stats().inserted);
        assert!(followed > 0 && inserted > 100, "{followed} followed, {inserted} stored");
    }
}
