//! Scripted client and origin over real sockets, the launched binary, and the checks of the tree.
//!
//! For tests only. Two things hold everywhere: nothing waits without a deadline, so a test never
//! hangs; and the parsers here share no code with the server's, so that they can disagree.
#![forbid(unsafe_code)]
#![expect(
    clippy::disallowed_types,
    reason = "tests are not profiled, and their scripts depend on nothing that they test"
)]

pub mod client;
pub mod clock;
pub mod compiler;
pub mod escape;
pub mod message;
pub mod origin;
pub mod process;
pub mod request;
pub mod response;
pub mod rng;
pub mod script;
pub mod server;
pub mod stop;
pub mod tidy;
pub mod vectors;
pub mod workers;

pub use client::{Broken, Client, End};
pub use clock::{Deadline, PATIENCE, eventually};
pub use compiler::has_compiler;
pub use origin::Origin;
pub use request::Request;
pub use response::Response;
pub use rng::Rng;
pub use script::{Gate, Script};
pub use server::{Server, ServerBuilder, Signal, assert_adds_up};
pub use stop::{StopFlag, StopGuard};
