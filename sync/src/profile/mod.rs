//! The lock profiler: records the events at locks in words that can outlive the program.
//!
//! A [`Profile`] lies in words that may be mapped from a file; `docs/format/locks.md` describes
//! them. Each thread has a [`Recorder`], and a block of the profile that only this thread writes.
//! Any process can read all blocks into a [`ProfileSnapshot`]. The locks of this crate record their
//! events once a profile is [`install`]ed.
//!
//! | file | holds |
//! |---|---|
//! | `plan.rs` | the layout of a profile |
//! | `shared.rs` | switches, tables of sites, modules and text |
//! | `block.rs`, `claim.rs`, `clear.rs` | the words of one thread, their owner, a reset |
//! | `holds.rs` | the locks that a thread holds now, for waiters and for tools |
//! | `recorder.rs`, `attempt.rs` | attempts and holds of a thread, for any kind of lock |
//! | `samples.rs`, `stack.rs` | the call stacks of some waits and failed try-locks |
//! | `current.rs` | the profile of this process's own locks |
//! | `processes.rs` | the number of processes of a recording |
//! | `read/` | reading a profile into a snapshot |
//! | `clock.rs`, `hash.rs` | time stamps, keys |
//!
//! Invariants:
//! - Recording allocates nothing, takes no lock and does no I/O.
//! - An event for which a table has no row is counted in another place, so no event is lost
//!   silently.
//! - No thread waits because a profile is reset, switched on or off, or read.

#[cfg(not(loom))]
mod attempt;
#[cfg(not(loom))]
mod block;
mod claim;
mod clear;
#[cfg(not(loom))]
mod clock;
#[cfg(not(loom))]
pub(crate) mod current;
#[cfg(not(loom))]
mod hash;
#[cfg(not(loom))]
mod holds;
#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(not(loom))]
mod plan;
#[cfg(not(loom))]
mod processes;
#[cfg(not(loom))]
mod read;
#[cfg(not(loom))]
mod recorder;
#[cfg(not(loom))]
mod samples;
#[cfg(not(loom))]
mod shared;
#[cfg(not(loom))]
mod stack;
#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(not(loom))]
pub use {
    attempt::{Acquisition, LockWait, ProfiledSite},
    block::ThreadIdentity,
    clock::{Clock, Stamp},
    current::{AlreadyWatched, install, installed},
    hash::hash_words,
    holds::ProfiledHold,
    plan::{BUCKET_COUNT, ProfilePlan, StackPlan, Switch, bucket_end_ns},
    processes::{COUNTED_BYTES, count_process},
    read::{
        LockNow, ModuleRead, PairRead, PairTotals, ProfileBytes, ProfileControl, ProfileError,
        ProfileErrorKind, ProfileHeader, ProfileSnapshot, SampleRead, SharedCounts, SiteRead,
        SiteTotals, StackRead, ThreadCounts, ThreadNow, ThreadRead, plain_text,
    },
    recorder::Recorder,
    shared::{ProcessIdentity, Profile, SiteDescription, SiteKind},
    stack::with_known_stack,
};
