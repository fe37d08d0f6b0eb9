//! Many threads fetch, read and purge a few keys at the same time. No request sees a mixed, cut or
//! purged response, and all threads end.

use std::future::poll_fn;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use super::shelf::{Kept, Shelf};
use super::*;

const THREADS: u64 = 8;
const ROUNDS: u64 = 1500;
const KEYS: u64 = 12;

struct Shared {
    flights: Arc<Flights>,
    shelf: Shelf,
    /// The next version. Each leader takes a version when it becomes leader.
    version: AtomicU64,
    /// For each key, the lowest version that may be found: fetches of lower versions began before a
    /// purge that is over.
    floors: Vec<AtomicU64>,
    /// The number of times that a caller followed another caller's fetch.
    followed: AtomicU64,
    start: Barrier,
}

/// Checks that a head is of this key, and that its fetch began after the last purge that was over
/// when the request began. Returns the head's version and the length of its body.
fn expect_head(key: u64, floor: u64, head: &[u8]) -> (u64, u64) {
    let words: Vec<u64> =
        head.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
    let [found_key, version, length] = words[..] else { panic!("{words:?}") };
    assert_eq!(found_key, key, "a response of another key");
    assert!(version >= floor, "version {version} of {key} began before the purge at {floor}");
    (version, length)
}

/// Checks a head as [`expect_head`] does, and that the body is whole.
fn expect(key: u64, floor: u64, head: &[u8], body: &[u8]) {
    let (version, length) = expect_head(key, floor, head);
    assert!(body == content(version, body.len()), "version {version} of {key} is mixed");
    assert_eq!(length, body.len() as u64, "version {version} of {key} is cut");
}

impl Shared {
    fn request(&self, key: u64, rng: &mut Rng) {
        let primary = key.to_le_bytes();
        let floor = self.floors[key as usize].load(SeqCst);
        let found = self.shelf.find(&primary);
        if let Some(kept) = &found {
            expect(key, floor, &kept.head, &kept.body);
            if rng.below(4) > 0 {
                return;
            }
        }
        let gate = self.shelf.gate(&primary, found.as_ref());
        match self.flights.join(super::key(&primary, None), JoinTerms::at(0), &gate) {
            JoinResult::Changed | JoinResult::Declined(_) => {}
            JoinResult::Follow(follower) => {
                self.followed.fetch_add(1, Relaxed);
                follow_to_end(key, floor, follower);
            }
            JoinResult::Lead(lead, follower) => {
                self.fetch(key, lead, found, rng);
                follow_to_end(key, floor, follower);
            }
        }
    }

    fn fetch(&self, key: u64, lead: LeaderGuard, found: Option<Kept>, rng: &mut Rng) {
        let version = self.version.fetch_add(1, SeqCst);
        match (rng.below(20), found) {
            (0, _) => return lead.fail(502),
            (1, _) => return lead.decline_once(DeclineReason::TooLarge),
            (2, _) => return drop(lead),
            (3..12, Some(found)) => return self.validate(lead, &found),
            _ => {}
        }
        let body = content(version, rng.size(30_000) as usize);
        let head = [key, version, body.len() as u64].map(u64::to_le_bytes).concat();
        let length = (rng.below(2) == 0).then_some(body.len() as u64);
        let Ok(mut writer) = lead.begin(&head, None, length) else {
            return;
        };
        // Let other threads run while the flight is open, even where threads take turns.
        thread::yield_now();
        for part in body.chunks(rng.size(4000).max(100) as usize) {
            if writer.append(part).is_err() || rng.below(200) == 0 {
                return;
            }
            thread::yield_now();
        }
        self.store(writer);
    }

    /// Validates a record with a merged head, which keeps the version of the body.
    fn validate(&self, lead: LeaderGuard, found: &Kept) {
        thread::yield_now();
        let sequence = self.shelf.renew(lead.key().primary, found);
        lead.validated(RenewedHead { head: found.head.clone(), base: None, sequence });
    }

    fn store(&self, writer: BodyWriter) {
        if writer.is_storing() && writer.is_complete() {
            let (primary, head) = (writer.key().primary, &writer.opening().head);
            let body = writer.pieces(0..writer.bytes()).concat();
            self.shelf.store(primary, writer.purge_noted(), head, &body);
        }
        writer.finish(None);
    }

    /// Purges a key, as another process does if `is_elsewhere`: then the flights of this process
    /// learn of the purge only by its number.
    fn purge(&self, key: u64, is_elsewhere: bool) {
        let floor = self.version.load(SeqCst);
        let primary = key.to_le_bytes();
        self.shelf.purge(&primary);
        if !is_elsewhere {
            self.flights.detach(hash(&primary), &primary);
        }
        self.floors[key as usize].fetch_max(floor, SeqCst);
    }

    fn work(&self, mut rng: Rng) {
        self.start.wait();
        for _ in 0..ROUNDS {
            let key = rng.below(KEYS);
            match rng.below(40) {
                0 | 1 => self.purge(key, rng.below(2) == 0),
                2 => {
                    let (stats, max) = (self.flights.stats(), self.flights.budget().bytes_max());
                    assert!(stats.growing_bytes <= max, "{stats:?}");
                }
                3 => self.shelf.evict(&key.to_le_bytes()),
                _ => self.request(key, &mut rng),
            }
        }
    }
}

fn follow_to_end(key: u64, floor: u64, mut follower: Follower) {
    match block_on(poll_fn(|cx| follower.poll_outcome(cx))) {
        FollowOutcome::Growing(reader) => {
            let head = reader.head().to_vec();
            if let Some(body) = block_on(read_all(reader)) {
                expect(key, floor, &head, &body);
            }
        }
        FollowOutcome::Validated(renewed) => _ = expect_head(key, floor, &renewed.head),
        FollowOutcome::Declined(_) | FollowOutcome::Failed(_) => {}
    }
}

#[test]
fn threads_never_see_foreign_mixed_or_purged_responses() {
    let mut rng = Rng::from_environment("stress");
    // The second budget is so small that many responses are not stored.
    for growing_bytes_max in [2 << 20, 48 * 1024] {
        let floors = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
        let flights = new_flights(FlightConfig { growing_bytes_max, ..config() });
        let (shelf, start) = (Shelf::new(), Barrier::new(THREADS as usize));
        let (version, followed) = (AtomicU64::new(1), AtomicU64::new(0));
        let shared = Shared { flights, shelf, version, floors, followed, start };
        thread::scope(|scope| {
            for _ in 0..THREADS {
                let (shared, rng) = (&shared, Rng(rng.next()));
                scope.spawn(move || shared.work(rng));
            }
        });
        check_at_rest(&shared.flights);
        let (followed, stored) = (shared.followed.into_inner(), shared.shelf.stored());
        assert!(followed > 0 && stored > 100, "{followed} followed, {stored} stored");
    }
}
