//! Records how one thread uses locks. A recorder allocates nothing, takes no lock and does no I/O.

use super::attempt::{Acquisition, HoldRecord, LockWait, ProfiledSite};
use super::block::{ThreadBlock, ThreadIdentity, add, add_max, add_time, raise};
use super::claim;
use super::clock::Stamp;
use super::holds::ProfiledHold;
use super::plan::{HOLDS_MAX, block, header, pair, row, sample};
use super::samples::Sampler;
use super::shared::Profile;

/// The number of failed try-locks that a thread remembers.
const TRIES_MAX: usize = 16;

/// A failed try-lock and the next attempt of the same thread belong to one delay if they are at
/// most this far apart. A thread that wants a lock mostly tries again within milliseconds. Later it
/// may no longer want the lock. Another lock may even have the same address, if the first one was
/// freed without a call that the recorder sees.
pub(super) const TRY_NS_MAX: u64 = 10_000_000_000;

/// A thread without a block looks for a free block at one in this many attempts.
const LOST_BEFORE_LOOK: u32 = 256;

/// A failed try-lock of a lock that the thread has not acquired since.
#[derive(Clone, Copy, Debug)]
struct FailedTry {
    lock: usize,
    key: u64,
    /// The time of the first failed try-lock.
    since: Stamp,
    /// The time of the last failed try-lock.
    last: Stamp,
    row: u32,
    /// The index of the pair plus one; 0 for none.
    pair: u32,
    /// The index of the sample plus one; 0 for none.
    sample: u32,
    /// The value of [`Profile::on_since`] at the first failure.
    on_since: u64,
}

/// The recording state of one thread. All calls of a recorder are for the same profile.
///
/// An attempt calls `begin`, then `begin_wait` if it has to wait, then `acquired`, `try_failed`,
/// `timed_out` or `give_up`; a hold ends with `released` or `forget_holds`. An attempt that is not
/// recorded calls `begin`, then `acquired_silently` if it acquires the lock. A thread calls `leave`
/// before it ends.
#[derive(Debug)]
#[repr(C)]
pub struct Recorder {
    // The fields that each attempt needs come first, so that they share few cache lines.
    skip_left: u64,
    generation: u64,
    tried_count: usize,
    block: Option<ThreadBlock>,
    lost: u32,
    has_left: bool,
    sampler: Sampler,
    tried: [Option<FailedTry>; TRIES_MAX],
}

impl Default for Recorder {
    fn default() -> Recorder {
        Recorder::new()
    }
}

impl Recorder {
    /// The recorder of a thread that has recorded nothing yet.
    #[must_use]
    pub const fn new() -> Recorder {
        Recorder {
            skip_left: 0,
            generation: 0,
            tried_count: 0,
            block: None,
            lost: 0,
            has_left: false,
            sampler: Sampler::new(),
            tried: [None; TRIES_MAX],
        }
    }

    /// Begins an attempt, while the profile is on. Returns whether the attempt is recorded.
    /// `thread` is called when the thread needs a block; it returns `None` for a thread that could
    /// not give the block back.
    #[inline(always)]
    pub fn begin(
        &mut self,
        profile: &Profile,
        thread: impl FnOnce() -> Option<ThreadIdentity>,
    ) -> bool {
        if self.skip_left > 0 {
            return self.skip(profile);
        }
        self.skip_left = profile.skip();
        if self.block.is_some() && self.generation == profile.generation() {
            return true;
        }
        self.prepare(profile, thread)
    }

    /// Counts an attempt as lost because the caller has no room for its hold; returns false.
    #[cold]
    pub fn pass_over(&mut self, profile: &Profile) -> bool {
        profile.count(header::LOST, 1);
        false
    }

    #[inline(never)]
    fn skip(&mut self, profile: &Profile) -> bool {
        // The number of attempts to skip may have been lowered after `skip_left` was set.
        self.skip_left = (self.skip_left - 1).min(profile.skip());
        if let Some(block) = &self.block {
            block.count(block::SKIPPED);
        }
        false
    }

    #[cold]
    #[inline(never)]
    fn prepare(
        &mut self,
        profile: &Profile,
        thread: impl FnOnce() -> Option<ThreadIdentity>,
    ) -> bool {
        if self.block.is_none() {
            self.block = self.find_block(profile, thread);
        }
        let Some(block) = &self.block else {
            profile.count(header::LOST, 1);
            return false;
        };
        self.generation = profile.generation();
        if block.generation() != self.generation {
            block.clear(self.generation);
            self.forget_tries();
        }
        true
    }

    fn find_block(
        &mut self,
        profile: &Profile,
        thread: impl FnOnce() -> Option<ThreadIdentity>,
    ) -> Option<ThreadBlock> {
        let is_turn = self.lost.is_multiple_of(LOST_BEFORE_LOOK);
        self.lost = self.lost.wrapping_add(1);
        if self.has_left || !is_turn {
            return None;
        }
        let thread = thread()?;
        let index = claim::take(profile.owners(), u64::from(thread.tid).max(1))?;
        profile.count(header::THREADS_STARTED, 1);
        let block = ThreadBlock::of(profile, index);
        block.enter(&thread);
        Some(block)
    }

    /// Records an acquisition; other threads see the hold immediately. If the block has no free row
    /// for the hold, the oldest hold of the thread is forgotten and counts as lost. Returns `None`
    /// if the thread has no block.
    #[inline(always)]
    pub fn acquired(
        &mut self,
        profile: &Profile,
        site: &impl ProfiledSite,
        taken: &Acquisition,
    ) -> Option<ProfiledHold> {
        let block = self.block.as_ref()?;
        let key = site.key();
        let index = block.row_of(key, || profile.describe(key, &site.describe()));
        let since = profile.clock().now();
        let held = HoldRecord { key, since, generation: self.generation as u32, row: index as u32 };
        if !block.holds.has_room() {
            profile.count_lost(1);
        }
        let hold = block.holds.add(taken, held);
        let row = block.row(index);
        add(&row[row::COUNT], 1);
        if taken.is_shared {
            add(&row[row::SHARED_COUNT], 1);
        }
        if taken.has_owner_died {
            add(&row[row::OWNER_DIED_COUNT], 1);
        }
        if let Some(wait) = taken.wait {
            block.holds.stop_waiting();
            let ns = waited(block, profile, (index, key), wait, since);
            self.sampler.waited((profile, block), site, wait.holder, ns);
        }
        if self.tried_count > 0 {
            self.settle(profile, taken.lock, since);
        }
        Some(hold)
    }

    /// Whether the thread can record one more hold without forgetting another.
    #[inline(always)]
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.block.as_ref().is_none_or(|block| block.holds.has_room())
    }

    /// The hold with this [index](ProfiledHold::index).
    #[inline(always)]
    #[must_use]
    pub fn hold_at(&self, index: u32) -> Option<ProfiledHold> {
        self.block.as_ref()?.holds.at(index)
    }

    /// The latest hold of a lock by this thread. The hold does not end.
    #[inline(always)]
    #[must_use]
    pub fn find_hold(&self, lock: usize) -> Option<ProfiledHold> {
        self.block.as_ref()?.holds.find(lock).map(|(hold, _)| hold)
    }

    /// Forgets this thread's holds of a lock that was destroyed, or replaced by another lock at its
    /// address. The lengths of these holds are unknown, and are not counted. Returns how many holds
    /// it has forgotten.
    #[inline]
    pub fn forget_holds(&mut self, lock: usize) -> u64 {
        let Some(block) = &self.block else {
            return 0;
        };
        let mut count = 0;
        // Bounded, since other programs may write the words that this loop reads.
        while let Some((hold, _)) = block.holds.find(lock).filter(|_| count < HOLDS_MAX as u64) {
            block.holds.remove(&hold);
            count += 1;
        }
        count
    }

    /// Begins a wait for a held lock. The wait ends with `acquired`, `timed_out` or
    /// [`give_up`](Recorder::give_up).
    #[cold]
    #[must_use]
    pub fn begin_wait(&self, profile: &Profile, site: &impl ProfiledSite, lock: usize) -> LockWait {
        let since = profile.clock().now();
        if let Some(block) = &self.block {
            let key = site.key();
            // The thread may wait for ever, so tools must be able to name the site now.
            if !block.has(key) {
                profile.describe(key, &site.describe());
            }
            block.holds.wait_for(lock, key, since);
        }
        LockWait { since, holder: profile.holder_in_the_way(lock) }
    }

    /// Ends a wait that did not get the lock, for another reason than a time limit.
    #[cold]
    pub fn give_up(&self) {
        if let Some(block) = &self.block {
            block.holds.stop_waiting();
        }
    }

    /// Notes an acquisition whose attempt is not recorded.
    #[inline]
    pub fn acquired_silently(&mut self, profile: &Profile, lock: usize) {
        if self.tried_count > 0 {
            self.settle(profile, lock, profile.clock().now());
        }
    }

    /// Records a release that happens now.
    #[inline(always)]
    pub fn released(&mut self, profile: &Profile, hold: &ProfiledHold) {
        self.released_at(profile, hold, profile.clock().now());
    }

    /// Records a release at the time `now`. Call this before other threads can take the lock.
    #[inline(always)]
    pub fn released_at(&mut self, profile: &Profile, hold: &ProfiledHold, now: Stamp) {
        let Some(block) = &self.block else {
            return;
        };
        block.holds.remove(hold);
        // A hold that began before a reset does not count: its row may now belong to another key.
        // Within a generation a row keeps its key.
        let held = &hold.held;
        if held.generation == self.generation as u32 {
            let ns = profile.clock().ns_between(held.since, now);
            let row = block.row(held.row as usize);
            add_time(row, row::HOLD_NS, row::HOLD_BUCKETS, ns);
        }
    }

    /// Records a failed try-lock. `holder` is the key of the call site of the holder; 0 if unknown.
    #[cold]
    pub fn try_failed(
        &mut self,
        profile: &Profile,
        site: &impl ProfiledSite,
        lock: usize,
        holder: u64,
    ) {
        let Some(block) = self.block else {
            return;
        };
        let key = site.key();
        let row = block.row_of(key, || profile.describe(key, &site.describe()));
        add(&block.row(row)[row::TRY_FAILED_COUNT], 1);
        let pair = block.pair_of(holder, key);
        if let Some(pair) = pair {
            add(&block.pair(pair)[pair::TRY_FAILED_COUNT], 1);
        }
        let sample = self.sampler.try_failed((profile, &block), site, holder);
        self.remember(profile, (lock, key), row, (pair, sample));
    }

    /// Records a wait that reached its time limit.
    #[cold]
    pub fn timed_out(
        &mut self,
        profile: &Profile,
        site: &impl ProfiledSite,
        lock: usize,
        wait: LockWait,
    ) {
        let Some(block) = self.block else {
            return;
        };
        let key = site.key();
        let row = block.row_of(key, || profile.describe(key, &site.describe()));
        block.holds.stop_waiting();
        add(&block.row(row)[row::TIMED_OUT_COUNT], 1);
        let ns = waited(&block, profile, (row, key), wait, profile.clock().now());
        let sample = self.sampler.waited((profile, &block), site, wait.holder, ns);
        self.remember(profile, (lock, key), row, (block.pair_of(wait.holder, key), sample));
    }

    /// Records a wait on a condition: from `since`, when the lock was released for the wait, until
    /// now, when the thread has the lock again. Called before [`Recorder::acquired`].
    #[cold]
    pub fn slept(&mut self, profile: &Profile, site: &impl ProfiledSite, since: Stamp) {
        let Some(block) = self.block else {
            return;
        };
        let key = site.key();
        let row = block.row_of(key, || profile.describe(key, &site.describe()));
        let ns = profile.clock().ns_between(since, profile.clock().now());
        let row = block.row(row);
        add_max(row, row::ASLEEP_NS, ns);
        add(&row[row::ASLEEP_COUNT], 1);
    }

    /// Forgets this thread's failed try-locks of a lock that is being dropped, since another lock
    /// may get the lock's address.
    #[inline]
    pub fn destroyed(&mut self, lock: usize) {
        if self.tried_count > 0 {
            self.take_tried(lock);
        }
    }

    /// Gives the block back, so that another thread can continue its counts. The recorder records
    /// nothing from now on.
    pub fn leave(&mut self, profile: &Profile) {
        self.has_left = true;
        if let Some(block) = self.block.take() {
            // These holds will never be released; the next owner must not inherit them.
            block.holds.clear();
            claim::give_back(&profile.owners()[block.index]);
        }
    }

    /// Resets the recorder in a forked child, since its block belongs to the parent. The next
    /// attempt takes a block of the child's profile.
    pub fn forked(&mut self) {
        *self = Recorder::new();
    }

    /// Counts the delay from the thread's first failed try-lock of this lock until now.
    #[cold]
    fn settle(&mut self, profile: &Profile, lock: usize, now: Stamp) {
        self.forget_old_tries(profile, now);
        let (Some(tried), Some(block)) = (self.take_tried(lock), self.block) else {
            return;
        };
        let row = tried.row as usize;
        if !block.is_row_of(row, tried.key) {
            return;
        }
        let ns = profile.clock().ns_between(tried.since, now);
        let row = block.row(row);
        add_max(row, row::TRY_DELAY_NS, ns);
        add(&row[row::TRY_DELAY_COUNT], 1);
        if let Some(pair) = tried.pair.checked_sub(1) {
            add(&block.pair(pair as usize)[pair::TRY_DELAY_NS], ns);
        }
        if let Some(index) = tried.sample.checked_sub(1) {
            block.add_to_sample(index as usize, sample::TRY_DELAY_NS, ns);
        }
    }

    fn remember(
        &mut self,
        profile: &Profile,
        (lock, key): (usize, u64),
        row: usize,
        (pair, sample): (Option<usize>, Option<usize>),
    ) {
        let now = profile.clock().now();
        self.forget_old_tries(profile, now);
        if let Some(known) = self.tried.iter_mut().flatten().find(|tried| tried.lock == lock) {
            known.last = now;
            return;
        }
        // A free slot, or the slot whose last failure is the oldest.
        let oldest = self.tried.iter_mut().min_by_key(|tried| tried.map(|tried| tried.last));
        let Some(place) = oldest else {
            return;
        };
        match (&place, &self.block) {
            (Some(_), Some(block)) => block.count(block::TRIES_FORGOTTEN),
            _ => self.tried_count += 1,
        }
        let [pair, sample] = [pair, sample].map(|index| index.map_or(0, |index| index as u32 + 1));
        let (row, on_since) = (row as u32, profile.on_since());
        *place = Some(FailedTry { lock, key, since: now, last: now, row, pair, sample, on_since });
    }

    fn take_tried(&mut self, lock: usize) -> Option<FailedTry> {
        let is_of = |tried: &&mut Option<FailedTry>| tried.is_some_and(|tried| tried.lock == lock);
        let tried = self.tried.iter_mut().find(is_of)?.take();
        self.tried_count -= usize::from(tried.is_some());
        tried
    }

    /// Forgets failed try-locks from before the profile was last switched on, since acquisitions
    /// while it was off were not recorded. Also forgets failed try-locks that are too old, and
    /// counts them as forgotten, since their delay is unknown.
    fn forget_old_tries(&mut self, profile: &Profile, now: Stamp) {
        let on_since = profile.on_since();
        for place in &mut self.tried {
            let Some(tried) = place else {
                continue;
            };
            let is_old = profile.clock().ns_between(tried.last, now) > TRY_NS_MAX;
            if is_old || tried.on_since != on_since {
                if let (true, Some(block)) = (is_old, &self.block) {
                    block.count(block::TRIES_FORGOTTEN);
                }
                *place = None;
                self.tried_count -= 1;
            }
        }
    }

    /// Moves the times of all remembered failed try-locks `ns` into the past.
    #[cfg(test)]
    pub(super) fn age_tries(&mut self, ns: u64) {
        for tried in self.tried.iter_mut().flatten() {
            (tried.since, tried.last) = (tried.since.earlier(ns), tried.last.earlier(ns));
        }
    }

    fn forget_tries(&mut self) {
        self.tried = [None; TRIES_MAX];
        self.tried_count = 0;
    }
}

/// Counts a finished wait in the waiter's row and in the pair of holder and waiter. Returns the
/// length of the wait in nanoseconds.
#[cold]
fn waited(
    block: &ThreadBlock,
    profile: &Profile,
    (row, key): (usize, u64),
    wait: LockWait,
    now: Stamp,
) -> u64 {
    let ns = profile.clock().ns_between(wait.since, now);
    let cells = block.row(row);
    add(&cells[row::CONTENDED_COUNT], 1);
    add_time(cells, row::WAIT_NS, row::WAIT_BUCKETS, ns);
    if let Some(pair) = block.pair_of(wait.holder, key) {
        let pair = block.pair(pair);
        add(&pair[pair::WAIT_COUNT], 1);
        add(&pair[pair::WAIT_NS], ns);
        raise(&pair[pair::WAIT_NS_MAX], ns);
    }
    ns
}
