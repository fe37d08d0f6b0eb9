//! A profile as plain numbers and text.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::profile::plan::{BUCKET_COUNT, ProfilePlan};
use crate::profile::shared::SiteKind;

/// A profile at one moment.
#[derive(Clone, Debug)]
pub struct ProfileSnapshot {
    /// The process of the profile, and the room of the profile's parts.
    pub about: ProfileHeader,
    /// The control words.
    pub control: ProfileControl,
    /// Counts that all threads share.
    pub counts: SharedCounts,
    /// The call sites by their keys. A key is missing if there was no room for its site, or if the
    /// site is just being described.
    pub sites: BTreeMap<u64, SiteRead>,
    /// The sampled call stacks by their keys. A key may be missing for the same reasons.
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
    /// Thread id.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// Its holds, the oldest first.
    pub holds: Vec<LockNow>,
    /// The lock that it waits for.
    pub awaited: Option<LockNow>,
}

/// A lock that a thread holds or waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LockNow {
    /// The start, in nanoseconds since 1970.
    pub since_unix_ns: u64,
    /// The address of the lock.
    pub lock: u64,
    /// The key of the call site.
    pub site: u64,
    /// Whether other threads may hold it at the same time.
    pub is_shared: bool,
}

/// The part of the header that does not change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileHeader {
    /// Process id.
    pub pid: u32,
    /// Its start, in clock ticks since boot; 0 if unknown.
    pub start_ticks: u64,
    /// The kernel's id of that boot; zeros if unknown.
    pub boot_id: [u8; 16],
    /// When the profile was made, in nanoseconds since 1970.
    pub created_unix_ns: u64,
    /// Ticks per second of the clock of the recording; times in this snapshot are nanoseconds.
    pub clock_hz: u64,
    /// The program, as it was started.
    pub program: String,
    /// The value of that clock when the profile was made.
    pub created_ticks: u64,
    /// The kind of the sites.
    pub kind: SiteKind,
    /// The room of its parts.
    pub plan: ProfilePlan,
}

/// The control words of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProfileControl {
    /// Whether attempts are recorded.
    pub is_on: bool,
    /// Attempts that a thread skips after each that it records.
    pub skip: u64,
    /// The call stack is recorded for one in this many waits and failed try-locks of a thread; 0:
    /// for none.
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
    /// Rows of the site table that are in use.
    pub sites_used: u64,
    /// New rows of threads that found no room for their site.
    pub sites_rejected: u64,
    /// Probed rows of the site table that belonged to another key.
    pub site_collisions: u64,
    /// Names and paths that found no room.
    pub texts_rejected: u64,
    /// Modules that found no room.
    pub modules_rejected: u64,
    /// Threads that got a block.
    pub threads_started: u64,
    /// Attempts that were not recorded for want of a block.
    pub lost: u64,
    /// Other processes of the recording that have a profile, in the profile of the first process.
    pub processes: u64,
    /// Other processes that were refused a profile.
    pub processes_refused: u64,
    /// Rows of the stack table that are in use.
    pub stacks_used: u64,
    /// New samples of threads that found no room for their stack.
    pub stacks_rejected: u64,
    /// Probed rows of the stack table that belonged to another key.
    pub stack_collisions: u64,
}

/// A call site at which locks are taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SiteRead {
    /// The lock's class, or the kind of lock.
    pub name: Arc<str>,
    /// The source file; empty if the site has return addresses.
    pub place: Arc<str>,
    /// Line of that file.
    pub line: u32,
    /// Column of that line.
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
    /// First address.
    pub start: u64,
    /// The end of the range.
    pub end: u64,
    /// The offset in its file.
    pub file_offset: u64,
    /// The file.
    pub path: Arc<str>,
}

/// One block: the counts of a thread, or of several threads one after another.
#[derive(Clone, Debug)]
pub struct ThreadRead {
    /// Thread id of the last owner.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// Whether a thread owns the block, as far as the profile knows.
    pub is_taken: bool,
    /// Number of owners since the last reset.
    pub owner_count: u64,
    /// Counts of its tables.
    pub counts: ThreadCounts,
    /// The totals by site; key 0 is for sites without a row of their own.
    pub rows: Vec<(u64, SiteTotals)>,
    /// Waits and failed try-locks of one holder's site and one waiter's site.
    pub pairs: Vec<PairRead>,
    /// Sampled call stacks of lost time.
    pub samples: Vec<SampleRead>,
}

/// Use of the tables of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadCounts {
    /// Rows in use.
    pub rows_used: u64,
    /// Events that were counted in the shared row.
    pub rows_rejected: u64,
    /// Probed rows that belonged to another key.
    pub row_collisions: u64,
    /// Pairs in use.
    pub pairs_used: u64,
    /// Events that found no pair.
    pub pairs_rejected: u64,
    /// Probed pairs that belonged to another key.
    pub pair_collisions: u64,
    /// Failed try-locks that were forgotten before the delay ended: to make room for another lock,
    /// or because the last try was too long ago.
    pub tries_forgotten: u64,
    /// Attempts that were skipped by sampling.
    pub skipped: u64,
    /// Rows of samples in use.
    pub samples_used: u64,
    /// Samples that found no row.
    pub samples_rejected: u64,
    /// Probed sample rows that belonged to another key.
    pub sample_collisions: u64,
}

/// The totals of a site. Sums saturate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SiteTotals {
    /// Number of acquisitions.
    pub count: u64,
    /// Number of acquisitions for reading, which other readers may share.
    pub shared_count: u64,
    /// Number of acquisitions from an owner that had died.
    pub owner_died_count: u64,
    /// Total time held.
    pub hold_ns: u64,
    /// The longest hold.
    pub hold_ns_max: u64,
    /// Total time waited.
    pub wait_ns: u64,
    /// The longest wait.
    pub wait_ns_max: u64,
    /// Number of waits, with or without success.
    pub contended_count: u64,
    /// Number of failed try-locks.
    pub try_failed_count: u64,
    /// Number of waits that reached their time limit.
    pub timed_out_count: u64,
    /// Total delay from a first failed try-lock until the thread had the lock.
    pub try_delay_ns: u64,
    /// The longest such delay.
    pub try_delay_ns_max: u64,
    /// Number of such delays.
    pub try_delay_count: u64,
    /// Total time of waits on a condition, each until the lock was taken back.
    pub asleep_ns: u64,
    /// The longest such wait.
    pub asleep_ns_max: u64,
    /// Number of such waits.
    pub asleep_count: u64,
    /// Holds by length.
    pub holds: [u64; BUCKET_COUNT],
    /// Waits by length.
    pub waits: [u64; BUCKET_COUNT],
}

/// Waits and failed try-locks of one holder's site and one waiter's site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PairRead {
    /// The site of the holder; 0 if unknown.
    pub holder: u64,
    /// The site of the waiter.
    pub waiter: u64,
    /// The totals.
    pub totals: PairTotals,
}

/// The time lost on one call stack to a site, as far as it was sampled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SampleRead {
    /// The key of the stack.
    pub stack: u64,
    /// The site of the holder; 0 if unknown.
    pub holder: u64,
    /// The site of the waiter.
    pub waiter: u64,
    /// The totals.
    pub totals: PairTotals,
}

/// The waits at one site for a holder at another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PairTotals {
    /// Number of waits.
    pub wait_count: u64,
    /// Their total time.
    pub wait_ns: u64,
    /// The longest of them.
    pub wait_ns_max: u64,
    /// Number of failed try-locks.
    pub try_failed_count: u64,
    /// Total delay until the lock was acquired after failed try-locks.
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
    /// Attempts without success: failed try-locks, and waits that reached their time limit.
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
    /// The time lost: waits, and delays after failed try-locks.
    #[must_use]
    pub fn lost_ns(&self) -> u64 {
        self.wait_ns.saturating_add(self.try_delay_ns)
    }

    /// Number of events: waits and failed try-locks.
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
