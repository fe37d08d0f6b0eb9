//! Certificates by ACME (RFC 8555): orders and renews the certificates of sites with `acme`.
//!
//! A thread of its own does all of this ([`AcmeThread`]), because it writes files, signs, and waits
//! for the certificate authority. It reports to the control thread, which gives new certificates
//! and the answers to challenges ([`Challenges`]) to the workers. Invariants:
//!
//! - A certificate is replaced only by one that has been checked and is on disk ([`AcmeStorage`]).
//!   Whatever the authority answers, the certificate in use stays in use.
//! - Only the holder of the directory's lock orders a certificate. It looks at the files again
//!   under the lock, so several processes can share the directory.
//! - Before an order begins, a file says when the next one may follow, and the time of the
//!   certificate's file does after it. So neither a process that is killed again and again nor
//!   several processes can flood the authority with orders.
//! - A file that cannot be read is no reason for an order or for another account.
//! - Every answer of the authority is bounded in size and time ([`client`]).

mod certificate_file;
mod challenges;
mod client;
mod failure;
mod keeper;
mod order;
mod progress;
mod renewal;
mod schedule;
mod status;
mod storage;
mod thread;

pub(crate) use challenges::Challenges;
pub(crate) use schedule::is_near_end;
pub use status::CertificateStatus;
pub(crate) use thread::{AcmePlan, AcmeReport, AcmeThread};
