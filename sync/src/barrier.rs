//! The two sides of publish-then-check, when one side is frequent and the other rare.
//!
//! Both sides store and then load what the other one stores. Without a barrier between, each may
//! miss the other. Either both execute a fence, or the rare side makes the kernel execute one on
//! every processor that runs a registered process (`membarrier`), and the frequent side only keeps
//! the compiler from reordering.

use rustix::thread::{MembarrierCommand, membarrier, membarrier_query};

use crate::atomic::fence;

/// How the two sides are kept in order. Both sides of one protocol must use the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Barrier {
    /// A fence on both sides: works everywhere.
    Fence,
    /// Nothing on the frequent side, `membarrier` on the rare one, among threads of this process.
    Process,
    /// The same among all processes that made this barrier.
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
    /// [`Barrier::Process`] for this process.
    ///
    /// # Errors
    /// The kernel has no `membarrier`, or a filter of system calls forbids it.
    pub fn process() -> Result<Barrier, NoMembarrier> {
        register(MembarrierCommand::RegisterPrivateExpedited)?;
        Ok(Barrier::Process)
    }

    /// [`Barrier::Global`]; every process that takes part must have made one before it publishes.
    ///
    /// # Errors
    /// The kernel has no `membarrier`, or a filter of system calls forbids it.
    pub fn global() -> Result<Barrier, NoMembarrier> {
        register(MembarrierCommand::RegisterGlobalExpedited)?;
        Ok(Barrier::Global)
    }

    /// The frequent side, between its store and its load. `name` is that of a fence.
    #[inline(always)]
    pub fn light(self, name: &'static str) {
        if self == Barrier::Fence || cfg!(any(loom, tsan)) {
            // ORDER: the caller names the partner, which calls `heavy`.
            fence(name);
        } else {
            // ORDER: pairs with the membarrier in `heavy`; this keeps the compiler out of the way.
            std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
        }
    }

    /// The rare side, between its store and its load. `name` is that of a fence.
    ///
    /// # Panics
    /// If the kernel refuses the `membarrier` that it granted before: to go on would be unsound.
    pub fn heavy(self, name: &'static str) {
        // ORDER: the caller names the partner, which calls `light`.
        fence(name);
        let command = match self {
            _ if cfg!(any(loom, tsan)) => return,
            Barrier::Fence => return,
            Barrier::Process => MembarrierCommand::PrivateExpedited,
            Barrier::Global => MembarrierCommand::GlobalExpedited,
        };
        if let Err(error) = membarrier(command) {
            panic!("membarrier was registered and is now refused: {error}");
        }
    }
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
