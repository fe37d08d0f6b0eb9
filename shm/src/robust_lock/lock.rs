//! Locking, taking over the lock of a dead owner, unlocking.

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

/// The longest sleep of a waiter between two checks of the owner: long enough that the checks cost
/// nothing, short enough that users do not notice the delay after a death.
pub const SLEEP_MAX: Duration = Duration::from_millis(50);

/// A locking participant, and its knowledge of the others.
pub trait Liveness {
    /// The id of this participant.
    fn id(&self) -> ParticipantId;

    /// The region of this participant. In another region the same id names another participant.
    fn region_id(&self) -> RegionId;

    /// Whether a participant is alive. `false` is final, and everything that the dead participant
    /// stored is then visible to the caller. `true` may be outdated.
    fn is_alive(&self, id: ParticipantId) -> bool;
}

/// Why a lock was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockError {
    /// This participant holds the lock already, so it would wait for ever.
    AlreadyHeld,
    /// Other participants held the lock for the whole time.
    TimedOut,
    /// The participant belongs to another region than the lock.
    OtherRegion,
}

impl fmt::Display for LockError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            LockError::AlreadyHeld => {
                "this participant holds the lock already; drop its guard before locking again"
            }
            LockError::TimedOut => {
                "other participants held the lock until the wait timed out; try again, or find \
                 the owner, which may be stopped"
            }
            LockError::OtherRegion => {
                "the participant belongs to another region than the lock; lock with a participant \
                 of the lock's region"
            }
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

/// The result of an attempt to lock.
enum Attempt {
    /// The lock is taken. The flag tells whether the protected data needs repair.
    Taken(bool),
    HeldByAnother,
    WordChanged,
}

#[cfg(not(loom))]
impl RobustLock<Area, SystemFutex> {
    /// Makes a view of the lock in a word, for the participants of the area's region. The word must
    /// initially be zero, and only such locks may write it. If several `RobustLock`s use one word,
    /// the profiler learns from each only about the holds that were acquired through it.
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
    /// Makes a lock in any words, with the caller's futex.
    ///
    /// # Panics
    /// If there is no such word.
    pub fn with_futex(words: W, index: usize, futex: F, region: RegionId) -> Self {
        RobustLock::in_words((words, index), futex, region, Watched)
    }
}

impl<W: Words, F: Futex> RobustLock<W, F> {
    fn in_words((words, index): (W, usize), futex: F, region: RegionId, watched: Watched) -> Self {
        let count = words.word_count();
        assert!(index < count, "a lock cannot lie in word {index}: the area has {count} words");
        RobustLock { words, index, futex, region, watched }
    }

    /// Waits until this participant holds the lock.
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

    /// Waits at most `at_most` for the lock.
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

    /// Takes the lock unless a living participant holds it; never sleeps.
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

    /// The holder of the lock, alive or dead; `None` if it is free.
    pub fn owner(&self) -> Option<ParticipantId> {
        owner_of(self.word().load(Relaxed))
    }

    /// Frees the lock and marks it as in need of repair, if this dead participant owns it. Returns
    /// whether it did. A sweep calls this for every lock. Without the call, the next owner would
    /// detect the death by itself.
    pub fn abandon(&self, dead: &Dead) -> bool {
        let mut seen = self.word().load(Relaxed);
        while dead.region() == self.region && owner_of(seen) == Some(dead.id()) {
            // ORDER: pairs with `robust.enter`: the caller sees what the dead owner stored, and the
            // next owner sees it from here.
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
        // A thread that has slept cannot know whether other threads still sleep. So it keeps the
        // mark `WAITERS`, and wakes a sleeper when it unlocks or gives up.
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
                    // The wake-up that ended our sleep may have been meant for a thread that still
                    // sleeps.
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

    /// Tries to take the lock, given the loaded word. `extra` is `WAITERS` for a thread that has
    /// slept.
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
        // ORDER: pairs with `robust.look`: a thread that sees us in the word sees that we joined,
        // so it does not take us for dead.
        let order = release("robust.own");
        if self.word().compare_exchange(seen, ours, order, Relaxed).is_err() {
            return Ok(Attempt::WordChanged);
        }
        // ORDER: pairs with `robust.unlock` and `robust.abandon`: we see what owners before us
        // stored, since our swap of the word continues theirs. The stores of a dead owner are
        // visible through `is_alive`. This is a load and not a fence, since ThreadSanitizer
        // does not understand fences.
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

    /// Marks the word, so that the owner wakes a thread when it unlocks. Returns false if the word
    /// has changed.
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

/// The bits of a word that name the owner.
const OWNER_MASK: u64 = OWNER_BITS | 0xffff_ffff << 32;

fn word_of(id: ParticipantId) -> u64 {
    let row = u64::from(id.row) + 1;
    assert!(
        row <= OWNER_BITS,
        "row {} of a participant is too large for the word of a lock",
        id.row
    );
    u64::from(id.generation) << 32 | row
}

fn owner_of(word: u64) -> Option<ParticipantId> {
    let row = (word & OWNER_BITS).checked_sub(1)?;
    Some(ParticipantId { row: row as u32, generation: (word >> 32) as u32 })
}
