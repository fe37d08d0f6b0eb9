//! A whole server in virtual time: the code of real workers over connections in memory, with
//! clients and origins whose behaviour follows from a single seed.
//!
//! One thread and one clock run everything. Virtual time passes only while all tasks wait, so
//! minutes of virtual time take milliseconds, and a seed always plays the same run. A checker knows
//! the history of each URL, and the promises that a cache makes about the URL.
//!
//! | file | holds |
//! |---|---|
//! | `scenario.rs` | the acts of a run, made from a seed; the shortening of a failing list |
//! | `run.rs` | a run: its clock, its acts and its end |
//! | `server.rs` | workers on one store, and their settings |
//! | `checker.rs` | checks of the server's memory during a run, and of its state at rest |
//! | `wire.rs` | connections in memory, behind the traits of `transport/` |
//! | `world.rs` | URLs, their versions and contents, and which version may still be served |
//! | `origin.rs`, `origin_fault.rs`, `reply.rs` | the origin's connections, faults and responses |
//! | `flaps.rs` | several origins, which fail now and then; the log of the requests that they get |
//! | `client.rs`, `sending.rs` | clients; their requests |
//! | `http2_act.rs`, `http2_client.rs`, `http2_state.rs`, `http2_frames.rs` | clients of HTTP/2 |
//! | `answers.rs` | the checks of each response |
//! | `ranges.rs`, `hints.rs` | the checks of parts of a response, and of hints before a response |
//! | `ideal.rs` | a cache with unlimited room, as RFC 9111 permits it |
//! | `heads.rs` | responses to HEAD that contradict stored responses |
//! | `missed.rs` | the requests that `ideal.rs` could have answered but the server did not |
//! | `attack.rs` | hostile clients |
//! | `http2_attack.rs` | hostile clients that send random frames of HTTP/2 |
//! | `poison.rs` | hostile clients that try to have a wrong response stored |
//! | `beside.rs` | hostile clients that delay other clients |
//! | `attacked.rs` | the origin's responses to hostile clients |
//! | `guarded.rs` | sites whose routes serve only some requests |
//! | `guarded_origin.rs` | the origins of these sites |
//! | `routed.rs`, `signed.rs`, `in_progress.rs` | the clients of these sites |
//! | `guarded_http2.rs` | the connections of those clients that use HTTP/2 |
//! | `tunnels.rs` | tunnels over HTTP/2: their clients and their origin |
//! | `paths.rs` | the paths that some seed must take |
//! | `blame.rs` | the log of disturbances, which excuse errors |
//! | `rng.rs` | pseudo-random numbers from a seed |
//! | `silent_origin.rs` | tests of minutes of silence, which follow from no seed |
//!
//! A run fails as soon as one of these promises is broken:
//! - A response belongs to the requested URL and variant, and is whole unless it says otherwise. It
//!   does not mix two versions. No byte follows the last response of a connection.
//! - Over HTTP/2, all this holds for each stream of a connection. The frames obey RFC 9113 and the
//!   client's windows, and END_STREAM follows only a whole response.
//! - A version is served only while RFC 9111 permits it: while it is fresh, and until a purge or a
//!   successful unsafe request for its URL is acknowledged.
//! - A request for several ranges gets parts that are right to the byte. A 103 has links that the
//!   origin sent during the request, or links of a stored version that the client is allowed to
//!   see.
//! - After a HEAD has contradicted a stored response, that response is not used as fresh.
//! - If at least one of several origins works, a request with a method that may be repeated
//!   succeeds. One origin gets a request at most twice, and all origins together get a POST only
//!   once.
//! - A request gets no response that belongs to another route, whatever fields, parameters and
//!   cookies it has, and no response of a route with such conditions is stored.
//! - A request without a valid signature, or from an address or at a listener that the page is not
//!   for, reaches no origin and gets no content, not even from the cache.
//! - The origin has no more requests in progress than `concurrency_limit` permits. A request is
//!   refused and counted only if the limit is reached. At the end, no request is in progress.
//! - The answer of the origin is not read for long after its only client has left, or has reset its
//!   stream.
//! - The bytes in a tunnel over HTTP/2 are right in both directions. END_STREAM follows only an
//!   orderly end of the origin.
//! - The origin gets each request body as its client sent it, and gets no byte of a body as a
//!   request.
//! - Every request ends within a limit of virtual time after its first byte, and so does every run.
//!   A client that stops in the middle of a request loses its connection.
//! - An error or a broken response has an excuse: the origin answered a request for its URL with a
//!   fault, or refused a connection; the worker was restarted; or the client paused. Hostile
//!   clients are no excuse.
//! - At each sample (every 50 ms), the parts of the store are within their shares, and add up to
//!   the budget of the store. At each flush, a send queue is within the limit of its connection.
//! - At the end of a run, while all workers still run, there is no connection, no exchange with the
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
mod guarded;
mod guarded_http2;
mod guarded_origin;
mod heads;
mod hints;
mod http2_act;
mod http2_attack;
mod http2_client;
mod http2_frames;
mod http2_state;
mod ideal;
mod in_progress;
mod missed;
mod origin;
mod origin_fault;
mod paths;
mod poison;
mod ranges;
mod reply;
mod rng;
mod routed;
mod run;
mod scenario;
mod sending;
mod server;
mod signed;
mod silent_origin;
mod tests;
mod tunnels;
mod wire;
mod world;
