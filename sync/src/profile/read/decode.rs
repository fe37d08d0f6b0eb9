//! Decodes the bytes of a profile into a [`ProfileSnapshot`].

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::text::{Texts, text_of};
use super::words::{each_row, words};
use super::{
    LockNow, ModuleRead, PairRead, PairTotals, ProfileBytes, ProfileControl, ProfileError,
    ProfileErrorKind, ProfileHeader, ProfileSnapshot, SampleRead, SharedCounts, SiteRead,
    SiteTotals, StackRead, ThreadCounts, ThreadNow, ThreadRead,
};
use crate::profile::hash::hash_words;
use crate::profile::plan::{
    BUCKET_COUNT, HEADER_WORDS, HOLDS_MAX, KEYS_START, LAYOUT_VERSION, MAGIC, PROGRAM_BYTES,
    ProfilePlan, StackPlan, block, header, hold, module, pair, row, sample, site, stack,
};
use crate::profile::shared::{SiteKind, check_of};

impl ProfileHeader {
    /// Reads the part of a profile that does not change.
    ///
    /// # Errors
    /// The bytes are not a profile, are cut off or damaged, or cannot be read.
    pub fn of(bytes: &(impl ProfileBytes + ?Sized)) -> Result<ProfileHeader, ProfileError> {
        about(&header_words(bytes)?, bytes.byte_count())
    }
}

impl ProfileSnapshot {
    /// Reads a profile.
    ///
    /// # Errors
    /// The bytes are not a profile, are cut off or damaged, or cannot be read.
    pub fn of(bytes: &(impl ProfileBytes + ?Sized)) -> Result<ProfileSnapshot, ProfileError> {
        let head = header_words(bytes)?;
        let about = about(&head, bytes.byte_count())?;
        let plan = about.plan;
        let control = control(&head);
        // Threads are read before sites: a thread describes a site before it counts events or holds
        // there.
        let (threads, now) = threads(bytes, &about, control.generation)?;
        let mut texts = Texts::of(bytes, &plan);
        let mut sites = BTreeMap::new();
        let rows = (plan.site_words(), plan.sites as usize);
        each_row(bytes, plan.sites_start(), rows, |row| {
            sites.extend(site_of(row, &mut texts)?);
            Ok(())
        })?;
        let mut stacks = BTreeMap::new();
        let rows = (plan.stack_words(), plan.stacks.stacks as usize);
        each_row(bytes, plan.stacks_start(), rows, |row| {
            stacks.extend(stack_of(row));
            Ok(())
        })?;
        let mut modules = Vec::new();
        let rows = (module::WORDS, plan.modules as usize);
        each_row(bytes, plan.modules_start(), rows, |row| {
            modules.extend(module_of(row, &mut texts)?);
            Ok(())
        })?;
        let mut counts = shared_counts(&head);
        counts.texts_rejected = counts.texts_rejected.saturating_add(texts.rejected);
        Ok(ProfileSnapshot { sites, stacks, modules, threads, now, counts, control, about })
    }
}

/// The word at an index, or 0 beyond the end, where no layout has a word.
fn at(words: &[u64], index: usize) -> u64 {
    words.get(index).copied().unwrap_or(0)
}

fn header_words(bytes: &(impl ProfileBytes + ?Sized)) -> Result<Vec<u64>, ProfileError> {
    let found = bytes.byte_count();
    if found < 8 || at(&words(bytes, 0, 1)?, 0) != MAGIC {
        return Err(ProfileErrorKind::NotAProfile.into());
    }
    let expected = (HEADER_WORDS * 8) as u64;
    if found < expected {
        return Err(ProfileErrorKind::CutOff { expected, found }.into());
    }
    words(bytes, 0, HEADER_WORDS)
}

fn about(head: &[u64], byte_count: u64) -> Result<ProfileHeader, ProfileError> {
    let damaged = |what| Err(ProfileErrorKind::Damaged { what }.into());
    let version = low(at(head, header::VERSION));
    match version.cmp(&LAYOUT_VERSION) {
        Ordering::Greater => return Err(ProfileErrorKind::NewerLayout { found: version }.into()),
        Ordering::Less if version > 0 => {
            return Err(ProfileErrorKind::OlderLayout { found: version }.into());
        }
        _ => {}
    }
    if version == 0 || high(at(head, header::VERSION)) as usize != HEADER_WORDS * 8 {
        return damaged("the layout version");
    }
    if head.get(..header::CHECK).map(hash_words) != head.get(header::CHECK).copied() {
        return damaged("the header");
    }
    let plan = plan_of(head);
    if let Some(what) = plan.fault() {
        return damaged(what);
    }
    let expected = at(head, header::FILE_BYTES);
    if expected != plan.bytes() {
        return damaged("the size of the profile");
    }
    if byte_count < expected {
        return Err(ProfileErrorKind::CutOff { expected, found: byte_count }.into());
    }
    let kind = match high(at(head, header::PID)) {
        0 => SiteKind::Places,
        1 => SiteKind::Stacks,
        _ => return damaged("the kind of its sites"),
    };
    let boot_id = bytes_of(head.get(header::BOOT_ID..header::BOOT_ID + 2));
    let program = head.get(header::PROGRAM..header::PROGRAM + PROGRAM_BYTES / 8);
    Ok(ProfileHeader {
        pid: low(at(head, header::PID)),
        start_ticks: at(head, header::START_TICKS),
        boot_id: boot_id.try_into().unwrap_or_default(),
        created_unix_ns: at(head, header::CREATED_UNIX_NS),
        clock_hz: at(head, header::CLOCK_HZ),
        created_ticks: at(head, header::CREATED_TICKS),
        program: text_of(&bytes_of(program)),
        kind,
        plan,
    })
}

fn plan_of(head: &[u64]) -> ProfilePlan {
    let [sites, modules, rows] =
        [header::SITES, header::MODULES, header::ROWS].map(|i| at(head, i));
    ProfilePlan {
        sites: low(sites),
        frames: high(sites),
        modules: low(modules),
        threads: high(modules),
        text_bytes: u32::try_from(at(head, header::TEXT_BYTES)).unwrap_or(u32::MAX),
        rows: low(rows),
        pairs: high(rows),
        stacks: StackPlan {
            stacks: low(at(head, header::STACKS)),
            frames: high(at(head, header::STACKS)),
            samples: u32::try_from(at(head, header::SAMPLES)).unwrap_or(u32::MAX),
        },
    }
}

fn control(head: &[u64]) -> ProfileControl {
    ProfileControl {
        is_on: at(head, header::ENABLED) != 0,
        skip: at(head, header::SKIP),
        stack_sample: at(head, header::STACK_SAMPLE),
        generation: at(head, header::GENERATION),
        reset_unix_ns: at(head, header::RESET_UNIX_NS),
    }
}

fn shared_counts(head: &[u64]) -> SharedCounts {
    SharedCounts {
        sites_used: at(head, header::SITES_USED),
        sites_rejected: at(head, header::SITES_REJECTED),
        site_collisions: at(head, header::SITE_COLLISIONS),
        texts_rejected: at(head, header::TEXT_REJECTED),
        modules_rejected: at(head, header::MODULES_REJECTED),
        threads_started: at(head, header::THREADS_STARTED),
        lost: at(head, header::LOST),
        processes: at(head, header::PROCESSES),
        processes_refused: at(head, header::PROCESSES_REFUSED),
        stacks_used: at(head, header::STACKS_USED),
        stacks_rejected: at(head, header::STACKS_REJECTED),
        stack_collisions: at(head, header::STACK_COLLISIONS),
    }
}

fn site_of(
    row: &[u64],
    texts: &mut Texts<'_, impl ProfileBytes + ?Sized>,
) -> Result<Option<(u64, SiteRead)>, ProfileError> {
    let key = at(row, site::KEY);
    let rest = row.get(site::CHECK + 1..).unwrap_or_default().iter().copied();
    if key == 0 || at(row, site::CHECK) != check_of(key, rest) {
        return Ok(None);
    }
    let frame_count = usize::try_from(at(row, site::FRAME_COUNT)).unwrap_or(0);
    let frames = row.get(site::FIXED_WORDS..).and_then(|frames| frames.get(..frame_count));
    let read = SiteRead {
        name: texts.at(at(row, site::NAME))?,
        place: texts.at(at(row, site::PLACE))?,
        line: low(at(row, site::LINE)),
        column: high(at(row, site::LINE)),
        lock: at(row, site::LOCK),
        frames: frames.unwrap_or_default().to_vec(),
    };
    Ok(Some((key, read)))
}

fn stack_of(row: &[u64]) -> Option<(u64, StackRead)> {
    let key = at(row, stack::KEY);
    let rest = row.get(stack::CHECK + 1..)?.iter().copied();
    if key == 0 || at(row, stack::CHECK) != check_of(key, rest) {
        return None;
    }
    let count = usize::try_from(at(row, stack::FRAME_COUNT)).unwrap_or(0);
    let frames = row.get(stack::FIXED_WORDS..).and_then(|frames| frames.get(..count));
    let frames = frames.unwrap_or_default().to_vec();
    Some((key, StackRead { site: at(row, stack::SITE), frames }))
}

fn module_of(
    row: &[u64],
    texts: &mut Texts<'_, impl ProfileBytes + ?Sized>,
) -> Result<Option<ModuleRead>, ProfileError> {
    let fields = row.get(..module::CHECK).unwrap_or_default().iter().copied();
    let (start, end) = (at(row, module::START), at(row, module::END));
    if start >= end || at(row, module::CHECK) != check_of(0, fields) {
        return Ok(None);
    }
    let (file_offset, path) = (at(row, module::FILE_OFFSET), texts.at(at(row, module::PATH))?);
    Ok(Some(ModuleRead { start, end, file_offset, path }))
}

/// The records of the blocks, and the present holds and waits of their owners.
fn threads(
    bytes: &(impl ProfileBytes + ?Sized),
    about: &ProfileHeader,
    generation: u64,
) -> Result<(Vec<ThreadRead>, Vec<ThreadNow>), ProfileError> {
    let plan = &about.plan;
    let owners = words(bytes, plan.owners(), plan.threads as usize)?;
    let (mut threads, mut now) = (Vec::new(), Vec::new());
    for (index, owner) in owners.iter().enumerate() {
        let start = plan.blocks_start() + index * plan.block_words();
        let head = words(bytes, start, KEYS_START)?;
        if *owner != 0 {
            now.push(thread_now(&head, about));
        }
        if at(&head, block::OWNERS) == 0 || at(&head, block::GENERATION) != generation {
            continue;
        }
        let block = words(bytes, start, plan.block_words())?;
        threads.push(thread_of(&block, plan, *owner != 0));
    }
    Ok((threads, now))
}

fn thread_now(head: &[u64], about: &ProfileHeader) -> ThreadNow {
    let rows = head.get(block::HEAD_WORDS..).unwrap_or_default().chunks_exact(hold::WORDS);
    let lock_now = |row: &[u64]| LockNow {
        since_unix_ns: about.unix_ns(at(row, hold::SINCE)),
        lock: at(row, hold::LOCK),
        site: at(row, hold::KEY),
        is_shared: at(row, hold::ROW) & hold::SHARED != 0,
    };
    let is_used = |(index, _): &(usize, &[u64])| at(head, block::HOLDS_USED) >> index & 1 != 0;
    let holds = rows.clone().take(HOLDS_MAX).enumerate().filter(is_used);
    let mut holds: Vec<_> = holds.map(|(_, row)| lock_now(row)).collect();
    holds.sort();
    let awaited = rows.clone().nth(HOLDS_MAX).filter(|row| at(row, hold::LOCK) != 0);
    let (tid, name) = tid_and_name(head);
    ThreadNow { tid, name, holds, awaited: awaited.map(lock_now) }
}

fn tid_and_name(words: &[u64]) -> (u32, String) {
    let name = words.get(block::NAME..block::NAME + 2);
    (low(at(words, block::TID)), text_of(&bytes_of(name)))
}

fn thread_of(words: &[u64], plan: &ProfilePlan, is_taken: bool) -> ThreadRead {
    let keys = words.iter().skip(KEYS_START).take(plan.rows as usize);
    let rows = words.get(plan.rows_start()..).unwrap_or_default().chunks_exact(row::WORDS);
    let keyed = std::iter::once(&0).chain(keys).zip(rows);
    let rows = keyed.map(|(key, words)| (*key, totals_of(words)));
    let pairs = words.get(plan.pairs_start()..).unwrap_or_default();
    let pairs = pairs.chunks_exact(pair::WORDS).take(plan.pairs as usize).map(pair_of);
    let (tid, name) = tid_and_name(words);
    let samples = words.get(plan.samples_start()..).unwrap_or_default();
    let samples = samples.chunks_exact(sample::WORDS).take(plan.stacks.samples as usize);
    ThreadRead {
        tid,
        name,
        is_taken,
        owner_count: at(words, block::OWNERS),
        counts: thread_counts(words),
        rows: rows.filter(|(_, totals)| *totals != SiteTotals::default()).collect(),
        pairs: pairs.filter(|pair| pair.waiter != 0).collect(),
        samples: samples.map(sample_of).filter(|sample| sample.stack != 0).collect(),
    }
}

fn thread_counts(words: &[u64]) -> ThreadCounts {
    ThreadCounts {
        rows_used: at(words, block::ROWS_USED),
        rows_rejected: at(words, block::ROWS_REJECTED),
        row_collisions: at(words, block::ROW_COLLISIONS),
        pairs_used: at(words, block::PAIRS_USED),
        pairs_rejected: at(words, block::PAIRS_REJECTED),
        pair_collisions: at(words, block::PAIR_COLLISIONS),
        tries_forgotten: at(words, block::TRIES_FORGOTTEN),
        skipped: at(words, block::SKIPPED),
        samples_used: at(words, block::SAMPLES_USED),
        samples_rejected: at(words, block::SAMPLES_REJECTED),
        sample_collisions: at(words, block::SAMPLE_COLLISIONS),
    }
}

fn totals_of(words: &[u64]) -> SiteTotals {
    let buckets = |start: usize| -> [u64; BUCKET_COUNT] {
        std::array::from_fn(|bucket| at(words, start + bucket))
    };
    SiteTotals {
        count: at(words, row::COUNT),
        shared_count: at(words, row::SHARED_COUNT),
        owner_died_count: at(words, row::OWNER_DIED_COUNT),
        hold_ns: at(words, row::HOLD_NS),
        hold_ns_max: at(words, row::HOLD_NS_MAX),
        wait_ns: at(words, row::WAIT_NS),
        wait_ns_max: at(words, row::WAIT_NS_MAX),
        contended_count: at(words, row::CONTENDED_COUNT),
        try_failed_count: at(words, row::TRY_FAILED_COUNT),
        timed_out_count: at(words, row::TIMED_OUT_COUNT),
        try_delay_ns: at(words, row::TRY_DELAY_NS),
        try_delay_ns_max: at(words, row::TRY_DELAY_NS_MAX),
        try_delay_count: at(words, row::TRY_DELAY_COUNT),
        asleep_ns: at(words, row::ASLEEP_NS),
        asleep_ns_max: at(words, row::ASLEEP_NS_MAX),
        asleep_count: at(words, row::ASLEEP_COUNT),
        holds: buckets(row::HOLD_BUCKETS),
        waits: buckets(row::WAIT_BUCKETS),
    }
}

fn pair_of(words: &[u64]) -> PairRead {
    PairRead {
        holder: at(words, pair::HOLDER),
        waiter: at(words, pair::WAITER),
        totals: PairTotals {
            wait_count: at(words, pair::WAIT_COUNT),
            wait_ns: at(words, pair::WAIT_NS),
            wait_ns_max: at(words, pair::WAIT_NS_MAX),
            try_failed_count: at(words, pair::TRY_FAILED_COUNT),
            try_delay_ns: at(words, pair::TRY_DELAY_NS),
        },
    }
}

fn sample_of(words: &[u64]) -> SampleRead {
    SampleRead {
        stack: at(words, sample::STACK),
        holder: at(words, sample::HOLDER),
        waiter: at(words, sample::WAITER),
        totals: PairTotals {
            wait_count: at(words, sample::WAIT_COUNT),
            wait_ns: at(words, sample::WAIT_NS),
            wait_ns_max: at(words, sample::WAIT_NS_MAX),
            try_failed_count: at(words, sample::TRY_FAILED_COUNT),
            try_delay_ns: at(words, sample::TRY_DELAY_NS),
        },
    }
}

fn low(word: u64) -> u32 {
    word as u32
}

fn high(word: u64) -> u32 {
    (word >> 32) as u32
}

fn bytes_of(words: Option<&[u64]>) -> Vec<u8> {
    words.unwrap_or_default().iter().flat_map(|word| word.to_le_bytes()).collect()
}
