//! Support for tests: a scripted client and origin over real sockets, a launcher of the real
//! server, and the checks of the source tree.
//!
//! Two invariants hold everywhere. Every wait has a deadline, so that a test never hangs. The
//! parsers here share no code with the server's parsers, so that tests find a mistake in the
//! server's.
#![forbid(unsafe_code)]
#![expect(
    clippy::disallowed_types,
    reason = "tests are not profiled, and their scripts depend on nothing that they test"
)]

pub mod client;
pub mod clock;
pub mod compiler;
pub mod dns;
pub mod escape;
pub mod hit_client;
pub mod message;
pub mod origin;
pub mod pipe;
pub mod process;
pub mod ranged_file;
pub mod request;
pub mod response;
pub mod rng;
pub mod script;
pub mod server;
pub mod stop;
pub mod tidy;
pub mod tls;
pub mod vectors;
pub mod workers;

pub use client::{Broken, Client, End};
pub use clock::{Deadline, PATIENCE, eventually};
pub use compiler::has_compiler;
pub use dns::{DnsMode, DnsRecord, DnsServer};
pub use hit_client::{ClientVersion, HitClient, HitRequest};
pub use origin::Origin;
pub use ranged_file::RangedFile;
pub use request::Request;
pub use response::Response;
pub use rng::Rng;
pub use script::{Gate, Script};
pub use server::{Server, ServerBuilder, Signal, assert_adds_up};
pub use stop::{StopFlag, StopGuard};
pub use tls::{IssuedCertificate, TestAuthority, TlsClient};
