//! What one thread does to record its locks. Allocates nothing, takes no lock, does no I/O.

use super::attempt::{Acquisition, HoldRecord, LockWait, ProfiledSite};
use super::block::{ThreadBlock, ThreadIdentity, add, add_max, add_time, raise};
use super::claim;
use super::clock::Stamp;
use super::holds::ProfiledHold;
use super::plan::{HOLDS_MAX, block, header, pair, row, sample};
use super::samples::Sampler;
use super::shared::Profile;

/// Locks of which a thread remembers that it has tried them in vain.
const TRIES_MAX: usize = 16;

/// How long a try in vain waits for the next one. Who wants a lock asks again, within milliseconds
/// mostly; after this long nobody can say that the thread wants it still, nor that the lock is the
/// same: one that was freed without a word may have left its address to another.
pub(super) const TRY_NS_MAX: u64 = 10_000_000_000;

/// Attempts that are lost before a thread without a block looks for one again.
const LOST_BEFORE_LOOK: u32 = 256;

/// A lock that was tried in vain.
#[derive(Clone, Copy, Debug)]
struct FailedTry {
    lock: usize,
    key: u64,
    /// The first time, and the last.
    since: Stamp,
    last: Stamp,
    row: u32,
    /// One above the pair; 0 for none.
    pair: u32,
    /// One above the sample; 0 for none.
    sample: u32,
    /// The profile was on [since then](Profile::on_since).
    on_since: u64,
}

/// How a thread records: its own, wherever it keeps it. All calls are for the same profile.
///
/// An attempt goes `begin`, then `begin_wait` if it has to, then `acquired`, `try_failed`,
/// `timed_out` or `give_up`; a hold ends with `released` or `forget_holds`. An attempt that is not
/// recorded goes `begin`, then `acquired_silently` if it gets the lock. Before a thread ends it
/// calls `leave`.
#[derive(Debug)]
#[repr(C)]
pub struct Recorder {
    // What each attempt needs comes first: few lines of memory.
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

    /// Is this attempt recorded? To be asked first, while the profile is on. `thread` is asked for
    /// when the thread gets a block; none for a thread that could not give it back.
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

    /// This attempt cannot be recorded, for want of room where the caller keeps its holds.
    #[cold]
    pub fn pass_over(&mut self, profile: &Profile) -> bool {
        profile.count(header::LOST, 1);
        false
    }

    #[inline(never)]
    fn skip(&mut self, profile: &Profile) -> bool {
        // Sampling may have been changed meanwhile.
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

    /// The lock is this thread's from now on: others see at once that it is. Without room for that
    /// the oldest hold of the thread is forgotten, and counts as lost.
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

    /// Is there room for one more hold?
    #[inline(always)]
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.block.as_ref().is_none_or(|block| block.holds.has_room())
    }

    /// The hold that has this [index](ProfiledHold::index).
    #[inline(always)]
    #[must_use]
    pub fn hold_at(&self, index: u32) -> Option<ProfiledHold> {
        self.block.as_ref()?.holds.at(index)
    }

    /// The latest hold of a lock by this thread. It goes on.
    #[inline(always)]
    #[must_use]
    pub fn find_hold(&self, lock: usize) -> Option<ProfiledHold> {
        self.block.as_ref()?.holds.find(lock).map(|(hold, _)| hold)
    }

    /// The lock is no more, or another: holds of it are over, and nobody knows since when. Says how
    /// many there were.
    #[inline]
    pub fn forget_holds(&mut self, lock: usize) -> u64 {
        let Some(block) = &self.block else {
            return 0;
        };
        let mut count = 0;
        // No more than there can be: others may write what is looked at.
        while let Some((hold, _)) = block.holds.find(lock).filter(|_| count < HOLDS_MAX as u64) {
            block.holds.remove(&hold);
            count += 1;
        }
        count
    }

    /// The lock is found held, and is waited for from now on: until it is `acquired`, or the wait
    /// has `timed_out`, or is [given up](Recorder::give_up).
    #[cold]
    #[must_use]
    pub fn begin_wait(&self, profile: &Profile, site: &impl ProfiledSite, lock: usize) -> LockWait {
        let since = profile.clock().now();
        if let Some(block) = &self.block {
            let key = site.key();
            // The wait may be the last thing that this thread does: tools are told now.
            if !block.has(key) {
                profile.describe(key, &site.describe());
            }
            block.holds.wait_for(lock, key, since);
        }
        LockWait { since, holder: profile.holder_in_the_way(lock) }
    }

    /// The wait ended with an error, and without the lock.
    #[cold]
    pub fn give_up(&self) {
        if let Some(block) = &self.block {
            block.holds.stop_waiting();
        }
    }

    /// The lock is this thread's by an attempt that is not recorded.
    #[inline]
    pub fn acquired_silently(&mut self, profile: &Profile, lock: usize) {
        if self.tried_count > 0 {
            self.settle(profile, lock, profile.clock().now());
        }
    }

    /// The lock is left.
    #[inline(always)]
    pub fn released(&mut self, profile: &Profile, hold: &ProfiledHold) {
        self.released_at(profile, hold, profile.clock().now());
    }

    /// The lock was left at that moment, just before other threads could take it.
    #[inline(always)]
    pub fn released_at(&mut self, profile: &Profile, hold: &ProfiledHold, now: Stamp) {
        let Some(block) = &self.block else {
            return;
        };
        block.holds.remove(hold);
        // What began before a reset is no part of what is recorded now. In one generation a row
        // stays what it is.
        let held = &hold.held;
        if held.generation == self.generation as u32 {
            let ns = profile.clock().ns_between(held.since, now);
            let row = block.row(held.row as usize);
            add_time(row, row::HOLD_NS, row::HOLD_BUCKETS, ns);
        }
    }

    /// The lock was tried, and somebody had it; `holder` as in [`LockWait`].
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

    /// The lock was waited for until time was up.
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

    /// This thread waited for something to happen, without the lock, and has just taken it back:
    /// how long both took together. Called before [`Recorder::acquired`].
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

    /// The lock is no more: another may come to lie where it lay.
    #[inline]
    pub fn destroyed(&mut self, lock: usize) {
        if self.tried_count > 0 {
            self.take_tried(lock);
        }
    }

    /// Gives the block back, with its counts, for another thread to go on with. Nothing is recorded
    /// any more.
    pub fn leave(&mut self, profile: &Profile) {
        self.has_left = true;
        if let Some(block) = self.block.take() {
            // What it still has nobody will leave; and nobody is to take it for the next owner's.
            block.holds.clear();
            claim::give_back(&profile.owners()[block.index]);
        }
    }

    /// In a child that was forked off: the block is still the parent's. The next call finds another
    /// one, in whatever profile the child has.
    pub fn forked(&mut self) {
        *self = Recorder::new();
    }

    /// From the first try in vain until now the lock kept this thread from what it was to do.
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
        // A free place, or that of the one that was given up longest ago.
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

    /// While the profile was off, nobody told us which locks we got. What is merely too old is
    /// counted: its delay is not known.
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

    /// As if all tries had been made earlier.
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

/// Counts a wait that is over, in the waiter's row and for the pair of holder and waiter; says how
/// long it was.
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
