//! The two sides of publish-then-check, when one side is frequent and the other rare.
//!
//! Both sides store and then load what the other one stores. Without a barrier between, each may
//! miss the other. Either both execute a fence, or the rare side makes the kernel execute one on
//! every processor that runs a registered process (`membarrier`), and the frequent side only keeps
//! the compiler from reordering.

use std::sync::OnceLock;

use rustix::thread::{MembarrierCommand, membarrier, membarrier_query};

use crate::atomic::fence;

/// How the two sides are kept in order. Both sides of one protocol must use the same.
///
/// Who has one has made it: a `membarrier` passes over processes that are not registered for it, so
/// that the frequent side of a barrier that was merely named would be protected by nothing.
///
/// ```compile_fail,E0599
/// let barrier = forebay_sync::Barrier::Global;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Barrier(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Fence,
    /// This process is registered.
    Process,
    /// The same, among all processes that are.
    Global,
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
    /// A fence on both sides: works everywhere.
    #[must_use]
    pub const fn fence() -> Barrier {
        Barrier(Kind::Fence)
    }

    /// Nothing on the frequent side, `membarrier` on the rare one, among threads of this process.
    ///
    /// The kernel is asked once in a process; with many threads that can take milliseconds.
    ///
    /// # Errors
    /// The kernel has no `membarrier`, or a filter of system calls forbids it.
    pub fn process() -> Result<Barrier, NoMembarrier> {
        static MADE: OnceLock<Result<Barrier, NoMembarrier>> = OnceLock::new();
        let register = || register(MembarrierCommand::RegisterPrivateExpedited);
        *MADE.get_or_init(|| register().map(|()| Barrier(Kind::Process)))
    }

    /// The same among all processes that made this barrier: every process that takes part must have
    /// made one before it publishes.
    ///
    /// # Errors
    /// The kernel has no `membarrier`, or a filter of system calls forbids it.
    pub fn global() -> Result<Barrier, NoMembarrier> {
        static MADE: OnceLock<Result<Barrier, NoMembarrier>> = OnceLock::new();
        let register = || register(MembarrierCommand::RegisterGlobalExpedited);
        *MADE.get_or_init(|| register().map(|()| Barrier(Kind::Global)))
    }

    /// Is this the barrier of [`Barrier::process`]?
    pub(crate) const fn is_process(self) -> bool {
        matches!(self.0, Kind::Process)
    }

    /// The barrier of [`Barrier::process`], which the caller knows to have been made before, or that
    /// of [`Barrier::fence`]: for who keeps a bit in place of a barrier.
    #[inline(always)]
    pub(crate) const fn remembered(is_process: bool) -> Barrier {
        Barrier(if is_process { Kind::Process } else { Kind::Fence })
    }

    /// The frequent side, between its store and its load. `name` is that of a fence.
    #[inline(always)]
    pub fn light(self, name: &'static str) {
        if self.0 == Kind::Fence || cfg!(any(loom, tsan)) {
            // ORDER: the caller names the partner, which calls `heavy`.
            fence(name);
        } else {
            // ORDER: pairs with the membarrier in `heavy`; this keeps the compiler out of the way.
            std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
        }
    }

    /// The rare side, between its store and its load. `name` is that of a fence.
    ///
    /// Ends the process if the kernel refuses the `membarrier` that it granted before: to go on
    /// would be unsound, and who unwinds leaves locks taken and memory half reclaimed.
    pub fn heavy(self, name: &'static str) {
        // ORDER: the caller names the partner, which calls `light`.
        fence(name);
        let command = match self.0 {
            _ if cfg!(any(loom, tsan)) => return,
            Kind::Fence => return,
            Kind::Process => MembarrierCommand::PrivateExpedited,
            Kind::Global => MembarrierCommand::GlobalExpedited,
        };
        if let Err(error) = membarrier(command) {
            end_process(error);
        }
    }
}

#[cold]
fn end_process(error: rustix::io::Errno) -> ! {
    eprintln!("forebay: the kernel granted membarrier and refuses it now ({error}): ending");
    std::process::abort();
}

fn register(command: MembarrierCommand) -> Result<(), NoMembarrier> {
    let offered = match command {
        MembarrierCommand::RegisterGlobalExpedited => {
            rustix::thread::MembarrierQuery::GLOBAL_EXPEDITED
        }
        _ => rustix::thread::MembarrierQuery::PRIVATE_EXPEDITED,
    };
    if !membarrier_query().contains(offered) {
        return Err(NoMembarrier);
    }
    membarrier(command).map_err(|_| NoMembarrier)
}

#[cfg(all(test, not(loom), not(tsan)))]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use super::{Barrier, Kind};

    const IS_CHILD: &str = "FOREBAY_TEST_REFUSED_MEMBARRIER";
    const FENCE: &str = "test.refused";
    const SIGABRT: i32 = 6;

    #[test]
    fn a_membarrier_that_is_refused_ends_the_process() {
        if std::env::var_os(IS_CHILD).is_some() {
            // No one has registered this process: it runs nothing but this test.
            Barrier(Kind::Process).heavy(FENCE);
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
