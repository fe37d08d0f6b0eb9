//! The two sides of publish-then-check, when one side is frequent and the other rare.
//!
//! Both sides store and then load what the other one stores. Without a barrier between, each may
//! miss the other. Either both execute a fence, or the rare side makes the kernel execute one on
//! every processor that runs a registered process (`membarrier`), and the frequent side only keeps
//! the compiler from reordering.
//!
//! Between processes there is only the fence. The kernel's expedited `membarrier` for all
//! registered processes skips processors that it must not skip: when a thread ends, the kernel
//! marks its processor as one without a registered process, and a switch to another thread of the
//! same process, which changes no memory map, leaves that mark (seen with Linux 6.18).
//! `MEMBARRIER_CMD_GLOBAL`, which has no such list, takes 10 to 30 ms.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Release};

use rustix::thread::{MembarrierCommand, MembarrierQuery, membarrier, membarrier_query};

use crate::atomic::fence;

/// The barrier that keeps the two sides in order. Both sides of one protocol must use the same.
///
/// A `Barrier` can only be made by its constructors, since the kernel refuses `membarrier` to
/// processes that never registered.
///
/// ```compile_fail,E0599
/// let barrier = forebay_sync::Barrier::Process;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Barrier(BarrierKind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BarrierKind {
    Fence,
    /// This process is registered.
    Process,
}

/// The kernel has no such `membarrier`.
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

    /// No instruction on the frequent side and `membarrier` on the rare side, among the threads of
    /// this process.
    ///
    /// Each process registers once with the kernel; with many threads that can take milliseconds.
    ///
    /// # Errors
    /// The kernel has no `membarrier`, or a filter of system calls forbids it.
    pub fn process() -> Result<Barrier, NoMembarrier> {
        // Zero: not asked yet. Two threads may both ask, since the second answer is the same. This
        // is an atomic because ThreadSanitizer does not see into std's `Once`.
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

    /// The barrier that a stored bit stands for: that of [`Barrier::process`], which the caller has
    /// made before, or that of [`Barrier::fence`].
    #[inline(always)]
    pub(crate) const fn remembered(is_process: bool) -> Barrier {
        Barrier(if is_process { BarrierKind::Process } else { BarrierKind::Fence })
    }

    /// The barrier of the frequent side, between its store and its load. `name` is the name of the
    /// fence.
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

    /// The barrier of the rare side, between its store and its load. `name` is the name of the
    /// fence.
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
    eprintln!("forebay: the kernel granted membarrier and refuses it now ({error}): ending");
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
            // No one has registered this process: it runs nothing but this test.
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
