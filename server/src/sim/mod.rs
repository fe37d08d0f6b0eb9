//! A whole server in virtual time: the code of real workers over connections in memory, with
//! clients and origins that one seed scripts.
//!
//! One thread and one clock run everything, and time passes only while everything waits, so that
//! minutes take milliseconds and a seed always plays the same run. A checker knows the history of
//! each URL and a cache's promises about it.
//!
//! | file | holds |
//! |---|---|
//! | `scenario.rs` | the acts of a run, made from a seed; shortening a failing list of acts |
//! | `run.rs` | a run: clock, acts, the end |
//! | `server.rs` | workers on one store, and their settings |
//! | `wire.rs` | connections in memory, behind the traits of `transport/` |
//! | `world.rs` | URLs, their versions and contents, and which version may still be served |
//! | `origin.rs` | origins, and their faults |
//! | `client.rs` | clients, and their checks |
//! | `rng.rs` | numbers from a seed |
//!
//! The promises, of which a run fails at the first one that is broken:
//! - A response is of the URL and the variant that was asked for, and whole unless it says
//!   otherwise; no two versions are mixed.
//! - A version is served only while RFC 9111 allows it: as long as it is fresh, and not behind an
//!   acknowledged purge or a successful unsafe request.
//! - Every request ends within a limit, and a client that stops in the middle of a request loses
//!   its connection.
//! - Without faults there is no error and no broken response.
//! - At the end no connection is open, nothing is pinned, and the store is sound and within its
//!   budget.

mod client;
mod origin;
mod rng;
mod run;
mod scenario;
mod server;
mod tests;
mod wire;
mod world;
