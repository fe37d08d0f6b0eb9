//! The order in which records leave: S3-FIFO ("FIFO queues are all you need for cache eviction",
//! SOSP '23), one pair of queues per shard.
//!
//! New records go to the small queue, a tenth of the shard. From its front, used records move to
//! the main queue and the rest leave with a ghost. From the front of main, used records go to its
//! back with one use less and the rest leave. What returns while its ghost is known goes to main.
//!
//! Invariants: a node is in exactly one list; the bytes of a queue are the sum of its weights.

/// Fewest ghosts of a shard.
pub(crate) const GHOSTS_MIN: usize = 64;

/// One ghost for so many bytes of budget: as many as a cache of small pages has records, for 0.4 %
/// of the budget.
const BYTES_PER_GHOST: u64 = 2048;

/// No node.
const NONE: u32 = u32::MAX;

/// The small queue's share of a shard is one part of so many.
const SMALL_PART: u64 = 10;

/// Which queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum List {
    Small,
    Main,
}

/// Where a record is in its shard's queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place(u32);

/// A link of a queue; of the free list (by `next`) when no record is in it.
pub(crate) struct Node {
    hash: u64,
    weight: u64,
    prev: u32,
    next: u32,
    list: Option<List>,
}

struct Ends {
    front: u32,
    back: u32,
    bytes: u64,
}

impl Ends {
    const EMPTY: Self = Self { front: NONE, back: NONE, bytes: 0 };
}

/// Both queues of a shard: doubly linked lists over one vector.
pub(crate) struct Queues {
    nodes: Vec<Node>,
    free: u32,
    small: Ends,
    main: Ends,
}

impl Queues {
    pub(crate) const fn new() -> Self {
        Self { nodes: Vec::new(), free: NONE, small: Ends::EMPTY, main: Ends::EMPTY }
    }

    /// Puts a record of `weight` bytes at the back of a queue; `hash` finds it in the table again.
    pub(crate) fn push(&mut self, list: List, hash: u64, weight: u64) -> Place {
        let node = Node { hash, weight, prev: NONE, next: NONE, list: None };
        let place = if self.free == NONE {
            self.nodes.push(node);
            (self.nodes.len() - 1) as u32
        } else {
            let place = self.free;
            self.free = self.nodes[place as usize].next;
            self.nodes[place as usize] = node;
            place
        };
        self.link(place, list);
        Place(place)
    }

    /// Takes a record out.
    pub(crate) fn remove(&mut self, Place(place): Place) {
        self.unlink(place);
        self.nodes[place as usize].next = self.free;
        self.free = place;
    }

    /// Moves a record to the back of `list`.
    pub(crate) fn requeue(&mut self, Place(place): Place, list: List) {
        self.unlink(place);
        self.link(place, list);
    }

    /// Gives a record another weight.
    pub(crate) fn reweigh(&mut self, Place(place): Place, weight: u64) {
        let node = &mut self.nodes[place as usize];
        let before = std::mem::replace(&mut node.weight, weight);
        if let Some(list) = node.list {
            let ends = self.ends(list);
            ends.bytes = ends.bytes - before + weight;
        }
    }

    /// The record that is next to be looked at, its hash and its queue.
    pub(crate) fn front(&self) -> Option<(Place, u64, List)> {
        let small_first =
            self.main.front == NONE || self.small.bytes.saturating_mul(SMALL_PART) > self.bytes();
        let (list, place) = if small_first && self.small.front != NONE {
            (List::Small, self.small.front)
        } else {
            (List::Main, self.main.front)
        };
        let node = self.nodes.get(place as usize)?;
        Some((Place(place), node.hash, list))
    }

    /// Sum of all weights.
    pub(crate) fn bytes(&self) -> u64 {
        self.small.bytes + self.main.bytes
    }

    fn ends(&mut self, list: List) -> &mut Ends {
        match list {
            List::Small => &mut self.small,
            List::Main => &mut self.main,
        }
    }

    fn link(&mut self, place: u32, list: List) {
        let weight = self.nodes[place as usize].weight;
        let ends = self.ends(list);
        let back = std::mem::replace(&mut ends.back, place);
        ends.bytes += weight;
        if back == NONE {
            ends.front = place;
        } else {
            self.nodes[back as usize].next = place;
        }
        let node = &mut self.nodes[place as usize];
        (node.prev, node.next, node.list) = (back, NONE, Some(list));
    }

    fn unlink(&mut self, place: u32) {
        let node = &mut self.nodes[place as usize];
        let (prev, next, weight) = (node.prev, node.next, node.weight);
        let Some(list) = node.list.take() else {
            debug_assert!(false, "place {place} is in no queue");
            return;
        };
        if prev != NONE {
            self.nodes[prev as usize].next = next;
        }
        if next != NONE {
            self.nodes[next as usize].prev = prev;
        }
        let ends = self.ends(list);
        ends.bytes -= weight;
        if prev == NONE {
            ends.front = next;
        }
        if next == NONE {
            ends.back = prev;
        }
    }

    /// Hash and weight of the record at a place, for the walk of `check`.
    pub(crate) fn seen(&self, Place(place): Place) -> Option<(u64, u64)> {
        let node = self.nodes.get(place as usize)?;
        node.list.map(|_| (node.hash, node.weight))
    }

    /// Walks both queues: count of records and contradictions.
    pub(crate) fn check(&self, faults: &mut Vec<String>) -> usize {
        let mut count = 0;
        for (list, ends) in [(List::Small, &self.small), (List::Main, &self.main)] {
            let (mut bytes, mut prev, mut place) = (0, NONE, ends.front);
            while let Some(node) = self.nodes.get(place as usize) {
                if node.list != Some(list) || node.prev != prev || count > self.nodes.len() {
                    faults.push(format!("queue {list:?}: broken link at {place}"));
                    break;
                }
                bytes += node.weight;
                count += 1;
                (prev, place) = (place, node.next);
            }
            if bytes != ends.bytes || prev != ends.back {
                faults.push(format!("queue {list:?}: {bytes} bytes walked, {} kept", ends.bytes));
            }
        }
        count
    }
}

/// What a shard keeps per record in its queues, the vector being half empty at worst.
pub(crate) const NODE_OVERHEAD_BYTES: u64 = 2 * size_of::<Node>() as u64;

/// Hashes of records that left unused, in a fixed table with one place per hash: a newer ghost
/// takes the place of an older one, so the table is as bounded and nearly as first-in-first-out as
/// a queue, without one.
pub(crate) struct Ghosts {
    hashes: Box<[u64]>,
}

impl Ghosts {
    /// How many ghosts one of `shard_count` shards remembers.
    pub(crate) fn count(budget_bytes: u64, shard_count: usize) -> usize {
        let share = budget_bytes / BYTES_PER_GHOST / shard_count as u64;
        1 << share.clamp(GHOSTS_MIN as u64, 1 << 24).ilog2()
    }

    pub(crate) fn new(count: usize) -> Self {
        Self { hashes: vec![0; count].into_boxed_slice() }
    }

    pub(crate) fn remember(&mut self, hash: u64) {
        let place = hash as usize % self.hashes.len();
        self.hashes[place] = hash;
    }

    /// True if the hash was remembered; it is no longer.
    pub(crate) fn take(&mut self, hash: u64) -> bool {
        let place = hash as usize % self.hashes.len();
        let known = self.hashes[place] == hash && hash != 0;
        if known {
            self.hashes[place] = 0;
        }
        known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fronts(queues: &mut Queues) -> Vec<u64> {
        let mut hashes = Vec::new();
        while let Some((place, hash, _)) = queues.front() {
            queues.remove(place);
            hashes.push(hash);
        }
        hashes
    }

    #[test]
    fn a_queue_keeps_its_order_through_removal_and_requeueing() {
        let mut queues = Queues::new();
        let places: Vec<Place> = (0..6).map(|hash| queues.push(List::Main, hash, 10)).collect();
        queues.remove(places[0]);
        queues.remove(places[3]);
        queues.remove(places[5]);
        queues.requeue(places[1], List::Main);
        queues.push(List::Main, 9, 1);
        let mut faults = Vec::new();
        assert_eq!((queues.check(&mut faults), faults.len(), queues.bytes()), (4, 0, 31));
        assert_eq!(fronts(&mut queues), [2, 4, 1, 9]);
        assert_eq!(queues.bytes(), 0);
    }

    #[test]
    fn small_gives_first_only_above_its_tenth() {
        // (small, main, expected list)
        let cases =
            [(10, 0, List::Small), (10, 89, List::Small), (10, 90, List::Main), (0, 5, List::Main)];
        for (small, main, expected) in cases {
            let mut queues = Queues::new();
            for (list, weight) in [(List::Small, small), (List::Main, main)] {
                if weight > 0 {
                    queues.push(list, 1, weight);
                }
            }
            let list = queues.front().map(|(_, _, list)| list);
            assert_eq!(list, Some(expected), "{small} small, {main} main");
        }
    }

    #[test]
    fn a_ghost_is_known_once() {
        let mut ghosts = Ghosts::new(GHOSTS_MIN);
        ghosts.remember(5);
        assert!(!ghosts.take(6) && ghosts.take(5) && !ghosts.take(5));
        ghosts.remember(5);
        ghosts.remember(5 + GHOSTS_MIN as u64);
        assert!(!ghosts.take(5), "the newer one has its place");
    }
}
