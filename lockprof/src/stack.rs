//! Callers of callers, by the frames that programs keep which are built with frame pointers.

use std::ops::Range;

use forebay_sync::profile::walk;

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
        let Some((first, rest)) = out.split_first_mut() else {
            return 0;
        };
        *first = caller.address as u64;
        let end = if self.mapped.contains(&here) { self.mapped.end } else { here };
        // SAFETY: this thread's stack from here up, which is mapped as long as it is in a call.
        1 + unsafe { walk(caller.frame, here..end, rest) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_finds_its_own_stack() {
        let mut stack = Stack::new();
        let here = 0_u8;
        let mut out = [0; 4];
        stack.callers(Caller { address: 1 << 20, frame: 0 }, &mut out);
        assert!(stack.mapped.contains(&std::ptr::from_ref(&here).addr()), "{stack:?}");
    }
}
