//! How a thread came to a lock: the return addresses of its frames, for a sample.
//!
//! They are found by frame pointers, with which the workspace is built (`.cargo/config.toml`). To
//! unwind by tables would need none, but whether that takes a lock or allocates depends on the
//! versions of two libraries of the system, and it takes longer. This walk reads two words a frame,
//! of memory that is ours, and does nothing else.
//!
//! Invariants:
//! - What is read are words of this thread's own stack, between the innermost frame and that of
//!   [`with_known_stack`], which is alive: there is no fault, whatever lies there.
//! - A thread that did not say where its stack lies has no frames; nor has one while it runs on
//!   another stack, such as a signal handler's.
//! - Code that keeps no frame pointers ends the walk early, or adds an address that is none. Who
//!   gives them names leaves out what lies in no program.

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ops::Range;

thread_local! {
    /// From where to where this thread's stack is walked. Has no destructor, so it can be used
    /// until the thread's last instruction.
    static KNOWN: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// Knows less again when it is dropped.
struct KnownStackGuard {
    before: (usize, usize),
}

impl Drop for KnownStackGuard {
    fn drop(&mut self) {
        KNOWN.set(self.before);
    }
}

/// Does the work of a thread with its stack known: samples have frames, as far as here. Asks the
/// system, which may allocate.
#[inline(never)]
pub fn with_known_stack<R>(work: impl FnOnce() -> R) -> R {
    let here = 0_u8;
    let end = std::ptr::from_ref(&here).expose_provenance();
    let start = own_stack_start().filter(|start| *start < end).unwrap_or(end);
    let _until_the_end = KnownStackGuard { before: KNOWN.replace((start, end)) };
    work()
}

/// Where this thread's stack begins.
fn own_stack_start() -> Option<usize> {
    let mut attributes = MaybeUninit::uninit();
    // SAFETY: no conditions.
    let thread = unsafe { libc::pthread_self() };
    // SAFETY: a thread that runs, and room for what is filled in.
    if unsafe { libc::pthread_getattr_np(thread, attributes.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: it was filled in.
    let mut attributes = unsafe { attributes.assume_init() };
    let (mut start, mut bytes) = (std::ptr::null_mut(), 0);
    // SAFETY: attributes, and places for an address and a number.
    let got = unsafe { libc::pthread_attr_getstack(&attributes, &mut start, &mut bytes) };
    // SAFETY: attributes that nobody uses any more.
    unsafe { libc::pthread_attr_destroy(&mut attributes) };
    (got == 0).then_some(start.addr())
}

/// Fills in where this thread's calls return to, the innermost first, and says how many.
#[inline(never)]
pub(super) fn callers(out: &mut [u64]) -> usize {
    let here = 0_u8;
    let here = std::ptr::from_ref(&here).expose_provenance();
    let (start, end) = KNOWN.get();
    if !(start..end).contains(&here) {
        return 0;
    }
    // SAFETY: this thread's stack, from a frame that is alive to another one that is.
    unsafe { walk(frame_pointer(), here..end, out) }
}

/// The register that points to the present frame, in code that keeps it.
#[inline(always)]
fn frame_pointer() -> usize {
    let frame: usize;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a register is read.
    unsafe {
        std::arch::asm!("mov {}, rbp", out(reg) frame, options(nomem, nostack, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a register is read.
    unsafe {
        std::arch::asm!("mov {}, x29", out(reg) frame, options(nomem, nostack, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        frame = 0;
    }
    frame
}

/// Goes from frame to frame while they lie in `stack`, each above the last, and fills in where they
/// return to; says how many.
///
/// A frame has the address of the next one and, behind it, where to return to; this is so on both
/// kinds of machine that we know.
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
        // SAFETY: a word in `stack`, by the contract.
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
