//! What a profile says, as plain numbers and text.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::profile::plan::{BUCKET_COUNT, ProfilePlan};
use crate::profile::shared::SiteKind;

/// What a profile says.
#[derive(Clone, Debug)]
pub struct ProfileSnapshot {
    /// Whose it is, and what it has room for.
    pub about: ProfileHeader,
    /// How it is switched.
    pub control: ProfileControl,
    /// What all threads count together.
    pub counts: SharedCounts,
    /// What the keys stand for. A key without a site found no room for one, or is being described.
    pub sites: BTreeMap<u64, SiteRead>,
    /// What the keys of sampled stacks stand for; as with sites.
    pub stacks: BTreeMap<u64, StackRead>,
    /// What lies where in the program's memory.
    pub modules: Vec<ModuleRead>,
    /// The blocks that have been in use since the last reset.
    pub threads: Vec<ThreadRead>,
    /// What the threads that live, or lived to the program's end, have and wait for.
    pub now: Vec<ThreadNow>,
}

/// What a thread has and waits for, as this was read, or as the program ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadNow {
    /// Its number.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// Locks that it has, the oldest hold first.
    pub holds: Vec<LockNow>,
    /// The lock that it waits for.
    pub awaited: Option<LockNow>,
}

/// A lock that a thread has, or waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LockNow {
    /// Since when, in nanoseconds since 1970.
    pub since_unix_ns: u64,
    /// Where it lies.
    pub lock: u64,
    /// The site where it was taken, or is wanted.
    pub site: u64,
    /// Others may have it at the same time.
    pub is_shared: bool,
}

/// The part of the header that does not change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileHeader {
    /// Process number.
    pub pid: u32,
    /// When it started, in clock ticks since boot; 0 if unknown.
    pub start_ticks: u64,
    /// The kernel's id of that boot; zeros if unknown.
    pub boot_id: [u8; 16],
    /// When the profile was made, in nanoseconds since 1970.
    pub created_unix_ns: u64,
    /// Ticks a second of the clock that it was recorded with; times are nanoseconds all the same.
    pub clock_hz: u64,
    /// The program, as it was called.
    pub program: String,
    /// What that clock said when the profile was made.
    pub created_ticks: u64,
    /// What the sites are.
    pub kind: SiteKind,
    /// What there is room for.
    pub plan: ProfilePlan,
}

/// How a profile is switched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProfileControl {
    /// Are attempts recorded?
    pub is_on: bool,
    /// Attempts that a thread passes over behind each that it records.
    pub skip: u64,
    /// Of how many waits and tries in vain of a thread one has its stack taken; 0: of none.
    pub stack_sample: u64,
    /// Grows with each reset.
    pub generation: u64,
    /// When the last reset was, or when the profile was made, in nanoseconds since 1970.
    pub reset_unix_ns: u64,
}

/// What all threads count together, since the profile was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedCounts {
    /// Rows of the site table that are in use.
    pub sites_used: u64,
    /// Times that a thread's new row found no room for its site.
    pub sites_rejected: u64,
    /// Rows of the site table that were taken for another key when one was looked for.
    pub site_collisions: u64,
    /// Names and paths without room.
    pub texts_rejected: u64,
    /// Modules without room.
    pub modules_rejected: u64,
    /// Threads that got a block.
    pub threads_started: u64,
    /// Attempts that were not recorded for want of a block.
    pub lost: u64,
    /// Other processes of the same recording that have a profile, if this one was the first.
    pub processes: u64,
    /// Other processes that wanted one and were too many.
    pub processes_refused: u64,
    /// Rows of the stack table that are in use.
    pub stacks_used: u64,
    /// Times that a thread's new sample found no room for its stack.
    pub stacks_rejected: u64,
    /// Rows of the stack table that were taken for another key when one was looked for.
    pub stack_collisions: u64,
}

/// A place where locks are taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SiteRead {
    /// The lock's class, or its kind.
    pub name: Arc<str>,
    /// The file; empty if there are return addresses.
    pub place: Arc<str>,
    /// Line of that file.
    pub line: u32,
    /// Column of that line.
    pub column: u32,
    /// Where the lock lies; 0 if the site is for many.
    pub lock: u64,
    /// Return addresses, the innermost first.
    pub frames: Vec<u64>,
}

/// A way to a place where locks are taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackRead {
    /// The key of the site.
    pub site: u64,
    /// Return addresses, the innermost first.
    pub frames: Vec<u64>,
}

/// A piece of a program or library in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleRead {
    /// First address.
    pub start: u64,
    /// First address behind it.
    pub end: u64,
    /// Where it lies in its file.
    pub file_offset: u64,
    /// The file.
    pub path: Arc<str>,
}

/// One block: a thread, or several, one after another.
#[derive(Clone, Debug)]
pub struct ThreadRead {
    /// The number of the last thread.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// Does it live still, as far as the profile knows?
    pub is_taken: bool,
    /// How many threads had the block since the last reset.
    pub owner_count: u64,
    /// What went wrong for want of room.
    pub counts: ThreadCounts,
    /// What was done at which site; a key of 0 is for all that found no row of their own.
    pub rows: Vec<(u64, SiteTotals)>,
    /// Who was in whose way.
    pub pairs: Vec<PairRead>,
    /// How it had come to where it lost time, of some of these times.
    pub samples: Vec<SampleRead>,
}

/// Rows and pairs of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadCounts {
    /// Rows in use.
    pub rows_used: u64,
    /// Records that went into the row of all others.
    pub rows_rejected: u64,
    /// Rows that were another's when one was looked for.
    pub row_collisions: u64,
    /// Pairs in use.
    pub pairs_used: u64,
    /// Records that found no pair.
    pub pairs_rejected: u64,
    /// Pairs that were another's when one was looked for.
    pub pair_collisions: u64,
    /// Locks tried in vain whose delay was given up: for that of another, or after too long.
    pub tries_forgotten: u64,
    /// Attempts that were passed over for a sample.
    pub skipped: u64,
    /// Rows of samples in use.
    pub samples_used: u64,
    /// Samples that found no row.
    pub samples_rejected: u64,
    /// Rows that were another sample's when one was looked for.
    pub sample_collisions: u64,
}

/// What happened at a site. Sums stop at the largest number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SiteTotals {
    /// Times that the lock was taken.
    pub count: u64,
    /// Of these, for reading beside others.
    pub shared_count: u64,
    /// Of these, from an owner that had died.
    pub owner_died_count: u64,
    /// How long it was held.
    pub hold_ns: u64,
    /// The longest hold.
    pub hold_ns_max: u64,
    /// How long it was waited for.
    pub wait_ns: u64,
    /// The longest wait.
    pub wait_ns_max: u64,
    /// Times that it was waited for, with or without success.
    pub contended_count: u64,
    /// Times that it was tried in vain.
    pub try_failed_count: u64,
    /// Times that it was waited for until time was up.
    pub timed_out_count: u64,
    /// From the first try in vain until this thread had the lock.
    pub try_delay_ns: u64,
    /// The longest such delay.
    pub try_delay_ns_max: u64,
    /// How many such delays have ended.
    pub try_delay_count: u64,
    /// Waits on a condition, each until the lock was taken back.
    pub asleep_ns: u64,
    /// The longest of them.
    pub asleep_ns_max: u64,
    /// How many there were.
    pub asleep_count: u64,
    /// Holds by length.
    pub holds: [u64; BUCKET_COUNT],
    /// Waits by length.
    pub waits: [u64; BUCKET_COUNT],
}

/// Who was in whose way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PairRead {
    /// The site at which the holder took the lock; 0 if nobody knows.
    pub holder: u64,
    /// The site of who wanted it.
    pub waiter: u64,
    /// What came of it.
    pub totals: PairTotals,
}

/// What was lost on one way to a site, as far as it was sampled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SampleRead {
    /// The key of the stack.
    pub stack: u64,
    /// The site at which the holder took the lock; 0 if nobody knows.
    pub holder: u64,
    /// The site of who wanted it.
    pub waiter: u64,
    /// What came of it.
    pub totals: PairTotals,
}

/// What came of two sites that were in each other's way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PairTotals {
    /// Waits.
    pub wait_count: u64,
    /// How long they were.
    pub wait_ns: u64,
    /// The longest.
    pub wait_ns_max: u64,
    /// Tries in vain.
    pub try_failed_count: u64,
    /// The delay until the lock was taken after all.
    pub try_delay_ns: u64,
}

impl ProfileHeader {
    /// The moment, in nanoseconds since 1970, at which the clock of the profile stood so.
    #[must_use]
    pub fn unix_ns(&self, ticks: u64) -> u64 {
        const NS_PER_S: u128 = 1_000_000_000;
        let ticks = u128::from(ticks.saturating_sub(self.created_ticks));
        let ns = ticks * NS_PER_S / u128::from(self.clock_hz.max(1));
        self.created_unix_ns.saturating_add(u64::try_from(ns).unwrap_or(u64::MAX))
    }
}

impl SiteTotals {
    /// Times that the lock was not got: tried in vain, or waited for until time was up.
    #[must_use]
    pub fn failed_count(&self) -> u64 {
        self.try_failed_count.saturating_add(self.timed_out_count)
    }

    /// Adds what happened elsewhere.
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
    /// The time that was lost: by waiting, and until a lock was taken that had been tried in vain.
    #[must_use]
    pub fn lost_ns(&self) -> u64 {
        self.wait_ns.saturating_add(self.try_delay_ns)
    }

    /// How often another was in the way.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.wait_count.saturating_add(self.try_failed_count)
    }

    /// Adds what came of it elsewhere.
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
