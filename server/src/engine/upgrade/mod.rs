//! Live upgrade: a new process takes over from a running server without failing a request.
//!
//! Every server listens at the Unix socket `PORT.upgrade` in its runtime directory. A process that
//! was started to take over connects there:
//!
//! ```text
//! new                                   old
//!  Hello ───────────────────────────────►   version, listen address, cache directory
//!  ◄─────────────────────── Offer or Refused
//!  ◄──────────────────────────── Descriptors   sockets, the cache directory's lock; in pieces
//!  (prepares everything)
//!  Ready ───────────────────────────────►
//!  ◄───────────────────────── Yours or Refused
//! ```
//!
//! - A new process with a store of its own says so in `Ready`. The old process then stops answering
//!   from its store before it sends `Yours`, because purges reach only the new store.
//! - `Yours` is the handover. Until the old process writes it, the old process serves as before,
//!   and the new process accepts no connection, and names or removes no file. From then on the new
//!   process accepts connections, and the old process finishes its requests.
//! - Both processes agree on the outcome: writing `Yours` succeeds only if the new process can
//!   still read it. A new process that gives up waiting closes its reading side, so that the kernel
//!   refuses further writes of the old process, and then reads whatever was written before.
//! - Listening sockets are shared, not bound again, so every accept queue has a descriptor at all
//!   times. The sockets for admin and for upgrades are shared too, and keep their names.
//! - On both sides every wait and every message has a limit. Both processes must run as one user.

mod message;
mod new_process;
mod old_process;
mod wire;

pub(super) use message::{Readiness, UpgradeTotals};
pub use new_process::UpgradeError;
pub(super) use new_process::{InheritedSockets, Predecessor};
pub(super) use old_process::{Handover, HandoverOutcome, serve_upgrades};

/// The version of the protocol. It changes with the form or meaning of any message. A running
/// server refuses a process with another version.
const VERSION: u32 = 3;
