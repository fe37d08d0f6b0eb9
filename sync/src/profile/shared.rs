//! The part of a profile that all threads of the program share.
//!
//! | words | written by | read by |
//! |---|---|---|
//! | identity and plan, up to `CHECK` | the process, before it shares the profile | tools |
//! | the switches, from `ENABLED` on | tools, at any time | every attempt at a lock |
//! | counts | all threads, when a table gets a row or is full | tools |
//! | sites, modules, text | the first thread that records one; then never again | tools |
//!
//! No ordering is needed: a row of a table carries a check of its contents, and a reader ignores a
//! row whose check does not match.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, AtomicUsize};

use super::clock::Clock;
use super::hash::hash_words;
use super::holds;
use super::plan::{
    HEADER_WORDS, LAYOUT_VERSION, MAGIC, PROGRAM_BYTES, ProfilePlan, header, module, site,
};

/// The number of rows that a probe visits before the table counts as full for a key.
const PROBES_MAX: usize = 64;

/// The longest text of a table, in bytes.
pub(super) const TEXT_BYTES_MAX: usize = 4096;

/// The kind of sites for which a profile counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SiteKind {
    /// Each site is a pair: a place in the source, and the class of the locks acquired there.
    Places = 0,
    /// Each site is a stack of return addresses.
    Stacks = 1,
}

/// The process that a profile records.
#[derive(Clone, Copy, Debug)]
pub struct ProcessIdentity<'a> {
    /// The process id.
    pub pid: u32,
    /// The start of the process, in clock ticks since boot; 0 if unknown.
    pub start_ticks: u64,
    /// The kernel's random id of this boot; zeros if unknown.
    pub boot_id: [u8; 16],
    /// The current time, in nanoseconds since 1970.
    pub unix_ns: u64,
    /// The program, as it was started.
    pub program: &'a str,
    /// The kind of the profile's sites.
    pub kind: SiteKind,
}

impl<'a> ProcessIdentity<'a> {
    /// The identity of a process of which only the name is known.
    #[must_use]
    pub const fn unknown(program: &'a str, kind: SiteKind) -> ProcessIdentity<'a> {
        ProcessIdentity { pid: 0, start_ticks: 0, boot_id: [0; 16], unix_ns: 0, program, kind }
    }
}

/// The description of a call site for tools.
#[derive(Clone, Copy, Debug, Default)]
pub struct SiteDescription<'a> {
    /// The lock's class, or the kind of lock.
    pub name: &'a str,
    /// The source file; empty if the site has return addresses instead.
    pub place: &'a str,
    /// The line in the source file.
    pub line: u32,
    /// The column in that line.
    pub column: u32,
    /// The address of the lock, if the site is for one lock; else 0.
    pub lock: u64,
    /// Return addresses, the innermost first.
    pub frames: &'a [u64],
}

/// A lock profile that this program writes. Its methods do no I/O and allocate nothing.
#[derive(Debug)]
pub struct Profile {
    words: &'static [AtomicU64],
    header: &'static [AtomicU64; HEADER_WORDS],
    plan: ProfilePlan,
    clock: Clock,
    /// The number of blocks that threads may take, from the first on.
    blocks: AtomicUsize,
}

impl Profile {
    /// Makes a profile in words that are all zero. The profile is off.
    ///
    /// Returns `None` if the plan has a [fault](ProfilePlan::fault), or needs more words than there
    /// are.
    #[must_use]
    pub fn new(
        words: &'static [AtomicU64],
        plan: ProfilePlan,
        clock: Clock,
        identity: &ProcessIdentity<'_>,
    ) -> Option<Profile> {
        if plan.fault().is_some() || plan.word_count() > words.len() {
            return None;
        }
        let blocks = AtomicUsize::new(plan.threads as usize);
        let words = &words[..plan.word_count()];
        let header = words.first_chunk()?;
        let profile = Profile { words, header, plan, clock, blocks };
        profile.write_header(identity);
        Some(profile)
    }

    fn write_header(&self, identity: &ProcessIdentity<'_>) {
        let plan = &self.plan;
        let (first, second) = identity.boot_id.split_at(8);
        let program = identity.program.as_bytes();
        let program = &program[..program.len().min(PROGRAM_BYTES)];
        let values = [
            MAGIC,
            halves(LAYOUT_VERSION, (HEADER_WORDS * 8) as u32),
            halves(identity.pid, identity.kind as u32),
            identity.start_ticks,
            word_of(first),
            word_of(second),
            identity.unix_ns,
            self.clock.hz(),
            plan.bytes(),
            halves(plan.sites, plan.frames),
            halves(plan.modules, plan.threads),
            u64::from(plan.text_bytes),
            halves(plan.rows, plan.pairs),
            halves(plan.stacks.stacks, plan.stacks.frames),
            u64::from(plan.stacks.samples),
        ];
        const { assert!(header::CHECK == 15) };
        self.put(0, &values);
        self.put(header::CHECK, &[hash_words(&values)]);
        self.put(header::CREATED_TICKS, &[self.clock.now().ticks()]);
        self.put(header::GENERATION, &[1, identity.unix_ns]);
        for (index, bytes) in program.chunks(8).enumerate() {
            self.put(header::PROGRAM + index, &[word_of(bytes)]);
        }
    }

    /// The capacity of each part of this profile.
    #[must_use]
    pub fn plan(&self) -> &ProfilePlan {
        &self.plan
    }

    /// The clock of the profile's times.
    #[must_use]
    #[inline]
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// The word that is not 0 while attempts are recorded.
    #[must_use]
    #[inline]
    pub fn switch(&self) -> &'static AtomicU64 {
        &self.header[header::ENABLED]
    }

    /// Whether attempts that begin now are recorded.
    #[must_use]
    #[inline]
    pub fn is_on(&self) -> bool {
        self.switch().load(Relaxed) != 0
    }

    /// Switches recording on or off.
    pub fn turn(&self, is_on: bool) {
        if is_on != self.is_on() {
            let value = if is_on { self.clock.now().ticks().max(1) } else { 0 };
            self.switch().store(value, Relaxed);
        }
    }

    /// A value that differs between the periods in which the profile is on; 0 while it is off.
    #[must_use]
    #[inline]
    pub fn on_since(&self) -> u64 {
        self.switch().load(Relaxed)
    }

    /// Makes each thread record one in `skip + 1` attempts: with 0 it records every attempt.
    pub fn set_skip(&self, skip: u64) {
        self.header[header::SKIP].store(skip, Relaxed);
    }

    /// The number of attempts that a thread skips after each attempt that it records.
    #[must_use]
    #[inline]
    pub fn skip(&self) -> u64 {
        self.header[header::SKIP].load(Relaxed)
    }

    /// Resets the profile: each thread clears its counts before it records its next attempt.
    pub fn reset(&self, unix_ns: u64) {
        self.header[header::GENERATION].fetch_add(1, Relaxed);
        self.header[header::RESET_UNIX_NS].store(unix_ns, Relaxed);
    }

    /// The generation of the profile, which grows with each reset.
    #[must_use]
    #[inline]
    pub fn generation(&self) -> u64 {
        self.header[header::GENERATION].load(Relaxed)
    }

    /// Adds to one of the counts that all threads share.
    #[cold]
    pub(super) fn count(&self, index: usize, n: u64) {
        self.header[index].fetch_add(n, Relaxed);
    }

    /// Counts attempts that were not recorded, or holds without a recorded end.
    pub fn count_lost(&self, n: u64) {
        self.count(header::LOST, n);
    }

    /// The `count` words of the profile from the index `start` on.
    pub(super) fn part(&self, start: usize, count: usize) -> &'static [AtomicU64] {
        &self.words[start..start + count]
    }

    /// Lets no thread take a block until [`raise_blocks`](Profile::raise_blocks) allows it, since
    /// the blocks have no memory yet. Called before the profile is shared.
    #[must_use]
    pub fn without_blocks(self) -> Profile {
        Profile { blocks: AtomicUsize::new(0), ..self }
    }

    /// Lets threads take the first `count` blocks, which have memory now.
    pub fn raise_blocks(&self, count: usize) {
        // The number is never lowered, since threads may have taken the later blocks.
        self.blocks.fetch_max(count.min(self.plan.threads as usize), Relaxed);
    }

    /// The number of blocks that threads may take.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.blocks.load(Relaxed)
    }

    /// The words of a block.
    #[must_use]
    pub fn block(&self, index: usize) -> &'static [AtomicU64] {
        let words = self.plan.block_words();
        self.part(self.plan.blocks_start() + index * words, words)
    }

    /// The owners of the blocks that may be taken.
    #[must_use]
    pub fn owners(&self) -> &'static [AtomicU64] {
        self.part(self.plan.owners(), self.blocks())
    }

    /// The key of the call site at which the present holder took a lock; 0 if none is known.
    /// Searches the holds of all threads.
    #[must_use]
    pub fn holder_of(&self, lock: usize) -> u64 {
        holds::holder_of(self, lock, 1)
    }

    /// The key of the call site of a lock's holder, for a thread that begins to wait. Does the same
    /// as [`holder_of`](Profile::holder_of), but searches twice, since a waiter has the time.
    #[must_use]
    pub(super) fn holder_in_the_way(&self, lock: usize) -> u64 {
        holds::holder_of(self, lock, 2)
    }

    /// Writes the description of a site's key into the site table, for tools. Does nothing if the
    /// table has this key.
    pub fn describe(&self, key: u64, described: &SiteDescription<'_>) {
        let plan = &self.plan;
        let table = (plan.sites_start(), plan.sites as usize, plan.site_words());
        match self.row_for(key, table, header::SITE_COLLISIONS) {
            KeyRow::Known => {}
            KeyRow::New(row) => self.fill_site(row, key, described),
            KeyRow::None => self.count(header::SITES_REJECTED, 1),
        }
    }

    /// Finds or takes the row of a key in a table whose rows begin with their keys. The table is
    /// given by its start, number of rows and words per row. The header word `collisions` counts
    /// the visited rows of other keys.
    pub(super) fn row_for(
        &self,
        key: u64,
        (start, rows, words): (usize, usize, usize),
        collisions: usize,
    ) -> KeyRow {
        for probe in 0..rows.min(PROBES_MAX) {
            let index = (key as usize).wrapping_add(probe) & (rows - 1);
            let row = self.part(start + index * words, words);
            match row[site::KEY].compare_exchange(0, key, Relaxed, Relaxed) {
                Ok(_) => return KeyRow::New(row),
                Err(found) if found == key => return KeyRow::Known,
                Err(_) => self.count(collisions, 1),
            }
        }
        KeyRow::None
    }

    fn fill_site(&self, row: &[AtomicU64], key: u64, described: &SiteDescription<'_>) {
        self.count(header::SITES_USED, 1);
        let frames = described.frames;
        let frames = &frames[..frames.len().min(self.plan.frames as usize)];
        let fixed = [
            (site::NAME, self.add_text(described.name)),
            (site::PLACE, self.add_text(described.place)),
            (site::LINE, halves(described.line, described.column)),
            (site::LOCK, described.lock),
            (site::FRAME_COUNT, frames.len() as u64),
        ];
        for (index, value) in fixed {
            row[index].store(value, Relaxed);
        }
        for (word, frame) in row[site::FIXED_WORDS..].iter().zip(frames) {
            word.store(*frame, Relaxed);
        }
        close_row(key, row);
    }

    /// Records that the addresses from `start` to `end` map the file `path` from `file_offset` on.
    pub fn add_module(&self, start: u64, end: u64, file_offset: u64, path: &str) {
        let index = self.header[header::MODULES_USED].load(Relaxed);
        let index = if index < u64::from(self.plan.modules) {
            self.header[header::MODULES_USED].fetch_add(1, Relaxed)
        } else {
            index
        };
        if index >= u64::from(self.plan.modules) {
            return self.count(header::MODULES_REJECTED, 1);
        }
        let row =
            self.part(self.plan.modules_start() + index as usize * module::WORDS, module::WORDS);
        let path = self.add_text(path);
        for (index, value) in [
            (module::START, start),
            (module::END, end),
            (module::FILE_OFFSET, file_offset),
            (module::PATH, path),
        ] {
            row[index].store(value, Relaxed);
        }
        row[module::CHECK].store(check(0, &row[..module::CHECK]), Relaxed);
    }

    /// Stores a text, and returns its offset (low half) and length (high half). Returns 0 if the
    /// text is empty or does not fit.
    fn add_text(&self, text: &str) -> u64 {
        let bytes = text.as_bytes();
        let bytes = &bytes[..bytes.len().min(TEXT_BYTES_MAX)];
        let room = u64::from(self.plan.text_bytes);
        if bytes.is_empty() {
            return 0;
        }
        let needed = bytes.len().next_multiple_of(8) as u64;
        let used = &self.header[header::TEXT_USED];
        // The capacity is checked before the count is raised, so that the count exceeds the
        // capacity only a little.
        let has_room = |offset: u64| offset.checked_add(needed).is_some_and(|end| end <= room);
        let offset = has_room(used.load(Relaxed))
            .then(|| used.fetch_add(needed, Relaxed))
            .filter(|at| has_room(*at));
        let Some(offset) = offset else {
            self.count(header::TEXT_REJECTED, 1);
            return 0;
        };
        let first = self.plan.text_start() + offset as usize / 8;
        for (index, chunk) in bytes.chunks(8).enumerate() {
            self.put(first + index, &[word_of(chunk)]);
        }
        halves(offset as u32, bytes.len() as u32)
    }

    fn put(&self, start: usize, values: &[u64]) {
        for (word, value) in self.words[start..].iter().zip(values) {
            word.store(*value, Relaxed);
        }
    }
}

/// The result of a search for a key in a shared table.
pub(super) enum KeyRow {
    /// The key already has a row.
    Known,
    /// The key gets this row now. The caller must fill it.
    New(&'static [AtomicU64]),
    /// The table is full for this key.
    None,
}

/// Stores the check of a complete row, which makes it valid.
pub(super) fn close_row(key: u64, row: &[AtomicU64]) {
    row[site::CHECK].store(check(key, &row[site::CHECK + 1..]), Relaxed);
}

/// The check of a row: a hash of the key and `words`, the other words of the row.
fn check(key: u64, words: &[AtomicU64]) -> u64 {
    check_of(key, words.iter().map(|word| word.load(Relaxed)))
}

/// The check of a row, given its key and its other words.
pub(super) fn check_of(key: u64, words: impl Iterator<Item = u64>) -> u64 {
    words.fold(hash_words(&[key]), |hash, word| hash_words(&[hash, word]))
}

fn halves(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// The first eight bytes, padded with zeros, as a little-endian word.
pub(super) fn word_of(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    for (to, from) in word.iter_mut().zip(bytes) {
        *to = *from;
    }
    u64::from_le_bytes(word)
}
