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
//! - `Yours` is the handover. Until it is written, the old process serves as before, and the new
//!   process changes nothing that others can see: it accepts nothing, and names or removes no file.
//!   From then on the new process accepts, and the old one finishes its requests.
//! - Writing `Yours` succeeds only if the new process can still read it: the kernel decides both at
//!   once. A new process that gives up waiting closes its reading side, then reads once more.
//! - Listening sockets are shared, not bound again: no accept queue is ever without a descriptor.
//!   The sockets for admin and for upgrades are shared too, and keep their names.
//! - On both sides every wait and every message has a limit. The other side must run as our user.

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
