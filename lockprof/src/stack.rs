//! Callers of callers, by the frames that programs keep which are built with frame pointers.

use std::ops::Range;

use crate::place::Caller;
use crate::proc;

/// The most callers that are looked at.
pub(crate) const FRAMES_MAX: usize = 32;

/// How often a thread looks for its stack: it may have several, such as those of coroutines.
const LOOKS_MAX: u32 = 8;

/// Where this thread's stack lies, as far as it has looked.
#[derive(Debug)]
pub(crate) struct Stack {
    mapped: Range<usize>,
    looks: u32,
}

impl Stack {
    pub(crate) const fn new() -> Stack {
        Stack { mapped: 0..0, looks: 0 }
    }

    /// Fills in the callers, from the nearest on, and says how many.
    pub(crate) fn callers(&mut self, caller: Caller, out: &mut [u64]) -> usize {
        let here = std::ptr::from_ref(&caller).addr();
        if !self.mapped.contains(&here) && self.looks < LOOKS_MAX {
            self.looks += 1;
            self.mapped = proc::mapping_of(here).unwrap_or(0..0);
        }
        let end = if self.mapped.contains(&here) { self.mapped.end } else { here };
        walk(caller, here..end, out)
    }
}

/// Goes from frame to frame while they lie in `stack`, which can be read, each above the last.
///
/// A frame has the address of the next one and, behind it, where to return to; this is so on both
/// kinds of machine that we know.
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
        // SAFETY: a word of the stack, which is mapped as long as this thread is in a call below.
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
        // Three frames, the last of which leads back.
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

    #[test]
    fn a_thread_finds_its_own_stack() {
        let mut stack = Stack::new();
        let here = 0_u8;
        let mut out = [0; 4];
        stack.callers(Caller { address: 1 << 20, frame: 0 }, &mut out);
        assert!(stack.mapped.contains(&std::ptr::from_ref(&here).addr()), "{stack:?}");
    }
}
