//! The server: it accepts connections and answers requests, from the cache or from an origin.
//!
//! Read `flow.rs` first: it names the seven steps that a request takes. Each step is a folder of
//! the same name. Around them are the engine (threads, start, reload, stop), the admin interface,
//! the access log, traces, and one table each for settings, counters and events.
#![forbid(unsafe_code)]

mod accept;
mod acme;
mod admin;
mod admission;
mod buffers;
pub mod clock;
mod concurrency;
pub mod config;
mod connection;
pub mod counters;
mod deliver;
pub mod dns;
mod early_hints;
pub mod engine;
pub mod event_queue;
pub mod events;
mod explain;
mod fault;
mod fetch;
mod flow;
mod forwarding;
mod http2;
mod interim;
mod key;
mod limits;
mod log;
mod login;
mod lookup;
mod outcome;
mod output_budget;
mod pace;
mod parse;
mod poll_once;
mod purger;
mod rate_limits;
mod response;
mod rules;
mod secret;
mod send_queue;
mod signature;
mod site_counts;
mod store;
mod terminal;
mod trace;
mod transaction;
mod transport;
mod watched_task;
mod worker;
mod x509;

pub use key::{KeyText, shown_url, site_url_key, url_key};
pub use lookup::write_stored_head;
pub use signature::sign_urls;
pub use terminal::{escaped_line, escaped_text, steers_terminal};

#[cfg(test)]
mod sim;
#[cfg(test)]
mod tests;
