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
//! | `checker.rs` | checks of the server's memory during a run, and of everything at rest |
//! | `wire.rs` | connections in memory, behind the traits of `transport/` |
//! | `world.rs` | URLs, their versions and contents, and which version may still be served |
//! | `origin.rs`, `reply.rs` | the origin's connections and faults; its responses |
//! | `client.rs`, `answers.rs` | clients; their checks of each response |
//! | `blame.rs` | disturbances, which alone excuse an error |
//! | `rng.rs` | numbers from a seed |
//!
//! The promises, of which a run fails at the first one that is broken:
//! - A response is of the URL and the variant that was asked for, and whole unless it says
//!   otherwise; no two versions are mixed. No byte follows the last response of a connection.
//! - A version is served only while RFC 9111 allows it: as long as it is fresh, and not behind an
//!   acknowledged purge or a successful unsafe request.
//! - The origin gets each request body as its client sent it, and no byte of a body as a request.
//! - Every request ends within a limit of virtual time, from its first byte on, and so does every
//!   run. A client that stops in the middle of a request loses its connection.
//! - An error or a broken response has an excuse: the origin answered this URL with a fault, or
//!   refused a connection; the worker was restarted; the client paused.
//! - The parts of the store stay within their shares and are the budget together, every 50 ms; a
//!   send queue stays within the limit of its connection at each flush.
//! - At the end, while all workers still run: no connection, no request to the origin and no task
//!   is left, nothing is arriving or pinned. Then the workers end, and the store is sound.
//! - No task panics: of a worker, the purger, the origin or a client.

mod answers;
mod blame;
mod checker;
mod client;
mod origin;
mod reply;
mod rng;
mod run;
mod scenario;
mod server;
mod tests;
mod wire;
mod world;
