//! A whole server in virtual time: the code of real workers over connections in memory, with
//! clients and origins whose behaviour follows from one seed.
//!
//! One thread and one clock run everything. Virtual time passes only while all tasks wait, so that
//! minutes take milliseconds, and a seed always plays the same run. A checker knows the history of
//! each URL and the promises of a cache about it.
//!
//! | file | holds |
//! |---|---|
//! | `scenario.rs` | the acts of a run, made from a seed; the shortening of a failing list |
//! | `run.rs` | a run: its clock, its acts and its end |
//! | `server.rs` | workers on one store, and their settings |
//! | `checker.rs` | checks of the server's memory during a run, and of its state at rest |
//! | `wire.rs` | connections in memory, behind the traits of `transport/` |
//! | `world.rs` | URLs, their versions and contents, and which version may still be served |
//! | `origin.rs`, `reply.rs` | the origin's connections and faults; its responses |
//! | `flaps.rs` | several origins, which fail now and then; the log of the requests that they get |
//! | `client.rs`, `sending.rs` | clients; their requests |
//! | `answers.rs` | the checks of each response |
//! | `ranges.rs`, `hints.rs` | the checks of its parts, and of the hints before it |
//! | `ideal.rs` | a cache with unlimited room, as RFC 9111 permits it |
//! | `heads.rs` | responses to HEAD that contradict stored responses |
//! | `missed.rs` | the listing of requests that it could have answered, and the server did not |
//! | `attack.rs` | hostile clients |
//! | `poison.rs` | those that want a wrong response stored |
//! | `beside.rs` | those that hold up other clients |
//! | `attacked.rs` | the origin's responses to them |
//! | `paths.rs` | the paths that some seed must take |
//! | `blame.rs` | the log of disturbances, which excuse errors |
//! | `rng.rs` | pseudo-random numbers from a seed |
//!
//! A run fails at the first promise that is broken. The promises are:
//! - A response belongs to the requested URL and variant, and is whole unless it says otherwise. It
//!   does not mix two versions. No byte follows the last response of a connection.
//! - A version is served only while RFC 9111 allows it: while it is fresh, and until a purge or a
//!   successful unsafe request for its URL is acknowledged.
//! - Several ranges get parts that are right to the byte. A 103 has links that the origin sent
//!   during the request, or those of a stored version that the request may know.
//! - A stored response is not used as fresh after a HEAD has contradicted it.
//! - If one of several origins works, a request with a method that may be repeated succeeds. An
//!   origin gets a request at most twice, and all of them together get a POST once.
//! - The origin gets each request body as its client sent it, and no byte of a body as a request.
//! - Every request ends within a limit of virtual time after its first byte, and so does every run.
//!   A client that stops in the middle of a request loses its connection.
//! - An error or a broken response has an excuse: the origin answered a request for its URL with a
//!   fault, or refused a connection; the worker was restarted; or the client paused. Hostile
//!   clients are no excuse.
//! - Whenever they are sampled (every 50 ms), the parts of the store are within their shares and
//!   add up to the budget. A send queue is within the limit of its connection at each flush.
//! - At the end of a run, while all workers still run, there is no connection, no request to the
//!   origin and no task of a request, and no response is arriving or pinned. After the workers have
//!   ended, the store is sound.
//! - No task of a worker, the purger, the origin or a client panics.

mod answers;
mod attack;
mod attacked;
mod beside;
mod blame;
mod checker;
mod client;
mod flaps;
mod heads;
mod hints;
mod ideal;
mod missed;
mod origin;
mod paths;
mod poison;
mod ranges;
mod reply;
mod rng;
mod run;
mod scenario;
mod sending;
mod server;
mod tests;
mod wire;
mod world;
