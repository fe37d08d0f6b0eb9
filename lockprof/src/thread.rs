//! The state of one thread. It lies in thread-local memory of the kind *initial exec*, which the
//! linker lays out when the program starts, so that a thread finds it without a call. With other
//! kinds, a thread's first access may allocate, and an allocator may take locks.

use std::arch::{asm, global_asm};
use std::cell::{Cell, UnsafeCell};
use std::ffi::{c_long, c_void};
use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicU64, compiler_fence};

use forebay_sync::profile::{Recorder, ThreadIdentity};

use crate::calls::CallPermit;
use crate::hooks::mutex;
use crate::process::{self, ProcessState};
use crate::stack::ThreadStack;
use crate::{errno, real};

/// The state of a thread that records.
#[repr(C)]
pub(crate) struct ThreadState {
    // The fields that each attempt needs come first, so that they share few cache lines.
    /// Set when a call site lies in an unknown module.
    pub(crate) must_look: bool,
    /// Whether the thread has told its process that it wants a block.
    pub(crate) has_joined: bool,
    /// The thread id, as the C library knows it.
    pub(crate) tid: u32,
    pub(crate) recorder: Recorder,
    pub(crate) stack: ThreadStack,
}

/// The state of a thread that has recorded nothing yet.
static NEW: ThreadState = ThreadState {
    must_look: false,
    has_joined: false,
    tid: 0,
    recorder: Recorder::new(),
    stack: ThreadStack::new(),
};

/// The thread-local memory; initially all zeros.
#[repr(C, align(64))]
struct ThreadShell {
    /// Set while a hook is at work: a second hook, in a signal handler or called by the first, does
    /// nothing. Also set once the thread has stopped recording.
    is_busy: Cell<bool>,
    /// The number of the process that `process` and `thread` belong to; 0 while there are none.
    epoch: Cell<u64>,
    word: Cell<Option<&'static AtomicU64>>,
    process: Cell<Option<&'static ProcessState>>,
    thread: UnsafeCell<MaybeUninit<ThreadState>>,
}

global_asm!(
    ".pushsection .tbss.lockprof_thread,\"awT\",@nobits",
    ".p2align 6",
    ".globl lockprof_thread",
    ".hidden lockprof_thread",
    ".type lockprof_thread,@object",
    ".size lockprof_thread,{bytes}",
    "lockprof_thread:",
    ".zero {bytes}",
    ".popsection",
    bytes = const size_of::<ThreadShell>(),
);

/// This thread's shell. The reference must not leave the thread.
#[inline(always)]
fn shell<'thread>() -> &'thread ThreadShell {
    let shell: *const ThreadShell;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: this is how the machine finds thread-local memory, and nothing is written.
    unsafe {
        asm!(
            "mov {shell}, qword ptr [rip + lockprof_thread@GOTTPOFF]",
            "add {shell}, qword ptr fs:[0]",
            shell = out(reg) shell,
            options(pure, readonly, nostack),
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: this is how the machine finds thread-local memory, and nothing is written.
    unsafe {
        asm!(
            "mrs {shell}, tpidr_el0",
            "adrp {offset}, :gottprel:lockprof_thread",
            "ldr {offset}, [{offset}, :gottprel_lo12:lockprof_thread]",
            "add {shell}, {shell}, {offset}",
            shell = out(reg) shell,
            offset = out(reg) _,
            options(pure, readonly, nostack),
        );
    }
    // SAFETY: this is the memory of `lockprof_thread` above, which has this size and alignment.
    // Zeros are valid: false, zero and no references. The memory is this thread's alone as long as
    // the thread lives.
    unsafe { &*shell }
}

impl ThreadShell {
    /// The process that this thread is ready to record for. `None` means that the thread is not
    /// ready, and `Some(None)` that the process does not record.
    #[inline(always)]
    fn ready(&self) -> Option<Option<&'static ProcessState>> {
        let word = self.word.get()?;
        (word.load(Relaxed) == self.epoch.get()).then(|| self.process.get())
    }

    /// Makes this thread ready. The thread is new, or is the only thread of a forked child.
    #[cold]
    #[inline(never)]
    fn prepare(&self) -> Option<&'static ProcessState> {
        errno::preserved(|| self.begin())
    }

    fn begin(&self) -> Option<&'static ProcessState> {
        let word = process::epoch_word()?;
        if !process::may_begin(word) {
            return None;
        }
        let epoch = process::epoch(word);
        let has_clock = CLOCKS_LOST.load(Relaxed) == 0;
        let process = has_clock.then(|| process::process(epoch)).flatten();
        let thread = self.thread.get().cast::<ThreadState>();
        // SAFETY: the memory is this thread's alone, and we are busy, so no reference to it exists.
        // The copied value owns nothing, so nothing in it is ever dropped. It is copied in place,
        // since some stacks are too small for a temporary copy.
        unsafe { thread.copy_from_nonoverlapping(&NEW, 1) };
        // SAFETY: as above, and written just now.
        unsafe { (*thread).tid = mutex::own_number() };
        self.epoch.set(epoch);
        self.process.set(process);
        self.word.set(Some(word));
        process
    }

    /// Begins a hook's work. Returns `None` if a hook is at work already in this thread, or if
    /// there is no process to record for.
    #[inline(always)]
    fn enter(
        &self,
        process: impl FnOnce() -> Option<&'static ProcessState>,
    ) -> Option<HookGuard<'_>> {
        if self.is_busy.get() {
            return None;
        }
        self.is_busy.set(true);
        // ORDER: pairs with the fence in `drop`, for a signal handler in this thread.
        compiler_fence(SeqCst);
        let Some(process) = process() else {
            self.is_busy.set(false);
            return None;
        };
        Some(HookGuard { shell: self, process })
    }
}

/// Marks a hook as at work: while this guard lives, other hooks do nothing in this thread.
pub(crate) struct HookGuard<'thread> {
    shell: &'thread ThreadShell,
    pub(crate) process: &'static ProcessState,
}

impl HookGuard<'_> {
    /// The state of this thread.
    #[inline(always)]
    pub(crate) fn thread(&mut self) -> &mut ThreadState {
        // SAFETY: the state is this thread's alone, and while this guard lives no second hook gets
        // a guard.
        let thread = unsafe { &mut *self.shell.thread.get() };
        // SAFETY: the state was written when the thread became ready.
        unsafe { thread.assume_init_mut() }
    }
}

impl Drop for HookGuard<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        // ORDER: pairs with the fence in `enter`, for a signal handler in this thread.
        compiler_fence(SeqCst);
        self.shell.is_busy.set(false);
    }
}

/// Begins a hook's work in a process with a profile. Makes the profile if needed.
#[inline(always)]
pub(crate) fn enter<'thread>() -> Option<HookGuard<'thread>> {
    let shell = shell();
    shell.enter(|| shell.ready().unwrap_or_else(|| shell.prepare()))
}

/// Begins a hook's work, if this thread is ready to record in this process.
#[inline(always)]
pub(crate) fn enter_ready<'thread>() -> Option<HookGuard<'thread>> {
    let shell = shell();
    shell.enter(|| shell.ready().flatten())
}

/// The number of times that a thread gave up the right to read the processor's clock, for itself
/// and for all threads that it starts.
static CLOCKS_LOST: AtomicU32 = AtomicU32::new(0);

/// Calls `call`, which takes the processor's clock from this thread and, if `is_inherited`, from
/// threads that start later. These threads stop recording, unless `call` fails and returns -1.
#[cold]
pub(crate) fn stop_by(is_inherited: bool, call: impl FnOnce() -> c_long) -> c_long {
    let shell = shell();
    let was_busy = shell.is_busy.replace(true);
    let lost = u32::from(is_inherited);
    // The count is raised before the call: a thread that starts during the call must not read the
    // clock.
    CLOCKS_LOST.fetch_add(lost, Relaxed);
    let code = call();
    if code == -1 {
        CLOCKS_LOST.fetch_sub(lost, Relaxed);
        shell.is_busy.set(was_busy);
    }
    code
}

impl ThreadState {
    /// Begins an attempt. Returns whether this thread records the attempt. A thread without a block
    /// looks for one.
    #[inline(always)]
    pub(crate) fn begin(&mut self, process: &ProcessState) -> bool {
        let (tid, has_joined) = (self.tid, &mut self.has_joined);
        self.recorder.begin(&process.profile, || {
            let identity = errno::preserved(|| ThreadState::identity(tid))?;
            if !*has_joined {
                *has_joined = true;
                process.join();
            }
            process.make_room();
            Some(identity)
        })
    }

    /// The identity of this thread; `None` if the thread could not give a block back when it ends.
    fn identity(tid: u32) -> Option<ThreadIdentity> {
        let key = leave_key()?;
        let first_round = std::ptr::without_provenance::<c_void>(1);
        // SAFETY: the key was made. (The C library allocates memory only for keys after the first
        // 32.)
        let refused = unsafe { libc::pthread_setspecific(key, first_round) };
        if refused != 0 {
            return None;
        }
        Some(ThreadIdentity { tid, name: ThreadState::name() })
    }

    /// The name of this thread; zeros if system calls are forbidden.
    fn name() -> [u8; 16] {
        let mut name = [0_u8; 16];
        if let Some(_calls) = CallPermit::begin() {
            // SAFETY: this writes at most 16 bytes, the last of them zero.
            let _ = unsafe { real::PRCTL.get()(libc::PR_GET_NAME, name.as_mut_ptr()) };
        }
        name
    }
}

/// The number of rounds in which the C library calls destructors that set their value again.
const ROUNDS: usize = 4;

static LEAVE: OnceLock<Option<libc::pthread_key_t>> = OnceLock::new();

/// The key whose destructor runs when a thread ends.
pub(crate) fn leave_key() -> Option<libc::pthread_key_t> {
    *LEAVE.get_or_init(|| {
        let mut key = 0;
        // SAFETY: the key can be written, and the function lives as long as the program.
        let made = unsafe { libc::pthread_key_create(&mut key, Some(leave)) };
        (made == 0).then_some(key)
    })
}

/// Gives the thread's block back when the thread ends. Other destructors may still take locks, so
/// this does nothing before their last round.
unsafe extern "C" fn leave(round: *mut c_void) {
    let round = round.addr();
    if round < ROUNDS
        && let Some(key) = leave_key()
    {
        let next = std::ptr::without_provenance::<c_void>(round + 1);
        // SAFETY: the key was made.
        if unsafe { libc::pthread_setspecific(key, next) } == 0 {
            return;
        }
    }
    if let Some(mut entered) = enter_ready() {
        let process = entered.process;
        let thread = entered.thread();
        thread.recorder.leave(&process.profile);
        if std::mem::take(&mut thread.has_joined) {
            process.part();
        }
    }
}
