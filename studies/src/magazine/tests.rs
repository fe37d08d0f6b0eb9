//! Tests of magazines in given situations, and with random operations, which are checked against a
//! plain record of each item.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use super::{Depot, MagazineCounts, Magazines, SharedMagazines};
use forebay_sync::{LockClass, Mutex};

fn counts(of: [u64; 5]) -> MagazineCounts {
    let [takes, gives, exchanges, made, dropped] = of;
    MagazineCounts { takes, gives, exchanges, made, dropped }
}

#[test]
fn a_worker_goes_to_the_depot_for_whole_magazines_only() {
    let depot = Arc::new(Depot::new(4, 2));
    let mut giver = Magazines::new(Arc::clone(&depot));
    let steps = [
        ("both magazines fill up", 8, counts([0, 8, 0, 0, 0]), 0),
        ("the ninth exchanges one", 1, counts([0, 9, 1, 0, 0]), 1),
        ("the next three find room", 3, counts([0, 12, 1, 0, 0]), 1),
        ("the depot gets its last", 1, counts([0, 13, 2, 0, 0]), 2),
        ("then a magazine is dropped", 4, counts([0, 17, 2, 0, 4]), 2),
    ];
    let mut item = 0;
    for (step, gives, expected, filled) in steps {
        for _ in 0..gives {
            giver.give(item);
            item += 1;
        }
        assert_eq!(giver.counts(), expected, "{step}");
        assert_eq!(depot.filled_count(), filled, "{step}");
    }
    let mut taker = Magazines::new(Arc::clone(&depot));
    let taken: BTreeSet<i32> = (0..8).map(|_| taker.take().unwrap()).collect();
    assert_eq!(taken.len(), 8, "each item is taken once");
    assert_eq!(taker.take(), None, "the items in the giver's own magazines are not for others");
    assert_eq!(taker.counts(), counts([9, 0, 2, 0, 0]));
    assert_eq!(giver.item_count(), 5);
}

#[test]
fn after_an_exchange_there_are_items_and_room() {
    let depot = Arc::new(Depot::new(4, 8));
    let mut worker = Magazines::new(Arc::clone(&depot));
    (0..32).for_each(|item| worker.give(item));
    let before = worker.counts().exchanges;
    // Takes and gives alternate at the point where a single magazine would be exchanged each time.
    for _ in 0..100 {
        let items: Vec<i32> = (0..4).map(|_| worker.take().unwrap()).collect();
        items.into_iter().for_each(|item| worker.give(item));
    }
    assert!(worker.counts().exchanges - before <= 1, "{:?}", worker.counts());
}

#[test]
fn an_item_is_made_when_there_is_none() {
    let depot = Arc::new(Depot::new(2, 1));
    let mut worker = Magazines::new(Arc::clone(&depot));
    assert_eq!(worker.take(), None);
    assert_eq!(worker.take_or_make(|| 5), 5);
    worker.give(6);
    assert_eq!(worker.take_or_make(|| 7), 6);
    assert_eq!(worker.counts(), counts([3, 1, 0, 1, 0]));
}

#[test]
fn limits_of_zero_still_work() {
    let depot = Arc::new(Depot::new(0, 0));
    let mut worker = Magazines::new(Arc::clone(&depot));
    (0..10).for_each(|item| worker.give(item));
    assert_eq!((depot.item_max(), worker.item_count()), (1, 2));
    assert_eq!(worker.counts(), counts([0, 10, 0, 0, 8]));
    drop(worker);
    assert_eq!(depot.gone_counts(), counts([0, 10, 0, 0, 10]));
}

#[test]
fn a_worker_that_goes_leaves_items_and_counts() {
    let depot = Arc::new(Depot::new(3, 1));
    let mut goes = Magazines::new(Arc::clone(&depot));
    (0..4).for_each(|item| goes.give(item));
    drop(goes);
    assert_eq!(depot.filled_count(), 1);
    let sum = depot.gone_counts();
    assert_eq!(sum.gives, 4);
    let mut stays = Magazines::new(depot);
    let left = std::iter::from_fn(|| stays.take()).count() as u64;
    assert_eq!(left + sum.dropped, 4);
    // The worker's own magazine is now the one that it got from the depot, of full size.
    (0..6).for_each(|item| stays.give(item));
    assert_eq!(stays.item_count(), 6);
}

#[test]
fn threads_without_a_pair_share_some() {
    let depot = Arc::new(Depot::new(2, 2));
    let shared = SharedMagazines::new(&depot, 0);
    assert_eq!(shared.take_or_make(9, || 1), 1);
    shared.give(4, 1);
    assert_eq!(shared.take(usize::MAX), Some(1), "there is at least one pair");
    assert_eq!(shared.counts(), counts([2, 1, 0, 1, 0]));
    assert_eq!(shared.take(0), None);
    let two = SharedMagazines::new(&depot, 2);
    (0..10).for_each(|item| two.give(item % 2, item));
    assert_eq!(two.counts().exchanges, 2, "each pair keeps four of its five items");
}

/// An item that removes itself from the record of items when it is dropped.
#[derive(Debug)]
struct Item {
    number: u64,
    alive: Arc<Mutex<BTreeSet<u64>>>,
}

impl Drop for Item {
    fn drop(&mut self) {
        assert!(self.alive.lock().remove(&self.number), "dropped twice: {}", self.number);
    }
}

struct Rng(u64);

impl Rng {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % limit as u64) as usize
    }
}

#[test]
fn no_item_is_lost_or_handed_out_twice() {
    let given = std::env::var("FOREBAY_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = given.unwrap_or_else(|| RandomState::new().hash_one(0) >> 32);
    println!("magazines: FOREBAY_SEED={seed}");
    let mut rng = Rng(seed);
    for _ in 0..200 {
        let (item_max, filled_max) = (1 + rng.below(5), rng.below(4));
        random_operations(&mut rng, item_max, filled_max);
    }
}

fn random_operations(rng: &mut Rng, item_max: usize, filled_max: usize) {
    let depot = Arc::new(Depot::new(item_max, filled_max));
    let alive = Arc::new(Mutex::new(LockClass::Test, BTreeSet::new()));
    let new_pair = || Magazines::new(Arc::clone(&depot));
    let mut workers: Vec<Magazines<Item>> = (0..3).map(|_| new_pair()).collect();
    let mut held: Vec<Item> = Vec::new();
    let mut numbers = 0..;
    // Takes and gives come in runs, so that magazines fill up and drain.
    let mut takes_of_ten = 5;
    for step in 0..500 {
        if step % 50 == 0 {
            takes_of_ten = [1, 5, 9][rng.below(3)];
        }
        let own = rng.below(workers.len());
        if rng.below(100) == 0 {
            workers[own] = new_pair();
        } else if held.is_empty() || rng.below(10) < takes_of_ten {
            let item = workers[own].take_or_make(|| {
                let number = numbers.next().expect("no end");
                alive.lock().insert(number);
                Item { number, alive: Arc::clone(&alive) }
            });
            assert!(
                alive.lock().contains(&item.number),
                "an item was handed out after it was dropped"
            );
            assert!(
                held.iter().all(|other| other.number != item.number),
                "an item was handed out twice"
            );
            held.push(item);
        } else {
            let item = held.swap_remove(rng.below(held.len()));
            workers[own].give(item);
        }
        let free = alive.lock().len() - held.len();
        let limit = item_max * (2 * workers.len() + filled_max);
        assert!(free <= limit, "{free} free items, at most {limit}");
        let in_pairs: usize = workers.iter().map(Magazines::item_count).sum();
        assert!(
            free - in_pairs <= item_max * depot.filled_count(),
            "items are missing in the depot"
        );
    }
    let outside = held.len() as u64;
    workers.clear();
    let sum = depot.gone_counts();
    let in_depot = alive.lock().len() as u64 - outside;
    assert_eq!(sum.made, sum.dropped + outside + in_depot, "made = dropped + held + free");
    assert_eq!(sum.takes - sum.gives, outside, "taken and not given back");
    drop((depot, held));
    assert!(alive.lock().is_empty(), "lost: {:?}", alive.lock());
}
