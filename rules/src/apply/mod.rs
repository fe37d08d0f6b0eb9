//! Applies rules to a message: prepares the context in which they run, and carries out their
//! effects.
//!
//! A server uses this module, and so do the tools that try rules without a server. So `forebay
//! rules explain` shows exactly the behaviour of a server.
//!
//! | hook | function | applies rules to |
//! |---|---|---|
//! | `ReadRequest`, `Remap` | [`rule_request`] | the client's request |
//! | `SendRequest` | [`rule_outgoing`] | the fields of the request to the origin |
//! | `ReadResponse` | [`rule_incoming`] | the origin's answer |
//! | `SendResponse` | [`rule_answer`] | the head of the response to the client |
//!
//! Each function takes the code that runs the program as an argument, so that a server can measure
//! the run and a tool can record it.

mod answer;
mod error;
mod message;
mod request;
mod response;

pub use answer::{OwnAnswer, body_of};
pub use error::ApplyError;
pub use message::{MessageLimits, RequestView, RuleScratch, RuledMessage};
pub use request::{RequestText, RuledRequest, rule_request};
pub use response::{AnswerHead, rule_answer, rule_incoming, rule_outgoing};
