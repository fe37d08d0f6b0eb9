//! The reader-biased reader-writer lock of Dice and Kogan (BRAVO, USENIX ATC 2019).
//!
//! While a lock is biased, a reader does not touch the underlying lock: it writes the lock's word
//! into a slot of its own and checks that the bias is still on. A writer takes the underlying lock,
//! switches the bias off and waits until no slot shows the lock. Reasons and figures:
//! `docs/why/bravo.md`.
//!
//! Policy:
//! - **A thread that reads must not read the same lock again** unless by `try_read`: a second
//!   `read` hangs if a writer waits, as with most reader-writer locks.
//! - **No upgrade**: two readers that want to become the writer would wait for each other. So
//!   [`lock_api::RawRwLockUpgrade`] is not implemented, whatever the underlying lock offers.
//! - A writer that has the underlying lock switches the bias off and waits for the readers that
//!   have slots; later readers queue at the underlying lock.
//!
//! ```
//! use forebay_sync::bravo::{Bravo, SharedTable};
//! let lock = lock_api::RwLock::<Bravo<parking_lot::RawRwLock, SharedTable>, u32>::new(0);
//! let guard = lock.read();
//! ```
//! ```compile_fail,E0599
//! use forebay_sync::bravo::{Bravo, SharedTable};
//! let lock = lock_api::RwLock::<Bravo<parking_lot::RawRwLock, SharedTable>, u32>::new(0);
//! let guard = lock.upgradable_read();
//! ```
//!
//! Invariants:
//! - `state` is written only by a thread that holds the underlying lock. A reader may switch the
//!   bias on. A writer may switch it off, and switches it on again if it stops waiting for readers.
//!   So a writer that takes the underlying lock and finds the bias off is alone.
//! - A read guard records whether it is a slot or a guard of the underlying lock.

mod clock;
#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, loom))]
mod port_model;
mod raw;
mod reader;
mod state;
mod table;
#[cfg(all(test, not(loom)))]
mod tests;
mod wait;
mod writer;

use crate::atomic::{AtomicU64, Relaxed};

pub use raw::SharedHold;
pub use table::{
    ByStore, BySwap, Claim, OwnTable, SHARED_ROW_COUNT, SLOT_COUNT, SharedTable, SlotRow, SlotTable,
};

/// Makes the barrier of all locks whose readers claim slots by a store ([`ByStore`]). Without this
/// call, the first such reader makes the barrier while it holds its lock.
///
/// The kernel needs milliseconds for this if threads run on other processors, and almost no time if
/// the process has only one thread. So a program calls this function before it starts its threads.
pub fn prepare() {
    ByStore::barrier();
}

/// A reader-writer lock whose readers skip the underlying lock `R` while no writer comes; `S` is
/// the table of their slots.
///
/// | field | written by | read by |
/// |---|---|---|
/// | `state` | a reader or writer that holds the underlying lock | all threads |
/// | `inhibit_until` | a writer | readers that hold the underlying lock |
/// | `inhibit_factor` | never | writers |
/// | `table` | readers, each in its own slots | writers that switched the bias off |
#[derive(Debug)]
pub struct Bravo<R, S = SharedTable> {
    /// The state word; see [`state`] for its bits.
    state: AtomicU64,
    /// No reader switches the bias on before this time, in nanoseconds of [`clock::now_ns`].
    inhibit_until: AtomicU64,
    inhibit_factor: u32,
    table: S,
    underlying: R,
}

/// The default inhibit factor: after a revocation, the bias stays off for this many times the
/// duration of the revocation.
pub const INHIBIT_FACTOR_DEFAULT: u32 = 9;

impl<R, S> Bravo<R, S> {
    /// A free lock over `underlying`, whose biased readers claim slots in `table`. Nothing else may
    /// take `underlying`.
    #[cfg(not(loom))]
    pub const fn new(underlying: R, table: S) -> Bravo<R, S> {
        let [state, inhibit_until] = [const { AtomicU64::new(0) }; 2];
        Bravo { state, inhibit_until, inhibit_factor: INHIBIT_FACTOR_DEFAULT, table, underlying }
    }

    /// A free lock over `underlying`, whose biased readers claim slots in `table`. Nothing else may
    /// take `underlying`.
    #[cfg(loom)]
    pub fn new(underlying: R, table: S) -> Bravo<R, S> {
        let [state, inhibit_until] = std::array::from_fn(|_| AtomicU64::new(0));
        Bravo { state, inhibit_until, inhibit_factor: INHIBIT_FACTOR_DEFAULT, table, underlying }
    }

    /// Sets the inhibit factor: after a revocation, the bias stays off for `factor` times the
    /// duration of the revocation.
    ///
    /// So writers spend at most one part in `factor + 1` of the time on revocations: 10 % with the
    /// default of 9. With a factor of zero, the first reader after a revocation switches the bias
    /// on again.
    #[must_use]
    pub const fn with_inhibit_factor(mut self, factor: u32) -> Bravo<R, S> {
        self.inhibit_factor = factor;
        self
    }

    /// Whether readers may skip the underlying lock. For tools: the answer may be out of date.
    pub fn is_biased(&self) -> bool {
        self.state.load(Relaxed) & state::BIAS != 0
    }
}
