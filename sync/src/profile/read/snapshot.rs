//! The contents of a profile as plain numbers and text.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::profile::plan::{BUCKET_COUNT, ProfilePlan};
use crate::profile::shared::SiteKind;

/// The contents of a profile, as read at one time.
#[derive(Clone, Debug)]
pub struct ProfileSnapshot {
    /// The process of the profile, and the capacity of the profile's parts.
    pub about: ProfileHeader,
    /// The control words of the profile.
    pub control: ProfileControl,
    /// The counts that all threads share.
    pub counts: SharedCounts,
    /// The call sites by their keys. A key is missing if the site table was full, or if a thread
    /// was still writing the description of the site.
    pub sites: BTreeMap<u64, SiteRead>,
    /// The sampled call stacks by their keys. A key is missing if the stack table was full, or if a
    /// thread was still writing the stack.
    pub stacks: BTreeMap<u64, StackRead>,
    /// The mapped parts of programs and libraries.
    pub modules: Vec<ModuleRead>,
    /// The blocks that were in use since the last reset.
    pub threads: Vec<ThreadRead>,
    /// The present holds and waits of the threads that are alive, or that were alive when the
    /// program ended.
    pub now: Vec<ThreadNow>,
}

/// The present holds and the wait of a thread: at the time of the snapshot, or when the program
/// ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadNow {
    /// The thread id.
    pub tid: u32,
    /// The name of the thread.
    pub name: String,
    /// The holds of the thread, the oldest first.
    pub holds: Vec<LockNow>,
    /// The lock that the thread waits for.
    pub awaited: Option<LockNow>,
}

/// A lock that a thread holds or waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LockNow {
    /// The start of the hold or wait, in nanoseconds since 1970.
    pub since_unix_ns: u64,
    /// The address of the lock.
    pub lock: u64,
    /// The key of the call site.
    pub site: u64,
    /// Whether the lock is held for reading, so that other readers may hold it too.
    pub is_shared: bool,
}

/// The part of a profile's header that does not change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileHeader {
    /// The process id.
    pub pid: u32,
    /// The start of the process, in clock ticks since boot; 0 if unknown.
    pub start_ticks: u64,
    /// The kernel's random id of the boot in which the process ran; zeros if unknown.
    pub boot_id: [u8; 16],
    /// When the profile was made, in nanoseconds since 1970.
    pub created_unix_ns: u64,
    /// Ticks per second of the clock by which the profile was recorded. (Times in a snapshot are in
    /// nanoseconds.)
    pub clock_hz: u64,
    /// The program, as it was started.
    pub program: String,
    /// The value of the profile's clock when the profile was made.
    pub created_ticks: u64,
    /// The kind of the sites.
    pub kind: SiteKind,
    /// The capacity of the profile's parts.
    pub plan: ProfilePlan,
}

/// The control words of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProfileControl {
    /// Whether attempts are recorded.
    pub is_on: bool,
    /// The number of attempts that a thread skips after each attempt that it records.
    pub skip: u64,
    /// A thread records the call stack of one in this many waits and failed try-locks; 0 means
    /// none.
    pub stack_sample: u64,
    /// The generation, which grows with each reset.
    pub generation: u64,
    /// The time of the last reset, or else the time when the profile was made, in nanoseconds since
    /// 1970.
    pub reset_unix_ns: u64,
}

/// Counts that all threads share, since the profile was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedCounts {
    /// The number of rows of the site table that are in use.
    pub sites_used: u64,
    /// The number of times that a site could not be described because the site table was full.
    pub sites_rejected: u64,
    /// The number of times that a probe of the site table visited the row of another key.
    pub site_collisions: u64,
    /// The number of names and paths that were dropped because they did not fit.
    pub texts_rejected: u64,
    /// The number of modules that were dropped because the module table was full.
    pub modules_rejected: u64,
    /// The number of threads that got a block.
    pub threads_started: u64,
    /// The number of attempts that were not recorded because the thread had no block or too many
    /// holds, and of holds whose end was not recorded.
    pub lost: u64,
    /// In the profile of the recording's first process: the number of other processes that have a
    /// profile.
    pub processes: u64,
    /// In the profile of the recording's first process: the number of other processes that were
    /// refused a profile.
    pub processes_refused: u64,
    /// The number of rows of the stack table that are in use.
    pub stacks_used: u64,
    /// The number of times that a call stack was dropped because the stack table was full.
    pub stacks_rejected: u64,
    /// The number of times that a probe of the stack table visited the row of another key.
    pub stack_collisions: u64,
}

/// A call site at which locks are taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SiteRead {
    /// The lock's class, or the kind of lock.
    pub name: Arc<str>,
    /// The source file; empty if the site has return addresses.
    pub place: Arc<str>,
    /// The line in the source file.
    pub line: u32,
    /// The column in that line.
    pub column: u32,
    /// The address of the lock; 0 if the site is for many locks.
    pub lock: u64,
    /// Return addresses, the innermost first.
    pub frames: Vec<u64>,
}

/// A call stack that led to a call site.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackRead {
    /// The key of the site.
    pub site: u64,
    /// Return addresses, the innermost first.
    pub frames: Vec<u64>,
}

/// A mapped part of a program or library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleRead {
    /// The first address of the mapping.
    pub start: u64,
    /// The address after the last byte of the mapping.
    pub end: u64,
    /// The offset in the file at which the mapping begins.
    pub file_offset: u64,
    /// The path of the file.
    pub path: Arc<str>,
}

/// The contents of one block: the counts of a thread, or of several threads one after another.
#[derive(Clone, Debug)]
pub struct ThreadRead {
    /// The thread id of the last owner.
    pub tid: u32,
    /// The name of the last owner.
    pub name: String,
    /// Whether a thread owned the block when it was read, or when the program ended.
    pub is_taken: bool,
    /// The number of owners since the last reset.
    pub owner_count: u64,
    /// Counts of the use of the block's tables.
    pub counts: ThreadCounts,
    /// The totals by site; key 0 is for sites without a row of their own.
    pub rows: Vec<(u64, SiteTotals)>,
    /// The waits and failed try-locks for each pair of a holder's site and a waiter's site.
    pub pairs: Vec<PairRead>,
    /// The time lost on the sampled call stacks.
    pub samples: Vec<SampleRead>,
}

/// Counts of the use of a block's tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadCounts {
    /// The number of rows in use.
    pub rows_used: u64,
    /// The number of events that were counted in the shared row, because their site found no row.
    pub rows_rejected: u64,
    /// The number of times that a probe of the rows visited the row of another key.
    pub row_collisions: u64,
    /// The number of pairs in use.
    pub pairs_used: u64,
    /// The number of events that were counted in no pair, because the table of pairs was full.
    pub pairs_rejected: u64,
    /// The number of times that a probe of the pairs visited another pair.
    pub pair_collisions: u64,
    /// The number of failed try-locks whose delay is not counted because they were forgotten: the
    /// thread needed their place for another lock, or the last failure was too long ago.
    pub tries_forgotten: u64,
    /// The number of attempts that were skipped, because the profile records only some attempts.
    pub skipped: u64,
    /// The number of samples in use.
    pub samples_used: u64,
    /// The number of events that were counted in no sample, because the table of samples was full.
    pub samples_rejected: u64,
    /// The number of times that a probe of the samples visited another sample.
    pub sample_collisions: u64,
}

/// The totals of a site. Adding totals saturates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SiteTotals {
    /// The number of acquisitions.
    pub count: u64,
    /// The number of acquisitions for reading.
    pub shared_count: u64,
    /// The number of acquisitions of a lock whose last owner had died.
    pub owner_died_count: u64,
    /// The total time of all holds.
    pub hold_ns: u64,
    /// The time of the longest hold.
    pub hold_ns_max: u64,
    /// The total time of all waits.
    pub wait_ns: u64,
    /// The time of the longest wait.
    pub wait_ns_max: u64,
    /// The number of waits, with or without success.
    pub contended_count: u64,
    /// The number of failed try-locks.
    pub try_failed_count: u64,
    /// The number of waits that reached their time limit.
    pub timed_out_count: u64,
    /// The total of all delays after failed attempts. A delay lasts from a thread's first failed
    /// try-lock, or timed-out wait, until the thread acquires the lock.
    pub try_delay_ns: u64,
    /// The longest delay after a failed attempt.
    pub try_delay_ns_max: u64,
    /// The number of delays after failed attempts.
    pub try_delay_count: u64,
    /// The total time of all waits on conditions, each until the thread has the lock again.
    pub asleep_ns: u64,
    /// The time of the longest wait on a condition.
    pub asleep_ns_max: u64,
    /// The number of waits on conditions.
    pub asleep_count: u64,
    /// A histogram of the lengths of holds.
    pub holds: [u64; BUCKET_COUNT],
    /// A histogram of the lengths of waits.
    pub waits: [u64; BUCKET_COUNT],
}

/// The waits and failed try-locks for one pair of a holder's site and a waiter's site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PairRead {
    /// The key of the holder's site; 0 if unknown.
    pub holder: u64,
    /// The key of the waiter's site.
    pub waiter: u64,
    /// The totals of this pair.
    pub totals: PairTotals,
}

/// The time lost on one call stack to the holders of one site, as far as it was sampled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SampleRead {
    /// The key of the stack.
    pub stack: u64,
    /// The key of the holder's site; 0 if unknown.
    pub holder: u64,
    /// The key of the waiter's site.
    pub waiter: u64,
    /// The totals of this sample.
    pub totals: PairTotals,
}

/// The totals of waits and failed try-locks, for one pair of a holder's site and a waiter's site,
/// or for one call stack and a holder's site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PairTotals {
    /// The number of waits.
    pub wait_count: u64,
    /// The total time of all waits.
    pub wait_ns: u64,
    /// The time of the longest wait.
    pub wait_ns_max: u64,
    /// The number of failed try-locks.
    pub try_failed_count: u64,
    /// The total of all delays after failed attempts, each counted as for
    /// [`SiteTotals::try_delay_ns`].
    pub try_delay_ns: u64,
}

impl ProfileHeader {
    /// Converts a clock value to nanoseconds since 1970.
    #[must_use]
    pub fn unix_ns(&self, ticks: u64) -> u64 {
        const NS_PER_S: u128 = 1_000_000_000;
        let ticks = u128::from(ticks.saturating_sub(self.created_ticks));
        let ns = ticks * NS_PER_S / u128::from(self.clock_hz.max(1));
        self.created_unix_ns.saturating_add(u64::try_from(ns).unwrap_or(u64::MAX))
    }
}

impl SiteTotals {
    /// The number of failed attempts: failed try-locks, and waits that reached their time limit.
    #[must_use]
    pub fn failed_count(&self) -> u64 {
        self.try_failed_count.saturating_add(self.timed_out_count)
    }

    /// Adds the totals of another site.
    pub fn add(&mut self, other: &SiteTotals) {
        for (sum, n) in [
            (&mut self.count, other.count),
            (&mut self.shared_count, other.shared_count),
            (&mut self.owner_died_count, other.owner_died_count),
            (&mut self.hold_ns, other.hold_ns),
            (&mut self.wait_ns, other.wait_ns),
            (&mut self.contended_count, other.contended_count),
            (&mut self.try_failed_count, other.try_failed_count),
            (&mut self.timed_out_count, other.timed_out_count),
            (&mut self.try_delay_ns, other.try_delay_ns),
            (&mut self.try_delay_count, other.try_delay_count),
            (&mut self.asleep_ns, other.asleep_ns),
            (&mut self.asleep_count, other.asleep_count),
        ] {
            *sum = sum.saturating_add(n);
        }
        self.hold_ns_max = self.hold_ns_max.max(other.hold_ns_max);
        self.wait_ns_max = self.wait_ns_max.max(other.wait_ns_max);
        self.try_delay_ns_max = self.try_delay_ns_max.max(other.try_delay_ns_max);
        self.asleep_ns_max = self.asleep_ns_max.max(other.asleep_ns_max);
        let buckets = self.holds.iter_mut().zip(other.holds);
        for (sum, n) in buckets.chain(self.waits.iter_mut().zip(other.waits)) {
            *sum = sum.saturating_add(n);
        }
    }
}

impl PairTotals {
    /// The time lost by waits and by delays after failed attempts.
    #[must_use]
    pub fn lost_ns(&self) -> u64 {
        self.wait_ns.saturating_add(self.try_delay_ns)
    }

    /// The number of events: waits and failed try-locks.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.wait_count.saturating_add(self.try_failed_count)
    }

    /// Adds the totals of another pair.
    pub fn add(&mut self, other: &PairTotals) {
        for (sum, n) in [
            (&mut self.wait_count, other.wait_count),
            (&mut self.wait_ns, other.wait_ns),
            (&mut self.try_failed_count, other.try_failed_count),
            (&mut self.try_delay_ns, other.try_delay_ns),
        ] {
            *sum = sum.saturating_add(n);
        }
        self.wait_ns_max = self.wait_ns_max.max(other.wait_ns_max);
    }
}
