//! Mutual exclusion between participants of a region, any of which may be killed at any moment.
//!
//! A lock is one word of an area. `docs/format/region.md` has its bits, its states and the effects
//! of the death of its owner or of a waiter. After the death of an owner, each later owner is told
//! to repair the protected data, until one of them declares it repaired.
//!
//! Invariants:
//! - A word of zeros is a free lock.
//! - The owner's generation is in the word, and a dead participant never locks again. So a thread
//!   that replaces a word with a dead owner succeeds exactly that owner.
//! - No sleep is longer than [`SLEEP_MAX`], even if the waking thread dies.

mod futex;
mod guard;
mod lock;
#[cfg(all(test, loom))]
mod loom_tests;
mod watched;

pub use futex::Futex;
#[cfg(not(loom))]
pub use futex::SystemFutex;
pub use guard::RobustGuard;
pub use lock::{Liveness, LockError, RobustLock, SLEEP_MAX};

pub(crate) const OWNER_BITS: u64 = 0x00ff_ffff;
pub(crate) const REPAIR: u64 = 1 << 30;
pub(crate) const WAITERS: u64 = 1 << 31;
