//! Live upgrade: a new process takes over from a running server, without a request that fails.
//!
//! Every server listens at the Unix socket `PORT.upgrade` in its runtime directory. A process
//! that was started to take over speaks there with the running one:
//!
//! ```text
//! new                                   old
//!  Hello ───────────────────────────────►   version, listen address, cache directory
//!  ◄─────────────────────── Offer or Refused
//!  ◄──────────────────────────── Descriptors   sockets, the cache directory's lock; in pieces
//!  (makes everything it needs)
//!  Ready ───────────────────────────────►
//!  ◄───────────────────────── Yours or Refused
//! ```
//!
//! - A new process that has a store of its own says so with `Ready`: from before `Yours` on the old
//!   one answers nothing from its store, since purges reach the new one's only.
//! - `Yours` is the moment. Until it is written the old process does as if nothing happened, and
//!   the new one does nothing that others see: it accepts nothing, names no file, removes none.
//!   From then on the new one accepts, and the old one finishes what it has.
//! - Writing it succeeds only if the new process can still read it: the kernel decides on both at
//!   once. Who gives up waiting first closes its reading side, then looks once more.
//! - Listening sockets are shared, not made anew: no queue is ever without a descriptor. So are
//!   the sockets for admin and for upgrades, which keep their names.
//! - Every wait has an end, every message a limit, on both sides. The other side must be of our
//!   own user.

mod message;
mod new_process;
mod old_process;
mod wire;

pub(super) use message::{Readiness, UpgradeTotals};
pub use new_process::UpgradeError;
pub(super) use new_process::{InheritedSockets, Predecessor};
pub(super) use old_process::{Handover, HandoverOutcome, serve_upgrades};

/// Changes with the meaning of a message; a running server refuses other versions than its own.
const VERSION: u32 = 2;
