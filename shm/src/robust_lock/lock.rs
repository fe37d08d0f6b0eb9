//! Locking, taking over, unlocking.

use std::fmt;
use std::time::Duration;

#[cfg(not(loom))]
use forebay_sync::LockClass;
use forebay_sync::Words;
use forebay_sync::atomic::{AtomicU64, Relaxed, acquire, release};

use super::futex::Futex;
#[cfg(not(loom))]
use super::futex::SystemFutex;
use super::guard::RobustGuard;
use super::watched::Watched;
use super::{OWNER_BITS, REPAIR, WAITERS};
use crate::crash_point;
use crate::participant::{Dead, ParticipantId, RegionId};
#[cfg(not(loom))]
use crate::region::Area;

/// The longest sleep before a waiter looks whether the owner still lives: long enough to cost
/// nothing, short enough that nobody notices a death.
pub const SLEEP_MAX: Duration = Duration::from_millis(50);

/// Who locks, and what it knows of the others.
pub trait Liveness {
    /// Who asks.
    fn id(&self) -> ParticipantId;

    /// Where it takes part: elsewhere its id means somebody else.
    fn region_id(&self) -> RegionId;

    /// Does this participant live? *No* is final, and makes everything visible that it stored;
    /// *yes* may be late.
    fn is_alive(&self, id: ParticipantId) -> bool;
}

/// The lock was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockError {
    /// This participant has it already: waiting would last for ever.
    AlreadyHeld,
    /// Somebody else had it for the whole time.
    TimedOut,
    /// Who asks takes part in another region.
    OtherRegion,
}

impl fmt::Display for LockError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            LockError::AlreadyHeld => "this participant holds the lock already",
            LockError::TimedOut => "another participant held the lock for the whole time",
            LockError::OtherRegion => "the participant takes part in another region",
        })
    }
}

impl std::error::Error for LockError {}

/// A lock in the word `index` of `words`, shared by all participants of a region.
#[derive(Debug)]
pub struct RobustLock<W, F> {
    words: W,
    index: usize,
    futex: F,
    region: RegionId,
    watched: Watched,
}

/// How an attempt to lock went.
enum Attempt {
    /// Must what the lock protects be repaired?
    Taken(bool),
    HeldByAnother,
    WordChanged,
}

#[cfg(not(loom))]
impl RobustLock<Area, SystemFutex> {
    /// The lock in a word that holds zero or what such a lock left in it, for the participants of
    /// the area's region. Of several locks in one word each tells of its own holders only.
    ///
    /// # Panics
    /// If there is no such word.
    pub fn new(area: Area, index: usize, class: LockClass) -> Self {
        let region = area.region_id();
        RobustLock::in_words((area, index), SystemFutex, region, Watched::new(class))
    }
}

#[cfg(loom)]
impl<W: Words, F: Futex> RobustLock<W, F> {
    /// The same in any words, with a place to sleep of the caller's.
    ///
    /// # Panics
    /// If there is no such word.
    pub fn with_futex(words: W, index: usize, futex: F, region: RegionId) -> Self {
        RobustLock::in_words((words, index), futex, region, Watched)
    }
}

impl<W: Words, F: Futex> RobustLock<W, F> {
    fn in_words((words, index): (W, usize), futex: F, region: RegionId, watched: Watched) -> Self {
        assert!(index < words.word_count(), "there is no word {index}");
        RobustLock { words, index, futex, region, watched }
    }

    /// Waits until the lock is this participant's.
    ///
    /// # Errors
    /// [`LockError::AlreadyHeld`], [`LockError::OtherRegion`].
    #[track_caller]
    pub fn lock<'a>(
        &'a self,
        member: &'a impl Liveness,
    ) -> Result<RobustGuard<'a, W, F>, LockError> {
        self.acquire(member, None)
    }

    /// The same, but waits no longer than `at_most`.
    ///
    /// # Errors
    /// [`LockError::AlreadyHeld`], [`LockError::OtherRegion`], [`LockError::TimedOut`].
    #[track_caller]
    pub fn lock_within<'a>(
        &'a self,
        member: &'a impl Liveness,
        at_most: Duration,
    ) -> Result<RobustGuard<'a, W, F>, LockError> {
        self.acquire(member, Some(self.futex.now().saturating_add(at_most)))
    }

    /// The lock, if nobody alive has it; never sleeps.
    ///
    /// # Errors
    /// [`LockError::AlreadyHeld`], [`LockError::OtherRegion`].
    #[track_caller]
    pub fn try_lock<'a>(
        &'a self,
        member: &'a impl Liveness,
    ) -> Result<Option<RobustGuard<'a, W, F>>, LockError> {
        let telling = self.watched.begin();
        loop {
            let seen = self.look();
            match self.attempt(seen, 0, member)? {
                Attempt::Taken(must_repair) => {
                    let owner = word_of(member.id());
                    return Ok(Some(RobustGuard::new(
                        self,
                        must_repair,
                        telling.acquired(owner, must_repair),
                    )));
                }
                Attempt::HeldByAnother => {
                    telling.failed(seen & OWNER_MASK);
                    return Ok(None);
                }
                Attempt::WordChanged => {}
            }
        }
    }

    /// Who has the lock, alive or dead; `None` if it is free.
    pub fn owner(&self) -> Option<ParticipantId> {
        owner_of(self.word().load(Relaxed))
    }

    /// Says that a sweep found the owner dead, if it is this one: the lock becomes free and in need
    /// of repair. A sweep does this for every lock; without it the next owner would find out by
    /// itself.
    pub fn abandon(&self, dead: &Dead) -> bool {
        let mut seen = self.word().load(Relaxed);
        while dead.region() == self.region && owner_of(seen) == Some(dead.id()) {
            // ORDER: pairs with `robust.enter`: the caller knows what the dead one stored, and the
            // next owner learns it from here.
            let order = release("robust.abandon");
            match self.word().compare_exchange(seen, REPAIR, order, Relaxed) {
                Ok(_) => {
                    crash_point!("lock.abandoned");
                    if seen & WAITERS != 0 {
                        self.futex.wake_one(self.word());
                    }
                    return true;
                }
                Err(now) => seen = now,
            }
        }
        false
    }

    #[track_caller]
    fn acquire<'a>(
        &'a self,
        member: &'a impl Liveness,
        deadline: Option<Duration>,
    ) -> Result<RobustGuard<'a, W, F>, LockError> {
        // Who has slept cannot know whether others still sleep, so it must wake one in the end.
        let mut slept = 0;
        let mut telling = self.watched.begin();
        loop {
            let seen = self.look();
            let attempt = match self.attempt(seen, slept, member) {
                Ok(attempt) => attempt,
                Err(error) => {
                    telling.given_up();
                    return Err(error);
                }
            };
            match attempt {
                Attempt::Taken(must_repair) => {
                    let owner = word_of(member.id());
                    return Ok(RobustGuard::new(
                        self,
                        must_repair,
                        telling.acquired(owner, must_repair),
                    ));
                }
                Attempt::HeldByAnother => telling.waits(seen & OWNER_MASK),
                Attempt::WordChanged => continue,
            }
            let left = deadline.map(|deadline| deadline.saturating_sub(self.futex.now()));
            if left == Some(Duration::ZERO) {
                if slept != 0 {
                    // The wake-up that ended our sleep may have been meant for who sleeps on.
                    self.futex.wake_one(self.word());
                }
                telling.failed(seen & OWNER_MASK);
                return Err(LockError::TimedOut);
            }
            if self.mark_waiting(seen) {
                slept = WAITERS;
                let sleep = left.map_or(SLEEP_MAX, |left| left.min(SLEEP_MAX));
                self.futex.wait(self.word(), (seen | WAITERS) as u32, sleep);
                crash_point!("lock.woken");
            }
        }
    }

    /// One step from the word as it was seen. `extra` is `WAITERS` for who has slept.
    fn attempt(&self, seen: u64, extra: u64, member: &impl Liveness) -> Result<Attempt, LockError> {
        if member.region_id() != self.region {
            return Err(LockError::OtherRegion);
        }
        let kept = match owner_of(seen) {
            None => seen & REPAIR,
            Some(owner) if owner == member.id() => return Err(LockError::AlreadyHeld),
            Some(owner) if member.is_alive(owner) => return Ok(Attempt::HeldByAnother),
            Some(_dead) => seen & WAITERS | REPAIR,
        };
        let ours = word_of(member.id()) | kept | extra;
        // ORDER: pairs with `robust.look`: who sees us in the word sees that we joined, and so does
        // not take us for dead.
        let order = release("robust.own");
        if self.word().compare_exchange(seen, ours, order, Relaxed).is_err() {
            return Ok(Attempt::WordChanged);
        }
        // ORDER: pairs with `robust.unlock` and `robust.abandon`: we see what owners before us
        // stored, since our swap of the word continues theirs. What a dead owner stored we know
        // from `is_alive`. A load of our own, and no fence, since ThreadSanitizer can follow it.
        self.word().load(acquire("robust.enter"));
        crash_point!("lock.acquired");
        if ours & REPAIR != 0 {
            crash_point!("lock.acquired_to_repair");
        }
        Ok(Attempt::Taken(ours & REPAIR != 0))
    }

    fn look(&self) -> u64 {
        // ORDER: pairs with `robust.own`.
        self.word().load(acquire("robust.look"))
    }

    /// Makes the owner wake somebody when it unlocks; no, if the word has changed meanwhile.
    fn mark_waiting(&self, seen: u64) -> bool {
        if seen & WAITERS != 0 {
            return true;
        }
        let marked = self.word().compare_exchange(seen, seen | WAITERS, Relaxed, Relaxed).is_ok();
        crash_point!("lock.waiting");
        marked
    }

    pub(super) fn unlock(&self, must_repair: bool) {
        let free = if must_repair { REPAIR } else { 0 };
        crash_point!("lock.before_unlock");
        // ORDER: pairs with `robust.enter`: the next owner sees what we stored.
        let ours = self.word().swap(free, release("robust.unlock"));
        crash_point!("lock.unlocked");
        if ours & WAITERS != 0 {
            self.futex.wake_one(self.word());
        }
    }

    pub(super) fn clear_repair(&self) {
        self.word().fetch_and(!REPAIR, Relaxed);
        crash_point!("lock.repaired");
    }

    fn word(&self) -> &AtomicU64 {
        self.words.word(self.index)
    }
}

/// The bits of a word that say who the owner is.
const OWNER_MASK: u64 = OWNER_BITS | 0xffff_ffff << 32;

fn word_of(id: ParticipantId) -> u64 {
    let row = u64::from(id.row) + 1;
    assert!(row <= OWNER_BITS, "no region has a row {}", id.row);
    u64::from(id.generation) << 32 | row
}

fn owner_of(word: u64) -> Option<ParticipantId> {
    let row = (word & OWNER_BITS).checked_sub(1)?;
    Some(ParticipantId { row: row as u32, generation: (word >> 32) as u32 })
}
