//! The callers of a hook, which are found by frame pointers, in programs that are built with them.
//!
//! Only the thread's own stack is read, from the hook's frame up to the end of the stack: this part
//! exists as long as the thread runs on it. Other stacks, such as those of coroutines and signal
//! handlers, may be unmapped at any time. While a thread runs on one of them, the register of the
//! frame pointer need not point to a frame.

use std::ops::Range;

use crate::call_site::Caller;
use crate::calls::CallPermit;
use crate::{errno, proc};

/// The largest number of callers that are read.
pub(crate) const FRAMES_MAX: usize = 32;

/// The largest number of times that a thread searches for its stack. More than one search may be
/// needed: the first thread's stack grows, and a search fails while the thread runs on another
/// stack.
const LOOKS_MAX: u32 = 32;

/// The range of this thread's stack, as far as known.
#[derive(Debug)]
pub(crate) struct ThreadStack {
    own: Range<usize>,
    looks: u32,
}

impl ThreadStack {
    pub(crate) const fn new() -> ThreadStack {
        ThreadStack { own: 0..0, looks: 0 }
    }

    /// Fills in the callers, the nearest first, and returns their number.
    pub(crate) fn callers(&mut self, caller: Caller, out: &mut [u64]) -> usize {
        let here = std::ptr::from_ref(&caller).addr();
        if !self.own.contains(&here) {
            self.look();
        }
        let end = if self.own.contains(&here) { self.own.end } else { here };
        walk(caller, here..end, out)
    }

    /// Searches for the thread's own stack, unless it is known or system calls are forbidden.
    #[cold]
    pub(crate) fn look(&mut self) {
        let here = std::ptr::from_ref(&self).addr();
        if self.own.contains(&here) || self.looks == LOOKS_MAX {
            return;
        }
        self.looks += 1;
        if let Some(calls) = CallPermit::begin() {
            let local = std::ptr::from_ref(self).addr();
            let found = errno::preserved(|| own_stack(&calls, here, local));
            self.own = found.unwrap_or(self.own.clone());
        }
    }
}

/// The stack that this thread runs on, if it is known to be the thread's own. `here` is an address
/// in this stack, and `local` an address in the thread-local memory of the thread.
///
/// The system names the first thread's stack. The C library puts the thread-local memory of other
/// threads above their stacks and a guard below them: the memory in between is one piece.
fn own_stack(calls: &CallPermit, here: usize, local: usize) -> Option<Range<usize>> {
    let (mut found, mut guard_end) = (None, 0);
    proc::mappings(calls, |mapping| {
        if mapping.range.contains(&here) {
            let (start, end) = (mapping.range.start, mapping.range.end);
            let is_below = mapping.range.contains(&local) && here < local && guard_end == start;
            found = match mapping.path {
                b"[stack]" => Some(start..end),
                b"" if is_below => Some(start..local),
                _ => None,
            };
        }
        if mapping.is_guard {
            guard_end = mapping.range.end;
        }
        mapping.range.end <= here
    });
    found
}

/// Fills in the caller and then the return addresses of the frames in `stack`, each of which lies
/// above the previous one. Returns the number of addresses. All of `stack` can be read.
///
/// On both supported architectures a frame holds the address of the next frame and, above it, the
/// return address.
fn walk(caller: Caller, stack: Range<usize>, out: &mut [u64]) -> usize {
    const WORD: usize = size_of::<usize>();
    let Some((first, rest)) = out.split_first_mut() else {
        return 0;
    };
    *first = caller.address as u64;
    let (mut frame, mut low, mut count) = (caller.frame, stack.start, 1);
    for out in rest {
        let is_frame = frame >= low
            && frame.is_multiple_of(WORD)
            && frame.checked_add(2 * WORD).is_some_and(|end| end <= stack.end);
        if !is_frame {
            break;
        }
        // SAFETY: the word lies in the thread's own stack, which exists while the thread runs below
        // it.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_ends_where_there_is_no_frame() {
        // There are three frames. The last names the first as the next frame.
        let mut stack = [0_usize; 12];
        let base = stack.as_ptr().expose_provenance();
        let at = |index: usize| base + index * size_of::<usize>();
        (stack[2], stack[3]) = (at(6), 0x7001);
        (stack[6], stack[7]) = (at(8), 0x7002);
        (stack[8], stack[9]) = (at(2), 0x7003);
        let mut out = [0; 8];
        for (frame, end, expected) in [
            (at(2), at(12), &[0x7000, 0x7001, 0x7002, 0x7003][..]),
            (at(2), at(10), &[0x7000, 0x7001, 0x7002, 0x7003]),
            (at(2), at(9), &[0x7000, 0x7001, 0x7002]),
            (at(6), at(12), &[0x7000, 0x7002, 0x7003]),
            (at(2) + 1, at(12), &[0x7000]),
            (at(0) - 64, at(12), &[0x7000]),
            (usize::MAX - 7, at(12), &[0x7000]),
            (0, at(12), &[0x7000]),
        ] {
            let count = walk(Caller { address: 0x7000, frame }, base..end, &mut out);
            assert_eq!(&out[..count], expected, "frame at {:#x}", frame.wrapping_sub(base));
        }
        std::hint::black_box(&stack);
    }

    type FoundStack = Option<Range<usize>>;

    /// Returns an address in this function's frame, which lies below the frames of its callers, and
    /// the stacks that are found for this address with the thread-local address `above`, for an
    /// address in the heap, and for this address with a wrong thread-local address.
    #[inline(never)]
    fn find(above: usize) -> (usize, FoundStack, FoundStack, FoundStack) {
        let (here, heap) = (0_u8, Box::new(0_u8));
        let here = std::ptr::from_ref(std::hint::black_box(&here)).addr();
        let heap = std::ptr::from_ref(&*heap).addr();
        let calls = CallPermit::begin().unwrap();
        let own = own_stack(&calls, here, above);
        (here, own, own_stack(&calls, heap, heap + 1), own_stack(&calls, here, heap))
    }

    #[test]
    fn a_thread_finds_its_own_stack_and_no_other() {
        // This variable stands for the thread-local memory, which lies above the stack.
        let above = 0_u8;
        let above = std::ptr::from_ref(std::hint::black_box(&above)).addr();
        let (here, own, of_heap, other) = find(above);
        assert!(own.clone().is_some_and(|own| own.contains(&here)), "{own:?}");
        assert_eq!((own.map(|own| own.end), of_heap, other), (Some(above), None, None));
    }
}
