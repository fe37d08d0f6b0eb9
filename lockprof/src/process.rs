//! The state of the process. A forked child is another process: when it first takes a lock, it
//! begins a state and a file of its own.
//!
//! | word | written by | read by |
//! |---|---|---|
//! | `WipedMemory::epoch` | a thread that finds it zero; the kernel, in a child | every hook |
//! | `WipedMemory::owner` | as `WipedMemory::epoch` | threads that begin |
//! | `FORKS` | a thread that is about to write the epoch | threads that begin |
//! | `PROCESSES[epoch - 1]` | the first thread of that epoch | threads that begin in that epoch |
//!
//! No ordering is needed beyond those of `OnceLock`.

use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, AtomicUsize};

use forebay_sync::profile::{Clock, ProcessIdentity, Profile, SiteKind};
use rustix::mm::Advice;
use rustix::time::ClockId;

use crate::calls::{self, CallPermit};
use crate::file;
use crate::modules::ModuleTable;
use crate::proc;
use crate::settings::{RecordSettings, settings};

/// The length of the longest recorded chain of processes, each forked by the previous process.
const FORKS_MAX: usize = 32;

/// The size of the memory that the kernel zeroes in a child. It is whole pages on all machines.
const WIPED_BYTES: usize = 1 << 16;

/// The number of additional threads for which blocks are allocated before a process sets up a
/// filter.
const THREADS_AHEAD: usize = 32;

/// The state of this process, while it records.
#[derive(Debug)]
pub(crate) struct ProcessState {
    pub(crate) profile: Profile,
    pub(crate) modules: &'static ModuleTable,
    /// The number of callers that are part of a call site.
    pub(crate) frame_count: usize,
    pub(crate) is_by_lock: bool,
    /// The number of threads that have a block or want one.
    threads: AtomicUsize,
}

impl ProcessState {
    /// Counts another thread that wants a block.
    pub(crate) fn join(&self) {
        self.threads.fetch_add(1, Relaxed);
    }

    /// Allocates memory for as many blocks as there are threads. On a full disk some thread finds
    /// no block, and its records are lost.
    pub(crate) fn make_room(&self) {
        if let Some(calls) = CallPermit::begin() {
            self.make_room_for(self.threads.load(Relaxed), &calls);
        }
    }

    /// Makes the system calls that a filter may soon forbid.
    pub(crate) fn prepare_for_filter(&self) {
        self.modules.look(&self.profile);
        if let Some(calls) = CallPermit::begin() {
            self.make_room_for(self.threads.load(Relaxed) + THREADS_AHEAD, &calls);
        }
    }

    fn make_room_for(&self, threads: usize, _calls: &CallPermit) {
        let wanted = threads.min(self.profile.plan().threads as usize);
        for index in self.profile.blocks()..wanted {
            if file::populate(self.profile.block(index)).is_none() {
                return;
            }
            self.profile.raise_blocks(index + 1);
        }
    }

    /// Counts one thread less, after a thread that [joined](ProcessState::join) has given its block
    /// back.
    pub(crate) fn part(&self) {
        self.threads.fetch_sub(1, Relaxed);
    }
}

/// Memory that the kernel zeroes in each child, whether the C library forked it or not.
#[derive(Debug)]
struct WipedMemory {
    /// The present process's position in its chain of forks, counted from 1; 0 if not yet set.
    epoch: AtomicU64,
    /// The id of the process that owns this memory; 0 until the process first asks whether the
    /// memory is its own. A child that the C library forked asks before its program continues.
    owner: AtomicU64,
}

static WIPED: OnceLock<Option<&'static WipedMemory>> = OnceLock::new();
static FORKS: AtomicU64 = AtomicU64::new(0);
static PROCESSES: [OnceLock<Option<ProcessState>>; FORKS_MAX] =
    [const { OnceLock::new() }; FORKS_MAX];

fn wiped() -> Option<&'static WipedMemory> {
    *WIPED.get_or_init(|| {
        let start = proc::map_zeros(WIPED_BYTES)?;
        // SAFETY: we have just mapped it, and it holds nothing.
        unsafe { rustix::mm::madvise(start.cast(), WIPED_BYTES, Advice::LinuxWipeOnFork) }.ok()?;
        // SAFETY: mapped for good, initially zeros, aligned to a page.
        Some(unsafe { &*start.cast::<WipedMemory>() })
    })
}

/// Called when the library is loaded.
pub(crate) fn loaded() {
    is_memory_ours();
    // SAFETY: the function lives as long as the program, and may be registered at this point.
    unsafe { libc::pthread_atfork(None, None, Some(forked)) };
}

/// The C library calls this in a child before the program continues. The child has only this
/// thread, which may hold any lock.
unsafe extern "C" fn forked() {
    calls::forked();
    if let Some(_calls) = CallPermit::begin() {
        is_memory_ours();
    }
}

/// Whether the memory that this process runs in is its own. A child of `vfork` runs in the memory
/// of its parent.
pub(crate) fn is_memory_ours() -> bool {
    let Some(wiped) = wiped() else {
        return false;
    };
    let us = u64::from(std::process::id());
    // The first process that asks owns the memory. The C library ensures that this is no child of
    // `vfork`.
    let owner = wiped.owner.compare_exchange(0, us, Relaxed, Relaxed);
    owner.is_ok() || owner == Err(us)
}

/// The word that holds the [epoch](WipedMemory::epoch) of the present process.
pub(crate) fn epoch_word() -> Option<&'static AtomicU64> {
    wiped().map(|wiped| &wiped.epoch)
}

/// Whether a thread that finds this word may begin to record. A child of `vfork` is not allowed to,
/// if its parent has not begun: the profile would be the parent's.
pub(crate) fn may_begin(word: &AtomicU64) -> bool {
    // With a filter there will be no profile in any case.
    process_of(word).is_some() || CallPermit::begin().is_none_or(|_calls| is_memory_ours())
}

/// The state of this process, if it records already.
pub(crate) fn begun() -> Option<&'static ProcessState> {
    process_of(epoch_word()?)?.as_ref()
}

fn process_of(word: &AtomicU64) -> Option<&'static Option<ProcessState>> {
    place_of(word.load(Relaxed))?.get()
}

/// The number of this process in the chain of forks that led to it, counted from 1.
pub(crate) fn epoch(word: &AtomicU64) -> u64 {
    let known = word.load(Relaxed);
    if known != 0 {
        return known;
    }
    let next = FORKS.load(Relaxed) + 1;
    // Written before the epoch: a child that another thread forks in between must not take the same
    // number, since it would find the state of this process there.
    FORKS.fetch_max(next, Relaxed);
    match word.compare_exchange(0, next, Relaxed, Relaxed) {
        Ok(_) => next,
        Err(other) => other,
    }
}

fn place_of(epoch: u64) -> Option<&'static OnceLock<Option<ProcessState>>> {
    PROCESSES.get((epoch as usize).checked_sub(1)?)
}

/// The state of this process, whose [epoch](WipedMemory::epoch) is `epoch`; `None` if the process
/// does not record. The first call makes the state and the profile.
pub(crate) fn process(epoch: u64) -> Option<&'static ProcessState> {
    let place = place_of(epoch)?;
    if let Some(known) = place.get() {
        return known.as_ref();
    }
    // The permit blocks signals before the cell is initialised: no handler may stop us inside.
    let calls = CallPermit::begin();
    place.get_or_init(|| make(settings()?, calls.as_ref()?)).as_ref()
}

fn make(settings: &RecordSettings, calls: &CallPermit) -> Option<ProcessState> {
    if !file::is_wanted(settings.path(), settings.processes) {
        return None;
    }
    let modules = map_array::<ModuleTable>(1)?.first()?;
    let clock = Clock::fastest();
    let head_bytes = settings.plan.blocks_start() as u64 * 8;
    let profile = file::make(settings.path(), head_bytes, settings.plan.bytes(), |made| {
        let mut profile = new_profile(made.words, settings, clock)?;
        if !made.is_whole {
            profile = profile.without_blocks();
        }
        modules.look_by(calls, &profile);
        profile.set_skip(settings.skip);
        profile.turn(settings.is_on);
        Some(profile)
    })?;
    Some(ProcessState {
        profile,
        modules,
        frame_count: settings.plan.frames as usize,
        is_by_lock: settings.is_by_lock,
        threads: AtomicUsize::new(0),
    })
}

fn new_profile(
    words: &'static [AtomicU64],
    settings: &RecordSettings,
    clock: Clock,
) -> Option<Profile> {
    let mut program = [0; 256];
    let count = proc::head_of(c"/proc/self/cmdline", &mut program);
    let program = program_of(&mut program[..count]);
    let now = rustix::time::clock_gettime(ClockId::Realtime);
    let identity = ProcessIdentity {
        pid: std::process::id(),
        start_ticks: proc::start_ticks(),
        boot_id: proc::boot_id(),
        unix_ns: (now.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec as u64),
        program,
        kind: SiteKind::Stacks,
    };
    Profile::new(words, settings.plan, clock, &identity)
}

/// The arguments in `bytes`, which are separated by zeros, as one text with spaces.
fn program_of(bytes: &mut [u8]) -> &str {
    for byte in bytes.iter_mut().filter(|byte| **byte == 0) {
        *byte = b' ';
    }
    let text = bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    text.trim_end()
}

/// Maps an array of `count` values, whose bytes are all zero.
fn map_array<T: ZerosAreFine>(count: usize) -> Option<&'static [T]> {
    let start = proc::map_zeros(count.checked_mul(size_of::<T>())?)?;
    // SAFETY: mapped for good, aligned to a page, zeros, which are a `T`.
    Some(unsafe { std::slice::from_raw_parts(start.cast::<T>(), count) })
}

/// # Safety
/// - Memory that is all zero is a value of this type.
/// - The type needs no larger alignment than a page has.
unsafe trait ZerosAreFine {}

// SAFETY: all fields are atomic numbers or truth values, for which zeros are valid.
unsafe impl ZerosAreFine for ModuleTable {}
