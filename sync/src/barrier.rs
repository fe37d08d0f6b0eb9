//! Barriers for publish-then-check protocols in which one side runs often and the other rarely.
//!
//! Each side stores into its own word and then loads the word of the other side. Without a barrier
//! between the store and the load, both sides may miss each other's store. There are two remedies:
//! - Both sides execute a fence.
//! - The rare side calls `membarrier`, which makes the kernel execute a fence on every processor
//!   that runs a thread of this process. The frequent side only keeps the compiler from reordering.
//!
//! A protocol between processes must use fences. The kernel's expedited `membarrier` for all
//! registered processes skips processors that it must not skip: when a thread ends, the kernel
//! marks its processor as one without a registered process. A switch to another thread of the same
//! process changes no memory map, and does not remove the mark (seen with Linux 6.18).
//! `MEMBARRIER_CMD_GLOBAL`, which uses no such marks, takes 10 to 30 ms.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Release};

use rustix::thread::{MembarrierCommand, MembarrierQuery, membarrier, membarrier_query};

use crate::atomic::fence;

/// The kind of barrier that a protocol uses. Both sides of a protocol must use the same kind.
///
/// Only the constructors make a `Barrier`, since the kernel refuses `membarrier` to a process that
/// has not registered.
///
/// ```compile_fail,E0599
/// let barrier = forebay_sync::Barrier::Process;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Barrier(BarrierKind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BarrierKind {
    Fence,
    /// `membarrier`, for which this process is registered.
    Process,
}

/// The kernel has no expedited `membarrier`, or a filter of system calls forbids it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoMembarrier;

impl std::fmt::Display for NoMembarrier {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("the kernel does not offer expedited membarrier")
    }
}

impl std::error::Error for NoMembarrier {}

impl Barrier {
    /// A fence on both sides, which works everywhere.
    #[must_use]
    pub const fn fence() -> Barrier {
        Barrier(BarrierKind::Fence)
    }

    /// `membarrier` on the rare side and no instruction on the frequent side. It works only between
    /// threads of this process.
    ///
    /// The first call registers the process with the kernel; with many threads that can take
    /// milliseconds.
    ///
    /// # Errors
    /// The kernel has no `membarrier`, or a filter of system calls forbids it.
    pub fn process() -> Result<Barrier, NoMembarrier> {
        // Zero until the kernel has answered. Two threads may both ask the kernel, since it gives
        // both the same answer. This is an atomic because ThreadSanitizer does not see into std's
        // `Once`.
        static ANSWER: AtomicU32 = AtomicU32::new(0);
        const REFUSED: u32 = 1;
        const GRANTED: u32 = 2;
        // ORDER: pairs with the store below: a thread that sees the answer comes after the
        // registration.
        let mut answer = ANSWER.load(Acquire);
        if answer == 0 {
            answer = if register().is_ok() { GRANTED } else { REFUSED };
            // ORDER: pairs with the load above.
            ANSWER.store(answer, Release);
        }
        if answer == GRANTED { Ok(Barrier(BarrierKind::Process)) } else { Err(NoMembarrier) }
    }

    /// Whether this is the barrier of [`Barrier::process`].
    pub(crate) const fn is_process(self) -> bool {
        matches!(self.0, BarrierKind::Process)
    }

    /// Restores a barrier from the bit [`Barrier::is_process`] that the caller stored: true gives
    /// the barrier of [`Barrier::process`], which has been made before; false gives that of
    /// [`Barrier::fence`].
    #[inline(always)]
    pub(crate) const fn remembered(is_process: bool) -> Barrier {
        Barrier(if is_process { BarrierKind::Process } else { BarrierKind::Fence })
    }

    /// The barrier of the frequent side, between its store and its load. `name` is the name by
    /// which a model weakens the fence.
    #[inline(always)]
    pub fn light(self, name: &'static str) {
        if self.0 == BarrierKind::Fence || cfg!(any(loom, tsan)) {
            // ORDER: the caller names the partner, which calls `heavy`.
            fence(name);
        } else {
            // ORDER: pairs with the membarrier in `heavy`; only the compiler could reorder here.
            std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
        }
    }

    /// The barrier of the rare side, between its store and its load. `name` is the name by which a
    /// model weakens the fence.
    ///
    /// Aborts the process if the kernel refuses the `membarrier` that it granted before: continuing
    /// would be unsound, and unwinding would leave locks taken and memory half reclaimed.
    pub fn heavy(self, name: &'static str) {
        // ORDER: the caller names the partner, which calls `light`.
        fence(name);
        if self.0 == BarrierKind::Fence || cfg!(any(loom, tsan)) {
            return;
        }
        if let Err(error) = membarrier(MembarrierCommand::PrivateExpedited) {
            end_process(error);
        }
    }
}

#[cold]
fn end_process(error: rustix::io::Errno) -> ! {
    eprintln!(
        "forebay: the kernel granted membarrier and refuses it now ({error}); aborting the process"
    );
    std::process::abort();
}

fn register() -> Result<(), NoMembarrier> {
    if !membarrier_query().contains(MembarrierQuery::PRIVATE_EXPEDITED) {
        return Err(NoMembarrier);
    }
    membarrier(MembarrierCommand::RegisterPrivateExpedited).map_err(|_| NoMembarrier)
}

#[cfg(all(test, not(loom), not(tsan)))]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use super::{Barrier, BarrierKind};

    const IS_CHILD: &str = "FOREBAY_TEST_REFUSED_MEMBARRIER";
    const FENCE: &str = "test.refused";
    const SIGABRT: i32 = 6;

    #[test]
    fn a_membarrier_that_is_refused_ends_the_process() {
        if std::env::var_os(IS_CHILD).is_some() {
            // This process is not registered for `membarrier`: it runs only this test.
            Barrier(BarrierKind::Process).heavy(FENCE);
            return;
        }
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "barrier::tests::a_membarrier_that_is_refused_ends_the_process"])
            .arg("--nocapture")
            .env(IS_CHILD, "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&child.stderr);
        assert_eq!(child.status.signal(), Some(SIGABRT), "{said}");
        assert!(said.contains("refuses it now"), "{said}");
    }
}
