//! The call stack of a thread at a lock: return addresses for a sample.
//!
//! The walk follows frame pointers, with which the workspace is built (`.cargo/config.toml`).
//! Unwinding by tables needs no frame pointers, but it is slower, and the versions of two system
//! libraries decide whether it takes a lock or allocates. This walk reads two words of our own
//! memory per frame and does nothing else.
//!
//! Invariants:
//! - The walk reads only words of this thread's own stack, between the innermost frame and the
//!   frame of [`with_known_stack`], which is alive. So it cannot fault, whatever the words hold.
//! - A thread has no frames if it did not call [`with_known_stack`], or while it runs on another
//!   stack, such as a signal handler's.
//! - Code without frame pointers ends the walk early, or adds a wrong address. Tools that name
//!   addresses drop those that lie in no program.

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ops::Range;

thread_local! {
    /// The range of this thread's stack that is walked. Has no destructor, so destructors of other
    /// thread-locals can still use it.
    static KNOWN: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// Restores the former value of `KNOWN` when it is dropped.
struct KnownStackGuard {
    before: (usize, usize),
}

impl Drop for KnownStackGuard {
    fn drop(&mut self) {
        KNOWN.set(self.before);
    }
}

/// Runs `work`, and lets samples that this thread takes during `work` have frames up to this call.
/// Asks the system for the range of the stack, which may allocate.
#[inline(never)]
pub fn with_known_stack<R>(work: impl FnOnce() -> R) -> R {
    let here = 0_u8;
    let end = std::ptr::from_ref(&here).expose_provenance();
    let start = own_stack_start().filter(|start| *start < end).unwrap_or(end);
    let _until_the_end = KnownStackGuard { before: KNOWN.replace((start, end)) };
    work()
}

/// The lowest address of this thread's stack.
fn own_stack_start() -> Option<usize> {
    let mut attributes = MaybeUninit::uninit();
    // SAFETY: the call has no conditions.
    let thread = unsafe { libc::pthread_self() };
    // SAFETY: the thread is running, and there is room for the attributes that the call fills in.
    if unsafe { libc::pthread_getattr_np(thread, attributes.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: the call succeeded, so it has filled in the attributes.
    let mut attributes = unsafe { attributes.assume_init() };
    let (mut start, mut bytes) = (std::ptr::null_mut(), 0);
    // SAFETY: the attributes are initialised, and the other pointers lead to an address and a
    // number that may be written.
    let got = unsafe { libc::pthread_attr_getstack(&attributes, &mut start, &mut bytes) };
    // SAFETY: the attributes are not used any more.
    unsafe { libc::pthread_attr_destroy(&mut attributes) };
    (got == 0).then_some(start.addr())
}

/// Fills in the return addresses of this thread's calls, the innermost first, and returns their
/// number.
#[inline(never)]
pub(super) fn callers(out: &mut [u64]) -> usize {
    let here = 0_u8;
    let here = std::ptr::from_ref(&here).expose_provenance();
    let (start, end) = KNOWN.get();
    if !(start..end).contains(&here) {
        return 0;
    }
    // SAFETY: the range is this thread's stack from one living frame to another.
    unsafe { walk(frame_pointer(), here..end, out) }
}

/// The value of the frame pointer's register; 0 on an architecture that is not supported.
#[inline(always)]
fn frame_pointer() -> usize {
    let frame: usize;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction only reads a register.
    unsafe {
        std::arch::asm!("mov {}, rbp", out(reg) frame, options(nomem, nostack, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the instruction only reads a register.
    unsafe {
        std::arch::asm!("mov {}, x29", out(reg) frame, options(nomem, nostack, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        frame = 0;
    }
    frame
}

/// Walks the frames in `stack`, each of which lies above the previous one, fills in their return
/// addresses and returns their number.
///
/// On both supported architectures a frame holds the address of the next frame and, above it, the
/// return address.
///
/// # Safety
/// - Every word in `stack` can be read until this returns.
pub(super) unsafe fn walk(frame: usize, stack: Range<usize>, out: &mut [u64]) -> usize {
    const WORD: usize = size_of::<usize>();
    let (mut frame, mut low, mut count) = (frame, stack.start, 0);
    for out in out {
        let is_frame = frame >= low
            && frame.is_multiple_of(WORD)
            && frame.checked_add(2 * WORD).is_some_and(|end| end <= stack.end);
        if !is_frame {
            break;
        }
        // SAFETY: the word lies in `stack`, so the caller promises that it can be read.
        let next = unsafe { std::ptr::with_exposed_provenance::<usize>(frame).read_volatile() };
        let above = std::ptr::with_exposed_provenance::<usize>(frame + WORD);
        // SAFETY: as above.
        let address = unsafe { above.read_volatile() };
        // The first page of memory has no code.
        if address < 4096 {
            break;
        }
        *out = address as u64;
        count += 1;
        (low, frame) = (frame + 2 * WORD, next);
    }
    count
}
