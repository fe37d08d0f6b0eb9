//! The layout of a lock profile, which follows from a few counts. `docs/format/locks.md` describes
//! it.

/// The first word of a profile, "FBYLOCKS" as little-endian bytes.
pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"FBYLOCKS");

/// The layout version that this program writes and reads.
pub(super) const LAYOUT_VERSION: u32 = 2;

/// The number of words of the header.
pub(super) const HEADER_WORDS: usize = 128;

/// The number of bytes in the header for the program's name, which is padded with zeros.
pub(super) const PROGRAM_BYTES: usize = 256;

/// The indexes of the words of the header.
pub(super) mod header {
    /// The word after the magic number. Low half: layout version; high half: size of the header in
    /// bytes.
    pub(in crate::profile) const VERSION: usize = 1;
    /// Low half: process id; high half: kind of sites.
    pub(in crate::profile) const PID: usize = 2;
    pub(in crate::profile) const START_TICKS: usize = 3;
    pub(in crate::profile) const BOOT_ID: usize = 4;
    pub(in crate::profile) const CREATED_UNIX_NS: usize = 6;
    pub(in crate::profile) const CLOCK_HZ: usize = 7;
    pub(in crate::profile) const FILE_BYTES: usize = 8;
    /// Low half: number of rows of the site table; high half: return addresses that fit into a row.
    pub(in crate::profile) const SITES: usize = 9;
    /// Low half: number of rows of the module table; high half: number of blocks of threads.
    pub(in crate::profile) const MODULES: usize = 10;
    pub(in crate::profile) const TEXT_BYTES: usize = 11;
    /// Low half: number of rows with a key in a block; high half: number of pairs in a block.
    pub(in crate::profile) const ROWS: usize = 12;
    /// Low half: number of rows of the stack table; high half: return addresses that fit into a
    /// row.
    pub(in crate::profile) const STACKS: usize = 13;
    /// The number of samples in a block.
    pub(in crate::profile) const SAMPLES: usize = 14;
    /// The hash of words 0 to 14, by [`hash_words`](crate::profile::hash_words).
    pub(in crate::profile) const CHECK: usize = 15;

    /// The first of the control words, which other programs may write while the profiled program
    /// runs.
    pub(in crate::profile) const ENABLED: usize = 16;
    pub(in crate::profile) const SKIP: usize = 17;
    pub(in crate::profile) const GENERATION: usize = 18;
    pub(in crate::profile) const RESET_UNIX_NS: usize = 19;
    pub(in crate::profile) const STACK_SAMPLE: usize = 20;

    /// The time at which the profile was made, by the profile's clock.
    pub(in crate::profile) const CREATED_TICKS: usize = 24;

    /// The first of the counts that all threads share. These counts change seldom.
    pub(in crate::profile) const SITES_USED: usize = 32;
    pub(in crate::profile) const SITES_REJECTED: usize = 33;
    pub(in crate::profile) const SITE_COLLISIONS: usize = 34;
    pub(in crate::profile) const TEXT_USED: usize = 35;
    pub(in crate::profile) const TEXT_REJECTED: usize = 36;
    pub(in crate::profile) const MODULES_USED: usize = 37;
    pub(in crate::profile) const MODULES_REJECTED: usize = 38;
    pub(in crate::profile) const THREADS_STARTED: usize = 39;
    pub(in crate::profile) const LOST: usize = 40;
    /// In the profile of a recording's first process: the number of other processes with a profile.
    pub(in crate::profile) const PROCESSES: usize = 41;
    pub(in crate::profile) const STACKS_USED: usize = 42;
    pub(in crate::profile) const STACKS_REJECTED: usize = 43;
    pub(in crate::profile) const STACK_COLLISIONS: usize = 44;
    /// In the profile of a recording's first process: the number of processes that were refused a
    /// profile.
    pub(in crate::profile) const PROCESSES_REFUSED: usize = 45;

    pub(in crate::profile) const PROGRAM: usize = 48;
}

/// A control word of a profile, which other programs may set while the recorded program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    /// Not 0 while attempts are recorded; a different number each time recording is switched on.
    Enabled = header::ENABLED as isize,
    /// The number of attempts that a thread skips after each attempt that it records.
    Skip = header::SKIP as isize,
    /// The generation of the profile: adding 1 resets the profile.
    Generation = header::GENERATION as isize,
    /// The time of the last reset, in nanoseconds since 1970.
    ResetUnixNs = header::RESET_UNIX_NS as isize,
    /// A thread records the call stack of one in this many waits and failed try-locks; 0 means
    /// none.
    StackSample = header::STACK_SAMPLE as isize,
}

impl Switch {
    /// The offset of the word from the beginning of the profile, in bytes.
    #[must_use]
    pub fn offset_bytes(self) -> u64 {
        self as u64 * 8
    }
}

/// The indexes of the words of a row of the site table, before its return addresses.
pub(super) mod site {
    pub(in crate::profile) const KEY: usize = 0;
    /// The hash of all other words of the row.
    pub(in crate::profile) const CHECK: usize = 1;
    /// The lock's class, or the kind of lock, as a text.
    pub(in crate::profile) const NAME: usize = 2;
    /// The source file, as a text.
    pub(in crate::profile) const PLACE: usize = 3;
    /// Low half: line; high half: column.
    pub(in crate::profile) const LINE: usize = 4;
    /// The address of the lock, if the site is for one lock; otherwise 0.
    pub(in crate::profile) const LOCK: usize = 5;
    /// The number of return addresses after the fixed words.
    pub(in crate::profile) const FRAME_COUNT: usize = 6;
    pub(in crate::profile) const FIXED_WORDS: usize = 8;
}

/// The indexes of the words of a row of the stack table, before its return addresses. A row is a
/// call stack that led to a site.
pub(super) mod stack {
    pub(in crate::profile) const KEY: usize = 0;
    /// The hash of all other words of the row.
    pub(in crate::profile) const CHECK: usize = 1;
    /// The key of the site.
    pub(in crate::profile) const SITE: usize = 2;
    pub(in crate::profile) const FRAME_COUNT: usize = 3;
    pub(in crate::profile) const FIXED_WORDS: usize = 8;
}

/// The indexes of the words of a row of the module table. A row is a mapped part of a program or
/// library.
pub(super) mod module {
    pub(in crate::profile) const START: usize = 0;
    pub(in crate::profile) const END: usize = 1;
    pub(in crate::profile) const FILE_OFFSET: usize = 2;
    pub(in crate::profile) const PATH: usize = 3;
    pub(in crate::profile) const CHECK: usize = 4;
    pub(in crate::profile) const WORDS: usize = 8;
}

/// The indexes of the words at the beginning of a thread's block.
pub(super) mod block {
    pub(in crate::profile) const TID: usize = 0;
    /// The thread's name, 16 bytes.
    pub(in crate::profile) const NAME: usize = 1;
    pub(in crate::profile) const GENERATION: usize = 3;
    /// The number of threads that have had the block since the last reset, one after another.
    pub(in crate::profile) const OWNERS: usize = 4;
    pub(in crate::profile) const ROWS_USED: usize = 5;
    pub(in crate::profile) const ROWS_REJECTED: usize = 6;
    pub(in crate::profile) const ROW_COLLISIONS: usize = 7;
    pub(in crate::profile) const PAIRS_USED: usize = 8;
    pub(in crate::profile) const PAIRS_REJECTED: usize = 9;
    pub(in crate::profile) const PAIR_COLLISIONS: usize = 10;
    pub(in crate::profile) const TRIES_FORGOTTEN: usize = 11;
    pub(in crate::profile) const SKIPPED: usize = 12;
    pub(in crate::profile) const SAMPLES_USED: usize = 13;
    pub(in crate::profile) const SAMPLES_REJECTED: usize = 14;
    pub(in crate::profile) const SAMPLE_COLLISIONS: usize = 15;
    /// Bit *n* is set while row *n* of the holds is in use.
    pub(in crate::profile) const HOLDS_USED: usize = 16;
    pub(in crate::profile) const HEAD_WORDS: usize = 32;
}

/// The indexes of the words of a row of the holds. A row is a lock that the thread holds; the last
/// row is the lock that the thread waits for.
pub(super) mod hold {
    /// The address of the lock; 0 in the last row while the thread does not wait.
    pub(in crate::profile) const LOCK: usize = 0;
    /// The key of the call site.
    pub(in crate::profile) const KEY: usize = 1;
    /// The start of the hold or wait, by the profile's clock.
    pub(in crate::profile) const SINCE: usize = 2;
    /// Low half: the row of the call site in this block, and the flag [`SHARED`]; high half: the
    /// low half of the generation in which the hold began.
    pub(in crate::profile) const ROW: usize = 3;
    /// A flag in the low half of `ROW`: other threads may hold the lock too.
    pub(in crate::profile) const SHARED: u64 = 1 << 31;
    pub(in crate::profile) const WORDS: usize = 4;
}

/// The largest number of holds of a thread that are recorded at a time.
pub(super) const HOLDS_MAX: usize = 31;

/// The indexes of the words of a row of a block: the counts of one thread at one site.
pub(super) mod row {
    pub(in crate::profile) const COUNT: usize = 0;
    pub(in crate::profile) const HOLD_NS: usize = 1;
    pub(in crate::profile) const HOLD_NS_MAX: usize = 2;
    pub(in crate::profile) const WAIT_NS: usize = 3;
    pub(in crate::profile) const WAIT_NS_MAX: usize = 4;
    pub(in crate::profile) const CONTENDED_COUNT: usize = 5;
    pub(in crate::profile) const TRY_FAILED_COUNT: usize = 6;
    pub(in crate::profile) const TRY_DELAY_NS: usize = 7;
    pub(in crate::profile) const TRY_DELAY_NS_MAX: usize = 8;
    pub(in crate::profile) const TRY_DELAY_COUNT: usize = 9;
    pub(in crate::profile) const TIMED_OUT_COUNT: usize = 10;
    pub(in crate::profile) const SHARED_COUNT: usize = 11;
    pub(in crate::profile) const OWNER_DIED_COUNT: usize = 12;
    pub(in crate::profile) const ASLEEP_NS: usize = 13;
    pub(in crate::profile) const ASLEEP_NS_MAX: usize = 14;
    pub(in crate::profile) const ASLEEP_COUNT: usize = 15;
    pub(in crate::profile) const HOLD_BUCKETS: usize = 16;
    pub(in crate::profile) const WAIT_BUCKETS: usize = HOLD_BUCKETS + super::BUCKET_COUNT;
    pub(in crate::profile) const WORDS: usize = WAIT_BUCKETS + super::BUCKET_COUNT;
}

/// The indexes of the words of a pair: the waits at one waiter's site for one holder's site.
pub(super) mod pair {
    /// The key of the holder's site; 0 if unknown.
    pub(in crate::profile) const HOLDER: usize = 0;
    pub(in crate::profile) const WAITER: usize = 1;
    pub(in crate::profile) const WAIT_COUNT: usize = 2;
    pub(in crate::profile) const WAIT_NS: usize = 3;
    pub(in crate::profile) const WAIT_NS_MAX: usize = 4;
    pub(in crate::profile) const TRY_FAILED_COUNT: usize = 5;
    pub(in crate::profile) const TRY_DELAY_NS: usize = 6;
    pub(in crate::profile) const WORDS: usize = 8;
}

/// The indexes of the words of a sample: the time that one thread lost on one call stack to the
/// holders of one site.
pub(super) mod sample {
    /// The key of the stack. The key of the waiter's site is part of the hash.
    pub(in crate::profile) const STACK: usize = 0;
    pub(in crate::profile) const WAITER: usize = 1;
    /// The key of the holder's site; 0 if unknown.
    pub(in crate::profile) const HOLDER: usize = 2;
    pub(in crate::profile) const WAIT_COUNT: usize = 3;
    pub(in crate::profile) const WAIT_NS: usize = 4;
    pub(in crate::profile) const WAIT_NS_MAX: usize = 5;
    pub(in crate::profile) const TRY_FAILED_COUNT: usize = 6;
    pub(in crate::profile) const TRY_DELAY_NS: usize = 7;
    pub(in crate::profile) const WORDS: usize = 8;
}

/// The number of buckets of a histogram of times.
pub const BUCKET_COUNT: usize = 32;

/// The first bucket is for times below 2 to this power, in nanoseconds.
const FIRST_BUCKET_BITS: u32 = 5;

/// The bucket of a time. Bucket 0 is for times below 32 ns, bucket *n* for times from 2^(*n* + 4)
/// ns to below 2^(*n* + 5) ns, and the last bucket for all longer times.
#[must_use]
#[inline]
pub(super) fn bucket_of(ns: u64) -> usize {
    let bits = u64::BITS - ns.leading_zeros();
    (bits.saturating_sub(FIRST_BUCKET_BITS) as usize).min(BUCKET_COUNT - 1)
}

/// The upper end of a bucket in nanoseconds; `None` for the last bucket, which has no end.
#[must_use]
pub fn bucket_end_ns(bucket: usize) -> Option<u64> {
    (bucket + 1 < BUCKET_COUNT).then(|| 1 << (bucket as u32 + FIRST_BUCKET_BITS))
}

/// The number of words in a pair of cache lines. Each part of a profile begins at a new pair.
const PAIR_WORDS: usize = 16;

/// The offset of the keys in a block.
pub(super) const KEYS_START: usize = block::HEAD_WORDS + (HOLDS_MAX + 1) * hold::WORDS;

/// The capacity of a profile for sampled call stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackPlan {
    /// The number of rows of the stack table; a power of two.
    pub stacks: u32,
    /// The number of return addresses that a stack can have.
    pub frames: u32,
    /// The number of samples in a block; a power of two.
    pub samples: u32,
}

impl StackPlan {
    /// The plan of a profile that never records call stacks.
    pub const NONE: StackPlan = StackPlan { stacks: 0, frames: 0, samples: 0 };

    /// The largest allowed value of each count.
    pub(in crate::profile) const MAX: StackPlan =
        StackPlan { stacks: 1 << 13, frames: 64, samples: 1 << 13 };

    fn is_sound(&self) -> bool {
        let is_table = |count: u32, max: u32| count.is_power_of_two() && count <= max;
        *self == StackPlan::NONE
            || is_table(self.stacks, StackPlan::MAX.stacks)
                && is_table(self.samples, StackPlan::MAX.samples)
                && (1..=StackPlan::MAX.frames).contains(&self.frames)
    }
}

/// The capacity of each part of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProfilePlan {
    /// The number of rows of the site table; a power of two.
    pub sites: u32,
    /// The number of return addresses that a site can have.
    pub frames: u32,
    /// The number of rows of the module table.
    pub modules: u32,
    /// The number of bytes for names and paths; a multiple of 8.
    pub text_bytes: u32,
    /// The number of blocks, and so of threads that can record at the same time.
    pub threads: u32,
    /// The number of rows in a block, besides the shared row; a power of two.
    pub rows: u32,
    /// The number of pairs in a block; a power of two.
    pub pairs: u32,
    /// The capacity for sampled call stacks.
    pub stacks: StackPlan,
}

impl ProfilePlan {
    /// The largest allowed value of each count.
    pub(in crate::profile) const MAX: ProfilePlan = ProfilePlan {
        sites: 1 << 20,
        frames: 64,
        modules: 1 << 16,
        text_bytes: 1 << 28,
        threads: 1 << 16,
        rows: 1 << 16,
        pairs: 1 << 16,
        stacks: StackPlan::MAX,
    };

    /// The largest allowed size of a profile, in bytes.
    pub(in crate::profile) const BYTES_MAX: u64 = 1 << 32;

    /// The name of the first size of this plan that is out of bounds; `None` if the plan is valid.
    #[must_use]
    pub fn fault(&self) -> Option<&'static str> {
        let max = ProfilePlan::MAX;
        let is_table = |count: u32, max: u32| count.is_power_of_two() && count <= max;
        let faults = [
            (!is_table(self.sites, max.sites), "the number of sites"),
            (self.frames > max.frames, "the number of return addresses of a site"),
            (self.modules > max.modules, "the number of modules"),
            (
                self.text_bytes > max.text_bytes || !self.text_bytes.is_multiple_of(8),
                "the size of the text",
            ),
            (!(1..=max.threads).contains(&self.threads), "the number of threads"),
            (!is_table(self.rows, max.rows), "the number of rows of a thread"),
            (!is_table(self.pairs, max.pairs), "the number of pairs of a thread"),
            (!self.stacks.is_sound(), "the number of stacks"),
        ];
        let first = faults.into_iter().find_map(|(is_wrong, what)| is_wrong.then_some(what));
        first.or_else(|| {
            (self.bytes() > ProfilePlan::BYTES_MAX).then_some("the size of the profile")
        })
    }

    /// The first word of the owners of the blocks. Each block has one word there.
    #[must_use]
    pub fn owners(&self) -> usize {
        HEADER_WORDS
    }

    /// The first word of the site table.
    #[must_use]
    pub fn sites_start(&self) -> usize {
        lines(self.owners() + self.threads as usize)
    }

    /// The number of words in a row of the site table.
    #[must_use]
    pub fn site_words(&self) -> usize {
        site::FIXED_WORDS + (self.frames as usize).next_multiple_of(8)
    }

    /// The first word of the stack table.
    #[must_use]
    pub fn stacks_start(&self) -> usize {
        lines(self.sites_start() + self.sites as usize * self.site_words())
    }

    /// The number of words in a row of the stack table.
    #[must_use]
    pub fn stack_words(&self) -> usize {
        stack::FIXED_WORDS + (self.stacks.frames as usize).next_multiple_of(8)
    }

    /// The first word of the module table.
    #[must_use]
    pub fn modules_start(&self) -> usize {
        lines(self.stacks_start() + self.stacks.stacks as usize * self.stack_words())
    }

    /// The first word of the text.
    #[must_use]
    pub fn text_start(&self) -> usize {
        lines(self.modules_start() + self.modules as usize * module::WORDS)
    }

    /// The first word of the blocks.
    #[must_use]
    pub fn blocks_start(&self) -> usize {
        lines(self.text_start() + self.text_bytes as usize / 8)
    }

    /// The offset of the rows in a block: after the head, the holds, and a key for each row.
    #[must_use]
    pub fn rows_start(&self) -> usize {
        lines(KEYS_START + self.rows as usize)
    }

    /// The offset of the pairs in a block. The first row has no key: it is the shared row.
    #[must_use]
    pub fn pairs_start(&self) -> usize {
        lines(self.rows_start() + (1 + self.rows as usize) * row::WORDS)
    }

    /// The offset of the samples in a block.
    #[must_use]
    pub fn samples_start(&self) -> usize {
        lines(self.pairs_start() + self.pairs as usize * pair::WORDS)
    }

    /// The number of words in a block.
    #[must_use]
    pub fn block_words(&self) -> usize {
        lines(self.samples_start() + self.stacks.samples as usize * sample::WORDS)
    }

    /// The number of words of the whole profile.
    #[must_use]
    pub fn word_count(&self) -> usize {
        self.blocks_start().saturating_add(self.block_words().saturating_mul(self.threads as usize))
    }

    /// The number of bytes of the whole profile.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        (self.word_count() as u64).saturating_mul(8)
    }

    /// This plan with as many threads as fit into a profile of `bytes` bytes; `None` if not even
    /// one thread fits.
    #[must_use]
    pub fn within(self, bytes: u64) -> Option<ProfilePlan> {
        // The owners occupy one word for each thread, rounded up to lines.
        let fixed = ProfilePlan { threads: 0, ..self }.word_count() + 2 * PAIR_WORDS;
        let left = usize::try_from(bytes / 8).ok()?.checked_sub(fixed)?;
        let threads = left / (self.block_words() + 1);
        let threads = u32::try_from(threads).ok()?.min(ProfilePlan::MAX.threads);
        (threads > 0).then_some(ProfilePlan { threads, ..self })
    }
}

fn lines(words: usize) -> usize {
    words.next_multiple_of(PAIR_WORDS)
}
